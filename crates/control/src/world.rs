//! Everything the control plane holds true. Pure: [`World::build`] reads an inventory, the answers read the world.
//!
//! - [`settings`]: annotations, ports, declared protocols.
//! - [`pod`]: workloads, their addresses and identities.
//! - [`service`]: Services, and which endpoints answer for each of their ports.
//! - `backend_policy.rs`: how many retries Services may get.
//! - `breaker.rs`: what Services say of endpoints that fail.
//! - [`route`]: HTTPRoute and GRPCRoute compiled to the model's rules.
//! - `fault.rs`: faults that routes refer to.
//! - [`policy`]: Servers and the rules for their clients.
//! - `probe.rs`: what the kubelet asks of a pod.
//! - [`builder`]: one inventory after another, at the cost of what changed.
//! - [`outbound`], [`inbound`]: the answers for one proxy.
//! - [`depend`]: the objects that an answer is made of.
//! - [`lookup`]: objects by name, for operators.
//!
//! A malformed object becomes a [`Problem`] of that object; everything else goes on.

mod backend_policy;
mod breaker;
pub mod builder;
pub mod depend;
mod fault;
pub mod inbound;
pub mod lookup;
pub mod outbound;
mod persistence;
pub mod pod;
pub mod policy;
mod probe;
pub mod route;
pub mod service;
pub mod settings;

use crate::source::{Inventory, Problem};
use backend_policy::BackendPolicies;
use builder::{Builder, DeclaredPorts, PodsByAccount, Services};
use leno_model::name::{SpiffeId, WorkloadId};
use pod::Pod;
use policy::{NamespacePolicies, ObjectVerdict, Policies};
use route::verdict::Verdict;
use route::{Attached, Routes};
use service::{Service, ServiceKey};
use settings::Declared;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// The service account of the control plane.
pub const CONTROL_ACCOUNT: &str = "leno-control";

/// Names that are the same in the whole mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshNames {
    /// Of identities, e.g. `cluster.local`.
    pub trust_domain: String,
    /// Namespace of the control plane; part of DNS-like names.
    pub control_namespace: String,
    /// Domain of Services' names, e.g. `cluster.local`.
    pub cluster_domain: String,
    /// A pod counts as meshed only if it has a proxy container, as on Kubernetes; the annotation alone does not count.
    pub proxies_are_containers: bool,
}

impl Default for MeshNames {
    fn default() -> Self {
        Self {
            trust_domain: "cluster.local".to_owned(),
            control_namespace: "leno".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            proxies_are_containers: false,
        }
    }
}

/// Everything that holds, as of one inventory.
#[derive(Debug, Default)]
pub struct World {
    /// Grows with every change; 0 is the empty world before the first inventory.
    pub version: u64,
    /// What is wrong with manifests and objects.
    pub problems: Vec<Problem>,
    names: MeshNames,
    pods: Arc<BTreeMap<WorkloadId, Arc<Pod>>>,
    pods_by_ip: Arc<HashMap<IpAddr, WorkloadId>>,
    pods_by_account: Arc<PodsByAccount>,
    services: Arc<Services>,
    services_by_ip: Arc<HashMap<IpAddr, ServiceKey>>,
    routes: Arc<Routes>,
    declared: Arc<DeclaredPorts>,
    policies: Arc<Policies>,
    backend_policies: Arc<BackendPolicies>,
}

/// The inputs of an answer: while they are the same, the answer is too. Thousands of streams look at every new world, and few have to
/// send something. It holds no reference to the world: otherwise a stream that nobody reads would keep a whole world in memory.
#[derive(Clone, Debug)]
pub enum Ground {
    /// A Service, its routes, the retry budgets of all Services, and the client where its node matters.
    Service(Weak<Service>, (Weak<Vec<Attached>>, Weak<BackendPolicies>), Weak<Pod>),
    /// A pod, what Services say of pods' ports, and the policies of its namespace.
    Pod(Weak<Pod>, Weak<DeclaredPorts>, Weak<NamespacePolicies>),
    /// Nothing that is known.
    Nothing,
}

impl PartialEq for Ground {
    /// Whether they are the same objects; others may be equal.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Service(a, (b, c), d), Self::Service(e, (f, g), h)) => {
                a.ptr_eq(e) && b.ptr_eq(f) && c.ptr_eq(g) && d.ptr_eq(h)
            }
            (Self::Pod(a, b, c), Self::Pod(d, e, f)) => a.ptr_eq(d) && b.ptr_eq(e) && c.ptr_eq(f),
            (Self::Nothing, Self::Nothing) => true,
            _ => false,
        }
    }
}

impl World {
    /// The world that one inventory describes. For one after another see [`builder`].
    #[must_use]
    pub fn build(inventory: &Inventory, names: &MeshNames, version: u64) -> Self {
        Builder::new(names.clone()).build(inventory, version)
    }

    /// How many pods and Services there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.pods.len(), self.services.len())
    }

    /// What became of each route.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.routes.verdicts
    }

    /// What became of each policy object and each fault.
    pub fn object_verdicts(&self) -> impl Iterator<Item = &ObjectVerdict> {
        let verdicts = self.policies.verdicts.iter().chain(&self.backend_policies.verdicts);
        verdicts.chain(&self.routes.faults)
    }

    #[must_use]
    pub fn pod(&self, workload: &WorkloadId) -> Option<&Arc<Pod>> {
        self.pods.get(workload)
    }

    /// How many pods have an identity.
    #[must_use]
    pub fn pods_of(&self, id: &SpiffeId) -> usize {
        let Ok((namespace, account)) = id.as_service_account() else { return 0 };
        let of_namespace = self.pods_by_account.get(namespace);
        of_namespace.and_then(|accounts| accounts.get(account)).copied().unwrap_or(0)
    }

    fn pod_at(&self, address: IpAddr) -> Option<&Arc<Pod>> {
        self.pods.get(self.pods_by_ip.get(&address.to_canonical())?)
    }

    fn service_at(&self, address: IpAddr) -> Option<&Arc<Service>> {
        self.services.get(self.services_by_ip.get(&address.to_canonical())?)
    }

    fn ground_of_pod(&self, pod: Option<&Arc<Pod>>) -> Ground {
        pod.map_or(Ground::Nothing, |pod| {
            let policies = Arc::downgrade(self.policies.of(&pod.id.namespace));
            Ground::Pod(Arc::downgrade(pod), Arc::downgrade(&self.declared), policies)
        })
    }

    /// The protocol of a pod's port: its own annotations first, then its Services.
    fn declared_of(&self, pod: &Pod, port: u16) -> Option<Declared> {
        if pod.opaque.contains(port) {
            return Some(Declared::Opaque);
        }
        self.declared.get(&(pod.id.clone(), port)).copied().flatten()
    }
}

#[cfg(test)]
mod tests;
