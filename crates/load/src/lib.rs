//! The load engine: a schedule says when to send a request, a client sends it, a recorder counts what came back.
//!
//! - [`plan`]: the settings of a load; [`url`] and [`protocol`]: where it goes, and how.
//! - [`schedule`]: when requests are due; pure.
//! - [`client`]: how one request is made, by protocol.
//! - [`recorder`]: results, mergeable without loss; [`histogram`]: their latencies.
//! - [`engine`]: threads that bring the three together; [`progress`]: intermediate results for an observer.
//! - [`outcome`]: the result; [`summary`]: the same as text.
//! - [`verdict`]: whether the figures may be quoted; pure.
//! - [`interrupt`]: Ctrl-C ends a load early, with its figures.
//!
//! Times are nanoseconds of the machine's monotonic clock throughout ([`clock`]). The crate does not know who uses it:
//! `leno bench`, the tests, `cargo xtask` and the test application do.

#![forbid(unsafe_code)]

pub mod client;
pub mod clock;
pub mod engine;
pub mod histogram;
pub mod interrupt;
pub mod outcome;
pub mod plan;
pub mod progress;
pub mod protocol;
pub mod recorder;
pub mod schedule;
pub mod summary;
pub mod url;
pub mod verdict;

use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::progress::Progress;
use std::ops::ControlFlow;

/// Makes the requests of the plan, and calls the observer about four times a second, on the calling thread, until the
/// plan is done or the observer breaks.
///
/// # Errors
/// The plan cannot be followed on this machine: a name that does not resolve, a certificate that cannot be read, no
/// threads. Failed requests are not an error: the outcome counts them.
pub fn run(
    plan: &Plan,
    observer: impl FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> anyhow::Result<Outcome> {
    engine::run(plan, observer)
}
