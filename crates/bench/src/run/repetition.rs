//! One repetition: warm up until stable, measure, sample, do what the timeline says, decide whether it may be quoted.

use crate::chaos::{self, Done};
use crate::measure::{self, Sampler, Window};
use crate::mesh::{Bed, Pod};
use crate::result::{Run, Series};
use crate::run::bed;
use crate::run::generator::{self, Running, Stretch};
use crate::run::interrupt::Interrupt;
use crate::run::plan::Planned;
use crate::run::validity;
use crate::scenario::Scenario;
use crate::scenario::load::{Arrival, Load, Mode};
use crate::scenario::timeline::{Action, moments};
use leno_load::clock;
use leno_load::outcome::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Every measured phase begins with connections that are open: so much of a generator's own warm-up at least.
const WARM_UP_MIN: Duration = Duration::from_millis(200);
/// The same, where windows of load have come before.
const WARM_UP_AFTER_WINDOWS: Duration = Duration::from_millis(500);
/// How often it is looked whether a phase is over.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// From the start of `leno exec` to the generator's first request, about. Events are timed by it, and recorded exactly.
const GENERATOR_START: Duration = Duration::from_millis(60);

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
}

impl Repetition<'_> {
    /// From the first request of the warm-up to the verdict.
    ///
    /// # Errors
    /// Nobody can send, a generator failed, or the user wants it to end.
    pub(crate) fn perform(&self) -> anyhow::Result<Performed> {
        let load = self.load();
        let clients = bed::pods_of(self.bed, &load.client)?;
        anyhow::ensure!(!clients.is_empty(), "no pod of the client {:?} runs", load.client);
        let (warmed, warm_up) = self.warm_up(&clients)?;
        let before = self.bed.pods()?;
        let passed = self.bed.requests_through_proxies();
        let stretch = Stretch {
            warm_up,
            measure: load.requests.map_or(load.phases.measure, |requests| requests.wait_max),
            counted: load.requests.is_some(),
        };
        let running = self.start(&clients, stretch)?;
        let generators: Vec<(String, i32)> =
            running.iter().map(|one| (client_name(&before, one.pod()), one.pid())).collect();
        let roles = bed::roles(&before, &self.bed.control_pids(), &generators);
        let sampler = Sampler::start(roles);
        let (outcome, done, cpu_s) = self.measure(running, stretch, &sampler)?;
        let window = Window {
            begin_monotonic_ns: outcome.start_monotonic_ns,
            duration_s: outcome.duration_s,
        };
        let (mut resources, tcp) = sampler.stop(&window);
        let names = generators.iter().map(|(name, _)| name.clone());
        let counted: Vec<(String, f64)> = names.zip(cpu_s).collect();
        measure::own_accounts(&mut resources, &counted, outcome.duration_s);
        if done.is_empty() {
            // Nobody went away, so nobody took over.
            resources.app.iter_mut().for_each(|used| used.cores_1s.clear());
        }
        let after = self.bed.pods()?;
        let share = outcome.duration_s / (outcome.duration_s + warm_up.as_secs_f64());
        let passed = grown(&before, &passed, &self.bed.requests_through_proxies());
        let senders: Vec<&str> = generators.iter().map(|(name, _)| name.as_str()).collect();
        let traversals = match load.protocol.is_counted_by_proxies() {
            true => traversals(&passed, &senders, outcome.counts.started, share),
            false => BTreeMap::new(),
        };
        measure::per_request(&mut resources, &outcome.counts, &traversals);
        let ended: BTreeSet<String> = done.iter().flat_map(|event| event.ended.clone()).collect();
        let mut reasons = validity::reasons(
            &self.scenario.validity,
            &validity::Seen {
                outcome: &outcome,
                resources: &resources,
                cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
                is_closed: load.arrival == Arrival::Closed,
                is_late_on_purpose: matches!(self.planned.mode, Mode::Wrk2 | Mode::Fortio),
                restarted: &bed::restarted(&before, &after, &ended),
            },
        );
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
            generator: outcome.generator.clone(),
            ..Run::default()
        };
        self.rest(load.phases.cooldown);
        Ok(Performed { run, outcome })
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
            let words = generator::arguments(load, self.planned.mode, part, stretch, seed);
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
        sampler: &Sampler,
    ) -> anyhow::Result<(Outcome, Vec<Done>, Vec<f64>)> {
        let mut moments: Vec<(Duration, Action)> = match self.load().timeline {
            true => moments(&self.scenario.timeline, stretch.measure),
            false => Vec::new(),
        };
        // Where there is no control plane, nothing is to be done to it, and what follows can be compared all the same.
        let has_control = self.bed.choice().kind.has_control();
        moments.retain(|(_, action)| has_control || *action != Action::RestartControl);
        let begin = Instant::now() + GENERATOR_START + stretch.warm_up;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let conductor = scope.spawn(|| {
                let is_over = || is_over.load(Ordering::Relaxed);
                // A sample where the phase begins makes its cut exact.
                std::thread::sleep(begin.saturating_duration_since(Instant::now()));
                sampler.mark();
                let done = chaos::conduct(self.bed, &moments, begin, &clock::now, &is_over);
                // And one where it ends, as far as that is known beforehand.
                while !is_over() && Instant::now() < begin + stretch.measure {
                    let left = (begin + stretch.measure).saturating_duration_since(Instant::now());
                    std::thread::sleep(left.min(LOOK_AGAIN));
                }
                sampler.mark();
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

/// How results name the pod of a generator.
fn client_name(pods: &[Pod], full: &str) -> String {
    let found = pods.iter().find(|pod| bed::full_name(pod) == full);
    found.map_or_else(|| full.to_owned(), bed::short_name)
}

/// How far each proxy's counter of requests went up, by pod.
fn grown(
    pods: &[Pod],
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let counted = after.iter().filter_map(|(name, after)| {
        let pod = pods.iter().find(|pod| pod.name == *name)?;
        // A proxy that started meanwhile has counted from 0.
        Some((bed::short_name(pod), after.checked_sub(*before.get(name)?)?))
    });
    counted.collect()
}

/// Requests through each proxy in the measured phase: what its counter went up by, less the generators' own warm-up.
///
/// Every request passes the proxy of its sender once. So what the senders' proxies counted is the warm-up and the phase
/// together, and the others' counts shrink alike. Where senders have no proxy, the phase is a share of the time.
fn traversals(
    grown: &BTreeMap<String, u64>,
    senders: &[&str],
    started: u64,
    share_of_time: f64,
) -> BTreeMap<String, u64> {
    let pods: BTreeSet<&str> = senders.iter().copied().collect();
    let known: Option<Vec<u64>> = pods.iter().map(|pod| grown.get(*pod).copied()).collect();
    let sent: u64 = known.unwrap_or_default().iter().sum();
    let share = if sent > 0 { (started as f64 / sent as f64).min(1.0) } else { share_of_time };
    grown.iter().map(|(pod, all)| (pod.clone(), (*all as f64 * share).round() as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_taken_off_every_count() {
        //    grown                         senders      started  of time  measured
        check("client=1500 web=3000", &["client"], 1_000, 0.5, "client=1000 web=2000");
        check("a=600 b=900 web=1500", &["a", "b", "b"], 1_000, 0.5, "a=400 b=600 web=1000");
        // Senders without a proxy, or one that does not tell.
        check("web=3000", &["client"], 1_000, 0.5, "web=1500");
        check("a=600 web=1500", &["a", "b"], 1_000, 0.5, "a=300 web=750");
        // Never more than was counted.
        check("client=900 web=900", &["client"], 1_000, 0.5, "client=900 web=900");
        check("", &["client"], 1_000, 0.5, "");
    }

    #[track_caller]
    fn check(grown: &str, senders: &[&str], started: u64, share: f64, expected: &str) {
        let grown = grown.split_whitespace().map(|pair| {
            let (pod, count) = pair.split_once('=').expect("a pair");
            (pod.to_owned(), count.parse().expect("a number"))
        });
        let seen = traversals(&grown.collect(), senders, started, share);
        let seen: Vec<String> = seen.iter().map(|(pod, count)| format!("{pod}={count}")).collect();
        assert_eq!(seen.join(" "), expected);
    }
}
