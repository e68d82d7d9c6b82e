//! When endpoints that fail get no requests, and how much of a Service one client may use: annotations of Services.
//!
//! The annotations are linkerd's: `balancer.linkerd.io/failure-accrual…`, and `balancer.alpha.linkerd.io/failure-accrual-success-rate…`.
//! The same names under `balancer.leno.dev/` come first. `circuit-breaker.leno.dev/` is Leno's alone.

use super::route::traffic::duration;
use super::settings::Annotations;
use crate::source::{Problem, Sourced};
use leno_model::breaker::{
    Accrual, Breaker, FailureAccrual, JITTER_RATIO_MAX, Limits, PENALTY_LIMIT, Penalty, SuccessRate,
};
use std::num::NonZeroU32;
use std::time::Duration;

const OWN: &str = "balancer.leno.dev/";
const CIRCUIT: &str = "circuit-breaker.leno.dev/";
const LINKERD: &str = "balancer.linkerd.io/";
const LINKERD_ALPHA: &str = "balancer.alpha.linkerd.io/";
const IGNORED: &str = "it is ignored";

/// Annotations of linkerd that change nothing here, and why.
const WITHOUT_EFFECT: [(&str, &str); 3] = [
    ("failure-accrual-honor-retry-after", "the time between probes does not depend on responses"),
    ("load-biaser-max-retry-after", "the balancer does not read Retry-After"),
    ("load-biaser-penalty", "a failure counts as four times the usual latency, at least 250ms"),
];
/// Annotations of a rule, without a mode.
const PARAMETERS: [&str; 7] = [
    "failure-accrual-consecutive-max-failures",
    "failure-accrual-consecutive-min-penalty",
    "failure-accrual-consecutive-max-penalty",
    "failure-accrual-consecutive-jitter-ratio",
    "failure-accrual-success-rate-threshold",
    "failure-accrual-success-rate-window",
    "failure-accrual-success-rate-min-requests",
];

/// Limits on what is under way.
const LIMITS: [&str; 3] = ["max-connections", "max-pending", "max-requests"];

/// The annotations of one Service, and what is wrong with them.
struct Reader<'look, 'text> {
    annotations: Annotations<'look, 'text>,
    wrong: Vec<(String, String)>,
}

impl<'text> Reader<'_, 'text> {
    fn find(&self, name: &str) -> Option<(String, &'text str)> {
        let alpha = name.starts_with("failure-accrual-success-rate-").then_some(LINKERD_ALPHA);
        [Some(OWN), Some(LINKERD), alpha].into_iter().flatten().find_map(|prefix| {
            let key = format!("{prefix}{name}");
            let text = (self.annotations)(&key)?.trim();
            Some((key, text))
        })
    }

    /// The value of an annotation, or the default where it is absent or not valid.
    fn value<T>(
        &mut self,
        name: &str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        let Some((key, text)) = self.find(name) else { return default };
        read(text).unwrap_or_else(|why| {
            self.wrong.push((key, why));
            default
        })
    }

    fn limits(&mut self) -> Limits {
        let [connections_max, pending_max, requests_max] = LIMITS.map(|name| {
            let key = format!("{CIRCUIT}{name}");
            let text = (self.annotations)(&key)?.trim();
            let read = text.parse::<NonZeroU32>().ok();
            if read.is_none() {
                self.wrong.push((key, format!("{text:?} is not a number from 1 to {}", u32::MAX)));
            }
            read
        });
        Limits { connections_max, pending_max, requests_max }
    }

    fn accrual(&mut self) -> Accrual {
        let mode = self.find("failure-accrual");
        match mode.as_ref().map(|(_, text)| *text) {
            Some("consecutive") => Accrual::Rule(self.rule(false)),
            Some("unified") => Accrual::Rule(self.rule(true)),
            Some("off") => Accrual::Off,
            text => {
                if let (Some((key, _)), Some(text)) = (mode, text) {
                    let why = format!("{text:?} is not one of consecutive, unified, off");
                    self.wrong.push((key, why));
                }
                let unused: Vec<_> = PARAMETERS.iter().filter_map(|name| self.find(name)).collect();
                let why = "has no effect without balancer.leno.dev/failure-accrual";
                self.wrong.extend(unused.into_iter().map(|(key, _)| (key, why.to_owned())));
                Accrual::Default
            }
        }
    }

    fn rule(&mut self, has_success_rate: bool) -> FailureAccrual {
        let FailureAccrual { consecutive_max, penalty, .. } = FailureAccrual::default();
        let rate = SuccessRate::default();
        let success_rate = has_success_rate.then(|| SuccessRate {
            min: self.value("failure-accrual-success-rate-threshold", rate.min, |text| {
                number(text, 1.0)
            }),
            window: self.value("failure-accrual-success-rate-window", rate.window, time),
            responses_min: self.value(
                "failure-accrual-success-rate-min-requests",
                rate.responses_min,
                count,
            ),
        });
        let max_failures = "failure-accrual-consecutive-max-failures";
        let consecutive_max = self.value(max_failures, consecutive_max, count);
        let jitter = "failure-accrual-consecutive-jitter-ratio";
        let mut read = Penalty {
            min: self.value("failure-accrual-consecutive-min-penalty", penalty.min, time),
            max: self.value("failure-accrual-consecutive-max-penalty", penalty.max, time),
            jitter_ratio: self
                .value(jitter, penalty.jitter_ratio, |text| number(text, JITTER_RATIO_MAX)),
        };
        if read.min > read.max {
            let name = "failure-accrual-consecutive-min-penalty";
            let (key, _) = self.find(name).unwrap_or_else(|| (format!("{OWN}{name}"), ""));
            let Penalty { min, max, .. } = read;
            let why = format!("{min:?} is longer than the max-penalty, which is {max:?}");
            self.wrong.push((key, why));
            (read.min, read.max) = (penalty.min.min(max), max);
        }
        FailureAccrual { consecutive_max, success_rate, penalty: read }
    }
}

/// Reads the annotations of a Service; `None` where they do not say anything. Annotations that are not valid are reported and ignored.
pub(super) fn read<'names, T>(
    service: &Sourced<T>,
    annotations: Annotations<'_, '_>,
    names: impl Iterator<Item = &'names str>,
    problems: &mut Vec<Problem>,
) -> Option<Box<Breaker>> {
    let mut reader = Reader { annotations, wrong: Vec::new() };
    let breaker = Breaker { accrual: reader.accrual(), limits: reader.limits() };
    let mut wrong = reader.wrong;
    for (name, why) in WITHOUT_EFFECT {
        let key = format!("{LINKERD_ALPHA}{name}");
        if annotations(&key).is_some() {
            wrong.push((key, format!("has no effect: {why}")));
        }
    }
    let is_known = |name: &str| match (name.strip_prefix(OWN), name.strip_prefix(CIRCUIT)) {
        (Some(name), _) => name == "failure-accrual" || PARAMETERS.contains(&name),
        (_, Some(name)) => LIMITS.contains(&name),
        _ => true,
    };
    let unknown = names.filter(|name| !is_known(name));
    wrong.extend(unknown.map(|name| (name.to_owned(), "is not a known annotation".to_owned())));
    problems.extend(wrong.into_iter().map(|(key, why)| {
        service.problem(format!("metadata.annotations[{key}]"), format!("{why}; {IGNORED}"))
    }));
    (breaker != Breaker::default()).then(|| Box::new(breaker))
}

fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number from 0 to {}", u32::MAX))
}

fn number(text: &str, max: f64) -> Result<f64, String> {
    let read = text.parse::<f64>().ok().filter(|read| (0.0..=max).contains(read));
    read.ok_or_else(|| format!("{text:?} is not a number from 0 to {max}"))
}

fn time(text: &str) -> Result<Duration, String> {
    let read = duration(text)?;
    if read.is_zero() || read > PENALTY_LIMIT {
        return Err(format!("{text:?} is not between 1ms and 24h"));
    }
    Ok(read)
}
