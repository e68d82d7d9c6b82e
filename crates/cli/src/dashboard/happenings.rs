//! What happened to pods between two readings. Pure.

use super::counters::Node;
use crate::home::Member;
use serde::Serialize;
use std::collections::HashMap;

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

/// Pods that came, went, or changed their readiness.
pub(super) fn changes(before: &[Member], now: &[Member], at: u64) -> Vec<Happening> {
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
    let (then, now) = (named(before), named(now));
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
    changed.sort_by(|a, b| (&a.object, &a.reason).cmp(&(&b.object, &b.reason)));
    changed
}
