//! Attempts of one request or connection: which endpoint next, after how many refusals, and what may be tried again.
//!
//! The same for HTTP/1, HTTP/2 and bytes. What an attempt is made of is the caller's ([`acquire`]'s `connect`).

use crate::balance::Slot;
use crate::ending::Ending;
use crate::mesh::Worker;
use crate::request::local_reply::Refusal;
use crate::upstream::{Backend, Peer};
use std::rc::Rc;
use std::time::Instant;

/// Endpoints that are tried before it fails: nothing was sent to those that refused.
pub const CONNECT_ATTEMPTS_MAX: usize = 3;

/// What was tried for one request besides the first attempt; each once at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Again, after a connection died before any byte of an answer.
    pub repeated: bool,
    /// Another endpoint, after one whose application is not there.
    pub elsewhere: bool,
}

impl Tried {
    /// Whether nothing was tried yet.
    #[must_use]
    pub fn is_first(self) -> bool {
        self == Self::default()
    }

    /// When this attempt begins: the first with the request, which spares a reading of the clock.
    #[must_use]
    pub fn begins(self, begun: Instant) -> Instant {
        if self.is_first() { begun } else { Instant::now() }
    }

    /// Whether a connection's death may be answered with another attempt. A reused one may just have been closed as idle;
    /// one to another proxy dies unanswered only when that proxy does.
    #[must_use]
    pub fn may_repeat(self, reused: bool, slot: &Slot<Peer>) -> bool {
        !self.repeated && (reused || slot.endpoint.identity.is_some())
    }

    /// Whether an endpoint whose application is not there may be passed over.
    #[must_use]
    pub fn may_go_elsewhere(self, backend: &Backend, slot: &Slot<Peer>) -> bool {
        !self.elsewhere && backend.len() > 1 && slot.endpoint.identity.is_some()
    }
}

/// An endpoint and what `connect` made of it; endpoints that refuse are passed over, and `failed` as long as there is
/// another. `begun` is now, or near enough.
///
/// # Errors
/// What the last of [`CONNECT_ATTEMPTS_MAX`] said; or a limit or want of our own, which no other endpoint could mend.
pub async fn acquire<T>(
    worker: &Worker,
    backend: &Backend,
    failed: Option<&Rc<Slot<Peer>>>,
    begun: Instant,
    connect: impl AsyncFn(&Rc<Slot<Peer>>) -> Result<T, Refusal>,
) -> Result<(Rc<Slot<Peer>>, T), Refusal> {
    let mut refused: Option<(Rc<Slot<Peer>>, Refusal)> = None;
    let mut now = begun;
    for _ in 0..CONNECT_ATTEMPTS_MAX {
        let avoid = refused.as_ref().map(|(slot, _)| slot).or(failed);
        let Some(slot) = backend.pick(worker, now, avoid) else { break };
        let refusal = match connect(&slot).await {
            Ok(made) => return Ok((slot, made)),
            Err(refusal) => refusal,
        };
        if matches!(refusal.ending, Ending::PendingLimit | Ending::SocketUnavailable) {
            return Err(refusal);
        }
        now = Instant::now();
        slot.refused(now, &worker.random);
        refused = Some((slot, refusal));
        if backend.len() < 2 {
            break;
        }
    }
    Err(refused.map_or_else(|| backend.no_endpoints(), |(_, refusal)| refusal))
}
