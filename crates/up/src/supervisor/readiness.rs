//! When everything is ready, and what is reported of that which is not.

use super::{Error, Options, Talk};
use crate::manifest::Key;
use crate::plan::Kind;
use crate::pod::Home;
use crate::world::{ContainerState, Phase, PodState, World};
use leno_runtime::progress::{self, DRAW_INTERVAL, Left};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// A container without a probe counts as ready once it has run for so long: a program that fails at its start has failed by then.
const SETTLED: Duration = Duration::from_secs(1);
/// How soon those are looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A container that was started again so often is not waited for. With the back-off this is after about seven seconds, in which what
/// it depends on may come up.
const RESTARTS_MAX: u32 = 5;
/// The same for a program that is not there.
const RESTARTS_OF_NOTHING_MAX: u32 = 2;
/// Lines of the log of a container that is not ready.
const LOG_LINES: usize = 10;

/// A pod that is not ready.
struct Waiting {
    key: Key,
    /// The container that it waits for.
    container: String,
    why: String,
    /// It will not become ready by itself.
    hopeless: bool,
}

/// Waits until every pod is ready or completed; says which become ready, and which do not in time.
pub(super) async fn wait(home: &Home, options: &Options, talk: &dyn Talk) -> Result<(), Error> {
    let mut changes = home.shared.changes();
    let mut told = BTreeSet::new();
    let deadline = tokio::time::sleep(options.ready_wait);
    tokio::pin!(deadline);
    let began = Instant::now();
    let mut ticks = tokio::time::interval(DRAW_INTERVAL);
    // In front a person sees what happens next; behind, the exit code is all there is.
    let settled = if options.end_unless_ready { SETTLED } else { Duration::ZERO };
    loop {
        let (ready, waiting) = home.shared.read(|world| look(world, settled));
        for pod in ready {
            if told.insert(pod.clone()) {
                talk.progress(&format!("{pod} is ready"));
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let hopeless = waiting.iter().any(|waiting| waiting.hopeless) && options.end_unless_ready;
        if hopeless {
            report(home, waiting.into_iter().filter(|waiting| waiting.hopeless), talk);
            return Err(Error::NotReady);
        }
        tokio::select! {
            _ = changes.changed() => {}
            _ = ticks.tick() => {
                let elapsed = began.elapsed();
                let left = Left::AtMost(options.ready_wait.saturating_sub(elapsed));
                talk.waiting(&progress::with_times(&awaited(&waiting), elapsed, left), elapsed);
            }
            () = tokio::time::sleep(LOOK_AGAIN), if options.end_unless_ready => {}
            () = &mut deadline => {
                report(home, waiting.into_iter(), talk);
                return Err(Error::NotReady);
            }
        }
    }
}

/// Which pods are awaited: the first with its reason, and how many more.
fn awaited(waiting: &[Waiting]) -> String {
    let first = waiting
        .first()
        .map_or_else(String::new, |Waiting { key, why, .. }| format!("{}/{}: {why}", key.0, key.1));
    match waiting.len() {
        0 | 1 => format!("waiting for {first}"),
        count => format!("waiting for {count} pods: {first}"),
    }
}

fn report(home: &Home, waiting: impl Iterator<Item = Waiting>, talk: &dyn Talk) {
    for Waiting { key, container, why, .. } in waiting {
        talk.problem(&format!("error: pod {}/{} is not ready: {why}", key.0, key.1));
        let log = home.paths.log(&key.0, &key.1, &container);
        for line in last_lines(&log, LOG_LINES) {
            talk.problem(&format!("    {line}"));
        }
    }
}

fn last_lines(file: &Path, count: usize) -> Vec<String> {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(ToString::to_string).collect()
}

/// Pods that are ready, and those that are not.
fn look(world: &World, settled: Duration) -> (Vec<String>, Vec<Waiting>) {
    let (mut ready, mut waiting) = (Vec::new(), Vec::new());
    for workload in world.wanted.values() {
        let (kind, namespace, name) = &workload.key;
        let pods: Vec<_> =
            world.pods.iter().filter(|(_, pod)| pod.workload == workload.key).collect();
        if pods.len() < workload.replicas {
            let why = format!("only {} of {} pods exist", pods.len(), workload.replicas);
            let key = (namespace.clone(), name.clone());
            waiting.push(Waiting { key, container: String::new(), why, hopeless: false });
        }
        for (key, pod) in pods {
            let young = pod.containers.iter().find(|state| !is_settled(state, settled));
            match young {
                None if pod.ready || pod.phase == Phase::Succeeded => {
                    ready.push(format!("{}/{} ({})", key.0, key.1, pod.address.v4));
                }
                Some(young) if pod.ready => {
                    let why = format!("{}: it has just been started", young.name);
                    let container = young.name.clone();
                    waiting.push(Waiting { key: key.clone(), container, why, hopeless: false });
                }
                _ if pod.ending || *kind == Kind::Job => {}
                _ => waiting.push(unready(key, pod)),
            }
        }
    }
    (ready, waiting)
}

fn is_settled(state: &ContainerState, settled: Duration) -> bool {
    state.unproven_since.is_none_or(|since| since.elapsed() >= settled)
}

fn unready(key: &Key, pod: &PodState) -> Waiting {
    let mut states = pod.proxy.iter().chain(&pod.containers);
    let state = states.find(|state| !state.ready && !state.state.starts_with("ended: completed"));
    let hopeless = pod.phase == Phase::Failed || state.is_some_and(is_hopeless);
    Waiting {
        key: key.clone(),
        container: state.map(|state| state.name.clone()).unwrap_or_default(),
        why: pod.reason.clone(),
        hopeless,
    }
}

fn is_hopeless(state: &ContainerState) -> bool {
    let max =
        if state.state.ends_with("exit code 127") { RESTARTS_OF_NOTHING_MAX } else { RESTARTS_MAX };
    state.restarts >= max
}
