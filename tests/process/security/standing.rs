//! Policy that changes under connections that are open, and what it lets in of those whom it refuses.

use super::{Applications, HTTP_PORT, LIMIT, TCP_PORT, plain};
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use serde_json::json;
use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(super) fn set_policy(mesh: &Mesh, policy: &str) {
    let annotations = json!({"leno.dev/default-inbound-policy": policy});
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "annotations": annotations},
    });
    mesh.manifests().write(&namespace).expect("write the namespace");
}

/// A connection on which the application has said its word.
fn connect(mesh: &Mesh, from: &str) -> TcpStream {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, TCP_PORT));
    let mut stream = mesh
        .pod(from)
        .namespace
        .run(|| TcpStream::connect_timeout(&address, LIMIT))
        .expect("a connection");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    let mut word = [0; 7];
    stream.read_exact(&mut word).expect("the application speaks first");
    assert_eq!(&word, b"welcome");
    stream
}

/// Bytes go on for as long as policy lets them, and end when it does not, on both ways into the pod.
pub(super) fn refused_later() {
    let plan = Plan::new().pod("client").pod("server").unmeshed_pod("stranger");
    let mesh = plan.service("server", [TCP_PORT], &["server"]).start("standing", Meshed::Yes);
    let _applications = Applications::start(&mesh, "server", "welcome");
    let (mut member, mut stranger) = (connect(&mesh, "client"), connect(&mesh, "stranger"));
    let ends = |stream: &mut TcpStream| match stream.read(&mut [0]) {
        Ok(0) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
        Ok(_) => false,
    };
    set_policy(&mesh, "all-authenticated");
    assert!(ends(&mut stranger), "a stranger has stayed");
    member.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    let waiting = member.read(&mut [0]).expect_err("nothing is said").kind();
    assert!(matches!(waiting, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waiting}");
    member.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    set_policy(&mesh, "deny");
    assert!(ends(&mut member), "a member has stayed");
    wait::until("both to be counted", wait::LIMIT, || {
        let metrics = mesh.pod("server").metrics();
        let denied = metrics.sum("inbound_tcp_authz_deny_total", &[]);
        let ended = metrics.sum("inbound_tcp_errors_total", &[("error", "policy_denied")]);
        (denied >= 2.0 && ended >= 2.0).then_some(())
    });
}

/// What the kubelet asks of a pod passes where nobody else does.
pub(super) fn probes() {
    let plan = Plan::new().annotation("leno.dev/default-inbound-policy", "deny");
    let plan = plan.pod("server").unmeshed_pod("kubelet");
    let mesh = plan.service("server", [HTTP_PORT], &["server"]).start("probes", Meshed::Yes);
    let applications = Applications::start(&mesh, "server", "welcome");
    let [v4, v6] = mesh.pod("server").addresses.both();
    let probe = json!({"httpGet": {"path": "/healthz", "port": HTTP_PORT}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "server", "namespace": NAMESPACE, "uid": "uid-of-server",
            "labels": {"app": "server"}, "annotations": {"leno.dev/meshed": "true"},
        },
        "spec": {
            "serviceAccountName": "server",
            "containers": [{"name": "application", "command": ["none"], "livenessProbe": probe}],
        },
        "status": {
            "phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    mesh.manifests().write(&pod).expect("write the pod");
    let ask = |request: &str| {
        plain(&mesh, "kubelet", HTTP_PORT, &format!("{request} HTTP/1.1\r\nHost: server\r\n\r\n"))
    };
    wait::until("the probe to pass", wait::LIMIT, || {
        ask("GET /healthz").starts_with("HTTP/1.1 200").then_some(())
    });
    let heard = applications.heard();
    for refused in
        ["GET /", "POST /healthz", "GET /healthz/x", "GET /healthz/../x", "GET /x?/healthz"]
    {
        let answer = ask(refused);
        assert!(answer.starts_with("HTTP/1.1 403"), "{refused}: {answer}");
    }
    assert_eq!(applications.heard(), heard, "the application heard of what was refused");
    assert!(ask("GET /healthz?full=1").starts_with("HTTP/1.1 200"));
    let metrics = mesh.pod("server").metrics();
    let allowed = metrics.sum("inbound_http_authz_allow_total", &[("authz_name", "probe")]);
    assert!(allowed >= 2.0, "{}", metrics.about("authz"));
}

/// The node's addresses open the port of a probe that the proxy cannot read, and no other port.
pub(super) fn the_node() {
    let plan = Plan::new().annotation("leno.dev/default-inbound-policy", "deny");
    let plan = plan.pod("server").unmeshed_pod("kubelet").unmeshed_pod("stranger");
    let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
    let mesh = plan.start("node", Meshed::Yes);
    let applications = Applications::start(&mesh, "server", "welcome");
    let [v4, v6] = mesh.pod("server").addresses.both();
    let [node_v4, node_v6] = mesh.pod("kubelet").addresses.both();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "server", "namespace": NAMESPACE, "uid": "uid-of-server",
            "labels": {"app": "server"}, "annotations": {"leno.dev/meshed": "true"},
        },
        "spec": {
            "serviceAccountName": "server",
            "containers": [{"name": "application", "command": ["none"],
                "livenessProbe": {"tcpSocket": {"port": TCP_PORT}}}],
        },
        "status": {
            "phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}],
            "hostIP": node_v4, "hostIPs": [{"ip": node_v4}, {"ip": node_v6}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    mesh.manifests().write(&pod).expect("write the pod");
    wait::until("the node to be admitted", wait::LIMIT, || {
        plain(&mesh, "kubelet", TCP_PORT, "hello").ends_with("welcome").then_some(())
    });
    let heard = applications.heard();
    assert_eq!(plain(&mesh, "stranger", TCP_PORT, "hello"), "");
    let answer = plain(&mesh, "kubelet", HTTP_PORT, "GET / HTTP/1.1\r\nHost: server\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(applications.heard(), heard, "the application got a refused request");
    let metrics = mesh.pod("server").metrics();
    let allowed = metrics.sum("inbound_tcp_authz_allow_total", &[("authz_name", "probe")]);
    assert!(allowed >= 1.0, "{}", metrics.about("authz"));
}
