//! One repetition: warm up until stable, measure, sample, do what the timeline says, decide whether it may be quoted.

use crate::chaos::{self, Done};
use crate::result::{Run, Series};
use crate::run::bed::{Bed, Phase, Seen, Watch};
use crate::run::generator::{self, Running, Stretch};
use crate::run::interrupt::Interrupt;
use crate::run::plan::Planned;
use crate::run::{validity, windows};
use crate::scenario::Scenario;
use crate::scenario::load::{Arrival, Load, Mode};
use crate::scenario::timeline::{Action, moments};
use leno_load::outcome::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Every measured phase begins with connections that are open: so much of a generator's own warm-up at least.
const WARM_UP_MIN: Duration = Duration::from_millis(200);
/// The same, where windows of load have come before.
const WARM_UP_AFTER_WINDOWS: Duration = Duration::from_millis(500);
/// How often it is looked whether a phase is over.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What one repetition is made of.
pub(crate) struct Repetition<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) planned: &'a Planned,
    /// What the rate came to.
    pub(crate) rate: Option<f64>,
    pub(crate) bed: &'a Bed,
    pub(crate) seed: u64,
    pub(crate) interrupt: &'a Interrupt,
}

/// What a repetition gives.
pub(crate) struct Performed {
    /// What is kept of it; block, order and the log's name are for the caller.
    pub(crate) run: Run,
    /// What the generators have seen.
    pub(crate) outcome: Outcome,
    /// What was learned of the mesh.
    pub(crate) facts: BTreeMap<String, Value>,
}

impl Repetition<'_> {
    /// From the first request of the warm-up to the verdict.
    ///
    /// # Errors
    /// Nobody can send, a generator failed, or the user wants it to end.
    pub(crate) fn perform(&self) -> anyhow::Result<Performed> {
        let load = self.load();
        let clients = self.bed.clients(&load.client)?;
        anyhow::ensure!(!clients.is_empty(), "no pod of the client {:?} runs", load.client);
        let (warmed, warm_up) = self.warm_up(&clients)?;
        let mut watch = self.bed.watch()?;
        let counter = self.bed.counter(&self.scenario.topology.counted)?;
        let stretch = Stretch {
            warm_up,
            measure: load.requests.map_or(load.phases.measure, |requests| requests.wait_max),
            counted: load.requests.is_some(),
        };
        let running = self.start(&clients, stretch)?;
        watch.follow(&running.iter().map(Running::about).collect::<Vec<_>>());
        let (outcome, done, cpu_s) = self.measure(running, stretch, &watch)?;
        let endpoints =
            counter.map(|counter| counter.stop(outcome.start_monotonic_ns, outcome.duration_s));
        let endpoints = endpoints.unwrap_or_default();
        let Seen { resources, tcp, restarted, cores, reasons: unfit, facts } =
            watch.end(&Phase {
                outcome: &outcome,
                cpu_s: &cpu_s,
                warm_up,
                done: &done,
                is_counted: load.protocol.is_counted_by_proxies(),
            })?;
        let mut reasons = validity::reasons(
            &self.scenario.validity,
            &validity::Seen {
                outcome: &outcome,
                resources: &resources,
                cores,
                is_closed: load.arrival == Arrival::Closed,
                is_late_on_purpose: matches!(self.planned.mode, Mode::Wrk2 | Mode::Fortio),
                restarted: &restarted,
            },
        );
        reasons.extend(unfit);
        let undone = done.iter().filter(|event| event.failed);
        reasons.extend(undone.map(|event| format!("timeline: {}: {}", event.kind, event.detail)));
        let warmup = warmed + warm_up;
        let run = Run {
            start: outcome.start.clone(),
            phases: BTreeMap::from([
                ("warmup".to_owned(), warmup.as_secs_f64()),
                ("measure".to_owned(), outcome.duration_s),
            ]),
            valid: reasons.is_empty(),
            invalid_reasons: reasons,
            counts: outcome.counts.clone(),
            hist: outcome.hist.clone(),
            series_1s: Series::of(&outcome.seconds, outcome.duration_s),
            resources,
            tcp,
            events: chaos::consequences(&done, outcome.start_monotonic_ns, &outcome.seconds),
            windows: match self.scenario.has_windows() {
                true => windows::figures(&self.scenario.windows, &outcome, &endpoints),
                false => BTreeMap::new(),
            },
            endpoints,
            generator: outcome.generator.clone(),
            ..Run::default()
        };
        self.rest(load.phases.cooldown);
        Ok(Performed { run, outcome, facts })
    }

    fn load(&self) -> &Load {
        &self.scenario.loads[self.planned.load]
    }

    /// Windows of load until the last ones agree. Answers what they took, and what the measured load itself is to warm up.
    fn warm_up(&self, clients: &[String]) -> anyhow::Result<(Duration, Duration)> {
        let warmup = &self.load().phases.warmup;
        if warmup.min == warmup.max {
            return Ok((Duration::ZERO, warmup.max.max(WARM_UP_MIN)));
        }
        let (mut taken, mut windows) = (Duration::ZERO, Vec::new());
        while taken + warmup.window <= warmup.max {
            let stretch =
                Stretch { warm_up: Duration::ZERO, measure: warmup.window, counted: false };
            let running = self.start(clients, stretch)?;
            let (outcome, _) = generator::wait(running, warmup.window, self.interrupt)?;
            let response = &outcome.hist.response;
            windows.push((response.quantile(0.5), response.quantile(0.99)));
            taken += warmup.window;
            if taken >= warmup.min && warmup.is_stable(&windows) {
                break;
            }
        }
        Ok((taken, WARM_UP_AFTER_WINDOWS))
    }

    /// One generator for each pod and target.
    fn start(&self, clients: &[String], stretch: Stretch) -> anyhow::Result<Vec<Running>> {
        let load = self.load();
        let parts = generator::divide(self.scenario, self.planned, self.rate, clients);
        let start = |(number, part): (usize, &generator::Part)| {
            let seed = self.seed.wrapping_add(number as u64);
            let part = part.at(self.bed.url(&part.url));
            let words = generator::arguments(load, self.planned.mode, &part, stretch, seed);
            Running::start(self.bed, &part.pod, &words)
        };
        parts.iter().enumerate().map(start).collect()
    }

    /// Waits for the generators while the timeline runs beside them. Answers what they have seen, what was done, and the
    /// CPU seconds that each generator has counted of itself.
    fn measure(
        &self,
        running: Vec<Running>,
        stretch: Stretch,
        watch: &Watch<'_>,
    ) -> anyhow::Result<(Outcome, Vec<Done>, Vec<f64>)> {
        let mut moments: Vec<(Duration, Action)> = match self.load().timeline {
            true => moments(&self.scenario.timeline, stretch.measure),
            false => Vec::new(),
        };
        // Where there is no control plane, nothing is to be done to it, and what follows can be compared all the same.
        let has_control = self.bed.has_control();
        moments.retain(|(_, action)| has_control || *action != Action::RestartControl);
        let begin = Instant::now() + self.bed.generator_start() + stretch.warm_up;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let conductor = scope.spawn(|| {
                let is_over = || is_over.load(Ordering::Relaxed);
                // A sample where the phase begins makes its cut exact.
                std::thread::sleep(begin.saturating_duration_since(Instant::now()));
                watch.mark();
                let done =
                    chaos::conduct(self.bed, &moments, begin, &|| self.bed.clock_ns(), &is_over);
                // And one where it ends, as far as that is known beforehand.
                while !is_over() && Instant::now() < begin + stretch.measure {
                    let left = (begin + stretch.measure).saturating_duration_since(Instant::now());
                    std::thread::sleep(left.min(LOOK_AGAIN));
                }
                watch.mark();
                done
            });
            let longest = stretch.warm_up + stretch.measure;
            let outcome = generator::wait(running, longest, self.interrupt);
            is_over.store(true, Ordering::Relaxed);
            let done = conductor.join().unwrap_or_default();
            let (outcome, cpu_s) = outcome?;
            Ok((outcome, done, cpu_s))
        })
    }

    fn rest(&self, length: Duration) {
        let until = Instant::now() + length;
        while Instant::now() < until && !self.interrupt.is_asked() {
            std::thread::sleep(Duration::from_millis(20).min(length));
        }
    }
}
