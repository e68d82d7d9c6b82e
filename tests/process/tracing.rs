//! Traces of real proxies, as a collector receives them: five services in a row, correct parents, kept failures.

mod jaeger;

use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::network::NODE;
use leno_tests::wait;
use prost::Message;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HTTP_PORT: u16 = 8001;
const COLLECTOR_PORT: u16 = 4318;
/// As `LENO_PROXY_TRACING_SLOW_MILLISECONDS`: nothing is slow.
const NEVER: &str = "3600000";
/// Each asks the next.
const ROW: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    of_resources: Vec<OfResource>,
}

#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(message, repeated, tag = "2")]
    of_scopes: Vec<OfScope>,
}

#[derive(Clone, PartialEq, Message)]
struct OfScope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(string, tag = "2")]
    name: String,
}

/// Spans of an `ExportTraceServiceRequest`.
fn spans(message: &[u8]) -> impl Iterator<Item = Span> {
    let export = Export::decode(message).expect("OTLP");
    let scopes = export.of_resources.into_iter().flat_map(|one| one.of_scopes);
    scopes.flat_map(|scope| scope.spans)
}

const SERVER: i32 = 2;
const CLIENT: i32 = 3;

type Received = Arc<Mutex<Vec<Span>>>;

/// A receiver of OTLP over HTTP on the node.
fn collector(mesh: &Mesh) -> Received {
    let listener = mesh.node().run(|| TcpListener::bind((NODE, COLLECTOR_PORT))).expect("free");
    let received = Received::default();
    let all = received.clone();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            all.lock().expect("whole").extend(spans(&body));
            let mut stream = reader.into_inner();
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    received
}

/// The head of a message; `None` where the connection is over.
fn head(reader: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line).ok()? {
            0 => return None,
            1 | 2 => return Some(lines),
            _ => lines.push(line.trim_end().to_owned()),
        }
    }
}

/// One request with this header, where there is one; answers the head of the response.
fn ask(address: SocketAddr, path: &str, trace: Option<&str>) -> Vec<String> {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    let trace = trace.map(|line| format!("{line}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{trace}\r\n");
    stream.write_all(request.as_bytes()).expect("ask");
    head(&mut BufReader::new(stream)).expect("an answer")
}

/// An application that asks the next with the trace header that it received, as every traced application does. It fails every
/// `/fail`, and the first request of each `/flap/…`; it answers `/slow` after 300 ms.
fn serve(mesh: &Mesh, name: &'static str, next: Option<SocketAddr>) {
    let namespace = &mesh.pod(name).namespace;
    let bound = namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT)));
    let listener = bound.expect("free");
    let flapped = Mutex::new(BTreeSet::new());
    let fails = move |line: &str| {
        let flap = line.split(' ').nth(1).filter(|path| path.starts_with("/flap/"));
        let is_first = |path: &str| flapped.lock().expect("whole").insert(path.to_owned());
        line.contains("/fail") || flap.is_some_and(is_first)
    };
    let answer = move |stream: TcpStream| {
        let mut reader = BufReader::new(stream);
        while let Some(lines) = head(&mut reader) {
            let is_trace = |line: &&String| {
                let name = line.to_ascii_lowercase();
                name.starts_with("traceparent:") || name.starts_with("b3:")
            };
            let trace = lines.iter().find(is_trace).expect("a trace header");
            if let Some(next) = next {
                ask(next, "/next", Some(trace));
            }
            if lines[0].contains("/slow") {
                std::thread::sleep(Duration::from_millis(300));
            }
            let status = if fails(&lines[0]) { "503 No" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            drop(reader.get_mut().write_all(answer.as_bytes()));
        }
    };
    let answer = Arc::new(answer);
    // Threads keep the namespace of the thread that starts them.
    namespace.run(|| {
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let answer = answer.clone();
                std::thread::spawn(move || answer(stream));
            }
        });
    });
}

/// A mesh with a collector over HTTP.
fn mesh(name: &str, rate: &str, slow: &str) -> (Mesh, Received) {
    let mesh = start(name, &format!("http://{NODE}:{COLLECTOR_PORT}"), rate, slow);
    let received = collector(&mesh);
    (mesh, received)
}

fn start(name: &str, collector: &str, rate: &str, slow: &str) -> Mesh {
    let mut plan = Plan::new();
    for name in ROW {
        plan = plan
            .pod(name)
            .proxy_env("LENO_PROXY_TRACING_COLLECTOR", collector)
            .proxy_env("LENO_PROXY_TRACING_SAMPLING_RATE", rate)
            .proxy_env("LENO_PROXY_TRACING_SLOW_MILLISECONDS", slow);
    }
    for name in &ROW[1..] {
        plan = plan.service(name, [HTTP_PORT], &[name]);
    }
    let mesh = plan.start(name, Meshed::Yes);
    for (at, name) in ROW.iter().enumerate().skip(1) {
        let next = ROW.get(at + 1).map(|next| service(&mesh, next));
        serve(&mesh, name, next);
    }
    mesh
}

fn service(mesh: &Mesh, name: &str) -> SocketAddr {
    (mesh.service(name).addresses.v4, HTTP_PORT).into()
}

/// The spans of a trace from its first to its last, when so many have come.
fn row(received: impl Fn() -> Vec<Span>, count: usize) -> Vec<Span> {
    let spans = wait::until(&format!("{count} spans"), 3 * wait::LIMIT, || {
        Some(received()).filter(|spans| spans.len() >= count)
    });
    assert_eq!(spans.len(), count, "{spans:#?}");
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id), "{spans:#?}");
    let by_parent: BTreeMap<&[u8], &Span> =
        spans.iter().map(|span| (span.parent.as_slice(), span)).collect();
    assert_eq!(by_parent.len(), count, "two spans have one parent: {spans:#?}");
    let known = |span: &&Span| spans.iter().any(|other| other.span_id == span.parent);
    let first = spans.iter().find(|span| !known(span)).expect("a first span");
    let mut ordered = vec![first.clone()];
    while let Some(next) = by_parent.get(ordered[ordered.len() - 1].span_id.as_slice()) {
        ordered.push((*next).clone());
    }
    assert_eq!(ordered.len(), count, "the spans are not a row: {spans:#?}");
    ordered
}

#[test]
fn five_services_in_a_row_have_correct_parents() {
    let (mesh, received) = mesh("trace-row", "100%", NEVER);
    let first = &mesh.pod("a").namespace;
    first.run(|| ask(service(&mesh, "b"), "/first", None));
    check_row(&row(|| received.lock().expect("whole").clone(), 8));
    let sent: f64 =
        ROW.iter().map(|pod| mesh.pod(pod).metrics().sum("trace_spans_exported_total", &[])).sum();
    assert!((sent - 8.0).abs() < f64::EPSILON, "{sent}");
}

/// From `a` to `e`: each span is the parent of the next.
fn check_row(spans: &[Span]) {
    assert!(spans[0].parent.is_empty(), "the trace begins in the mesh");
    for (at, span) in spans.iter().enumerate() {
        assert_eq!(span.kind, if at % 2 == 0 { CLIENT } else { SERVER }, "{at}: {spans:#?}");
        assert!(span.name.starts_with("GET"), "{spans:#?}");
    }
}

#[test]
fn an_application_that_speaks_b3_keeps_its_trace() {
    let (mesh, received) = mesh("trace-b3", "0%", NEVER);
    let b3 = "b3: 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1";
    mesh.pod("a").namespace.run(|| ask(service(&mesh, "d"), "/b3", Some(b3)));
    let spans = row(|| received.lock().expect("whole").clone(), 4);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&spans[0].trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&spans[0].parent), "b7ad6b7169203331");
}

/// Nothing is sampled, and still what failed and what was slow has its spans.
#[test]
fn failures_and_slow_requests_are_kept_in_any_case() {
    let (mesh, received) = mesh("trace-kept", "0%", "300");
    let first = &mesh.pod("a").namespace;
    for path in ["/fail", "/slow"] {
        received.lock().expect("whole").clear();
        first.run(|| {
            ask(service(&mesh, "e"), "/well", None);
            ask(service(&mesh, "e"), path, None)
        });
        let spans = row(|| received.lock().expect("whole").clone(), 2);
        assert_eq!((spans[0].kind, spans[1].kind), (CLIENT, SERVER), "{path}");
    }
}

/// Nothing is sampled; the client's span of a request that succeeds at the second attempt is kept, with an event for each.
#[test]
fn a_repeated_request_is_kept_with_its_attempts() {
    let (mesh, received) = mesh("trace-repeated", "0%", NEVER);
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": leno_tests::manifest::NAMESPACE},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": "e", "port": HTTP_PORT}],
            "rules": [{
                "retry": {"codes": [503], "attempts": 1, "backoff": "1ms"},
                "backendRefs": [{"name": "e", "port": HTTP_PORT}],
            }],
        },
    });
    mesh.manifests().write(&route).expect("write the route");
    let mut number = 0;
    wait::until("a failure that the client does not see", wait::LIMIT, || {
        number += 1;
        let first = &mesh.pod("a").namespace;
        let answer = first.run(|| ask(service(&mesh, "e"), &format!("/flap/{number}"), None));
        answer[0].contains("200").then_some(())
    });
    let repeated = wait::until("its span", wait::LIMIT, || {
        let spans = received.lock().expect("whole").clone();
        spans.into_iter().find(|span| span.kind == CLIENT && !span.events.is_empty())
    });
    let names: Vec<&str> = repeated.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["attempt", "attempt"]);
    assert_eq!(repeated.name, "GET default/r");
}

/// The collector is away: requests are served, and the spans are counted.
#[test]
fn a_collector_that_is_away_costs_only_spans() {
    let nowhere = format!("grpc://{}:1", Ipv4Addr::LOCALHOST);
    let mesh = Plan::new()
        .pod("a")
        .proxy_env("LENO_PROXY_TRACING_COLLECTOR", &nowhere)
        .proxy_env("LENO_PROXY_TRACING_SAMPLING_RATE", "100%")
        .pod("e")
        .service("e", [HTTP_PORT], &["e"])
        .start("trace-away", Meshed::Yes);
    serve(&mesh, "e", None);
    let first = &mesh.pod("a").namespace;
    let answer = first.run(|| ask(service(&mesh, "e"), "/", None));
    assert!(answer[0].contains("200"), "{answer:?}");
    wait::until("a span is counted as dropped", wait::LIMIT, || {
        let dropped = mesh.pod("a").metrics().sum("trace_spans_dropped_total", &[]);
        (dropped >= 1.0).then_some(())
    });
}
