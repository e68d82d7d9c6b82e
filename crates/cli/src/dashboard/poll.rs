//! The thread that reads the mesh again and again.

use super::Shared;
use super::counters::Node;
use super::happenings::Happening;
use super::history::Taken;
use crate::args::home::Scope;
use crate::home::{Home, Member};
use leno_up::journal::{Event, Severity};
use leno_up::request::{Reply, Request, ask};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two readings on one machine.
const MACHINE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two readings of a cluster, where each proxy is asked through the API server.
const CLUSTER_INTERVAL: Duration = Duration::from_secs(5);

/// Reads everything once.
pub(super) fn read(home: &Home, scope: &Scope) -> anyhow::Result<Taken> {
    let members = home.members(scope)?;
    let said = home.said(&members)?.into_iter().map(|(said, _)| said).collect();
    let journal = match home {
        Home::Machine(state) => journal(state, &members),
        // In a cluster, the events of pods are not ours.
        Home::Cluster(_) => Vec::new(),
    };
    Ok(Taken { members, said, journal })
}

/// Reads for as long as the process runs. The last good state stays while the mesh cannot be read.
pub(super) fn run(home: &Home, scope: &Scope, first: Taken, shared: &Shared) {
    shared.lock().record(now(), first);
    let interval = match home {
        Home::Machine(_) => MACHINE_INTERVAL,
        Home::Cluster(_) => CLUSTER_INTERVAL,
    };
    let mut took = Duration::ZERO;
    loop {
        // At most half of the time is spent with reading, however large the mesh is.
        std::thread::sleep(interval.saturating_sub(took).max(took));
        let began = Instant::now();
        match read(home, scope) {
            Ok(taken) => shared.lock().record(now(), taken),
            Err(error) => shared.lock().failed = Some(format!("{error:#}")),
        }
        took = began.elapsed();
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}

/// The events that `leno events` shows.
fn journal(state: &Path, members: &[Member]) -> Vec<Happening> {
    match ask(state, &Request::Events) {
        Ok(Reply::Events(events)) => {
            events.into_iter().map(|event| happening(event, members)).collect()
        }
        // The graph is complete without events.
        _ => Vec::new(),
    }
}

fn happening(event: Event, members: &[Member]) -> Happening {
    let pod = event.object.strip_prefix("Pod ");
    let is_of =
        |member: &&Member| member.namespace == event.namespace && Some(member.name.as_str()) == pod;
    Happening {
        at: event.last_seen,
        warning: event.r#type == Severity::Warning,
        node: members.iter().find(is_of).map(|member| Node::of(member).id()).unwrap_or_default(),
        reason: event.reason,
        object: event.object,
        message: event.message,
        count: event.count,
    }
}
