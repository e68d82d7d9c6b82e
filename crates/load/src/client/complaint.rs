//! The first error message of each kind of failed connection: a count alone does not show what to fix.

use crate::client::Failure;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

/// The first text of each kind of failure, of all threads. Taken where a connection fails and nowhere else, so the lock costs no request.
#[derive(Clone, Debug, Default)]
pub struct Complaints(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Complaints {
    /// Remembers the text, if it is the first of its kind; answers with the kind.
    pub fn note(&self, failure: Failure, why: impl Display) -> Failure {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(failure.name()).or_insert_with(|| why.to_string());
        failure
    }

    /// What was said first, by the failure's name.
    #[must_use]
    pub fn first(&self) -> BTreeMap<String, String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(kind, why)| ((*kind).to_owned(), why.clone())).collect()
    }
}
