//! Spans on their way to a collector: OTLP over HTTP or over gRPC, in batches, from a bounded queue.
//!
//! A collector that hangs, refuses or is away costs only spans, which are counted. Nothing is sent twice.

use super::otlp::{self, field};
use crate::config::tracing::Collector;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use leno_runtime::tasks;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Batches that wait for the exporter: about 2,000 spans.
pub const QUEUE_MAX: usize = 32;
/// So many spans are sent at once.
const EXPORT_SPANS_MAX: u64 = 512;
/// Batches of other threads are waited for so long.
const BATCH_WAIT: Duration = Duration::from_millis(200);
/// A collector must take a batch within this time.
const EXPORT_MAX: Duration = Duration::from_secs(5);
/// Path of the gRPC method.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// What became of spans, for metrics.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub exported: Arc<AtomicU64>,
    pub dropped: Arc<AtomicU64>,
}

/// Spans of one data thread.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Fields of the message `ScopeSpans`, as they are sent.
    pub spans: Vec<u8>,
    pub count: u64,
}

impl Batch {
    fn append(&mut self, other: &Self) {
        self.spans.extend_from_slice(&other.spans);
        self.count += other.count;
    }
}

/// Exports until all senders are gone. `resource` names attributes of the proxy.
pub async fn run(
    collector: Collector,
    resource: &[(&str, &str)],
    mut queue: mpsc::Receiver<Batch>,
    counts: Counts,
) {
    let mut is_failing = false;
    let (resource, scope) = (encoded_resource(resource), encoded_scope());
    while let Some(mut batch) = queue.recv().await {
        let more = async {
            while batch.count < EXPORT_SPANS_MAX
                && let Some(next) = queue.recv().await
            {
                batch.append(&next);
            }
        };
        let _full = tokio::time::timeout(BATCH_WAIT, more).await;
        let count = batch.count;
        let body = request(&resource, &scope, &batch);
        let sent = tokio::time::timeout(EXPORT_MAX, send(&collector, body.into())).await;
        let sent =
            sent.unwrap_or_else(|_| Err(format!("no answer within {} s", EXPORT_MAX.as_secs())));
        match sent {
            Ok(()) => {
                counts.exported.fetch_add(count, Ordering::Relaxed);
                is_failing = false;
            }
            Err(why) => {
                counts.dropped.fetch_add(count, Ordering::Relaxed);
                if !is_failing {
                    tracing::warn!(%collector, "the collector does not take spans, which are dropped: {why}");
                }
                is_failing = true;
            }
        }
    }
}

fn encoded_resource(attributes: &[(&str, &str)]) -> Vec<u8> {
    let mut resource = Vec::new();
    for (name, value) in attributes {
        otlp::attribute(
            &mut resource,
            field::resource::ATTRIBUTES,
            name,
            otlp::Value::Text(&[value]),
        );
    }
    resource
}

fn encoded_scope() -> Vec<u8> {
    let mut scope = Vec::new();
    otlp::bytes(&mut scope, field::scope::NAME, b"leno-proxy");
    otlp::bytes(&mut scope, field::scope::VERSION, env!("CARGO_PKG_VERSION").as_bytes());
    scope
}

/// The message `ExportTraceServiceRequest`.
fn request(resource: &[u8], scope: &[u8], batch: &Batch) -> Vec<u8> {
    let mut scope_spans = Vec::with_capacity(scope.len() + batch.spans.len() + 8);
    otlp::bytes(&mut scope_spans, field::scope_spans::SCOPE, scope);
    scope_spans.extend_from_slice(&batch.spans);
    let mut resource_spans = Vec::with_capacity(resource.len() + scope_spans.len() + 16);
    otlp::bytes(&mut resource_spans, field::resource_spans::RESOURCE, resource);
    otlp::bytes(&mut resource_spans, field::resource_spans::SCOPE_SPANS, &scope_spans);
    let mut request = Vec::with_capacity(resource_spans.len() + 8);
    otlp::bytes(&mut request, field::request::RESOURCE_SPANS, &resource_spans);
    request
}

async fn send(collector: &Collector, body: Bytes) -> Result<(), String> {
    match collector {
        Collector::Http(address, path) => {
            let stream = address.connect().await.map_err(words)?;
            post(stream, &address.to_string(), path, body).await
        }
        Collector::Grpc(address) => {
            let stream = address.connect().await.map_err(words)?;
            call(stream, &address.to_string(), body).await
        }
    }
}

fn words(error: impl Display) -> String {
    error.to_string()
}

async fn post(
    stream: tokio::net::TcpStream,
    host: &str,
    path: &str,
    body: Bytes,
) -> Result<(), String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(words)?;
    let _carried = tasks::spawn_owned("span export", async move {
        // What goes wrong with the connection is said by the request on it.
        let _ended = connection.await;
    });
    let request = Request::post(path)
        .header(http::header::HOST, host)
        .header(http::header::CONTENT_TYPE, "application/x-protobuf")
        .body(Full::new(body))
        .map_err(words)?;
    let answer = sender.send_request(request).await.map_err(words)?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("status {status}"));
    }
    Ok(())
}

/// One unary call: the message with its prefix of five bytes, and the status in headers or trailers.
async fn call(stream: tokio::net::TcpStream, host: &str, message: Bytes) -> Result<(), String> {
    let (sender, connection) = h2::client::handshake(stream).await.map_err(words)?;
    let _carried = tasks::spawn_owned("span export", async move {
        let _ended = connection.await;
    });
    let mut sender = sender.ready().await.map_err(words)?;
    let request = Request::post(format!("http://{host}{GRPC_PATH}"))
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers")
        .body(())
        .map_err(words)?;
    let (answer, mut body) = sender.send_request(request, false).map_err(words)?;
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).map_err(words)?);
    framed.put(message);
    body.send_data(framed.freeze(), true).map_err(words)?;
    let answer = answer.await.map_err(words)?;
    let in_head = grpc_status(answer.headers());
    let mut rest = answer.into_body();
    while let Some(data) = rest.data().await {
        let taken = data.map_err(words)?.len();
        rest.flow_control().release_capacity(taken).map_err(words)?;
    }
    let trailers = rest.trailers().await.map_err(words)?;
    match in_head.or_else(|| grpc_status(&trailers?)) {
        Some(0) => Ok(()),
        Some(status) => Err(format!("grpc-status {status}")),
        None => Err("an answer without grpc-status".to_owned()),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<u16> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
