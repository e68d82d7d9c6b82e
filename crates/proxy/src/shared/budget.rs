//! How many retries a destination may get: a share of its requests, and a few at any rate (GEP-3388).
//!
//! Without it, retries multiply the load of servers that fail because of their load.

use leno_model::retry::RetryBudget;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An interval is counted in so many slots.
const SLOTS: usize = 10;
/// One slot: its number in the upper half, the count in the lower.
const COUNT_BITS: u32 = 32;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Requests and retries of one destination, counted by all threads.
#[derive(Debug)]
pub struct Budget {
    /// The percentage in the upper half, the milliseconds of a slot in the lower.
    share: AtomicU64,
    /// Retries at any rate in the upper half, the milliseconds of their interval in the lower.
    floor: AtomicU64,
    began: Instant,
    requests: Ring,
    retries: Ring,
    /// Retries of this interval of the floor.
    at_any_rate: AtomicU64,
}

/// How much of a budget is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Requests of the interval.
    pub requests: u64,
    /// Their retries.
    pub retries: u64,
    /// Retries that would be allowed now.
    pub left: u64,
    pub interval: Duration,
}

impl Budget {
    /// A budget of which nothing was used.
    #[must_use]
    pub fn new(settings: RetryBudget) -> Self {
        Self::since(settings, Instant::now())
    }

    fn since(settings: RetryBudget, began: Instant) -> Self {
        let (share, floor) = packed(settings);
        Self {
            share: AtomicU64::new(share),
            floor: AtomicU64::new(floor),
            began,
            requests: Ring::new(),
            retries: Ring::new(),
            at_any_rate: AtomicU64::new(0),
        }
    }

    /// Other settings hold from now on. What was counted in slots of another length is forgotten.
    pub fn change(&self, settings: RetryBudget) {
        let (share, floor) = packed(settings);
        self.share.store(share, Ordering::Relaxed);
        self.floor.store(floor, Ordering::Relaxed);
    }

    fn millis(&self, now: Instant) -> u64 {
        let time = now.saturating_duration_since(self.began);
        time.as_secs() * 1000 + u64::from(time.subsec_millis())
    }

    /// The percentage, and the slot of a time.
    fn share(&self, millis: u64) -> (u64, u64) {
        let share = self.share.load(Ordering::Relaxed);
        (share >> COUNT_BITS, slot_number(millis, share & COUNT_MASK))
    }

    /// The retries that are allowed at any rate, and the interval of a time.
    fn floor(&self, millis: u64) -> (u64, u64) {
        let floor = self.floor.load(Ordering::Relaxed);
        (floor >> COUNT_BITS, slot_number(millis, floor & COUNT_MASK))
    }

    /// A request begins. Its retries do not count as requests.
    pub fn request(&self, now: Instant) {
        let (_, slot) = self.share(self.millis(now));
        self.requests.add(slot);
    }

    /// Takes one retry; `false` where the budget is used up. Of several threads that ask at once, each sees the retries of the others, so
    /// that together they may take less than is left, and never more.
    #[must_use]
    pub fn take(&self, now: Instant) -> bool {
        let millis = self.millis(now);
        let (percent, slot) = self.share(millis);
        let (at_any_rate, interval) = self.floor(millis);
        self.retries.add(slot);
        if add(&self.at_any_rate, interval) <= at_any_rate {
            return true;
        }
        let allowed = self.requests.sum(slot) * percent / 100;
        let is_allowed = self.retries.sum(slot) <= allowed;
        if !is_allowed {
            self.retries.give_back(slot);
            give_back(&self.at_any_rate, interval);
        }
        is_allowed
    }

    /// What is left now. Nothing is taken.
    #[must_use]
    pub fn used(&self, now: Instant) -> Used {
        let millis = self.millis(now);
        let (percent, slot) = self.share(millis);
        let (at_any_rate, interval) = self.floor(millis);
        let (requests, retries) = (self.requests.sum(slot), self.retries.sum(slot));
        let of_share = (requests * percent / 100).saturating_sub(retries);
        let counted = self.at_any_rate.load(Ordering::Relaxed);
        let taken = if counted >> COUNT_BITS == interval { counted & COUNT_MASK } else { 0 };
        let of_slot = self.share.load(Ordering::Relaxed) & COUNT_MASK;
        Used {
            requests,
            retries,
            left: of_share.max(at_any_rate.saturating_sub(taken)),
            interval: Duration::from_millis(of_slot * SLOTS as u64),
        }
    }

    /// Counts a retry that is made whatever is left.
    pub fn spend(&self, now: Instant) {
        let millis = self.millis(now);
        self.retries.add(self.share(millis).1);
        add(&self.at_any_rate, self.floor(millis).1);
    }
}

fn packed(settings: RetryBudget) -> (u64, u64) {
    let RetryBudget { percent, interval, count, count_interval } = settings;
    let millis = |time: Duration| {
        u64::try_from(time.as_millis()).map_or(COUNT_MASK, |ms| ms.clamp(1, COUNT_MASK))
    };
    let slot = millis(interval).div_ceil(SLOTS as u64);
    (
        u64::from(percent) << COUNT_BITS | slot,
        u64::from(count) << COUNT_BITS | millis(count_interval),
    )
}

/// A slot's number, of which 32 bits are kept.
fn slot_number(millis: u64, millis_of_slot: u64) -> u64 {
    millis.checked_div(millis_of_slot).unwrap_or(millis) & COUNT_MASK
}

/// Adds one to a slot, and answers what its count is now. A slot with an older number begins anew.
fn add(slot: &AtomicU64, number: u64) -> u64 {
    let first = number << COUNT_BITS | 1;
    let next = |slot: u64| if slot >> COUNT_BITS == number { slot + 1 } else { first };
    let before = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |slot| Some(next(slot)));
    next(before.unwrap_or_default()) & COUNT_MASK
}

/// Takes one back that [`add`] has added.
fn give_back(slot: &AtomicU64, number: u64) {
    let less =
        |slot: u64| (slot >> COUNT_BITS == number && slot & COUNT_MASK > 0).then(|| slot - 1);
    // An error means that the slot's time is over, and its count with it.
    let _over = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// Counts of the last interval.
#[derive(Debug)]
struct Ring([AtomicU64; SLOTS]);

impl Ring {
    fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.0[number as usize % SLOTS]
    }

    fn add(&self, number: u64) {
        add(self.slot(number), number);
    }

    fn give_back(&self, number: u64) {
        give_back(self.slot(number), number);
    }

    /// The count of the interval that ends with this slot.
    fn sum(&self, number: u64) -> u64 {
        let first = (number + 1).saturating_sub(SLOTS as u64);
        let count = |of: u64| {
            let slot = self.slot(of).load(Ordering::Relaxed);
            if slot >> COUNT_BITS == of { slot & COUNT_MASK } else { 0 }
        };
        (first..=number).map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_runtime::random::Random;

    fn settings() -> RetryBudget {
        RetryBudget::default()
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

    /// What is said to be left is what can be taken.
    #[test]
    fn what_is_left_can_be_taken() {
        for (requests, retries, left) in [(0, 0, 10), (0, 4, 6), (1_000, 150, 50), (1_000, 200, 0)]
        {
            let now = Instant::now();
            let budget = Budget::since(settings(), now);
            (0..requests).for_each(|_| budget.request(now));
            assert_eq!((0..retries).filter(|_| budget.take(now)).count(), retries as usize);
            let used = budget.used(now);
            assert_eq!((used.requests, used.retries, used.left), (requests, retries, left));
            assert_eq!((0..1_000).filter(|_| budget.take(now)).count() as u64, left);
        }
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
    fn settings_decide_and_can_change() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let taken = |budget: &Budget, millis| (0..1000).filter(|_| budget.take(at(millis))).count();
        let settings = RetryBudget {
            percent: 50,
            interval: Duration::from_secs(60),
            count: 2,
            count_interval: Duration::from_millis(100),
        };
        let budget = Budget::since(settings, began);
        assert_eq!((taken(&budget, 0), taken(&budget, 99), taken(&budget, 100)), (2, 0, 2));
        (0..100).for_each(|_| budget.request(at(200)));
        assert_eq!(taken(&budget, 59_000), 50 - 4);
        // The two of each interval are allowed even where the share is used up.
        assert_eq!(taken(&budget, 59_500), 2);
        budget.change(RetryBudget { percent: 0, count: 1, ..settings });
        assert_eq!((taken(&budget, 60_000), taken(&budget, 60_050)), (1, 0));
        budget.change(RetryBudget { interval: Duration::from_secs(1), ..settings });
        (0..10).for_each(|_| budget.request(at(70_000)));
        assert_eq!(taken(&budget, 70_950), 5);
        assert_eq!(taken(&budget, 71_100), 2);
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
