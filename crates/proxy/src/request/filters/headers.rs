//! Header changes, as HTTP/1 and HTTP/2 carry them out: set, add, remove, in the order of the Gateway API. Names and values that
//! the protocol cannot carry are left out: the control plane has reported them.

use http::{HeaderMap, HeaderName, HeaderValue};
use leno_http1::FieldLine;
use leno_http1::edit::Edit;
use leno_model::route::{Filter, HeaderChange};
use smallvec::SmallVec;
use std::sync::Arc;

/// Changes of the request among these filters.
pub fn of_request<'a>(
    filters: impl Iterator<Item = &'a Filter>,
) -> impl Iterator<Item = &'a HeaderChange> {
    filters.filter_map(|filter| match filter {
        Filter::RequestHeaders(change) => Some(change),
        _ => None,
    })
}

/// Changes of the response among these filters.
pub fn of_response<'a>(
    filters: impl Iterator<Item = &'a Filter>,
) -> impl Iterator<Item = &'a HeaderChange> {
    filters.filter_map(|filter| match filter {
        Filter::ResponseHeaders(change) => Some(change),
        _ => None,
    })
}

/// Header lines for HTTP/1, checked when they are made.
#[derive(Debug, Default)]
pub struct Lines<'a> {
    /// Replaced.
    pub set: SmallVec<[FieldLine<'a>; 2]>,
    /// Added.
    pub append: SmallVec<[FieldLine<'a>; 2]>,
    /// Names of headers to remove.
    pub remove: SmallVec<[&'a str; 2]>,
}

impl<'a> Lines<'a> {
    /// The lines of these changes.
    pub fn of(changes: impl Iterator<Item = &'a HeaderChange>) -> Self {
        let mut lines = Self::default();
        for change in changes {
            let line = |(name, value): &'a (Arc<str>, Arc<str>)| {
                FieldLine::new(name, value.as_bytes()).ok()
            };
            lines.set.extend(change.set.iter().filter_map(line));
            lines.append.extend(change.add.iter().filter_map(line));
            lines.remove.extend(change.remove.iter().map(AsRef::as_ref));
        }
        lines
    }

    /// As an edit of a head.
    #[must_use]
    pub fn edit(&self) -> Edit<'_> {
        Edit { set: &self.set, append: &self.append, remove: &self.remove, ..Edit::default() }
    }
}

/// Carries out a change for HTTP/2.
pub fn apply(change: &HeaderChange, headers: &mut HeaderMap) {
    let parse = |name: &str, value: &str| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    };
    for (name, value) in change.set.iter().filter_map(|(name, value)| parse(name, value)) {
        headers.insert(name, value);
    }
    for (name, value) in change.add.iter().filter_map(|(name, value)| parse(name, value)) {
        headers.append(name, value);
    }
    for name in &change.remove {
        headers.remove(name.as_ref());
    }
}
