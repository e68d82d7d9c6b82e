//! Copies of requests for mirrors: sent beside the caller's request, and their responses are discarded.
//!
//! A copy has its own connection, its own time limit and its own counter. Nothing of it reaches the caller or the caller's numbers.
//!
//! - [`copy`]: what is copied, and how much
//! - [`send`]: the way of one copy

pub mod copy;
pub mod send;

use crate::request::codec::Codec;
use crate::request::decision::Plan;
use crate::request::side::Side;
use crate::thread::ThreadContext;
use copy::{Copy, CopyGuard, NotCopied};

/// A request that is prepared: sends it to the mirrors of its plan if all of it is here, else keeps a copy of its body for
/// [`end`].
pub fn begin<S: Side, C: Codec>(
    thread: &ThreadContext,
    side: &S,
    request: &mut C,
    plan: &Plan,
) -> Option<CopyGuard> {
    if plan.mirrors().is_empty() {
        return None;
    }
    if request.is_whole() {
        to_mirrors(thread, side, plan, request.copy());
        return None;
    }
    match CopyGuard::take() {
        Ok(guard) => {
            request.keep_copy();
            Some(guard)
        }
        Err(limit) => {
            to_mirrors(thread, side, plan, Err(limit));
            None
        }
    }
}

/// The request is over: sends what was kept of it to the mirrors of its plan.
pub fn end<S: Side, C: Codec>(
    thread: &ThreadContext,
    side: &S,
    request: &C,
    plan: &Plan,
    kept: CopyGuard,
) {
    drop(kept);
    to_mirrors(thread, side, plan, request.copy());
}

fn to_mirrors<S: Side>(
    thread: &ThreadContext,
    side: &S,
    plan: &Plan,
    copy: Result<Copy, NotCopied>,
) {
    for mirror in plan.mirrors() {
        match &copy {
            Ok(copy) => side.mirror(mirror, copy.clone()),
            Err(not) => thread.recorder.mirrored(not.as_str()),
        }
    }
}
