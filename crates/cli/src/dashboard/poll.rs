//! The thread that reads the mesh again and again.

use super::Shared;
use super::counters::Node;
use super::happenings::Happening;
use super::history::Taken;
use crate::args::home::Scope;
use crate::home::{Home, Member};
use leno_up::journal::{Event, Severity};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two readings on one machine.
const MACHINE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two readings of a cluster, where each proxy is asked through the API server.
const CLUSTER_INTERVAL: Duration = Duration::from_secs(5);
/// Between two lists of events of a cluster, which may be long.
const CLUSTER_EVENTS_INTERVAL: Duration = Duration::from_secs(30);

/// The events of a cluster, which are read less often than metrics.
#[derive(Debug, Default)]
pub(super) struct Events {
    read_at: Option<Instant>,
    kept: Vec<Happening>,
}

impl Events {
    fn read(&mut self, home: &Home, scope: &Scope, members: &[Member]) -> Vec<Happening> {
        let interval = match home {
            Home::Machine(_) => Duration::ZERO,
            Home::Cluster(_) => CLUSTER_EVENTS_INTERVAL,
        };
        if self.read_at.is_none_or(|at| at.elapsed() >= interval) {
            self.read_at = Some(Instant::now());
            // The graph is complete without events: a role may have no right to them.
            let events = home.events(scope).unwrap_or_default();
            self.kept = events.into_iter().map(|event| happening(event, members)).collect();
        }
        self.kept.clone()
    }
}

/// Reads everything once.
pub(super) fn read(home: &Home, scope: &Scope, events: &mut Events) -> anyhow::Result<Taken> {
    let members = home.members(scope)?;
    let said = home.said(&members)?.into_iter().map(|(said, _)| said).collect();
    let journal = events.read(home, scope, &members);
    Ok(Taken { members, said, journal })
}

/// Reads for as long as the process runs. The last good state stays while the mesh cannot be read.
pub(super) fn run(home: &Home, scope: &Scope, first: (Taken, Events), shared: &Shared) {
    let (first, mut events) = first;
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
        match read(home, scope, &mut events) {
            Ok(taken) => shared.lock().record(now(), taken),
            Err(error) => shared.lock().failed = Some(format!("{error:#}")),
        }
        took = began.elapsed();
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
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
