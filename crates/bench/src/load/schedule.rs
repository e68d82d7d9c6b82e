//! When requests are due. Pure: no clock, no threads; randomness is a seed.

/// When requests are due.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Each lane makes the next request when the last one is answered: measures capacity, not latency.
    Closed,
    /// At a rate, whatever happens to earlier requests.
    Open {
        /// How they are spread at that rate.
        arrival: Arrival,
        /// The rate over time.
        rate: Rate,
    },
}

/// How requests are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Equally far apart.
    Uniform,
    /// At random, independently of each other.
    Poisson,
    /// As many at once as there are connections, then nothing until that many are due again.
    Burst,
}

/// Requests per second over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// The same throughout.
    Constant(f64),
    /// From each point (seconds since the phase began, rate) on, until the next; the last one holds.
    Steps(Vec<(f64, f64)>),
    /// Straight lines between points (seconds since the phase began, rate); the last one holds.
    Ramp(Vec<(f64, f64)>),
}
