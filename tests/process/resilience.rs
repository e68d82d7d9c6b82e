//! What fails while traffic flows, and that nobody notices.

mod dying;
mod once;
mod protocol;
mod restart;

use crate::programs::web::{PORT, nginx};
use leno_tests::load::{Connections, Load};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::Running;
use leno_tests::wait;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How long a burst of GETs may take on a busy machine.
const BURST_LIMIT: Duration = Duration::from_secs(30);

/// A client and so many servers of one service, each an nginx that says its pod's name.
struct Site {
    servers: BTreeMap<String, Running>,
    mesh: Mesh,
}

impl Site {
    fn start(name: &str, pods: &[&str]) -> Self {
        Self::start_with(name, pods, Plan::new().pod("client"))
    }

    /// As [`Self::start`], with every request in the connection that two proxies share for many.
    fn start_shared(name: &str, pods: &[&str]) -> Self {
        Self::start_with(name, pods, Plan::new().pod("client").share_from(1))
    }

    fn start_with(name: &str, pods: &[&str], client: Plan) -> Self {
        let plan = pods.iter().fold(client, |plan, pod| plan.pod(pod));
        let mesh = plan.service("server", [PORT], pods).start(name, Meshed::Yes);
        let mut site = Self::of(mesh);
        for pod in pods {
            site.serve(pod);
        }
        site
    }

    fn of(mesh: Mesh) -> Self {
        Self { servers: BTreeMap::new(), mesh }
    }

    fn serve(&mut self, pod: &str) {
        let locations = format!("location / {{ return 200 '{pod}'; }}");
        self.servers.insert(pod.to_owned(), nginx(&self.mesh, pod, &locations));
    }

    fn address(&self) -> SocketAddr {
        (self.mesh.service("server").addresses.v4, PORT).into()
    }

    /// Load that has already reached each of these pods.
    fn load(&self, connections: Connections, pods: &[&str]) -> Load {
        let client = &self.mesh.pod("client").namespace;
        let load = Load::start(client, self.address(), 8, connections);
        for pod in pods {
            wait::until(&format!("an answer of {pod}"), wait::LIMIT, || {
                assert!(load.failures().is_empty(), "{:?}", load.failures());
                (load.with_body(pod) > 0).then_some(())
            });
        }
        load
    }
}

#[test]
fn an_application_dies() {
    when_an_application_dies(Site::start("resilience-application", &["a", "b", "c"]));
}

#[test]
fn an_application_dies_shared() {
    when_an_application_dies(Site::start_shared("shared-application", &["a", "b", "c"]));
}

fn when_an_application_dies(mut site: Site) {
    let load = site.load(Connections::Kept, &["a", "b", "c"]);
    drop(site.servers.remove("b"));
    load.wait_for_more(3000, BURST_LIMIT);
    load.stop_without_failure("one application of three killed");
}

#[test]
fn a_whole_pod_dies() {
    when_a_whole_pod_dies(Site::start("resilience-pod", &["a", "b", "c"]));
}

#[test]
fn a_whole_pod_dies_shared() {
    when_a_whole_pod_dies(Site::start_shared("shared-pod", &["a", "b", "c"]));
}

fn when_a_whole_pod_dies(mut site: Site) {
    let load = site.load(Connections::Kept, &["a", "b", "c"]);
    drop(site.mesh.pod_mut("b").proxy_mut().take());
    drop(site.servers.remove("b"));
    load.wait_for_more(3000, BURST_LIMIT);
    site.mesh.set_endpoints("server", &["a", "c"]).expect("write manifests");
    load.wait_for_more(1000, BURST_LIMIT);
    load.stop_without_failure("one pod of three killed");
}

#[test]
fn a_frozen_application_holds_up_no_other() {
    let site = Site::start("resilience-frozen", &["a", "b", "c"]);
    let load = site.load(Connections::Kept, &["a", "b", "c"]);
    site.servers["b"].signal(Signal::SIGSTOP);
    load.wait_for_more(1000, BURST_LIMIT);
    site.servers["b"].signal(Signal::SIGCONT);
    load.wait_for_more(1000, BURST_LIMIT);
    load.stop_without_failure("one application of three frozen and thawed");
}

#[test]
fn endpoints_come_and_go() {
    when_endpoints_come_and_go(Site::start("resilience-rollout", &["a", "b"]));
}

#[test]
fn endpoints_come_and_go_shared() {
    when_endpoints_come_and_go(Site::start_shared("shared-rollout", &["a", "b"]));
}

fn when_endpoints_come_and_go(mut site: Site) {
    let load = site.load(Connections::Kept, &["a", "b"]);
    let mut current = vec!["a", "b"];
    for (new, old) in [("c", "a"), ("d", "b"), ("e", "c")] {
        site.mesh.add_pod(new).expect("a pod");
        site.mesh.wait_ready(new).expect("its proxy is ready");
        site.serve(new);
        current.push(new);
        site.mesh.set_endpoints("server", &current).expect("write manifests");
        wait::until(&format!("an answer of {new}"), wait::LIMIT, || {
            (load.with_body(new) > 0).then_some(())
        });
        current.retain(|pod| *pod != old);
        site.mesh.set_endpoints("server", &current).expect("write manifests");
        // As on Kubernetes: SIGTERM to both at once, and the application goes when it is idle.
        let mut proxy = site.mesh.pod_mut(old).proxy_mut().take().expect("a proxy");
        proxy.signal(Signal::SIGTERM);
        let status = proxy.wait(Duration::from_secs(35)).expect("the proxy ends");
        assert!(status.success(), "the proxy of {old} ended with {status}:\n{}", proxy.said());
        drop(site.servers.remove(old));
        load.wait_for_more(500, BURST_LIMIT);
    }
    load.stop_without_failure("three pods rolled");
}

/// Whoever asks for a service that has just come to be waits a moment for its first endpoint.
#[test]
fn the_first_endpoint_is_waited_for() {
    let mut site = Site::start("resilience-first", &["a"]);
    site.mesh.set_endpoints("server", &[]).expect("write manifests");
    let address = site.address();
    let client = &site.mesh.pod("client").namespace;
    let get = move || leno_tests::load::get(&mut None, address, Connections::Closed);
    let asking = client.run(move || std::thread::spawn(get));
    wait::until("the proxy to have the request", wait::LIMIT, || {
        let metrics = site.mesh.pod("client").metrics();
        (metrics.sum("tcp_open_total", &[("peer", "src"), ("direction", "outbound")]) > 0.0)
            .then_some(())
    });
    site.mesh.set_endpoints("server", &["a"]).expect("write manifests");
    let answer = asking.join().expect("no panic");
    assert_eq!(answer.expect("the request waited for the endpoint"), "a");
}

#[test]
fn the_control_plane_dies_and_comes_back() {
    let mut site = Site::start("resilience-control", &["a", "b"]);
    let load = site.load(Connections::Closed, &["a", "b"]);
    drop(site.mesh.control_mut().take());
    load.wait_for_more(2000, BURST_LIMIT);
    // A new pod waits: alive, not ready, taking nothing.
    site.mesh.add_pod("late").expect("a pod, and a proxy that waits");
    let pod = site.mesh.pod("late");
    wait::until("the late proxy to be alive", wait::LIMIT, || {
        pod.admin("/live").ok().filter(|answer| answer.status == 200)
    });
    load.wait_for_more(1000, BURST_LIMIT);
    assert_ne!(pod.admin("/ready").expect("it answers").status, 200, "ready without a credential");
    site.mesh.start_control().expect("the control plane is back");
    site.mesh.wait_ready("late").expect("the late pod joins");
    let mut get = None;
    let address = site.address();
    let answer = site
        .mesh
        .pod("late")
        .namespace
        .run(|| leno_tests::load::get(&mut get, address, Connections::Closed));
    answer.expect("the late pod calls a service");
    load.wait_for_more(500, BURST_LIMIT);
    load.stop_without_failure("the control plane killed and restarted");
}

/// A proxy that is told to end finishes what it has; both sides of a call, one after the other.
#[test]
fn draining_finishes_what_is_there() {
    for (pod, shared_from) in [("server", 0), ("client", 0), ("server", 1), ("client", 1)] {
        let plan = Plan::new().pod("client").share_from(shared_from).pod("server");
        let mut mesh = plan.service("server", [PORT], &["server"]).start("drain", Meshed::Yes);
        let (mut client, mut server) = request_in_flight(&mesh);
        let mut proxy = mesh.pod_mut(pod).proxy_mut().take().expect("a proxy");
        proxy.signal(Signal::SIGTERM);
        wait_for_refusal(&mesh, pod);
        // Whoever ends pods may say so twice.
        proxy.signal(Signal::SIGTERM);
        assert!(proxy.ended().is_none(), "{pod}: ended with a request in flight");
        server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal").expect("answer");
        let answer = answer_of(&mut client);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{pod}: {answer}");
        if pod == "client" {
            // It is this proxy's own client: it is told, and then the connection ends.
            assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
            assert_eq!(client.read(&mut [0]).expect("the end"), 0);
        }
        drop((client, server));
        let status = proxy.wait(wait::LIMIT).expect("the proxy ends");
        assert_eq!(status.code(), Some(0), "{pod}: {}", proxy.said());
    }
}

#[test]
fn draining_has_a_limit() {
    let plan = Plan::new().pod("client").pod("server").proxy_env("LENO_PROXY_DRAIN_SECONDS", "1");
    let mut mesh = plan.service("server", [PORT], &["server"]).start("drain-limit", Meshed::Yes);
    let (mut client, _server) = request_in_flight(&mesh);
    let mut proxy = mesh.pod_mut("server").proxy_mut().take().expect("a proxy");
    proxy.signal(Signal::SIGTERM);
    let status = proxy.wait(wait::LIMIT).expect("the proxy ends at its limit");
    assert_eq!(status.code(), Some(1), "{}", proxy.said());
    let mut answer = String::new();
    drop(client.read_to_string(&mut answer));
    assert!(!answer.starts_with("HTTP/1.1 200"), "an answer that nobody gave: {answer}");
}

/// Who presses Ctrl-C twice does not wait for what hangs.
#[test]
fn draining_ends_when_it_is_interrupted() {
    let plan =
        Plan::new().pod("client").pod("server").proxy_env("LENO_PROXY_DRAIN_SECONDS", "3600");
    let mut mesh = plan.service("server", [PORT], &["server"]).start("drain-twice", Meshed::Yes);
    let _both = request_in_flight(&mesh);
    let mut proxy = mesh.pod_mut("server").proxy_mut().take().expect("a proxy");
    proxy.signal(Signal::SIGINT);
    wait_for_refusal(&mesh, "server");
    proxy.signal(Signal::SIGINT);
    let status = proxy.wait(wait::LIMIT).expect("the proxy ends");
    assert_eq!(status.code(), Some(1), "{}", proxy.said());
}

/// Both ends of a call that the server has not answered yet.
fn request_in_flight(mesh: &Mesh) -> (TcpStream, TcpStream) {
    let server = &mesh.pod("server").namespace;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))).expect("free");
    let address = (mesh.service("server").addresses.v4, PORT);
    let mut client = mesh.pod("client").namespace.run(|| TcpStream::connect(address)).expect("up");
    client.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: server\r\n\r\n").expect("ask");
    let (mut server, _) = listener.accept().expect("the call");
    server.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut piece = [0; 1024];
        let count = server.read(&mut piece).expect("the request");
        assert!(count > 0, "the request was cut off");
        head.extend_from_slice(&piece[..count]);
    }
    (client, server)
}

/// What comes back, through the body that the server is known to send.
fn answer_of(client: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nfinal") {
        let mut piece = [0; 1024];
        let count = client.read(&mut piece).expect("the answer within its limit");
        assert!(count > 0, "cut off: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// A proxy that drains takes no new connection: on its way in, or on its way out.
fn wait_for_refusal(mesh: &Mesh, pod: &str) {
    let port = if pod == "server" { 4143 } else { 4140 };
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    mesh.pod(pod).namespace.run(|| {
        wait::until(&format!("the proxy of {pod} to refuse connections"), wait::LIMIT, || {
            TcpStream::connect(address).is_err().then_some(())
        });
    });
}
