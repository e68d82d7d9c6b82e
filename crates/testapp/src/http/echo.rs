//! What a request looked like when it arrived, and what the calls of a plan gave, as JSON.

use super::body::Body;
use crate::call::Called;
use crate::node::Node;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Serialize;

/// A body is shown up to here; its length is always exact.
const BODY_BYTES_SHOWN_MAX: usize = 1024 * 1024;

/// Headers as pairs, as order and repetition count.
type Pairs = Vec<(String, String)>;

#[derive(Debug, Serialize)]
struct Echo {
    method: String,
    target: String,
    version: String,
    headers: Pairs,
    /// Bytes that are not UTF-8 show as U+FFFD.
    body: String,
    body_bytes: u64,
    trailers: Pairs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    worker: &'a str,
    #[serde(skip_serializing_if = "<[Called]>::is_empty")]
    calls: &'a [Called],
}

/// Who answered, and what the calls gave.
pub(crate) fn report(node: &Node, calls: &[Called]) -> String {
    let report = Report { worker: &node.name, calls };
    serde_json::to_string(&report).unwrap_or_default()
}

/// Reads the request to its end and shows it. `head` is the HTTP/1 head as it was on the wire.
pub(crate) async fn echo(request: Request<Incoming>, head: Option<Vec<u8>>) -> Body {
    let (parts, mut incoming) = request.into_parts();
    let (target, headers) = match head {
        Some(head) => read_head(&head),
        None => (parts.uri.to_string(), pairs(&parts.headers)),
    };
    let mut shown = Vec::new();
    let mut body_bytes = 0;
    let mut trailers = Vec::new();
    while let Some(Ok(frame)) = incoming.frame().await {
        match frame.into_data() {
            Ok(data) => {
                body_bytes += data.len() as u64;
                let room = BODY_BYTES_SHOWN_MAX.saturating_sub(shown.len());
                shown.extend_from_slice(&data[..data.len().min(room)]);
            }
            Err(frame) => trailers = frame.into_trailers().map(|t| pairs(&t)).unwrap_or_default(),
        }
    }
    let echo = Echo {
        method: parts.method.to_string(),
        target,
        version: format!("{:?}", parts.version),
        headers,
        body: String::from_utf8_lossy(&shown).into_owned(),
        body_bytes,
        trailers,
    };
    Body::whole(serde_json::to_string(&echo).unwrap_or_default())
}

/// The target and the headers, in the order and the case of the wire. hyper has accepted the head, so this need not judge it.
fn read_head(head: &[u8]) -> (String, Pairs) {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.trim_start().lines();
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_string(), value.trim().to_string()))
        .collect();
    (target.to_string(), headers)
}

fn pairs(headers: &HeaderMap) -> Pairs {
    let shown = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), shown(value))).collect()
}
