//! Faults of routes: what callers get, which requests a fault takes, and how it ends.

use super::{PORTS, ask, check, mesh};
use leno_tests::mesh::Mesh;
use leno_tests::wait;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Its manifest; `spec` is in the words of the API.
fn fault(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "leno.dev/v1alpha1", "kind": "Fault",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

/// A rule with a filter that refers to a Fault.
fn with(name: &str) -> Value {
    let extension = json!({"group": "leno.dev", "kind": "Fault", "name": name});
    json!({"filters": [{"type": "ExtensionRef", "extensionRef": extension}]})
}

/// A mesh with these Faults; the route has a rule for the path of each.
fn faulty(name: &str, faults: &[(&str, Value)]) -> Mesh {
    let paths: Vec<String> = faults.iter().map(|(name, _)| format!("/{name}")).collect();
    let rules = paths.iter().zip(faults).map(|(path, (name, _))| (path.as_str(), with(name)));
    let rules: Vec<_> = rules.chain([("/", json!({}))]).collect();
    let mesh = mesh(name, &["server"], &rules);
    for (name, spec) in faults.iter().filter(|(_, spec)| !spec.is_null()) {
        mesh.manifests().write(&fault(name, spec)).expect("a manifest");
    }
    mesh
}

/// Waits until the Fault of this path, which answers with 418, has come to the proxy.
fn until_there(mesh: &Mesh, path: &str) {
    for port in PORTS {
        wait::until("the fault", wait::LIMIT, || {
            (ask(mesh, port, &format!("GET {path}"), &[]).status == 418).then_some(())
        });
    }
}

#[test]
fn faults_take_the_requests_that_they_name() {
    let abort = |more: Value| {
        let mut spec = json!({"abort": {"httpStatus": 418}, "ttl": "1h"});
        more.as_object().into_iter().flatten().for_each(|(field, part)| spec[field] = part.clone());
        spec
    };
    let clients = |account: &str| {
        abort(
            json!({"clients": {"identities": [format!("spiffe://cluster.local/ns/default/sa/{account}")]}}),
        )
    };
    let mesh = faulty(
        "faults",
        &[
            ("slow", json!({"delay": {"duration": "300ms"}, "ttl": "1h"})),
            ("slow-broken", abort(json!({"delay": {"duration": "300ms"}}))),
            ("never", json!({"abort": {"httpStatus": 418, "percent": 0}, "ttl": "1h"})),
            ("unavailable", json!({"abort": {"grpcStatus": "ABORTED"}, "ttl": "1h"})),
            ("marked", abort(json!({"headers": [{"name": "X-Fault", "value": "on"}]}))),
            ("ours", clients("client")),
            ("theirs", clients("other")),
            ("over", json!({"abort": {"httpStatus": 418}, "until": "2026-01-01T00:00:00Z"})),
            ("refused", json!({"abort": {"httpStatus": 418}})),
            ("gone", Value::Null),
            // The last that is written: with it all others are there.
            ("broken", abort(json!({}))),
        ],
    );
    until_there(&mesh, "/broken");
    let text = |name: &str| format!("Fault default/{name} of the route injected this failure");
    let refused = |request: &str, headers: &[(&str, &str)], status, name: &str| {
        check(&mesh, request, headers, (status, &[("l5d-proxy-error", &text(name))], ""));
    };
    let served = |path: &str| {
        check(&mesh, &format!("GET {path}"), &[], (200, &[], &format!("GET {path} server")));
    };
    refused("GET /broken", &[], 418, "broken");
    refused("GET /marked", &[("x-fault", "on")], 418, "marked");
    refused("GET /ours", &[], 418, "ours");
    refused("GET /unavailable", &[], 409, "unavailable");
    ["/never", "/marked", "/theirs", "/over", "/refused", "/gone", "/"]
        .into_iter()
        .for_each(served);
    check(&mesh, "GET /marked", &[("x-fault", "off")], (200, &[], "GET /marked server"));
    let began = Instant::now();
    served("/slow");
    refused("GET /slow-broken", &[], 418, "slow-broken");
    assert!(began.elapsed() >= 4 * Duration::from_millis(300), "{:?}", began.elapsed());
    // A gRPC client gets a code, in a response that has nothing but trailers.
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    for (path, code) in [("/unavailable", "10"), ("/broken", "2")] {
        let response = ask(&mesh, PORTS[1], &format!("POST {path}"), &grpc);
        assert_eq!(
            (response.status, response.header("grpc-status")),
            (200, Some(code)),
            "{response:?}"
        );
    }
    let metrics = mesh.pod("client").metrics();
    let count = |name: &str, label| metrics.sum(name, &[label]);
    assert_eq!(count("outbound_http_faults_total", ("fault", "delay")), 4.0);
    let aborted = count("outbound_http_faults_total", ("fault", "abort"));
    assert_eq!(count("outbound_http_errors_total", ("error", "fault_injected")), aborted);
    assert!(aborted >= 12.0, "{aborted} failures were injected");
}

/// Its end needs no control plane.
#[test]
fn a_fault_ends_by_itself() {
    let spec = json!({"abort": {"httpStatus": 418}, "ttl": "8s"});
    let mut mesh = faulty("fault-ends", &[("short", spec)]);
    let began = Instant::now();
    until_there(&mesh, "/short");
    // The proxy learns the endpoints, which a fault of every request does not ask for.
    check(&mesh, "GET /", &[], (200, &[], "GET / server"));
    drop(mesh.control_mut().take());
    for port in PORTS {
        wait::until("the end of the fault", 2 * wait::LIMIT, || {
            (ask(&mesh, port, "GET /short", &[]).status == 200).then_some(())
        });
    }
    // Its time counts from the second in which its file was written.
    assert!(began.elapsed() >= Duration::from_secs(6), "{:?}", began.elapsed());
}
