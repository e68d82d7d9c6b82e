//! Whether a request is sent again because its route says so.
//!
//! [`decide`] is pure. [`Judge`] asks it for one attempt, pays from the destination's budget, and counts.

use crate::request::route::RouteChoice;
use crate::shared::budget::Budget;
use crate::telemetry::{Recorder, RetrySeries};
use leno_model::retry::Retry;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A server that asks for a longer wait is not asked again, where no deadline says how long there is time.
const ASKED_WAIT_MAX: Duration = Duration::from_secs(10);

/// What the head of a response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// `grpc-status`, where it is in the head: no message follows.
    pub grpc: Option<u16>,
    /// How long the server asks to wait.
    pub wait: Wait,
}

/// How long a server asks to wait before the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// It does not say.
    #[default]
    Unsaid,
    /// At least so long: `retry-after` in seconds, or `grpc-retry-pushback-ms`.
    AtLeast(Duration),
    /// It wants no other attempt: a negative `grpc-retry-pushback-ms`, or one that is not a number.
    Never,
}

impl Wait {
    /// Reads both headers. A `retry-after` that is a date is not read.
    #[must_use]
    pub fn of<'a>(header: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        let text = |name| header(name).and_then(|value| std::str::from_utf8(value).ok());
        if let Some(pushback) = text("grpc-retry-pushback-ms") {
            let millis = pushback.trim().parse::<u32>();
            return millis.map_or(Self::Never, |millis| {
                Self::AtLeast(Duration::from_millis(u64::from(millis)))
            });
        }
        let seconds = text("retry-after").and_then(|value| value.trim().parse::<u32>().ok());
        seconds
            .map_or(Self::Unsaid, |seconds| Self::AtLeast(Duration::from_secs(u64::from(seconds))))
    }
}

/// Why there is no other attempt, as metrics and the access log say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The request's body is too large to be kept.
    Body,
    /// The destination's budget is used up.
    Budget,
    /// There is no time left for another attempt.
    Deadline,
    /// The rule's number of retries is reached.
    Limit,
    /// The method is not idempotent.
    Method,
    /// The server wants none.
    Pushback,
}

impl Denied {
    /// The word in metrics and the access log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Budget => "budget",
            Self::Deadline => "deadline",
            Self::Limit => "limit",
            Self::Method => "method",
            Self::Pushback => "pushback",
        }
    }
}

/// What is known when an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// Retries so far.
    pub retries: u8,
    /// How long the server asks to wait.
    pub wait: Wait,
    /// The request may be processed twice.
    pub repeatable: bool,
    /// Everything that was sent is still there to be sent again.
    pub at_hand: bool,
    /// The time that is left of the whole request.
    pub left: Option<Duration>,
}

/// How long to wait before the next attempt, as far as the rule decides; `random` is from 0 to 1.
///
/// # Errors
/// There is no other attempt.
pub fn decide(rule: &Retry, failed: Failed, random: f64) -> Result<Duration, Denied> {
    if !failed.repeatable {
        return Err(Denied::Method);
    }
    if failed.retries >= rule.retries_max {
        return Err(Denied::Limit);
    }
    if !failed.at_hand {
        return Err(Denied::Body);
    }
    let jitter = rule.delay(failed.retries, random);
    let wait = match failed.wait {
        Wait::Never => return Err(Denied::Pushback),
        Wait::Unsaid => jitter,
        // The wait is the server's, and some more, so that not all clients come back at once.
        Wait::AtLeast(asked) if failed.left.is_none() && asked > ASKED_WAIT_MAX => {
            return Err(Denied::Pushback);
        }
        Wait::AtLeast(asked) => asked.saturating_add(jitter),
    };
    if failed.left.is_some_and(|left| wait >= left) {
        return Err(Denied::Deadline);
    }
    Ok(wait)
}

/// What decides about the attempts of one request.
#[derive(Debug)]
pub struct Judge<'a> {
    /// What the route says.
    pub rule: &'a Retry,
    /// Retries so far.
    pub retries: u8,
    /// The method is idempotent, or the rule says that every method may be retried.
    pub repeatable: bool,
    /// Before this the whole request must have ended.
    pub deadline: Option<Instant>,
    /// The destination's.
    pub budget: &'a Budget,
    /// For jitter, from 0 to 1.
    pub random: f64,
    /// Where the route's retries are counted.
    pub recorder: &'a Recorder,
    pub route: &'a RouteChoice,
    /// Why there is no other attempt.
    pub denied: Cell<Option<Denied>>,
}

impl Judge<'_> {
    /// Whether a response with this head is not passed on: how long to wait before the next attempt. Pays for that attempt.
    pub fn another(&self, answer: &Answer, at_hand: bool) -> Option<Duration> {
        if !self.rule.rejects(answer.status, answer.grpc) {
            if self.retries > 0 {
                self.series().successes.add(1);
            }
            return None;
        }
        // A gRPC code is named on purpose, and every call of gRPC is a POST.
        let repeatable = self.repeatable || answer.grpc.is_some();
        self.after(answer.wait, repeatable, at_hand)
    }

    /// The same after an attempt without a response.
    pub fn again(&self, repeatable: bool, at_hand: bool) -> Option<Duration> {
        self.after(Wait::Unsaid, repeatable, at_hand)
    }

    fn series(&self) -> Rc<RetrySeries> {
        self.recorder.route_retries(self.route.parent(), self.route.route())
    }

    fn after(&self, wait: Wait, repeatable: bool, at_hand: bool) -> Option<Duration> {
        let now = Instant::now();
        let left = self.deadline.map(|at| at.saturating_duration_since(now));
        let failed = Failed { retries: self.retries, wait, repeatable, at_hand, left };
        let decided = decide(self.rule, failed, self.random);
        let paid = decided.and_then(|wait| match self.budget.take(now) {
            true => Ok(wait),
            false => Err(Denied::Budget),
        });
        match paid {
            Ok(_) => self.series().requests.add(1),
            Err(Denied::Limit) if self.rule.retries_max > 0 => self.series().limit_exceeded.add(1),
            Err(Denied::Budget) => self.series().overflow.add(1),
            Err(_) => {}
        }
        self.denied.set(paid.err());
        paid.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leno_model::retry::GrpcCodes;

    fn rule() -> Retry {
        Retry {
            retries_max: 2,
            statuses: vec![(503, 503)],
            grpc: GrpcCodes::default(),
            any_method: false,
            attempt_timeout: None,
            backoff: Duration::from_millis(100),
        }
    }

    const FAILED: Failed =
        Failed { retries: 0, wait: Wait::Unsaid, repeatable: true, at_hand: true, left: None };

    #[test]
    fn decisions() {
        let check = |failed: Failed, expected: Result<u64, Denied>| {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(decide(&rule(), failed, 0.5), expected, "{failed:?}");
        };
        let millis = Duration::from_millis;
        let asked = |seconds| Wait::AtLeast(Duration::from_secs(seconds));
        check(FAILED, Ok(50));
        check(Failed { retries: 1, ..FAILED }, Ok(100));
        check(Failed { retries: 2, ..FAILED }, Err(Denied::Limit));
        check(Failed { repeatable: false, ..FAILED }, Err(Denied::Method));
        check(Failed { at_hand: false, ..FAILED }, Err(Denied::Body));
        check(Failed { left: Some(millis(51)), ..FAILED }, Ok(50));
        check(Failed { left: Some(millis(50)), ..FAILED }, Err(Denied::Deadline));
        check(Failed { wait: Wait::Never, ..FAILED }, Err(Denied::Pushback));
        check(Failed { wait: asked(1), ..FAILED }, Ok(1050));
        check(Failed { wait: asked(10), ..FAILED }, Ok(10_050));
        check(Failed { wait: asked(11), ..FAILED }, Err(Denied::Pushback));
        let left = Some(Duration::from_secs(15));
        check(Failed { wait: asked(11), left, ..FAILED }, Ok(11_050));
        check(Failed { wait: asked(15), left, ..FAILED }, Err(Denied::Deadline));
        check(Failed { wait: asked(u64::MAX), left, ..FAILED }, Err(Denied::Deadline));
    }

    #[test]
    fn waits_that_servers_ask_for() {
        let check = |name: &str, value: &str, expected| {
            let header = |asked: &str| (asked == name).then_some(value.as_bytes());
            assert_eq!(Wait::of(header), expected, "{name}: {value}");
        };
        let millis = |millis| Wait::AtLeast(Duration::from_millis(millis));
        check("retry-after", "2", millis(2000));
        check("retry-after", "0", millis(0));
        check("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT", Wait::Unsaid);
        check("retry-after", "-1", Wait::Unsaid);
        check("retry-after", "99999999999999", Wait::Unsaid);
        check("grpc-retry-pushback-ms", "150", millis(150));
        check("grpc-retry-pushback-ms", "-1", Wait::Never);
        check("grpc-retry-pushback-ms", "soon", Wait::Never);
        check("other", "1", Wait::Unsaid);
    }
}
