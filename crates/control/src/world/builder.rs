//! One inventory after another to worlds, at the cost of what changed.
//!
//! A cluster has ten thousand pods and a rollout changes one of them at a time. A part of the world is built again where an object
//! that it was built from is another one (objects that did not change are the same `Arc` in the next inventory), and is shared with the
//! last world otherwise. A world that was built in steps is the one that is built at once; a test holds that.

use super::pod::Pod;
use super::service::{Built, Pods, Reading, Service, ServiceKey, slices_by_service};
use super::settings::{Declared, NamespaceSettings};
use super::{MeshNames, World};
use crate::limit::PROBLEMS_MAX;
use crate::source::{Inventory, Key, Problem, Sourced};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use leno_model::name::WorkloadId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// What Services declare about the ports of pods; `None` where two disagree.
pub(super) type DeclaredPorts = HashMap<(WorkloadId, u16), Option<Declared>>;

/// Builds worlds, and remembers what the last one was built from.
#[derive(Debug, Default)]
pub struct Builder {
    names: MeshNames,
    namespaces: Vec<Arc<v1::Namespace>>,
    settings: NamespaceSettings,
    settings_problems: Vec<Problem>,
    pods: Vec<KnownPod>,
    services: Vec<KnownService>,
    /// Parts of the last world.
    by_id: Arc<BTreeMap<WorkloadId, Arc<Pod>>>,
    by_ip: Arc<HashMap<IpAddr, WorkloadId>>,
    declared: Arc<DeclaredPorts>,
}

/// A pod and what it was read from.
#[derive(Debug)]
struct KnownPod {
    key: Key,
    source: Arc<v1::Pod>,
    pod: Arc<Pod>,
    problems: Vec<Problem>,
}

/// A Service and what it was read from.
#[derive(Debug)]
struct KnownService {
    key: Key,
    source: Arc<v1::Service>,
    slices: Vec<Arc<EndpointSlice>>,
    built: Option<Built>,
    problems: Vec<Problem>,
}

/// What of the pods is not as it was.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) pods: HashSet<WorkloadId>,
    pub(super) addresses: HashSet<IpAddr>,
    pub(super) namespaces: HashSet<Arc<str>>,
}

impl Changed {
    fn note(&mut self, pod: &Pod) {
        self.addresses.extend(&pod.addresses);
        self.namespaces.insert(pod.id.namespace.clone());
        self.pods.insert(pod.id.clone());
    }
}

impl Builder {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new(names: MeshNames) -> Self {
        Self { names, ..Self::default() }
    }

    /// The world that an inventory describes.
    pub fn build(&mut self, inventory: &Inventory, version: u64) -> World {
        let namespaces_changed = self.read_namespaces(inventory);
        let changed = self.read_pods(inventory, namespaces_changed);
        let mut problems = inventory.problems.clone();
        problems.extend_from_slice(&self.settings_problems);
        problems.extend(self.pods.iter().flat_map(|known| &known.problems).cloned());
        let mut world = World { version, names: self.names.clone(), ..World::default() };
        if !changed.pods.is_empty() {
            self.index_pods();
        }
        world.pods = self.by_id.clone();
        world.pods_by_ip = self.by_ip.clone();
        let (slices, unowned) = slices_by_service(&inventory.endpoint_slices);
        problems.extend(unowned);
        if self.read_services(inventory, &slices, namespaces_changed, &changed) {
            self.declared = Arc::new(self.declared());
        }
        self.index_services(&mut world, inventory, &mut problems);
        world.add_routes(inventory, &mut problems);
        problems.truncate(PROBLEMS_MAX);
        world.problems = problems;
        world
    }

    /// Tells whether any setting is another one.
    fn read_namespaces(&mut self, inventory: &Inventory) -> bool {
        let now = inventory.namespaces.iter().map(|namespace| &namespace.object);
        let is_same = now.clone().count() == self.namespaces.len()
            && now.clone().zip(&self.namespaces).all(|(now, before)| Arc::ptr_eq(now, before));
        if is_same {
            return false;
        }
        self.namespaces = now.cloned().collect();
        self.settings_problems.clear();
        let settings = NamespaceSettings::read(&inventory.namespaces, &mut self.settings_problems);
        let changed = settings != self.settings;
        self.settings = settings;
        changed
    }

    fn read_pods(&mut self, inventory: &Inventory, namespaces_changed: bool) -> Changed {
        let mut changed = Changed::default();
        let mut before = std::mem::take(&mut self.pods).into_iter().peekable();
        self.pods.reserve_exact(inventory.pods.len());
        for pod in &inventory.pods {
            while let Some(gone) = before.next_if(|known| known.key < pod.key) {
                changed.note(&gone.pod);
            }
            let known = before.next_if(|known| known.key == pod.key);
            self.pods.push(match known {
                Some(known) if !namespaces_changed && Arc::ptr_eq(&known.source, &pod.object) => {
                    known
                }
                known => self.read_pod(pod, known, &mut changed),
            });
        }
        before.for_each(|gone| changed.note(&gone.pod));
        changed
    }

    fn read_pod(
        &self,
        pod: &Sourced<v1::Pod>,
        known: Option<KnownPod>,
        changed: &mut Changed,
    ) -> KnownPod {
        let mut problems = Vec::new();
        let now = Pod::read(pod, &self.names, &self.settings, &mut problems);
        let now = match known {
            Some(known) if *known.pod == now => known.pod,
            known => {
                if let Some(known) = known {
                    changed.note(&known.pod);
                }
                changed.note(&now);
                Arc::new(now)
            }
        };
        KnownPod { key: pod.key.clone(), source: pod.object.clone(), pod: now, problems }
    }

    fn index_pods(&mut self) {
        let mut by_ip: HashMap<IpAddr, &Arc<Pod>> = HashMap::with_capacity(self.pods.len());
        for KnownPod { pod, .. } in &self.pods {
            for address in &pod.addresses {
                let holder = by_ip.get(address);
                // An address is given to the next pod before the last one is gone from the inventory.
                if holder.is_none_or(|holder| holder.terminating || !holder.ready) {
                    by_ip.insert(*address, pod);
                }
            }
        }
        let by_ip = by_ip.into_iter().map(|(address, pod)| (address, pod.id.clone()));
        self.by_ip = Arc::new(by_ip.collect());
        let by_id = self.pods.iter().map(|known| (known.pod.id.clone(), known.pod.clone()));
        self.by_id = Arc::new(by_id.collect());
    }

    /// Tells whether any Service was built again, or is gone.
    fn read_services(
        &mut self,
        inventory: &Inventory,
        slices: &HashMap<ServiceKey, Vec<&Sourced<EndpointSlice>>>,
        namespaces_changed: bool,
        changed: &Changed,
    ) -> bool {
        let mut before = std::mem::take(&mut self.services).into_iter().peekable();
        let mut rebuilt = false;
        let (by_id, by_ip) = (self.by_id.clone(), self.by_ip.clone());
        let pods = Pods { by_id: &by_id, by_ip: &by_ip };
        for service in &inventory.services {
            while before.next_if(|known| known.key < service.key).is_some() {
                rebuilt = true;
            }
            let key = (service.key.namespace.clone(), service.key.name.clone());
            let slices = slices.get(&key);
            let now = slices.into_iter().flatten().map(|slice| &slice.object);
            let known = before.next_if(|known| known.key == service.key).filter(|known| {
                !namespaces_changed
                    && Arc::ptr_eq(&known.source, &service.object)
                    && known.slices.len() == now.clone().count()
                    && known.slices.iter().zip(now.clone()).all(|(a, b)| Arc::ptr_eq(a, b))
                    && known.built.as_ref().is_none_or(|built| !built.is_touched(changed))
            });
            self.services.push(known.unwrap_or_else(|| {
                rebuilt = true;
                let mut problems = Vec::new();
                let reading = Reading { namespaces: &self.settings, pods: &pods };
                let built = reading.service(service, slices.map(Vec::as_slice), &mut problems);
                KnownService {
                    key: service.key.clone(),
                    source: service.object.clone(),
                    slices: now.cloned().collect(),
                    built,
                    problems,
                }
            }));
        }
        rebuilt | before.next().is_some()
    }

    fn index_services(
        &self,
        world: &mut World,
        inventory: &Inventory,
        problems: &mut Vec<Problem>,
    ) {
        for (known, sourced) in self.services.iter().zip(&inventory.services) {
            problems.extend_from_slice(&known.problems);
            let Some(Built { service, .. }) = &known.built else { continue };
            for address in &service.addresses {
                if let Some(other) = world.services_by_ip.insert(*address, service.key.clone()) {
                    let message = format!(
                        "{address} is also the address of {}/{}; the later one is used",
                        other.0, other.1
                    );
                    problems.push(sourced.problem("spec.clusterIP", message));
                }
            }
            world.services.insert(service.key.clone(), service.clone());
        }
        world.declared = self.declared.clone();
    }

    fn declared(&self) -> DeclaredPorts {
        let mut all = DeclaredPorts::new();
        for (port, declared) in
            self.services.iter().flat_map(|known| &known.built).flat_map(|built| &built.declares)
        {
            // Two Services that disagree about a port declare nothing.
            all.entry(port.clone())
                .and_modify(|before| *before = before.filter(|b| b == declared))
                .or_insert(Some(*declared));
        }
        all
    }
}

/// Services by their names.
pub(super) type Services = BTreeMap<ServiceKey, Arc<Service>>;
