//! One HTTP/2 request, start to finish: choose, lease a connection, send both ways at once, tell.
//!
//! A reset is passed on with its reason. Where the upstream's connection is lost, gRPC hears `UNAVAILABLE` and not a
//! reset, as from a direct connection; HTTP hears 502, or a reset once the response has begun.

use super::body::{Body, Fault, reason};
use super::client::Lease;
use crate::balance::{self, Slot};
use crate::ending::Ending;
use crate::http1::relay::{Ended, Hop, Logged};
use crate::mesh::Worker;
use crate::request::attempts::{self, Tried};
use crate::request::local_reply::{Refusal, UNREACHABLE};
use crate::request::route::{Choice, Kind, View};
use crate::telemetry::HttpSeries;
use crate::upstream::Peer;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use leno_model::route::{Filter, HeaderChange};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

/// What is told of a stream when it has ended.
struct Told {
    status: u16,
    grpc: Option<u16>,
    ending: Ending,
    detail: String,
    head_at: Option<Instant>,
    bytes: u64,
}

impl Told {
    fn refused(refusal: &Refusal, is_grpc: bool) -> Self {
        Self {
            status: if is_grpc { 200 } else { refusal.status() },
            grpc: is_grpc.then(|| refusal.ending.shown().grpc),
            ending: refusal.ending,
            detail: refusal.detail.clone(),
            head_at: None,
            bytes: 0,
        }
    }
}

/// One request; answers how it ended.
pub async fn serve<H: Hop>(
    worker: &Worker,
    hop: &H,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Ending {
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    let is_grpc = is_grpc(&parts.headers);
    let logged = worker.access_log.is_some().then(|| logged(&parts));
    let mut series = None;
    let told = match hop.choose(&View::http2(&parts), Kind::Http2).await {
        Err(refusal) if refusal.ending.ends_connection() => turn_away(&mut respond, &refusal),
        Err(refusal) => refuse(&mut respond, &refusal, is_grpc),
        Ok(choice) => {
            let asked = Asked { worker, hop, choice: &choice, is_grpc, begun };
            asked.forward(parts, body, respond, &mut series).await
        }
    };
    if let Some(series) = &series {
        let latency = told.head_at.unwrap_or_else(Instant::now).saturating_duration_since(begun);
        series.response(told.status, told.grpc, told.ending, latency);
    }
    hop.ended(&Ended {
        logged: logged.as_ref(),
        status: told.status,
        ending: told.ending,
        counted: series.is_some(),
        detail: &told.detail,
        begun,
        head_at: told.head_at,
        response_bytes: told.bytes,
    });
    told.ending
}

struct Asked<'a, H> {
    worker: &'a Worker,
    hop: &'a H,
    choice: &'a Choice,
    is_grpc: bool,
    begun: Instant,
}

/// How one attempt went.
enum Attempt {
    Told(Told),
    /// The upstream has not seen the request, or never will have done anything about it: try again.
    Again(Body, SendResponse<Bytes>),
    /// The other proxy could not reach its application: try another endpoint.
    Elsewhere(Body, SendResponse<Bytes>),
}

/// What an attempt may do when it fails.
#[derive(Clone, Copy, Debug)]
struct May {
    /// Be repeated on a fresh connection.
    repeat: bool,
    /// Go to another endpoint.
    elsewhere: bool,
}

impl<H: Hop> Asked<'_, H> {
    async fn forward(
        &self,
        mut parts: http::request::Parts,
        body: RecvStream,
        mut respond: SendResponse<Bytes>,
        series: &mut Option<Rc<HttpSeries>>,
    ) -> Told {
        for filter in self.choice.changes() {
            if let Filter::RequestHeaders(change) = filter {
                apply(change, &mut parts.headers);
            }
        }
        let ended = body.is_end_stream();
        let mut body = Body::new(body, ended).replayable();
        let mut tried = Tried::default();
        let mut avoid: Option<Rc<Slot<Peer>>> = None;
        loop {
            let (slot, lease) = match self.acquire(tried, avoid.as_ref()).await {
                Ok(acquired) => acquired,
                Err(refusal) => return refuse(&mut respond, &refusal, self.is_grpc),
            };
            let numbers = series.get_or_insert_with(|| self.hop.series(self.choice, &slot)).clone();
            if tried.is_first() {
                numbers.request();
            }
            let outstanding = slot.start(Instant::now());
            let may = May {
                repeat: tried.may_repeat(lease.reused, &slot),
                elsewhere: tried.may_go_elsewhere(&self.choice.backend, &slot),
            };
            match self.attempt(&parts, ended, (body, respond), (&slot, lease), may).await {
                Attempt::Elsewhere(rewound, unanswered) => {
                    outstanding.finished(Instant::now(), balance::Outcome::Failure);
                    slot.refused(Instant::now(), &self.worker.random);
                    let reason = Ending::UpstreamRefused.flag();
                    self.worker.recorder.retried(self.hop.direction(), reason);
                    (body, respond, avoid) = (rewound, unanswered, Some(slot));
                    tried.elsewhere = true;
                }
                Attempt::Told(told) => {
                    let outcome = match told.ending {
                        Ending::Complete => balance::Outcome::of_status(told.status),
                        ending => balance::Outcome::of_ending(ending),
                    };
                    outstanding.finished(told.head_at.unwrap_or_else(Instant::now), outcome);
                    return told;
                }
                Attempt::Again(rewound, unanswered) => {
                    drop(outstanding);
                    self.worker.recorder.retried(self.hop.direction(), "http2_refused");
                    (body, respond, avoid) = (rewound, unanswered, Some(slot));
                    tried.repeated = true;
                }
            }
        }
    }

    /// An endpoint and the right to a stream of it.
    async fn acquire(
        &self,
        tried: Tried,
        failed: Option<&Rc<Slot<Peer>>>,
    ) -> Result<(Rc<Slot<Peer>>, Lease), Refusal> {
        let backend = &self.choice.backend;
        let begun = tried.begins(self.begun);
        attempts::acquire(self.worker, backend, failed, begun, async |slot| {
            let _pending = backend.pending(self.worker)?;
            let connect = || self.hop.connect(slot);
            let lease = slot.data.http2.lease(self.worker, tried.repeated, connect).await?;
            if !lease.reused {
                slot.connected();
            }
            Ok(lease)
        })
        .await
    }

    async fn attempt(
        &self,
        parts: &http::request::Parts,
        ended: bool,
        (body, mut respond): (Body, SendResponse<Bytes>),
        (slot, mut lease): (&Slot<Peer>, Lease),
        may: May,
    ) -> Attempt {
        let (response, send) = match lease.send.send_request(onward(parts), ended) {
            Ok(sent) => sent,
            Err(_) if may.repeat => return Attempt::Again(body, respond),
            Err(error) => {
                let refusal = Refusal::because(Ending::UpstreamReset, error.to_string());
                return Attempt::Told(refuse(&mut respond, &refusal, self.is_grpc));
            }
        };
        let mut running = Running {
            up: body,
            send,
            response: Some(response),
            down: None,
            respond,
            status: 0,
            grpc: None,
            head_at: None,
            elsewhere: may.elsewhere,
            changes: self.choice.changes().filter_map(response_change).collect(),
        };
        let broken = match poll_fn(|context| running.poll(context)).await {
            Ok(()) => return Attempt::Told(running.told(Ending::Complete)),
            Err(Broken::Unreachable) => return Attempt::Elsewhere(running.up, running.respond),
            Err(broken) => broken,
        };
        let idempotent = parts.method.is_idempotent();
        let unanswered = running.head_at.is_none();
        let unanswered = unanswered && broken.may_be_repeated(idempotent);
        if may.repeat && unanswered && running.up.rewind() {
            return Attempt::Again(running.up, running.respond);
        }
        if unanswered && let Some(gone) = self.hop.gone(slot).await {
            return Attempt::Told(refuse(&mut running.respond, &gone, self.is_grpc));
        }
        Attempt::Told(running.break_off(broken, self.is_grpc))
    }
}

/// A request and its response while they run.
struct Running {
    up: Body,
    send: SendStream<Bytes>,
    response: Option<h2::client::ResponseFuture>,
    down: Option<(Body, SendStream<Bytes>)>,
    respond: SendResponse<Bytes>,
    status: u16,
    grpc: Option<u16>,
    head_at: Option<Instant>,
    elsewhere: bool,
    changes: Vec<HeaderChange>,
}

/// Why it stopped early.
#[derive(Debug)]
enum Broken {
    /// By the other proxy's word; the request's body is rewound.
    Unreachable,
    Client(Option<Reason>),
    Upstream(Option<h2::Error>),
}

impl Broken {
    /// Whether the upstream has certainly not acted on the request, or may act on it twice.
    fn may_be_repeated(&self, idempotent: bool) -> bool {
        match self {
            Self::Client(_) | Self::Unreachable => false,
            Self::Upstream(Some(error)) => {
                error.reason() == Some(Reason::REFUSED_STREAM)
                    || error.is_go_away()
                    || (idempotent && !error.is_reset())
            }
            Self::Upstream(None) => idempotent,
        }
    }
}

impl Running {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let mut up_stopped = false;
        if !self.up.is_done() {
            match self.up.poll(&mut self.send, context) {
                Poll::Ready(Err(Fault::Source(error))) => {
                    return Poll::Ready(Err(Broken::Client(reason(Some(&error)))));
                }
                // The upstream wants no more of it; its answer may be on the way.
                Poll::Ready(Err(Fault::Target(_))) => up_stopped = true,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        let down_done = match self.poll_down(context) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(broken)) => return Poll::Ready(Err(broken)),
            Poll::Pending => false,
        };
        match (down_done, self.up.is_done(), up_stopped) {
            (true, true, _) => Poll::Ready(Ok(())),
            // The whole answer is there and the upstream has had enough. Dropping the request's body tells the client
            // to stop sending (RST_STREAM with NO_ERROR), after the answer: a reset sent here would overtake it.
            (true, false, true) => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if let Some((body, send)) = &mut self.down {
            let polled = body.poll(send, context);
            if let Some(trailers) = &body.trailers {
                self.grpc = self.grpc.or_else(|| grpc_status(trailers));
            }
            return match polled {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Ready(Err(Fault::Source(error))) => {
                    Poll::Ready(Err(Broken::Upstream(Some(error))))
                }
                Poll::Ready(Err(Fault::Target(error))) => {
                    Poll::Ready(Err(Broken::Client(reason(error.as_ref()))))
                }
                Poll::Pending => match send.poll_reset(context) {
                    Poll::Ready(Ok(reason)) => Poll::Ready(Err(Broken::Client(Some(reason)))),
                    Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Client(None))),
                    Poll::Pending => Poll::Pending,
                },
            };
        }
        let Some(response) = &mut self.response else { return Poll::Ready(Ok(())) };
        while let Poll::Ready(Some(interim)) = response.poll_informational(context) {
            match interim {
                // A client that is gone says so below.
                Ok(interim) => drop(self.respond.send_informational(interim)),
                Err(error) => return Poll::Ready(Err(Broken::Upstream(Some(error)))),
            }
        }
        match std::pin::Pin::new(response).poll(context) {
            Poll::Ready(Ok(head)) => {
                self.response = None;
                self.begin(head)?;
                self.poll_down(context)
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Broken::Upstream(Some(error)))),
            Poll::Pending => match self.respond.poll_reset(context) {
                Poll::Ready(Ok(reason)) => Poll::Ready(Err(Broken::Client(Some(reason)))),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Client(None))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// The response's head has come.
    fn begin(&mut self, head: Response<RecvStream>) -> Result<(), Broken> {
        if self.elsewhere && says_unreachable(head.headers()) && self.up.rewind() {
            return Err(Broken::Unreachable);
        }
        self.head_at = Some(Instant::now());
        let (mut parts, body) = head.into_parts();
        parts.headers.remove(UNREACHABLE.0);
        self.status = parts.status.as_u16();
        self.grpc = grpc_status(&parts.headers);
        for change in &self.changes {
            apply(change, &mut parts.headers);
        }
        let ended = body.is_end_stream();
        let announced = announced_length(&parts);
        let send = self
            .respond
            .send_response(Response::from_parts(parts, ()), ended)
            .map_err(|error| Broken::Client(reason(Some(&error))))?;
        self.down = Some((Body::new(body, ended).of_response(announced), send));
        Ok(())
    }

    /// Tells both sides, as the other would have heard it directly.
    fn break_off(mut self, broken: Broken, is_grpc: bool) -> Told {
        match broken {
            Broken::Unreachable => self.told(Ending::UpstreamRefused),
            Broken::Client(reason) => {
                self.send.send_reset(reason.unwrap_or(Reason::CANCEL));
                let ending =
                    if reason.is_some() { Ending::ClientReset } else { Ending::ClientClosed };
                self.told(ending)
            }
            Broken::Upstream(Some(error)) if error.is_reset() && error.is_remote() => {
                self.respond.send_reset(error.reason().unwrap_or(Reason::INTERNAL_ERROR));
                self.told(Ending::UpstreamReset)
            }
            Broken::Upstream(error) => {
                let detail = error.map_or_else(String::new, |error| error.to_string());
                let refusal = Refusal::because(
                    Ending::UpstreamClosed,
                    format!("upstream connection: {detail}"),
                );
                let Some((_, send)) = &mut self.down else {
                    return refuse(&mut self.respond, &refusal, is_grpc);
                };
                // A client that is gone hears nothing, and needs nothing.
                if is_grpc {
                    let _gone = send.send_trailers(grpc_trailers(&refusal));
                } else {
                    send.send_reset(Reason::INTERNAL_ERROR);
                }
                Told {
                    grpc: is_grpc.then(|| refusal.ending.shown().grpc),
                    ..self.told(refusal.ending)
                }
            }
        }
    }

    fn told(&self, ending: Ending) -> Told {
        Told {
            status: self.status,
            grpc: self.grpc,
            ending,
            detail: String::new(),
            head_at: self.head_at,
            bytes: self.down.as_ref().map_or(0, |(body, _)| body.bytes),
        }
    }
}

/// The request as it goes on.
fn onward(parts: &http::request::Parts) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    // Without an authority (it has Host instead) h2 takes the request only as one that came by HTTP/1.
    if parts.uri.authority().is_some() {
        *request.version_mut() = http::Version::HTTP_2;
    }
    request.headers_mut().clone_from(&parts.headers);
    request
}

/// Answers in the place of the upstream.
fn refuse(respond: &mut SendResponse<Bytes>, refusal: &Refusal, is_grpc: bool) -> Told {
    let mut response = Response::new(());
    if is_grpc {
        *response.headers_mut() = grpc_trailers(refusal);
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    } else {
        *response.status_mut() =
            StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let (name, value) = match &refusal.location {
        Some(location) => ("location", location.clone()),
        None => ("l5d-proxy-error", refusal.text()),
    };
    if let Ok(value) = HeaderValue::from_str(&value) {
        response.headers_mut().insert(name, value);
    }
    if refusal.unreachable {
        let (name, value) = UNREACHABLE;
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    // A client that is gone hears nothing, and needs nothing.
    let _gone = respond.send_response(response, true);
    Told::refused(refusal, is_grpc)
}

/// The word of HTTP/2 for a request that nobody has looked at (RFC 9113 §8.7): with the connection's GOAWAY before it, clients
/// send the same request again on a new connection by themselves.
fn turn_away(respond: &mut SendResponse<Bytes>, refusal: &Refusal) -> Told {
    respond.send_reset(Reason::REFUSED_STREAM);
    Told { status: 0, ..Told::refused(refusal, false) }
}

fn grpc_trailers(refusal: &Refusal) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(refusal.ending.shown().grpc));
    // gRPC percent-encodes what is not printable; `text` is printable ASCII, where only '%' needs it.
    if let Ok(message) = HeaderValue::from_str(&refusal.text().replace('%', "%25")) {
        trailers.insert("grpc-message", message);
    }
    trailers
}

/// How long the body is by the word of its head: 0 where the status or gRPC's trailers-only form allows none.
fn announced_length(head: &http::response::Parts) -> Option<u64> {
    let bodiless = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless || head.headers.contains_key("grpc-status") {
        return Some(0);
    }
    head.headers.get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The other proxy's word that its application did not take the connection: no byte of the request has reached it.
fn says_unreachable(headers: &HeaderMap) -> bool {
    headers.contains_key(UNREACHABLE.0)
}

fn logged(parts: &http::request::Parts) -> Logged {
    let header =
        |name| parts.headers.get(name).map_or_else(Vec::new, |value| value.as_bytes().to_vec());
    Logged {
        method: parts.method.as_str().into(),
        path: parts.uri.path_and_query().map_or_else(Vec::new, |path| path.as_str().into()),
        version: "HTTP/2.0",
        host: parts.uri.authority().map_or_else(|| header("host"), |host| host.as_str().into()),
        user_agent: header("user-agent"),
        referer: header("referer"),
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn grpc_status(headers: &HeaderMap) -> Option<u16> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

fn response_change(filter: &Filter) -> Option<HeaderChange> {
    match filter {
        Filter::ResponseHeaders(change) => Some(change.clone()),
        _ => None,
    }
}

/// Set, add, remove, as the Gateway API orders them; names and values that are none are left out.
fn apply(change: &HeaderChange, headers: &mut HeaderMap) {
    let parse = |name: &str, value: &str| {
        Some((http::HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    };
    for (name, value) in change.set.iter().filter_map(|(name, value)| parse(name, value)) {
        headers.insert(name, value);
    }
    for (name, value) in change.add.iter().filter_map(|(name, value)| parse(name, value)) {
        headers.append(name, value);
    }
    for name in &change.remove {
        headers.remove(name.as_ref());
    }
}
