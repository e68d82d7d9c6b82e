//! When a rule lets a request be sent again, and how long after.

use crate::doubling::doubled;
use std::time::Duration;

/// Retries of one request that a rule may ask for. Gateway API has no limit; a larger number is a mistake.
pub const RETRIES_MAX: u8 = 10;
/// Ranges of status codes that one rule may name.
pub const STATUS_RANGES_MAX: usize = 64;
/// Bytes of a request's body that are kept for another attempt.
pub const REPLAY_BYTES_MAX: u32 = 64 * 1024;
/// The first wait is random below this, where a rule does not say otherwise: Envoy's figure.
pub const BACKOFF_DEFAULT: Duration = Duration::from_millis(25);
/// The wait grows to so many times the first.
pub const BACKOFF_GROWTH_MAX: u32 = 10;

/// What a rule says about retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first.
    pub retries_max: u8,
    /// Statuses of HTTP after which there is another attempt, from first to last.
    pub statuses: Vec<(u16, u16)>,
    /// Codes of gRPC after which there is another attempt.
    pub grpc: GrpcCodes,
    /// Methods that are not idempotent are retried too.
    pub any_method: bool,
    /// An attempt without the head of a response after this is given up.
    pub attempt_timeout: Option<Duration>,
    /// The wait before the first retry is random below this; it doubles with each retry.
    pub backoff: Duration,
}

/// Retries among so many requests, in percent.
pub const BUDGET_PERCENT_MAX: u32 = 100;
/// Requests and retries are counted over at least this time.
pub const BUDGET_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// No interval of a budget is longer.
pub const BUDGET_INTERVAL_MAX: Duration = Duration::from_hours(1);
/// The largest count of retries that need no requests.
pub const BUDGET_COUNT_MAX: u32 = 1_000_000;
/// The shortest interval of that count.
pub const BUDGET_RATE_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// How many retries a destination may get (GEP-3388).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries among so many requests, in percent.
    pub percent: u32,
    /// Requests and retries are counted over this time, which has whole milliseconds.
    pub interval: Duration,
    /// Retries that are allowed in each `count_interval`, however few requests there are.
    pub count: u32,
    /// In whole milliseconds.
    pub count_interval: Duration,
}

impl Default for RetryBudget {
    /// GEP-3388's.
    fn default() -> Self {
        Self {
            percent: 20,
            interval: Duration::from_secs(10),
            count: 10,
            count_interval: Duration::from_secs(1),
        }
    }
}

impl RetryBudget {
    /// The field that is out of its range, and the range.
    ///
    /// # Errors
    /// Any field is.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |field, value: String, range: String| {
            Err((field, format!("{value} is not from {range}")))
        };
        let Self { percent, interval, count, count_interval } = *self;
        if percent > BUDGET_PERCENT_MAX {
            return wrong(
                "budget.percent",
                percent.to_string(),
                format!("0 to {BUDGET_PERCENT_MAX}"),
            );
        }
        if !(BUDGET_INTERVAL_MIN..=BUDGET_INTERVAL_MAX).contains(&interval) {
            return wrong("budget.interval", format!("{interval:?}"), "1s to 1h".to_owned());
        }
        if !(1..=BUDGET_COUNT_MAX).contains(&count) {
            let range = format!("1 to {BUDGET_COUNT_MAX}");
            return wrong("minRetryRate.count", count.to_string(), range);
        }
        if !(BUDGET_RATE_INTERVAL_MIN..=BUDGET_INTERVAL_MAX).contains(&count_interval) {
            let value = format!("{count_interval:?}");
            return wrong("minRetryRate.interval", value, "1ms to 1h".to_owned());
        }
        Ok(())
    }
}

/// A set of gRPC codes, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcCodes(u32);

impl GrpcCodes {
    /// Codes that gRPC has: 0 to 16.
    pub const COUNT: u16 = 17;

    /// The set with one more code; codes that gRPC does not have are left out.
    #[must_use]
    pub fn with(self, code: u16) -> Self {
        if code < Self::COUNT { Self(self.0 | 1 << code) } else { self }
    }

    /// Whether the code is in the set.
    #[must_use]
    pub fn contains(self, code: u16) -> bool {
        code < Self::COUNT && self.0 & 1 << code != 0
    }

    /// Whether no code is in the set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its codes in order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..Self::COUNT).filter(move |code| self.contains(*code))
    }
}

impl Retry {
    /// Whether a response with this status, and this gRPC status where it has one in its head, is not wanted. A gRPC response
    /// says with its gRPC status how the call went.
    #[must_use]
    pub fn rejects(&self, status: u16, grpc: Option<u16>) -> bool {
        match grpc {
            Some(code) => self.grpc.contains(code),
            None => self.statuses.iter().any(|(first, last)| (*first..=*last).contains(&status)),
        }
    }

    /// How long to wait before retry number `number` (from 0), with full jitter; `random` is from 0 to 1.
    #[must_use]
    pub fn delay(&self, number: u8, random: f64) -> Duration {
        let longest = self.backoff.saturating_mul(BACKOFF_GROWTH_MAX);
        doubled(self.backoff, u32::from(number), longest).mul_f64(random.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry() -> Retry {
        Retry {
            retries_max: 3,
            statuses: vec![(500, 500), (502, 504)],
            grpc: GrpcCodes::default().with(14),
            any_method: false,
            attempt_timeout: None,
            backoff: Duration::from_millis(100),
        }
    }

    #[test]
    fn what_is_not_wanted() {
        let check = |status, grpc, expected| {
            assert_eq!(retry().rejects(status, grpc), expected, "{status} {grpc:?}");
        };
        check(200, None, false);
        check(499, None, false);
        check(500, None, true);
        check(501, None, false);
        check(502, None, true);
        check(504, None, true);
        check(505, None, false);
        check(200, Some(14), true);
        check(200, Some(0), false);
        check(503, Some(0), false);
        check(200, Some(14 + 32), false);
    }

    #[test]
    fn the_wait_doubles_and_is_random() {
        let check = |number, random, millis| {
            assert_eq!(retry().delay(number, random), Duration::from_millis(millis), "{number}");
        };
        check(0, 0.0, 0);
        check(0, 1.0, 100);
        check(0, 0.5, 50);
        check(1, 1.0, 200);
        check(2, 1.0, 400);
        check(3, 1.0, 800);
        check(4, 1.0, 1000);
        check(200, 1.0, 1000);
    }

    #[test]
    fn codes() {
        let codes = GrpcCodes::default().with(1).with(14).with(17).with(40);
        assert_eq!(codes.iter().collect::<Vec<_>>(), [1, 14]);
        assert!(GrpcCodes::default().is_empty() && !codes.is_empty());
    }
}
