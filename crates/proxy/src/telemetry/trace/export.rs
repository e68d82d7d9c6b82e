//! Spans on their way to a collector: OTLP over HTTP or over gRPC, in batches, from a bounded queue.
//!
//! A collector that hangs, refuses or is away costs only spans, which are counted. Nothing is sent twice.

use super::otlp::{ExportRequest, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span};
use crate::config::tracing::Collector;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use leno_runtime::tasks;
use prost::Message as _;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Spans that wait for the exporter.
pub const QUEUE_MAX: usize = 2048;
/// Spans of one request to the collector.
const BATCH_MAX: usize = 512;
/// A span waits so long for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
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

/// Exports until all senders are gone.
pub async fn run(
    collector: Collector,
    resource: Vec<KeyValue>,
    mut queue: mpsc::Receiver<Span>,
    counts: Counts,
) {
    let mut is_failing = false;
    let mut spans = Vec::with_capacity(BATCH_MAX);
    while queue.recv_many(&mut spans, BATCH_MAX).await > 0 {
        let more = async {
            loop {
                let room = BATCH_MAX - spans.len();
                if room == 0 || queue.recv_many(&mut spans, room).await == 0 {
                    break;
                }
            }
        };
        let _full = tokio::time::timeout(BATCH_WAIT, more).await;
        let count = spans.len() as u64;
        let body = batch(&resource, std::mem::take(&mut spans)).encode_to_vec();
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

fn batch(resource: &[KeyValue], spans: Vec<Span>) -> ExportRequest {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let scope = Some(Scope { name: "leno-proxy".to_owned(), version });
    let resource = Some(Resource { attributes: resource.to_vec() });
    let scope_spans = vec![ScopeSpans { scope, spans }];
    ExportRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
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
