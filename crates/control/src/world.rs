//! Everything the control plane holds true. Pure: [`World::build`] reads an inventory, the answers read the world.
//!
//! - [`settings`]: annotations, ports, declared protocols.
//! - [`pod`]: workloads, their addresses and identities.
//! - [`service`]: Services, and which endpoints answer for each of their ports.
//! - [`route`]: HTTPRoute and GRPCRoute compiled to the model's rules.
//! - `probe.rs`: what the kubelet asks of a pod.
//! - [`builder`]: one inventory after another, at the cost of what changed.
//! - [`outbound`], [`inbound`]: what one proxy is told.
//!
//! A malformed object becomes a [`Problem`] of that object; everything else goes on.

pub mod builder;
pub mod inbound;
pub mod outbound;
pub mod pod;
mod probe;
pub mod route;
pub mod service;
pub mod settings;

use crate::source::{Inventory, Problem};
use builder::{Builder, DeclaredPorts, Services};
use leno_model::name::WorkloadId;
use pod::Pod;
use route::Attached;
use route::verdict::Verdict;
use service::{Service, ServiceKey};
use settings::Declared;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// Names that are the same in the whole mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshNames {
    /// Of identities, e.g. `cluster.local`.
    pub trust_domain: String,
    /// Where the control plane lives; part of DNS-like names.
    pub control_namespace: String,
    /// Of Services' names, e.g. `cluster.local`.
    pub cluster_domain: String,
    /// A pod's proxy is a container of it, as on Kubernetes: who only says that it has one has none.
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
    /// What became of each route.
    pub verdicts: Vec<Verdict>,
    names: MeshNames,
    pods: Arc<BTreeMap<WorkloadId, Arc<Pod>>>,
    pods_by_ip: Arc<HashMap<IpAddr, WorkloadId>>,
    services: Services,
    services_by_ip: HashMap<IpAddr, ServiceKey>,
    /// Routes on each Service.
    attached: HashMap<ServiceKey, Vec<Attached>>,
    declared: Arc<DeclaredPorts>,
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

    /// A pod.
    #[must_use]
    pub fn pod(&self, workload: &WorkloadId) -> Option<&Arc<Pod>> {
        self.pods.get(workload)
    }

    fn pod_at(&self, address: IpAddr) -> Option<&Arc<Pod>> {
        self.pods.get(self.pods_by_ip.get(&address.to_canonical())?)
    }

    fn service_at(&self, address: IpAddr) -> Option<&Service> {
        self.services.get(self.services_by_ip.get(&address.to_canonical())?).map(Arc::as_ref)
    }

    /// What is spoken on a pod's port: its own annotations first, then what Services say.
    fn declared_of(&self, pod: &Pod, port: u16) -> Option<Declared> {
        if pod.opaque.contains(port) {
            return Some(Declared::Opaque);
        }
        self.declared.get(&(pod.id.clone(), port)).copied().flatten()
    }
}

#[cfg(test)]
mod tests;
