//! Draining: take nothing new, finish what we have, then cut at the deadline.
//!
//! A [`Drain`] is held by the process, a [`Guard`] by every connection or task that must be waited for.
//! Not a cancellation: a guard's holder learns of the drain from [`Guard::draining`] and ends itself.

use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The owner's side.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    started: CancellationToken,
    open: TaskTracker,
}

/// Held while there is something to finish; dropping it says that it is finished.
#[derive(Clone, Debug)]
pub struct Guard {
    started: CancellationToken,
    _open: TaskTrackerToken,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every guard was dropped.
    Complete,
    /// The deadline came first; so many guards were still held.
    Cut(usize),
}

impl Drain {
    /// A drain that has not started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Something that the drain will wait for.
    #[must_use]
    pub fn guard(&self) -> Guard {
        Guard { started: self.started.clone(), _open: self.open.token() }
    }

    /// Tells every guard, without waiting.
    pub fn start(&self) {
        self.started.cancel();
        self.open.close();
    }

    /// Ready as soon as the drain has started.
    pub async fn started(&self) {
        self.started.cancelled().await;
    }

    /// Whether it has started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started.is_cancelled()
    }

    /// How many guards are held.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Starts the drain and waits for every guard, at most `limit`.
    pub async fn finish(&self, limit: Duration) -> Drained {
        self.start();
        match tokio::time::timeout(limit, self.open.wait()).await {
            Ok(()) => Drained::Complete,
            Err(_) => Drained::Cut(self.open.len()),
        }
    }
}

impl Guard {
    /// Ready when the drain has started: take nothing new and end soon.
    pub async fn draining(&self) {
        self.started.cancelled().await;
    }

    /// Whether the drain has started.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.started.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_for_guards_and_cuts_at_the_deadline() {
        let drain = Drain::new();
        let guard = drain.guard();
        assert!(!guard.is_draining());
        assert_eq!(drain.finish(Duration::from_millis(10)).await, Drained::Cut(1));
        assert!(guard.is_draining());
        drop(guard);
        assert_eq!(drain.finish(Duration::from_mins(1)).await, Drained::Complete);
    }
}
