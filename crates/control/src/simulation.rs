//! What a policy would change about traffic that was seen: [`simulate`]. Pure.
//!
//! The objects of a manifest take the place of those with the same names. The world that they make then decides about each kind of
//! traffic of the record, by the function by which proxies decide ([`judge`]).

use crate::record::{Seen, Workload};
use crate::source::parse::parse;
use crate::source::{Problem, new_problems};
use crate::suggestion::Today;
use crate::world::World;
use crate::world::pod::Pod;
use leno_model::policy::InboundPolicy;
use leno_model::record::{Entry, Judged, Outcome, judge};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Kinds of pods of one workload that are looked at; during a rollout there are two.
const KINDS_MAX: usize = 8;
/// Ports without traffic that are named.
const UNSEEN_MAX: usize = 100;

/// What a policy would change.
#[derive(Debug, Default)]
pub struct Simulation {
    /// Passes today, and would be denied.
    pub denied: Vec<Change>,
    /// Is denied today, and would pass.
    pub opened: Vec<Change>,
    /// The record does not say enough.
    pub unknown: Vec<Change>,
    /// Kinds of traffic for which nothing changes.
    pub unchanged: usize,
    /// Ports whose policy would change, and that nobody reached.
    pub unseen: Vec<(Workload, u16)>,
    /// What is wrong with the new objects.
    pub problems: Vec<Problem>,
    /// What is to be known about them besides, as that a kind is deprecated.
    pub notes: Vec<Problem>,
}

/// One kind of traffic.
#[derive(Clone, Debug)]
pub struct Change {
    /// What it reached.
    pub workload: Workload,
    /// The traffic.
    pub entry: Entry,
    /// How often it was seen.
    pub count: u64,
    /// By the policy of today.
    pub before: Judged,
    /// By the new policy.
    pub after: Judged,
}

/// Runs the objects of a manifest against what was seen.
#[must_use]
pub fn simulate(today: &Today<'_>, manifest: &str, seen: &[Seen]) -> Simulation {
    let read = parse(&Arc::from(Path::new("new policy")), manifest);
    let namespaces: BTreeSet<Arc<str>> = read
        .objects
        .iter()
        .map(|object| {
            let key = &object.key;
            if key.kind == "Namespace" { key.name.clone() } else { key.namespace.clone() }
        })
        .collect();
    let new = today.with(manifest);
    let mut simulation = Simulation::default();
    simulation.problems.extend(read.problems);
    let problems = new_problems(&new.problems, today.world.problems.iter());
    simulation.problems.extend(problems.into_iter().cloned());
    simulation.notes = simulation.problems.extract_if(.., |problem| problem.is_note).collect();
    let worlds = (today.world, &new);
    let mut reached = HashSet::new();
    let kinds = kinds(today.world, seen);
    for Seen { workload, entries, .. } in seen {
        let (namespace, kind, name) = workload;
        let pods = kinds.get(&(&**namespace, &**kind, &**name)).map_or(&[][..], Vec::as_slice);
        for (entry, count) in entries {
            reached.insert((workload.clone(), entry.port));
            let changes = pods.iter().filter_map(|pod| change(worlds, pod, entry));
            // What is worst is what matters.
            match changes.min_by_key(|(class, ..)| *class) {
                None => simulation.unchanged += 1,
                Some((class, before, after)) => {
                    let (workload, entry) = (workload.clone(), entry.clone());
                    let change = Change { workload, entry, count: *count, before, after };
                    simulation.of(class).push(change);
                }
            }
        }
    }
    simulation.unseen = unseen(worlds, &namespaces, &reached);
    simulation
}

impl Simulation {
    fn of(&mut self, class: Class) -> &mut Vec<Change> {
        match class {
            Class::Denied => &mut self.denied,
            Class::Unknown => &mut self.unknown,
            Class::Opened => &mut self.opened,
        }
    }
}

/// The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Denied,
    Unknown,
    Opened,
}

/// What changes for traffic to a pod, if anything does.
fn change(
    (old, new): (&World, &World),
    pod: &Pod,
    entry: &Entry,
) -> Option<(Class, Judged, Judged)> {
    let before = old.inbound(&pod.id, entry.port)?;
    let after = new.inbound(&pod.id, entry.port)?;
    if is_same(&before, &after) {
        return None;
    }
    let (before, after) = (judge(&before, entry), judge(&after, entry));
    // Where the record does not say what would pass today, it says what did pass.
    let passes = before.outcome().unwrap_or(entry.outcome).passes();
    let class = match after.outcome().map(Outcome::passes) {
        None => Class::Unknown,
        Some(false) if passes => Class::Denied,
        Some(true) if !passes => Class::Opened,
        Some(_) => return None,
    };
    Some((class, before, after))
}

/// Whether both decide alike about everything.
fn is_same(before: &InboundPolicy, after: &InboundPolicy) -> bool {
    (&before.authorizations, &before.routes) == (&after.authorizations, &after.routes)
        && before.protocol == after.protocol
        && before.rejects_unrouted == after.rejects_unrouted
}

/// The pods of each workload that a policy can treat differently, by namespace, kind and name.
fn kinds<'w>(
    world: &'w World,
    seen: &[Seen],
) -> HashMap<(&'w str, &'w str, &'w str), Vec<&'w Arc<Pod>>> {
    let namespaces: BTreeSet<&str> = seen.iter().map(|one| &*one.workload.0).collect();
    let mut found: HashMap<_, Vec<&Arc<Pod>>> = HashMap::new();
    for namespace in namespaces {
        let pods = world.pods_of_namespace(namespace);
        for pod in pods.filter(|pod| pod.meshed && !pod.terminating) {
            let (kind, name) = pod.workload();
            let kinds = found.entry((&*pod.id.namespace, kind, name)).or_default();
            if kinds.len() < KINDS_MAX && !kinds.iter().any(|known| known.is_like(pod)) {
                kinds.push(pod);
            }
        }
    }
    found
}

/// Ports of these namespaces whose policy changes and that nobody reached: the record says nothing about them.
fn unseen(
    (old, new): (&World, &World),
    namespaces: &BTreeSet<Arc<str>>,
    reached: &HashSet<(Workload, u16)>,
) -> Vec<(Workload, u16)> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for pod in namespaces.iter().flat_map(|namespace| old.pods_of_namespace(namespace)) {
        let (kind, name) = pod.workload();
        let workload: Workload = (pod.id.namespace.clone(), kind.into(), name.into());
        if !pod.meshed || pod.terminating || !known.insert(workload.clone()) {
            continue;
        }
        for port in new.ports_of(pod) {
            let policies = (old.inbound(&pod.id, port), new.inbound(&pod.id, port));
            let (Some(before), Some(after)) = policies else { continue };
            let is_new = !is_same(&before, &after) && !reached.contains(&(workload.clone(), port));
            if is_new && found.len() < UNSEEN_MAX {
                found.push((workload.clone(), port));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
