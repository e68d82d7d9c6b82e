//! Threads that bring schedule, client and recorder together: this is the side that starts them and collects.
//!
//! - `thread`: one thread with its reactor and its connections; `sender`: one of its tasks; `places`: where its requests
//!   go.
//! - `state`: what the tasks of a thread share.
//! - `timer`: moments more precise than a millisecond.

mod places;
mod sender;
mod state;
mod thread;
mod timer;

use crate::client::complaint::Complaints;
use crate::client::target::Target;
use crate::clock::{self, SECOND};
use crate::outcome::{Counts, Generator, Histograms, Outcome, SCHEMA};
use crate::plan::{HostChange, Plan, Profile};
use crate::progress::{Phase, Progress};
use crate::protocol::Protocol;
use crate::recorder::Collected;
use crate::schedule::Schedule;
use crate::verdict;
use anyhow::{Context as _, ensure};
use state::{Message, Phases, Shared, Spent};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use thread::Part;

/// How often the observer is called.
const OBSERVE_PAUSE: Duration = Duration::from_millis(250);
/// Messages of threads that may wait to be read.
const MESSAGES_MAX: usize = 64;
/// From the moment at which all connections are open to the first request, in nanoseconds.
const HEAD_START: u64 = 2_000_000;

/// See [`crate::run`].
pub(crate) fn run(
    plan: &Plan,
    mut observer: impl FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> anyhow::Result<Outcome> {
    let plan = Arc::new(normal(plan)?);
    let targets = Target::all(&plan)?;
    // All targets of a plan share them.
    let complaints = targets.first().map(|target| target.complaints.clone()).unwrap_or_default();
    let shared = Arc::new(Shared {
        halt: AtomicBool::new(false),
        budget: AtomicU64::new(plan.count.unwrap_or_default()),
        spare: Mutex::default(),
    });
    let (messages, seen) = sync_channel(MESSAGES_MAX);
    let (opened, openings) = channel();
    let known = Arc::new(Barrier::new(plan.threads + 1));
    let phases = Arc::new(OnceLock::new());
    let mut threads = Vec::with_capacity(plan.threads);
    for thread in 0..plan.threads {
        let share = |part: usize| part * plan.connections / plan.threads;
        let part = Part {
            plan: Arc::clone(&plan),
            targets: targets.clone(),
            thread,
            threads: plan.threads,
            connections: share(thread)..share(thread + 1),
            shared: Arc::clone(&shared),
            messages: messages.clone(),
            opened: opened.clone(),
            known: Arc::clone(&known),
            phases: Arc::clone(&phases),
        };
        let named = std::thread::Builder::new().name(format!("load-{thread}"));
        threads.push(named.spawn(|| thread::run(part)).context("a thread")?);
    }
    drop((messages, opened));
    await_open(&plan, &shared, &openings, &mut observer);
    let origin = clock::now() + HEAD_START;
    let begin = origin + plan.warm_up.as_nanos() as u64;
    let length = plan.duration.map(|length| length.as_nanos() as u64);
    let known_phases =
        Phases { origin, begin, end: length.map_or(u64::MAX, |length| begin + length) };
    // It is set here only.
    let _first = phases.set(known_phases);
    known.wait();
    let watch = Watch::new(&plan, known_phases, &shared);
    let outcome = watch.collect(&seen, &complaints, observer);
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a thread of the load engine panicked"))??;
    }
    Ok(outcome)
}

/// Waits until every thread has opened its connections; a load can be ended early meanwhile, too.
fn await_open(
    plan: &Plan,
    shared: &Shared,
    openings: &Receiver<()>,
    observer: &mut impl FnMut(&Progress<'_>) -> ControlFlow<()>,
) {
    let began = clock::now();
    let (counts, hist) = (Counts::default(), Histograms::default());
    let mut left = plan.threads;
    while left > 0 {
        match openings.recv_timeout(OBSERVE_PAUSE) {
            Ok(()) => left -= 1,
            Err(RecvTimeoutError::Timeout) => {
                let progress = Progress {
                    phase: Phase::Connect,
                    elapsed: Duration::from_nanos(clock::now().saturating_sub(began)),
                    length: None,
                    count: None,
                    counts: &counts,
                    hist: &hist,
                    second: None,
                    rate: None,
                    in_flight: 0,
                };
                if observer(&progress).is_break() {
                    shared.halt.store(true, Ordering::Relaxed);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The plan as it is followed: what cannot be is refused, what makes no difference is made equal.
fn normal(plan: &Plan) -> anyhow::Result<Plan> {
    let mut plan = plan.clone();
    if plan.profile == Profile::OhaClosed {
        plan.schedule = Schedule::Closed;
        plan.keep_alive = false;
    }
    if plan.profile == Profile::Wrk2Kinvolk {
        plan.host_change = HostChange::Reconnect;
    }
    if !plan.keep_alive || matches!(plan.protocol, Protocol::Http1 | Protocol::Tcp) {
        plan.streams = 1;
    }
    plan.streams = plan.streams.max(1);
    ensure!(plan.connections > 0, "-c must be at least 1");
    ensure!(
        plan.count.is_some() || plan.duration.is_some(),
        "use -n (number of requests) or -z (duration)"
    );
    ensure!(plan.count != Some(0), "-n must be at least 1");
    ensure!(!plan.timeout.is_zero(), "--timeout: the duration must be greater than 0");
    if let Schedule::Open { rate, .. } = &plan.schedule {
        let mistake = rate.mistake();
        ensure!(mistake.is_none(), "-q: {}", mistake.unwrap_or_default());
        ensure!(
            !plan.profile.has_own_schedules() || rate.at(0.0) > 0.0,
            "-q: this profile needs a rate from the start"
        );
    }
    if let Some((least, most)) = plan.connection_requests {
        ensure!(
            0 < least && least <= most,
            "--connection-reuse must be LEAST:MOST, with 1 <= LEAST <= MOST"
        );
        ensure!(
            plan.streams == 1,
            "--connection-reuse is only valid with one request at a time on a connection"
        );
    }
    places(&plan)?;
    if let Some(count) = plan.count {
        plan.connections = plan.connections.min(usize::try_from(count).unwrap_or(usize::MAX));
    }
    plan.threads = plan.threads.clamp(1, plan.connections);
    Ok(plan)
}

/// Looks at a list of places.
fn places(plan: &Plan) -> anyhow::Result<()> {
    let Some(first) = plan.urls.first() else { return Ok(()) };
    for choice in &plan.urls {
        ensure!(choice.weight > 0, "{}: the weight must be at least 1", choice.url);
        ensure!(
            choice.url.scheme == first.url.scheme,
            "{} and {}: all URLs of a load must have the same scheme",
            first.url,
            choice.url
        );
    }
    // A stream is one call for all its messages, and cannot go elsewhere.
    let one = plan.protocol != Protocol::GrpcStream || plan.urls.len() == 1;
    ensure!(one, "gRPC streams need exactly one URL");
    Ok(())
}

/// The side of the caller while requests are made.
struct Watch<'a> {
    plan: &'a Plan,
    phases: Phases,
    shared: &'a Shared,
    collected: Collected,
    in_flight: Vec<u64>,
    done: Vec<Spent>,
    rss_mib_max: f64,
    /// CPU nanoseconds of this thread when the measured phase began.
    cpu: Option<u64>,
}

impl<'a> Watch<'a> {
    fn new(plan: &'a Plan, phases: Phases, shared: &'a Shared) -> Self {
        Self {
            plan,
            phases,
            shared,
            collected: Collected::new(plan.threads),
            in_flight: vec![0; plan.threads],
            done: Vec::new(),
            rss_mib_max: 0.0,
            cpu: None,
        }
    }

    fn collect(
        mut self,
        seen: &Receiver<Message>,
        complaints: &Complaints,
        mut observer: impl FnMut(&Progress<'_>) -> ControlFlow<()>,
    ) -> Outcome {
        let pause = OBSERVE_PAUSE.as_nanos() as u64;
        let mut next = self.phases.origin;
        loop {
            let left = Duration::from_nanos(next.saturating_sub(clock::now()));
            match seen.recv_timeout(left) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {
                    next = clock::now() + pause;
                    self.look();
                    if observer(&self.progress()).is_break() {
                        self.shared.halt.store(true, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.look();
        let _last = observer(&self.progress());
        self.outcome(complaints)
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Seen { thread, tick, mut shard, in_flight } => {
                self.collected.add(thread, tick, &shard);
                self.in_flight[thread] = in_flight;
                shard.clear();
                let mut spare = self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner);
                spare.push(shard);
            }
            Message::Done { thread, spent } => {
                self.in_flight[thread] = 0;
                self.done.push(spent);
            }
        }
    }

    /// Looks at what only this side can see.
    fn look(&mut self) {
        if self.cpu.is_none() && clock::now() >= self.phases.begin {
            self.cpu = Some(clock::thread_cpu());
        }
        self.rss_mib_max = self.rss_mib_max.max(resident_mib().unwrap_or_default());
    }

    fn progress(&self) -> Progress<'_> {
        let now = clock::now();
        let Phases { origin, begin, end } = self.phases;
        let (phase, since, until) = match now {
            now if now < begin => (Phase::WarmUp, origin, Some(begin)),
            now if now < end => (Phase::Measure, begin, (end != u64::MAX).then_some(end)),
            _ => (Phase::Drain, end, None),
        };
        let rate = match &self.plan.schedule {
            Schedule::Closed => None,
            Schedule::Open { rate, .. } => {
                Some(rate.at(now.saturating_sub(begin) as f64 / SECOND as f64))
            }
        };
        Progress {
            phase,
            elapsed: Duration::from_nanos(now.saturating_sub(since)),
            length: until.map(|until| Duration::from_nanos(until - since)),
            count: self.plan.count,
            counts: &self.collected.counts,
            hist: &self.collected.hist,
            second: self.collected.last_second(),
            rate,
            in_flight: self.in_flight.iter().sum(),
        }
    }

    fn outcome(self, complaints: &Complaints) -> Outcome {
        let Phases { begin, end, .. } = self.phases;
        let last_end = self.done.iter().map(|spent| spent.last_end).max().unwrap_or_default();
        let halted = self.shared.halt.load(Ordering::Relaxed);
        // An open loop with a length lasts so long, also where its last answer came earlier.
        let whole = end != u64::MAX && !halted && self.plan.count.is_none();
        let last = if whole { last_end.max(end) } else { last_end };
        let duration_s = last.saturating_sub(begin) as f64 / 1e9;
        let length = (end != u64::MAX).then(|| end - begin);
        let watcher_cpu = self.cpu.map_or(0, |cpu| clock::thread_cpu().saturating_sub(cpu));
        let cpu = watcher_cpu + self.done.iter().map(|spent| spent.cpu).sum::<u64>();
        let (counts, hist, seconds) = self.collected.finish(length);
        let generator = Generator {
            threads: self.plan.threads,
            cpu_s: cpu as f64 / 1e9,
            cpu_us_per_req: cpu as f64 / 1e3 / (counts.started.max(1) as f64),
            busy_max: self.done.iter().map(|spent| spent.busy).fold(0.0, f64::max),
            wanted_max: self.done.iter().map(|spent| spent.wanted).fold(0.0, f64::max),
            rss_mib_max: self.rss_mib_max,
        };
        let mut outcome = Outcome {
            schema: SCHEMA.to_owned(),
            start: started_at(begin),
            start_monotonic_ns: begin,
            duration_s,
            settings: self.plan.settings(),
            counts,
            hist,
            seconds,
            generator,
            first_errors: complaints.first(),
            invalid_reasons: Vec::new(),
        };
        outcome.invalid_reasons = verdict::reasons(self.plan, &outcome);
        if halted {
            outcome.invalid_reasons.push("ended early".into());
        }
        outcome
    }
}

/// The date of a moment of the monotonic clock.
fn started_at(moment: u64) -> String {
    let ago = Duration::from_nanos(clock::now().saturating_sub(moment));
    let date = time::OffsetDateTime::now_utc() - ago;
    // The form has no field that a date in UTC lacks.
    date.format(&time::format_description::well_known::Rfc3339).unwrap_or_default()
}

/// Resident memory of this process.
fn resident_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests;
