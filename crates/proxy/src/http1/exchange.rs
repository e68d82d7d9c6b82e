//! One request and its response over two connections, both ways at once.
//!
//! A state machine that is polled: the request goes up while the response may already come down (early answers,
//! `100 Continue`, streams both ways). The bytes of bodies are passed on as they came; `leno_http1` says where they end.
//! Not here: which upstream, retries, the client's answer after a failure ([`crate::request::engine`]).

use crate::ending::Ending;
use crate::io::{Buffer, Stream};
use crate::request::codec::Rejected;
use crate::request::decision::Plan;
use crate::request::filters::headers::Lines;
use crate::request::local_reply::UNREACHABLE;
use crate::request::mirror::copy::Tee;
use crate::request::persistence::Session;
use crate::request::retry::{Answer, Judge, Wait};
use crate::request::timeouts::Progress;
use leno_http1::edit::{self, Edit, Persistence};
use leno_http1::{BodyFraming, BodyReader, Limits, Malformed, Parse, ResponseHead, Version};
use leno_runtime::drain::Drain;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// The request, ready to be sent.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Edited head and the body bytes that came with it.
    pub onward: &'a mut Vec<u8>,
    /// More of the body is kept there too, up to so many bytes, so that it can be sent again.
    pub kept_bytes_max: usize,
    /// Decides whether the response is passed on, where the route has retries.
    pub judge: Option<&'a Judge<'a>>,
    /// Finds the end of the rest of the body.
    pub body: BodyReader,
    /// How its response is read.
    pub exchange: leno_http1::Exchange,
    /// Whether the client's connection may stay open as far as the request says.
    pub keep_alive: bool,
    /// After a drain has started, responses say `connection: close`.
    pub drain: &'a Drain,
    /// Whether another endpoint can be tried if the other proxy reports a missing application.
    pub elsewhere: bool,
    /// What passes of the body after the first bytes is copied here.
    pub tee: Option<&'a mut Tee>,
}

/// How an exchange ended.
#[derive(Debug)]
pub enum Outcome {
    /// Both messages went through whole.
    Done(Done),
    /// The connection is a tunnel from here on.
    Tunnel,
    /// It broke.
    Failed(Failure),
}

/// What may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The upstream connection.
    pub upstream: bool,
    /// The client's connection.
    pub client: bool,
}

/// Why and when it broke.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The reason.
    pub ending: Ending,
    /// What was wrong with a message, where that is the reason.
    pub malformed: Option<Malformed>,
    /// A byte of the response was sent to the client: nothing of ours may follow it.
    pub response_begun: bool,
    /// The upstream took a byte of the request.
    pub request_begun: bool,
    /// Everything sent so far is still at hand, and nothing has come back.
    pub replayable: bool,
    /// The route does not want the response; and whether the connection can be used again.
    pub rejected: Option<(Rejected, bool)>,
}

impl Failure {
    /// The upstream ended the connection before any byte of an answer, and the request is still at hand.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.replayable && matches!(self.ending, Ending::UpstreamClosed | Ending::UpstreamReset)
    }
}

/// Where the response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Down {
    Head,
    /// Sending a 1xx, or the final head with the first bytes of the body.
    Sending {
        interim: bool,
    },
    Body,
    Done,
}

/// Where the request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Up {
    Sending,
    Done,
    /// The upstream takes no more of it: it may still answer.
    Refused,
}

pub struct Exchange<'a> {
    client: &'a mut Stream,
    upstream: &'a mut Stream,
    outgoing: Outgoing<'a>,
    /// Client bytes that are not part of what was sent: rest of the body, next request.
    pub ahead: &'a mut Buffer,
    limits: &'a Limits,
    plan: &'a Plan,
    written: usize,
    streamed: bool,
    unflushed: bool,
    up: Up,
    client_ended: bool,
    down: Down,
    /// The response's head, valid from `head_at` on.
    pub head: &'a mut ResponseHead,
    downward: &'a mut Vec<u8>,
    downward_written: usize,
    /// Upstream bytes not yet passed on; after a tunnel began, its first bytes.
    pub response: Buffer,
    response_body: BodyReader,
    /// A byte of the response was sent to the client.
    pub response_begun: bool,
    client_keep: bool,
    /// When the final head had come.
    pub head_at: Option<Instant>,
    /// Bytes of the request's body that were passed on and are not kept.
    pub request_bytes: u64,
    /// Bytes of the request's body that came after the head and are kept in `onward`.
    pub kept_bytes: u64,
    /// Bytes of the response's body that were passed on.
    pub response_bytes: u64,
}

impl<'a> Exchange<'a> {
    /// A fresh exchange; `head` and `downward` are cleared.
    pub fn new(
        (client, upstream): (&'a mut Stream, &'a mut Stream),
        outgoing: Outgoing<'a>,
        ahead: &'a mut Buffer,
        (head, downward): (&'a mut ResponseHead, &'a mut Vec<u8>),
        (limits, plan): (&'a Limits, &'a Plan),
    ) -> Self {
        head.clear();
        downward.clear();
        Self {
            client,
            upstream,
            outgoing,
            ahead,
            limits,
            plan,
            written: 0,
            streamed: false,
            unflushed: false,
            up: Up::Sending,
            client_ended: false,
            down: Down::Head,
            head,
            downward,
            downward_written: 0,
            response: Buffer::new(),
            response_body: BodyReader::new(BodyFraming::None, limits),
            response_begun: false,
            client_keep: false,
            head_at: None,
            request_bytes: 0,
            kept_bytes: 0,
            response_bytes: 0,
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            requested: self.up != Up::Sending,
            responding: self.head_at.is_some(),
            bytes: self.written as u64 + self.request_bytes + self.response_bytes,
        }
    }

    /// Drives both directions.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        if self.up == Up::Sending {
            match self.poll_up(context) {
                Poll::Ready(Ok(up)) => {
                    self.up = up;
                    if let (Up::Done, Some(tee)) = (up, &mut self.outgoing.tee) {
                        tee.is_whole = true;
                    }
                }
                Poll::Ready(Err(failure)) => return Poll::Ready(Outcome::Failed(failure)),
                Poll::Pending => {}
            }
        }
        if self.down != Down::Done {
            match self.poll_down(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(failure)) => return Poll::Ready(Outcome::Failed(failure)),
                Poll::Pending => {
                    if self.up == Up::Done
                        && self.down == Down::Head
                        && let Err(failure) = self.watch_client(context)
                    {
                        return Poll::Ready(Outcome::Failed(failure));
                    }
                    return Poll::Pending;
                }
            }
        }
        if self.head.is_tunnel() {
            return Poll::Ready(Outcome::Tunnel);
        }
        if self.up == Up::Sending {
            // The answer came early and whole, and the client still sends: its bytes belong to this request until it
            // is complete, or until the upstream has had enough (`poll_up` then says so).
            if self.head.keep_alive() && self.upstream.is_idle_alive(context) {
                return Poll::Pending;
            }
            self.up = Up::Refused;
        }
        let whole = self.up == Up::Done;
        Poll::Ready(Outcome::Done(Done {
            upstream: whole
                && self.head.keep_alive()
                && self.response.is_empty()
                && !self.client_ended,
            client: whole && self.client_keep && !self.client_ended,
        }))
    }

    /// Sends the request; ready when it is whole or the upstream takes no more.
    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Result<Up, Failure>> {
        loop {
            let unwritten = &self.outgoing.onward[self.written..];
            if !unwritten.is_empty() {
                match ready!(self.upstream.poll_write(context, unwritten)) {
                    Ok(count) => self.written += count,
                    Err(_) => return Poll::Ready(self.upstream_takes_no_more()),
                }
                self.unflushed = true;
                continue;
            }
            if self.outgoing.body.is_complete() {
                return match ready!(self.upstream.poll_flush(context)) {
                    Ok(()) => Poll::Ready(Ok(Up::Done)),
                    Err(_) => Poll::Ready(self.upstream_takes_no_more()),
                };
            }
            match self.poll_body_up(context) {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(up))) => return Poll::Ready(Ok(up)),
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    if self.unflushed {
                        match ready!(self.upstream.poll_flush(context)) {
                            Ok(()) => self.unflushed = false,
                            Err(_) => return Poll::Ready(self.upstream_takes_no_more()),
                        }
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Passes on one piece of the body.
    fn poll_body_up(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Up>, Failure>> {
        if self.ahead.is_empty() {
            match ready!(self.ahead.poll_fill(self.client, context)) {
                Ok(0) => {
                    self.ahead.release_if_empty();
                    return Poll::Ready(Err(self.failure(Ending::ClientClosed)));
                }
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(self.failure(Ending::ClientReset))),
            }
        }
        if !self.streamed && self.keep_piece()? {
            return Poll::Ready(Ok(None));
        }
        self.streamed = true;
        // A piece is read by the framing and then written whole, so that the reader's state and the wire agree.
        let before = self.outgoing.body;
        let progress = match self.outgoing.body.read(self.ahead.filled()) {
            Ok(progress) => progress,
            Err(malformed) => {
                return Poll::Ready(Err(self.malformed(Ending::MalformedRequest, malformed)));
            }
        };
        match self.upstream.poll_write(context, &self.ahead.filled()[..progress.taken]) {
            Poll::Ready(Ok(count)) => {
                self.unflushed = true;
                if count < progress.taken {
                    // Only `count` bytes went: read those again, and no more.
                    self.outgoing.body = before;
                    let reread = self.outgoing.body.read(&self.ahead.filled()[..count]);
                    debug_assert!(
                        reread.is_ok_and(|again| again.taken == count),
                        "a prefix reads as before"
                    );
                }
                if let Some(tee) = &mut self.outgoing.tee {
                    tee.push(&self.ahead.filled()[..count]);
                }
                self.ahead.consume(count);
                self.request_bytes += count as u64;
                Poll::Ready(Ok(None))
            }
            Poll::Ready(Err(_)) => Poll::Ready(self.upstream_takes_no_more().map(Some)),
            Poll::Pending => {
                self.outgoing.body = before;
                Poll::Pending
            }
        }
    }

    /// Keeps a piece of the body to be sent from there, as long as all of it so far fits.
    fn keep_piece(&mut self) -> Result<bool, Failure> {
        let room = self.outgoing.kept_bytes_max.saturating_sub(self.outgoing.onward.len());
        if room == 0 {
            return Ok(false);
        }
        let mut body = self.outgoing.body;
        let arrived = self.ahead.filled();
        let progress = body
            .read(arrived)
            .map_err(|malformed| self.malformed(Ending::MalformedRequest, malformed))?;
        if progress.taken > room {
            return Ok(false);
        }
        self.outgoing.onward.extend_from_slice(&arrived[..progress.taken]);
        self.outgoing.body = body;
        self.kept_bytes += progress.taken as u64;
        self.ahead.consume(progress.taken);
        Ok(true)
    }

    /// What finds the end of the request's body from here on.
    pub fn body(&self) -> BodyReader {
        self.outgoing.body
    }

    /// Nothing has come back that was passed on, and everything that was sent can be sent again.
    pub fn is_at_hand(&self) -> bool {
        !self.streamed && !self.response_begun
    }

    /// The upstream's side of the request direction is closed: an answer may be on its way nevertheless.
    fn upstream_takes_no_more(&self) -> Result<Up, Failure> {
        if self.written == 0 && !self.response_begun {
            return Err(self.failure(Ending::UpstreamReset));
        }
        Ok(Up::Refused)
    }

    /// While the answer is awaited: notices that the client ended its side (and shuts down the upstream's, as a direct connection would) or broke off. Bytes that come are the next request's.
    fn watch_client(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        if self.client_ended || !self.ahead.is_empty() {
            return Ok(());
        }
        match self.ahead.poll_fill(self.client, context) {
            Poll::Ready(Ok(0)) => {
                self.ahead.release_if_empty();
                self.client_ended = true;
                // An error here means that the upstream is gone too; reading its answer will say so.
                let _told = self.upstream.poll_shutdown(context);
                Ok(())
            }
            Poll::Ready(Err(_)) => Err(self.failure(Ending::ClientReset)),
            Poll::Ready(Ok(_)) | Poll::Pending => Ok(()),
        }
    }

    /// Passes the response on; ready when it is whole.
    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            match self.down {
                Down::Head => {
                    if let Err(failure) = ready!(self.poll_head(context)) {
                        return Poll::Ready(Err(failure));
                    }
                }
                Down::Sending { interim } => {
                    while self.downward_written < self.downward.len() {
                        let unwritten = &self.downward[self.downward_written..];
                        match ready!(self.client.poll_write(context, unwritten)) {
                            Ok(count) => self.downward_written += count,
                            Err(_) => return Poll::Ready(Err(self.failure(Ending::ClientReset))),
                        }
                        self.response_begun = true;
                    }
                    if interim {
                        if ready!(self.client.poll_flush(context)).is_err() {
                            return Poll::Ready(Err(self.failure(Ending::ClientReset)));
                        }
                        self.downward.clear();
                        self.downward_written = 0;
                        self.head.clear();
                        self.down = Down::Head;
                    } else {
                        self.down = Down::Body;
                    }
                }
                Down::Body => {
                    if let Err(failure) = ready!(self.poll_body_down(context)) {
                        return Poll::Ready(Err(failure));
                    }
                    self.down = Down::Done;
                }
                Down::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads a head and writes what the client gets of it into `downward`.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            let arrived = self.response.filled();
            if !arrived.is_empty() {
                match self.head.parse(arrived, self.limits, &self.outgoing.exchange) {
                    Ok(Parse::Complete) => break,
                    Ok(Parse::Partial) => {}
                    Err(malformed) => {
                        let failure = self.malformed(Ending::MalformedResponse, malformed);
                        return Poll::Ready(Err(failure));
                    }
                }
            }
            // One byte over the limit, so that it is the parser that says so.
            let room = self.limits.head_bytes_max + 1;
            match ready!(self.response.poll_fill_max(self.upstream, room, context)) {
                Ok(0) => return Poll::Ready(Err(self.failure(Ending::UpstreamClosed))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(self.failure(ending_of(&error)))),
            }
        }
        if self.outgoing.elsewhere && self.says_unreachable() {
            return Poll::Ready(Err(Failure {
                ending: Ending::UpstreamRefused,
                replayable: !self.streamed && !self.response_begun,
                ..self.failure(Ending::UpstreamRefused)
            }));
        }
        let interim = self.head.is_interim();
        if !interim {
            if let Some(rejected) = self.judge() {
                return Poll::Ready(Err(rejected));
            }
            self.head_at = Some(Instant::now());
        }
        self.client_keep = self.outgoing.keep_alive
            && !self.outgoing.drain.has_started()
            && self.client_may_stay();
        let persistence = if self.client_keep { Persistence::Keep } else { Persistence::Close };
        self.write_head(persistence);
        self.response.consume(self.head.length());
        if !interim {
            self.response_body = BodyReader::new(self.head.framing(), self.limits);
            // What came with the head goes with the head.
            let progress = match self.response_body.read(self.response.filled()) {
                Ok(progress) => progress,
                Err(malformed) => {
                    return Poll::Ready(Err(self.malformed(Ending::MalformedResponse, malformed)));
                }
            };
            self.downward.extend_from_slice(&self.response.filled()[..progress.taken]);
            self.response.consume(progress.taken);
            self.response_bytes += progress.taken as u64;
        }
        self.down = Down::Sending { interim };
        Poll::Ready(Ok(()))
    }

    /// Whether the route wants the response, whose head has come.
    fn judge(&self) -> Option<Failure> {
        let judge = self.outgoing.judge?;
        let arrived = self.response.filled();
        let wait = Wait::of(|name| self.head.header(arrived, name));
        let answer = Answer { status: self.head.status(), grpc: None, wait };
        let wait = judge.another(&answer, self.is_at_hand())?;
        let rest = &arrived[self.head.length()..];
        let mut body = BodyReader::new(self.head.framing(), self.limits);
        let is_whole =
            body.read(rest).is_ok_and(|read| read.taken == rest.len()) && body.is_complete();
        let reusable = is_whole && self.up == Up::Done && self.head.keep_alive();
        let rejected = Some((Rejected { answer, wait }, reusable && !self.client_ended));
        Some(Failure { rejected, ..self.failure(Ending::UpstreamClosed) })
    }

    /// The head as the client gets it, without the word that is between proxies only.
    fn write_head(&mut self, persistence: Persistence) {
        let session = self.plan.session().filter(|_| !self.head.is_interim());
        let session = session.and_then(Session::response);
        let mut lines = Lines::of(self.plan.response_changes().chain(&session));
        if self.has_word() {
            lines.remove.push(UNREACHABLE.0);
        }
        let edit = Edit { persistence, ..lines.edit() };
        edit::write_response(self.head, self.response.filled(), &edit, self.downward);
    }

    /// Whether this is the other proxy's word that its application did not take the connection: then no byte of the
    /// request has reached it, and any request may go elsewhere, as long as it is still at hand.
    fn says_unreachable(&self) -> bool {
        self.has_word() && !self.streamed
    }

    fn has_word(&self) -> bool {
        self.head.status() >= 500
            && self.head.header(self.response.filled(), UNREACHABLE.0).is_some()
    }

    /// Whether the response lets the client's connection stay: its end is marked, and a client of HTTP/1.0 reads in
    /// it that the connection stays.
    fn client_may_stay(&self) -> bool {
        if self.head.framing() == BodyFraming::UntilClose {
            return false;
        }
        self.outgoing.exchange.version == Version::Http11
            || self
                .head
                .connection_options(self.response.filled())
                .any(|option| option.eq_ignore_ascii_case(b"keep-alive"))
    }

    fn poll_body_down(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            if self.response_body.is_complete() || self.head.is_tunnel() {
                return match ready!(self.client.poll_flush(context)) {
                    Ok(()) => Poll::Ready(Ok(())),
                    Err(_) => Poll::Ready(Err(self.failure(Ending::ClientReset))),
                };
            }
            if self.response.is_empty() {
                match self.response.poll_fill(self.upstream, context) {
                    Poll::Ready(Ok(0)) => {
                        if self.response_body.finish().is_err() {
                            return Poll::Ready(Err(self.failure(Ending::UpstreamClosed)));
                        }
                        continue;
                    }
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => {
                        return Poll::Ready(Err(self.failure(Ending::UpstreamReset)));
                    }
                    Poll::Pending => {
                        return match ready!(self.client.poll_flush(context)) {
                            Ok(()) => Poll::Pending,
                            Err(_) => Poll::Ready(Err(self.failure(Ending::ClientReset))),
                        };
                    }
                }
            }
            let before = self.response_body;
            let progress = match self.response_body.read(self.response.filled()) {
                Ok(progress) => progress,
                Err(malformed) => {
                    return Poll::Ready(Err(self.malformed(Ending::MalformedResponse, malformed)));
                }
            };
            let count = match self
                .client
                .poll_write(context, &self.response.filled()[..progress.taken])
            {
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(self.failure(Ending::ClientReset))),
                Poll::Pending => {
                    self.response_body = before;
                    return Poll::Pending;
                }
            };
            if count < progress.taken {
                self.response_body = before;
                let reread = self.response_body.read(&self.response.filled()[..count]);
                debug_assert!(
                    reread.is_ok_and(|again| again.taken == count),
                    "a prefix reads as before"
                );
            }
            self.response.consume(count);
            self.response_bytes += count as u64;
        }
    }

    fn failure(&self, ending: Ending) -> Failure {
        Failure {
            ending,
            malformed: None,
            response_begun: self.response_begun,
            request_begun: self.written > 0,
            replayable: !self.streamed && !self.response_begun && self.response.is_empty(),
            rejected: None,
        }
    }

    fn malformed(&self, ending: Ending, malformed: Malformed) -> Failure {
        Failure { malformed: Some(malformed), replayable: false, ..self.failure(ending) }
    }
}

/// What a failed read of the upstream means. In TLS 1.3 a peer that refuses our certificate says so only here.
fn ending_of(error: &std::io::Error) -> Ending {
    match leno_tls::Refused::of(error) {
        leno_tls::Refused::Io(_) | leno_tls::Refused::Closed => Ending::UpstreamReset,
        _ => Ending::TlsRefused,
    }
}
