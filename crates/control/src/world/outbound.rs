//! The answer for a client's proxy about a destination.

use super::pod::{Pod, plain_endpoint};
use super::route::parent::Kind;
use super::route::{Attached, as_http, service_backend, service_resource};
use super::service::{Service, ServiceKey};
use super::settings::{DETECT_TIMEOUT, Declared};
use super::{Ground, World};
use leno_api::outbound::Target;
use leno_model::name::{Resource, WorkloadId};
use leno_model::route::{
    Backend, BackendKind, Distribution, HttpRoute, HttpRoutes, HttpRule, OpaqueRoute, OpaqueRoutes,
    OutboundPolicy, OutboundProtocol, Timeouts,
};
use leno_model::workload::{Endpoint, EndpointSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// The port of a name without one.
const PORT_DEFAULT: u16 = 80;

/// linkerd's service profile, as much of it as still means something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The Service's full name, empty where there is none.
    pub name: String,
    /// Bytes.
    pub opaque: bool,
    /// The endpoint, where the target is one.
    pub endpoint: Option<Endpoint>,
    /// The Service.
    pub parent: Option<Resource>,
}

/// What a target turned out to be.
enum Found<'a> {
    Service(&'a Arc<Service>, u16),
    /// An address, and whose it is where that is known.
    Address(SocketAddr, Option<&'a Arc<Pod>>),
}

impl World {
    /// How traffic to the target is treated, for clients of a namespace; `None` for a name that does not exist.
    #[must_use]
    pub fn outbound(&self, target: &Target, client_namespace: &str) -> Option<OutboundPolicy> {
        Some(match self.find(target)? {
            Found::Service(service, port) => self.of_service(service, port, client_namespace),
            Found::Address(address, pod) => {
                let (endpoint, declared) = self.endpoint(address, pod);
                let parent =
                    endpoint.resource.clone().unwrap_or_else(|| Resource::default_named("forward"));
                let resource = parent.clone();
                let kind = BackendKind::Forward(Arc::new(endpoint));
                let backend = Backend { resource, kind, filters: Vec::new() };
                let protocol = protocol(
                    declared,
                    default_http(&backend),
                    default_http(&backend),
                    default_opaque(&backend),
                );
                OutboundPolicy { parent, protocol, breaker: None }
            }
        })
    }

    /// Whether the target is an address that is nobody's: outside of the mesh, or of what has just gone.
    #[must_use]
    pub fn is_nobodys(&self, target: &Target) -> bool {
        matches!(self.find(target), Some(Found::Address(_, None)))
    }

    /// The endpoints of `name.namespace.svc.cluster.local:port`, as a client has them: `internalTrafficPolicy: Local` leaves those of its
    /// own node. Of a client whose node is not known, or where nobody asks for one, all.
    #[must_use]
    pub fn endpoints(&self, authority: &str, client: Option<&WorkloadId>) -> EndpointSet {
        match self.find(&Target::Authority(authority.into())) {
            Some(Found::Service(service, port)) => {
                let endpoints = service.ports.get(&port).map(|p| p.endpoints.clone());
                let mut endpoints = endpoints.unwrap_or_default();
                let client = client.filter(|_| service.node_local);
                if let Some(node) = client.and_then(|id| self.pods.get(id)?.node.as_ref()) {
                    let node_of = |endpoint: &Endpoint| self.pod_of(endpoint)?.node.as_ref();
                    endpoints.retain(|endpoint| node_of(endpoint) == Some(node));
                }
                EndpointSet { endpoints, exists: true }
            }
            Some(Found::Address(address, pod)) => {
                let (endpoint, _) = self.endpoint(address, pod);
                EndpointSet { endpoints: vec![Arc::new(endpoint)], exists: true }
            }
            None => EndpointSet::default(),
        }
    }

    /// The pod that an endpoint says it is.
    pub(super) fn pod_of(&self, endpoint: &Endpoint) -> Option<&Arc<Pod>> {
        let Some(Resource::Object { namespace, name, .. }) = &endpoint.resource else {
            return None;
        };
        self.pods.get(&WorkloadId { namespace: namespace.clone(), pod: name.clone() })
    }

    /// The profile that linkerd's proxies ask for.
    #[must_use]
    pub fn profile(&self, target: &Target) -> Profile {
        match self.find(target) {
            None => Profile::default(),
            Some(Found::Service(service, port)) => Profile {
                name: format!(
                    "{}.{}.svc.{}",
                    service.key.1, service.key.0, self.names.cluster_domain
                ),
                opaque: is_bytes(service.declared(port)),
                endpoint: None,
                parent: Some(service_resource(&service.key, port)),
            },
            Some(Found::Address(address, pod)) => {
                let (endpoint, declared) = self.endpoint(address, pod);
                Profile {
                    name: String::new(),
                    opaque: is_bytes(declared),
                    parent: None,
                    // An unknown address is not an endpoint of the mesh.
                    endpoint: Some(endpoint).filter(|endpoint| endpoint.resource.is_some()),
                }
            }
        }
    }

    /// What the answers above are made of.
    #[must_use]
    pub fn ground(&self, target: &Target, client: Option<&WorkloadId>) -> Ground {
        match self.find(target) {
            Some(Found::Service(service, _)) => {
                let client = client.filter(|_| service.node_local);
                let client = client.and_then(|id| self.pods.get(id)).map(Arc::downgrade);
                let routes = self.routes.attached.get(&service.key).map(Arc::downgrade);
                let budgets = Arc::downgrade(&self.backend_policies);
                let around = (routes.unwrap_or_default(), budgets);
                Ground::Service(Arc::downgrade(service), around, client.unwrap_or_default())
            }
            Some(Found::Address(_, pod)) => self.ground_of_pod(pod),
            None => Ground::Nothing,
        }
    }

    /// The Service and its port that a target means.
    #[must_use]
    pub fn service_port(&self, target: &Target) -> Option<(&ServiceKey, u16)> {
        match self.find(target)? {
            Found::Service(service, port) => Some((&service.key, port)),
            Found::Address(..) => None,
        }
    }

    fn find(&self, target: &Target) -> Option<Found<'_>> {
        match target {
            Target::Address(address) => Some(self.find_address(*address)),
            Target::Authority(text) => {
                if let Ok(address) = text.parse::<SocketAddr>() {
                    return Some(self.find_address(address));
                }
                let (name, port) = match text.rsplit_once(':') {
                    Some((name, port)) => (name, port.parse().ok()?),
                    None => (text.as_ref(), PORT_DEFAULT),
                };
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                let short = name
                    .strip_suffix(&format!(".svc.{}", self.names.cluster_domain))
                    .or_else(|| name.strip_suffix(".svc"))?;
                let (service, namespace) = short.split_once('.')?;
                let service = self.services.get(&(namespace.into(), service.into()))?;
                service.ports.contains_key(&port).then_some(Found::Service(service, port))
            }
        }
    }

    fn find_address(&self, address: SocketAddr) -> Found<'_> {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        if let Some(service) = self.service_at(ip)
            && service.ports.contains_key(&port)
        {
            return Found::Service(service, port);
        }
        Found::Address(SocketAddr::new(ip, port), self.pod_at(ip))
    }

    fn endpoint(
        &self,
        address: SocketAddr,
        pod: Option<&Arc<Pod>>,
    ) -> (Endpoint, Option<Declared>) {
        match pod {
            Some(pod) => {
                let declared = self.declared_of(pod, address.port());
                let opaque = declared == Some(Declared::Opaque);
                (pod.endpoint(address, None, opaque), declared)
            }
            // Nobody we know: discovery's explicit word that it is outside the mesh, and plain.
            None => (plain_endpoint(address, None), None),
        }
    }

    fn of_service(&self, service: &Service, port: u16, client_namespace: &str) -> OutboundPolicy {
        let backend = service_backend(self, &service.key, port);
        let mut of_requests = backend.clone();
        self.backend_policies.complete(&mut of_requests);
        let attached = self.routes.of(&service.key).iter();
        let here: Vec<&Attached> = attached.filter(|a| a.port.is_none_or(|p| p == port)).collect();
        let of = |consumers: Option<&str>| -> Vec<&Attached> {
            here.iter().copied().filter(|a| a.consumers.as_deref() == consumers).collect()
        };
        // A client's namespace may say how its own clients call a Service; then the Service's own routes do not hold for them.
        let mut routes = of(Some(client_namespace));
        if routes.is_empty() {
            routes = of(None);
        }
        let select = |kinds: &[Kind]| {
            let chosen = routes.iter().filter(|a| kinds.contains(&a.kind));
            let complete = |kind, mut route: HttpRoute| {
                route.rules.iter_mut().for_each(|rule| service.traffic.complete(kind, rule));
                route
            };
            let chosen = chosen.map(|a| complete(a.kind, a.route.as_ref().clone()));
            let mut routes: Vec<_> = chosen.collect();
            if routes.is_empty() {
                let mut defaults = default_http(&of_requests).routes;
                for rule in defaults.iter_mut().flat_map(|route| &mut route.rules) {
                    rule.persistence = self.backend_policies.persistence(&rule.backends, "Service");
                }
                let kind = if kinds == [Kind::Grpc] { Kind::Grpc } else { Kind::Http };
                routes = defaults.into_iter().map(|route| complete(kind, route)).collect();
            }
            HttpRoutes { routes }
        };
        let parent = service_resource(&service.key, port);
        let declared = service.declared(port);
        let only_grpc = routes.iter().all(|a| a.kind == Kind::Grpc);
        if declared == Some(Declared::Grpc) && only_grpc {
            let protocol = OutboundProtocol::Grpc(select(&[Kind::Grpc]));
            let (parent, breaker) = (parent.clone(), service.breaker.clone());
            let policy = OutboundPolicy { parent, protocol, breaker };
            // Its rules can be read by proxies, or they would not be there.
            if leno_api::outbound::to_message(&policy).is_ok() {
                return policy;
            }
        }
        // What messages of gRPC routes cannot say, and HTTPRoutes on a gRPC port, is said of HTTP/2.
        let declared = declared.map(|d| if d == Declared::Grpc { Declared::Http2 } else { d });
        let http2 = as_http(select(&[Kind::Http, Kind::Grpc]));
        let protocol = protocol(declared, select(&[Kind::Http]), http2, default_opaque(&backend));
        let breaker = service.breaker.clone();
        OutboundPolicy { parent, protocol, breaker }
    }
}

fn is_bytes(declared: Option<Declared>) -> bool {
    matches!(declared, Some(Declared::Opaque | Declared::Tls))
}

fn protocol(
    declared: Option<Declared>,
    http1: HttpRoutes,
    http2: HttpRoutes,
    opaque: OpaqueRoutes,
) -> OutboundProtocol {
    match declared {
        None => OutboundProtocol::Detect { timeout: DETECT_TIMEOUT, http1, http2, opaque },
        Some(Declared::Http1) => OutboundProtocol::Http1(http1),
        Some(Declared::Http2) => OutboundProtocol::Http2(http2),
        Some(Declared::Grpc) => OutboundProtocol::Grpc(http2),
        Some(Declared::Opaque) => OutboundProtocol::Opaque(opaque),
        Some(Declared::Tls) => OutboundProtocol::Tls(opaque),
    }
}

/// Everything goes to the one backend.
fn default_http(backend: &Backend) -> HttpRoutes {
    HttpRoutes {
        routes: vec![HttpRoute {
            resource: Resource::default_named("http"),
            hosts: Vec::new(),
            rules: vec![HttpRule {
                matches: Vec::new(),
                filters: Vec::new(),
                backends: Distribution::First(vec![backend.clone()]),
                timeouts: Timeouts::default(),
                retry: None,
                persistence: Vec::new(),
            }],
        }],
    }
}

fn default_opaque(backend: &Backend) -> OpaqueRoutes {
    OpaqueRoutes {
        routes: vec![OpaqueRoute {
            resource: Resource::default_named("opaq"),
            server_names: Vec::new(),
            rules: vec![Distribution::First(vec![backend.clone()])],
        }],
    }
}
