//! What one exchange needs and an idle connection must not hold: lent by the thread.

use leno_http1::{RequestHead, ResponseHead};
use std::cell::RefCell;

/// Scratch sets that a thread keeps; beyond that many exchanges at once they are made anew.
const POOLED_MAX: usize = 64;
/// A written head longer than this is not kept.
const KEPT_BYTES_MAX: usize = 32 * 1024;

thread_local! {
    // Boxed on purpose: a connection holds a pointer, not 300 bytes.
    #[expect(clippy::vec_box, reason = "the box is what is lent and taken back")]
    static POOL: RefCell<Vec<Box<Parts>>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug, Default)]
pub struct Parts {
    pub request: RequestHead,
    pub response: ResponseHead,
    /// What is sent to the upstream first: head and the body bytes that came with it.
    pub onward: Vec<u8>,
    /// What is sent to the client first.
    pub downward: Vec<u8>,
}

/// A lent set; goes back when dropped.
#[derive(Debug)]
pub struct Scratch(Option<Box<Parts>>);

impl Scratch {
    /// Takes one from the thread.
    #[must_use]
    pub fn lend() -> Self {
        Self(Some(POOL.with_borrow_mut(Vec::pop).unwrap_or_default()))
    }
}

impl std::ops::Deref for Scratch {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        self.0.as_deref().expect("present until dropped")
    }
}

impl std::ops::DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Parts {
        self.0.as_deref_mut().expect("present until dropped")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(mut parts) = self.0.take() else { return };
        if parts.onward.capacity() > KEPT_BYTES_MAX || parts.downward.capacity() > KEPT_BYTES_MAX {
            return;
        }
        parts.request.clear();
        parts.response.clear();
        parts.onward.clear();
        parts.downward.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < POOLED_MAX {
                pool.push(parts);
            }
        });
    }
}
