//! Load generators: their arguments (pure), and the programs themselves, inside the clients' pods of either home.

use crate::cluster::api::Exec;
use crate::mesh;
use crate::run::bed::{Bed, Generator};
use crate::run::interrupt::Interrupt;
use crate::run::plan::Planned;
use crate::scenario::Scenario;
use crate::scenario::load::{Arrival, Load, Mode, Protocol};
use anyhow::{Context as _, bail};
use k8s_openapi::jiff::Timestamp;
use leno_load::outcome::{Outcome, Second};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A generator that has not ended so long after its time is ended.
const GRACE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// One generator's part of a load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// The pod that it runs in, `namespace/name`.
    pub(crate) pod: String,
    pub(crate) url: String,
    connections: u32,
    rate: Option<f64>,
    points: Vec<(f64, f64)>,
    count: Option<u64>,
}

impl Part {
    /// The same for another URL.
    pub(crate) fn at(&self, url: String) -> Self {
        Self { url, ..self.clone() }
    }
}

/// Divides a load among the clients' pods and its targets. Each part gets at least one connection.
pub(crate) fn divide(
    scenario: &Scenario,
    planned: &Planned,
    rate: Option<f64>,
    pods: &[String],
) -> Vec<Part> {
    let load = &scenario.loads[planned.load];
    let targets = targets(scenario, load);
    let whole: f64 = targets.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let mut parts = Vec::new();
    for pod in pods {
        for (url, weight) in &targets {
            let share = f64::from(*weight) / whole / pods.len() as f64;
            let connections = (f64::from(planned.connections) * share).round().max(1.0) as u32;
            let points = match &load.arrival {
                Arrival::Steps(points) | Arrival::Ramp(points) => points
                    .iter()
                    .map(|point| (point.at.as_secs_f64(), point.rate * share))
                    .collect(),
                _ => Vec::new(),
            };
            parts.push(Part {
                pod: pod.clone(),
                url: url.clone(),
                connections,
                rate: rate.map(|rate| rate * share),
                points,
                count: load
                    .requests
                    .map(|requests| ((requests.count as f64 * share) as u64).max(1)),
            });
        }
    }
    parts
}

/// Targets with `{i}` in them are one for each instance.
fn targets(scenario: &Scenario, load: &Load) -> Vec<(String, u32)> {
    let instances = scenario.topology.instances.as_ref().map_or(1, |instances| instances.count);
    let mut targets = Vec::new();
    for target in &load.targets {
        if target.url.contains("{i}") {
            let each = (0..instances).map(|i| target.url.replace("{i}", &i.to_string()));
            targets.extend(each.map(|url| (url, target.weight)));
        } else {
            targets.push((target.url.clone(), target.weight));
        }
    }
    targets
}

/// How long one generator makes requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// Before the figures begin.
    pub(crate) warm_up: Duration,
    /// What is kept; also the limit where requests are counted.
    pub(crate) measure: Duration,
    /// Ends after the load's number of requests.
    pub(crate) counted: bool,
}

/// The arguments of `leno`.
pub(crate) fn arguments(
    load: &Load,
    mode: Mode,
    part: &Part,
    stretch: Stretch,
    seed: u64,
) -> Vec<String> {
    let mut words: Vec<String> = ["bench", "load", &part.url].map(str::to_owned).to_vec();
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    let time = |duration: Duration| format!("{}ms", duration.as_millis());
    add("--connections", part.connections.to_string());
    if load.streams > 1 {
        add("--streams", load.streams.to_string());
    }
    add("--duration", time(stretch.measure));
    if let Some(count) = part.count.filter(|_| stretch.counted) {
        add("--count", count.to_string());
    }
    if !stretch.warm_up.is_zero() {
        add("--warmup", time(stretch.warm_up));
    }
    let points = part.points.iter().map(|(at, rate)| format!("{at}s:{rate}"));
    let points = points.collect::<Vec<_>>().join(",");
    match &load.arrival {
        Arrival::Closed => {}
        Arrival::Steps(_) | Arrival::Ramp(_) => {
            add("--rate", points);
            add("--arrival", format!("poisson,{}", load.arrival.name()));
        }
        other => {
            add("--rate", part.rate.unwrap_or_default().to_string());
            add("--arrival", other.name().to_owned());
        }
    }
    add("--profile", mode.name().to_owned());
    add("--seed", seed.to_string());
    add("--timeout", time(load.request_wait_max));
    add("--method", load.method.clone());
    for header in &load.headers {
        add("--header", header.clone());
    }
    if load.body_bytes > 0 {
        add("--payload-size", load.body_bytes.to_string());
    }
    // What all generators were late by is judged here, by the scenario's rule.
    add("--lateness-max", "0".to_owned());
    add("--json", "-".to_owned());
    words.push("--no-tui".to_owned());
    match load.protocol {
        Protocol::Http1 | Protocol::Tcp => {}
        Protocol::H2c => words.push("--http2".to_owned()),
        Protocol::Grpc => words.push("--grpc".to_owned()),
        Protocol::GrpcStream => words.push("--grpc-stream".to_owned()),
    }
    if !load.keeps_alive(mode) {
        words.push("--disable-keepalive".to_owned());
    }
    words
}

/// A generator that runs, and what it says.
#[derive(Debug)]
pub(crate) struct Running {
    pod: String,
    program: Program,
}

#[derive(Debug)]
enum Program {
    /// `leno exec` on this machine.
    Process(Process),
    /// In a pod of a cluster.
    Exec(Exec),
}

#[derive(Debug)]
struct Process {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts it inside of its pod.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(bed: &Bed, pod: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let program = match bed {
            Bed::Machine(bed) => Program::Process(Process::start(bed, pod, arguments)?),
            Bed::Cluster(bed) => {
                let argv = [&["leno".to_owned()], arguments].concat();
                Program::Exec(bed.exec(pod, argv)?)
            }
        };
        Ok(Self { pod: pod.to_owned(), program })
    }

    /// What those who look at it have to know.
    pub(crate) fn about(&self) -> Generator {
        let pid = match &self.program {
            Program::Process(process) => Some(process.child.id().cast_signed()),
            Program::Exec(_) => None,
        };
        Generator { pod: self.pod.clone(), pid }
    }

    fn is_over(&mut self) -> anyhow::Result<bool> {
        Ok(match &mut self.program {
            Program::Process(process) => process.child.try_wait()?.is_some(),
            Program::Exec(exec) => exec.is_over(),
        })
    }

    /// What it has seen, once it has ended.
    fn outcome(self) -> anyhow::Result<Outcome> {
        let (status, out, err, is_elsewhere) = match self.program {
            Program::Process(mut process) => {
                let status = process.child.wait()?;
                let said = |reader: Option<JoinHandle<String>>| {
                    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
                };
                let (out, err) = (said(process.out.take()), said(process.err.take()));
                (status.to_string(), out, err, false)
            }
            Program::Exec(exec) => {
                let ended = exec.ended()?;
                (ended.status, ended.out, ended.err, true)
            }
        };
        let last = || {
            let lines: Vec<&str> = err.lines().filter(|line| !line.trim().is_empty()).collect();
            lines[lines.len().saturating_sub(3)..].join("; ")
        };
        let mut outcome: Outcome = serde_json::from_str(&out).with_context(|| {
            format!("the load generator in pod {} ended with {status}: {}", self.pod, last())
        })?;
        if is_elsewhere {
            // Monotonic clocks of two nodes have nothing in common.
            outcome.start_monotonic_ns = since_1970_ns(&outcome.start)?;
        }
        Ok(outcome)
    }
}

/// Nanoseconds of an RFC 3339 time.
fn since_1970_ns(time: &str) -> anyhow::Result<u64> {
    let at: Timestamp = time.parse().with_context(|| format!("the generator's start {time:?}"))?;
    Ok(u64::try_from(at.as_nanosecond())?)
}

impl Process {
    fn start(bed: &mesh::Bed, pod: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let leno = std::env::current_exe()?.to_string_lossy().into_owned();
        let argv = [&[leno], arguments].concat();
        let mut child = bed
            .command_in(pod, &argv)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C is for us, and one signal ends `leno exec` and what it runs.
            .process_group(0)
            .spawn()
            .context("leno exec")?;
        let out = child.stdout.take().map(read);
        let err = child.stderr.take().map(read);
        Ok(Self { child, out, err })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // It may have ended just now.
            let _sent = killpg(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
            let _ended = self.child.wait();
        }
    }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        // What is not text is noticed where it is parsed.
        let _length = pipe.read_to_string(&mut text);
        text
    })
}

/// Waits for all of them, at most so long, and puts together what they have seen; with the CPU seconds that each has
/// counted of itself.
///
/// # Errors
/// One of them failed, or took too long, or the user wants it to end.
pub(crate) fn wait(
    mut running: Vec<Running>,
    longest: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<(Outcome, Vec<f64>)> {
    let until = Instant::now() + longest + GRACE;
    loop {
        let mut all = true;
        for one in &mut running {
            all &= one.is_over()?;
        }
        if all {
            break;
        }
        if interrupt.is_asked() {
            bail!("interrupted");
        }
        if Instant::now() > until {
            bail!("a load generator did not end within {} s of its time", GRACE.as_secs());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    let outcomes: anyhow::Result<Vec<Outcome>> =
        running.into_iter().map(Running::outcome).collect();
    let outcomes = outcomes?;
    let cpu_s = outcomes.iter().map(|outcome| outcome.generator.cpu_s).collect();
    Ok((merge(outcomes), cpu_s))
}

/// What several generators have seen together, as if it had been one. Seconds are those of each one's own phase.
pub(crate) fn merge(outcomes: Vec<Outcome>) -> Outcome {
    let mut outcomes = outcomes.into_iter();
    let Some(mut whole) = outcomes.next() else { return Outcome::default() };
    for other in outcomes {
        let begin = whole.start_monotonic_ns.min(other.start_monotonic_ns);
        let end = |one: &Outcome| one.start_monotonic_ns as f64 + one.duration_s * 1e9;
        let end = end(&whole).max(end(&other));
        if other.start_monotonic_ns < whole.start_monotonic_ns {
            whole.start = other.start;
        }
        whole.start_monotonic_ns = begin;
        whole.duration_s = (end - begin as f64) / 1e9;
        whole.hist.merge(&other.hist);
        whole.counts.merge(&other.counts);
        for second in other.seconds {
            add_second(&mut whole.seconds, second);
        }
        whole.generator.threads += other.generator.threads;
        whole.generator.cpu_s += other.generator.cpu_s;
        whole.generator.busy_max = whole.generator.busy_max.max(other.generator.busy_max);
        whole.generator.rss_mib_max += other.generator.rss_mib_max;
        for (kind, why) in other.first_errors {
            whole.first_errors.entry(kind).or_insert(why);
        }
        for reason in other.invalid_reasons {
            if !whole.invalid_reasons.contains(&reason) {
                whole.invalid_reasons.push(reason);
            }
        }
    }
    whole.generator.cpu_us_per_req =
        whole.generator.cpu_s * 1e6 / whole.counts.completed.max(1) as f64;
    whole
}

fn add_second(seconds: &mut Vec<Second>, other: Second) {
    match seconds.iter_mut().find(|second| second.at_s == other.at_s) {
        Some(second) => second.merge(&other),
        None => {
            seconds.push(other);
            seconds.sort_by_key(|second| second.at_s);
        }
    }
}

#[cfg(test)]
mod tests;
