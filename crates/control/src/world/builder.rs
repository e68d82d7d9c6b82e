//! One inventory after another to worlds, at the cost of what changed.
//!
//! A cluster has ten thousand pods and a rollout changes one of them at a time. A part of the world is built again only if one
//! of its objects changed. (An unchanged object is the same `Arc` in the next inventory.) Other parts are shared with the last world.
//! A world that was built in steps equals the world that is built at once; a test checks this.

use super::backend_policy::BackendPolicies;
use super::pod::{Changed, Pod};
use super::policy::Policies;
use super::route::parent::PatternsByNamespace;
use super::route::{self, Routes};
use super::service::{Built, Pods, Reading, Service, ServiceKey, slices_by_service};
use super::settings::{Declared, NamespaceSettings};
use super::{MeshNames, World};
use crate::limit::PROBLEMS_MAX;
use crate::source::kept::{self, EndpointSlice};
use crate::source::{Inventory, Key, Problem, Sourced};
use k8s_openapi::api::core::v1;
use leno_model::name::WorkloadId;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// What Services declare about the ports of pods; `None` where two disagree.
pub(super) type DeclaredPorts = HashMap<(WorkloadId, u16), Option<Declared>>;

/// How many pods each service account of each namespace has.
pub(super) type PodsByAccount = HashMap<Arc<str>, HashMap<Arc<str>, usize>>;

/// Builds worlds, and remembers what the last one was built from.
#[derive(Debug, Default)]
pub struct Builder {
    names: MeshNames,
    /// Its lists are the same where nothing changed.
    last: Inventory,
    settings: NamespaceSettings,
    pods: Vec<KnownPod>,
    services: Vec<KnownService>,
    /// What the routes of the last world left.
    routes: route::Kept,
    /// Regular expressions of its routes on Servers.
    policy_patterns: PatternsByNamespace,
    /// Parts of the last world.
    parts: Parts,
}

/// What worlds share, and what was wrong with what each part was built from.
#[derive(Debug, Default)]
struct Parts {
    of_settings: Vec<Problem>,
    of_pods: Vec<Problem>,
    of_services: Vec<Problem>,
    pods: Arc<BTreeMap<WorkloadId, Arc<Pod>>>,
    pods_by_ip: Arc<HashMap<IpAddr, WorkloadId>>,
    pods_by_account: Arc<PodsByAccount>,
    services: Arc<Services>,
    services_by_ip: Arc<HashMap<IpAddr, ServiceKey>>,
    declared: Arc<DeclaredPorts>,
    routes: Arc<Routes>,
    policies: Arc<Policies>,
    backend_policies: Arc<BackendPolicies>,
    of_conflicts: Vec<Problem>,
}

/// A pod and what it was read from.
#[derive(Debug)]
struct KnownPod {
    key: Key,
    source: Arc<kept::Pod>,
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

impl KnownService {
    fn declares(&self) -> &[((WorkloadId, u16), Declared)] {
        self.built.as_ref().map_or(&[], |built| &built.declares)
    }
}

/// What of the Services is not as it was.
#[derive(Clone, Copy, Debug, Default)]
struct Renewed {
    /// What one declares of the ports of pods is something else.
    declares: bool,
    /// One is new, gone, or written anew: routes that mean it may be right now, or wrong.
    written: bool,
}

impl Renewed {
    fn note(&mut self, before: Option<&KnownService>, now: Option<&KnownService>) {
        let source = |known: &KnownService| Arc::as_ptr(&known.source);
        self.written |= before.map(source) != now.map(source);
        self.declares |= before.map_or(&[][..], KnownService::declares)
            != now.map_or(&[][..], KnownService::declares);
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
        let last = std::mem::replace(&mut self.last, inventory.clone());
        let namespaces_changed = !Arc::ptr_eq(&last.namespaces, &inventory.namespaces)
            && self.read_namespaces(inventory);
        let changed = if namespaces_changed || !Arc::ptr_eq(&last.pods, &inventory.pods) {
            self.read_pods(inventory, namespaces_changed)
        } else {
            Changed::default()
        };
        if !changed.pods.is_empty() {
            self.index_pods();
        }
        let services_stay = Arc::ptr_eq(&last.services, &inventory.services)
            && Arc::ptr_eq(&last.endpoint_slices, &inventory.endpoint_slices);
        let renewed = if services_stay && !namespaces_changed && changed.pods.is_empty() {
            Renewed::default()
        } else {
            self.read_services(inventory, namespaces_changed, &changed)
        };
        if renewed.declares {
            self.parts.declared = Arc::new(self.declared());
        }
        let policies_stay = policies_stay(&last, inventory);
        if !policies_stay {
            self.read_policies(inventory);
        }
        if !policies_stay || !changed.pods.is_empty() {
            self.parts.of_conflicts = self.parts.policies.conflicts(&self.parts.pods);
        }
        let budgets_stay = Arc::ptr_eq(&last.backend_policies, &inventory.backend_policies)
            && Arc::ptr_eq(&last.gateway_backend_policies, &inventory.gateway_backend_policies);
        if renewed.written || !budgets_stay {
            let services = &self.parts.services;
            let read = BackendPolicies::read(inventory, &|key| services.contains_key(key));
            self.parts.backend_policies = Arc::new(read);
        }
        let mut world = self.world(version);
        let routes_stay = Arc::ptr_eq(&last.http_routes, &inventory.http_routes)
            && Arc::ptr_eq(&last.grpc_routes, &inventory.grpc_routes)
            && Arc::ptr_eq(&last.reference_grants, &inventory.reference_grants)
            && Arc::ptr_eq(&last.faults, &inventory.faults);
        if renewed.written || !budgets_stay || !routes_stay || !policies_stay {
            let mut kept = std::mem::take(&mut self.routes);
            let refers_to_same = Arc::ptr_eq(&last.reference_grants, &inventory.reference_grants)
                && Arc::ptr_eq(&last.faults, &inventory.faults);
            if renewed.written || !budgets_stay || !refers_to_same {
                kept.forget_routes();
            }
            let policies = self.parts.policies.clone();
            let (routes, kept) = world.compile_routes(inventory, &policies.on_servers, kept);
            (self.parts.routes, self.routes) = (Arc::new(routes), kept);
            world.routes = self.parts.routes.clone();
        }
        let parts = &self.parts;
        let problems = inventory.problems.iter().chain(&parts.of_settings).chain(&parts.of_pods);
        let problems = problems.chain(&parts.of_services).chain(&parts.routes.problems);
        let problems = problems.chain(&parts.policies.problems).chain(&parts.of_conflicts);
        let problems = problems.chain(&parts.backend_policies.problems);
        world.problems = problems.take(PROBLEMS_MAX).cloned().collect();
        world
    }

    fn world(&self, version: u64) -> World {
        let parts = &self.parts;
        World {
            version,
            problems: Vec::new(),
            names: self.names.clone(),
            pods: parts.pods.clone(),
            pods_by_ip: parts.pods_by_ip.clone(),
            pods_by_account: parts.pods_by_account.clone(),
            services: parts.services.clone(),
            services_by_ip: parts.services_by_ip.clone(),
            declared: parts.declared.clone(),
            routes: parts.routes.clone(),
            policies: parts.policies.clone(),
            backend_policies: parts.backend_policies.clone(),
        }
    }

    fn read_policies(&mut self, inventory: &Inventory) {
        let parts = &mut self.parts;
        let last = (&*parts.policies, std::mem::take(&mut self.policy_patterns));
        let accounts = &parts.pods_by_account;
        let of_mesh = (&self.names, &self.settings);
        let (policies, patterns) = Policies::build(inventory, of_mesh, accounts, last);
        (parts.policies, self.policy_patterns) = (Arc::new(policies), patterns);
    }

    /// Returns whether any setting changed.
    fn read_namespaces(&mut self, inventory: &Inventory) -> bool {
        self.parts.of_settings.clear();
        let settings = NamespaceSettings::read(&inventory.namespaces, &mut self.parts.of_settings);
        let changed = settings != self.settings;
        self.settings = settings;
        changed
    }

    fn read_pods(&mut self, inventory: &Inventory, namespaces_changed: bool) -> Changed {
        let mut changed = Changed::default();
        let mut before = std::mem::take(&mut self.pods).into_iter().peekable();
        self.pods.reserve_exact(inventory.pods.len());
        for pod in inventory.pods.iter() {
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
        let problems = self.pods.iter().flat_map(|known| &known.problems);
        self.parts.of_pods = problems.take(PROBLEMS_MAX).cloned().collect();
        changed
    }

    fn read_pod(
        &self,
        pod: &Sourced<kept::Pod>,
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
                // The network gives an address to a new pod before the inventory drops the old one. A pod that is terminating has the lowest claim; between two that are not ready, the newer one wins.
                let claim = |pod: &Pod| (!pod.terminating, pod.ready);
                if holder.is_none_or(|holder| {
                    claim(holder) <= claim(pod) && claim(holder) != (true, true)
                }) {
                    by_ip.insert(*address, pod);
                }
            }
        }
        let by_ip = by_ip.into_iter().map(|(address, pod)| (address, pod.id.clone()));
        self.parts.pods_by_ip = Arc::new(by_ip.collect());
        let mut by_account = PodsByAccount::new();
        for KnownPod { pod, .. } in &self.pods {
            let accounts = by_account.entry(pod.id.namespace.clone()).or_default();
            *accounts.entry(pod.service_account.clone()).or_default() += 1;
        }
        self.parts.pods_by_account = Arc::new(by_account);
        let by_id = self.pods.iter().map(|known| (known.pod.id.clone(), known.pod.clone()));
        self.parts.pods = Arc::new(by_id.collect());
    }

    fn read_services(
        &mut self,
        inventory: &Inventory,
        namespaces_changed: bool,
        changed: &Changed,
    ) -> Renewed {
        let mut before = std::mem::take(&mut self.services).into_iter().peekable();
        let mut renewed = Renewed::default();
        let (by_id, by_ip) = (self.parts.pods.clone(), self.parts.pods_by_ip.clone());
        let pods = Pods { by_id: &by_id, by_ip: &by_ip };
        let reading = Reading { namespaces: &self.settings, pods: &pods };
        let (slices, unowned) = slices_by_service(&inventory.endpoint_slices);
        self.services.reserve_exact(inventory.services.len());
        for service in inventory.services.iter() {
            while let Some(gone) = before.next_if(|known| known.key < service.key) {
                renewed.note(Some(&gone), None);
            }
            let known = before.next_if(|known| known.key == service.key);
            let slices = slices.get(&(service.key.namespace.clone(), service.key.name.clone()));
            let now = slices.into_iter().flatten().map(|slice| &slice.object);
            let stays = known.as_ref().is_some_and(|known| {
                !namespaces_changed
                    && Arc::ptr_eq(&known.source, &service.object)
                    && known.slices.len() == now.clone().count()
                    && known.slices.iter().zip(now.clone()).all(|(a, b)| Arc::ptr_eq(a, b))
                    && known.built.as_ref().is_none_or(|built| !built.is_touched(changed))
            });
            self.services.push(match known {
                Some(known) if stays => known,
                known => {
                    let mut problems = Vec::new();
                    let built = reading.service(service, slices.map(Vec::as_slice), &mut problems);
                    let (key, source) = (service.key.clone(), service.object.clone());
                    let slices = now.cloned().collect();
                    let now = KnownService { key, source, slices, built, problems };
                    renewed.note(known.as_ref(), Some(&now));
                    now
                }
            });
        }
        before.for_each(|gone| renewed.note(Some(&gone), None));
        self.index_services(inventory, unowned);
        renewed
    }

    fn index_services(&mut self, inventory: &Inventory, mut problems: Vec<Problem>) {
        let mut by_ip: HashMap<IpAddr, ServiceKey> = HashMap::with_capacity(self.services.len());
        for (known, sourced) in self.services.iter().zip(inventory.services.iter()) {
            problems.extend_from_slice(&known.problems);
            let Some(Built { service, .. }) = &known.built else { continue };
            for address in &service.addresses {
                if let Some(other) = by_ip.insert(*address, service.key.clone()) {
                    let message = format!(
                        "{address} is also the address of {}/{}; the later one is used",
                        other.0, other.1
                    );
                    problems.push(sourced.problem("spec.clusterIP", message));
                }
            }
        }
        let services = self.services.iter().flat_map(|known| &known.built);
        let services = services.map(|built| (built.service.key.clone(), built.service.clone()));
        self.parts.services = Arc::new(services.collect());
        self.parts.services_by_ip = Arc::new(by_ip);
        self.parts.of_services = problems;
    }

    fn declared(&self) -> DeclaredPorts {
        let mut all = DeclaredPorts::new();
        for (port, declared) in self.services.iter().flat_map(KnownService::declares) {
            // Two Services that disagree about a port declare nothing.
            all.entry(port.clone())
                .and_modify(|before| *before = before.filter(|b| b == declared))
                .or_insert(Some(*declared));
        }
        all
    }
}

/// Whether nothing changed that policies are compiled from.
fn policies_stay(last: &Inventory, now: &Inventory) -> bool {
    macro_rules! same {
        ($($list:ident)+) => { true $(&& Arc::ptr_eq(&last.$list, &now.$list))+ };
    }
    same!(
        namespaces service_accounts http_routes grpc_routes linkerd_http_routes
        servers authorization_policies mesh_tls_authentications network_authentications
        server_authorizations linkerd_servers linkerd_authorization_policies
        linkerd_mesh_tls_authentications linkerd_network_authentications
        linkerd_server_authorizations http_local_rate_limit_policies
        linkerd_http_local_rate_limit_policies gateway_authorization_policies
    )
}

/// Services by their names.
pub(super) type Services = BTreeMap<ServiceKey, Arc<Service>>;
