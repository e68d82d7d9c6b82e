//! The load engine: a schedule says when, a client says how, a recorder says what was seen. The three are strangers.
//!
//! - [`plan`]: what is asked for; [`url`]: where to.
//! - [`schedule`]: when requests are due; pure.
//! - [`client`]: how one request is made, by protocol.
//! - [`recorder`]: what was seen, mergeable without loss.
//! - [`engine`]: threads that bring the three together; [`progress`]: what a watcher is shown meanwhile.
//! - [`outcome`]: what comes out; [`summary`]: the same as text.
//! - [`view`]: what a person watches; [`hlog`], [`csv`], [`fortio`]: an outcome in the words of other tools.
//! - [`search`]: the highest rate that a server stands; pure.
//! - [`rest`]: loads on demand, in the words of fortio's REST interface.
//! - [`interrupt`]: Ctrl-C ends a load early, with its figures.
//!
//! Times are nanoseconds of the machine's monotonic clock throughout ([`clock`]).

pub mod client;
pub mod clock;
pub mod csv;
pub mod engine;
pub mod fortio;
pub mod hlog;
pub mod interrupt;
pub mod outcome;
pub mod plan;
pub mod progress;
pub mod recorder;
pub mod rest;
pub mod schedule;
pub mod search;
pub mod summary;
pub mod url;
pub mod view;

use crate::load::outcome::Outcome;
use crate::load::plan::Plan;
use crate::load::progress::Progress;
use std::ops::ControlFlow;

/// Makes the requests of the plan, and calls the observer about four times a second, on the calling thread, until the
/// plan is done or the observer breaks.
///
/// # Errors
/// The plan cannot be followed on this machine: a name that does not resolve, a certificate that cannot be read, no
/// threads. Requests that fail are no error: the outcome counts them.
pub fn run(
    plan: &Plan,
    observer: impl FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> anyhow::Result<Outcome> {
    engine::run(plan, observer)
}
