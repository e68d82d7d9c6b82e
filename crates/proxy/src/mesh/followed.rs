//! The newest value of something that discovery keeps current, read without a lock while it does not change.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// The value, and when it was last asked for.
pub struct Followed<T> {
    receiver: RefCell<watch::Receiver<Arc<T>>>,
    current: RefCell<Arc<T>>,
    used_at: Cell<Instant>,
}

impl<T> Followed<T> {
    /// Follows a channel from now on.
    #[must_use]
    pub fn new(mut receiver: watch::Receiver<Arc<T>>) -> Self {
        let current = receiver.borrow_and_update().clone();
        Self {
            receiver: RefCell::new(receiver),
            current: RefCell::new(current),
            used_at: Cell::new(Instant::now()),
        }
    }

    /// The newest value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        let mut receiver = self.receiver.borrow_mut();
        // An error means that discovery has ended: the last good state stays.
        if receiver.has_changed().unwrap_or(false) {
            self.current.replace(receiver.borrow_and_update().clone());
        }
        self.current.borrow().clone()
    }

    /// It was asked for.
    pub fn used(&self, now: Instant) {
        self.used_at.set(now);
    }

    /// When it was last asked for.
    #[must_use]
    pub fn used_at(&self) -> Instant {
        self.used_at.get()
    }
}
