//! Services: their addresses and ports, and which endpoints answer for each port.

use super::breaker;
use super::pod::{Changed, Pod, plain_endpoint};
use super::route::traffic::Traffic;
use super::settings::{Declared, NamespaceSettings, Ports, Settings, published};
use crate::source::kept::{EndpointSlice, SliceEndpoint};
use crate::source::{Problem, Sourced};
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use leno_model::breaker::Breaker;
use leno_model::limit::ENDPOINTS_MAX;
use leno_model::name::WorkloadId;
use leno_model::workload::{Endpoint, ProtocolHint};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Namespace and name.
pub type ServiceKey = (Arc<str>, Arc<str>);

#[derive(Clone, Debug)]
pub struct Service {
    /// Namespace and name.
    pub key: ServiceKey,
    /// Its ports by number.
    pub ports: BTreeMap<u16, ServicePort>,
    pub(super) addresses: Vec<IpAddr>,
    opaque: Ports,
    publish_not_ready: bool,
    selector: BTreeMap<String, String>,
    /// Timeouts and retries of its requests, where their routes do not say otherwise.
    pub(super) traffic: Traffic,
    /// What it says of endpoints that fail.
    pub(super) breaker: Option<Box<Breaker>>,
    /// Each client is served by endpoints of its own node alone.
    pub(super) node_local: bool,
}

#[derive(Clone, Debug)]
pub struct ServicePort {
    /// Its name, empty where it is the only one.
    pub name: String,
    /// The declared protocol.
    pub declared: Option<Declared>,
    /// Who answers, sorted by address.
    pub endpoints: Vec<Arc<Endpoint>>,
    target: Option<IntOrString>,
}

impl Service {
    fn read(
        service: &Sourced<v1::Service>,
        namespaces: &NamespaceSettings,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let annotations = published(&service.object.metadata);
        let number_of = |name: &str| {
            let mut ports = service.object.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
            let port = ports.find(|port| port.name.as_deref() == Some(name))?;
            u16::try_from(port.port).ok()
        };
        let names = service.object.metadata.annotations.iter().flatten();
        let names = names.map(|(name, _)| name.as_str());
        let own = Settings::read(service, &annotations, Some(&number_of), problems);
        let inherited = namespaces.get(&service.key.namespace).cloned().unwrap_or_default();
        let opaque = own.opaque.or(inherited.for_ports(&number_of).opaque).unwrap_or_default();
        let Some(spec) = &service.object.spec else {
            problems.push(service.problem("spec", "missing; the Service is not used"));
            return None;
        };
        if spec.type_.as_deref() == Some("ExternalName") {
            let problem =
                service.problem("spec.type", "the mesh ignores Services of type ExternalName");
            // A cluster's name server follows it, and what it names may well be in the mesh.
            problems.push(Problem { elsewhere: true, ..problem });
            return None;
        }
        let mut ports = BTreeMap::new();
        for (number, port) in spec.ports.iter().flatten().enumerate() {
            let field = |name: &str| format!("spec.ports[{number}].{name}");
            if port.protocol.as_deref().is_some_and(|protocol| protocol != "TCP") {
                continue; // UDP does not pass through a proxy.
            }
            let Some(at) = u16::try_from(port.port).ok().filter(|port| *port != 0) else {
                problems
                    .push(service.problem(field("port"), format!("{} is not a port", port.port)));
                continue;
            };
            let declared = if opaque.contains(at) {
                Some(Declared::Opaque)
            } else {
                port.app_protocol.as_deref().and_then(Declared::of_app_protocol)
            };
            let port = ServicePort {
                name: port.name.clone().unwrap_or_default(),
                declared,
                endpoints: Vec::new(),
                target: port.target_port.clone(),
            };
            if ports.insert(at, port).is_some() {
                problems.push(service.problem(field("port"), format!("{at} appears twice")));
            }
        }
        if spec.session_affinity.as_deref() == Some("ClientIP") {
            let message =
                "sessionAffinity ClientIP has no effect: each request is balanced on its own";
            problems.push(service.problem("spec.sessionAffinity", message));
        }
        Some(Self {
            key: (service.key.namespace.clone(), service.key.name.clone()),
            ports,
            addresses: cluster_ips(service, spec, problems),
            opaque,
            publish_not_ready: spec.publish_not_ready_addresses == Some(true),
            selector: spec.selector.clone().unwrap_or_default(),
            traffic: Traffic::read(service, None, &annotations, problems),
            breaker: breaker::read(service, &annotations, names, problems),
            node_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
        })
    }

    /// Whether the port's endpoints all are bytes by their own annotations.
    fn all_opaque(&self, port: u16) -> bool {
        let endpoints = self.ports.get(&port).map_or(&[][..], |port| &port.endpoints);
        !endpoints.is_empty() && endpoints.iter().all(|e| e.hint == ProtocolHint::Opaque)
    }

    /// The declared protocol of the port.
    pub(super) fn declared(&self, port: u16) -> Option<Declared> {
        let declared = self.ports.get(&port)?.declared;
        if declared.is_none() && self.all_opaque(port) { Some(Declared::Opaque) } else { declared }
    }
}

fn cluster_ips(
    service: &Sourced<v1::Service>,
    spec: &v1::ServiceSpec,
    problems: &mut Vec<Problem>,
) -> Vec<IpAddr> {
    let several = spec.cluster_ips.iter().flatten().map(|ip| (ip, "spec.clusterIPs"));
    let mut found = Vec::new();
    for (text, field) in spec.cluster_ip.iter().map(|ip| (ip, "spec.clusterIP")).chain(several) {
        match text.parse::<IpAddr>() {
            Ok(ip) if found.contains(&ip) => {}
            Ok(ip) => found.push(ip),
            // Headless, or not given an address yet.
            Err(_) if text == "None" || text.is_empty() => {}
            Err(_) => {
                problems.push(service.problem(field, format!("{text:?} is not an IP address")))
            }
        }
    }
    found
}

/// How well an endpoint takes traffic. A Service has those of the best kind that there is of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fitness {
    /// Ready and staying.
    Ready,
    /// It is leaving and serves meanwhile; kube-proxy falls back on these too.
    Draining,
    /// Its node lost contact with the API server. Only a connection attempt shows whether the node is gone.
    Unheard,
}

/// Endpoints of one Service port while they are gathered.
#[derive(Default)]
struct Gathered {
    /// The best that was seen.
    fitness: Option<Fitness>,
    /// Those of that kind; an address is there once.
    endpoints: BTreeMap<SocketAddr, Endpoint>,
    /// Ports of pods behind the Service, ready or not: readiness does not change the protocol.
    ports: Vec<(WorkloadId, u16)>,
}

/// A Service, and what of the pods it was built from.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) service: Arc<Service>,
    /// What it says of the ports of pods.
    pub(super) declares: Vec<((WorkloadId, u16), Declared)>,
    /// Pods that its slices name, whether or not they are there, and addresses without a name.
    named: Vec<WorkloadId>,
    addressed: Vec<IpAddr>,
    /// It asks for pods by their labels.
    selects: bool,
}

impl Built {
    /// Whether it would be another one after a change of pods.
    pub(super) fn is_touched(&self, changed: &Changed) -> bool {
        !changed.pods.is_empty()
            && (self.named.iter().any(|id| changed.pods.contains(id))
                || self.addressed.iter().any(|ip| changed.addresses.contains(ip))
                || self.selects && changed.namespaces.contains(&self.service.key.0))
    }
}

/// Pods as Services look for them.
pub(super) struct Pods<'a> {
    pub(super) by_id: &'a BTreeMap<WorkloadId, Arc<Pod>>,
    pub(super) by_ip: &'a HashMap<IpAddr, WorkloadId>,
}

/// What Services are read with.
pub(super) struct Reading<'a> {
    pub(super) namespaces: &'a NamespaceSettings,
    pub(super) pods: &'a Pods<'a>,
}

/// Who an endpoint of a slice is.
enum Who<'a> {
    Pod(&'a Arc<Pod>),
    /// An address outside of the cluster, say: nobody says that it is a pod.
    Nobody,
    /// A pod of which nothing is known yet. It may be meshed, so it gets no traffic until that is known: plain text would be a guess.
    Awaited,
}

impl Reading<'_> {
    /// A Service with its endpoints; `None` where it is not used.
    pub(super) fn service(
        &self,
        sourced: &Sourced<v1::Service>,
        slices: Option<&[&Sourced<EndpointSlice>]>,
        problems: &mut Vec<Problem>,
    ) -> Option<Built> {
        let mut service = Service::read(sourced, self.namespaces, problems)?;
        let key = service.key.clone();
        let (mut count, mut declares) = (0, Vec::new());
        for (number, port) in &mut service.ports {
            let wanted = Wanted {
                service: (&key.0, &key.1),
                opaque: service.opaque.contains(*number) || port.declared == Some(Declared::Opaque),
                publish_not_ready: service.publish_not_ready,
            };
            let gathered = match slices {
                Some(slices) => self.of_slices(&wanted, &port.name, slices, problems),
                // Without slices, the pods themselves: nobody computes slices for a folder of manifests.
                None => self.of_selector(&wanted, *number, port.target.as_ref(), &service.selector),
            };
            count += gathered.endpoints.len();
            let taken = gathered.endpoints.into_values().take(ENDPOINTS_MAX);
            port.endpoints = taken.map(Arc::new).collect();
            if let Some(declared) = port.declared {
                declares.extend(gathered.ports.into_iter().map(|port| (port, declared)));
            }
        }
        if count > ENDPOINTS_MAX * service.ports.len().max(1) {
            problems.push(sourced.problem(
                "",
                format!("the Service has more than {ENDPOINTS_MAX} endpoints; further ones get no traffic"),
            ));
        }
        let (mut named, mut addressed) = (Vec::new(), Vec::new());
        for slice in slices.into_iter().flatten() {
            for endpoint in &slice.object.endpoints {
                match target_of(&key.0, endpoint) {
                    // The name that the pod has already, where it is known.
                    Some((id, _)) => {
                        named.push(self.pods.by_id.get(&id).map_or(id, |pod| pod.id.clone()));
                    }
                    None => {
                        let addresses = endpoint.addresses.iter();
                        addressed.extend(addresses.flat_map(|ip| ip.parse::<IpAddr>()));
                    }
                }
            }
        }
        let selects = slices.is_none();
        Some(Built { service: Arc::new(service), declares, named, addressed, selects })
    }

    fn of_slices(
        &self,
        wanted: &Wanted<'_>,
        port_name: &str,
        slices: &[&Sourced<EndpointSlice>],
        problems: &mut Vec<Problem>,
    ) -> Gathered {
        let mut found = Gathered::default();
        for slice in slices {
            let ports = slice.object.ports.iter().filter(|port| {
                port.name.as_deref().unwrap_or_default() == port_name
                    && port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP")
            });
            for port in ports.filter_map(|port| u16::try_from(port.port?).ok()) {
                for endpoint in &slice.object.endpoints {
                    for text in &endpoint.addresses {
                        let Ok(ip) = text.parse::<IpAddr>() else {
                            let message = format!("{text:?} is not an IP address");
                            let problem = slice.problem("endpoints.addresses", message);
                            if !problems.contains(&problem) {
                                problems.push(problem);
                            }
                            continue;
                        };
                        let pod = match self.who(&slice.key.namespace, endpoint, ip) {
                            Who::Pod(pod) => Some(pod),
                            Who::Nobody => None,
                            Who::Awaited => continue,
                        };
                        let fitness = wanted.fitness(endpoint, pod);
                        wanted.put(&mut found, SocketAddr::new(ip, port), pod, fitness);
                    }
                }
            }
        }
        found
    }

    /// The pod that a slice's endpoint is: by name where the slice says so, by address otherwise.
    fn who(&self, namespace: &Arc<str>, endpoint: &SliceEndpoint, ip: IpAddr) -> Who<'_> {
        match target_of(namespace, endpoint) {
            Some((id, uid)) => match self.pods.by_id.get(&id) {
                // Of the same name, and not the same one: a StatefulSet's pod that was made again.
                Some(pod) if uid.is_some() && pod.uid.is_some() && uid != pod.uid.as_deref() => {
                    Who::Awaited
                }
                Some(pod) => Who::Pod(pod),
                None => Who::Awaited,
            },
            None => {
                let id = self.pods.by_ip.get(&ip.to_canonical());
                id.and_then(|id| self.pods.by_id.get(id)).map_or(Who::Nobody, Who::Pod)
            }
        }
    }

    fn of_selector(
        &self,
        wanted: &Wanted<'_>,
        number: u16,
        target: Option<&IntOrString>,
        selector: &BTreeMap<String, String>,
    ) -> Gathered {
        let mut found = Gathered::default();
        if selector.is_empty() {
            return found;
        }
        let first = WorkloadId { namespace: wanted.service.0.clone(), pod: "".into() };
        let pods = self.pods.by_id.range(first..).map(|(_, pod)| pod);
        for pod in pods.take_while(|pod| pod.id.namespace == *wanted.service.0) {
            let selected =
                selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value.as_str()));
            let port = match target {
                None => Some(number),
                Some(IntOrString::Int(port)) => u16::try_from(*port).ok(),
                Some(IntOrString::String(name)) => pod.port_named(name),
            };
            let fitness = wanted.fitness_of(pod.ready, pod.terminating, Some(pod));
            if let (true, Some(port)) = (selected, port) {
                for ip in &pod.addresses {
                    wanted.put(&mut found, SocketAddr::new(*ip, port), Some(pod), fitness);
                }
            }
        }
        found
    }
}

/// What endpoints of one Service port are like.
struct Wanted<'a> {
    service: (&'a Arc<str>, &'a Arc<str>),
    opaque: bool,
    publish_not_ready: bool,
}

impl Wanted<'_> {
    /// A pod is leaving as soon as either object says so.
    fn fitness(&self, endpoint: &SliceEndpoint, pod: Option<&Arc<Pod>>) -> Option<Fitness> {
        let conditions = &endpoint.conditions;
        let ready = conditions.ready.unwrap_or(true);
        let terminating =
            conditions.terminating.unwrap_or(false) || pod.is_some_and(|pod| pod.terminating);
        let serving = if terminating { conditions.serving.unwrap_or(ready) } else { ready };
        self.fitness_of(serving, terminating, pod)
    }

    fn fitness_of(
        &self,
        serving: bool,
        terminating: bool,
        pod: Option<&Arc<Pod>>,
    ) -> Option<Fitness> {
        match (serving, terminating) {
            _ if self.publish_not_ready => Some(Fitness::Ready),
            (true, false) => Some(Fitness::Ready),
            (true, true) => Some(Fitness::Draining),
            // A pod that calls itself ready is one whose own news, or its slice's, is late, as when watches have just broken.
            (false, false) if pod.is_some_and(|pod| pod.unheard || pod.ready) => {
                Some(Fitness::Unheard)
            }
            (false, _) => None,
        }
    }

    fn put(
        &self,
        found: &mut Gathered,
        address: SocketAddr,
        pod: Option<&Arc<Pod>>,
        fitness: Option<Fitness>,
    ) {
        // Only the pod's own namespace decides how its proxy treats traffic, not an EndpointSlice in another namespace.
        if let Some(pod) = pod.filter(|pod| pod.id.namespace == *self.service.0) {
            found.ports.push((pod.id.clone(), address.port()));
        }
        let Some(fitness) = fitness else { return };
        match found.fitness {
            Some(best) if best < fitness => return,
            Some(best) if best == fitness => {}
            _ => {
                found.fitness = Some(fitness);
                found.endpoints.clear();
            }
        }
        let service = Some(self.service);
        let endpoint = match pod {
            Some(pod) => pod.endpoint(address, service, self.opaque),
            None => plain_endpoint(address, service),
        };
        found.endpoints.insert(address, endpoint);
    }
}

/// The pod that an endpoint says it is, and its UID.
fn target_of<'a>(
    namespace: &Arc<str>,
    endpoint: &'a SliceEndpoint,
) -> Option<(WorkloadId, Option<&'a str>)> {
    let pod = endpoint.pod.as_ref()?;
    let namespace = pod.namespace.as_deref().map_or_else(|| namespace.clone(), Arc::from);
    let id = WorkloadId { namespace, pod: pod.name.as_ref().into() };
    Some((id, pod.uid.as_deref()))
}

/// The slices of every Service, and a problem for each slice that is nobody's.
pub(super) fn slices_by_service(
    slices: &[Sourced<EndpointSlice>],
) -> (HashMap<ServiceKey, Vec<&Sourced<EndpointSlice>>>, Vec<Problem>) {
    let mut by_service: HashMap<ServiceKey, Vec<_>> = HashMap::new();
    let mut problems = Vec::new();
    for slice in slices {
        match &slice.object.metadata.labels.service {
            Some(service) => by_service
                .entry((slice.key.namespace.clone(), service.as_ref().into()))
                .or_default()
                .push(slice),
            None => problems.push(slice.problem(
                "metadata.labels[kubernetes.io/service-name]",
                "missing; the slice belongs to no Service",
            )),
        }
    }
    (by_service, problems)
}
