//! Attempts of one request or connection: which endpoint next, after how many refusals, and what may be tried again.
//!
//! The same for HTTP/1, HTTP/2 and bytes. What an attempt is made of is the caller's ([`acquire`]'s `connect`).

use crate::balance::Slot;
use crate::refusal::Refusal;
use crate::request::persistence::Session;
use crate::thread::ThreadContext;
use crate::upstream::{Backend, Peer};
use leno_model::retry::{REPLAY_BYTES_MAX, Retry};
use std::rc::Rc;
use std::time::Instant;

/// What may be tried again, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptPlan {
    /// Endpoints that are asked for a connection before an attempt fails: nothing was sent to those that refused.
    pub connects_max: u8,
    /// Attempts on a fresh connection after one that died before any byte of a response.
    pub repeats_max: u8,
    /// Attempts at another endpoint after one whose application is not there.
    pub moves_max: u8,
    /// A request's body is kept for another attempt up to this size: a unary gRPC message, usually.
    pub replay_bytes_max: u64,
    /// The request may be processed twice after a response that the route does not want.
    pub after_response: bool,
    /// The same after a connection that died, though its method is not idempotent.
    pub after_loss: bool,
    /// The same after an attempt that took too long.
    pub after_timeout: bool,
}

impl AttemptPlan {
    /// Where no route says otherwise.
    pub const DEFAULT: Self = Self {
        connects_max: 3,
        repeats_max: 1,
        moves_max: 1,
        replay_bytes_max: 16 * 1024,
        after_response: false,
        after_loss: false,
        after_timeout: false,
    };

    /// The plan of a rule with retries. A gRPC code that the rule names allows to repeat any call: all of them are POST.
    #[must_use]
    pub fn of_rule(rule: &Retry, is_idempotent: bool, is_grpc: bool) -> Self {
        let repeats = is_idempotent || rule.any_method;
        Self {
            replay_bytes_max: u64::from(REPLAY_BYTES_MAX),
            after_response: repeats,
            after_loss: rule.any_method || is_grpc && rule.grpc.contains(UNAVAILABLE),
            after_timeout: repeats || is_grpc && rule.grpc.contains(DEADLINE_EXCEEDED),
            ..Self::DEFAULT
        }
    }
}

/// The gRPC code of a lost connection.
const UNAVAILABLE: u16 = 14;
/// The gRPC code of a call that took too long.
const DEADLINE_EXCEEDED: u16 = 4;

/// The attempts of one request so far.
#[derive(Debug)]
pub struct Attempts {
    plan: AttemptPlan,
    repeats: u8,
    moves: u8,
    /// Those that the route has asked for.
    retries: u8,
    /// The endpoint of the last attempt that failed.
    failed: Option<Rc<Slot<Peer>>>,
}

/// What may follow an attempt that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct May {
    /// The same on a fresh connection.
    pub repeat: bool,
    /// The same at another endpoint, whose application is there.
    pub move_on: bool,
}

impl Attempts {
    /// None yet.
    #[must_use]
    pub fn new(plan: AttemptPlan) -> Self {
        Self { plan, repeats: 0, moves: 0, retries: 0, failed: None }
    }

    /// When the next attempt begins: the first with the request, which spares a reading of the clock.
    #[must_use]
    pub fn next_begins(&self, begun: Instant) -> Instant {
        if self.failed.is_none() && self.retries == 0 { begun } else { Instant::now() }
    }

    /// Whether the next attempt must have a connection that has not served before.
    #[must_use]
    pub fn fresh_only(&self) -> bool {
        self.repeats > 0
    }

    /// What may follow an attempt at this endpoint. A reused connection may just have been closed as idle; one to another
    /// proxy dies unanswered only when that proxy does.
    #[must_use]
    pub fn may(&self, backend: &Backend, slot: &Slot<Peer>, reused: bool) -> May {
        let to_proxy = slot.endpoint.identity.is_some();
        May {
            repeat: self.repeats < self.plan.repeats_max && (reused || to_proxy),
            move_on: self.moves < self.plan.moves_max && backend.len() > 1 && to_proxy,
        }
    }

    /// A connection to this endpoint has died: the next attempt repeats it.
    pub fn repeat(&mut self, slot: Rc<Slot<Peer>>) {
        self.repeats += 1;
        self.failed = Some(slot);
    }

    /// The application of this endpoint is not there: the next attempt goes elsewhere.
    pub fn move_on(&mut self, slot: Rc<Slot<Peer>>) {
        self.moves += 1;
        self.failed = Some(slot);
    }

    /// The route wants another attempt, after one at this endpoint if one was reached.
    pub fn again(&mut self, slot: Option<Rc<Slot<Peer>>>) {
        self.retries += 1;
        self.failed = slot.or(self.failed.take());
    }

    /// Attempts that the route has asked for.
    #[must_use]
    pub fn retries(&self) -> u8 {
        self.retries
    }

    /// Whether the next attempt may go to the endpoint of the request's session: the last one has not failed there, or only
    /// its connection was lost.
    #[must_use]
    pub fn keep_session(&self) -> bool {
        self.moves == 0 && self.retries == 0
    }

    /// The endpoint of the last attempt that failed.
    #[must_use]
    pub fn failed(&self) -> Option<&Rc<Slot<Peer>>> {
        self.failed.as_ref()
    }
}

/// An endpoint and what `connect` made of it; endpoints that refuse are passed over, and `failed` as long as there is
/// another. The endpoint of the request's session comes first. `begun` is now, or near enough.
///
/// # Errors
/// What the last of `connects_max` said; or a limit or want of our own, which no other endpoint could mend.
pub async fn acquire<T>(
    thread: &ThreadContext,
    backend: &Backend,
    (failed, connects_max): (Option<&Rc<Slot<Peer>>>, u8),
    session: Option<&Session>,
    begun: Instant,
    connect: impl AsyncFn(&Rc<Slot<Peer>>) -> Result<T, Refusal>,
) -> Result<(Rc<Slot<Peer>>, T), Refusal> {
    let mut refused: Option<(Rc<Slot<Peer>>, Refusal)> = None;
    let mut now = begun;
    for _ in 0..connects_max {
        let avoid = refused.as_ref().map(|(slot, _)| slot).or(failed);
        let session = session.filter(|_| refused.is_none());
        let held = session.and_then(|session| backend.held(session, now));
        let Some(slot) = held.or_else(|| backend.pick(thread, now, avoid)) else { break };
        let refusal = match connect(&slot).await {
            Ok(made) => return Ok((slot, made)),
            Err(refusal) => refusal,
        };
        if refusal.ending.is_of_client() {
            return Err(refusal);
        }
        now = Instant::now();
        slot.refused(now, &thread.random);
        refused = Some((slot, refusal));
        if backend.len() < 2 {
            break;
        }
    }
    Err(refused.map_or_else(|| backend.no_endpoints(), |(_, refusal)| refusal))
}
