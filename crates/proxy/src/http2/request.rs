//! One HTTP/2 request as the engine sees it.
//!
//! A reset is passed on with its reason. Where the upstream's connection is lost, gRPC gets `UNAVAILABLE` and not a
//! reset, as from a direct connection; HTTP gets 502, or a reset once the response has begun.

use super::body::{Body, Fault, reason};
use super::client::Lease;
use crate::balance::Slot;
use crate::conn::dial;
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::attempts::AttemptPlan;
use crate::request::codec::{Acquired, Attempt, Broken, Codec, Outcome, Place, Rejected};
use crate::request::deadline;
use crate::request::decision::{self, Plan};
use crate::request::engine;
use crate::request::filters::headers;
use crate::request::local_reply::{LocalReply, UNREACHABLE};
use crate::request::mirror::copy::{self, Copy, Http2Copy, NotCopied};
use crate::request::observed::Description;
use crate::request::persistence::Session;
use crate::request::record::RequestRecord;
use crate::request::retry::{Answer, Wait};
use crate::request::side::Side;
use crate::request::timeouts::Progress;
use crate::request::view::View;
use crate::telemetry::observers::Wanted;
use crate::telemetry::trace::context::TraceContext;
use crate::thread::ThreadContext;
use crate::upstream::Peer;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

/// Looked for in each request: made once.
static OURS: [HeaderName; 2] =
    [HeaderName::from_static(decision::CLIENT_ID), HeaderName::from_static(deadline::HEADER)];

/// Serves one stream, and returns how it ended, and whether it ended early.
pub async fn serve<S: Side>(
    thread: &Rc<ThreadContext>,
    side: &S,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) -> (Ending, bool) {
    let begun = thread.swept_at();
    let (parts, body) = request.into_parts();
    let is_grpc = is_grpc(&parts.headers);
    let ended = body.is_end_stream();
    let up = Body::new(body, ended);
    let (flight, reset) = (None, None);
    let mut request = Http2Request { parts, ended, up, respond, is_grpc, flight, reset };
    let ended = engine::serve(thread, side, &mut request).await;
    (ended, thread.swept_at().saturating_duration_since(begun) <= super::EARLY)
}

/// One HTTP/2 request stream, as the engine sees it.
struct Http2Request {
    parts: http::request::Parts,
    /// The head has said that there is no body.
    ended: bool,
    up: Body,
    respond: SendResponse<Bytes>,
    is_grpc: bool,
    flight: Option<Flight>,
    /// The upstream's reset, to be passed on.
    reset: Option<Reason>,
}

/// The upstream's stream while an attempt runs.
struct Flight {
    send: SendStream<Bytes>,
    response: Option<h2::client::ResponseFuture>,
    /// The response's body and where it goes, once its head has come.
    down: Option<(Body, SendStream<Bytes>)>,
}

/// Why an attempt stopped early.
#[derive(Debug)]
enum Stopped {
    /// By the other proxy, whose application is not there; the request's body is rewound.
    Unreachable,
    /// By the route, which does not want the response; the request's body can be rewound.
    Rejected(Rejected),
    /// By policy, or because its time is over.
    Refused(Refusal),
    Client(Option<Reason>),
    Upstream(Option<h2::Error>),
}

impl Codec for Http2Request {
    type Upstream = Lease;

    fn view(&self) -> View<'_> {
        View::http2(&self.parts)
    }

    fn describe(&self, wanted: &Wanted<'_>, into: &mut Description) {
        let parts = &self.parts;
        let header = |name: &str| parts.headers.get(name).map(HeaderValue::as_bytes);
        let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
        let host = parts.uri.authority().map(|host| host.as_str().as_bytes());
        let host = host.or_else(|| header("host")).unwrap_or_default();
        let texts = [parts.method.as_str().as_bytes(), path.as_bytes(), host];
        into.set("HTTP/2.0", texts, wanted, header);
    }

    fn prepare(&mut self, plan: &Plan, trace: Option<&TraceContext>) -> Result<(), LocalReply> {
        let headers = &self.parts.headers;
        let has_ours = plan.route.is_none() && OURS.iter().any(|name| headers.contains_key(name));
        for change in plan.request_changes(has_ours) {
            headers::apply(change, &mut self.parts.headers);
        }
        if let Some(target) = plan.target() {
            target.change_http2(&mut self.parts);
        }
        if let Some(trace) = trace {
            trace.headers(|name, value| {
                if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                    self.parts.headers.insert(name, value);
                }
            });
        }
        self.up.replayable(plan.attempts.replay_bytes_max);
        Ok(())
    }

    async fn acquire(
        &self,
        place: Place<'_>,
        slot: &Rc<Slot<Peer>>,
    ) -> Result<Acquired<Lease>, Refusal> {
        let Place { thread, direction, pool, fresh_only } = place;
        let _pending = pool.pending(thread)?;
        let connect = || dial::connect(thread, direction, &slot.endpoint, dial::Carries::Http);
        let upstream = slot.data.http2.lease(thread, fresh_only, connect).await?;
        let reused = upstream.reused;
        if !reused {
            slot.connected();
        }
        Ok(Acquired { upstream, reused, at_once: false })
    }

    async fn attempt(
        &mut self,
        attempt: &mut Attempt<'_, Lease>,
        record: &mut RequestRecord,
    ) -> Outcome {
        let left = attempt.millis_left().map(|left| (left, attempt.is_to_proxy()));
        let onward = self.onward(left);
        let Some(lease) = &mut attempt.upstream else {
            return Outcome::Broken(Broken::cut(Ending::UpstreamClosed));
        };
        match lease.send.send_request(onward, self.ended) {
            Ok((response, send)) => {
                self.flight = Some(Flight { send, response: Some(response), down: None });
            }
            Err(error) => {
                let refusal = Refusal::because(Ending::UpstreamReset, error.to_string());
                let (answerable, repeatable) = (true, true);
                let reply = refusal.into();
                return Outcome::Broken(Broken {
                    reply,
                    answerable,
                    repeatable,
                    unprocessed: true,
                });
            }
        }
        let stopped = poll_fn(|context| self.poll(attempt, record, context)).await;
        record.request_bytes = self.up.bytes;
        let down = self.flight.as_ref().and_then(|flight| flight.down.as_ref());
        record.response_bytes = down.map_or(0, |(body, _)| body.bytes);
        match stopped {
            Ok(()) => Outcome::Complete,
            Err(Stopped::Unreachable) => {
                self.flight = None;
                Outcome::Unreachable
            }
            Err(Stopped::Rejected(rejected)) => Outcome::Rejected(rejected),
            Err(stopped) => {
                // A reset clears what h2 has not written yet, and the response up to here is to arrive before it. The
                // connection writes between two turns of this stream.
                if self.flight.as_ref().is_some_and(|flight| flight.down.is_some()) {
                    tokio::task::yield_now().await;
                }
                Outcome::Broken(self.broken(stopped, &attempt.plan.attempts, record))
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.ended
    }

    fn keep_copy(&mut self) {
        self.up.copied(copy::BODY_BYTES_MAX as u64);
    }

    fn copy(&self) -> Result<Copy, NotCopied> {
        if self.parts.method == Method::CONNECT {
            return Err(NotCopied::Tunnel);
        }
        let (mut head, body) = (self.parts.clone(), self.up.copy()?);
        let mark = HeaderValue::from_static(copy::HEADER_VALUE);
        head.headers.insert(HeaderName::from_static(copy::HEADER), mark);
        let trailers = self.up.trailers.clone();
        Ok(Copy::Http2(Box::new(Http2Copy { head, body, trailers })))
    }

    fn rewind(&mut self) -> bool {
        (self.flight, self.reset) = (None, None);
        self.up.rewind()
    }

    fn shown(&self, reply: &LocalReply) -> (u16, Option<u16>) {
        match self.is_grpc {
            _ if reply.ending().ends_connection() => (0, None),
            true => (200, Some(reply.grpc())),
            false => (reply.status(), None),
        }
    }

    /// Where every request on the connection would be answered so, the stream is reset instead (RFC 9113 §8.7): with the
    /// connection's GOAWAY before it, clients send the same request again on a new connection by themselves.
    async fn reply(&mut self, reply: LocalReply, _close: bool) {
        if reply.ending().ends_connection() {
            return self.respond.send_reset(Reason::REFUSED_STREAM);
        }
        let mut response = Response::new(());
        if self.is_grpc {
            *response.headers_mut() = grpc_trailers(&reply.refusal, reply.grpc());
            let kind = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        } else {
            *response.status_mut() =
                StatusCode::from_u16(reply.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        }
        for (name, value) in reply.fields() {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        // A client that is gone gets nothing, and needs nothing.
        let _gone = self.respond.send_response(response, true);
    }

    fn cut(&mut self, broken: &Broken, record: &mut RequestRecord) {
        if let Some(reason) = self.reset {
            return self.respond.send_reset(reason);
        }
        let client_is_gone = matches!(broken.ending(), Ending::ClientClosed | Ending::ClientReset);
        let Some(Flight { down: Some((_, send)), .. }) = &mut self.flight else { return };
        if client_is_gone {
            return;
        }
        // A client that is gone gets nothing, and needs nothing.
        if self.is_grpc {
            record.grpc = Some(broken.reply.grpc());
            let trailers = grpc_trailers(&broken.reply.refusal, broken.reply.grpc());
            let _gone = send.send_trailers(trailers);
        } else {
            send.send_reset(Reason::INTERNAL_ERROR);
        }
    }
}

impl Http2Request {
    /// What a stop means. The client's reset is passed on here.
    fn broken(&mut self, stopped: Stopped, plan: &AttemptPlan, record: &RequestRecord) -> Broken {
        let unanswered = record.head_at.is_none() && self.up.can_rewind();
        let repeatable = unanswered && self.may_be_repeated(&stopped, plan);
        let unprocessed = is_unprocessed(&stopped);
        let begun = self.flight.as_ref().is_some_and(|flight| flight.down.is_some());
        match stopped {
            Stopped::Unreachable | Stopped::Rejected(_) => Broken::cut(Ending::UpstreamRefused),
            Stopped::Refused(refusal) => {
                Broken { reply: refusal.into(), answerable: !begun, repeatable, unprocessed }
            }
            Stopped::Client(reason) => {
                if let Some(flight) = &mut self.flight {
                    flight.send.send_reset(reason.unwrap_or(Reason::CANCEL));
                }
                let reset = reason.is_some();
                Broken::cut(if reset { Ending::ClientReset } else { Ending::ClientClosed })
            }
            Stopped::Upstream(Some(error)) if error.is_reset() && error.is_remote() => {
                self.reset = Some(error.reason().unwrap_or(Reason::INTERNAL_ERROR));
                Broken { repeatable, unprocessed, ..Broken::cut(Ending::UpstreamReset) }
            }
            Stopped::Upstream(error) => {
                let detail = error.map_or_else(String::new, |error| error.to_string());
                let detail = format!("upstream connection: {detail}");
                let refusal = Refusal::because(Ending::UpstreamClosed, detail);
                Broken { reply: refusal.into(), answerable: !begun, repeatable, unprocessed }
            }
        }
    }

    /// Whether the upstream has certainly not acted on the request, or may act on it twice.
    fn may_be_repeated(&self, stopped: &Stopped, plan: &AttemptPlan) -> bool {
        let idempotent = self.parts.method.is_idempotent() || plan.after_loss;
        match stopped {
            Stopped::Client(_) | Stopped::Unreachable | Stopped::Rejected(_) => false,
            Stopped::Refused(refusal) => refusal.ending.ends_attempt() && plan.after_timeout,
            Stopped::Upstream(Some(error)) => {
                is_unprocessed(stopped) || (idempotent && !error.is_reset())
            }
            Stopped::Upstream(None) => idempotent,
        }
    }
}

impl Http2Request {
    /// The request as it goes on, with the milliseconds that are left, and whether to a proxy.
    fn onward(&self, left: Option<(u128, bool)>) -> Request<()> {
        let mut request = onward(&self.parts);
        let headers = request.headers_mut();
        let (name, value) = match left {
            Some((millis, _)) if self.is_grpc => ("grpc-timeout", deadline::grpc_value(millis)),
            Some((millis, true)) => (deadline::HEADER, millis.to_string()),
            _ => return request,
        };
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
        request
    }

    fn poll(
        &mut self,
        attempt: &mut Attempt<'_, Lease>,
        record: &mut RequestRecord,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        let mut up_stopped = false;
        if !self.up.is_done()
            && let Some(flight) = &mut self.flight
        {
            match self.up.poll(&mut flight.send, context) {
                Poll::Ready(Err(Fault::Source(error))) => {
                    return Poll::Ready(Err(Stopped::Client(reason(Some(&error)))));
                }
                // The upstream wants no more of it; its answer may be on the way.
                Poll::Ready(Err(Fault::Target(_))) => up_stopped = true,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        let down_done = match self.poll_down(attempt, record, context) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(stopped)) => return Poll::Ready(Err(stopped)),
            Poll::Pending => false,
        };
        match (down_done, self.up.is_done(), up_stopped) {
            (true, true, _) => return Poll::Ready(Ok(())),
            // The whole answer is there and the upstream has had enough. Dropping the request's body makes the client stop sending (RST_STREAM with NO_ERROR), after the answer: a reset sent here would overtake it.
            (true, false, true) => return Poll::Ready(Ok(())),
            _ => {}
        }
        match attempt.stop.poll(context, || self.progress(up_stopped)) {
            Some(refusal) => Poll::Ready(Err(Stopped::Refused(refusal))),
            None => Poll::Pending,
        }
    }

    fn progress(&self, up_stopped: bool) -> Progress {
        let down = self.flight.as_ref().and_then(|flight| flight.down.as_ref());
        Progress {
            requested: up_stopped || self.up.is_done(),
            responding: down.is_some(),
            bytes: self.up.bytes + down.map_or(0, |(body, _)| body.bytes),
        }
    }

    fn poll_down(
        &mut self,
        attempt: &Attempt<'_, Lease>,
        record: &mut RequestRecord,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        let Some(flight) = &mut self.flight else { return Poll::Ready(Ok(())) };
        if let Some((body, send)) = &mut flight.down {
            let polled = body.poll(send, context);
            if let Some(trailers) = &body.trailers {
                record.grpc = record.grpc.or_else(|| grpc_status(trailers));
            }
            return match polled {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                Poll::Ready(Err(Fault::Source(error))) => {
                    Poll::Ready(Err(Stopped::Upstream(Some(error))))
                }
                Poll::Ready(Err(Fault::Target(error))) => {
                    Poll::Ready(Err(Stopped::Client(reason(error.as_ref()))))
                }
                Poll::Pending => match send.poll_reset(context) {
                    Poll::Ready(Ok(reason)) => Poll::Ready(Err(Stopped::Client(Some(reason)))),
                    Poll::Ready(Err(_)) => Poll::Ready(Err(Stopped::Client(None))),
                    Poll::Pending => Poll::Pending,
                },
            };
        }
        let Some(response) = &mut flight.response else { return Poll::Ready(Ok(())) };
        while let Poll::Ready(Some(interim)) = response.poll_informational(context) {
            match interim {
                // A client that is gone says so below.
                Ok(interim) => drop(self.respond.send_informational(interim)),
                Err(error) => return Poll::Ready(Err(Stopped::Upstream(Some(error)))),
            }
        }
        match std::pin::Pin::new(response).poll(context) {
            Poll::Ready(Ok(head)) => {
                flight.response = None;
                self.begin(head, attempt, record)?;
                self.poll_down(attempt, record, context)
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Stopped::Upstream(Some(error)))),
            Poll::Pending => match self.respond.poll_reset(context) {
                Poll::Ready(Ok(reason)) => Poll::Ready(Err(Stopped::Client(Some(reason)))),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Stopped::Client(None))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    /// The response's head has come.
    fn begin(
        &mut self,
        head: Response<RecvStream>,
        attempt: &Attempt<'_, Lease>,
        record: &mut RequestRecord,
    ) -> Result<(), Stopped> {
        let unreachable = head.headers().contains_key(UNREACHABLE.0);
        if attempt.may.move_on && unreachable && self.up.rewind() {
            return Err(Stopped::Unreachable);
        }
        if let Some(judge) = &attempt.judge {
            let headers = head.headers();
            let wait = Wait::of(|name| headers.get(name).map(HeaderValue::as_bytes));
            let (status, grpc) = (head.status().as_u16(), grpc_status(headers));
            let answer = Answer { status, grpc, wait };
            if let Some(wait) = judge.another(&answer, self.up.can_rewind()) {
                return Err(Stopped::Rejected(Rejected { answer, wait }));
            }
        }
        let now = Instant::now();
        record.head_at = Some(now);
        attempt.outstanding.heard(now);
        let (mut parts, body) = head.into_parts();
        parts.headers.remove(UNREACHABLE.0);
        record.status = parts.status.as_u16();
        record.grpc = grpc_status(&parts.headers);
        for change in attempt.plan.response_changes() {
            headers::apply(change, &mut parts.headers);
        }
        if let Some(change) = attempt.plan.session().and_then(Session::response) {
            headers::apply(&change, &mut parts.headers);
        }
        let ended = body.is_end_stream();
        let announced = announced_length(&parts);
        let send = self
            .respond
            .send_response(Response::from_parts(parts, ()), ended)
            .map_err(|error| Stopped::Client(reason(Some(&error))))?;
        if let Some(flight) = &mut self.flight {
            flight.down = Some((Body::new(body, ended).of_response(announced), send));
        }
        Ok(())
    }
}

/// Whether the upstream says that it has not acted on the request.
fn is_unprocessed(stopped: &Stopped) -> bool {
    let Stopped::Upstream(Some(error)) = stopped else { return false };
    error.reason() == Some(Reason::REFUSED_STREAM) || error.is_go_away()
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

fn grpc_trailers(refusal: &Refusal, code: u16) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
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

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn grpc_status(headers: &HeaderMap) -> Option<u16> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}
