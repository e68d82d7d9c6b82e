//! `leno bench search`: the highest rate at which a URL still answers as well as it must. What is tried next and what
//! passes is decided in `leno_bench::load::search`; here requests are made.

use crate::bench::load::{Asked, plan, watched};
use crate::bench::{EXIT_INTERRUPTED, EXIT_INVALID};
use crate::output;
use anyhow::{Context as _, bail, ensure};
use clap::Args as ClapArgs;
use leno_bench::load::search::goals::{self, Goal};
use leno_bench::load::search::{Bounds, Search as Steps, Step};
use leno_load::interrupt;
use leno_load::outcome::Outcome;
use leno_load::plan::Plan;
use leno_load::schedule::{Rate, Schedule};
use leno_load::summary::latency;
use leno_load::verdict;
use leno_runtime::progress::spoken;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Length of one rate's trial, where nothing is said.
const TRIAL: Duration = Duration::from_secs(5);
/// The longest that a trial is made for the sake of a percentile.
const TRIAL_MAX: Duration = Duration::from_secs(60);
/// Before a trial, where nothing is said: connections are opened, and caches filled.
const WARM_UP: Duration = Duration::from_secs(1);
/// The version of the JSON.
const SCHEMA: &str = "leno-bench/search/v1";

#[derive(Debug, ClapArgs)]
pub(crate) struct Search {
    #[command(flatten)]
    asked: Asked,
    /// Goals: p99=10ms, p99.9=50ms, mean=2ms, max=1s, errors=1% [default of errors: 0.1%]
    #[arg(long, required = true, value_name = "GOAL", value_delimiter = ',', value_parser = goal)]
    slo: Vec<Goal>,
    /// The lowest rate to try
    #[arg(long, value_name = "RATE", default_value_t = 500.0)]
    from: f64,
    /// The highest rate to try
    #[arg(long, value_name = "RATE", default_value_t = 1_000_000.0)]
    max: f64,
    /// Stop when the gap between a passing and a failing rate is at most this
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    precision: f64,
    /// Write all trials as JSON to a file; - is standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    json: Option<PathBuf>,
}

fn goal(text: &str) -> Result<Goal, String> {
    text.parse()
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>();
    number.map(|number| number / 100.0).map_err(|_| format!("{text:?} is not a percentage"))
}

/// One rate that was tried.
struct Trial {
    rate: f64,
    /// Why it did not pass; nothing where it did.
    broken: Vec<String>,
    /// What the generator did wrong, by the rules of `leno bench load`; nothing where it did not.
    faults: Vec<String>,
    outcome: Outcome,
}

impl Trial {
    fn line(&self) -> String {
        let p99 = latency(self.outcome.hist.response.quantile(0.99) as f64);
        let result = if self.broken.is_empty() { "holds".into() } else { self.broken.join("; ") };
        format!("{} {result} (p99 {p99})", shown(self.rate))
    }
}

/// What was found, and what was tried for it.
struct Found {
    trials: Vec<Trial>,
    passed: Option<f64>,
    /// Why the result is invalid.
    reasons: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(arguments: &Search) -> anyhow::Result<ExitCode> {
    ensure!(
        arguments.asked.rate == "0",
        "-q is not valid here: the rate is the result; --from and --max limit it"
    );
    ensure!(
        arguments.asked.count.is_none(),
        "-n is not valid here: set the length of a trial with -z"
    );
    let bounds =
        Bounds { first: arguments.from, most: arguments.max, precision: arguments.precision };
    if let Some(mistake) = bounds.mistake() {
        bail!(mistake);
    }
    let mut plan = plan::plan_at(&arguments.asked, &arguments.from.to_string())?;
    plan.duration = Some(arguments.asked.duration.unwrap_or(TRIAL));
    if plan.warm_up.is_zero() {
        plan.warm_up = WARM_UP;
    }
    let interrupted = interrupt::watch_or_end()?;
    let Some(found) = search(arguments, plan, bounds, &interrupted)? else {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&as_json(arguments, &found))? + "\n";
        if path.as_os_str() == "-" {
            output::print(&text)?;
        } else {
            std::fs::write(path, text).with_context(|| format!("--json {}", path.display()))?;
        }
    }
    let verdict = verdict(&found);
    if arguments.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        output::print(&format!("{}\n{verdict}\n", table(&found.trials)))?;
    } else {
        eprintln!("leno: {verdict}");
    }
    Ok(if found.reasons.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INVALID) })
}

/// Tries rates until it is known; nothing where somebody wants an end.
fn search(
    arguments: &Search,
    mut plan: Plan,
    bounds: Bounds,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<Found>> {
    let mut steps = Steps::new(bounds);
    let mut trials: Vec<Trial> = Vec::new();
    let least = requests_min(&arguments.slo);
    let wanted = plan.duration.unwrap_or(TRIAL);
    loop {
        let (passed, failed) = match steps.step() {
            Step::Try(rate) => {
                at(&mut plan, rate);
                // No percentile is judged without requests beyond it.
                let needed = Duration::from_secs_f64((least / rate).min(TRIAL_MAX.as_secs_f64()));
                plan.duration = Some(wanted.max(needed));
                let title = title(rate, steps.trials_left(), plan.warm_up + wanted);
                let outcome = watched(&plan, &arguments.asked, Some(&title), interrupted)?;
                if interrupted.load(Ordering::Relaxed) {
                    eprint!("{}", table(&trials));
                    return Ok(None);
                }
                let broken = goals::broken(&arguments.slo, rate, &outcome);
                steps.saw(broken.is_empty());
                let faults = verdict::generator_faults(&plan, &outcome);
                let trial = Trial { rate, broken, faults, outcome };
                if !arguments.asked.no_tui {
                    eprintln!("leno: trial {}: {}", trials.len() + 1, trial.line());
                }
                trials.push(trial);
                continue;
            }
            Step::Found { passed, failed } => (Some(passed), failed),
            Step::Nothing => (None, Some(bounds.first)),
        };
        let reasons = reasons(&arguments.slo, &trials, passed, failed);
        return Ok(Some(Found { trials, passed, reasons }));
    }
}

/// Requests without which one of the goals means nothing.
fn requests_min(goals: &[Goal]) -> f64 {
    goals.iter().map(Goal::requests_min).fold(0.0, f64::max)
}

fn at(plan: &mut Plan, rate: f64) {
    if let Schedule::Open { rate: current, .. } = &mut plan.schedule {
        *current = Rate::Constant(rate);
    }
}

/// Why the found rate is not the limit of the server.
fn reasons(
    goals: &[Goal],
    trials: &[Trial],
    passed: Option<f64>,
    failed: Option<f64>,
) -> Vec<String> {
    let least = requests_min(goals);
    let of = |rate: Option<f64>| trials.iter().rev().filter(move |trial| Some(trial.rate) == rate);
    let mut reasons = Vec::new();
    if passed.is_none() {
        reasons.push("no rate passed".to_owned());
    }
    let fault = of(failed).find_map(|trial| trial.faults.first());
    if failed.is_none() {
        reasons.push("no rate failed: --max is too low to find the limit".to_owned());
    } else if let Some(fault) = fault {
        reasons.push(format!("at the failing rate, {fault}: the server may carry more"));
    }
    if let Some(trial) = of(passed).find(|trial| trial.broken.is_empty()) {
        // Requests that the generator itself delays reach the server in other bursts than the schedule's.
        reasons.extend(trial.faults.iter().map(|fault| format!("at the passing rate, {fault}")));
        let answers = trial.outcome.counts.completed;
        if (answers as f64) < least * 0.99 {
            reasons.push(format!(
                "{answers} answers are too few for these goals: they need {least:.0}"
            ));
        }
    }
    reasons
}

/// What is measured, and for how long it will go on. `trials` are those that are left, and whether that is all of them.
fn title(rate: f64, trials: (u32, bool), length: Duration) -> String {
    let (count, is_all) = trials;
    let words = if is_all { "about" } else { "at least" };
    format!("{}, {words} {} left;", shown(rate), spoken(length * count))
}

/// A rate for people: whole from 100 requests per second on, with one decimal below.
fn shown(rate: f64) -> String {
    if rate >= 100.0 { format!("{rate:.0}/s") } else { format!("{rate:.1}/s") }
}

fn verdict(found: &Found) -> String {
    let mut text = match found.passed {
        Some(rate) => format!("highest rate that meets the goals: {}", shown(rate)),
        None => "no rate meets the goals".to_owned(),
    };
    for reason in &found.reasons {
        text.push_str("\nINVALID  ");
        text.push_str(reason);
    }
    text
}

fn table(trials: &[Trial]) -> String {
    let rows: Vec<Vec<String>> = trials
        .iter()
        .map(|trial| {
            let Outcome { counts, hist, duration_s, generator, .. } = &trial.outcome;
            let quantile = |share| latency(hist.response.quantile(share) as f64);
            vec![
                shown(trial.rate),
                format!("{:.0}/s", counts.completed as f64 / duration_s.max(1e-9)),
                quantile(0.5),
                quantile(0.99),
                quantile(0.999),
                latency(hist.lateness.quantile(0.99) as f64),
                format!("{:.0} %", generator.busy_max * 100.0),
                if trial.broken.is_empty() { "holds".into() } else { trial.broken.join("; ") },
            ]
        })
        .collect();
    let headings = ["RATE", "ANSWERED", "P50", "P99", "P99.9", "LATE P99", "GENERATOR", "RESULT"];
    output::table(&headings, &rows)
}

fn as_json(arguments: &Search, found: &Found) -> serde_json::Value {
    let trials: Vec<serde_json::Value> = found
        .trials
        .iter()
        .map(|trial| {
            json!({
                "rate": trial.rate,
                "holds": trial.broken.is_empty(),
                "broken": trial.broken,
                "generator_faults": trial.faults,
                "outcome": trial.outcome,
            })
        })
        .collect();
    json!({
        "schema": SCHEMA,
        "goals": arguments.slo.iter().map(Goal::text).collect::<Vec<_>>(),
        "rate": found.passed,
        "invalid_reasons": found.reasons,
        "trials": trials,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        search: Search,
    }

    #[test]
    fn mistakes_name_the_flag() {
        for (line, begin) in [
            ("--slo p99=1ms -q 5 http://a/", "-q"),
            ("--slo p99=1ms -n 5 http://a/", "-n"),
            ("--slo p99=1ms --from 0 http://a/", "--from"),
            ("--slo p99=1ms --max 5 http://a/", "--max"),
            ("--slo p99=1ms --precision 0% http://a/", "--precision"),
            ("--slo p99=1 http://a/", "error: invalid value 'p99=1' for '--slo"),
            ("http://a/", "error: the following required arguments"),
        ] {
            let words = std::iter::once("search").chain(line.split(' '));
            let error = match Line::try_parse_from(words) {
                Ok(line) => {
                    run(&line.search).expect_err(line.search.asked.urls[0].as_str()).to_string()
                }
                Err(error) => error.to_string(),
            };
            assert!(error.starts_with(begin), "{line}: {error}");
        }
    }

    #[test]
    fn a_title_has_the_time_that_is_left() {
        let check = |trials, expected| {
            assert_eq!(title(2_000.0, trials, Duration::from_secs(6)), expected);
        };
        check((7, false), "2000/s, at least 42s left;");
        check((3, true), "2000/s, about 18s left;");
    }

    #[test]
    fn rates_for_people() {
        let check = |rate, expected: &str| assert_eq!(shown(rate), expected);
        check(11_313.708_498_984_76, "11314/s");
        check(100.0, "100/s");
        check(7.071_067, "7.1/s");
    }

    #[test]
    fn what_cannot_be_quoted_says_why() {
        // As `leno bench load` judges a load at a rate: busy, late and answered.
        let trial = |rate: f64, busy: f64, late_us: u64, completed: u64, broken: &[&str]| {
            let line = ["search", "--slo", "p99=1ms", "http://127.0.0.1:1/"];
            let asked = Line::try_parse_from(line).expect("flags").search.asked;
            let plan = plan::plan_at(&asked, &rate.to_string()).expect("a plan");
            let mut outcome = Outcome::default();
            (outcome.generator.busy_max, outcome.counts.completed) = (busy, completed);
            outcome.hist.response.record(1_000_000);
            outcome.hist.lateness.record(late_us * 1_000);
            let faults = verdict::generator_faults(&plan, &outcome);
            let broken = broken.iter().map(ToString::to_string).collect();
            Trial { rate, broken, faults, outcome }
        };
        let holds = || trial(100.0, 0.1, 0, 1_000, &[]);
        let fails = || trial(105.0, 0.1, 0, 1_000, &["p99"]);
        let saturated = trial(105.0, 0.95, 0, 1_000, &["p99"]);
        let late = trial(105.0, 0.1, 5_600, 1_000, &["p99"]);
        let holds_late = trial(100.0, 0.1, 5_600, 1_000, &[]);
        let few = trial(100.0, 0.1, 0, 10, &[]);
        for (trials, passed, failed, expected) in [
            (vec![holds(), fails()], Some(100.0), Some(105.0), vec![]),
            (
                vec![holds(), saturated],
                Some(100.0),
                Some(105.0),
                vec!["at the failing rate, the generator was saturated"],
            ),
            (
                vec![holds(), late],
                Some(100.0),
                Some(105.0),
                vec!["at the failing rate, the generator was late: p99.9 56"],
            ),
            (
                vec![holds_late, fails()],
                Some(100.0),
                Some(105.0),
                vec!["at the passing rate, the generator was late: p99.9 56"],
            ),
            (vec![holds()], Some(100.0), None, vec!["no rate failed"]),
            (vec![fails()], None, Some(105.0), vec!["no rate passed"]),
            (vec![few, fails()], Some(100.0), Some(105.0), vec!["10 answers"]),
        ] {
            let seen = reasons(&[goal("p99=1ms").expect("a goal")], &trials, passed, failed);
            assert_eq!(seen.len(), expected.len(), "{seen:?}");
            for (reason, begin) in seen.iter().zip(expected) {
                assert!(reason.starts_with(begin), "{reason}");
            }
        }
    }
}
