use super::*;
use crate::telemetry::trace::otlp::messages::{ExportRequest, Span, Value};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Gives so many spans to an exporter and answers what became of them.
async fn exported(collector: &str, count: usize) -> (u64, u64) {
    let counts = Counts::default();
    let (queue, spans) = mpsc::channel(QUEUE_MAX);
    for _ in 0..count {
        let span = Span { name: "GET".to_owned(), ..Span::default() }.encode_to_vec();
        let mut batch = Batch { count: 1, ..Batch::default() };
        otlp::bytes(&mut batch.spans, field::scope_spans::SPANS, &span);
        queue.send(batch).await.unwrap();
    }
    drop(queue);
    let resource = [("service.name", "web")];
    run(collector.parse().unwrap(), &resource, spans, counts.clone()).await;
    let number = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
    (number(&counts.exported), number(&counts.dropped))
}

/// Spans in a message, each of the service `web`.
fn spans_in(message: &[u8]) -> usize {
    let request = ExportRequest::decode(message).unwrap();
    let of = request.resource_spans.iter();
    of.map(|one| {
        let attribute = &one.resource.as_ref().unwrap().attributes[0];
        let value = attribute.value.as_ref().unwrap().value.as_ref();
        assert_eq!(
            (attribute.key.as_str(), value),
            ("service.name", Some(&Value::Text("web".into())))
        );
        one.scope_spans.iter().map(|scope| scope.spans.len()).sum::<usize>()
    })
    .sum()
}

#[tokio::test(flavor = "current_thread")]
async fn over_http() {
    let (listener, address) = listener().await;
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(async |request: Request<Incoming>| {
            assert_eq!(request.uri().path(), "/v1/traces");
            let body = request.into_body().collect().await?.to_bytes();
            assert_eq!(spans_in(&body), 3);
            Ok::<_, hyper::Error>(http::Response::new(Full::new(Bytes::new())))
        });
        let builder = hyper::server::conn::http1::Builder::new();
        let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
    };
    let collector = format!("http://{address}");
    let (counts, ()) = tokio::join!(exported(&collector, 3), serving);
    assert_eq!(counts, (3, 0));
}

/// Answers one call with this status.
async fn grpc_server(listener: TcpListener, status: &'static str) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(accepted) = connection.accept().await {
        let (request, mut respond) = accepted.unwrap();
        assert_eq!(request.uri().path(), GRPC_PATH);
        let answering = async move {
            let mut body = request.into_body();
            let mut message = Vec::new();
            while let Some(data) = body.data().await {
                message.extend_from_slice(&data.unwrap());
            }
            assert_eq!(spans_in(&message[5..]), 2);
            let mut send = respond.send_response(http::Response::new(()), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", status.parse().unwrap());
            send.send_trailers(trailers).unwrap();
        };
        drop(tasks::spawn("answer", answering));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn over_grpc() {
    for (status, expected) in [("0", (2, 0)), ("14", (0, 2))] {
        let (listener, address) = listener().await;
        let collector = format!("grpc://{address}");
        let _server = tasks::spawn_owned("collector", grpc_server(listener, status));
        assert_eq!(exported(&collector, 2).await, expected, "grpc-status {status}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_collector_that_is_away_costs_only_spans() {
    let (listener, address) = listener().await;
    drop(listener);
    assert_eq!(exported(&format!("http://{address}"), 5).await, (0, 5));
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_collector_that_hangs_costs_only_spans() {
    let (listener, address) = listener().await;
    let held = tasks::spawn_owned("collector", async move {
        let held: Vec<(TcpStream, _)> = vec![listener.accept().await.unwrap()];
        std::future::pending::<()>().await;
        drop(held);
    });
    assert_eq!(exported(&format!("http://{address}"), 5).await, (0, 5));
    drop(held);
}
