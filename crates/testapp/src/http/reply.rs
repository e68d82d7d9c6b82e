//! Small answers, the signature that every answer has, and the answer that is none.

use super::body::Body;
use crate::node::Node;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use std::fmt;

/// The plan says: no answer. The connection (HTTP/1) or the stream (HTTP/2) is reset.
#[derive(Debug)]
pub(crate) struct Abort;

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reset, as the plan says")
    }
}

impl std::error::Error for Abort {}

/// Says who answered.
pub(crate) fn sign(node: &Node, headers: &mut HeaderMap) {
    if let Ok(name) = HeaderValue::try_from(node.name.as_str()) {
        headers.insert("x-worker", name);
    }
    if let Some(Ok(pod)) = node.pod.as_deref().map(HeaderValue::try_from) {
        headers.insert("x-worker-pod", pod);
    }
}

/// A short text.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    typed(status, "text/plain", text)
}

/// A JSON document.
pub(crate) fn json(status: StatusCode, text: String) -> Response<Body> {
    typed(status, "application/json", text)
}

fn typed(status: StatusCode, kind: &'static str, body: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
