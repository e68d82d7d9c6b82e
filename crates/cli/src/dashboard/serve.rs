//! The server of the page: loopback only, GET only, and only for pages that this server sent.
//!
//! A web page elsewhere must not read the mesh through the browser of a person who runs this command. The server therefore rejects a
//! `Host` other than loopback (DNS rebinding) and an `Origin` other than its own, and sends no CORS header.

use super::asides::Subject;
use super::counters::Node;
use super::history::{WINDOW_SECONDS_MAX, WINDOW_SECONDS_MIN};
use super::{Shared, view};
use anyhow::Context as _;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use leno_runtime::denial::DenialId;
use leno_runtime::page_server;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use std::net::SocketAddr;
use std::rc::Rc;

/// The window of a query that names none.
const WINDOW_SECONDS: u64 = 300;

/// The page loads nothing from elsewhere, sends nothing elsewhere, and is in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Files of the page: path, media type, content. `cargo xtask dashboard` checks that they are fresh.
const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("../../../../dashboard/bundle/index.html")),
    (
        "/dashboard.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../../dashboard/bundle/dashboard.js"),
    ),
    (
        "/dashboard.css",
        "text/css; charset=utf-8",
        include_str!("../../../../dashboard/bundle/dashboard.css"),
    ),
    ("/icon.svg", "image/svg+xml", include_str!("../../../../dashboard/bundle/icon.svg")),
];

/// Serves on `address` until a signal; `listening` gets the address with its port.
///
/// # Errors
/// The port is taken.
pub(super) fn run(
    shared: Shared,
    address: SocketAddr,
    listening: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let served = async |shared: Rc<Shared>, request| answer(&shared, &request);
    page_server::run(address, shared, served, listening)
        .with_context(|| format!("listen on {address}"))
}

fn answer<B>(shared: &Shared, request: &Request<B>) -> Response<Full<Bytes>> {
    if let Err(why) = admit(request.headers()) {
        return text(StatusCode::MISDIRECTED_REQUEST, why);
    }
    if *request.method() != Method::GET {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        return refused;
    }
    let path = request.uri().path();
    if let Some((_, media_type, content)) = FILES.iter().find(|(name, ..)| *name == path) {
        return typed(StatusCode::OK, media_type, Bytes::from_static(content.as_bytes()));
    }
    let asked = Asked::read(request.uri().query().unwrap_or_default());
    let history = shared.lock();
    match path {
        "/api/graph" => json(Some(view::graph(&history, asked.window_seconds))),
        "/api/node" => {
            json(asked.node.and_then(|node| view::node(&history, &node, asked.window_seconds)))
        }
        "/api/edge" => json(
            asked
                .from
                .zip(asked.to)
                .and_then(|(from, to)| view::edge(&history, from, to, asked.window_seconds)),
        ),
        "/api/requests" => {
            json(asked.from.zip(asked.to).map(|(from, to)| shared.watch.ask(from, to)))
        }
        "/api/aside" => {
            let edge = asked.from.zip(asked.to).map(|(from, to)| Subject::Edge(from, to));
            let subject = edge.or(asked.node.map(Subject::Workload));
            json(subject.map(|subject| shared.asides.ask(subject)))
        }
        "/api/denial" => json(asked.denial.map(|id| shared.asides.ask(Subject::Denial(id)))),
        _ => text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

/// Whether the request comes from this page, or from a program on this machine.
fn admit(headers: &HeaderMap) -> Result<(), &'static str> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !page_server::is_loopback_host(host) {
        return Err("the dashboard answers only to localhost and loopback addresses\n");
    }
    let foreign = "the dashboard answers only to its own page\n";
    match headers.get(header::ORIGIN).map(|origin| origin.to_str().ok()) {
        Some(origin) if origin.and_then(|one| one.strip_prefix("http://")) != Some(host) => {
            return Err(foreign);
        }
        _ => {}
    }
    // A link from elsewhere may open the page (`none` or a navigation), and no other site may load a part of it.
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|one| one == value);
    let is_elsewhere = is("sec-fetch-site", "cross-site") || is("sec-fetch-site", "same-site");
    if is_elsewhere && !is("sec-fetch-mode", "navigate") {
        return Err(foreign);
    }
    Ok(())
}

/// A query; unknown parameters and malformed values count as absent.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    window_seconds: u64,
    node: Option<Node>,
    from: Option<Node>,
    to: Option<Node>,
    denial: Option<DenialId>,
}

impl Asked {
    fn read(query: &str) -> Self {
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(key, _)| *key == name)?.1;
            Some(percent_decode_str(found).decode_utf8().ok()?.into_owned())
        };
        let node = |name: &str| Node::parse(&value(name)?);
        let window = value("window").and_then(|seconds| seconds.parse().ok());
        Self {
            window_seconds: window
                .unwrap_or(WINDOW_SECONDS)
                .clamp(WINDOW_SECONDS_MIN, WINDOW_SECONDS_MAX),
            node: node("id"),
            from: node("from"),
            to: node("to"),
            denial: value("id").and_then(|id| DenialId::parse(&id)),
        }
    }
}

fn json(content: Option<impl Serialize>) -> Response<Full<Bytes>> {
    let Some(content) = content else {
        return text(StatusCode::NOT_FOUND, "not in the graph\n");
    };
    match serde_json::to_vec(&content) {
        Ok(bytes) => typed(StatusCode::OK, "application/json", bytes.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn text(status: StatusCode, content: &str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", content.to_owned().into())
}

fn typed(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
