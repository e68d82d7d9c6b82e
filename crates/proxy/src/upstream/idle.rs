//! Connections to one endpoint that nobody uses now.

use crate::io::Stream;
use crate::thread::ThreadContext;
use std::cell::RefCell;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// The connections, and since when they are idle; the most recently used is last.
#[derive(Debug, Default)]
pub struct Idle(RefCell<Vec<(Stream, Instant)>>);

impl Idle {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// One that is still open, the most recently used first.
    pub fn take(&self, context: &mut Context<'_>) -> Option<Stream> {
        loop {
            let (mut stream, _) = self.0.borrow_mut().pop()?;
            if stream.may_stay() && stream.is_idle_alive(context) {
                return Some(stream);
            }
        }
    }

    /// Keeps one, where there is room.
    pub fn put(&self, stream: Stream, thread: &ThreadContext) {
        let mut idle = self.0.borrow_mut();
        if stream.may_stay() && idle.len() < thread.limits.pool_idle_max {
            idle.push((stream, thread.swept_at()));
        }
    }

    /// Closes those that are old or that the other side has closed.
    pub fn sweep(&self, now: Instant, idle_max: Duration) {
        let mut context = Context::from_waker(Waker::noop());
        self.0.borrow_mut().retain_mut(|(stream, since)| {
            now.saturating_duration_since(*since) < idle_max
                && stream.may_stay()
                && stream.is_idle_alive(&mut context)
        });
    }
}
