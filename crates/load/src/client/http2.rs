//! HTTP/2: one connection, a lane per stream that may be open at once.
//!
//! A lane makes one request after the other, each on a new stream; a task per connection moves the frames, and nothing
//! is spawned per request. Requests of lanes that are ready at the same moment leave in one write. gRPC ([`super::grpc`])
//! stands on the same [`Link`].

use crate::client::stream::Stream;
use crate::client::target::Target;
use crate::client::{Answer, Exchange, Failure};
use crate::clock;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, SendStream};
use leno_runtime::tasks;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What may arrive unread on a connection and on a stream: enough that the server never waits for us, as lanes read
/// whatever there is.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
const STREAM_WINDOW_BYTES: u32 = 16 << 20;

/// Opens the connection and gives its lanes.
pub(super) async fn open(stream: Stream, target: &Rc<Target>) -> Result<Vec<Http2>, Failure> {
    let body = Bytes::copy_from_slice(&target.body);
    let links = connect(stream, target).await?;
    Ok(links.into_iter().map(|link| Http2 { link, body: body.clone() }).collect())
}

/// One stream after the other of a connection.
#[derive(Debug)]
pub struct Http2 {
    pub(super) link: Link,
    body: Bytes,
}

impl Http2 {
    /// Makes one request and waits for its whole answer.
    pub async fn exchange(&mut self) -> Exchange {
        let mut timing = Timing::begin();
        let waiting = self.link.waiting(&timing);
        let result = self.attempt(&mut timing).await;
        waiting.over();
        timing.end(result)
    }

    async fn attempt(&mut self, timing: &mut Timing) -> Result<Answer, Failure> {
        let (response, mut send) = self.link.request(self.body.is_empty(), timing).await?;
        if !self.body.is_empty() {
            // The body is shared memory: h2 keeps a reference to it, and sends as the server's windows allow.
            send.send_data(self.body.clone(), true).map_err(|error| self.link.failure(&error))?;
            timing.bytes_out = self.body.len() as u64;
        }
        let response = response.await.map_err(|error| self.link.failure(&error))?;
        timing.first_byte = clock::now();
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut bytes_in = 0;
        while let Some(piece) = poll_fn(|context| body.poll_data(context)).await {
            let piece = piece.map_err(|error| self.link.failure(&error))?;
            bytes_in += piece.len() as u64;
            // Only a stream that is over refuses it, and then there is nothing to give back.
            let _over = body.flow_control().release_capacity(piece.len());
        }
        Ok(Answer { status, grpc_status: 0, bytes_in })
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.link.is_open()
    }
}

/// When things happened in one exchange.
#[derive(Debug)]
pub(super) struct Timing {
    pub(super) sent: u64,
    pub(super) first_byte: u64,
    pub(super) bytes_out: u64,
}

impl Timing {
    pub(super) fn begin() -> Self {
        Self { sent: clock::now(), first_byte: 0, bytes_out: 0 }
    }

    pub(super) fn end(self, result: Result<Answer, Failure>) -> Exchange {
        let Self { sent, first_byte, bytes_out } = self;
        Exchange { sent, first_byte, end: clock::now(), bytes_out, result }
    }
}

/// A lane's part of a connection.
#[derive(Debug)]
pub(super) struct Link {
    send: SendRequest<Bytes>,
    /// What is asked for next.
    pub(super) target: Rc<Target>,
    shared: Rc<Shared>,
}

/// What the lanes of one connection share.
#[derive(Debug)]
struct Shared {
    tls: bool,
    /// When an exchange last ended by itself.
    heard: Cell<u64>,
    /// A request was given up, and nothing had come on the connection since it was sent.
    silent: Cell<bool>,
}

/// Makes the HTTP/2 connection; one link per lane.
pub(super) async fn connect(stream: Stream, target: &Rc<Target>) -> Result<Vec<Link>, Failure> {
    let tls = target.tls.is_some();
    let shaken = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        // Until the server has said how many it takes, which it says first of all.
        .initial_max_send_streams(target.streams)
        .handshake::<_, Bytes>(stream)
        .await;
    let (send, mut connection) = shaken.map_err(|error| failure(&error, tls))?;
    let mut pings = connection.ping_pong();
    tasks::spawn_local("http2 connection", async move {
        // Its streams report how it ended.
        let _ended = connection.await;
    });
    // What a connection serves only once needs one lane.
    let mut lanes = if target.keep_alive { target.streams } else { 1 };
    if lanes > 1
        && let Some(pings) = &mut pings
    {
        // The answer to a ping comes after the server's settings: then it is known how many streams it takes.
        pings.ping(Ping::opaque()).await.map_err(|error| failure(&error, tls))?;
        lanes = lanes.min(send.current_max_send_streams()).max(1);
    }
    let shared = Rc::new(Shared { tls, heard: Cell::new(0), silent: Cell::new(false) });
    let link =
        |_| Link { send: send.clone(), target: Rc::clone(target), shared: Rc::clone(&shared) };
    Ok((0..lanes).map(link).collect())
}

impl Link {
    /// Opens a stream. What it waits for is not the server's doing, and comes before `timing.sent`.
    pub(super) async fn request(
        &mut self,
        ends: bool,
        timing: &mut Timing,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), Failure> {
        let ready = poll_fn(|context| self.send.poll_ready(context)).await;
        ready.map_err(|error| self.failure(&error))?;
        timing.sent = clock::now();
        let request = self.target.http2.clone();
        self.send.send_request(request, ends).map_err(|error| self.failure(&error))
    }

    /// Notices when the exchange is given up.
    pub(super) fn waiting(&self, timing: &Timing) -> Waiting {
        Waiting { shared: Rc::clone(&self.shared), since: timing.sent, over: false }
    }

    pub(super) fn failure(&self, error: &h2::Error) -> Failure {
        failure(error, self.shared.tls)
    }

    /// Neither has the other side said that it closes, nor is it silent.
    pub(super) fn is_open(&self) -> bool {
        // A clone has no stream of its own that waits to be opened, whose waker would be lost.
        let ready = self.send.clone().poll_ready(&mut Context::from_waker(Waker::noop()));
        !self.shared.silent.get() && !matches!(ready, Poll::Ready(Err(_)))
    }
}

/// Dropped without [`Waiting::over`]: the engine has given the request up. Where nothing at all has come since it was
/// sent, the connection is taken for dead, since TCP alone would notice minutes later that a peer is gone.
pub(super) struct Waiting {
    shared: Rc<Shared>,
    since: u64,
    over: bool,
}

impl Waiting {
    /// The exchange has ended by itself, well or not.
    pub(super) fn over(mut self) {
        self.over = true;
        self.shared.heard.set(clock::now());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.over && self.shared.heard.get() < self.since {
            self.shared.silent.set(true);
        }
    }
}

/// What an error of a stream means.
fn failure(error: &h2::Error, tls: bool) -> Failure {
    if let Some(io) = error.get_io() {
        return match io.kind() {
            // h2's word for a connection that has ended in the midst of streams.
            io::ErrorKind::BrokenPipe => Failure::Closed,
            // h2 keeps the kind of rustls' errors and none of itself has it.
            io::ErrorKind::InvalidData if tls => Failure::Tls,
            _ => Failure::of_io(io),
        };
    }
    match error {
        error if !error.is_remote() => Failure::Protocol,
        error if error.is_reset() => Failure::Reset,
        _ => Failure::Closed,
    }
}
