//! Draining: take nothing new, finish what we have, then cut at the deadline.
//!
//! A [`Drain`] is held by the process, a [`Guard`] by every connection or task that must be waited for.
//! Not a cancellation: a guard's holder learns of the drain from [`Guard::draining`] and ends itself.

use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The owner's side.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    /// Set before `started` wakes anybody: the question that every request asks, without a lock.
    flag: Arc<AtomicBool>,
    started: CancellationToken,
    open: TaskTracker,
}

pin_project! {
    /// Ready as soon as the drain has started. Cheap to poll again and again from one task: it registers once.
    pub struct Started<'a> {
        flag: &'a AtomicBool,
        #[pin]
        cancelled: WaitForCancellationFuture<'a>,
        registered: Option<Waker>,
    }
}

impl Future for Started<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.flag.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if this.registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        let polled = this.cancelled.poll(context);
        *this.registered = Some(context.waker().clone());
        polled
    }
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
        self.flag.store(true, Ordering::Release);
        self.started.cancel();
        self.open.close();
    }

    /// Ready as soon as the drain has started.
    pub fn started(&self) -> Started<'_> {
        Started { flag: &self.flag, cancelled: self.started.cancelled(), registered: None }
    }

    /// Whether it has started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.flag.load(Ordering::Acquire)
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

    #[test]
    fn wakes_the_task_that_polled_last() {
        #[derive(Default)]
        struct Told(AtomicBool);
        impl std::task::Wake for Told {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Release);
            }
        }
        let drain = Drain::new();
        let mut started = std::pin::pin!(drain.started());
        let [first, second] = [Arc::new(Told::default()), Arc::new(Told::default())];
        for told in [&first, &first, &second] {
            let waker = told.clone().into();
            assert!(started.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drain.start();
        assert!(second.0.load(Ordering::Acquire) && !first.0.load(Ordering::Acquire));
        let polled = started.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_ready() && drain.has_started());
    }

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
