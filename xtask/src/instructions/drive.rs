//! What drives the two proxies: one client and one server of ours, in lockstep.
//!
//! One request at a time over one connection, each written at once: what the proxies are woken for, and how often, is the
//! same in every run. It is the path of a mesh that is not saturated; [`http1_crowd`] is what batching makes of it.

use super::grpc;
use anyhow::{Context as _, Result, ensure};
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::Mesh;
use leno_tests::namespace::Namespace;
use leno_tests::wait;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Makes that many exchanges.
pub(super) type Drive = Box<dyn FnMut(u32) -> Result<()>>;

/// An answer that takes longer is a failure, under valgrind too.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(20);
/// The control plane shares the core with two valgrinds.
const RULES_WAIT_MAX: Duration = Duration::from_secs(180);
/// What an answer carries.
const BODY_BYTES: usize = 200;
/// What an exchange of opaque bytes carries, each way: as much as a TLS record has room for.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// Clients of a crowd; a divisor of what is counted.
const CROWD: u32 = 8;

pub(super) const HTTP1_PORT: u16 = 8080;
pub(super) const GRPC_PORT: u16 = 8081;
pub(super) const TCP_PORT: u16 = 8082;
pub(super) const RULES_PORT: u16 = 8083;

/// Rules of one port: those of its Server, and one for each of its routes.
const SERVER_RULES: usize = 500;
const ROUTES: usize = 500;

const REQUEST: &[u8] =
    b"GET /small HTTP/1.1\r\nHost: server:8080\r\nUser-Agent: instructions/1.0\r\nAccept: */*\r\n\r\n";
const REQUEST_AND_CLOSE: &[u8] =
    b"GET /small HTTP/1.1\r\nHost: server:8080\r\nUser-Agent: instructions/1.0\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// Starts the servers, which end with this process.
pub(super) fn serve(server: &Namespace) -> Result<()> {
    let listen = |port| server.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
    let accept = |listener: TcpListener, work: fn(TcpStream) -> Result<()>| {
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                // A client that goes away ends its own connection, and whoever waits for an answer says so.
                std::thread::spawn(move || work(stream));
            }
        });
    };
    accept(listen(HTTP1_PORT)?, answer);
    accept(listen(RULES_PORT)?, answer);
    accept(listen(TCP_PORT)?, echo);
    accept(listen(GRPC_PORT)?, grpc::serve);
    Ok(())
}

fn answer(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nServer: instructions\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\n\
         Content-Length: {BODY_BYTES}\r\n\r\n{}",
        "x".repeat(BODY_BYTES)
    );
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&piece[..count]);
        if request.ends_with(b"\r\n\r\n") {
            stream.write_all(answer.as_bytes())?;
            request.clear();
        }
    }
}

fn echo(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        stream.read_exact(&mut chunk)?;
        stream.write_all(&chunk)?;
    }
}

fn connect(client: &Namespace, address: SocketAddr) -> Result<TcpStream> {
    let stream = client.run(|| TcpStream::connect_timeout(&address, ANSWER_WAIT_MAX))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
    Ok(stream)
}

fn address(mesh: &Mesh, port: u16) -> SocketAddr {
    (mesh.service("server").addresses.v4, port).into()
}

/// GETs over one kept-alive connection.
pub(super) fn http1(mesh: &Mesh) -> Result<Drive> {
    let mut stream = connect(&mesh.pod("client").namespace, address(mesh, HTTP1_PORT))?;
    Ok(Box::new(move |count| (0..count).try_for_each(|_| get(&mut stream, REQUEST))))
}

/// GETs of so many clients at once, over a kept-alive connection each: the proxies share one connection for them.
pub(super) fn http1_crowd(mesh: &Mesh) -> Result<Drive> {
    let (client, address) = (&mesh.pod("client").namespace, address(mesh, HTTP1_PORT));
    let streams = (0..CROWD).map(|_| connect(client, address)).collect::<Result<Vec<_>>>();
    let mut streams = streams?;
    Ok(Box::new(move |count| {
        for _ in 0..count / CROWD {
            streams.iter_mut().try_for_each(|stream| stream.write_all(REQUEST))?;
            streams.iter_mut().try_for_each(answered)?;
        }
        Ok(())
    }))
}

/// GETs over a connection each.
pub(super) fn http1_connections(mesh: &Mesh) -> Result<Drive> {
    let address = address(mesh, HTTP1_PORT);
    // The namespace by its thread, as a drive outlives no mesh and borrows none.
    let client =
        mesh.pod("client").namespace.run(|| std::fs::File::open("/proc/thread-self/ns/net"))?;
    Ok(Box::new(move |count| {
        let worker = || -> Result<()> {
            nix::sched::setns(&client, nix::sched::CloneFlags::CLONE_NEWNET)?;
            for _ in 0..count {
                let mut stream = TcpStream::connect_timeout(&address, ANSWER_WAIT_MAX)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
                get(&mut stream, REQUEST_AND_CLOSE)?;
                // To the end: the proxy has seen it too before the next one begins.
                ensure!(stream.read(&mut [0])? == 0, "bytes after the answer");
            }
            Ok(())
        };
        std::thread::scope(|scope| scope.spawn(worker).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }))
}

fn get(stream: &mut TcpStream, request: &[u8]) -> Result<()> {
    stream.write_all(request)?;
    answered(stream)
}

fn answered(stream: &mut TcpStream) -> Result<()> {
    let mut answer = [0; 4096];
    let mut have = 0;
    loop {
        let count = stream.read(&mut answer[have..]).context("an answer")?;
        have += count;
        let seen = &answer[..have];
        ensure!(count > 0, "an answer ended after {:?}", String::from_utf8_lossy(seen));
        if let Some(head) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            ensure!(seen.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(seen));
            if have >= head + 4 + BODY_BYTES {
                return Ok(());
            }
        }
    }
}

/// GETs over one kept-alive connection, to a port with [`SERVER_RULES`] and [`ROUTES`] access rules. The port lets no client in; a rule of the last route lets
/// this one in.
pub(super) fn rules(mesh: &Mesh) -> Result<Drive> {
    let client = &mesh.pod("client").namespace;
    let address = address(mesh, RULES_PORT);
    mesh.manifests().write(&json!({"apiVersion": "v1", "kind": "List", "items": objects()}))?;
    let status = |path: &str| -> Result<String> {
        let mut stream = connect(client, address)?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: server\r\n\r\n").as_bytes())?;
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..count]).split(' ').nth(1).unwrap_or("").to_owned())
    };
    wait::until("the rules to be in effect", RULES_WAIT_MAX, || {
        let seen = (status("/none").ok()?, status("/other-0").ok()?, status("/small").ok()?);
        (seen == ("404".into(), "403".into(), "200".into())).then_some(())
    });
    let mut stream = connect(client, address)?;
    Ok(Box::new(move |count| (0..count).try_for_each(|_| get(&mut stream, REQUEST))))
}

/// A Server with rules, and routes of it with a rule each. Each rule admits one client.
fn objects() -> Vec<Value> {
    let (group, gateway) = ("policy.leno.dev", "gateway.networking.k8s.io");
    let object = |api: String, kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": api, "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        })
    };
    let server = json!({
        "podSelector": {"matchLabels": {"app": "server"}},
        "port": RULES_PORT, "proxyProtocol": "HTTP/1", "accessPolicy": "deny",
    });
    let mut all = vec![object(format!("{group}/v1beta3"), "Server", "rules", server)];
    for number in 0..ROUTES + SERVER_RULES {
        let is_of_route = number < ROUTES;
        let (path, account) = match number + 1 == ROUTES {
            true => ("/small".to_owned(), "client".to_owned()),
            false => (format!("/other-{number}"), format!("other-{number}")),
        };
        let identity = format!("spiffe://cluster.local/ns/{NAMESPACE}/sa/{account}");
        let name = format!("rule-{number}");
        let route = json!({
            "parentRefs": [{"group": group, "kind": "Server", "name": "rules"}],
            "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": path}}]}],
        });
        let policy = json!({
            "targetRef": match is_of_route {
                true => json!({"group": gateway, "kind": "HTTPRoute", "name": name}),
                false => json!({"group": group, "kind": "Server", "name": "rules"}),
            },
            "requiredAuthenticationRefs": [
                {"group": group, "kind": "MeshTLSAuthentication", "name": name},
            ],
        });
        let authentication = json!({"identities": [identity]});
        let alpha = format!("{group}/v1alpha1");
        if is_of_route {
            all.push(object(format!("{gateway}/v1"), "HTTPRoute", &name, route));
        }
        all.push(object(alpha.clone(), "AuthorizationPolicy", &name, policy));
        all.push(object(alpha, "MeshTLSAuthentication", &name, authentication));
    }
    all
}

/// Unary calls over one connection.
pub(super) fn grpc(mesh: &Mesh) -> Result<Drive> {
    let stream = connect(&mesh.pod("client").namespace, address(mesh, GRPC_PORT))?;
    Ok(Box::new(grpc::client(stream)?))
}

/// Chunks to an echo.
pub(super) fn tcp(mesh: &Mesh) -> Result<Drive> {
    let mut stream = connect(&mesh.pod("client").namespace, address(mesh, TCP_PORT))?;
    let sent: Vec<u8> = (0..CHUNK_BYTES).map(|n| (n % 251) as u8).collect();
    let mut chunk = vec![0; CHUNK_BYTES];
    Ok(Box::new(move |count| {
        for _ in 0..count {
            stream.write_all(&sent)?;
            stream.read_exact(&mut chunk).context("an echo")?;
            ensure!(chunk == sent, "the echo is another");
        }
        Ok(())
    }))
}
