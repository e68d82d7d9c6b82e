//! What a watcher is shown while requests are made: about four times a second, on the thread that called.

use crate::outcome::{Counts, Histograms, Second};
use std::time::Duration;

/// Where the load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are opened; no request is made yet.
    Connect,
    /// Requests are made and left out of every figure.
    WarmUp,
    /// Requests are made and counted.
    Measure,
    /// No more are started; the last ones are waited for.
    Drain,
}

/// A snapshot of the measured phase so far; empty during the warm-up.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Where the load is.
    pub phase: Phase,
    /// Time in this phase.
    pub elapsed: Duration,
    /// How long this phase lasts, where that is known.
    pub length: Option<Duration>,
    /// How many requests the measured phase has at most, where that is limited.
    pub count: Option<u64>,
    /// How many so far.
    pub counts: &'a Counts,
    /// How long they took so far.
    pub hist: &'a Histograms,
    /// The last whole second; absent in the first.
    pub second: Option<&'a Second>,
    /// The schedule's rate now, per second; absent in closed loop.
    pub rate: Option<f64>,
    /// Requests due and not yet answered.
    pub in_flight: u64,
}
