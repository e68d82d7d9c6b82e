//! Policy objects that change under one mesh: a port is closed, opened for one client, routed and limited. All verdicts by a table
//! are in `policy_table.rs`.

use super::{Applications, HTTP_PORT, TCP_PORT, get, plain};
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use serde_json::{Value, json};

/// The group of an object: ours, and Linkerd's, are read by the same code.
pub(super) const LENO: &str = "policy.leno.dev";
const LINKERD: &str = "policy.linkerd.io";

/// The first word of a response, or the first line of what an application says.
#[derive(Clone, Copy)]
pub(super) enum Says {
    Welcome,
    Status(&'static str),
    Nothing,
}

pub(super) fn decide() {
    let plan = Plan::new().pod("client").pod("other").pod("server").unmeshed_pod("stranger");
    let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
    let mesh = plan.start("policy-objects", Meshed::Yes);
    let _applications = Applications::start(&mesh, "server", "welcome");
    let at = |from: &'static str, path: &'static str| (from, HTTP_PORT, path);
    let bytes = |from: &'static str| (from, TCP_PORT, "");
    // A Server closes its port, and a policy opens it for one identity.
    server(&mesh, LENO, ("http", HTTP_PORT, "HTTP/1", "deny"));
    server(&mesh, LINKERD, ("tcp", TCP_PORT, "opaque", "deny"));
    policy(
        &mesh,
        "one",
        json!({"kind": "Server", "group": LENO, "name": "http"}),
        json!([
            {"group": LENO, "kind": "MeshTLSAuthentication", "name": "client"},
        ]),
    );
    object(
        &mesh,
        LENO,
        "MeshTLSAuthentication",
        "v1alpha1",
        "client",
        json!({
            "identityRefs": [{"kind": "ServiceAccount", "name": "client"}],
        }),
    );
    check(&mesh, at("other", "x"), Says::Status("403"));
    check(&mesh, at("client", "x"), Says::Welcome);
    check(&mesh, at("stranger", "x"), Says::Status("403"));
    check(&mesh, bytes("client"), Says::Nothing);
    check(&mesh, bytes("stranger"), Says::Nothing);
    // Audit denies nobody, on a port of bytes either.
    server(&mesh, LINKERD, ("tcp", TCP_PORT, "opaque", "audit"));
    check(&mesh, bytes("stranger"), Says::Welcome);
    check(&mesh, bytes("client"), Says::Welcome);
    // With a route, the port serves only what a route takes; the route's own policy admits more clients.
    mesh.manifests()
        .write(&json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "open", "namespace": NAMESPACE},
            "spec": {
                "parentRefs": [{"group": LENO, "kind": "Server", "name": "http"}],
                "rules": [{"matches": [
                    {"path": {"type": "PathPrefix", "value": "/open"}, "method": "GET"},
                    {"path": {"type": "Exact", "value": "/closed"}},
                ]}],
            },
        }))
        .expect("write it");
    check(&mesh, at("client", "x"), Says::Status("404"));
    check(&mesh, at("client", "open"), Says::Welcome);
    check(&mesh, at("other", "open"), Says::Status("403"));
    let target = json!({"kind": "HTTPRoute", "group": "gateway.networking.k8s.io", "name": "open"});
    policy(
        &mesh,
        "all",
        target,
        json!([
            {"group": LENO, "kind": "NetworkAuthentication", "name": "pods"},
        ]),
    );
    object(
        &mesh,
        LENO,
        "NetworkAuthentication",
        "v1alpha1",
        "pods",
        json!({
            "networks": [{"cidr": "10.0.0.0/8"}, {"cidr": "fd00::/8"}],
        }),
    );
    check(&mesh, at("stranger", "open"), Says::Welcome);
    check(&mesh, at("other", "%6fpen"), Says::Welcome);
    check(&mesh, at("other", "open/../x"), Says::Status("404"));
    check(&mesh, at("stranger", "x"), Says::Status("404"));
    limits(&mesh);
}

/// A rate limit answers 429 with the time to wait, to each client by itself, and denies nobody.
fn limits(mesh: &Mesh) {
    object(
        mesh,
        LENO,
        "HTTPLocalRateLimitPolicy",
        "v1alpha1",
        "slow",
        json!({
            "targetRef": {"kind": "Server", "group": LENO, "name": "http"},
            "identity": {"requestsPerSecond": 1},
            "overrides": [{
                "requestsPerSecond": 1000,
                "clientRefs": [{"kind": "ServiceAccount", "name": "client"}],
            }],
        }),
    );
    let asks = get("open");
    let limited = wait::until("a request to be one too many", wait::LIMIT, || {
        let answer = plain(mesh, "other", HTTP_PORT, &asks);
        answer.starts_with("HTTP/1.1 429 ").then_some(answer)
    });
    for header in [
        "retry-after: 1\r\n",
        "ratelimit-policy: \"identity\";q=1;w=1",
        "ratelimit: \"identity\";r=0;t=1",
    ] {
        assert!(limited.contains(header), "{header}: {limited}");
    }
    for _ in 0..20 {
        let answer = plain(mesh, "client", HTTP_PORT, &asks);
        assert!(answer.ends_with("welcome"), "{answer}");
    }
    let answer = wait::until("a second to pass", wait::LIMIT, || {
        let answer = plain(mesh, "other", HTTP_PORT, &asks);
        answer.ends_with("welcome").then_some(answer)
    });
    drop(answer);
    let metrics = mesh.pod("server").metrics();
    let counted = metrics.sum("inbound_http_errors_total", &[("error", "rate_limited")]);
    assert!(counted >= 1.0, "{}", metrics.about("errors"));
}

/// Bytes to a port of the service come to this once the proxy has the policy.
#[track_caller]
pub(super) fn check(mesh: &Mesh, (from, port, path): (&str, u16, &str), expected: Says) {
    let says = if port == HTTP_PORT { get(path) } else { "hello".to_owned() };
    let is_it = |answer: &str| match expected {
        Says::Welcome => answer.ends_with("welcome"),
        Says::Status(status) => answer.starts_with(&format!("HTTP/1.1 {status} ")),
        Says::Nothing => answer.is_empty(),
    };
    let mut last = String::new();
    wait::until(&format!("the verdict on {from}, port {port}, /{path}"), wait::LIMIT, || {
        last = plain(mesh, from, port, &says);
        is_it(&last).then_some(())
    });
}

pub(super) fn server(
    mesh: &Mesh,
    group: &str,
    (name, port, protocol, access): (&str, u16, &str, &str),
) {
    object(
        mesh,
        group,
        "Server",
        "v1beta3",
        name,
        json!({
            "podSelector": {"matchLabels": {"app": "server"}},
            "port": port, "proxyProtocol": protocol, "accessPolicy": access,
        }),
    );
}

pub(super) fn policy(mesh: &Mesh, name: &str, target: Value, references: Value) {
    object(
        mesh,
        LENO,
        "AuthorizationPolicy",
        "v1alpha1",
        name,
        json!({
            "targetRef": target, "requiredAuthenticationRefs": references,
        }),
    );
}

pub(super) fn object(mesh: &Mesh, group: &str, kind: &str, version: &str, name: &str, spec: Value) {
    mesh.manifests()
        .write(&json!({
            "apiVersion": format!("{group}/{version}"), "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
        }))
        .expect("write it");
}
