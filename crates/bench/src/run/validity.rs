//! Whether a repetition may be quoted. Pure.
//!
//! Rules about time (lateness, CPU, what was sent of what was due) are for open loops: a closed loop asks for all that there
//! is, and says capacity, not latency.

use crate::result::{Resources, Used, is_cpu_known};
use crate::scenario::rules::Validity;
use leno_load::outcome::Outcome;
use leno_load::verdict;

/// A lateness of this share of the median latency cannot change what is concluded, whatever it is in microseconds.
const LATENESS_SHARE: f64 = 0.05;

/// What was seen of one repetition.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Everything that the generators have said.
    pub outcome: &'a Outcome,
    /// What it cost.
    pub resources: &'a Resources,
    /// Cores of the machine.
    pub cores: usize,
    /// Whether the load asks for as much as there is.
    pub is_closed: bool,
    /// Whether the load follows a profile that is late on purpose.
    pub is_late_on_purpose: bool,
    /// Pods whose programs changed though the timeline did not touch them.
    pub restarted: &'a [String],
}

/// Why it may not be quoted; nothing when it may.
#[must_use]
pub fn reasons(rules: &Validity, seen: &Seen<'_>) -> Vec<String> {
    let mut reasons = seen.outcome.invalid_reasons.clone();
    let counts = &seen.outcome.counts;
    if seen.restarted.len() as u64 > rules.restarts_max {
        reasons.push(format!("restarted by themselves: {}", seen.restarted.join(", ")));
    }
    // Without answers there is nothing else to judge: a client that cannot connect is late as well.
    if counts.completed == 0 {
        // Each generator has said so for itself.
        reasons.retain(|reason| !reason.starts_with(verdict::NO_ANSWER));
        reasons.push(verdict::no_answer(seen.outcome));
        return reasons;
    }
    let failed = failed_share(seen.outcome);
    if failed > rules.failed_max {
        let (failed, most) = (failed * 100.0, rules.failed_max * 100.0);
        reasons.push(format!("{failed:.2} % of requests failed, more than {most} %"));
    }
    let held = |used: &[Used]| used.iter().map(|used| used.throttled_s).sum::<f64>();
    for (role, used) in [("generator", &seen.resources.generator), ("app", &seen.resources.app)] {
        if held(used) > rules.throttled_max.as_secs_f64() {
            reasons.push(format!("{role}: throttled by a CPU limit for {:.3} s", held(used)));
        }
    }
    let steal = seen.resources.machine.steal_share;
    if steal > rules.steal_max {
        let (steal, most) = (steal * 100.0, rules.steal_max * 100.0);
        reasons.push(format!(
            "machine: the hypervisor took away {steal:.1} % of its time (CPU steal), more than {most} %"
        ));
    }
    if !seen.is_closed {
        reasons.extend(open_loop(rules, seen));
    }
    reasons
}

/// What only a load with a rate can be blamed for.
fn open_loop(rules: &Validity, seen: &Seen<'_>) -> Vec<String> {
    let (mut reasons, outcome) = (Vec::new(), seen.outcome);
    let late = outcome.hist.lateness.quantile(0.999) as f64;
    let allowed = outcome.hist.response.quantile(0.5) as f64 * LATENESS_SHARE;
    let allowed = allowed.max(rules.lateness_p999_max.as_nanos() as f64);
    // A load that has found its own fault says it in its own words.
    if !seen.is_late_on_purpose
        && late > allowed
        && !outcome.invalid_reasons.iter().any(|reason| reason.contains("late"))
    {
        let said = |nanoseconds: f64| format!("{:.0} us", nanoseconds / 1000.0);
        reasons.push(format!("generator late: p99.9 {}, allowed {}", said(late), said(allowed)));
    }
    let busy = outcome.generator.busy_max;
    if busy > rules.generator_cpu_max {
        let (busy, most) = (busy * 100.0, rules.generator_cpu_max * 100.0);
        reasons.push(format!("generator: {busy:.0} % of a core, more than {most:.0} %"));
    }
    let app: f64 = seen.resources.app.iter().map(|used| used.cores.mean).sum();
    if is_cpu_known(&seen.resources.app) && app > rules.app_cpu_max * seen.cores as f64 {
        let most = rules.app_cpu_max * seen.cores as f64;
        reasons.push(format!("applications: {app:.2} cores, more than {most:.2}"));
    }
    let counts = &outcome.counts;
    let sent = counts.started as f64 / (counts.offered.max(1)) as f64;
    if sent < rules.offered_vs_started_min {
        let least = rules.offered_vs_started_min * 100.0;
        reasons.push(format!("{:.2} % of the requests due were sent, not {least} %", sent * 100.0));
    }
    reasons
}

/// More than this of the machine, used by nobody who is measured, is worth a word.
const OTHERS_SHARE: f64 = 0.25;

/// A note that does not make a repetition invalid: other programs on the machine.
#[must_use]
pub fn note(resources: &Resources, cores: usize) -> Option<String> {
    let others: f64 = resources.node_residual.iter().map(|used| used.cores.mean).sum();
    (others > OTHERS_SHARE * cores as f64)
        .then(|| format!("other programs kept {others:.1} of {cores} cores busy"))
}

/// Failed requests and answers of 500 and above, as a share of those sent.
#[must_use]
pub fn failed_share(outcome: &Outcome) -> f64 {
    let counts = &outcome.counts;
    let errors: u64 = counts.errors.values().sum();
    let statuses = counts.status.iter();
    let refused =
        statuses.filter(|(status, _)| status.parse().is_ok_and(|status: u16| status >= 500));
    let refused: u64 = refused.map(|(_, count)| count).sum();
    let grpc = counts.status.iter().filter(|(status, _)| status.starts_with("grpc-"));
    let grpc: u64 = grpc.map(|(_, count)| count).sum();
    (errors + refused.max(grpc)) as f64 / counts.started.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Spread;

    fn outcome() -> Outcome {
        let mut outcome = Outcome::default();
        outcome.counts.offered = 10_000;
        outcome.counts.started = 10_000;
        outcome.counts.completed = 10_000;
        for _ in 0..10_000 {
            outcome.hist.response.record(1_000_000);
            outcome.hist.lateness.record(20_000);
        }
        outcome
    }

    #[test]
    fn each_rule_has_its_words() {
        check(|_, _| {}, &[]);
        check(
            |outcome, _| (0..100).for_each(|_| outcome.hist.lateness.record(200_000)),
            &["generator late: p99.9 200 us, allowed 100 us"],
        );
        check(
            |outcome, _| {
                (0..100).for_each(|_| outcome.hist.lateness.record(200_000));
                (0..20_000).for_each(|_| outcome.hist.response.record(5_000_000));
            },
            &[],
        );
        check(|o, _| o.generator.busy_max = 0.71, &["generator: 71 % of a core, more than 70 %"]);
        check(
            |o, _| o.counts.started = 9_900,
            &["99.00 % of the requests due were sent, not 99.9 %"],
        );
        check(
            |o, _| o.counts.errors = [("reset".into(), 200)].into(),
            &["2.00 % of requests failed, more than 1 %"],
        );
        check(
            |o, _| o.counts.status = [("503".into(), 200)].into(),
            &["2.00 % of requests failed, more than 1 %"],
        );
        check(
            |_, resources| {
                let cores = Spread { mean: 1.7, ..Spread::default() };
                resources.app.push(Used { cores, throttled_s: 0.5, ..Used::default() });
            },
            &[
                "app: throttled by a CPU limit for 0.500 s",
                "applications: 1.70 cores, more than 1.60",
            ],
        );
        check(
            |_, resources| resources.machine.steal_share = 0.03,
            &["machine: the hypervisor took away 3.0 % of its time (CPU steal), more than 2 %"],
        );
        check(|o, _| o.invalid_reasons.push("its own".into()), &["its own"]);
        check(|o, _| o.counts.completed = 0, &["no request was answered"]);
        check(
            |outcome, _| {
                outcome.counts.completed = 0;
                outcome.counts.errors = [("connect".into(), 9), ("tls".into(), 1)].into();
                outcome.first_errors = [("connect".into(), "Connection refused".into())].into();
                (0..100).for_each(|_| outcome.hist.lateness.record(200_000_000));
            },
            &["no request was answered: 9 connect (Connection refused), 1 tls"],
        );
    }

    #[test]
    fn others_on_the_machine_are_told_of() {
        let of = |mean| {
            let cores = Spread { mean, ..Spread::default() };
            let node_residual = vec![Used { cores, ..Used::default() }];
            note(&Resources { node_residual, ..Resources::default() }, 2)
        };
        assert_eq!(of(0.4), None);
        assert_eq!(of(1.9).as_deref(), Some("other programs kept 1.9 of 2 cores busy"));
    }

    #[test]
    fn a_closed_loop_is_not_blamed_for_its_hunger() {
        let mut outcome = outcome();
        outcome.generator.busy_max = 1.0;
        outcome.hist.lateness.record(1_000_000_000);
        let (resources, restarted) = (Resources::default(), ["web-1".to_owned()]);
        let seen = Seen {
            outcome: &outcome,
            resources: &resources,
            cores: 2,
            is_closed: true,
            is_late_on_purpose: false,
            restarted: &restarted,
        };
        assert_eq!(reasons(&Validity::default(), &seen), ["restarted by themselves: web-1"]);
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Outcome, &mut Resources), expected: &[&str]) {
        let (mut outcome, mut resources) = (outcome(), Resources::default());
        change(&mut outcome, &mut resources);
        let seen = Seen {
            outcome: &outcome,
            resources: &resources,
            cores: 2,
            is_closed: false,
            is_late_on_purpose: false,
            restarted: &[],
        };
        assert_eq!(reasons(&Validity::default(), &seen), expected);
    }
}
