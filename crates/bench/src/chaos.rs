//! The timeline: applies a scenario's actions to a running topology at their times, and reports the consequences.
//!
//! Which pods are meant is decided purely ([`Targets`]), as is what followed ([`consequences`]); [`conduct`] acts.

use crate::result::Event;
use crate::scenario::timeline::Action;
use leno_load::outcome::Second;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Failures this long after an event are counted as its own.
const AFTERMATH_S: f64 = 10.0;
/// How often a wait looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(20);

/// What can be done to a topology; a bed in earnest, a list in tests.
pub trait Stage {
    /// Names of the pods of a workload whose application runs.
    ///
    /// # Errors
    /// It cannot be asked.
    fn pods(&self, workload: &str) -> anyhow::Result<Vec<String>>;
    /// A signal to a pod's application.
    ///
    /// # Errors
    /// It was not delivered.
    fn signal(&self, pod: &str, signal: i32) -> anyhow::Result<()>;
    /// A new plan for a pod's worker.
    ///
    /// # Errors
    /// The worker does not take it.
    fn set(&self, pod: &str, plan: &serde_json::Value) -> anyhow::Result<()>;
    /// The control plane ends and starts again.
    ///
    /// # Errors
    /// It did not come back, or there is none.
    fn restart_control(&self) -> anyhow::Result<()>;
    /// Delay and loss at a pod's interface.
    ///
    /// # Errors
    /// The machine does not do this.
    fn netem(&self, pod: &str, delay_ms: f64, loss_share: f64) -> anyhow::Result<()>;
}

/// What was done, before it is known what followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// On the machine's monotonic clock.
    pub at_monotonic_ns: u64,
    /// `kill`, `stop`, …
    pub kind: &'static str,
    /// Pods, or the workload.
    pub target: String,
    /// For people.
    pub detail: String,
    /// Pods whose programs this has ended.
    pub ended: Vec<String>,
    /// Whether it could be done.
    pub failed: bool,
}

/// Which pods have been chosen so far.
#[derive(Debug, Default)]
pub struct Targets {
    chosen: BTreeMap<String, usize>,
    stopped: BTreeSet<String>,
}

impl Targets {
    /// Pods for this signal: those chosen least often first, then by name; `continue` is for those that were stopped.
    pub fn choose(&mut self, kind: &str, mut pods: Vec<String>, count: usize) -> Vec<String> {
        match kind {
            "continue" => pods.retain(|pod| self.stopped.contains(pod)),
            _ => pods.retain(|pod| !self.stopped.contains(pod)),
        }
        pods.sort_by_key(|pod| (self.chosen.get(pod).copied().unwrap_or(0), pod.clone()));
        pods.truncate(count);
        for pod in &pods {
            match kind {
                "continue" => drop(self.stopped.remove(pod)),
                "stop" => drop(self.stopped.insert(pod.clone())),
                _ => *self.chosen.entry(pod.clone()).or_default() += 1,
            }
        }
        pods
    }
}

/// Does everything at its moment after `start`, until `is_over`. Answers what was done.
pub fn conduct(
    stage: &dyn Stage,
    moments: &[(Duration, Action)],
    start: Instant,
    clock: &dyn Fn() -> u64,
    is_over: &dyn Fn() -> bool,
) -> Vec<Done> {
    let (mut done, mut targets) = (Vec::new(), Targets::default());
    for (at, action) in moments {
        loop {
            if is_over() {
                return done;
            }
            let left = (start + *at).saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(PATIENCE));
        }
        let at_monotonic_ns = clock();
        let mut event = Done {
            at_monotonic_ns,
            kind: action.kind(),
            target: action.workload().to_owned(),
            detail: String::new(),
            ended: Vec::new(),
            failed: false,
        };
        if let Err(error) = act(stage, action, &mut targets, &mut event) {
            event.detail = format!("could not be done: {error:#}");
            event.failed = true;
        }
        done.push(event);
    }
    done
}

fn act(
    stage: &dyn Stage,
    action: &Action,
    targets: &mut Targets,
    event: &mut Done,
) -> anyhow::Result<()> {
    match action {
        Action::Signal { kind, workload, count, signal } => {
            let pods = targets.choose(kind, stage.pods(workload)?, *count);
            anyhow::ensure!(!pods.is_empty(), "{workload} has no pod left for it");
            for pod in &pods {
                stage.signal(pod, *signal)?;
            }
            event.target = pods.join(", ");
            event.detail = format!("signal {signal} to {}", event.target);
            if *kind == "kill" {
                event.ended = pods;
            }
        }
        Action::Set { workload, plan } => {
            let pods = stage.pods(workload)?;
            anyhow::ensure!(!pods.is_empty(), "no pod of {workload} runs");
            for pod in &pods {
                stage.set(pod, plan)?;
            }
            event.detail = format!("{} pods answer after {plan}", pods.len());
        }
        Action::RestartControl => {
            stage.restart_control()?;
            event.target = "control plane".to_owned();
            event.detail = "ended and started again".to_owned();
        }
        Action::Netem { workload, delay_ms, loss_share } => {
            for pod in stage.pods(workload)? {
                stage.netem(&pod, *delay_ms, *loss_share)?;
            }
            event.detail = format!("delay {delay_ms} ms, loss {} %", loss_share * 100.0);
        }
    }
    Ok(())
}

/// What followed each event, from the generators' seconds.
#[must_use]
pub fn consequences(done: &[Done], start_monotonic_ns: u64, seconds: &[Second]) -> Vec<Event> {
    let at = |event: &Done| (event.at_monotonic_ns as f64 - start_monotonic_ns as f64) / 1e9;
    let events = done.iter().map(|event| {
        let t = at(event);
        // An event within a second spoils that second. What follows the next event is the next one's.
        let next = done.iter().map(|other| at(other).floor()).filter(|next| *next > t.floor());
        let until = next.fold(t + AFTERMATH_S, f64::min);
        let after = |second: &&Second| second.at_s as f64 >= t.floor();
        let within = |second: &&Second| (second.at_s as f64) < until;
        let failed = seconds.iter().filter(after).filter(within).map(|second| second.failed).sum();
        Event {
            t,
            kind: event.kind.to_owned(),
            target: event.target.clone(),
            detail: event.detail.clone(),
            recovery_s: recovery(t, seconds.iter().filter(after), failed),
            failed,
        }
    });
    events.collect()
}

/// Seconds from `t` to the first whole second without failures after the first with some.
fn recovery<'a>(t: f64, seconds: impl Iterator<Item = &'a Second>, failed: u64) -> Option<f64> {
    if failed == 0 {
        return None;
    }
    let mut after = seconds.skip_while(|second| second.failed == 0);
    let whole = after.find(|second| second.failed == 0)?;
    Some(whole.at_s as f64 - t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Paper(RefCell<Vec<String>>);

    impl Stage for Paper {
        fn pods(&self, workload: &str) -> anyhow::Result<Vec<String>> {
            Ok(if workload == "bar" { vec!["bar-1".into(), "bar-0".into()] } else { Vec::new() })
        }
        fn signal(&self, pod: &str, signal: i32) -> anyhow::Result<()> {
            self.0.borrow_mut().push(format!("{pod} {signal}"));
            Ok(())
        }
        fn set(&self, pod: &str, plan: &serde_json::Value) -> anyhow::Result<()> {
            self.0.borrow_mut().push(format!("{pod} {plan}"));
            Ok(())
        }
        fn restart_control(&self) -> anyhow::Result<()> {
            anyhow::bail!("there is none")
        }
        fn netem(&self, pod: &str, delay_ms: f64, loss_share: f64) -> anyhow::Result<()> {
            self.0.borrow_mut().push(format!("{pod} {delay_ms} {loss_share}"));
            Ok(())
        }
    }

    fn signal(kind: &'static str, workload: &str, signal: i32) -> (Duration, Action) {
        (Duration::ZERO, Action::Signal { kind, workload: workload.into(), count: 1, signal })
    }

    #[test]
    fn each_action_reaches_its_pods() {
        let paper = Paper::default();
        let moments = [
            signal("kill", "bar", 9),
            signal("kill", "bar", 9),
            signal("stop", "bar", 19),
            signal("kill", "bar", 9),
            signal("continue", "bar", 18),
            signal("kill", "nothing", 9),
            (Duration::ZERO, Action::RestartControl),
            (
                Duration::ZERO,
                Action::Netem { workload: "bar".into(), delay_ms: 5.0, loss_share: 0.01 },
            ),
        ];
        let done = conduct(&paper, &moments, Instant::now(), &|| 7, &|| false);
        assert_eq!(
            paper.0.into_inner(),
            [
                "bar-0 9",
                "bar-1 9",
                "bar-0 19",
                "bar-1 9",
                "bar-0 18",
                "bar-1 5 0.01",
                "bar-0 5 0.01"
            ]
        );
        let failed: Vec<&str> =
            done.iter().filter(|event| event.failed).map(|event| event.detail.as_str()).collect();
        assert_eq!(
            failed,
            [
                "could not be done: nothing has no pod left for it",
                "could not be done: there is none"
            ]
        );
        assert_eq!(done[0].ended, ["bar-0"]);
        assert!(conduct(&Paper::default(), &moments, Instant::now(), &|| 7, &|| true).is_empty());
    }

    #[test]
    fn what_followed() {
        //    failed in each second      events at  failed  recovery of the first
        check(&[0, 0, 5, 3, 0, 0], &[2.4], 8, Some(1.6));
        check(&[0, 0, 0, 3, 0, 0], &[2.4], 3, Some(1.6));
        check(&[9, 0, 0, 0, 0, 0], &[2.4], 0, None);
        check(&[0, 0, 1, 1, 1, 1], &[2.4], 4, None);
        // What follows the next event is not this one's.
        check(&[0, 0, 0, 0, 7, 0], &[1.4, 4.1], 0, None);
        check(&[0, 2, 0, 0, 7, 0], &[1.4, 4.1], 2, Some(0.6));
        check(&[0, 2, 0, 0, 0, 0], &[1.4, 1.6], 2, Some(0.6));
    }

    #[track_caller]
    fn check(failed: &[u64], at: &[f64], expected: u64, recovery: Option<f64>) {
        let seconds: Vec<Second> = failed
            .iter()
            .enumerate()
            .map(|(at, failed)| Second { at_s: at as u64, failed: *failed, ..Second::default() })
            .collect();
        let done = |at: &f64| Done {
            at_monotonic_ns: 1_000_000_000 + (at * 1e9) as u64,
            kind: "kill",
            target: "x".into(),
            detail: String::new(),
            ended: Vec::new(),
            failed: false,
        };
        let done: Vec<Done> = at.iter().map(done).collect();
        let events = consequences(&done, 1_000_000_000, &seconds);
        assert_eq!(events[0].failed, expected);
        let rounded = |seconds: f64| (seconds * 10.0).round() / 10.0;
        assert_eq!(events[0].recovery_s.map(rounded), recovery);
    }
}
