//! Whether an endpoint fails too often to get requests. One that does is ejected for a while; then one request probes it.
//!
//! The rule is the Service's, or else [`DEFAULT`]. The balancer decides whether there are enough others ([`super::pick`]).

use super::outcome::Outcome;
use leno_model::breaker::{Accrual, FailureAccrual, Penalty, SuccessRate};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// What holds where a Service does not say anything: three failures in a row, of an endpoint that fails more than the others. The
/// penalties are short, so that its share is back within two seconds after it has recovered.
pub(super) const DEFAULT: FailureAccrual = FailureAccrual {
    consecutive_max: 3,
    success_rate: None,
    penalty: Penalty {
        min: Duration::from_millis(500),
        max: Duration::from_secs(1),
        jitter_ratio: 0.2,
    },
};
/// By the default rule, an endpoint fails so many times as often as the mean of the others: where all fail, all stay.
const TIMES_AS_OFTEN: f64 = 3.0;
/// What one response counts in the share of failures.
const NEWS_WEIGHT: f64 = 1.0 / 8.0;
/// A smaller share of failures is none.
const FAILING_MIN: f64 = 0.01;
/// Between two probes by the default rule there are so many requests for each endpoint: probes are a twentieth of its equal share.
const REQUESTS_BETWEEN: u64 = 20;
/// After this time it is so many only, or clients with few requests would never find out.
const LONG: Duration = Duration::from_secs(30);
const REQUESTS_BETWEEN_LONG: u64 = 2;
/// Parts of the window of the success rate.
const PARTS: usize = 10;

/// Why an endpoint was ejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// So many failures in a row.
    ConsecutiveFailures(u32),
    /// So few successes, from 0 to 1.
    SuccessRate(f64),
}

impl Reason {
    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures(_) => "consecutive_failures",
            Self::SuccessRate(_) => "success_rate",
        }
    }
}

/// What became of an endpoint after a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// It gets no requests for this time.
    Ejected(Reason, Duration),
    /// It was ejected for this time, and gets requests again.
    Recovered(Duration),
}

/// An endpoint gets no requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ejected {
    pub(super) since: Instant,
    /// The next request after this is a probe.
    pub(super) until: Instant,
    penalty: Penalty,
    probes: u32,
    /// How many requests the balancer had when it last changed.
    requests: u64,
    /// By the default rule.
    by_default: bool,
}

impl Ejected {
    /// Whether a request may probe it, where the balancer has `endpoints` and had so many requests.
    pub(super) fn is_due(&self, now: Instant, requests: u64, endpoints: usize) -> bool {
        let between = match now.saturating_duration_since(self.since) < LONG {
            _ if !self.by_default => 0,
            true => REQUESTS_BETWEEN,
            false => REQUESTS_BETWEEN_LONG,
        };
        now >= self.until && requests.saturating_sub(self.requests) >= between * endpoints as u64
    }
}

/// The health of one endpoint, over all routes.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Since the last success.
    failures: Cell<u32>,
    /// Moving share of failures.
    failing: Cell<f64>,
    ejected: Cell<Option<Ejected>>,
    /// Where the rule has a success rate.
    window: RefCell<Option<Box<Window>>>,
}

impl Health {
    pub(super) fn ejected(&self) -> Option<Ejected> {
        self.ejected.get()
    }

    pub(super) fn is_ejected(&self) -> bool {
        self.ejected.get().is_some()
    }

    pub(super) fn failing(&self) -> f64 {
        self.failing.get()
    }

    /// Whether a success would change nothing.
    pub(super) fn is_at_rest(&self, accrual: &Accrual) -> bool {
        let counts = matches!(accrual, Accrual::Rule(FailureAccrual { success_rate: Some(_), .. }));
        !counts && self.failing.get() <= 0.0 && !self.is_ejected()
    }

    /// Counts a response of an endpoint that is not ejected; why it should be ejected, if it should. `others_failing` is the mean
    /// share of failures of the others.
    pub(super) fn count(
        &self,
        outcome: Outcome,
        accrual: &Accrual,
        now: Instant,
        others_failing: impl FnOnce() -> f64,
    ) -> Option<Reason> {
        let by_default = *accrual == Accrual::Default;
        let is_failure = match outcome {
            Outcome::Abandoned => return None,
            Outcome::Success => false,
            // A server that limits its clients has not failed, as in linkerd; but it does not get more requests by being quick.
            Outcome::Throttled => by_default,
            Outcome::Failure => true,
        };
        let news = if is_failure { NEWS_WEIGHT } else { 0.0 };
        let failing = self.failing.get() * (1.0 - NEWS_WEIGHT) + news;
        self.failing.set(if failing < FAILING_MIN { 0.0 } else { failing });
        self.failures.set(if is_failure { self.failures.get().saturating_add(1) } else { 0 });
        let rule = match accrual {
            Accrual::Off => return None,
            Accrual::Default => &DEFAULT,
            Accrual::Rule(rule) => rule,
        };
        let rate = rule.success_rate.and_then(|rate| {
            let mut window = self.window.borrow_mut();
            let window = window.get_or_insert_with(|| Box::new(Window::new(now)));
            window.count(rate, now, outcome == Outcome::Success)
        });
        let in_a_row = self.failures.get();
        if is_failure && rule.consecutive_max > 0 && in_a_row >= rule.consecutive_max {
            let is_worse = !by_default || others_failing() * TIMES_AS_OFTEN <= failing;
            return is_worse.then_some(Reason::ConsecutiveFailures(in_a_row));
        }
        rate.map(Reason::SuccessRate)
    }

    /// It gets no requests from now on; how long, at first. `requests` are those of the balancer so far.
    pub(super) fn eject(
        &self,
        accrual: &Accrual,
        now: Instant,
        random: f64,
        requests: u64,
    ) -> Duration {
        let (penalty, by_default) = match accrual {
            Accrual::Rule(rule) => (rule.penalty, false),
            Accrual::Default | Accrual::Off => (DEFAULT.penalty, true),
        };
        let first = penalty.after(0, random);
        let until = now + first;
        let ejected = Ejected { since: now, until, penalty, probes: 0, requests, by_default };
        self.ejected.set(Some(ejected));
        first
    }

    /// A request probes it: the next one does if this one fails, or is not answered in time.
    pub(super) fn probe(&self, now: Instant, random: f64, requests: u64) {
        if let Some(ejected) = self.ejected.get() {
            let probes = ejected.probes.saturating_add(1);
            let until = now + ejected.penalty.after(probes, random);
            self.ejected.set(Some(Ejected { until, probes, requests, ..ejected }));
        }
    }

    /// A request that began at `started` has ended at an ejected endpoint; how long it was ejected, if it is not any more.
    pub(super) fn probed(
        &self,
        ejected: Ejected,
        outcome: Outcome,
        started: Instant,
        now: Instant,
    ) -> Option<Duration> {
        // Sent before it was ejected.
        if started < ejected.since {
            return None;
        }
        match outcome {
            Outcome::Success => {
                self.release();
                Some(now.saturating_duration_since(ejected.since))
            }
            // It has not shown anything: the next request may.
            Outcome::Abandoned => {
                self.ejected.set(Some(Ejected { until: now.min(ejected.until), ..ejected }));
                None
            }
            Outcome::Failure | Outcome::Throttled => None,
        }
    }

    /// Nothing is held against it any more.
    pub(super) fn release(&self) {
        self.ejected.set(None);
        self.failures.set(0);
        self.failing.set(0.0);
        self.window.replace(None);
    }
}

/// Responses of the last while, in parts.
#[derive(Debug)]
struct Window {
    began: Instant,
    /// The part that is written, counted from the beginning.
    part: u64,
    /// Successes and all.
    parts: [(u32, u32); PARTS],
}

impl Window {
    fn new(now: Instant) -> Self {
        Self { began: now, part: 0, parts: [(0, 0); PARTS] }
    }

    /// Counts a response; the share of successes, if it is too small.
    fn count(&mut self, rule: SuccessRate, now: Instant, is_success: bool) -> Option<f64> {
        let length = (rule.window.as_secs_f64() / PARTS as f64).max(1e-3);
        let part = (now.saturating_duration_since(self.began).as_secs_f64() / length) as u64;
        for passed in (self.part + 1..=part).take(PARTS) {
            self.parts[passed as usize % PARTS] = (0, 0);
        }
        // A gap longer than the window has cleared every part.
        self.part = self.part.max(part);
        let (successes, all) = &mut self.parts[self.part as usize % PARTS];
        *successes += u32::from(is_success);
        *all += 1;
        let sum = |of: fn(&(u32, u32)) -> u32| self.parts.iter().map(|p| u64::from(of(p))).sum();
        let (successes, all): (u64, u64) = (sum(|part| part.0), sum(|part| part.1));
        let share = successes as f64 / all as f64;
        (all >= u64::from(rule.responses_min) && share < rule.min).then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(min: f64, window_seconds: u64, responses_min: u32) -> Accrual {
        let window = Duration::from_secs(window_seconds);
        let success_rate = Some(SuccessRate { min, window, responses_min });
        Accrual::Rule(FailureAccrual { consecutive_max: 0, success_rate, ..DEFAULT })
    }

    fn consecutive(consecutive_max: u32) -> Accrual {
        Accrual::Rule(FailureAccrual { consecutive_max, ..DEFAULT })
    }

    /// One letter per response, a tenth of a second apart: `+` success, `-` failure, `t` throttled, `a` abandoned, and ` ` is ten
    /// seconds without one. Returns the place of the response after which the endpoint should be ejected.
    #[track_caller]
    fn check(accrual: &Accrual, others_failing: f64, responses: &str, expected: Option<usize>) {
        let health = Health::default();
        let mut now = Instant::now();
        let ejected = responses.char_indices().find(|(_, letter)| {
            let outcome = match letter {
                '+' => Outcome::Success,
                '-' => Outcome::Failure,
                't' => Outcome::Throttled,
                'a' => Outcome::Abandoned,
                _ => {
                    now += Duration::from_secs(10);
                    return false;
                }
            };
            now += Duration::from_millis(100);
            health.count(outcome, accrual, now, || others_failing).is_some()
        });
        assert_eq!(ejected.map(|(at, _)| at), expected, "{accrual:?} {responses}");
    }

    #[test]
    fn failures_in_a_row() {
        check(&consecutive(3), 0.0, "--+--+---", Some(8));
        check(&consecutive(3), 1.0, "---", Some(2));
        check(&consecutive(3), 0.0, "--t--", None);
        check(&consecutive(3), 0.0, "--aa-", Some(4));
        check(&consecutive(0), 0.0, "----------", None);
        check(&Accrual::Off, 0.0, "----------", None);
    }

    #[test]
    fn by_default_it_fails_more_than_the_others() {
        check(&Accrual::Default, 0.0, "--+---", Some(5));
        check(&Accrual::Default, 0.0, "ttt", Some(2));
        check(&Accrual::Default, 0.5, "-------------------------", None);
        check(&Accrual::Default, 0.2, "---------", Some(6));
    }

    #[test]
    fn shares_of_successes() {
        check(&rate(0.8, 10, 5), 0.0, "----", None);
        check(&rate(0.8, 10, 5), 0.0, "-----", Some(4));
        check(&rate(0.8, 10, 5), 0.0, "++++++++--", None);
        check(&rate(0.8, 10, 5), 0.0, "++++++++---", Some(10));
        check(&rate(0.8, 10, 5), 0.0, "++++++++tt-", Some(10));
        // What is older than the window does not count.
        check(&rate(0.8, 10, 5), 0.0, "---- -++++", None);
        check(&rate(0.8, 10, 5), 0.0, "++++++++++++++++++++ --+--", Some(25));
        check(&rate(0.0, 10, 1), 0.0, "----------", None);
    }

    #[test]
    fn a_probe_recovers_and_what_was_sent_before_does_not() {
        let (health, began) = (Health::default(), Instant::now());
        let at = |millis| began + Duration::from_millis(millis);
        assert_eq!(health.eject(&consecutive(1), at(100), 0.0, 0), Duration::from_millis(500));
        let ejected = || health.ejected().unwrap();
        assert!(!ejected().is_due(at(599), 0, 3) && ejected().is_due(at(600), 0, 3));
        assert_eq!(health.probed(ejected(), Outcome::Success, at(99), at(150)), None);
        health.probe(at(600), 0.0, 0);
        assert_eq!(health.probed(ejected(), Outcome::Failure, at(600), at(610)), None);
        assert_eq!(ejected().until, at(1600));
        health.probe(at(1600), 0.0, 0);
        assert_eq!(health.probed(ejected(), Outcome::Abandoned, at(1600), at(1610)), None);
        assert!(ejected().is_due(at(1610), 0, 3));
        let recovered = health.probed(ejected(), Outcome::Success, at(1620), at(1630));
        assert_eq!(recovered, Some(Duration::from_millis(1530)));
        assert!(!health.is_ejected());
    }

    #[test]
    fn by_default_probes_are_few_among_requests() {
        let (health, began) = (Health::default(), Instant::now());
        health.eject(&Accrual::Default, began, 0.0, 100);
        let check = |seconds, requests, expected| {
            let now = began + Duration::from_secs(seconds);
            let is_due = health.ejected().unwrap().is_due(now, requests, 3);
            assert_eq!(is_due, expected, "{seconds} s, {requests} requests");
        };
        check(1, 159, false);
        check(1, 160, true);
        check(0, 1000, false);
        check(31, 105, false);
        check(31, 106, true);
    }
}
