//! The ports that were reached, and the Servers that they need.

use super::Today;
use super::yaml::{self, cut};
use crate::record::Seen;
use crate::source::policy::LENO;
use crate::world::World;
use crate::world::pod::Pod;
use crate::world::policy::GATEWAY_KIND;
use leno_model::name::Resource;
use leno_model::policy::{InboundPolicy, InboundProtocol};
use leno_model::record::{Entry, Outcome, judge};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A port of some pods.
pub(super) struct Plan<'w> {
    /// One of the pods.
    pub(super) pod: &'w Arc<Pod>,
    pub(super) port: u16,
    /// The Server's group and name.
    pub(super) group: Arc<str>,
    pub(super) name: String,
    /// Whether the Server does not exist yet.
    pub(super) is_new: bool,
    /// XAuthorizationPolicies alone decide about the port: it needs no Server.
    pub(super) is_gateways: bool,
    pub(super) protocol: InboundProtocol,
    /// What passed, with counts.
    pub(super) seen: Vec<(Entry, u64)>,
    /// What a Server alone does not admit.
    pub(super) needed: Vec<(Entry, u64)>,
    /// What XAuthorizationPolicies that select the pod do not admit.
    pub(super) ungoverned: Vec<(Entry, u64)>,
}

/// A plan for each port that was reached, and what is not in a plan.
pub(super) fn plans<'w>(today: &Today<'w>, seen: &[Seen]) -> (Vec<Plan<'w>>, Vec<String>) {
    let mut notes = Vec::new();
    let mut plans: BTreeMap<(String, u16), Plan<'w>> = BTreeMap::new();
    let servers = today.inventory.servers.iter().map(|server| server.key.name.to_string());
    let mut names: BTreeSet<String> = servers.collect();
    let pods = pods_of(today.world, seen);
    for Seen { workload: (namespace, kind, name), entries, lost } in seen {
        let Some(pod) = pods.get(&(&**namespace, &**kind, &**name)).copied() else {
            notes.push(format!("{kind}/{name} has no pod in the mesh any more, and is left out"));
            continue;
        };
        if *lost > 0 {
            notes.push(format!(
                "the record of {kind}/{name} is full: it lacks {lost} requests and connections"
            ));
        }
        for (entry, count) in entries.iter().filter(|(entry, _)| entry.outcome.passes()) {
            let Some(policy) = today.world.inbound(&pod.id, entry.port) else { continue };
            let of_server = match &policy.server {
                Resource::Object { group, name, .. } if policy.server.kind() == "server" => {
                    format!("{group}/{name}")
                }
                _ => format!("{:?}", pod.selecting_labels()),
            };
            let plan = plans
                .entry((of_server, entry.port))
                .or_insert_with(|| Plan::new(pod, (name, entry.port), &policy, &mut names));
            plan.seen.push((entry.clone(), *count));
        }
    }
    (plans.into_values().collect(), notes)
}

/// A pod of each workload, by namespace, kind and name: a ready one where there is one. One look at all pods, as there may be a
/// thousand workloads.
fn pods_of<'w>(
    world: &'w World,
    seen: &[Seen],
) -> HashMap<(&'w str, &'w str, &'w str), &'w Arc<Pod>> {
    let namespaces: BTreeSet<&str> = seen.iter().map(|one| &*one.workload.0).collect();
    let mut found: HashMap<_, &Arc<Pod>> = HashMap::new();
    for namespace in namespaces {
        let pods = world.pods_of_namespace(namespace);
        for pod in pods.filter(|pod| pod.meshed && !pod.terminating) {
            let (kind, name) = pod.workload();
            let known = found.entry((&*pod.id.namespace, kind, name)).or_insert(pod);
            if pod.ready && !known.ready {
                *known = pod;
            }
        }
    }
    found
}

impl<'w> Plan<'w> {
    fn new(
        pod: &'w Arc<Pod>,
        (workload, port): (&str, u16),
        policy: &InboundPolicy,
        names: &mut BTreeSet<String>,
    ) -> Self {
        let is_gateways = policy.server.kind() == GATEWAY_KIND;
        let (group, name, is_new) = match &policy.server {
            Resource::Object { group, name, .. } if policy.server.kind() == "server" => {
                (group.clone(), name.to_string(), false)
            }
            _ => (LENO.into(), unused(names, format!("{workload}-{port}")), !is_gateways),
        };
        let protocol = policy.protocol;
        let (seen, needed, ungoverned) = (Vec::new(), Vec::new(), Vec::new());
        Self { pod, port, group, name, is_new, is_gateways, protocol, seen, needed, ungoverned }
    }

    /// Finds what needs a rule: what `policy` does not admit, and what the pod's XAuthorizationPolicies do not.
    pub(super) fn look(
        &mut self,
        policy: Option<&InboundPolicy>,
        governing: Option<&InboundPolicy>,
    ) {
        let admits = |policy: &InboundPolicy, entry: &Entry| {
            judge(policy, entry).outcome() == Some(Outcome::Allowed)
        };
        // Health probes are admitted by the Server alone.
        let denied = self.seen.iter().filter(|(one, _)| !policy.is_some_and(|of| admits(of, one)));
        let denied: Vec<_> = denied.cloned().collect();
        if let Some(governing) = governing {
            let ungoverned = denied.iter().filter(|(one, _)| !admits(governing, one));
            self.ungoverned = ungoverned.cloned().collect();
        }
        if !self.is_gateways {
            self.needed = denied;
        }
    }

    /// Writes its Server, where it is a new one.
    pub(super) fn server(&self, text: &mut String, audit: bool) {
        if !self.is_new {
            return;
        }
        yaml::server(text, self.pod, (&self.name, self.port), self.protocol);
        if audit {
            text.push_str(
                "  # It denies nothing yet. Without this line it denies what no rule admits.\n",
            );
            text.push_str("  accessPolicy: audit\n");
        }
    }
}

/// A name that no object of the kind has; it has one then.
pub(super) fn unused(names: &mut BTreeSet<String>, wanted: String) -> String {
    let wanted = cut(wanted);
    let numbered = (2..).map(|number| cut(format!("{wanted}-{number}")));
    let mut all = std::iter::once(wanted.clone()).chain(numbered);
    let name = all.find(|name| !names.contains(name)).unwrap_or(wanted);
    names.insert(name.clone());
    name
}
