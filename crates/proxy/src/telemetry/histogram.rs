//! A latency histogram that one thread writes and any thread reads.

use super::block::Block;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Upper bounds in microseconds. From 1 ms on they are a subset of linkerd's 25, so that dashboards port; below, a mesh that adds
/// 0.2 ms would be one bucket. Cardinality is what users of linkerd pay for (linkerd2 #5746), so beyond 5 ms only 1, 2 and 5 of
/// each decade are kept, and nothing above 10 s.
pub const BOUNDS_MICROS: [u64; 16] = [
    100, 200, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 5_000_000, 10_000_000,
];

/// A value of each bucket; the last is +Inf.
type PerBucket<T> = [T; BOUNDS_MICROS.len() + 1];

/// The newest request of each bucket; boxed, because most histograms have none.
type Exemplars = Option<Box<PerBucket<Option<Exemplar>>>>;

/// Counts per bucket and the sum.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: PerBucket<AtomicU64>,
    sum_micros: AtomicU64,
    /// Only where traces are kept, so few requests take the lock.
    exemplars: Mutex<Exemplars>,
}

/// One request of a bucket whose span was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    pub trace_id: u128,
    pub latency: Duration,
    pub at: SystemTime,
}

impl Histogram {
    /// Counts one latency; only for the one thread that writes.
    pub fn observe(&self, latency: Duration) {
        let (bucket, micros) = bucket_of(latency);
        bump(&self.buckets[bucket], 1);
        bump(&self.sum_micros, micros);
    }

    /// Remembers a request that was counted, in the place of the last one of its bucket.
    pub fn remember(&self, exemplar: Exemplar) {
        let (bucket, _) = bucket_of(exemplar.latency);
        self.exemplars().get_or_insert_default()[bucket] = Some(exemplar);
    }

    /// A panic elsewhere must not stop the counting.
    fn exemplars(&self) -> MutexGuard<'_, Exemplars> {
        self.exemplars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block for Histogram {
    fn absorb(&self, gone: &Self) {
        for (sum, cell) in self.buckets.iter().zip(&gone.buckets) {
            bump(sum, cell.load(Ordering::Relaxed));
        }
        bump(&self.sum_micros, gone.sum_micros.load(Ordering::Relaxed));
    }
}

fn bucket_of(latency: Duration) -> (usize, u64) {
    let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    (BOUNDS_MICROS.partition_point(|bound| *bound < micros), micros)
}

/// A sum of histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Counts per bucket, not cumulated.
    pub buckets: PerBucket<u64>,
    /// The newest request of each bucket.
    pub exemplars: PerBucket<Option<Exemplar>>,
    /// Sum of the latencies.
    pub sum_micros: u64,
}

impl Sum {
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.sum_micros += histogram.sum_micros.load(Ordering::Relaxed);
        for (newest, one) in
            self.exemplars.iter_mut().zip(histogram.exemplars().iter().flat_map(|all| all.iter()))
        {
            if one.is_some_and(|one| newest.is_none_or(|known| known.at < one.at)) {
                *newest = *one;
            }
        }
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
    fn the_newest_request_of_a_bucket_is_its_exemplar() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let exemplar = |trace_id, micros, seconds| Exemplar {
            trace_id,
            latency: Duration::from_micros(micros),
            at: at(seconds),
        };
        let (first, second) = (Histogram::default(), Histogram::default());
        first.remember(exemplar(1, 50, 1));
        first.remember(exemplar(2, 60, 2));
        first.remember(exemplar(3, 150, 9));
        second.remember(exemplar(4, 70, 3));
        second.remember(exemplar(5, 150, 8));
        let mut sum = Sum::default();
        sum.add(&first);
        sum.add(&second);
        let found: Vec<u128> = sum.exemplars.iter().flatten().map(|one| one.trace_id).collect();
        assert_eq!(found, [4, 3]);
    }

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
