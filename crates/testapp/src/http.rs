//! The HTTP side: HTTP/1 and HTTP/2 with prior knowledge on one port; gRPC requests go on to [`crate::grpc`].
//!
//! `/healthz`, `/ready`, `/echo`, `/mirror` and `/upgrade` answer without a plan, unless the plan names them.

pub(crate) mod body;
pub(crate) mod echo;
pub(crate) mod reply;
pub(crate) mod tape;

use crate::call::{self, Onward};
use crate::executor::LocalExecutor;
use crate::node::{Node, Planned, add, pause};
use crate::plan::{Answer, Decision, Outcome};
use body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use leno_runtime::drain::Guard;
use leno_runtime::tasks;
use reply::{Abort, json, plain, sign};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tape::{Framing, Tape, Wire};
use tokio::net::TcpStream;

/// More than any real request has, so that a test of many headers reaches the application.
const HEADERS_MAX: usize = 256;
/// Of a head, on HTTP/1 and HTTP/2.
const HEAD_BYTES_MAX: u32 = 256 * 1024;
/// Flow-control windows that do not slow a large upload.
const WINDOW_BYTES: u32 = 1024 * 1024;
const STREAMS_MAX: u32 = 1024;
/// The answer beyond the plan's `queue`.
const QUEUE_FULL: &str = "too many requests wait\n";

/// One connection, until either side ends it or the drain does.
pub(crate) async fn serve(node: Rc<Node>, stream: TcpStream, guard: Guard) {
    let _open = node.connected();
    let (wire, tape) = Wire::new(stream);
    let held = guard.clone();
    let service = hyper::service::service_fn(move |request| {
        answer(Rc::clone(&node), Arc::clone(&tape), held.clone(), request)
    });
    let mut builder = auto::Builder::new(LocalExecutor);
    builder
        .http1()
        .half_close(true)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX as usize)
        .timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(4 * WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(wire), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = guard.draining() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// One request, start to finish.
async fn answer(
    node: Rc<Node>,
    tape: Arc<Tape>,
    guard: Guard,
    request: Request<Incoming>,
) -> Result<Response<Body>, Abort> {
    add(&node.seen.requests, 1);
    let framing = framing(&request);
    let head = framing.map(|framing| tape.next_head(framing));
    if is_grpc(request.headers()) {
        return crate::grpc::answer(node, request).await;
    }
    let planned = node.planned();
    let uri = request.uri().clone();
    let path = uri.path();
    let target = uri.path_and_query().map_or(path, |target| target.as_str());
    let decision = planned.plan.decide(request.method().as_str(), target, &planned.random);
    let mut response = if framing == Some(Framing::Other) {
        upgrade(request, guard)
    } else if decision.named {
        planned_answer(&node, &planned, decision, request, head, &tape).await?
    } else {
        match path {
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/ready" if node.ready.get() => plain(StatusCode::OK, "ready\n"),
            "/ready" => plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            "/echo" => Response::new(echo::echo(request, head).await),
            "/mirror" => mirror(request).await,
            _ => planned_answer(&node, &planned, decision, request, head, &tape).await?,
        }
    };
    sign(&node, response.headers_mut());
    if response.status().is_server_error() {
        add(&node.seen.failures, 1);
    }
    Ok(response)
}

/// Waits, calls, then fails or answers.
async fn planned_answer(
    node: &Node,
    planned: &Planned,
    decision: Decision<'_>,
    request: Request<Incoming>,
    head: Option<Vec<u8>>,
    tape: &Tape,
) -> Result<Response<Body>, Abort> {
    add(&node.seen.planned, 1);
    let _place = match &planned.places {
        None => None,
        Some(places) => match places.take().await {
            Some(place) => Some(place),
            None => {
                drain(request.into_body()).await;
                return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, QUEUE_FULL));
            }
        },
    };
    let onward = Onward::from(planned, request.headers(), None);
    pause(decision.wait).await;
    let called = call::run(node, planned, decision.calls, &onward).await;
    if called.iter().any(call::Called::is_fatal) {
        drain(request.into_body()).await;
        return Ok(json(StatusCode::BAD_GATEWAY, echo::report(node, &called)));
    }
    match decision.outcome {
        Outcome::Fail(fail) if fail.reset => {
            tape.reset_at_end();
            add(&node.seen.failures, 1);
            Err(Abort)
        }
        Outcome::Fail(fail) => {
            drain(request.into_body()).await;
            Ok(plain(status(fail.status), "failed, as the plan says\n"))
        }
        Outcome::Answer(answer) => {
            let mut response = content(node, answer, &called, request, head).await;
            *response.status_mut() = status(answer.status);
            fill(response.headers_mut(), &answer.headers);
            let mut trailers = HeaderMap::new();
            fill(&mut trailers, &answer.trailers);
            // HTTP/1 sends only trailers that were announced.
            let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
            if !names.is_empty() {
                if let Ok(names) = HeaderValue::try_from(names.join(", ")) {
                    response.headers_mut().insert(header::TRAILER, names);
                }
                response = response.map(|body| body.with_trailers(trailers));
            }
            Ok(response)
        }
    }
}

async fn content(
    node: &Node,
    answer: &Answer,
    called: &[call::Called],
    request: Request<Incoming>,
    head: Option<Vec<u8>>,
) -> Response<Body> {
    if answer.mirror {
        return mirror(request).await;
    }
    if answer.echo {
        return Response::new(echo::echo(request, head).await);
    }
    drain(request.into_body()).await;
    match (&answer.text, answer.bytes) {
        (Some(text), _) => Response::new(Body::whole(text.clone())),
        (None, Some(bytes)) if answer.chunk_bytes > 0 => {
            Response::new(Body::paced(bytes, answer.chunk_bytes, answer.interval.0))
        }
        (None, Some(bytes)) => Response::new(Body::fill(bytes)),
        (None, None) => json(StatusCode::OK, echo::report(node, called)),
    }
}

/// Sends the request's body back as it arrives.
async fn mirror(request: Request<Incoming>) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    // A client that waits for 100 (Continue) would take an early head for a refusal of its body; asking for the body sends it.
    let first = match head.headers.get(header::EXPECT) {
        Some(_) => body.frame().await.and_then(Result::ok),
        None => None,
    };
    let mut response = Response::new(Body::mirror(first, body));
    if let Some(kind) = head.headers.get(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    response
}

/// Agrees to leave HTTP, then echoes bytes: `Upgrade` with whatever protocol was asked for, and CONNECT.
fn upgrade(mut request: Request<Incoming>, guard: Guard) -> Response<Body> {
    let upgrading = hyper::upgrade::on(&mut request);
    tasks::spawn_local("upgraded", async move {
        if let Ok(upgraded) = upgrading.await {
            crate::tcp::echo(TokioIo::new(upgraded)).await;
        }
        drop(guard);
    });
    let mut response = Response::new(Body::empty());
    if request.method() != Method::CONNECT {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = request.headers().get(header::UPGRADE) {
            response.headers_mut().insert(header::UPGRADE, protocol.clone());
        }
    }
    response
}

/// How the body behind an HTTP/1 head is framed; `None` for HTTP/2.
fn framing(request: &Request<Incoming>) -> Option<Framing> {
    if request.version() > http::Version::HTTP_11 {
        return None;
    }
    let headers = request.headers();
    let upgrades = headers.contains_key(header::UPGRADE) && request.uri().path() == "/upgrade";
    Some(if upgrades || request.method() == Method::CONNECT {
        Framing::Other
    } else if headers.contains_key(header::TRANSFER_ENCODING) {
        Framing::Chunked
    } else {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        Framing::Length(length.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
    })
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Reads a body to its end, so that the connection can be used again.
async fn drain(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn fill(headers: &mut HeaderMap, wanted: &BTreeMap<String, String>) {
    for (name, value) in wanted {
        // The plan was checked when it was read.
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()))
        {
            headers.insert(name, value);
        }
    }
}

fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
