//! What is under way at the same time, counted by all threads: requests of a destination, say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How much is under way.
#[derive(Debug, Default)]
pub struct InFlight(AtomicU32);

/// One that is under way; dropped, it is over.
#[derive(Debug)]
#[must_use = "it is under way until this is dropped"]
pub struct Permit(Arc<InFlight>);

impl InFlight {
    /// One more, if less than `max` are under way.
    pub fn enter(self: &Arc<Self>, max: u32) -> Option<Permit> {
        if self.0.fetch_add(1, Ordering::Relaxed) >= max {
            self.0.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Permit(self.clone()))
    }

    /// How much is under way now.
    #[must_use]
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_together_stay_below_the_limit() {
        let in_flight = Arc::new(InFlight::default());
        let most = Arc::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let Some(permit) = in_flight.enter(3) else { continue };
                        most.fetch_max(in_flight.now(), Ordering::Relaxed);
                        drop(permit);
                    }
                });
            }
        });
        assert_eq!(in_flight.now(), 0);
        // Threads that are refused are counted for a moment.
        assert!(most.load(Ordering::Relaxed) <= 7);
        let held: Vec<_> = (0..5).filter_map(|_| in_flight.enter(3)).collect();
        assert_eq!(held.len(), 3);
        assert!(in_flight.enter(0).is_none());
    }
}
