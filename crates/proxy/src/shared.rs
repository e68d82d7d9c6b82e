//! The only state that data threads share: counters that belong to a workload, with atomics. A limit that is divided by the number of
//! threads would be wrong at low rates.
//!
//! - [`budget`]: retries of each destination
//! - [`concurrency`]: how many requests our application gets at the same time
//! - [`deadlines`]: how much time the requests have that our application serves
//! - [`denials`]: what was denied last
//! - [`in_flight`]: what is under way at the same time
//! - [`rate`]: requests of each client

pub mod budget;
pub mod concurrency;
pub mod deadlines;
pub mod denials;
pub mod in_flight;
pub mod rate;

use budget::{Budget, Used};
use concurrency::Limiter;
use deadlines::Deadlines;
use denials::Denials;
use in_flight::InFlight;
use leno_model::retry::RetryBudget;
use rate::Rates;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

/// Destinations that are remembered before those that nobody uses are forgotten.
const SWEEP_FROM: usize = 64;
/// Budgets in one answer of the admin port.
const BUDGETS_SHOWN_MAX: usize = 1_000;

/// Shared by all data threads. A thread asks here once per destination, not per request.
#[derive(Debug, Default)]
pub struct Shared {
    counters: Mutex<HashMap<Arc<str>, Weak<Counters>>>,
    /// Of requests to our application, where the configuration asks for a limit.
    pub limiter: Option<Limiter>,
    /// Of the requests that our application serves, where its own requests inherit them.
    pub deadlines: Option<Arc<Deadlines>>,
    /// What was denied last.
    pub denials: Denials,
    /// How many requests clients may send.
    pub rates: Rates,
}

/// What all threads count of one destination.
#[derive(Debug)]
pub struct Counters {
    /// What its retries are paid from.
    pub budget: Budget,
    /// Connections that are forwarded as bytes, where they are limited.
    pub connections: Arc<InFlight>,
    /// Requests that wait for a connection, where they are limited.
    pub pending: Arc<InFlight>,
    /// Requests under way, where they are limited.
    pub requests: Arc<InFlight>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            budget: Budget::new(RetryBudget::default()),
            connections: Arc::default(),
            pending: Arc::default(),
            requests: Arc::default(),
        }
    }
}

impl Shared {
    /// With a limit on requests to our application, and with deadlines that its own requests inherit.
    #[must_use]
    pub fn new(limit: concurrency::Setting, inherits_deadlines: bool) -> Self {
        let now = Instant::now();
        let deadlines = inherits_deadlines.then(|| Arc::new(Deadlines::new(now)));
        Self { limiter: Limiter::new(limit, now), deadlines, ..Self::default() }
    }

    /// The counters of a destination, the same for all threads.
    #[must_use]
    pub fn counters(&self, destination: &Arc<str>) -> Arc<Counters> {
        let mut known = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.get(destination).and_then(Weak::upgrade) {
            return counters;
        }
        if known.len() >= SWEEP_FROM {
            known.retain(|_, counters| counters.strong_count() > 0);
        }
        let counters = Arc::new(Counters::default());
        known.insert(destination.clone(), Arc::downgrade(&counters));
        counters
    }

    /// Budgets of the destinations that had requests lately, by name, at most [`BUDGETS_SHOWN_MAX`].
    #[must_use]
    pub fn budgets(&self, now: Instant) -> Vec<(Arc<str>, Used)> {
        let known = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let used = known.iter().filter_map(|(name, counters)| {
            Some((name.clone(), counters.upgrade()?.budget.used(now)))
        });
        let mut used: Vec<_> = used.filter(|(_, used)| used.requests + used.retries > 0).collect();
        drop(known);
        used.sort_by(|(a, _), (b, _)| a.cmp(b));
        used.truncate(BUDGETS_SHOWN_MAX);
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_counted_once() {
        let shared = Shared::default();
        let name = |number: usize| -> Arc<str> { format!("web-{number}").into() };
        let first = shared.counters(&name(0));
        assert!(Arc::ptr_eq(&first, &shared.counters(&name(0))));
        assert!(!Arc::ptr_eq(&first, &shared.counters(&name(1))));
        for number in 0..10 * SWEEP_FROM {
            drop(shared.counters(&name(number)));
        }
        assert!(shared.counters.lock().unwrap().len() <= SWEEP_FROM);
        assert!(Arc::ptr_eq(&first, &shared.counters(&name(0))));
    }

    #[test]
    fn budgets_of_what_is_used() {
        let (shared, now) = (Shared::default(), Instant::now());
        let (used, unused) = (shared.counters(&"b:80".into()), shared.counters(&"a:80".into()));
        used.budget.request(now);
        let shown = shared.budgets(now);
        assert_eq!(shown.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["b:80"]);
        assert_eq!(shown[0].1.requests, 1);
        drop((used, unused));
        assert!(shared.budgets(now).is_empty());
    }
}
