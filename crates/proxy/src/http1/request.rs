//! One HTTP/1 request as the engine sees it: its head in place, its body as it comes.

use super::exchange::{Done, Exchange, Failure, Outgoing};
use super::scratch::Parts;
use super::{exchange, malformed_reply};
use crate::balance::Slot;
use crate::ending::Ending;
use crate::io::{Buffer, Stream};
use crate::refusal::Refusal;
use crate::request::codec::{Acquired, Attempt, Broken, Codec, Outcome, Place};
use crate::request::deadline;
use crate::request::decision::{self, Plan};
use crate::request::filters::headers::Lines;
use crate::request::local_reply::LocalReply;
use crate::request::mirror::copy::{self, Copy, NotCopied, Tee};
use crate::request::observed::Description;
use crate::request::record::RequestRecord;
use crate::request::view::View;
use crate::telemetry::observers::Wanted;
use crate::telemetry::trace::context::{self, TraceContext};
use crate::thread::ThreadContext;
use crate::upstream::{Peer, acquire};
use leno_http1::edit::{self, Edit, Persistence};
use leno_http1::{BodyFraming, BodyReader, FieldLine, RequestHead, Upgrade, Version};
use leno_model::retry::REPLAY_BYTES_MAX;
use smallvec::SmallVec;
use std::future::poll_fn;
use std::io::Write;
use std::rc::Rc;
use std::task::{Poll, ready};

/// One HTTP/1 request on its client connection, as the engine sees it.
pub struct Http1Request<'a> {
    thread: &'a ThreadContext,
    client: &'a mut Stream,
    /// Client bytes that are not sent yet.
    ahead: &'a mut Buffer,
    parts: &'a mut Parts,
    /// Finds the end of the rest of the body, once the head was taken out of `ahead`.
    body: Option<BodyReader>,
    /// Bytes of the body that came with the head.
    first_bytes: u64,
    /// Where the time that is left stands in `parts.onward`, and how many bytes it has.
    deadline_line: (usize, usize),
    /// For mirrors, what passes of the rest of the body.
    tee: Option<Box<Tee>>,
    /// The client's connection may stay, as far as the request says.
    keep_alive: bool,
    next: Next,
}

/// What becomes of the client's connection after a request.
#[derive(Debug)]
pub enum Next {
    /// Another request.
    Keep,
    /// It is closed; what was written has gone already, or need not arrive.
    Close(Ending),
    /// It is closed so that what was written arrives.
    Linger(Ending),
    /// Bytes both ways.
    Tunnel(Box<Tunnel>),
}

/// The server's side of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    /// The connection.
    pub upstream: Stream,
    /// Its first bytes.
    pub spoken: Buffer,
}

impl<'a> Http1Request<'a> {
    /// A request whose head has come.
    #[must_use]
    pub fn new(
        thread: &'a ThreadContext,
        client: &'a mut Stream,
        ahead: &'a mut Buffer,
        parts: &'a mut Parts,
    ) -> Self {
        let keep_alive = parts.request.keep_alive();
        let (next, deadline_line) = (Next::Keep, (0, 0));
        Self {
            thread,
            client,
            ahead,
            parts,
            body: None,
            first_bytes: 0,
            deadline_line,
            tee: None,
            keep_alive,
            next,
        }
    }

    /// What becomes of the client's connection.
    #[must_use]
    pub fn next(self) -> Next {
        self.next
    }

    /// Gives the next proxy the time that is left, in the place of what an attempt before this one has given.
    fn write_deadline(&mut self, attempt: &Attempt<'_, Stream>) {
        let (at, length) = self.deadline_line;
        let left = attempt.millis_left().filter(|_| attempt.is_to_proxy());
        let line = left.map(|left| format!("{}: {left}\r\n", deadline::HEADER));
        if line.is_none() && length == 0 {
            return;
        }
        let line = line.unwrap_or_default();
        self.deadline_line = (at, line.len());
        self.parts.onward.splice(at..at + length, line.into_bytes());
    }

    /// What follows from an exchange that broke.
    fn failed(&self, failure: Failure, attempt: &mut Attempt<'_, Stream>) -> Outcome {
        if let Some((rejected, reusable)) = failure.rejected {
            if let Some(upstream) = attempt.upstream.take().filter(|_| reusable) {
                attempt.slot.data.put(upstream, self.thread);
            }
            return Outcome::Rejected(rejected);
        }
        if failure.ending == Ending::UpstreamRefused && failure.replayable {
            return Outcome::Unreachable;
        }
        let broken = self.broken(failure, attempt.plan.attempts.after_loss);
        if !(broken.repeatable && attempt.may.repeat) {
            upstream_is_reset(attempt);
        }
        Outcome::Broken(broken)
    }

    /// `after_loss`: the route lets every method be repeated.
    fn broken(&self, failure: Failure, after_loss: bool) -> Broken {
        let head = &self.parts.request;
        let unanswered = failure.is_unanswered();
        let client_is_gone = matches!(failure.ending, Ending::ClientClosed | Ending::ClientReset);
        let mut reply = LocalReply::from(failure.ending);
        if let Some(malformed) = failure.malformed {
            reply.refusal.detail = format!("{}: {malformed}", malformed.as_str());
            if failure.ending == Ending::MalformedRequest {
                reply.status = Some(malformed.status());
            }
        }
        Broken {
            reply,
            answerable: !failure.response_begun && !client_is_gone,
            repeatable: unanswered
                && (head.method().is_idempotent() || after_loss || !failure.request_begun),
            unprocessed: !failure.request_begun,
        }
    }
}

impl Codec for Http1Request<'_> {
    type Upstream = Stream;

    fn view(&self) -> View<'_> {
        View::http1(&self.parts.request, self.ahead.filled())
    }

    fn describe(&self, wanted: &Wanted<'_>, into: &mut Description) {
        let (head, bytes) = (&self.parts.request, self.ahead.filled());
        let host = head.authority(bytes).unwrap_or_default();
        into.set(
            head.version().as_str(),
            [head.method_bytes(bytes), head.target(bytes), host],
            wanted,
            |name| head.header(bytes, name),
        );
    }

    /// Writes what goes up first into `parts.onward`, and takes it out of `ahead`.
    fn prepare(&mut self, plan: &Plan, trace: Option<&TraceContext>) -> Result<(), LocalReply> {
        let head = &self.parts.request;
        let has = |name| head.header(self.ahead.filled(), name).is_some();
        let has_ours = plan.route.is_none() && (has(decision::CLIENT_ID) || has(deadline::HEADER));
        let mut traced = SmallVec::<[(&str, context::Value); 1]>::new();
        if let Some(trace) = trace {
            trace.headers(|name, value| traced.push((name, value)));
        }
        let mut lines = Lines::of(plan.request_changes(has_ours));
        let trace_lines = traced.iter().map(|(name, value)| FieldLine::new(name, value.as_bytes()));
        lines.set.extend(trace_lines.flatten());
        let target = plan.target();
        if let Some(host) = target.and_then(|target| target.host.as_deref()) {
            lines.set.extend(FieldLine::new("host", host.as_bytes()));
        }
        let persistence = match head.version() {
            // An HTTP/1.0 application must see what its client sent.
            Version::Http10 if !head.keep_alive() => Persistence::Close,
            _ => Persistence::Keep,
        };
        let edit = Edit { persistence, upgrade: forwards_upgrade(head), ..lines.edit() };
        self.parts.onward.clear();
        let came = (head, self.ahead.filled());
        match target {
            None => edit::write_request(came.0, came.1, &edit, &mut self.parts.onward),
            Some(target) => target.write_http1(came, &edit, &mut self.parts.onward),
        }
        // Before the empty line.
        self.deadline_line = (self.parts.onward.len().saturating_sub(2), 0);
        let mut body = BodyReader::new(head.framing(), &self.thread.http1_limits);
        let arrived = &self.ahead.filled()[head.length()..];
        let progress = body.read(arrived).map_err(|malformed| {
            self.keep_alive = false;
            malformed_reply(malformed)
        })?;
        self.parts.onward.extend_from_slice(&arrived[..progress.taken]);
        self.ahead.consume(head.length() + progress.taken);
        self.ahead.release_if_empty();
        self.first_bytes = progress.taken as u64;
        self.body = Some(body);
        Ok(())
    }

    async fn acquire(
        &self,
        place: Place<'_>,
        slot: &Rc<Slot<Peer>>,
    ) -> Result<Acquired<Stream>, Refusal> {
        let head = &self.parts.request;
        let tunnel = head.upgrade().is_some() || head.is_connect();
        acquire::acquire(place, slot, self.is_whole() && !tunnel).await
    }

    async fn attempt(
        &mut self,
        attempt: &mut Attempt<'_, Stream>,
        record: &mut RequestRecord,
    ) -> Outcome {
        self.write_deadline(attempt);
        let (Some(upstream), Some(body)) = (&mut attempt.upstream, self.body) else {
            return Outcome::Broken(Broken::cut(Ending::UpstreamClosed));
        };
        let Parts { request, response, onward, downward } = &mut *self.parts;
        let kept = usize::try_from(self.first_bytes).unwrap_or(usize::MAX);
        let room = (REPLAY_BYTES_MAX as usize).saturating_sub(kept);
        let kept_bytes_max = attempt.judge.as_ref().map_or(0, |_| onward.len() + room);
        let outgoing = Outgoing {
            onward,
            kept_bytes_max,
            judge: attempt.judge.as_ref(),
            body,
            exchange: request.exchange(forwards_upgrade(request)),
            keep_alive: self.keep_alive,
            drain: &self.thread.drain,
            elsewhere: attempt.may.move_on,
            tee: self.tee.as_deref_mut(),
        };
        let mut running = Exchange::new(
            (&mut *self.client, &mut *upstream),
            outgoing,
            self.ahead,
            (response, downward),
            (&self.thread.http1_limits, attempt.plan),
        );
        let (stop, outstanding) = (&mut attempt.stop, &attempt.outstanding);
        let outcome = poll_fn(|context| {
            if let Poll::Ready(outcome) = running.poll(context) {
                return Poll::Ready(Ok(outcome));
            }
            running.head_at.into_iter().for_each(|at| outstanding.heard(at));
            match stop.poll(context, || running.progress()) {
                Some(stopped) => Poll::Ready(Err(stopped)),
                None => Poll::Pending,
            }
        })
        .await;
        let response_bytes = running.response_bytes;
        record.head_at = running.head_at;
        self.first_bytes += running.kept_bytes;
        self.body = Some(running.body());
        record.request_bytes = self.first_bytes + running.request_bytes;
        record.response_bytes = response_bytes;
        let response_begun = running.response_begun;
        let at_hand = running.is_at_hand() && running.response.is_empty();
        let spoken = std::mem::take(&mut running.response);
        drop(running);
        if response_begun && record.head_at.is_some() {
            record.status = self.parts.response.status();
        }
        let failure = match outcome {
            Ok(exchange::Outcome::Done(Done {
                upstream: upstream_stays,
                client: client_stays,
            })) => {
                record.status = self.parts.response.status();
                attempt.slot.data.shared.answered(response_bytes);
                if upstream_stays && let Some(upstream) = attempt.upstream.take() {
                    attempt.slot.data.put(upstream, self.thread);
                }
                if !(self.keep_alive && client_stays) {
                    self.next = Next::Linger(Ending::Complete);
                }
                return Outcome::Complete;
            }
            Ok(exchange::Outcome::Tunnel) => {
                record.status = self.parts.response.status();
                if let Some(upstream) = attempt.upstream.take() {
                    self.next = Next::Tunnel(Box::new(Tunnel { upstream, spoken }));
                }
                return Outcome::Complete;
            }
            Ok(exchange::Outcome::Failed(failure)) => failure,
            Err(stopped) => {
                upstream_is_reset(attempt);
                let answerable = !response_begun;
                let may_repeat =
                    stopped.ending.ends_attempt() && attempt.plan.attempts.after_timeout;
                return Outcome::Broken(Broken {
                    reply: stopped.into(),
                    answerable,
                    repeatable: at_hand && may_repeat,
                    unprocessed: false,
                });
            }
        };
        self.failed(failure, attempt)
    }

    /// The whole request was read, and none of the next.
    fn is_whole(&self) -> bool {
        match &self.body {
            Some(body) => body.is_complete(),
            None => self.parts.request.framing() == BodyFraming::None,
        }
    }

    fn keep_copy(&mut self) {
        self.tee = Some(Box::default());
    }

    fn copy(&self) -> Result<Copy, NotCopied> {
        let head = &self.parts.request;
        if head.upgrade().is_some() || head.is_connect() {
            return Err(NotCopied::Tunnel);
        }
        let rest = match &self.tee {
            None => &[],
            Some(tee) => tee.whole()?,
        };
        if self.first_bytes + rest.len() as u64 > copy::BODY_BYTES_MAX as u64 {
            return Err(NotCopied::TooLarge);
        }
        let (at, length) = self.deadline_line;
        let (head_lines, from_deadline) = self.parts.onward.split_at(at);
        let mark = format!("{}: {}\r\n", copy::HEADER, copy::HEADER_VALUE);
        let bytes = [head_lines, mark.as_bytes(), &from_deadline[length..], rest].concat();
        Ok(Copy::Http1(bytes.into(), head.exchange(false)))
    }

    fn rewind(&mut self) -> bool {
        // Only what is still in `onward` was sent: see `Failure::replayable`.
        true
    }

    fn shown(&self, reply: &LocalReply) -> (u16, Option<u16>) {
        (reply.status(), None)
    }

    async fn reply(&mut self, reply: LocalReply, close: bool) {
        let ending = reply.ending();
        let whole = self.is_whole();
        if self.body.is_none() {
            self.ahead.consume(self.parts.request.length());
        }
        let keep = whole && self.keep_alive && !close && !ending.ends_connection();
        let mut bytes = Vec::new();
        write_reply(&reply, self.parts.request.version(), keep, &mut bytes);
        let written = write_all(self.client, &bytes).await;
        self.next = match (keep, written) {
            (true, true) => Next::Keep,
            (true, false) => Next::Close(Ending::ClientReset),
            (false, true) => Next::Linger(ending),
            (false, false) => Next::Close(ending),
        };
    }

    fn cut(&mut self, broken: &Broken, _record: &mut RequestRecord) {
        self.client.reset_on_drop();
        self.next = Next::Close(broken.ending());
    }
}

fn upstream_is_reset(attempt: &Attempt<'_, Stream>) {
    if let Some(upstream) = &attempt.upstream {
        upstream.reset_on_drop();
    }
}

/// An upgrade to HTTP/2 would carry requests past policy and metrics; every hop may ignore it (RFC 9110 §7.8).
fn forwards_upgrade(head: &RequestHead) -> bool {
    head.upgrade().is_some_and(|upgrade| upgrade != Upgrade::H2c)
}

/// Writes a whole response; `keep_alive` says whether the connection stays.
pub fn write_reply(reply: &LocalReply, version: Version, keep_alive: bool, out: &mut Vec<u8>) {
    let connection = match (keep_alive, version) {
        (false, _) => "connection: close\r\n",
        (true, Version::Http10) => "connection: keep-alive\r\n",
        (true, Version::Http11) => "",
    };
    let status = reply.status();
    let (version, reason) = (version.as_str(), reason(status));
    // Writing to a Vec cannot fail.
    let _infallible = write!(out, "{version} {status} {reason}\r\n");
    for (name, value) in reply.fields() {
        let _infallible = write!(out, "{name}: {value}\r\n");
    }
    let _infallible = write!(out, "content-length: 0\r\n{connection}\r\n");
}

/// The reason phrase, which the `http` crate knows.
fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason()).unwrap_or("")
}

/// Writes and flushes; `false` when the client is gone.
pub async fn write_all(client: &mut Stream, mut bytes: &[u8]) -> bool {
    let writing = poll_fn(|context| {
        while !bytes.is_empty() {
            match ready!(client.poll_write(context, bytes)) {
                Ok(count) => bytes = &bytes[count..],
                Err(_) => return Poll::Ready(false),
            }
        }
        client.poll_flush(context).map(|flushed| flushed.is_ok())
    });
    tokio::time::timeout(ANSWER_MAX, writing).await.unwrap_or(false)
}

/// A client that does not take an answer of our own, or the end of its connection, within this time is cut.
pub const ANSWER_MAX: std::time::Duration = std::time::Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reply: &LocalReply, keep_alive: bool, expected: &str) {
        let mut out = Vec::new();
        write_reply(reply, Version::Http11, keep_alive, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_reply_says_why() {
        let refusal = Refusal::because(Ending::NoEndpoints, "no endpoint of web\r\nx: y");
        check(
            &refusal.into(),
            false,
            "HTTP/1.1 503 Service Unavailable\r\nl5d-proxy-error: no endpoint of web??x: y\r\n\
             content-length: 0\r\nconnection: close\r\n\r\n",
        );
        check(
            &LocalReply::from(Ending::UpstreamRefused).unreachable(),
            true,
            "HTTP/1.1 502 Bad Gateway\r\nl5d-proxy-error: the server refused the connection; \
             check that it listens on this address and port\r\n\
             leno-application: unreachable\r\ncontent-length: 0\r\n\r\n",
        );
        check(
            &LocalReply::redirect(302, "http://web/".to_owned()),
            true,
            "HTTP/1.1 302 Found\r\nlocation: http://web/\r\ncontent-length: 0\r\n\r\n",
        );
    }
}
