//! Everything the control plane holds true. Pure: [`World::build`] reads an inventory, the answers read the world.
//!
//! - [`settings`]: annotations, ports, declared protocols.
//! - [`pod`]: workloads, their addresses and identities.
//! - [`service`]: Services, and which endpoints answer for each of their ports.
//! - [`route`]: HTTPRoute and GRPCRoute compiled to the model's rules.
//! - [`outbound`], [`inbound`]: what one proxy is told.
//!
//! A malformed object becomes a [`Problem`] of that object; everything else goes on.

pub mod inbound;
pub mod outbound;
pub mod pod;
pub mod route;
pub mod service;
pub mod settings;

use crate::limit::PROBLEMS_MAX;
use crate::source::{Inventory, Problem};
use leno_model::name::WorkloadId;
use pod::Pod;
use service::{Service, ServiceKey};
use settings::{Declared, NamespaceSettings};
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
}

impl Default for MeshNames {
    fn default() -> Self {
        Self {
            trust_domain: "cluster.local".to_owned(),
            control_namespace: "leno".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
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
    pods: BTreeMap<WorkloadId, Arc<Pod>>,
    pods_by_ip: HashMap<IpAddr, WorkloadId>,
    services: BTreeMap<ServiceKey, Service>,
    services_by_ip: HashMap<IpAddr, ServiceKey>,
    /// What Services declare about the ports of their pods, where they agree.
    declared: HashMap<(WorkloadId, u16), Option<Declared>>,
}

impl World {
    /// The world that an inventory describes.
    #[must_use]
    pub fn build(inventory: &Inventory, names: &MeshNames, version: u64) -> Self {
        let mut world = Self { version, names: names.clone(), ..Self::default() };
        let mut problems = inventory.problems.clone();
        let namespaces = NamespaceSettings::read(&inventory.namespaces, &mut problems);
        world.add_pods(inventory, &namespaces, &mut problems);
        world.add_services(inventory, &namespaces, &mut problems);
        world.add_routes(inventory, &mut problems);
        problems.truncate(PROBLEMS_MAX);
        world.problems = problems;
        world
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
        self.services.get(self.services_by_ip.get(&address.to_canonical())?)
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
