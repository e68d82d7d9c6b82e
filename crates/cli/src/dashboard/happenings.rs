//! What happened between two readings: pods, rollouts, denials, ejections, new certificates. Pure.

use super::counters::{Facts, Key, Node};
use super::interned::Interned;
use super::sums::Sums;
use crate::home::Member;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// The same about the same object within so many seconds is one happening that counts.
const SAME_SECONDS: u64 = 60;
/// It is looked for among so many of the newest.
const SAME_MAX: usize = 200;
/// Labels that tell the versions of a workload's pods apart.
const VERSIONS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// Something on the timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Happening {
    /// In seconds since 1970.
    pub(super) at: u64,
    /// Whether somebody should look.
    pub(super) warning: bool,
    /// One word, such as `Ready`.
    pub(super) reason: String,
    /// The node of the graph; empty where there is none.
    pub(super) node: String,
    /// Kind and name, such as `Pod web-1`.
    pub(super) object: String,
    pub(super) message: String,
    pub(super) count: u32,
}

impl Happening {
    /// About a whole workload.
    fn of(node: &Node, at: u64, warning: bool, reason: &str, message: String) -> Self {
        let (reason, object) = (reason.to_owned(), node.shown());
        Self { at, warning, reason, node: node.id(), object, message, count: 1 }
    }
}

/// Pods that came, went, or changed their readiness, and rollouts.
pub(super) fn changes(before: &[Member], now_all: &[Member], at: u64) -> Vec<Happening> {
    fn named(members: &[Member]) -> HashMap<(&str, &str), &Member> {
        let live = members.iter().filter(|member| !member.ending);
        live.map(|member| ((&*member.namespace, &*member.name), member)).collect()
    }
    let happening = |member: &Member, warning: bool, reason: &str, message: &str| Happening {
        at,
        warning,
        reason: reason.to_owned(),
        node: Node::of(member).id(),
        object: format!("Pod {}/{}", member.namespace, member.name),
        message: message.to_owned(),
        count: 1,
    };
    let (then, now) = (named(before), named(now_all));
    let mut changed = Vec::new();
    for (name, member) in &now {
        match then.get(name) {
            None => changed.push(happening(member, false, "Started", "the pod is new")),
            Some(old) if old.ready && !member.ready => {
                changed.push(happening(member, true, "NotReady", "the pod is not ready any more"));
            }
            Some(old) if !old.ready && member.ready => {
                changed.push(happening(member, false, "Ready", "the pod is ready"));
            }
            Some(_) => {}
        }
    }
    for (name, member) in &then {
        if !now.contains_key(name) {
            changed.push(happening(member, false, "Ended", "the pod is ending or gone"));
        }
    }
    changed.extend(rollouts(before, now_all, at));
    changed.sort_by(|a, b| (&a.object, &a.reason).cmp(&(&b.object, &b.reason)));
    changed
}

/// Versions of the live pods of each workload.
fn versions(members: &[Member]) -> BTreeMap<Node, BTreeSet<&str>> {
    let mut all: BTreeMap<Node, BTreeSet<&str>> = BTreeMap::new();
    for member in members.iter().filter(|member| !member.ending) {
        if let Some(version) = VERSIONS.iter().find_map(|label| member.labels.get(*label)) {
            all.entry(Node::of(member)).or_default().insert(version);
        }
    }
    all
}

/// Workloads with pods of a version that they did not have, and those whose last pod of an old version has gone.
fn rollouts(before: &[Member], now: &[Member], at: u64) -> Vec<Happening> {
    let (then, now) = (versions(before), versions(now));
    let rollout = |(node, versions): (&Node, &BTreeSet<&str>)| {
        let old = then.get(node)?;
        let (reason, message) = if versions.difference(old).next().is_some() {
            ("RolloutStarted", "pods of a new version start")
        } else if old.len() > 1 && versions.len() == 1 {
            ("RolloutEnded", "all pods are of one version")
        } else {
            return None;
        };
        Some(Happening::of(node, at, false, reason, message.to_owned()))
    };
    now.iter().filter_map(rollout).collect()
}

/// Denials and ejections in what was counted since the last reading.
pub(super) fn counted(growth: &HashMap<Interned, Sums>, at: u64) -> Vec<Happening> {
    let denied = |client: &Node, server: &Node, count: u64| Happening {
        object: format!("{} -> {}", client.shown(), server.shown()),
        count: u32::try_from(count).unwrap_or(u32::MAX),
        ..Happening::of(server, at, true, "Denied", "policy denied requests or connections".into())
    };
    let ejected = |client: &Node, service: &str, reason: &str, count: u64| {
        let is_recovery = reason == "recovered";
        let word = if is_recovery { "Recovered" } else { "Ejected" };
        let message = match is_recovery {
            true => "an ejected endpoint answers again".to_owned(),
            false => format!("an endpoint gets no requests: {}", reason.replace('_', " ")),
        };
        Happening {
            object: format!("Service {service}, seen by {}", client.shown()),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            ..Happening::of(client, at, !is_recovery, word, message)
        }
    };
    let mut all = Vec::new();
    for (key, sums) in growth {
        match &**key {
            Key::Edge(client, server) if sums.denied > 0 => {
                all.push(denied(client, server, sums.denied));
            }
            Key::Ejections(client, service) => {
                let reasons = sums.reasons.iter();
                all.extend(reasons.map(|(reason, count)| ejected(client, service, reason, *count)));
            }
            _ => {}
        }
    }
    all.sort_by(|a, b| (&a.object, &a.reason).cmp(&(&b.object, &b.reason)));
    all
}

/// What the proxy of a pod of this workload says now, unlike before: a new certificate, other roots.
pub(super) fn rotated(node: &Node, before: &Facts, now: &Facts, at: u64) -> Vec<Happening> {
    let mut all = Vec::new();
    if before.anchors != 0 && now.anchors != 0 && before.anchors != now.anchors {
        let message = "proxies trust other root certificates";
        all.push(Happening::of(node, at, false, "RootsChanged", message.to_owned()));
    }
    let renewed = before.certificate_expires.zip(now.certificate_expires);
    if renewed.is_some_and(|(before, now)| before > 0.0 && now > before) {
        let message = "proxies have new certificates";
        all.push(Happening::of(node, at, false, "CertificateRenewed", message.to_owned()));
    }
    all
}

/// Adds what happened; what repeats is one happening that counts.
pub(super) fn add(known: &mut VecDeque<Happening>, new: Vec<Happening>) {
    for happening in new {
        let is_same = |one: &&mut Happening| {
            one.at + SAME_SECONDS >= happening.at
                && (&one.reason, &one.object, &one.message)
                    == (&happening.reason, &happening.object, &happening.message)
        };
        match known.iter_mut().rev().take(SAME_MAX).find(is_same) {
            Some(one) => {
                one.count = one.count.saturating_add(happening.count);
                one.at = happening.at;
            }
            None => known.push_back(happening),
        }
    }
}
