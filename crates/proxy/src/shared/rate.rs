//! How many requests the ports of this workload serve: token buckets that all threads share.
//!
//! A bucket holds the requests of one second. It is one number, the time at which it would be full again (the generic cell rate
//! algorithm), so a request takes a token with one compare-and-swap.

use leno_model::policy::RateLimit;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Identities of one port with a bucket of their own. The others share one, so that names cannot fill the memory.
const IDENTITIES_MAX: usize = 4096;
const SECOND: u64 = 1_000_000_000;

/// The limits of all ports that have any.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<u16, Arc<Limiter>>>);

impl Rates {
    /// What one client of a port may use. Asked once for a connection; a limit that has not changed keeps its buckets.
    #[must_use]
    pub fn allowance(&self, port: u16, limit: &RateLimit, identity: Option<&str>) -> Allowance {
        let mut limiters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = limiters.get(&port).filter(|known| known.limit == *limit).cloned();
        let limiter = known.unwrap_or_else(|| {
            let limiter = Arc::new(Limiter::new(limit.clone(), Instant::now()));
            limiters.insert(port, limiter.clone());
            limiter
        });
        drop(limiters);
        limiter.allowance(identity, Instant::now())
    }
}

/// The buckets of one port.
#[derive(Debug)]
struct Limiter {
    limit: RateLimit,
    began: Instant,
    total: Option<Arc<Bucket>>,
    overrides: Vec<Arc<Bucket>>,
    identities: Mutex<HashMap<Box<str>, Arc<Bucket>>>,
    /// Of clients without an identity, and of those beyond [`IDENTITIES_MAX`].
    others: Option<Arc<Bucket>>,
}

impl Limiter {
    fn new(limit: RateLimit, began: Instant) -> Self {
        let bucket = |rate: NonZeroU32| Arc::new(Bucket::new(rate, began));
        Self {
            began,
            total: limit.total.map(bucket),
            overrides: limit.overrides.iter().map(|one| bucket(one.requests_per_second)).collect(),
            identities: Mutex::default(),
            others: limit.identity.map(bucket),
            limit,
        }
    }

    fn allowance(&self, identity: Option<&str>, now: Instant) -> Allowance {
        let own = match (self.limit.of_client(identity), identity) {
            (None, _) => None,
            (Some((_, Some(at))), _) => self.overrides.get(at).cloned(),
            (Some((rate, None)), Some(identity)) => Some(self.of_identity(identity, rate, now)),
            (Some((_, None)), None) => self.others.clone(),
        };
        Allowance { total: self.total.clone(), own }
    }

    fn of_identity(&self, identity: &str, rate: NonZeroU32, now: Instant) -> Arc<Bucket> {
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = identities.get(identity) {
            return bucket.clone();
        }
        if identities.len() >= IDENTITIES_MAX {
            // A bucket that nobody holds and that is full is as good as a new one.
            identities.retain(|_, bucket| Arc::strong_count(bucket) > 1 || !bucket.is_full(now));
        }
        match (identities.len() >= IDENTITIES_MAX, &self.others) {
            (true, Some(others)) => others.clone(),
            _ => {
                let bucket = Arc::new(Bucket::new(rate, self.began));
                identities.insert(identity.into(), bucket.clone());
                bucket
            }
        }
    }
}

/// What one client may use.
#[derive(Clone, Debug)]
pub struct Allowance {
    total: Option<Arc<Bucket>>,
    own: Option<Arc<Bucket>>,
}

/// The limit that is used up, and when it has room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// `total` or `identity`.
    pub limit: &'static str,
    pub requests_per_second: u32,
    pub wait: Duration,
}

impl Allowance {
    /// Takes a request. A client that has used up its own limit takes nothing of the others'.
    ///
    /// # Errors
    /// A limit is used up.
    pub fn take(&self, now: Instant) -> Result<(), UsedUp> {
        let used_up = |limit, bucket: &Bucket, wait| UsedUp {
            limit,
            requests_per_second: bucket.rate.get(),
            wait,
        };
        if let Some(own) = &self.own {
            own.take(now).map_err(|wait| used_up("identity", own, wait))?;
        }
        if let Some(total) = &self.total {
            total.take(now).map_err(|wait| used_up("total", total, wait))?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Bucket {
    rate: NonZeroU32,
    /// Nanoseconds that one request costs.
    interval: u64,
    began: Instant,
    /// When it is full again, in nanoseconds since `began`.
    full_at: AtomicU64,
}

impl Bucket {
    fn new(rate: NonZeroU32, began: Instant) -> Self {
        let interval = (SECOND / u64::from(rate.get())).max(1);
        Self { rate, interval, began, full_at: AtomicU64::new(0) }
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        // 584 years.
        now.saturating_duration_since(self.began).as_nanos() as u64
    }

    fn is_full(&self, now: Instant) -> bool {
        self.full_at.load(Ordering::Relaxed) <= self.nanoseconds(now)
    }

    /// Takes one token, or answers when there is one.
    fn take(&self, now: Instant) -> Result<(), Duration> {
        let now = self.nanoseconds(now);
        // At least one request fits, whatever the rate.
        let room = SECOND.max(self.interval);
        let next = |full_at: u64| full_at.max(now) + self.interval;
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            let next = next(full_at);
            (next - now <= room).then_some(next)
        });
        taken.map(drop).map_err(|full_at| Duration::from_nanos(next(full_at) - now - room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::name::Resource;
    use leno_model::policy::RateOverride;

    fn rate(rate: u32) -> NonZeroU32 {
        NonZeroU32::new(rate).unwrap()
    }

    fn limit(total: Option<u32>, identity: Option<u32>) -> RateLimit {
        let overrides =
            vec![RateOverride { requests_per_second: rate(3), identities: vec!["vip".into()] }];
        RateLimit {
            resource: Resource::default_named("x"),
            total: total.map(rate),
            identity: identity.map(rate),
            overrides,
        }
    }

    /// Of so many requests at each of these milliseconds, how many are served.
    #[track_caller]
    fn check(rate_of: u32, steps: &[(u64, u32)], expected: &[usize]) {
        let began = Instant::now();
        let bucket = Bucket::new(rate(rate_of), began);
        let served = steps.iter().map(|(at, requests)| {
            let now = began + Duration::from_millis(*at);
            (0..*requests).filter(|_| bucket.take(now).is_ok()).count()
        });
        assert_eq!(served.collect::<Vec<_>>(), expected, "{rate_of} per second: {steps:?}");
    }

    #[test]
    fn a_bucket_holds_one_second_and_fills_steadily() {
        check(10, &[(0, 20), (0, 5), (100, 5), (350, 5), (10_000, 30)], &[10, 0, 1, 2, 10]);
        check(1, &[(0, 2), (999, 1), (1000, 2), (2500, 2)], &[1, 0, 1, 1]);
        check(1000, &[(0, 2000), (1, 5), (500, 2000)], &[1000, 1, 499]);
        check(u32::MAX, &[(0, 1000)], &[1000]);
    }

    #[test]
    fn the_wait_is_as_long_as_it_takes() {
        let began = Instant::now();
        let bucket = Bucket::new(rate(2), began);
        assert!(bucket.take(began).is_ok() && bucket.take(began).is_ok());
        assert_eq!(bucket.take(began), Err(Duration::from_millis(500)));
        let later = began + Duration::from_millis(400);
        assert_eq!(bucket.take(later), Err(Duration::from_millis(100)));
        assert!(bucket.take(later + Duration::from_millis(100)).is_ok());
    }

    #[test]
    fn clients_have_their_own_share_and_never_more_than_all_together() {
        let rates = Rates::default();
        let limit = limit(Some(6), Some(2));
        let now = Instant::now() + Duration::from_millis(1);
        let served = |client: Option<&str>| {
            let allowance = rates.allowance(80, &limit, client);
            (0..10).filter(|_| allowance.take(now).is_ok()).count()
        };
        assert_eq!(served(Some("a")), 2);
        // A new connection does not begin anew.
        assert_eq!(served(Some("a")), 0);
        assert_eq!(served(Some("vip")), 3);
        // One is left of the total.
        assert_eq!(served(None), 1);
        let used_up = rates.allowance(80, &limit, Some("b")).take(now).unwrap_err();
        assert_eq!((used_up.limit, used_up.requests_per_second), ("total", 6));
        let used_up = rates.allowance(80, &limit, Some("a")).take(now).unwrap_err();
        assert_eq!((used_up.limit, used_up.requests_per_second), ("identity", 2));
        // Another port, and another limit, have buckets of their own.
        assert!(rates.allowance(81, &limit, Some("a")).take(now).is_ok());
        let other = RateLimit { total: Some(rate(7)), ..limit.clone() };
        assert!(rates.allowance(80, &other, Some("a")).take(now).is_ok());
    }

    #[test]
    fn identities_are_bounded() {
        let limiter = Limiter::new(limit(None, Some(1)), Instant::now());
        let now = Instant::now();
        let held: Vec<_> = (0..IDENTITIES_MAX + 10)
            .map(|number| limiter.allowance(Some(&format!("id-{number}")), now))
            .collect();
        assert_eq!(limiter.identities.lock().unwrap().len(), IDENTITIES_MAX);
        // Those beyond the limit share one bucket.
        assert!(held[IDENTITIES_MAX].take(now).is_ok());
        assert!(held[IDENTITIES_MAX + 1].take(now).is_err());
        assert!(held[0].take(now).is_ok());
        drop(held);
        let late = now + Duration::from_secs(5);
        let _new = limiter.allowance(Some("new"), late);
        assert_eq!(limiter.identities.lock().unwrap().len(), 1);
    }

    #[test]
    fn threads_share_it() {
        let began = Instant::now();
        let bucket = Bucket::new(rate(1000), began);
        let take = || (0..1000).filter(|_| bucket.take(began).is_ok()).count();
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
    }
}
