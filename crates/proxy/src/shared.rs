//! The only state that data threads share: counters that belong to a workload, with atomics. A limit that is divided by the number of
//! threads would be wrong at low rates.
//!
//! - [`budget`]: retries of each destination

pub mod budget;

use budget::Budget;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Destinations that are remembered before those that nobody uses are forgotten.
const SWEEP_FROM: usize = 64;

/// Shared by all data threads. A thread asks here once per destination, not per request.
#[derive(Debug, Default)]
pub struct Shared {
    budgets: Mutex<HashMap<Arc<str>, Weak<Budget>>>,
}

impl Shared {
    /// The budget of a destination, the same for all threads.
    #[must_use]
    pub fn budget(&self, destination: &Arc<str>) -> Arc<Budget> {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = budgets.get(destination).and_then(Weak::upgrade) {
            return budget;
        }
        if budgets.len() >= SWEEP_FROM {
            budgets.retain(|_, budget| budget.strong_count() > 0);
        }
        let budget = Arc::new(Budget::new(budget::Settings::default()));
        budgets.insert(destination.clone(), Arc::downgrade(&budget));
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_has_one_budget() {
        let shared = Shared::default();
        let name = |number: usize| -> Arc<str> { format!("web-{number}").into() };
        let first = shared.budget(&name(0));
        assert!(Arc::ptr_eq(&first, &shared.budget(&name(0))));
        assert!(!Arc::ptr_eq(&first, &shared.budget(&name(1))));
        for number in 0..10 * SWEEP_FROM {
            drop(shared.budget(&name(number)));
        }
        assert!(shared.budgets.lock().unwrap().len() <= SWEEP_FROM);
        assert!(Arc::ptr_eq(&first, &shared.budget(&name(0))));
    }
}
