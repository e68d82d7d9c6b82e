//! Which endpoint the next request (or connection) goes to.
//!
//! Power of two choices on a moving average of latency times outstanding requests, after Finagle's `PeakEwma` and linkerd.
//! Endpoints whose latencies are alike get equal shares; new endpoints start slowly; weights hold. Endpoints that refuse
//! are passed over. Failures count against an endpoint that fails fast, and a silent endpoint does not count as fast. An endpoint that
//! goes on failing is ejected, and probed.
//!
//! Owned by one thread, no locks; time and randomness come in as arguments.
//!
//! - [`load`]: what is known about one endpoint.
//! - [`health`]: whether it fails too often.
//! - [`pick`]: the choice, and ejection.

pub mod health;
pub mod load;
mod outcome;
pub mod pick;

#[cfg(test)]
mod simulation;

pub use health::{Change, Reason};
pub use load::{Outstanding, Slot};
pub use outcome::Outcome;
pub use pick::Balancer;

use leno_runtime::backoff::Backoff;
use std::time::Duration;

/// How a [`Balancer`] judges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Latency assumed of endpoints while none of the destination has shown any.
    pub default_latency: Duration,
    /// How fast the moving average forgets.
    pub decay: Duration,
    /// How long a new endpoint takes to get its full share beside warm ones; zero gives it at once.
    pub slow_start: Duration,
    /// How long an endpoint that refuses connections is passed over.
    pub backoff: Backoff,
}

impl Default for Settings {
    /// linkerd's latency and decay; its connect back-off starts at 100 ms as ours. Slow start is ours.
    fn default() -> Self {
        Self {
            default_latency: Duration::from_millis(30),
            decay: Duration::from_secs(10),
            slow_start: Duration::from_secs(10),
            backoff: Backoff {
                min: Duration::from_millis(100),
                max: Duration::from_secs(10),
                jitter_ratio: 0.5,
            },
        }
    }
}
