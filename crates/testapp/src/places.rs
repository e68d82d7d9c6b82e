//! How many requests a worker serves at once, and how many wait for that: what makes a server's capacity.

use std::cell::Cell;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The places of one plan.
#[derive(Debug)]
pub(crate) struct Places {
    free: Semaphore,
    /// Requests that wait for a place.
    waiting: Cell<u32>,
    waiting_max: Option<u32>,
}

/// A request waits until this is dropped.
struct Waits<'a>(&'a Cell<u32>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Places {
    pub(crate) fn new(count: u32, waiting_max: Option<u32>) -> Self {
        let free = Semaphore::new(count as usize);
        Self { free, waiting: Cell::new(0), waiting_max }
    }

    /// A place, held until it is dropped; `None` where too many wait already.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.free.try_acquire() {
            return Some(place);
        }
        if self.waiting_max.is_some_and(|most| self.waiting.get() >= most) {
            return None;
        }
        self.waiting.set(self.waiting.get() + 1);
        let _waits = Waits(&self.waiting);
        // Closed by nobody.
        self.free.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn requests_wait_in_order_and_beyond_the_queue_they_are_refused() {
        let places = Places::new(1, Some(1));
        let first = places.take().now_or_never().flatten().expect("a place");
        let mut second = Box::pin(places.take());
        assert!((&mut second).now_or_never().is_none(), "it waits");
        assert!(places.take().now_or_never().expect("at once").is_none(), "refused");
        drop(first);
        let second = second.now_or_never().flatten().expect("its turn");
        assert!(places.take().now_or_never().is_none(), "the queue is free again");
        drop(second);
        assert!(places.take().now_or_never().flatten().is_some());
        let endless = Places::new(1, None);
        let _held = endless.take().now_or_never().flatten();
        assert!(endless.take().now_or_never().is_none());
    }
}
