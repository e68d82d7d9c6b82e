//! What a server must keep to: `p99=10ms`, `mean=2ms`, `errors=0.1%`. Pure.

use leno_load::outcome::Outcome;
use leno_load::summary::latency;
use std::str::FromStr;

/// Requests that may fail where nothing is said about it.
const ERRORS_MAX: f64 = 0.001;
/// Requests beyond a percentile without which it means nothing.
const BEYOND_MIN: f64 = 10.0;
/// Answers that must come at the rate at which requests are due: less, and they pile up.
const KEPT_UP_MIN: f64 = 0.98;
/// A figure of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// Response, by its share of all: 0.99.
    Quantile(f64),
    Mean,
    Max,
    /// Share of requests that failed, answers of 500 and above and gRPC's statuses among them.
    Errors,
}

/// A figure and the most that it may be: nanoseconds, or a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    figure: Figure,
    most: f64,
    text: String,
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a goal such as p99=10ms, mean=2ms, max=1s or errors=0.1%");
        let (name, most) = text.split_once('=').ok_or_else(wrong)?;
        let figure = match name.trim() {
            "mean" => Figure::Mean,
            "max" => Figure::Max,
            "errors" => Figure::Errors,
            name => {
                let percent: f64 = name
                    .strip_prefix('p')
                    .and_then(|share| share.parse().ok())
                    .ok_or_else(wrong)?;
                let known = percent > 0.0 && percent < 100.0;
                Figure::Quantile(known.then_some(percent / 100.0).ok_or_else(wrong)?)
            }
        };
        let (units, most): (&[(&str, f64)], &str) = match figure {
            Figure::Errors => (&[("%", 0.01)], most.trim()),
            _ => (&[("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)], most.trim()),
        };
        let value = units.iter().find_map(|(unit, factor)| {
            most.strip_suffix(unit)?.trim().parse::<f64>().ok().map(|value| value * factor)
        });
        let most = value.filter(|most| most.is_finite() && *most >= 0.0).ok_or_else(wrong)?;
        Ok(Self { figure, most, text: text.to_owned() })
    }
}

impl Goal {
    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Requests without which the figure means nothing.
    #[must_use]
    pub fn requests_min(&self) -> f64 {
        match self.figure {
            Figure::Quantile(share) => BEYOND_MIN / (1.0 - share),
            Figure::Errors if self.most > 0.0 => BEYOND_MIN / self.most,
            Figure::Mean | Figure::Max | Figure::Errors => BEYOND_MIN,
        }
    }

    fn broken(&self, outcome: &Outcome) -> Option<String> {
        let response = &outcome.hist.response;
        let seen = match self.figure {
            Figure::Quantile(share) => response.quantile(share) as f64,
            Figure::Mean => response.mean(),
            Figure::Max => response.max() as f64,
            Figure::Errors => errors(outcome),
        };
        let shown = match self.figure {
            Figure::Errors => format!("{:.2} %", seen * 100.0),
            _ => latency(seen),
        };
        (seen > self.most).then(|| format!("{} is {shown}", self.text))
    }
}

/// Why an outcome does not pass; nothing where it does.
#[must_use]
pub fn broken(goals: &[Goal], rate: f64, outcome: &Outcome) -> Vec<String> {
    let mut broken: Vec<String> = goals.iter().filter_map(|goal| goal.broken(outcome)).collect();
    let said = goals.iter().any(|goal| goal.figure == Figure::Errors);
    let failed = errors(outcome);
    if !said && failed > ERRORS_MAX {
        broken.push(format!("errors are {:.2} %", failed * 100.0));
    }
    // What is shed, or late beyond the end, would not be seen in latencies.
    let came = outcome.counts.completed as f64 / outcome.duration_s.max(1e-9);
    let counted = outcome.counts.completed as f64 / outcome.counts.offered.max(1) as f64;
    if came < rate * KEPT_UP_MIN || counted < KEPT_UP_MIN {
        broken.push(format!("{came:.0}/s were answered"));
    }
    broken
}

/// Share of requests that failed; all of them where there were none.
fn errors(outcome: &Outcome) -> f64 {
    let counts = &outcome.counts;
    let failed: u64 = counts.errors.values().sum();
    let refused = counts.status.iter().filter(|(status, _)| {
        status.starts_with("grpc-") || status.parse::<u16>().is_ok_and(|status| status >= 500)
    });
    let bad = failed + refused.map(|(_, count)| count).sum::<u64>();
    if counts.started == 0 { 1.0 } else { bad as f64 / counts.started as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(response_us: &[u64], failed: u64) -> Outcome {
        let mut outcome = Outcome { duration_s: 1.0, ..Outcome::default() };
        response_us.iter().for_each(|us| outcome.hist.response.record(us * 1_000));
        let answered = response_us.len() as u64;
        let counts = &mut outcome.counts;
        (counts.offered, counts.started, counts.completed) = (answered, answered, answered);
        counts.status = [("200".to_owned(), answered - failed), ("503".to_owned(), failed)].into();
        outcome
    }

    #[test]
    fn goals_and_what_breaks_them() {
        let steady: Vec<u64> = (1..=1_000).collect();
        for (goal, failed, rate, expected) in [
            ("p99=1ms", 0, 1_000.0, ""),
            ("p99=900us", 0, 1_000.0, "p99=900us is 99"),
            ("p50=0.4ms", 0, 1_000.0, "p50=0.4ms is 50"),
            ("mean=499us", 0, 1_000.0, "mean=499us is 500"),
            ("max=1s", 0, 1_000.0, ""),
            ("max=1s", 2, 1_000.0, "errors are 0.20 %"),
            ("errors=1%", 2, 1_000.0, ""),
            ("errors=0.1%", 2, 1_000.0, "errors=0.1% is 0.20 %"),
            ("max=1s", 0, 1_100.0, "1000/s were answered"),
        ] {
            let goals: Vec<Goal> = vec![goal.parse().expect("a goal")];
            let broken = broken(&goals, rate, &outcome(&steady, failed)).join(", ");
            assert!(
                broken.starts_with(expected) && broken.is_empty() == expected.is_empty(),
                "{goal}: {broken}"
            );
        }
        assert_eq!(broken(&[], 1.0, &Outcome::default()).len(), 2);
    }

    #[test]
    fn goals_that_are_none() {
        for text in [
            "p99",
            "p99=",
            "p99=10",
            "p0=1ms",
            "p100=1ms",
            "q=1ms",
            "errors=1ms",
            "mean=-1ms",
            "p99=1h",
            "=1ms",
        ] {
            let error = text.parse::<Goal>().expect_err(text);
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn requests_that_a_figure_needs() {
        for (text, expected) in
            [("p99=1ms", 1_000.0), ("p50=1ms", 20.0), ("errors=1%", 1_000.0), ("max=1s", 10.0)]
        {
            let goal: Goal = text.parse().expect("a goal");
            assert!(
                (goal.requests_min() - expected).abs() < 1e-6,
                "{text}: {}",
                goal.requests_min()
            );
        }
    }
}
