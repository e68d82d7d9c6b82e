//! The shared connection to one endpoint: made when a crowd comes, closed when it is old or has nothing to do.

use crate::balance::Slot;
use crate::conn::dial;
use crate::io::Stream;
use crate::mesh::Worker;
use crate::multiplex::Session;
use crate::multiplex::frame::FRAME_BYTES_MAX;
use crate::request::local_reply::Refusal;
use crate::upstream::{Idle, Peer};
use leno_runtime::tasks;
use leno_tls::Refused;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

/// A proxy that does not know how to share is asked again after this long: it may be another one by then.
const UNKNOWN_FOR: Duration = Duration::from_mins(10);
/// One that could not be reached, after this long.
const UNREACHED_FOR: Duration = Duration::from_secs(1);
/// A session gets no new streams after this long: who is on the other side was verified when it began.
const AGE_MAX: Duration = Duration::from_hours(1);

/// Answers that are as long as this on average are not shared: each fills records by itself, and one connection more to copy
/// through is only dearer.
const ANSWER_BYTES_MAX: u64 = FRAME_BYTES_MAX as u64;
/// The weight of one answer in that average.
const ANSWER_SHARE: u64 = 8;

/// The shared connection of one endpoint and thread.
#[derive(Debug, Default)]
pub struct Shared {
    held: RefCell<Option<Held>>,
    /// Streams that nobody uses now.
    pub idle: Idle,
    next: Cell<Next>,
    /// Those who wait for the one that is being opened, and why it could not be.
    waiting: tokio::sync::Notify,
    failed: RefCell<Option<Refusal>>,
    /// Bytes of the last answers' bodies, on average.
    answer_bytes: Cell<u64>,
}

/// When one may be opened.
#[derive(Clone, Copy, Debug, Default)]
enum Next {
    #[default]
    Now,
    /// It is being opened.
    Opening,
    NotBefore(Instant),
}

/// The session in use; dropped, it closes once its last stream has ended.
#[derive(Debug)]
struct Held {
    session: Rc<Session>,
    since: Instant,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.session.leave();
    }
}

impl Shared {
    /// A stream, if there is a shared connection with room.
    pub fn take(&self, context: &mut Context<'_>) -> Option<Stream> {
        let held = self.held.borrow();
        let held = held.as_ref()?;
        self.idle.take(context).or_else(|| held.session.open().map(Stream::Multiplexed))
    }

    /// An answer had a body of so many bytes.
    pub fn answered(&self, bytes: u64) {
        let average = self.answer_bytes.get();
        self.answer_bytes.set(average - average / ANSWER_SHARE + bytes / ANSWER_SHARE);
    }

    /// Whether answers are short enough for sharing to be of use.
    #[must_use]
    pub fn is_of_use(&self) -> bool {
        self.answer_bytes.get() <= ANSWER_BYTES_MAX
    }

    /// Closes what is old or of no use any more.
    pub fn sweep(&self, now: Instant, idle_max: Duration) {
        let age = |since: Instant| now.saturating_duration_since(since);
        let gone = self
            .held
            .borrow()
            .as_ref()
            .is_some_and(|held| !held.session.is_open() || age(held.since) >= AGE_MAX);
        if gone {
            // Its idle streams may not stay then.
            self.held.take();
        }
        self.idle.sweep(now, idle_max);
        let unused =
            self.held.borrow().as_ref().is_some_and(|held| {
                age(held.since) >= idle_max && held.session.open_streams() == 0
            });
        if unused {
            self.held.take();
        }
    }

    /// Waits for the one that is being opened, if one is.
    ///
    /// # Errors
    /// The endpoint could not be reached.
    pub async fn opened(&self) -> Result<(), Refusal> {
        if !matches!(self.next.get(), Next::Opening) {
            return Ok(());
        }
        self.waiting.notified().await;
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    /// It is open, or cannot be and may be tried again at this time.
    fn told(&self, next: Instant, failed: Option<Refusal>) {
        self.next.set(Next::NotBefore(next));
        self.failed.replace(failed);
        self.waiting.notify_waiters();
    }

    /// Whether one should be opened now.
    fn is_wanted(&self, now: Instant) -> bool {
        let usable = self.held.borrow().as_ref().is_some_and(|held| held.session.is_open());
        !usable
            && match self.next.get() {
                Next::Now => true,
                Next::Opening => false,
                Next::NotBefore(at) => now >= at,
            }
    }
}

/// A crowd is at this endpoint: a shared connection is opened, unless there is one.
pub fn begin(worker: &Rc<Worker>, slot: &Rc<Slot<Peer>>) {
    if worker.drain.has_started() || !slot.data.shared.is_wanted(worker.swept_at()) {
        return;
    }
    slot.data.shared.next.set(Next::Opening);
    let (worker, slot) = (worker.clone(), slot.clone());
    tasks::spawn_local("shared connection", async move {
        let dialled = dial::shared(&worker, &slot.endpoint).await;
        let shared = &slot.data.shared;
        let now = Instant::now();
        let stream = match dialled {
            Ok(Ok(stream)) => stream,
            Ok(Err(Refused::ApplicationProtocol)) => return shared.told(now + UNKNOWN_FOR, None),
            // Those who wait connect for themselves, and hear what is wrong, if it still is.
            Ok(Err(_)) => return shared.told(now + UNREACHED_FOR, None),
            Err(refusal) => return shared.told(now + UNREACHED_FOR, Some(refusal)),
        };
        slot.connected();
        let session = Session::dialled();
        shared.held.replace(Some(Held { session: session.clone(), since: now }));
        shared.told(now + UNREACHED_FOR, None);
        slot.data.tell_all();
        let drain = worker.drain.clone();
        // The endpoint may go, and the thread with it, while the session ends its streams.
        drop((slot, worker));
        if let Err(error) = session.run(stream, &drain, drop).await {
            tracing::debug!(%error, "a shared connection broke");
        }
    });
}
