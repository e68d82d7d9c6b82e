//! A proxy that is killed and started again while the control plane is away serves from its last snapshot.

use super::{BURST_LIMIT, Site};
use leno_tests::binaries::PROXY_USER;
use leno_tests::load::{self, Connections};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use tempfile::TempDir;

use crate::programs::web::PORT;

/// A directory of the proxy's user in memory, as a pod's volume is.
fn state(name: &str) -> TempDir {
    let prefix = format!("leno-tests-{name}-");
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in("/dev/shm");
    let directory = made.expect("a directory in memory");
    let owner = Some(PROXY_USER.into());
    nix::unistd::chown(directory.path(), owner, None).expect("root gives it away");
    directory
}

fn plan(policy: &str, pods: [(&str, &Path); 2]) -> Plan {
    let namespace = Plan::new().annotation("leno.dev/default-inbound-policy", policy);
    let plan = pods.iter().fold(namespace, |plan, (name, state)| {
        plan.pod(name).proxy_env("LENO_PROXY_STATE_DIR", &state.to_string_lossy())
    });
    plan.unmeshed_pod("stranger").service("server", [PORT], &["server"]).service(
        "unknown",
        [PORT],
        &["server"],
    )
}

fn figure(mesh: &Mesh, pod: &str, name: &str) -> f64 {
    mesh.pod(pod).metrics().sum(name, &[])
}

/// Whether what the proxy follows was saved: what was saved after the last message is everything.
fn saved_all(mesh: &Mesh, pod: &str) -> bool {
    let metrics = mesh.pod(pod).metrics();
    let (followed, saved) =
        (metrics.sum("discovery_entries", &[]), metrics.sum("snapshot_states", &[]));
    followed > 0.0 && saved >= followed
}

fn get(mesh: &Mesh, from: &str, service: &str) -> anyhow::Result<String> {
    let address: SocketAddr = (mesh.service(service).addresses.v4, PORT).into();
    mesh.pod(from).namespace.run(|| load::get(&mut None, address, Connections::Closed))
}

/// Kills a proxy without a word, as the kernel does for want of memory, and starts it again as the kubelet does.
fn restart(mesh: &mut Mesh, pod: &str) {
    drop(mesh.pod_mut(pod).proxy_mut().take());
    mesh.start_proxy(pod).expect("it starts");
    mesh.wait_ready(pod).expect("it is ready without the control plane");
}

#[test]
fn a_restarted_proxy_serves_without_the_control_plane() {
    let states = ["client", "server"].map(state);
    let pods = [("client", states[0].path()), ("server", states[1].path())];
    let plan = plan("all-authenticated", pods);
    let mut site = Site::of(plan.start("restart", Meshed::Yes));
    site.serve("server");
    let answer = get(&site.mesh, "client", "server").expect("before anything happens");
    assert_eq!(answer, "server");
    for pod in ["client", "server"] {
        wait::until(&format!("the snapshot of {pod}"), BURST_LIMIT, || {
            saved_all(&site.mesh, pod).then_some(())
        });
    }
    drop(site.mesh.control_mut().take());
    for pod in ["server", "client"] {
        restart(&mut site.mesh, pod);
        let answer = get(&site.mesh, "client", "server").expect("from the last snapshot");
        assert_eq!(answer, "server", "{pod} was restarted");
    }
    // Over mutual TLS, on both sides, and the policy still holds.
    let metrics = site.mesh.pod("server").metrics();
    let mutual = [("direction", "inbound"), ("peer", "src"), ("tls", "true")];
    assert!(metrics.sum("tcp_open_total", &mutual) > 0.0, "{}", metrics.about("tcp_open_total"));
    assert!(figure(&site.mesh, "client", "discovery_restored_total") >= 2.0);
    let stranger = get(&site.mesh, "stranger", "server").expect_err("not let in").to_string();
    assert!(stranger.contains("403"), "{stranger}");
    // What the client had never asked about is not known, and nothing is guessed.
    get(&site.mesh, "client", "unknown").expect_err("nobody knows it");
    let refused = [("error", "discovery_unavailable")];
    let refused = site.mesh.pod("client").metrics().sum("outbound_tcp_errors_total", &refused);
    assert!(refused > 0.0, "refused for another reason");

    // The control plane is back: load goes on over it, and what was saved is replaced.
    let load = site.load(Connections::Closed, &["server"]);
    site.mesh.start_control().expect("the control plane is back");
    wait::until("the client to hear it", BURST_LIMIT, || {
        (figure(&site.mesh, "client", "discovery_reachable_since_seconds") > 0.0).then_some(())
    });
    load.wait_for_more(500, BURST_LIMIT);
    load.stop_without_failure("the control plane back after a restart");
    assert_eq!(get(&site.mesh, "client", "unknown").expect("now it is known"), "server");
}

/// A snapshot that is not what was written is not believed: the proxy waits for the control plane, alive.
#[test]
fn a_spoilt_snapshot_is_not_believed() {
    let states = ["client", "server"].map(state);
    let pods = [("client", states[0].path()), ("server", states[1].path())];
    let plan = plan("all-unauthenticated", pods);
    let mut mesh = plan.start("spoilt", Meshed::Yes);
    let listener =
        mesh.pod("server").namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)));
    let _listener = listener.expect("free");
    for file in ["credential", "discovery"] {
        let path = states[0].path().join(file);
        wait::until(&format!("{file} to be there"), BURST_LIMIT, || {
            if file == "discovery" {
                // Something must be known before it is saved.
                drop(get(&mesh, "client", "server"));
            }
            path.exists().then_some(())
        });
        let mut bytes = std::fs::read(&path).expect("root reads it");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        drop(mesh.pod_mut("client").proxy_mut().take());
        std::fs::write(&path, &bytes).expect("written in place, so that its owner and mode stay");
        mesh.start_proxy("client").expect("it starts");
        mesh.wait_ready("client").expect("the control plane is there");
        let refused = [("error", "refused")];
        let refused = mesh.pod("client").metrics().sum("snapshot_errors_total", &refused);
        assert_eq!(refused, 1.0, "{file}");
    }
}

/// Who has chosen `fail: open` calls what nobody has spoken of in plain text, and goes back when somebody does.
#[test]
fn the_unknown_passes_where_that_was_chosen() {
    let plan = Plan::new().pod("server").pod("client").proxy_env("LENO_PROXY_FAIL", "open");
    let plan = plan.service("server", [PORT], &["server"]).service("unknown", [PORT], &["server"]);
    let mut site = Site::of(plan.start("open", Meshed::Yes));
    site.serve("server");
    assert_eq!(get(&site.mesh, "client", "server").expect("known"), "server");
    drop(site.mesh.control_mut().take());
    assert_eq!(get(&site.mesh, "client", "unknown").expect("let through"), "server");
    let metrics = site.mesh.pod("server").metrics();
    let plain = [("direction", "inbound"), ("peer", "src"), ("tls", "no_identity")];
    assert!(metrics.sum("tcp_open_total", &plain) > 0.0, "{}", metrics.about("tcp_open_total"));
    site.mesh.start_control().expect("the control plane is back");
    let mutual = [("direction", "outbound"), ("peer", "dst"), ("tls", "true")];
    let before = site.mesh.pod("client").metrics().sum("tcp_open_total", &mutual);
    wait::until("mutual TLS", BURST_LIMIT, || {
        drop(get(&site.mesh, "client", "unknown"));
        let now = site.mesh.pod("client").metrics().sum("tcp_open_total", &mutual);
        (now > before).then_some(())
    });
}
