//! Regular expressions of routes, and how much memory and time they may cost in both planes.
//!
//! The length of a pattern is not a measure of its cost: `(?:a{999}){99}` has 14 bytes and 99,000 states. The matcher
//! visits every active state for every byte, so one limit on compiled bytes bounds memory and time alike.
//! [`Patterns`] compiles all patterns of a Service (in a proxy) or of a namespace (in the control plane).

use crate::limit::{PATTERN_COMPILED_BYTES_MAX, ROUTE_PATTERNS_BYTES_MAX};
use regex_lite::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// A regular expression that must match the whole text.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Arc<str>,
    regex: Arc<Regex>,
    bytes: usize,
}

impl Pattern {
    /// Compiles one pattern on its own.
    ///
    /// # Errors
    /// The pattern is malformed or too large.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Patterns::new("the route", ROUTE_PATTERNS_BYTES_MAX).compile(text)
    }

    /// The expression as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// At most so many bytes of compiled form and working memory, as budgets count them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not a regular expression, or one with features that the library leaves out (look-around, back-references).
    #[error("regular expression {text:?}: {reason}")]
    Malformed {
        /// As written.
        text: String,
        /// The library's message.
        reason: String,
    },
    /// Larger than any pattern may be.
    #[error(
        "regular expression {text:?} needs more than {} KiB when compiled; use smaller repetitions or fewer groups",
        PATTERN_COMPILED_BYTES_MAX >> 10
    )]
    TooLarge {
        /// As written.
        text: String,
    },
    /// The patterns before it have used up what is allowed.
    #[error(
        "regular expression {text:?} is one too many: those of {of} need more than {} KiB when compiled",
        .max >> 10
    )]
    OverBudget {
        /// As written.
        text: String,
        /// What has the budget.
        of: &'static str,
        /// The budget in bytes.
        max: usize,
    },
}

/// Compiles patterns within a budget, and equal texts once.
///
/// A refused pattern is paid for as well: the budget bounds the work, not only the memory.
#[derive(Debug)]
pub struct Patterns(RefCell<State>);

#[derive(Debug)]
struct State {
    of: &'static str,
    max: usize,
    left: usize,
    left_of_route: usize,
    route: usize,
    known: HashMap<Arc<str>, Known>,
    /// Compiled for the last version of the same routes; each is paid for again when it is used again.
    last: HashMap<Arc<str>, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    outcome: Result<Pattern, PatternError>,
    bytes: usize,
    /// The last route that paid for it.
    route: usize,
}

impl Patterns {
    /// With a budget in bytes; `of` names in errors what has it.
    #[must_use]
    pub fn new(of: &'static str, max: usize) -> Self {
        let (known, last) = (HashMap::new(), HashMap::new());
        let left_of_route = ROUTE_PATTERNS_BYTES_MAX;
        Self(RefCell::new(State { of, max, left: max, left_of_route, route: 0, known, last }))
    }

    /// A full budget for the next version of the same routes. A pattern that both versions have is not compiled again.
    #[must_use]
    pub fn renewed(self) -> Self {
        let State { of, max, known, .. } = self.0.into_inner();
        let next = Self::new(of, max);
        next.0.borrow_mut().last = known;
        next
    }

    /// What follows belongs to another route, which has a budget of its own within this one.
    pub fn begin_route(&self) {
        let mut state = self.0.borrow_mut();
        state.route += 1;
        state.left_of_route = ROUTE_PATTERNS_BYTES_MAX;
    }

    /// What this route's patterns took of its budget, in bytes.
    #[must_use]
    pub fn route_bytes(&self) -> usize {
        ROUTE_PATTERNS_BYTES_MAX - self.0.borrow().left_of_route
    }

    /// The pattern of a text.
    ///
    /// # Errors
    /// The pattern is malformed, too large, or over the budget.
    pub fn compile(&self, text: &str) -> Result<Pattern, PatternError> {
        self.0.borrow_mut().compile(text)
    }
}

impl State {
    fn compile(&mut self, text: &str) -> Result<Pattern, PatternError> {
        if let Some(known) = self.known.get(text).cloned() {
            return if known.route == self.route {
                known.outcome
            } else {
                self.take(text, known, false)
            };
        }
        if let Some(known) = self.last.remove(text) {
            return self.take(text, known, true);
        }
        let limit = self.left.min(self.left_of_route).min(PATTERN_COMPILED_BYTES_MAX);
        let compiled = compiled(text, limit);
        if limit < PATTERN_COMPILED_BYTES_MAX
            && matches!(compiled.outcome, Err(PatternError::TooLarge { .. }))
        {
            // Under a full budget the answer may be another one, so it is not kept.
            return Err(self.refuse(text, limit, true));
        }
        self.take(text, compiled, true)
    }

    /// Pays for a pattern, and keeps it for the next use.
    fn take(
        &mut self,
        text: &str,
        mut known: Known,
        is_new: bool,
    ) -> Result<Pattern, PatternError> {
        if known.bytes > self.left_of_route || is_new && known.bytes > self.left {
            return Err(self.refuse(text, known.bytes, is_new));
        }
        self.pay(known.bytes, is_new);
        known.route = self.route;
        let outcome = known.outcome.clone();
        let text = outcome.as_ref().map_or_else(|_| text.into(), |pattern| pattern.text.clone());
        self.known.insert(text, known);
        outcome
    }

    fn pay(&mut self, bytes: usize, is_new: bool) {
        self.left_of_route = self.left_of_route.saturating_sub(bytes);
        self.left = self.left.saturating_sub(if is_new { bytes } else { 0 });
    }

    /// Pays for a pattern that is over a budget: what it cost to find that out.
    fn refuse(&mut self, text: &str, bytes: usize, is_new: bool) -> PatternError {
        let (of, max) = if is_new && self.left < self.left_of_route {
            (self.of, self.max)
        } else {
            ("the route", ROUTE_PATTERNS_BYTES_MAX)
        };
        self.pay(bytes, is_new);
        PatternError::OverBudget { text: text.to_owned(), of, max }
    }
}

/// The smallest size that a pattern is tried at.
const SMALLEST: usize = 512;
/// The library's message for a pattern over the size limit; its errors have no kinds.
const OVER_SIZE_LIMIT: &str = "compiled regex exceeded size limit";

/// Compiles a pattern of at most `limit` bytes. The library does not report the size of a compiled pattern, so it is
/// tried at one size after another: each is twice the last, and together they cost no more than twice the last.
fn compiled(text: &str, limit: usize) -> Known {
    // Most characters are a state of 32 bytes; an eighth of that is a first guess that saves most tries.
    let mut size = (text.len() * 8).next_power_of_two().max(SMALLEST);
    let refused = |error, bytes| Known { outcome: Err(error), bytes, route: 0 };
    let too_large = || PatternError::TooLarge { text: text.to_owned() };
    if size > limit {
        return refused(too_large(), limit);
    }
    let build = |text: &str, size| {
        RegexBuilder::new(text).size_limit(size).build().map_err(|error| error.to_string())
    };
    // Alone first: `a)|(?:b` is whole only inside our anchors, and would escape them.
    match build(text, limit) {
        Ok(_) => {}
        Err(reason) if reason == OVER_SIZE_LIMIT => return refused(too_large(), limit),
        Err(reason) => {
            return refused(PatternError::Malformed { text: text.to_owned(), reason }, size);
        }
    }
    let anchored = format!("^(?:{text})$");
    let regex = loop {
        match build(&anchored, size) {
            Ok(regex) => break regex,
            Err(reason) if reason != OVER_SIZE_LIMIT => {
                return refused(PatternError::Malformed { text: text.to_owned(), reason }, size);
            }
            // Only whole steps, so that a pattern has one size whatever is left of a budget.
            Err(_) if size * 2 > limit => return refused(too_large(), limit),
            Err(_) => size *= 2,
        }
    };
    // A matcher works with two tables of offsets: for each state of at least 32 bytes, 32 bytes for each group.
    // The whole match is a group.
    let bytes = size.saturating_mul(regex.captures_len() + 2) / 3;
    if bytes > ROUTE_PATTERNS_BYTES_MAX {
        return refused(too_large(), size);
    }
    let pattern = Pattern { text: text.into(), regex: Arc::new(regex), bytes };
    Known { outcome: Ok(pattern), bytes, route: 0 }
}

#[cfg(test)]
mod tests;
