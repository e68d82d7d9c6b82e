//! How many retries a destination may get: a share of its requests, and a few at any rate (GEP-3388's defaults).
//!
//! Without it, retries multiply the load of servers that fail because of their load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seconds that the longest interval has.
const SECONDS_MAX: usize = 60;
/// One second of a ring: the second's number in the upper half, the count in the lower.
const COUNT_BITS: u32 = 32;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// What a destination may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Retries among so many requests, in percent.
    pub percent: u32,
    /// Requests and retries are counted over this time, in whole seconds, 60 at most.
    pub interval: Duration,
    /// Retries that are allowed in each second, however few requests there are.
    pub per_second_min: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { percent: 20, interval: Duration::from_secs(10), per_second_min: 10 }
    }
}

/// Requests and retries of one destination, counted by all threads.
#[derive(Debug)]
pub struct Budget {
    settings: Settings,
    began: Instant,
    requests: Ring,
    retries: Ring,
}

impl Budget {
    /// A budget of which nothing was used.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::since(settings, Instant::now())
    }

    fn since(settings: Settings, began: Instant) -> Self {
        Self { settings, began, requests: Ring::new(), retries: Ring::new() }
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs()
    }

    /// A request begins. Its retries do not count as requests.
    pub fn request(&self, now: Instant) {
        self.requests.add(self.second(now));
    }

    /// Takes one retry; `false` where the budget is used up. Of several threads that ask at once, each sees the retries of the others, so
    /// that together they may take less than is left, and never more.
    #[must_use]
    pub fn take(&self, now: Instant) -> bool {
        let second = self.second(now);
        let this_second = self.retries.add(second);
        if this_second <= u64::from(self.settings.per_second_min) {
            return true;
        }
        let seconds = self.settings.interval.as_secs().clamp(1, SECONDS_MAX as u64);
        let allowed = self.requests.sum(second, seconds) * u64::from(self.settings.percent) / 100;
        let is_allowed = self.retries.sum(second, seconds) <= allowed;
        if !is_allowed {
            self.retries.give_back(second);
        }
        is_allowed
    }
}

impl Budget {
    /// Counts a retry that is made whatever is left.
    pub fn spend(&self, now: Instant) {
        self.retries.add(self.second(now));
    }
}

/// Counts of the last seconds.
#[derive(Debug)]
struct Ring([AtomicU64; SECONDS_MAX]);

impl Ring {
    fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SECONDS_MAX])
    }

    fn slot(&self, second: u64) -> &AtomicU64 {
        &self.0[second as usize % SECONDS_MAX]
    }

    /// Adds one to a second, and answers what its count is now. A slot of an older second begins anew.
    fn add(&self, second: u64) -> u64 {
        let first = second << COUNT_BITS | 1;
        let next = |slot: u64| if slot >> COUNT_BITS == second { slot + 1 } else { first };
        let before = self
            .slot(second)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |slot| Some(next(slot)));
        next(before.unwrap_or_default()) & COUNT_MASK
    }

    /// Takes one back that [`Self::add`] has added.
    fn give_back(&self, second: u64) {
        let less =
            |slot: u64| (slot >> COUNT_BITS == second && slot & COUNT_MASK > 0).then(|| slot - 1);
        // An error means that the second is over, and its count with it.
        let _over = self.slot(second).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The count of so many seconds that end with this one.
    fn sum(&self, second: u64, seconds: u64) -> u64 {
        let first = (second + 1).saturating_sub(seconds);
        let count = |of: u64| {
            let slot = self.slot(of).load(Ordering::Relaxed);
            if slot >> COUNT_BITS == of { slot & COUNT_MASK } else { 0 }
        };
        (first..=second).map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_runtime::random::Random;

    fn settings() -> Settings {
        Settings::default()
    }

    /// In each step so many requests, and so many retries asked for, at a second; returns the retries that were allowed.
    #[track_caller]
    fn check(steps: &[(u64, u32, u32)], expected: &[u32]) {
        let began = Instant::now();
        let budget = Budget::since(settings(), began);
        let step = |(second, requests, retries): &(u64, u32, u32)| {
            let now = began + Duration::from_secs(*second);
            (0..*requests).for_each(|_| budget.request(now));
            (0..*retries).filter(|_| budget.take(now)).count() as u32
        };
        assert_eq!(steps.iter().map(step).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_share_of_requests_and_a_few_at_any_rate() {
        check(&[(0, 0, 100)], &[10]);
        check(&[(0, 0, 100), (1, 0, 100)], &[10, 10]);
        check(&[(0, 1000, 1000)], &[200]);
        check(&[(0, 1000, 150), (5, 0, 100)], &[150, 50]);
        // After the interval neither the requests nor their retries count.
        check(&[(0, 1000, 200), (10, 0, 100)], &[200, 10]);
        check(&[(0, 1000, 200), (9, 0, 100)], &[200, 10]);
        check(&[(0, 40, 40)], &[10]);
        // A ring that has gone round.
        check(&[(0, 1000, 200), (60, 100, 100), (121, 0, 11)], &[200, 20, 10]);
    }

    /// In any schedule, in any ten seconds, there are at most 20 % of the requests of those and the ten seconds before, and ten per second.
    #[test]
    fn no_schedule_exceeds_the_budget() {
        for seed in 0..200 {
            let random = Random::seeded(seed);
            let began = Instant::now();
            let budget = Budget::since(settings(), began);
            let mut requests = vec![0_u64; 40];
            let mut retries = vec![0_u64; 40];
            for second in 0..40_usize {
                let now = began + Duration::from_secs(second as u64);
                let most = [0.0, 5.0, 50.0, 500.0][(random.unit() * 4.0) as usize];
                for _ in 0..(random.unit() * most) as u32 {
                    budget.request(now);
                    requests[second] += 1;
                    for _ in 0..(random.unit() * 4.0) as u32 {
                        retries[second] += u64::from(budget.take(now));
                    }
                }
                let first = (second + 1).saturating_sub(10);
                let sum = |counts: &[u64]| counts[first..=second].iter().sum::<u64>();
                // A second's ten are allowed even where the share is used up.
                let floor = 10 * (second - first + 1) as u64;
                let allowed = sum(&requests) / 5 + floor;
                assert!(sum(&retries) <= allowed, "seed {seed}, second {second}");
            }
        }
    }

    #[test]
    fn threads_share_it() {
        let began = Instant::now();
        let budget = Budget::since(settings(), began);
        let now = began + Duration::from_secs(3);
        (0..1000).for_each(|_| budget.request(now));
        let take = || (0..1000).filter(|_| budget.take(now)).count();
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(taken <= 200, "{taken}");
        assert!(taken >= 190, "{taken}");
    }
}
