//! Where memory is measured: a client pod and a server pod with nginx, and between them Leno or HAProxy.
//!
//! HAProxy is captured as Leno is: by REDIRECT on both sides, running as a user whose own traffic passes.

use anyhow::{Context as _, Result, ensure};
use leno_tests::authority::{Authority, Leaf};
use leno_tests::binaries::PROXY_USER;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::namespace::Namespace;
use leno_tests::proc;
use leno_tests::program::{Program, Running};
use leno_tests::wait::LIMIT;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Where nginx listens, and what the client connects to.
const PORT: u16 = 8080;
/// Where the HAProxys listen, in their pods.
const HAPROXY_OUT_PORT: u16 = 4140;
const HAPROXY_IN_PORT: u16 = 4143;
/// What nginx answers with.
pub(super) const BODY_BYTES: usize = 200;
const CLIENT: &str = "client";
const SERVER: &str = "server";

/// One arrangement, running. Programs end before their namespaces.
pub(super) struct Bed {
    /// What stands between client and server.
    pub(super) name: &'static str,
    haproxys: Vec<Running>,
    _server: Running,
    mesh: Mesh,
}

/// A leno-proxy in each pod.
pub(super) fn leno() -> Result<Bed> {
    start("leno", Meshed::Yes)
}

/// A HAProxy in each pod.
pub(super) fn haproxy() -> Result<Bed> {
    let mut bed = start("haproxy", Meshed::No)?;
    let directory = bed.mesh.directory();
    let authority = Authority::new("bench");
    std::fs::write(directory.join("anchor.pem"), authority.pem())?;
    let server = bed.mesh.pod(SERVER).addresses.v4;
    let bundle = |pod: &str| format!("{}/{pod}.pem", directory.display());
    let anchor = directory.join("anchor.pem");
    let mutual =
        |pod: &str| format!("ssl crt {} ca-file {} verify required", bundle(pod), anchor.display());
    let parts = [
        (
            CLIENT,
            HAPROXY_OUT_PORT,
            String::new(),
            format!("{} verifyhost {SERVER}.test sni str({SERVER}.test)", mutual(CLIENT)),
        ),
        (SERVER, HAPROXY_IN_PORT, mutual(SERVER), String::new()),
    ];
    let mut haproxys = Vec::new();
    for (pod, port, listening, connecting) in parts {
        let issued = authority.issue(&Leaf::dns(&format!("{pod}.test")));
        std::fs::write(bundle(pod), format!("{}{}", issued.pem(), issued.key_pem()))?;
        nix::unistd::chown(Path::new(&bundle(pod)), Some(PROXY_USER.into()), None)?;
        let configuration = directory.join(format!("haproxy-{pod}.cfg"));
        std::fs::write(
            &configuration,
            format!(
                "global\n nbthread 1\n maxconn 8000\n ssl-default-bind-options ssl-min-ver TLSv1.3\n \
                 ssl-default-server-options ssl-min-ver TLSv1.3\n\
                 defaults\n mode http\n http-reuse always\n timeout connect 5s\n timeout client 300s\n \
                 timeout server 300s\n timeout http-keep-alive 300s\n\
                 frontend in\n bind 0.0.0.0:{port} {listening}\n default_backend out\n\
                 backend out\n server one {server}:{PORT} {connecting}\n"
            ),
        )?;
        let namespace = &bed.mesh.pod(pod).namespace;
        redirect(namespace)?;
        let mut running = Program::new("haproxy")
            .args([Path::new("-db"), Path::new("-f"), &configuration])
            .user(PROXY_USER)
            .start(namespace)
            .context("Debian: haproxy")?;
        listens(namespace, port, &mut running)?;
        haproxys.push(running);
    }
    bed.haproxys = haproxys;
    Ok(bed)
}

fn start(name: &'static str, meshed: Meshed) -> Result<Bed> {
    let plan = Plan::new().pod(CLIENT).pod(SERVER).service(SERVER, [PORT], &[SERVER]);
    let mesh = plan.try_start(&format!("bench-{name}"), meshed)?;
    let server = nginx(&mesh).with_context(|| format!("nginx of bed {name}"))?;
    Ok(Bed { name, haproxys: Vec::new(), _server: server, mesh })
}

fn nginx(mesh: &Mesh) -> Result<Running> {
    let root = mesh.directory().join("nginx");
    std::fs::create_dir(&root)?;
    let configuration = root.join("nginx.conf");
    let root = root.display();
    let body = "x".repeat(BODY_BYTES);
    std::fs::write(
        &configuration,
        format!(
            "daemon off; master_process off; worker_processes 1; pid {root}/pid; error_log stderr warn;
            user root; events {{ worker_connections 8000; }}
            http {{
              access_log off; default_type text/plain; keepalive_requests 1000000000; keepalive_timeout 300s;
              client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;
              fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
              server {{ listen [::]:{PORT} ipv6only=off backlog=4096; location / {{ return 200 {body}; }} }}
            }}"
        ),
    )?;
    let namespace = &mesh.pod(SERVER).namespace;
    let mut server = Program::new("nginx")
        .args([Path::new("-c"), &configuration, Path::new("-e"), Path::new("stderr")])
        .start(namespace)
        .context("Debian: nginx-light")?;
    listens(namespace, PORT, &mut server)?;
    Ok(server)
}

/// What `leno-proxy capture apply` does, for HAProxy.
fn redirect(namespace: &Namespace) -> Result<()> {
    let rules = format!(
        "table ip capture {{
           chain outbound {{
             type nat hook output priority -100;
             meta skuid {PROXY_USER} return
             oifname lo return
             ip protocol tcp redirect to :{HAPROXY_OUT_PORT}
           }}
           chain inbound {{
             type nat hook prerouting priority -100;
             iifname lo return
             ip protocol tcp redirect to :{HAPROXY_IN_PORT}
           }}
         }}"
    );
    Program::new("nft").args(["-f", "-"]).input(rules).output(namespace, LIMIT)?;
    Ok(())
}

/// Waits until the program listens; over the pod's loopback, which is not captured.
fn listens(namespace: &Namespace, port: u16, program: &mut Running) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let deadline = Instant::now() + LIMIT;
    while namespace.run(|| TcpStream::connect(address)).is_err() {
        let ended = program.ended().is_some() || Instant::now() > deadline;
        ensure!(!ended, "nobody listens on port {port}:\n{}", program.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

impl Bed {
    /// Where the client runs.
    pub(super) fn client(&self) -> &Namespace {
        &self.mesh.pod(CLIENT).namespace
    }

    /// What the client connects to: the service.
    pub(super) fn address(&self) -> SocketAddr {
        (self.mesh.service(SERVER).addresses.v4, PORT).into()
    }

    /// The proxies: the client's, then the server's.
    fn pids(&self) -> Vec<i32> {
        let ours = [CLIENT, SERVER].into_iter().filter_map(|pod| self.mesh.pod(pod).proxy());
        ours.chain(&self.haproxys).map(Running::pid).collect()
    }

    /// The control plane, where there is one.
    pub(super) fn control(&self) -> Option<i32> {
        self.mesh.control().map(Running::pid)
    }

    /// KiB resident of each proxy.
    pub(super) fn resident(&self) -> Result<Vec<u64>> {
        self.pids().into_iter().map(|pid| Ok(proc::memory(pid)?.resident)).collect()
    }

    /// Proof that Leno's figures are those of mutual TLS between two proxies.
    pub(super) fn check(&self) -> Result<()> {
        if self.mesh.pod(CLIENT).proxy().is_none() {
            return Ok(());
        }
        for (pod, direction) in [(CLIENT, "outbound"), (SERVER, "inbound")] {
            let metrics = self.mesh.pod(pod).metrics();
            let labels = [("direction", direction), ("tls", "true")];
            let requests = metrics.sum("request_total", &labels);
            ensure!(
                requests > 0.0,
                "the proxy of the {pod} counted no {direction} request over mutual TLS:\n{}",
                metrics.about("request_total")
            );
        }
        Ok(())
    }
}
