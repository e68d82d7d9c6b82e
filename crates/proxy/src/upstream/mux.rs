//! The shared connection to one endpoint: made when a crowd comes, closed when it is old or has nothing to do.

use crate::io::Stream;
use crate::multiplex::Session;
use crate::multiplex::frame::FRAME_BYTES_MAX;
use crate::refusal::Refusal;
use crate::upstream::idle::Idle;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

/// One that could not be opened is tried again after this long.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(1);
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

    /// It is open.
    pub(super) fn holds(&self, session: Rc<Session>, now: Instant) {
        self.held.replace(Some(Held { session, since: now }));
        self.not_opened(now + AGAIN_AFTER, None);
    }

    /// Nobody opens it now, and it may be tried again at this time.
    pub(super) fn not_opened(&self, next: Instant, failed: Option<Refusal>) {
        self.next.set(Next::NotBefore(next));
        self.failed.replace(failed);
        self.waiting.notify_waiters();
    }

    /// Whether one should be opened now; then it is the caller who opens it.
    pub(super) fn claim(&self, now: Instant) -> bool {
        let usable = self.held.borrow().as_ref().is_some_and(|held| held.session.is_open());
        let wanted = !usable
            && match self.next.get() {
                Next::Now => true,
                Next::Opening => false,
                Next::NotBefore(at) => now >= at,
            };
        if wanted {
            self.next.set(Next::Opening);
        }
        wanted
    }
}
