//! The same mesh with a collector and a backend that others wrote: Jaeger takes spans with the OpenTelemetry Collector's own receiver, and
//! is then asked for traces as its page does.
//!
//! `cargo xtask setup test` builds Jaeger from `tests/jaeger/go.mod`.

use super::{HTTP_PORT, ROW, ask, service, start};
use leno_tests::admin;
use leno_tests::binaries;
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::Mesh;
use leno_tests::network::NODE;
use leno_tests::program::{Program, Running};
use leno_tests::wait;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const QUERY_PORT: u16 = 16686;
/// Proxies send spans after two seconds at the latest.
const LIMIT: Duration = Duration::from_secs(30);
/// The caller of requests that nobody has sampled.
const CALLER: &str = "b7ad6b7169203331";

#[test]
fn jaeger_shows_traces_that_come_over_http() {
    check("trace-jaeger-http", &format!("http://{NODE}:4318"));
}

#[test]
fn jaeger_shows_traces_that_come_over_grpc() {
    check("trace-jaeger-grpc", &format!("grpc://{NODE}:4317"));
}

#[track_caller]
fn check(name: &str, collector: &str) {
    let mesh = start(name, collector, "100%", "300");
    let _jaeger = jaeger(&mesh);
    mesh.pod("a").namespace.run(|| ask(service(&mesh, "b"), "/first", None));
    check_chain(&chain(&mesh));
    // Nobody has sampled these.
    unsampled(&mesh, 1, "/well");
    unsampled(&mesh, 2, "/fail");
    unsampled(&mesh, 3, "/slow");
    let repeated = repeated(&mesh);
    let denied = denied(&mesh);
    //            trace     spans  kind      service  tag                 value
    let rows: [(u64, usize, &str, &str, &str, &str); 6] = [
        (2, 2, "client", "a", "error.type", "503"),
        (2, 2, "server", "e", "http.response.status_code", "503"),
        (3, 2, "server", "e", "http.response.status_code", "200"),
        (repeated, 2, "client", "a", "http.request.resend_count", "1"),
        (repeated, 2, "server", "e", "error.type", "503"),
        (denied, 1, "server", "e", "error.type", "policy_denied"),
    ];
    for (trace, count, kind, service, tag, value) in rows {
        let spans = spans(&mesh, trace, count);
        let is_it = |span: &&Span| (span.kind.as_str(), span.service.as_str()) == (kind, service);
        let span =
            spans.iter().find(is_it).unwrap_or_else(|| panic!("{kind} of {service}: {spans:#?}"));
        assert_eq!(span.tags.get(tag).map(String::as_str), Some(value), "{tag} of {span:#?}");
        if trace == repeated && kind == "client" {
            assert_eq!(span.events, ["attempt response 503", "attempt"], "{span:#?}");
        }
    }
    // It would have come before the others.
    assert_eq!(spans_of(&mesh, &format!("/api/traces/{}", id(1))), Vec::new());
}

/// Every service of the row has its spans, each the child of the one before, and Jaeger knows the parent of each.
#[track_caller]
fn check_chain(spans: &[Span]) {
    let mut at = spans.iter().find(|span| span.parent.is_none()).expect("a first span");
    let mut seen = Vec::new();
    loop {
        assert_eq!(at.tags.get("http.request.method").map(String::as_str), Some("GET"), "{at:#?}");
        // A server may end its span some microseconds after its client: Jaeger says so too.
        assert!(!at.warnings.contains("parent"), "{at:#?}");
        seen.push(format!("{} {}", at.kind, at.service));
        match spans.iter().find(|span| span.parent.as_ref() == Some(&at.id)) {
            Some(next) => at = next,
            None => break,
        }
    }
    let pairs = ROW.windows(2);
    let expected =
        pairs.flat_map(|pair| [format!("client {}", pair[0]), format!("server {}", pair[1])]);
    assert_eq!(seen, expected.collect::<Vec<_>>(), "{spans:#?}");
}

fn jaeger(mesh: &Mesh) -> Running {
    let program = binaries::installed("jaeger/all-in-one").expect("cargo xtask setup test");
    let jaeger = Program::new(program).args(["--log-level=error"]).start(mesh.node());
    wait::until("Jaeger answers", LIMIT, || {
        admin::get(mesh.node(), (NODE, QUERY_PORT).into(), "/api/services").ok()
    });
    jaeger.expect("Jaeger")
}

/// A request of `a` to `e` in a trace of its own, which is not sampled; answers its status line.
fn unsampled(mesh: &Mesh, trace: u64, path: &str) -> String {
    let parent = format!("traceparent: 00-{}-{CALLER}-00", id(trace));
    let first = &mesh.pod("a").namespace;
    first.run(|| ask(service(mesh, "e"), path, Some(&parent))).swap_remove(0)
}

/// The trace of a request that succeeded at its second attempt.
fn repeated(mesh: &Mesh) -> u64 {
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": NAMESPACE},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": "e", "port": HTTP_PORT}],
            "rules": [{
                "retry": {"codes": [503], "attempts": 1, "backoff": "1ms"},
                "backendRefs": [{"name": "e", "port": HTTP_PORT}],
            }],
        },
    });
    mesh.manifests().write(&route).expect("write the route");
    let mut trace = 100;
    wait::until("a failure that the client does not see", wait::LIMIT, || {
        trace += 1;
        unsampled(mesh, trace, &format!("/flap/{trace}")).contains("200").then_some(trace)
    })
}

/// The trace of a request that the policy of `e` denied.
fn denied(mesh: &Mesh) -> u64 {
    let server = json!({
        "apiVersion": "policy.leno.dev/v1beta3", "kind": "Server",
        "metadata": {"name": "closed", "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": {"app": "e"}},
            "port": HTTP_PORT, "proxyProtocol": "HTTP/1", "accessPolicy": "deny",
        },
    });
    mesh.manifests().write(&server).expect("write the Server");
    let mut trace = 1000;
    wait::until("a denial", wait::LIMIT, || {
        trace += 1;
        unsampled(mesh, trace, "/well").contains("403").then_some(trace)
    })
}

fn id(trace: u64) -> String {
    format!("{:032x}", 0x0af7_6519_0000_0000 + trace)
}

/// A span as Jaeger has it.
#[derive(Debug, Clone, PartialEq)]
struct Span {
    id: String,
    parent: Option<String>,
    service: String,
    kind: String,
    tags: BTreeMap<String, String>,
    /// Name, reason and status of each.
    events: Vec<String>,
    warnings: String,
}

/// The spans of a trace, when so many have come.
fn spans(mesh: &Mesh, trace: u64, count: usize) -> Vec<Span> {
    all(mesh, &format!("/api/traces/{}", id(trace)), count)
}

/// The spans of the only trace with so many as the row has.
fn chain(mesh: &Mesh) -> Vec<Span> {
    all(mesh, "/api/traces?service=a&limit=1", 2 * (ROW.len() - 1))
}

#[track_caller]
fn all(mesh: &Mesh, path: &str, count: usize) -> Vec<Span> {
    let mut last = Vec::new();
    let found = wait::until(&format!("{count} spans of {path}"), LIMIT, || {
        last = spans_of(mesh, path);
        (last.len() >= count).then(|| std::mem::take(&mut last))
    });
    assert_eq!(found.len(), count, "{found:#?}");
    found
}

/// The spans of the first trace in an answer; none where Jaeger has not received it.
fn spans_of(mesh: &Mesh, path: &str) -> Vec<Span> {
    let answer = admin::get(mesh.node(), (NODE, QUERY_PORT).into(), path).expect("Jaeger's answer");
    let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
    let trace = &answer["data"][0];
    let spans = trace["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
    spans.iter().map(|span| read(span, &trace["processes"])).collect()
}

fn read(span: &Value, processes: &Value) -> Span {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs = |list: &Value| -> BTreeMap<String, String> {
        let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|pair| (text(&pair["key"]), text(&pair["value"]))).collect()
    };
    let event = |log: &Value| {
        let fields = pairs(&log["fields"]);
        let names = ["event", "error.type", "http.response.status_code"];
        let known = names.iter().filter_map(|name| fields.get(*name).map(String::as_str));
        known.collect::<Vec<_>>().join(" ")
    };
    let tags = pairs(&span["tags"]);
    let process = &processes[span["processID"].as_str().expect("a process")];
    Span {
        id: text(&span["spanID"]),
        parent: span["references"][0]["spanID"].as_str().map(str::to_owned),
        service: text(&process["serviceName"]),
        kind: tags.get("span.kind").cloned().unwrap_or_default(),
        tags,
        events: span["logs"].as_array().expect("events").iter().map(event).collect(),
        warnings: span["warnings"].to_string(),
    }
}
