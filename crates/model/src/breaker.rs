//! What keeps requests from endpoints that fail, and from Services that have enough of them.

use crate::doubling::doubled;
use std::num::NonZeroU32;
use std::time::Duration;

/// Failures in a row, where an annotation does not say otherwise: linkerd's figure, as the following ones.
pub const CONSECUTIVE_MAX_DEFAULT: u32 = 7;
/// The first penalty.
pub const PENALTY_MIN_DEFAULT: Duration = Duration::from_secs(1);
/// The longest penalty.
pub const PENALTY_MAX_DEFAULT: Duration = Duration::from_mins(1);
/// The share of a penalty that is added at random.
pub const JITTER_RATIO_DEFAULT: f64 = 0.5;
/// The largest such share.
pub const JITTER_RATIO_MAX: f64 = 100.0;
/// Penalties and windows are not longer than this.
pub const PENALTY_LIMIT: Duration = Duration::from_hours(24);

/// What a Service says about the load of its endpoints; it holds for all its routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breaker {
    /// When endpoints are ejected.
    pub accrual: Accrual,
    /// What may be under way at the same time.
    pub limits: Limits,
}

/// What one client pod may have under way to a Service at the same time; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are forwarded as bytes.
    pub connections_max: Option<NonZeroU32>,
    /// Requests that wait for a connection to an endpoint.
    pub pending_max: Option<NonZeroU32>,
    /// Requests from their head to the end of the response.
    pub requests_max: Option<NonZeroU32>,
}

/// When an endpoint that fails gets no requests for a while.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Accrual {
    /// By the proxy's own rule.
    #[default]
    Default,
    /// Never.
    Off,
    /// By this rule.
    Rule(FailureAccrual),
}

/// A rule of ejection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureAccrual {
    /// After so many failures in a row; 0 is never.
    pub consecutive_max: u32,
    /// After too few successes.
    pub success_rate: Option<SuccessRate>,
    /// How long the endpoint gets no requests.
    pub penalty: Penalty,
}

/// The successes that an endpoint must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessRate {
    /// Of all responses, from 0 to 1.
    pub min: f64,
    /// Responses of this time count.
    pub window: Duration,
    /// With fewer responses in the window, the rate says nothing.
    pub responses_min: u32,
}

impl Default for SuccessRate {
    /// linkerd's defaults.
    fn default() -> Self {
        Self { min: 0.8, window: Duration::from_secs(10), responses_min: 5 }
    }
}

/// How long an ejected endpoint gets no requests before the next one probes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalty {
    /// The first one; it doubles with each failed probe.
    pub min: Duration,
    /// The longest one.
    pub max: Duration,
    /// Up to this share is added at random.
    pub jitter_ratio: f64,
}

impl Default for Penalty {
    fn default() -> Self {
        Self {
            min: PENALTY_MIN_DEFAULT,
            max: PENALTY_MAX_DEFAULT,
            jitter_ratio: JITTER_RATIO_DEFAULT,
        }
    }
}

impl Default for FailureAccrual {
    fn default() -> Self {
        Self {
            consecutive_max: CONSECUTIVE_MAX_DEFAULT,
            success_rate: None,
            penalty: Penalty::default(),
        }
    }
}

impl Penalty {
    /// The penalty after so many failed probes; `random` is from 0 to 1.
    #[must_use]
    pub fn after(&self, failed_probes: u32, random: f64) -> Duration {
        let base = doubled(self.min, failed_probes, self.max);
        let jitter = (self.jitter_ratio * random).clamp(0.0, JITTER_RATIO_MAX);
        base.saturating_add(base.mul_f64(jitter)).min(PENALTY_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_double_up_to_the_longest() {
        let check = |failed_probes, random, millis| {
            let penalty = Penalty::default().after(failed_probes, random);
            assert_eq!(penalty, Duration::from_millis(millis), "{failed_probes} {random}");
        };
        check(0, 0.0, 1_000);
        check(0, 1.0, 1_500);
        check(1, 0.0, 2_000);
        check(5, 0.5, 40_000);
        check(6, 0.0, 60_000);
        check(400, 0.0, 60_000);
    }
}
