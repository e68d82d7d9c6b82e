//! Policy objects compiled: who may reach the ports of pods. Pure.
//!
//! - `report.rs`: what is wrong with an object, and its condition `Accepted`.
//! - `reference.rs`: references between objects.
//! - `identity.rs`: texts of identities and networks to the model's.
//! - `authentication.rs`: MeshTLSAuthentication and NetworkAuthentication.
//! - `authorization.rs`: AuthorizationPolicy and ServerAuthorization.
//! - `gateway.rs`: XAuthorizationPolicy of the Gateway API.
//! - `minimum.rs`: what the minimum of a namespace takes from rules.
//! - `rate.rs`: HTTPLocalRateLimitPolicy.
//! - `route.rs`: routes on Servers.
//! - `selector.rs`: label selectors.
//! - `server.rs`: Servers, and the policy of a pod's port.
//!
//! Kinds, precedence and meaning are Linkerd's. Whatever cannot be used admits no client, and is reported on its object.

mod authentication;
mod authorization;
mod gateway;
pub(super) mod identity;
mod minimum;
mod rate;
mod reference;
pub(super) mod report;
mod route;
mod selector;
mod server;

use super::MeshNames;
use super::pod::Pod;
use super::route::parent::PatternsByNamespace;
use super::route::verdict::OnServer;
use super::settings::NamespaceSettings;
use crate::source::kubernetes::group_of;
use crate::source::{Inventory, Key, Problem};
use authentication::Authentications;
use gateway::{GatewayPolicy, Governing};
use leno_model::name::WorkloadId;
use leno_model::policy::{Authorization, InboundPolicy, InboundProtocol};
use report::Report;
use server::Server;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

pub use gateway::KIND as GATEWAY_KIND;
pub use report::ObjectVerdict;

/// Rules of one Server, namespace or route.
pub(super) const TARGET_RULES_MAX: usize = 1_000;
/// Identities and networks of all rules of a namespace.
const NAMESPACE_CLIENTS_MAX: usize = 65_536;
/// How many pairs of a pod and a Server are compared to find Servers in conflict, for each namespace.
const CONFLICT_COMPARISONS_MAX: usize = 100_000;

/// Policy objects of all namespaces, compiled.
#[derive(Debug, Default)]
pub struct Policies {
    of_namespace: BTreeMap<Arc<str>, Arc<NamespacePolicies>>,
    /// For namespaces without Servers.
    none: Arc<NamespacePolicies>,
    /// What became of a route on each of its parents that is a Server.
    pub(super) on_servers: HashMap<Key, Vec<OnServer>>,
    pub(super) problems: Vec<Problem>,
    pub(super) verdicts: Vec<ObjectVerdict>,
}

/// Policy objects of one namespace, compiled.
#[derive(Debug, Default, PartialEq)]
pub struct NamespacePolicies {
    /// By precedence: of two Servers that select the same port, the first one decides.
    servers: Vec<Server>,
    /// Rules of policies whose target is the namespace: they hold for each of its Servers.
    rules: Vec<Authorization>,
    /// By name. Those that select a pod hold together.
    gateway: Vec<GatewayPolicy>,
}

/// Of an account or namespace that a rule refers to.
const MISSING: &str = "does not exist; the reference admits no client";

/// What the objects refer to.
struct Objects<'a> {
    inventory: &'a Inventory,
    names: &'a MeshNames,
    settings: &'a NamespaceSettings,
    /// ServiceAccounts: namespace and name.
    declared: HashSet<(&'a str, &'a str)>,
    namespaces: HashSet<&'a str>,
    /// Those of pods.
    accounts: &'a HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
}

impl Objects<'_> {
    /// Whether an account exists, or some pod runs as one of this name.
    fn has_account(&self, namespace: &str, name: &str) -> bool {
        let of_pods = self.accounts.get(namespace).is_some_and(|all| all.contains_key(name));
        name == "default" || of_pods || self.declared.contains(&(namespace, name))
    }

    /// Why nobody is admitted as an account that does not exist.
    fn missing_account(&self, namespace: &str, name: &str) -> Option<String> {
        let is_missing = !self.has_account(namespace, name);
        is_missing.then(|| format!("ServiceAccount {namespace}/{name} {MISSING}"))
    }

    /// Why nobody is admitted as an account of a namespace that does not exist.
    fn missing_namespace(&self, name: &str) -> Option<String> {
        (!self.has_namespace(name)).then(|| format!("Namespace {name} {MISSING}"))
    }

    /// Whether a namespace exists, or some pod is in it.
    fn has_namespace(&self, name: &str) -> bool {
        self.accounts.contains_key(name) || self.namespaces.contains(name)
    }
}

/// The name of an object within its namespace: group and name.
type Named = (&'static str, Arc<str>);

impl Policies {
    /// Compiles the objects of an inventory. Namespaces whose policies are as in `last` keep them.
    pub(super) fn build(
        inventory: &Inventory,
        (names, settings): (&MeshNames, &NamespaceSettings),
        accounts: &HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
        (last, patterns): (&Self, PatternsByNamespace),
    ) -> (Self, PatternsByNamespace) {
        let declared = inventory.service_accounts.iter();
        let declared = declared.map(|account| (&*account.key.namespace, &*account.key.name));
        let declared = declared.collect();
        let namespaces = inventory.namespaces.iter().map(|one| &*one.key.name).collect();
        let objects = Objects { inventory, names, settings, declared, namespaces, accounts };
        let mut report = Report::default();
        let authentications = Authentications::read(&objects, &mut report);
        let mut servers = server::read(&objects, &mut report);
        rate::read(&objects, &mut servers, &mut report);
        let attached = route::attach(inventory, &mut servers, patterns, &mut report);
        let mut namespaces: BTreeMap<Arc<str>, NamespacePolicies> = BTreeMap::new();
        let rules =
            authorization::read(&objects, &authentications, (&servers, &attached), &mut report);
        rules.put(&mut servers, &mut namespaces, &attached.of_servers);
        for server in servers {
            let namespace = server.key.namespace.clone();
            namespaces.entry(namespace).or_default().servers.push(server);
        }
        for (namespace, policies) in gateway::read(&objects, &mut report) {
            namespaces.entry(namespace).or_default().gateway = policies;
        }
        let keep = |(namespace, now): (Arc<str>, NamespacePolicies)| {
            let before = last.of_namespace.get(&namespace).filter(|before| ***before == now);
            (namespace, before.cloned().unwrap_or_else(|| Arc::new(now)))
        };
        let of_namespace = namespaces.into_iter().map(keep).collect();
        let Report { problems, verdicts, .. } = report;
        let none = last.none.clone();
        let on_servers = attached.on_servers;
        (Self { of_namespace, none, on_servers, problems, verdicts }, attached.patterns)
    }

    /// The policies of a namespace.
    pub(super) fn of(&self, namespace: &str) -> &Arc<NamespacePolicies> {
        self.of_namespace.get(namespace).unwrap_or(&self.none)
    }

    /// Servers that select a port of a pod after another one did: the later one has no effect there.
    pub(super) fn conflicts(&self, pods: &BTreeMap<WorkloadId, Arc<Pod>>) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (namespace, policies) in &self.of_namespace {
            let first = WorkloadId { namespace: namespace.clone(), pod: Arc::default() };
            let pods = pods.range(first..).take_while(|(id, _)| id.namespace == *namespace);
            policies.conflicts(pods.map(|(_, pod)| pod), &mut problems);
        }
        problems
    }
}

impl NamespacePolicies {
    /// The policy of a pod's port without probes, where an object selects it. `protocol` is that of a port without a Server.
    pub(super) fn policy(
        &self,
        pod: &Pod,
        port: u16,
        protocol: InboundProtocol,
    ) -> Option<InboundPolicy> {
        let server = self.servers.iter().find(|server| server.selects(pod, port));
        let governing = Governing::find(&self.gateway, pod, port);
        match (server, governing) {
            (None, governing) => governing.map(|governing| governing.policy(protocol)),
            (Some(server), None) => Some(server.policy(&self.rules, pod)),
            (Some(server), Some(governing)) => {
                let mut policy = server.policy(&self.rules, pod);
                policy.narrow(&governing.bounds());
                Some(policy)
            }
        }
    }

    /// The clients that XAuthorizationPolicies admit to a pod's port, where one selects the pod.
    pub(super) fn governing(&self, pod: &Pod, port: u16) -> Option<Vec<Authorization>> {
        Governing::find(&self.gateway, pod, port).map(Governing::bounds)
    }

    /// The same as a policy of the port, without probes.
    pub(super) fn governing_policy(
        &self,
        pod: &Pod,
        (port, protocol): (u16, InboundProtocol),
    ) -> Option<InboundPolicy> {
        Some(Governing::find(&self.gateway, pod, port)?.policy(protocol))
    }

    /// The Server that selects a pod's port.
    pub(super) fn server_of(&self, pod: &Pod, port: u16) -> Option<&Key> {
        let server = self.servers.iter().find(|server| server.selects(pod, port))?;
        Some(&server.key)
    }

    /// The ports of a pod that Servers select, or rules of XAuthorizationPolicies name.
    pub(super) fn ports_of(&self, pod: &Pod) -> impl Iterator<Item = u16> {
        let of_gateway = self.gateway.iter().flat_map(|policy| policy.ports_of(pod));
        self.servers.iter().flat_map(|server| server.ports_of(pod)).chain(of_gateway)
    }

    fn conflicts<'a>(&self, pods: impl Iterator<Item = &'a Arc<Pod>>, problems: &mut Vec<Problem>) {
        if self.servers.len() < 2 {
            return;
        }
        let pods_max = CONFLICT_COMPARISONS_MAX / self.servers.len();
        let mut found: BTreeMap<usize, Problem> = BTreeMap::new();
        for pod in pods.take(pods_max) {
            let mut taken: HashMap<u16, &Server> = HashMap::new();
            for (number, server) in self.servers.iter().enumerate() {
                for port in server.ports_of(pod) {
                    let first = *taken.entry(port).or_insert(server);
                    if first.key != server.key {
                        found.entry(number).or_insert_with(|| server.conflict(first, pod, port));
                    }
                }
            }
        }
        problems.extend(found.into_values());
    }
}

/// The API group of an object.
fn group(key: &Key) -> &'static str {
    group_of(key.kind).0
}
