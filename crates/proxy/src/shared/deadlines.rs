//! Deadlines of the requests that our application serves now, by the trace of each. What it asks of others in the same trace has no more
//! time than that.
//!
//! The table is shared, because the calls of an application come to any thread. Its size is fixed: where there is no room for a
//! deadline, calls do not inherit it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// A trace has its place in one of so many buckets.
const BUCKETS: usize = 256;
/// Places of a bucket.
const PLACES: usize = 4;
/// Marks of [`Place::until`] that are not times.
const FREE: u64 = 0;
const TAKEN: u64 = 1;
const FIRST_TIME: u64 = 2;

/// The table.
#[derive(Debug)]
pub struct Deadlines {
    began: Instant,
    open: AtomicU32,
    places: Vec<Place>,
}

/// A deadline, or none.
#[derive(Debug, Default)]
struct Place {
    /// Microseconds since the table began, or one of the marks.
    until: AtomicU64,
    trace_high: AtomicU64,
    trace_low: AtomicU64,
}

/// A request that is being served; dropped, its deadline is forgotten.
#[derive(Debug)]
#[must_use = "the deadline is forgotten when this is dropped"]
pub struct Open {
    table: Arc<Deadlines>,
    at: usize,
}

impl Deadlines {
    /// An empty table.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let places = std::iter::repeat_with(Place::default).take(BUCKETS * PLACES).collect();
        Self { began: now, open: AtomicU32::new(0), places }
    }

    /// Whether no request with a deadline is being served.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    /// A request of this trace is served until `deadline` at the latest; `None` where there is no room for it.
    pub fn serve(self: &Arc<Self>, trace: u128, deadline: Instant) -> Option<Open> {
        let until = deadline.saturating_duration_since(self.began).as_micros();
        let until = u64::try_from(until).ok()?.max(FIRST_TIME);
        let at = self.bucket(trace).find(|at| {
            let place = &self.places[*at].until;
            place.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        let place = &self.places[at];
        place.trace_high.store((trace >> 64) as u64, Ordering::Relaxed);
        place.trace_low.store(trace as u64, Ordering::Relaxed);
        place.until.store(until, Ordering::Release);
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Open { table: self.clone(), at })
    }

    /// The time that is left of a trace: of several requests the longest, so that no call ends too early.
    #[must_use]
    pub fn left(&self, trace: u128, now: Instant) -> Option<Duration> {
        let until = self.bucket(trace).filter_map(|at| self.places[at].of(trace)).max()?;
        let deadline = self.began.checked_add(Duration::from_micros(until))?;
        Some(deadline.saturating_duration_since(now))
    }

    /// The places that a trace may have.
    fn bucket(&self, trace: u128) -> std::ops::Range<usize> {
        let mixed = ((trace >> 64) as u64 ^ trace as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (mixed >> 56) as usize % BUCKETS * PLACES;
        first..first + PLACES
    }
}

impl Place {
    /// The time of this place, where it belongs to this trace.
    fn of(&self, trace: u128) -> Option<u64> {
        let until = self.until.load(Ordering::Acquire);
        let high = self.trace_high.load(Ordering::Relaxed);
        let low = self.trace_low.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_same = self.until.load(Ordering::Relaxed) == until;
        let is_of_trace = high == (trace >> 64) as u64 && low == trace as u64;
        (until >= FIRST_TIME && is_same && is_of_trace).then_some(until)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.table.places[self.at].until.store(FREE, Ordering::Release);
        self.table.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_the_time_that_is_left() {
        let began = Instant::now();
        let table = Arc::new(Deadlines::new(began));
        let at = |millis| began + Duration::from_millis(millis);
        let left = |trace, millis| table.left(trace, at(millis)).map(|left| left.as_millis());
        assert!(table.is_empty());
        let first = table.serve(7, at(300));
        assert!(!table.is_empty());
        assert_eq!((left(7, 0), left(7, 100), left(7, 400)), (Some(300), Some(200), Some(0)));
        assert_eq!((left(8, 0), left(7 << 64, 0)), (None, None));
        // Of two requests of a trace, the one with more time decides.
        let second = table.serve(7, at(200));
        assert_eq!(left(7, 0), Some(300));
        drop(first);
        assert_eq!(left(7, 0), Some(200));
        drop(second);
        assert_eq!((left(7, 0), table.is_empty()), (None, true));
    }

    #[test]
    fn the_table_is_bounded() {
        let now = Instant::now();
        let table = Arc::new(Deadlines::new(now));
        let same: Vec<_> = (0..100).filter_map(|_| table.serve(7, now)).collect();
        assert_eq!(same.len(), PLACES);
        let many: Vec<_> = (0..10_000).filter_map(|trace| table.serve(trace << 40, now)).collect();
        assert!((BUCKETS..=BUCKETS * PLACES).contains(&(same.len() + many.len())));
        drop((same, many));
        assert!(table.is_empty());
        assert!(table.places.iter().all(|place| place.until.load(Ordering::Relaxed) == FREE));
    }

    #[test]
    fn threads_see_whole_places() {
        let began = Instant::now();
        let table = Arc::new(Deadlines::new(began));
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..20_000 {
                        // The time of a trace is its number.
                        let number = 1_000 * (1 + (round + thread) % 5);
                        let open = table.serve(
                            u128::from(number) << 64 | u128::from(number),
                            began + Duration::from_micros(number),
                        );
                        let of = |number: u64| {
                            table.left(u128::from(number) << 64 | u128::from(number), began)
                        };
                        for number in (1..=5).map(|number| number * 1_000) {
                            let left = of(number).unwrap_or(Duration::from_micros(number));
                            assert_eq!(left, Duration::from_micros(number));
                        }
                        drop(open);
                    }
                });
            }
        });
        assert!(table.is_empty());
    }
}
