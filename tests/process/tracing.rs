//! Traces of real proxies, as a collector receives them: five services in a row, correct parents, kept failures.

use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::network::NODE;
use leno_tests::wait;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const HTTP_PORT: u16 = 8001;
const COLLECTOR_PORT: u16 = 4318;
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
}

const SERVER: i32 = 2;
const CLIENT: i32 = 3;

type Received = Arc<Mutex<Vec<Span>>>;

/// A receiver of OTLP over HTTP on the node.
fn collector(mesh: &Mesh) -> Received {
    let listener = mesh.node().run(|| TcpListener::bind((NODE, COLLECTOR_PORT))).expect("free");
    let received = Received::default();
    let spans = received.clone();
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
            let export = Export::decode(&body[..]).expect("OTLP");
            let scopes = export.of_resources.into_iter().flat_map(|one| one.of_scopes);
            spans.lock().expect("whole").extend(scopes.flat_map(|scope| scope.spans));
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

/// An application that asks the next with the trace header that it received, as every traced application does.
fn serve(mesh: &Mesh, name: &'static str, next: Option<SocketAddr>) {
    let namespace = &mesh.pod(name).namespace;
    let bound = namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, HTTP_PORT)));
    let listener = bound.expect("free");
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
            let status = if lines[0].contains("/fail") { "500 No" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            drop(reader.get_mut().write_all(answer.as_bytes()));
        }
    };
    // Threads keep the namespace of the thread that starts them.
    namespace.run(|| {
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                std::thread::spawn(move || answer(stream));
            }
        });
    });
}

fn mesh(name: &str, rate: &str) -> (Mesh, Received) {
    let url = format!("http://{NODE}:{COLLECTOR_PORT}");
    let mut plan = Plan::new();
    for name in ROW {
        plan = plan
            .pod(name)
            .proxy_env("LENO_PROXY_TRACING_COLLECTOR", &url)
            .proxy_env("LENO_PROXY_TRACING_SAMPLING_RATE", rate)
            .proxy_env("LENO_PROXY_TRACING_SLOW_MILLISECONDS", "3600000");
    }
    for name in &ROW[1..] {
        plan = plan.service(name, [HTTP_PORT], &[name]);
    }
    let mesh = plan.start(name, Meshed::Yes);
    let received = collector(&mesh);
    for (at, name) in ROW.iter().enumerate().skip(1) {
        let next = ROW.get(at + 1).map(|next| service(&mesh, next));
        serve(&mesh, name, next);
    }
    (mesh, received)
}

fn service(mesh: &Mesh, name: &str) -> SocketAddr {
    (mesh.service(name).addresses.v4, HTTP_PORT).into()
}

/// The spans of a trace from its first to its last, when so many have come.
fn row(received: &Received, count: usize) -> Vec<Span> {
    let spans = wait::until(&format!("{count} spans"), wait::LIMIT, || {
        let spans = received.lock().expect("whole").clone();
        (spans.len() >= count).then_some(spans)
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
    let (mesh, received) = mesh("trace-row", "100%");
    let first = &mesh.pod("a").namespace;
    first.run(|| ask(service(&mesh, "b"), "/first", None));
    let spans = row(&received, 8);
    assert!(spans[0].parent.is_empty(), "the trace begins in the mesh");
    for (at, span) in spans.iter().enumerate() {
        assert_eq!(span.kind, if at % 2 == 0 { CLIENT } else { SERVER }, "{at}: {spans:#?}");
        assert!(span.name.starts_with("GET"), "{spans:#?}");
    }
    let sent: f64 =
        ROW.iter().map(|pod| mesh.pod(pod).metrics().sum("trace_spans_exported_total", &[])).sum();
    assert!((sent - 8.0).abs() < f64::EPSILON, "{sent}");
}

#[test]
fn an_application_that_speaks_b3_keeps_its_trace() {
    let (mesh, received) = mesh("trace-b3", "0%");
    let b3 = "b3: 0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1";
    mesh.pod("a").namespace.run(|| ask(service(&mesh, "d"), "/b3", Some(b3)));
    let spans = row(&received, 4);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&spans[0].trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&spans[0].parent), "b7ad6b7169203331");
}

/// Nothing is sampled, and still a failure has its spans.
#[test]
fn a_failure_is_kept_in_any_case() {
    let (mesh, received) = mesh("trace-fail", "0%");
    let first = &mesh.pod("a").namespace;
    first.run(|| {
        ask(service(&mesh, "e"), "/well", None);
        ask(service(&mesh, "e"), "/fail", None)
    });
    let spans = row(&received, 2);
    assert_eq!((spans[0].kind, spans[1].kind), (CLIENT, SERVER));
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
