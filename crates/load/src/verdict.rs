//! Whether the figures of a load may be quoted. Pure.

use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::schedule::Schedule;

/// Share of a thread's time beyond which an open loop measures its generator.
const BUSY_MAX: f64 = 0.9;
/// Share of due requests that may be shed.
const SHED_MAX: f64 = 0.001;
/// Lateness may be this share of the median response, if that is more than the limit.
const LATENESS_SHARE: f64 = 0.05;

/// How the reason of a load without answers begins.
pub const NO_ANSWER: &str = "no request was answered";

/// Why the figures may not be quoted; nothing where they may.
#[must_use]
pub fn reasons(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let counts = &outcome.counts;
    // Without answers the generator is not to blame: a client that cannot connect is late as well.
    let mut reasons = match (counts.completed, &plan.schedule) {
        (0, _) => vec![no_answer(outcome)],
        (_, Schedule::Closed) => Vec::new(),
        (_, Schedule::Open { .. }) => generator_faults(plan, outcome),
    };
    let shed = counts.shed as f64 / counts.offered.max(1) as f64;
    if shed > SHED_MAX {
        reasons.push(format!(
            "{} of {} due requests were not sent because too many were in flight, so their latencies are missing",
            counts.shed, counts.offered
        ));
    }
    reasons
}

/// That no request was answered, with how many failed of what, and the first text of each where one is known:
/// `no request was answered: 9 connect (Connection refused (os error 111))`.
#[must_use]
pub fn no_answer(outcome: &Outcome) -> String {
    let mut kinds: Vec<(&String, &u64)> = outcome.counts.errors.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(kind, count)| match outcome.first_errors.get(kind) {
            Some(why) => format!("{count} {kind} ({why})"),
            None => format!("{count} {kind}"),
        })
        .collect();
    if kinds.is_empty() {
        NO_ANSWER.to_owned()
    } else {
        format!("{NO_ANSWER}: {}", kinds.join(", "))
    }
}

/// What the generator of an open loop did wrong; nothing where its figures are those of the server.
#[must_use]
pub fn generator_faults(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut reasons = Vec::new();
    let busy = outcome.generator.busy_max.max(outcome.generator.wanted_max);
    if busy > BUSY_MAX {
        reasons.push(format!(
            "the generator was saturated: its busiest thread wanted {:.0} % of a core, more than {:.0} %",
            busy * 100.0,
            BUSY_MAX * 100.0
        ));
    }
    // These profiles are late on purpose: that is what they reproduce.
    if let Some(limit) = plan.lateness_max.filter(|_| !plan.profile.has_own_schedules()) {
        let hist = &outcome.hist;
        let late = hist.lateness.quantile(0.999) as f64;
        let limit =
            (limit.as_nanos() as f64).max(LATENESS_SHARE * hist.response.quantile(0.5) as f64);
        if late > limit {
            reasons.push(format!(
                "the generator was late: p99.9 {:.0} us, more than {:.0} us",
                late / 1e3,
                limit / 1e3
            ));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Profile;
    use crate::schedule::{Arrival, Rate};

    #[test]
    fn what_makes_figures_unquotable() {
        let open = Schedule::Open { arrival: Arrival::Uniform, rate: Rate::Constant(1.0) };
        let honest = (Profile::Honest, open.clone());
        // late µs, response µs, busy, shed, answered
        for ((profile, schedule), late, response, busy, shed, answered, expected) in [
            (honest.clone(), 50, 100, 0.5, 0, 1000, vec![]),
            (honest.clone(), 150, 100, 0.5, 0, 1000, vec!["the generator was late"]),
            (honest.clone(), 150, 10_000, 0.5, 0, 1000, vec![]),
            (honest.clone(), 50, 100, 0.95, 0, 1000, vec!["the generator was saturated"]),
            (honest.clone(), 50, 100, 0.5, 100, 1000, vec!["100 of 1100 due requests"]),
            (honest.clone(), 50, 100, 0.5, 0, 0, vec!["no request was answered"]),
            (
                honest,
                5_000,
                100,
                1.0,
                100,
                0,
                vec!["no request was answered: 7 connect (refused)", "100 of 100 due requests"],
            ),
            ((Profile::Wrk2, open), 900, 100, 0.5, 0, 1000, vec![]),
            ((Profile::Honest, Schedule::Closed), 900, 100, 1.0, 0, 1000, vec![]),
        ] {
            let mut plan = Plan::new("http://a/".parse().expect("a URL"));
            (plan.profile, plan.schedule) = (profile, schedule);
            let mut outcome = Outcome::default();
            outcome.hist.lateness.record(late * 1000);
            outcome.hist.response.record(response * 1000);
            outcome.generator.busy_max = busy;
            (outcome.counts.shed, outcome.counts.completed) = (shed, answered);
            outcome.counts.offered = answered + shed;
            if shed > 0 && answered == 0 {
                outcome.counts.errors.insert("connect".into(), 7);
                outcome.first_errors.insert("connect".into(), "refused".into());
            }
            let reasons = reasons(&plan, &outcome);
            assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
            for (reason, begin) in reasons.iter().zip(expected) {
                assert!(reason.starts_with(begin), "{reason}");
            }
        }
    }
}
