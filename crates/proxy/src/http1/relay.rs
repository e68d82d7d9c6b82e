//! One HTTP/1 connection, request after request: read the head, choose, connect, exchange, keep or close.
//!
//! The same for both directions; what differs is the [`Hop`]: who may, where to, which numbers.

use super::exchange::{Done, Exchange, Failure, Outcome, Outgoing};
use super::scratch::{Parts, Scratch};
use crate::balance::{self, Outstanding, Slot};
use crate::conn::copy;
use crate::ending::Ending;
use crate::io::{Buffer, Stream};
use crate::mesh::{Standing, Worker};
use crate::multiplex::session::LEAVE_WAIT_MAX;
use crate::request::attempts::{self, Tried};
use crate::request::local_reply::Refusal;
use crate::request::route::{Choice, Kind, View};
use crate::telemetry::{Direction, HttpSeries};
use crate::upstream::Peer;
use crate::upstream::acquire;
use leno_http1::edit::{self, Edit, FieldLine, Persistence};
use leno_http1::{BodyReader, Malformed, Parse, RequestHead, Upgrade, Version};
use smallvec::SmallVec;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

/// How long, and how many bytes, we read on after an answer that left request bytes unread: closing at once would
/// reset the connection and could take the answer with it.
const LINGER_MAX: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// What differs between the directions.
#[expect(
    async_fn_in_trait,
    reason = "a connection never leaves its thread, so no future needs to be Send"
)]
pub trait Hop {
    /// Which direction.
    fn direction(&self) -> Direction;
    /// Who may, and where to.
    async fn choose(&self, request: &View<'_>, kind: Kind) -> Result<Choice, Refusal>;
    /// The numbers of requests to this endpoint.
    fn series(&self, choice: &Choice, slot: &Slot<Peer>) -> Rc<HttpSeries>;
    /// Many requests are at this endpoint: they may share a connection.
    fn crowd(&self, _slot: &Rc<Slot<Peer>>) {}
    /// Connects to an endpoint.
    async fn connect(&self, slot: &Slot<Peer>) -> Result<Stream, Refusal>;
    /// An endpoint lost our connection before it answered: the refusal that says so, if nothing listens there any more.
    async fn gone(&self, slot: &Slot<Peer>) -> Option<Refusal>;
    /// The connection carries bytes from here on: where it learns that it may no longer, if anybody could tell it.
    fn standing(&self) -> Option<Rc<Standing>> {
        None
    }
    /// A request has ended.
    fn ended(&self, request: &Ended<'_>);
}

/// What is known of a request when it has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// What the access log says of the request, where it is on.
    pub logged: Option<&'a Logged>,
    /// Status sent to the client; 0 where none was.
    pub status: u16,
    /// Why it ended.
    pub ending: Ending,
    /// Whether it is in an endpoint's series already.
    pub counted: bool,
    /// What went wrong in this one case.
    pub detail: &'a str,
    /// When its head had come.
    pub begun: Instant,
    /// When the response's head had come.
    pub head_at: Option<Instant>,
    /// Bytes of the response's body.
    pub response_bytes: u64,
}

/// What the access log says of a request; made only where it is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Method.
    pub method: Vec<u8>,
    /// Target as received.
    pub path: Vec<u8>,
    /// `HTTP/1.1`.
    pub version: &'static str,
    /// Host.
    pub host: Vec<u8>,
    /// User agent.
    pub user_agent: Vec<u8>,
    /// Referer.
    pub referer: Vec<u8>,
}

impl Logged {
    fn of(head: &RequestHead, bytes: &[u8]) -> Self {
        let header = |name| head.header(bytes, name).unwrap_or_default().to_vec();
        Self {
            method: head.method_bytes(bytes).to_vec(),
            path: head.target(bytes).to_vec(),
            version: head.version().as_str(),
            host: head.authority(bytes).unwrap_or_default().to_vec(),
            user_agent: header("user-agent"),
            referer: header("referer"),
        }
    }
}

/// What becomes of the client's connection after a request.
enum Next {
    Keep,
    Close(Ending),
}

/// Serves a client's connection to its end; `ahead` is what was read of it already.
pub async fn serve<H: Hop>(
    worker: &Worker,
    hop: &H,
    mut client: Stream,
    mut ahead: Buffer,
) -> Ending {
    let multiplexed = client.is_multiplexed();
    let draining = async {
        worker.drain.started().await;
        if multiplexed {
            // Its session has said that we leave. Until that is heard a request may be on its way in this stream, and would
            // be lost: only who opens streams can end an idle one.
            Box::pin(tokio::time::sleep(LEAVE_WAIT_MAX)).await;
        }
    };
    tokio::pin!(draining);
    loop {
        match first_bytes(&mut client, &mut ahead, draining.as_mut()).await {
            First::Bytes => {}
            First::Closed => {
                shutdown(&mut client).await;
                return Ending::Complete;
            }
            First::Reset => return Ending::ClientReset,
        }
        let mut scratch = Scratch::lend();
        match read_head(worker, &mut client, &mut ahead, &mut scratch.request).await {
            Head::Complete => {}
            Head::Ended(ending) => return ending,
            Head::Malformed(malformed) => {
                return Box::pin(refuse_malformed(hop, &mut client, malformed)).await;
            }
        }
        match forward(worker, hop, &mut client, &mut ahead, &mut scratch).await {
            Next::Keep => {}
            Next::Close(ending) => return ending,
        }
    }
}

enum First {
    Bytes,
    Closed,
    Reset,
}

/// Waits for the next request while nothing is held but the socket.
async fn first_bytes(
    client: &mut Stream,
    ahead: &mut Buffer,
    mut draining: Pin<&mut impl Future<Output = ()>>,
) -> First {
    if !ahead.is_empty() {
        return First::Bytes;
    }
    poll_fn(|context| match ahead.poll_fill(client, context) {
        Poll::Ready(Ok(0)) => {
            ahead.release_if_empty();
            Poll::Ready(First::Closed)
        }
        Poll::Ready(Ok(_)) => Poll::Ready(First::Bytes),
        Poll::Ready(Err(_)) => Poll::Ready(First::Reset),
        Poll::Pending => draining.as_mut().poll(context).map(|()| First::Closed),
    })
    .await
}

enum Head {
    Complete,
    Ended(Ending),
    Malformed(Malformed),
}

async fn read_head(
    worker: &Worker,
    client: &mut Stream,
    ahead: &mut Buffer,
    head: &mut RequestHead,
) -> Head {
    let limits = &worker.http1_limits;
    poll_fn(|context| {
        loop {
            match head.parse(ahead.filled(), limits) {
                Ok(Parse::Complete) => return Poll::Ready(Head::Complete),
                Ok(Parse::Partial) => {}
                Err(malformed) => return Poll::Ready(Head::Malformed(malformed)),
            }
            // One byte over the limit, so that it is the parser that says so.
            match ready!(ahead.poll_fill_max(client, limits.head_bytes_max + 1, context)) {
                Ok(0) => return Poll::Ready(Head::Ended(Ending::ClientClosed)),
                Ok(_) => {}
                Err(_) => return Poll::Ready(Head::Ended(Ending::ClientReset)),
            }
        }
    })
    .await
}

async fn refuse_malformed<H: Hop>(hop: &H, client: &mut Stream, malformed: Malformed) -> Ending {
    let ending = match malformed.status() {
        431 => Ending::HeadTooLarge,
        _ => Ending::MalformedRequest,
    };
    let refusal = Refusal {
        status: Some(malformed.status()),
        ..Refusal::because(ending, format!("{}: {malformed}", malformed.as_str()))
    };
    let begun = Instant::now();
    hop.ended(&Ended {
        logged: None,
        status: refusal.status(),
        ending,
        counted: false,
        detail: &refusal.detail,
        begun,
        head_at: None,
        response_bytes: 0,
    });
    answer_and_close(client, &refusal, Version::Http11).await;
    ending
}

/// A request being answered: what every way out of [`forward`] needs to tell.
struct Story {
    begun: Instant,
    logged: Option<Box<Logged>>,
    version: Version,
    series: Option<Rc<HttpSeries>>,
}

/// One request whose head has come.
///
/// What happens to few requests is boxed: an idle connection keeps the room of the largest step.
#[expect(
    clippy::too_many_lines,
    reason = "the story of a request, in order: its steps are functions already"
)]
async fn forward<H: Hop>(
    worker: &Worker,
    hop: &H,
    client: &mut Stream,
    ahead: &mut Buffer,
    parts: &mut Parts,
) -> Next {
    let begun = Instant::now();
    let version = parts.request.version();
    let logged =
        worker.access_log.is_some().then(|| Box::new(Logged::of(&parts.request, ahead.filled())));
    let mut story = Story { begun, logged, version, series: None };

    let choice = match hop.choose(&View::http1(&parts.request, ahead.filled()), Kind::Http1).await {
        Ok(choice) => choice,
        Err(refusal) => {
            return Box::pin(refuse(hop, client, ahead, parts, story, refusal)).await;
        }
    };
    let body = match write_onward(worker, &choice, ahead, parts) {
        Ok(body) => body,
        Err(malformed) => {
            return Next::Close(Box::pin(refuse_malformed(hop, client, malformed)).await);
        }
    };
    let whole = body.is_complete();
    let exchange = parts.request.exchange(forwards_upgrade(&parts.request));
    let idempotent = parts.request.method().is_idempotent();
    let tunnel = parts.request.upgrade().is_some() || parts.request.is_connect();
    let may_share = whole && !tunnel;
    let mut keep_alive = parts.request.keep_alive();

    let mut tried = Tried::default();
    let mut avoid: Option<Rc<Slot<Peer>>> = None;
    loop {
        let connect = async |slot: &Rc<Slot<Peer>>| {
            acquire::acquire(worker, hop, &choice.backend, slot, may_share, tried).await
        };
        let asked = tried.begins(begun);
        let acquired =
            attempts::acquire(worker, &choice.backend, avoid.as_ref(), asked, connect).await;
        let (slot, pooled) = match acquired {
            Ok(acquired) => acquired,
            Err(refusal) => {
                return Box::pin(refuse_after_head(hop, client, whole, keep_alive, story, refusal))
                    .await;
            }
        };
        let reused = pooled.reused;
        let started = if pooled.at_once { asked } else { Instant::now() };
        let mut upstream = pooled.stream;
        let series = story.series.get_or_insert_with(|| hop.series(&choice, &slot)).clone();
        if tried.is_first() {
            series.request();
        }
        let outstanding = slot.start(started);
        let mut outgoing = Outgoing {
            onward: &parts.onward,
            body,
            exchange,
            keep_alive,
            drain: &worker.drain,
            elsewhere: tried.may_go_elsewhere(&choice.backend, &slot),
        };
        let lines = choice.response_lines();
        let response_edit = lines.edit();
        let mut running = Exchange::new(
            client,
            &mut upstream,
            &mut outgoing,
            ahead,
            (&mut parts.response, &mut parts.downward),
            (&worker.http1_limits, response_edit),
        );
        let outcome = poll_fn(|context| running.poll(context)).await;
        let (head_at, response_bytes) = (running.head_at, running.response_bytes);
        let tunnel_bytes = std::mem::take(&mut running.response);
        drop(running);
        match outcome {
            Outcome::Done(Done { upstream: upstream_stays, client: client_stays }) => {
                keep_alive &= client_stays;
                let status = parts.response.status();
                succeeded(hop, &story, outstanding, &series, (status, head_at, response_bytes));
                slot.data.shared.answered(response_bytes);
                if upstream_stays {
                    slot.data.put(upstream, worker);
                }
                if keep_alive {
                    return Next::Keep;
                }
                Box::pin(linger(client)).await;
                return Next::Close(Ending::Complete);
            }
            Outcome::Tunnel => {
                let status = parts.response.status();
                succeeded(hop, &story, outstanding, &series, (status, head_at, response_bytes));
                let up = std::mem::take(ahead);
                let standing = hop.standing();
                let server = (&mut upstream, tunnel_bytes);
                let copied = Box::pin(copy::copy((client, up), server, standing.as_deref())).await;
                return Next::Close(copied.ending);
            }
            Outcome::Failed(Failure { ending: Ending::UpstreamRefused, replayable, .. })
                if replayable =>
            {
                // The other proxy has answered in the place of its application, which it could not reach.
                outstanding.finished(Instant::now(), balance::Outcome::Failure);
                slot.refused(Instant::now(), &worker.random);
                worker.recorder.retried(hop.direction(), Ending::UpstreamRefused.flag());
                (tried.elsewhere, avoid) = (true, Some(slot));
            }
            Outcome::Failed(failure) => {
                drop(outstanding);
                let unanswered = failure.is_unanswered() && (idempotent || !failure.request_begun);
                if unanswered && tried.may_repeat(reused, &slot) {
                    worker.recorder.retried(hop.direction(), failure.ending.flag());
                    (tried.repeated, avoid) = (true, Some(slot));
                    continue;
                }
                upstream.reset_on_drop();
                if unanswered && let Some(gone) = Box::pin(hop.gone(&slot)).await {
                    return Box::pin(refuse_after_head(
                        hop, client, whole, keep_alive, story, gone,
                    ))
                    .await;
                }
                return Box::pin(failed(
                    hop,
                    client,
                    whole,
                    story,
                    failure,
                    (head_at, response_bytes),
                ))
                .await;
            }
        }
    }
}

/// Writes what goes up first into `parts.onward`, takes it out of `ahead`, and answers the reader of the body's rest.
fn write_onward(
    worker: &Worker,
    choice: &Choice,
    ahead: &mut Buffer,
    parts: &mut Parts,
) -> Result<BodyReader, Malformed> {
    let head = &parts.request;
    let lines = choice.request_lines();
    let persistence = match head.version() {
        // An HTTP/1.0 application must see what its client sent.
        Version::Http10 if !head.keep_alive() => Persistence::Close,
        _ => Persistence::Keep,
    };
    let edit = Edit { persistence, upgrade: forwards_upgrade(head), ..lines.edit() };
    parts.onward.clear();
    edit::write_request(head, ahead.filled(), &edit, &mut parts.onward);
    let mut body = BodyReader::new(head.framing(), &worker.http1_limits);
    let arrived = &ahead.filled()[head.length()..];
    let progress = body.read(arrived)?;
    parts.onward.extend_from_slice(&arrived[..progress.taken]);
    ahead.consume(head.length() + progress.taken);
    ahead.release_if_empty();
    Ok(body)
}

/// An upgrade to HTTP/2 would carry requests past policy and metrics; every hop may ignore it (RFC 9110 §7.8).
fn forwards_upgrade(head: &RequestHead) -> bool {
    head.upgrade().is_some_and(|upgrade| upgrade != Upgrade::H2c)
}

/// Header lines of filters, checked when they are made.
#[derive(Debug, Default)]
pub struct Lines<'a> {
    /// Replaced.
    pub set: SmallVec<[FieldLine<'a>; 2]>,
    /// Added.
    pub append: SmallVec<[FieldLine<'a>; 2]>,
    /// Removed.
    pub remove: SmallVec<[&'a str; 2]>,
}

impl Lines<'_> {
    fn edit(&self) -> Edit<'_> {
        Edit { set: &self.set, append: &self.append, remove: &self.remove, ..Edit::default() }
    }
}

fn succeeded<H: Hop>(
    hop: &H,
    story: &Story,
    outstanding: Outstanding<Peer>,
    series: &HttpSeries,
    (status, head_at, response_bytes): (u16, Option<Instant>, u64),
) {
    let head_at = head_at.unwrap_or(story.begun);
    let latency = head_at.saturating_duration_since(story.begun);
    outstanding.finished(head_at, balance::Outcome::of_status(status));
    series.response(status, None, Ending::Complete, latency);
    hop.ended(&Ended {
        logged: story.logged.as_deref(),
        status,
        ending: Ending::Complete,
        counted: true,
        detail: "",
        begun: story.begun,
        head_at: Some(head_at),
        response_bytes,
    });
}

/// The exchange broke: the client hears why if it has heard nothing yet, else its connection is cut.
async fn failed<H: Hop>(
    hop: &H,
    client: &mut Stream,
    whole: bool,
    story: Story,
    failure: Failure,
    (head_at, response_bytes): (Option<Instant>, u64),
) -> Next {
    let client_is_gone = matches!(failure.ending, Ending::ClientClosed | Ending::ClientReset);
    if !failure.response_begun && !client_is_gone {
        let mut refusal = Refusal::from(failure.ending);
        if let Some(malformed) = failure.malformed {
            refusal.detail = format!("{}: {malformed}", malformed.as_str());
            if failure.ending == Ending::MalformedRequest {
                refusal.status = Some(malformed.status());
            }
        }
        return refuse_after_head(hop, client, whole, false, story, refusal).await;
    }
    if let Some(series) = &story.series {
        series.response(failure.ending.shown().status, None, failure.ending, story.begun.elapsed());
    }
    hop.ended(&Ended {
        logged: story.logged.as_deref(),
        status: 0,
        ending: failure.ending,
        counted: story.series.is_some(),
        detail: "",
        begun: story.begun,
        head_at,
        response_bytes,
    });
    client.reset_on_drop();
    Next::Close(failure.ending)
}

/// A refusal before anything was taken out of `ahead`.
async fn refuse<H: Hop>(
    hop: &H,
    client: &mut Stream,
    ahead: &mut Buffer,
    parts: &Parts,
    story: Story,
    refusal: Refusal,
) -> Next {
    let no_body = parts.request.framing() == leno_http1::BodyFraming::None;
    let keep_alive = no_body && parts.request.keep_alive() && !refusal.ending.ends_connection();
    ahead.consume(parts.request.length());
    refuse_after_head(hop, client, no_body, keep_alive, story, refusal).await
}

/// Answers with the refusal; the connection stays only where the whole request was read.
async fn refuse_after_head<H: Hop>(
    hop: &H,
    client: &mut Stream,
    whole: bool,
    keep_alive: bool,
    story: Story,
    refusal: Refusal,
) -> Next {
    let keep_alive = keep_alive && whole;
    if let Some(series) = &story.series {
        series.response(refusal.status(), None, refusal.ending, story.begun.elapsed());
    }
    hop.ended(&Ended {
        logged: story.logged.as_deref(),
        status: refusal.status(),
        ending: refusal.ending,
        counted: story.series.is_some(),
        detail: &refusal.detail,
        begun: story.begun,
        head_at: None,
        response_bytes: 0,
    });
    if !keep_alive {
        answer_and_close(client, &refusal, story.version).await;
        return Next::Close(refusal.ending);
    }
    let mut bytes = Vec::new();
    refusal.write(story.version, true, &mut bytes);
    if write_all(client, &bytes).await { Next::Keep } else { Next::Close(Ending::ClientReset) }
}

async fn answer_and_close(client: &mut Stream, refusal: &Refusal, version: Version) {
    let mut bytes = Vec::new();
    refusal.write(version, false, &mut bytes);
    if write_all(client, &bytes).await {
        linger(client).await;
    }
}

/// Writes and flushes; `false` when the client is gone.
async fn write_all(client: &mut Stream, mut bytes: &[u8]) -> bool {
    poll_fn(|context| {
        while !bytes.is_empty() {
            match ready!(client.poll_write(context, bytes)) {
                Ok(count) => bytes = &bytes[count..],
                Err(_) => return Poll::Ready(false),
            }
        }
        client.poll_flush(context).map(|flushed| flushed.is_ok())
    })
    .await
}

async fn shutdown(client: &mut Stream) {
    // The client may be gone; there is nobody left to tell.
    let _told = poll_fn(|context| client.poll_shutdown(context)).await;
}

/// Closes so that what was written arrives: our side first, then wait a little for the client's.
async fn linger(client: &mut Stream) {
    shutdown(client).await;
    let mut unread = Buffer::new();
    let mut total = 0;
    let drained = poll_fn(|context| {
        loop {
            match ready!(unread.poll_fill(client, context)) {
                Ok(count) if count > 0 && total < LINGER_BYTES_MAX => {
                    total += count;
                    unread.consume(count);
                }
                _ => return Poll::Ready(()),
            }
        }
    });
    // At the limit the connection is closed as it is.
    let _limit = tokio::time::timeout(LINGER_MAX, drained).await;
}
