//! One container (or the proxy) kept running: start, watch its health, start again, end in order.

use super::Run;
use crate::container::Start;
use crate::logs::Log;
use crate::probe::{self, Judge, Question, Timing};
use crate::stage;
use leno_runtime::backoff::Backoff;
use leno_runtime::file::write_atomically;
use leno_runtime::tasks;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::net::IpAddr;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};

/// Restarts back off as in Kubernetes, from a shorter first delay: a person is waiting.
const RESTART: Backoff =
    Backoff { min: Duration::from_secs(1), max: Duration::from_mins(1), jitter_ratio: 0.0 };
/// A container that ran so long starts over with the shortest delay.
const RAN_WELL: Duration = Duration::from_mins(10);
/// A container that is not ready yet is asked this soon again, then twice as late each time up to its period.
const ASK_SOON: Duration = Duration::from_millis(25);

/// When a process that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Always,
    /// When it ended with another code than 0.
    OnFailure,
    Never,
}

/// What comes before SIGTERM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreStop {
    /// A program in the container.
    Exec(Vec<String>),
    /// A wait.
    Sleep(Duration),
}

/// Health probes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// Until this succeeds the others wait.
    pub startup: Option<(Question, Timing)>,
    /// Whether it takes traffic.
    pub readiness: Option<(Question, Timing)>,
    /// Whether it must be started again.
    pub liveness: Option<(Question, Timing)>,
}

/// A process to keep.
#[derive(Clone, Debug)]
pub struct Process {
    /// The container's name.
    pub name: String,
    /// How it is started.
    pub start: Start,
    /// When it is started again.
    pub restart: Restart,
    /// Fails for good after so many.
    pub restarts_max: Option<u32>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The same where its liveness probe has failed: what hangs does not end by itself.
    pub unhealthy_grace: Option<Duration>,
    /// What comes before SIGTERM.
    pub pre_stop: Option<PreStop>,
    /// Health probes.
    pub probes: Probes,
}

/// What the health task has found.
enum Health {
    Ready(bool),
    Dead(String),
}

/// How one run of the process came to its end.
enum Ending {
    Exited(ExitStatus),
    Unhealthy(String),
    Stopped,
}

/// Ready when `end` says so, or nobody is left who could.
pub async fn told(end: &mut watch::Receiver<bool>) {
    drop(end.wait_for(|end| *end).await);
}

/// Keeps the process until it may stay ended, or `end` says so; answers whether it ended well.
pub async fn keep(run: Arc<Run>, process: Process, mut end: watch::Receiver<bool>) -> bool {
    let log = Log::open(
        &run.home.paths,
        &run.key.0,
        &run.key.1,
        &process.name,
        run.home.show_logs && process.name != super::PROXY_NAME,
    );
    let (mut restarts, mut delays) = (0_u32, 0_u32);
    let mut before = String::new();
    loop {
        let began = Instant::now();
        let (well, said) = match once(&run, &process, &log, &before, &mut end).await {
            Ok(Ending::Stopped) => return true,
            Ok(Ending::Unhealthy(why)) => (false, why),
            Ok(Ending::Exited(status)) => (status.success(), describe(status)),
            Err(error) => (false, error.to_string()),
        };
        if *end.borrow() {
            return well;
        }
        let again = match process.restart {
            Restart::Always => true,
            Restart::OnFailure => !well,
            Restart::Never => false,
        } && process.restarts_max.is_none_or(|max| restarts < max);
        let shown = if well { "completed".to_owned() } else { said };
        if !again {
            set(&run, &process.name, |state| {
                state.pid = None;
                state.ready = false;
                state.unproven_since = None;
                state.reason = if well { "Completed" } else { "Error" }.to_owned();
                state.state = format!("ended: {shown}");
            });
            if !well {
                note(&run, "Failed", &format!("container {}: {shown}", process.name));
            }
            return well;
        }
        delays = if began.elapsed() >= RAN_WELL { 0 } else { delays };
        let wait = if delays == 0 { Duration::ZERO } else { RESTART.delay(delays - 1, 0.0) };
        restarts += 1;
        delays += 1;
        let when =
            if wait.is_zero() { "at once".to_owned() } else { format!("in {} s", wait.as_secs()) };
        let what = format!("container {}: {shown}; restart {when}", process.name);
        note(&run, "BackOff", &what);
        set(&run, &process.name, |state| {
            state.pid = None;
            state.ready = false;
            state.unproven_since = None;
            state.restarts = restarts;
            state.reason = match (wait.is_zero(), well) {
                (false, _) => "CrashLoopBackOff",
                (true, true) => "Completed",
                (true, false) => "Error",
            }
            .to_owned();
            state.state = format!("waiting {} s to restart: {shown}", wait.as_secs());
        });
        before = format!(" (before: {shown})");
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = told(&mut end) => return well,
        }
    }
}

/// An event of the pod.
fn note(run: &Run, reason: &str, message: &str) {
    let object = format!("Pod {}", run.key.1);
    run.home.journal.warning(reason, (&run.key.0, &object), message);
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Changes the state of a container, and what follows from it for its pod.
fn set(run: &Run, name: &str, edit: impl FnOnce(&mut crate::world::ContainerState)) {
    run.home.shared.change_pod(&run.key, |pod| {
        if let Some(container) = pod.container(name) {
            edit(container);
        }
        let inits = pod.template.spec.init_containers.iter().flatten();
        let passing: Vec<&str> = inits
            .filter(|container| !crate::plan::is_sidecar(container))
            .map(|container| container.name.as_str())
            .collect();
        let staying = pod.containers.iter().filter(|state| !passing.contains(&state.name.as_str()));
        let waiting = pod.proxy.iter().chain(staying).find(|state| !state.ready);
        let (ready, reason) = match waiting {
            None => (true, String::new()),
            Some(state) => (false, format!("{}: {}", state.name, state.state)),
        };
        pod.ready = ready;
        pod.reason = reason;
    });
}

/// Starts it once and waits for its end. `before` is how it ended the last time, for the status.
async fn once(
    run: &Arc<Run>,
    process: &Process,
    log: &Arc<Log>,
    before: &str,
    end: &mut watch::Receiver<bool>,
) -> io::Result<Ending> {
    let mut child = start(run, process, log).await?;
    let pid = child.id();
    // Without a startup or readiness probe it is ready as soon as it runs.
    let ready = process.probes.startup.is_none() && process.probes.readiness.is_none();
    set(run, &process.name, |state| {
        state.pid = pid;
        state.ready = ready;
        state.reason.clear();
        state.unproven_since = ready.then(Instant::now);
        state.state = running(ready, "its probe has not succeeded yet", before);
    });
    let (report, mut reports) = mpsc::channel(4);
    let asking = health(Arc::clone(run), process.clone(), pid.unwrap_or(0), report);
    let _health = tasks::spawn_owned("probes", asking);
    loop {
        tokio::select! {
            status = child.wait() => return Ok(Ending::Exited(status?)),
            () = told(end) => {
                stop(run, process, process.grace, &mut child).await;
                return Ok(Ending::Stopped);
            }
            Some(found) = reports.recv() => match found {
                Health::Ready(ready) => set(run, &process.name, |state| {
                    state.ready = ready;
                    state.state = running(ready, "its readiness probe fails", before);
                }),
                Health::Dead(why) => {
                    note(run, "Unhealthy", &format!("container {}: {why}; it is ended", process.name));
                    stop(run, process, process.unhealthy_grace.unwrap_or(process.grace), &mut child).await;
                    return Ok(Ending::Unhealthy(why));
                }
            },
        }
    }
}

fn running(ready: bool, unready: &str, before: &str) -> String {
    if ready { "running".to_owned() } else { format!("running, {unready}{before}") }
}

async fn start(run: &Run, process: &Process, log: &Arc<Log>) -> io::Result<Child> {
    let file = run.directory.join(format!("{}.json", process.name));
    let text = serde_json::to_vec(&process.start)?;
    // A second start needs no room on the disk.
    if std::fs::read(&file).ok().as_ref() != Some(&text) {
        let written = write_atomically(&file, &text, 0o600);
        run.home.journal.room(&run.home.paths, &written);
        written?;
    }
    let mut command = Command::new(&run.home.leno);
    command
        .arg(stage::CONTAINER)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = run.room.start(command).await?;
    if let Some(output) = child.stdout.take() {
        log.take(output);
    }
    if let Some(output) = child.stderr.take() {
        log.take(output);
    }
    Ok(child)
}

/// What comes before SIGTERM, SIGTERM, and SIGKILL when the time is over.
async fn stop(run: &Run, process: &Process, grace: Duration, child: &mut Child) {
    set(run, &process.name, |state| {
        state.ready = false;
        state.state = "ending".to_owned();
    });
    let Some(pid) = child.id() else { return };
    let gentle = async {
        match &process.pre_stop {
            Some(PreStop::Exec(command)) => {
                if let Err(error) = exec(run, &process.name, pid, command).await {
                    tracing::warn!("{}: preStop: {error}", process.name);
                }
            }
            Some(PreStop::Sleep(wait)) => tokio::time::sleep(*wait).await,
            None => {}
        }
        let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM);
        drop(child.wait().await);
    };
    let ended = tokio::time::timeout(grace, gentle).await.is_ok();
    if !ended {
        drop(child.kill().await);
    }
}

/// Runs a program inside a container and waits for it.
///
/// # Errors
/// It cannot be started, or ended with another code than 0.
pub async fn exec(run: &Run, container: &str, pid: u32, command: &[String]) -> Result<(), String> {
    let mut inside = Command::new(&run.home.leno);
    inside
        .arg(stage::INSIDE)
        .arg(run.directory.join(format!("{container}.json")))
        .arg(pid.to_string())
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = run.room.start(inside).await.map_err(|error| error.to_string())?;
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(describe(status)),
        Err(error) => Err(error.to_string()),
    }
}

async fn ask(
    run: &Run,
    name: &str,
    pid: u32,
    question: &Question,
    timing: Timing,
) -> Result<(), String> {
    match question {
        Question::Exec(command) => {
            match tokio::time::timeout(timing.timeout, exec(run, name, pid, command)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer in {} s", timing.timeout.as_secs())),
            }
        }
        network => probe::once(network, IpAddr::V4(run.address.v4), timing.timeout).await,
    }
}

/// Asks as long as the process runs.
async fn health(run: Arc<Run>, process: Process, pid: u32, report: mpsc::Sender<Health>) {
    let (run, name) = (&run, process.name.as_str());
    if let Some((question, timing)) = &process.probes.startup {
        tokio::time::sleep(timing.initial_delay).await;
        // Asked sooner than its period, but allowed the time that its period and threshold give.
        let until = tokio::time::Instant::now() + timing.period * timing.failures;
        let mut wait = ASK_SOON;
        while let Err(why) = ask(run, name, pid, question, *timing).await {
            if tokio::time::Instant::now() >= until {
                drop(report.send(Health::Dead(format!("startup probe: {why}"))).await);
                return;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(timing.period);
        }
        if process.probes.readiness.is_none() {
            drop(report.send(Health::Ready(true)).await);
        }
    }
    let readiness = async {
        let Some((question, timing)) = &process.probes.readiness else { return };
        tokio::time::sleep(timing.initial_delay).await;
        let mut judge = Judge::new(*timing, false);
        let (mut wait, mut was_ready) = (ASK_SOON, false);
        loop {
            let answer = ask(run, name, pid, question, *timing).await;
            if let Some(ready) = judge.take(answer.is_ok()) {
                was_ready = true;
                drop(report.send(Health::Ready(ready)).await);
            }
            let pause = if was_ready { timing.period } else { wait };
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(timing.period);
        }
    };
    let liveness = async {
        let Some((question, timing)) = &process.probes.liveness else { return };
        tokio::time::sleep(timing.initial_delay.max(timing.period)).await;
        let mut judge = Judge::new(*timing, true);
        loop {
            if let Err(why) = ask(run, name, pid, question, *timing).await {
                if judge.take(false).is_some() {
                    drop(report.send(Health::Dead(format!("liveness probe: {why}"))).await);
                    return;
                }
            } else {
                judge.take(true);
            }
            tokio::time::sleep(timing.period).await;
        }
    };
    tokio::join!(readiness, liveness);
}

/// Waits until a sidecar has started: running, its startup probe passed.
pub async fn until_started(run: &Run, name: &str, end: &mut watch::Receiver<bool>) {
    let mut changes = run.home.shared.changes();
    loop {
        let started = run.home.shared.read(|world| {
            let pod = world.pods.get(&run.key)?;
            let state = pod.containers.iter().chain(&pod.proxy).find(|state| state.name == name)?;
            Some(state.ready)
        });
        if started != Some(false) {
            return;
        }
        tokio::select! {
            _ = changes.changed() => {}
            () = told(end) => return,
        }
    }
}
