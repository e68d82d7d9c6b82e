//! What a connection carries, when nobody has declared it: look at the client's first bytes, shortly; where the server
//! may be the one to speak first, dial it meanwhile.

pub mod detect;

use crate::ending::Ending;
use crate::io::{Buffer, Stream};
use crate::refusal::Refusal;
use crate::telemetry::Direction;
use crate::thread::ThreadContext;
use detect::{Detected, detect};
use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A request line that has begun with a well-known method is waited for so long, as linkerd does.
const REQUEST_LINE_MAX: Duration = Duration::from_secs(10);

/// What it carries.
#[derive(Debug)]
pub enum Carried<D> {
    /// HTTP/1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// Bytes, to this upstream if it was already dialed. The upstream may have sent bytes.
    Bytes(Option<D>),
}

/// An upstream that was dialled early.
pub trait Dialled {
    /// The connection, and the place for what the server says before the client does.
    fn parts(&mut self) -> (&mut Stream, &mut Buffer);
}

/// The protocol of earlier connections to the same port: a port has one protocol.
#[derive(Debug, Default)]
pub struct Learned {
    /// It has carried HTTP, where the client speaks first: no need to dial early for a client that is silent.
    http: Cell<bool>,
}

impl Learned {
    /// Whether the port has carried HTTP.
    #[must_use]
    pub fn is_http(&self) -> bool {
        self.http.get()
    }
}

/// Looks at the first bytes; `ahead` keeps them. A silent client is waited for as long as `wait` says.
///
/// # Errors
/// The client is gone, or the server that was dialled early cannot be reached.
pub async fn look<F, D>(
    thread: &ThreadContext,
    (direction, wait): (Direction, Duration),
    (client, ahead): (&mut Stream, &mut Buffer),
    learned: &Learned,
    dial: impl FnOnce() -> F,
) -> Result<Carried<D>, Refusal>
where
    F: Future<Output = Result<D, Refusal>>,
    D: Dialled,
{
    let began = Instant::now();
    let mut silent = false;
    let carried = match client_first(thread, client, ahead, wait, learned.http.get()).await? {
        Some(detected) => carried_as(detected, None),
        None => {
            silent = true;
            let dialled = listen(thread, (&mut *client, &mut *ahead), dial()).await?;
            let detected = match ahead.is_empty() {
                true => None,
                false => client_first(thread, client, ahead, wait, false).await?,
            };
            carried_as(detected.unwrap_or(Detected::Opaque), dialled)
        }
    };
    if matches!(carried, Carried::Http1 | Carried::Http2) {
        learned.http.set(true);
    }
    thread.recorder.detected(direction, began.elapsed(), silent);
    Ok(carried)
}

/// The client is silent, so the server may send first: dials the server and reads from both. `None` if the client was only slow: then
/// detection continues as if it had sent at once, whatever the result of the dial.
///
/// # Errors
/// The client is gone, or the server cannot be reached.
pub async fn listen<D: Dialled>(
    thread: &ThreadContext,
    (client, ahead): (&mut Stream, &mut Buffer),
    dial: impl Future<Output = Result<D, Refusal>>,
) -> Result<Option<D>, Refusal> {
    let mut dialled = tokio::select! {
        biased;
        read = more(client, ahead, thread.limits.head_bytes_max) => {
            return read.map(|_| None).map_err(|_| Ending::ClientReset.into());
        }
        dialled = dial => dialled?,
    };
    // Connected both ways: as good as one that carries bytes, however long both are silent.
    client.mark_busy();
    let (upstream, banner) = dialled.parts();
    poll_fn(|context| {
        if let Poll::Ready(read) = banner.poll_fill(upstream, context) {
            return Poll::Ready(read.map(drop).map_err(|_| Ending::UpstreamReset));
        }
        ahead.poll_fill(client, context).map(|read| read.map(drop).map_err(|_| Ending::ClientReset))
    })
    .await?;
    Ok(Some(dialled))
}

/// An upstream that was dialled for bytes is of no use to HTTP, which has a pool.
fn carried_as<D>(detected: Detected, upstream: Option<D>) -> Carried<D> {
    match detected {
        Detected::Http1 => Carried::Http1,
        Detected::Http2 => Carried::Http2,
        _ => Carried::Bytes(upstream),
    }
}

/// Waits for bytes that decide; `None` when the client is silent.
async fn client_first(
    thread: &ThreadContext,
    client: &mut Stream,
    ahead: &mut Buffer,
    short: Duration,
    patient: bool,
) -> Result<Option<Detected>, Refusal> {
    loop {
        let detected = detect(ahead.filled(), thread.limits.head_bytes_max);
        let wait = match detected {
            Detected::Unknown if ahead.is_empty() && patient => None,
            Detected::Unknown if ahead.is_empty() => Some(short),
            Detected::Unknown => Some(thread.limits.detect_max),
            Detected::LikelyHttp => Some(REQUEST_LINE_MAX),
            decided => return Ok(Some(decided)),
        };
        let more = more(client, ahead, thread.limits.head_bytes_max);
        let read = match wait {
            None => more.await,
            Some(wait) => match tokio::time::timeout(wait, more).await {
                Ok(read) => read,
                // No bytes: the server may send first. Some bytes: they are not a request line.
                Err(_) if ahead.is_empty() => return Ok(None),
                Err(_) => return Ok(Some(Detected::Opaque)),
            },
        };
        match read {
            Ok(0) => return Ok(Some(Detected::Opaque)),
            Ok(_) => {}
            Err(_) => return Err(Ending::ClientReset.into()),
        }
    }
}

/// Reads once more into `ahead`.
pub async fn more(
    client: &mut Stream,
    ahead: &mut Buffer,
    bytes_max: usize,
) -> std::io::Result<usize> {
    poll_fn(|context| ahead.poll_fill_max(client, bytes_max, context)).await
}
