//! A latency histogram that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in microseconds. From 1 ms on they are a subset of linkerd's 25, so that dashboards port; below, a mesh that adds
/// 0.2 ms would be one bucket. Cardinality is what users of linkerd pay for (linkerd2 #5746), so beyond 5 ms only 1, 2 and 5 of
/// each decade are kept, and nothing above 10 s.
pub const BOUNDS_MICROS: [u64; 16] = [
    100, 200, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 5_000_000, 10_000_000,
];

/// Counts per bucket (the last is +Inf) and the sum.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_MICROS.len() + 1],
    sum_micros: AtomicU64,
}

impl Histogram {
    /// Counts one latency; only for the one thread that writes.
    pub fn observe(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        bump(&self.buckets[bucket], 1);
        bump(&self.sum_micros, micros);
    }
}

/// A sum of histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Counts per bucket, not cumulated.
    pub buckets: [u64; BOUNDS_MICROS.len() + 1],
    /// Sum of the latencies.
    pub sum_micros: u64,
}

impl Sum {
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.sum_micros += histogram.sum_micros.load(Ordering::Relaxed);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Adds without a read-modify-write instruction: right as long as only one thread writes.
pub(super) fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        let bucket_of = |micros| {
            let histogram = Histogram::default();
            histogram.observe(Duration::from_micros(micros));
            let mut sum = Sum::default();
            sum.add(&histogram);
            (sum.buckets.iter().position(|count| *count == 1).unwrap(), sum.sum_micros)
        };
        assert_eq!(bucket_of(0), (0, 0));
        assert_eq!(bucket_of(100), (0, 100));
        assert_eq!(bucket_of(101), (1, 101));
        assert_eq!(bucket_of(1000), (3, 1000));
        assert_eq!(bucket_of(1001), (4, 1001));
        assert_eq!(bucket_of(10_000_000), (15, 10_000_000));
        assert_eq!(bucket_of(10_000_001), (16, 10_000_001));
    }
}
