//! The one clock of the load engine: the machine's monotonic one, which other processes' samples can be cut by.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of the machine's monotonic clock. About 25 ns, as it does not enter the kernel.
#[must_use]
pub fn now() -> u64 {
    of(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of CPU, user and system, that the calling thread has used.
#[must_use]
pub fn thread_cpu() -> u64 {
    of(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds in which the calling thread could have run and had no core; 0 where the kernel does not say.
#[must_use]
pub fn thread_waited() -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    line.split(' ').nth(1).and_then(|waited| waited.parse().ok()).unwrap_or_default()
}

/// Every Linux has these clocks: 0 stands for the error that cannot happen.
fn of(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64)
}
