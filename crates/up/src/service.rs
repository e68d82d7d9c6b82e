//! Services: the world to virtual addresses and endpoints, and from there to rules, names and EndpointSlices. Pure.

use crate::address::Pair;
use crate::manifest::Key;
use crate::names::{Named, Table};
use crate::probe;
use crate::ruleset::Forward;
use crate::world::{Phase, PodState, World};
use k8s_openapi::api::core::v1::{Container, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::net::{IpAddr, SocketAddr};

/// One pod behind a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the pod.
    pub pod: String,
    /// Its addresses.
    pub address: Pair,
    /// Takes new connections.
    pub ready: bool,
    /// Is being ended.
    pub ending: bool,
    /// The host name it has under the Service's name, if any.
    pub host: Option<String>,
    /// The pod's port for each port of the Service; 0 where the pod has none of that name.
    pub ports: Vec<u16>,
}

/// A Service with all that is needed to publish it.
#[derive(Clone, Debug)]
pub struct View {
    /// Namespace and name.
    pub key: Key,
    /// The object.
    pub service: Service,
    /// Its addresses; `None` when it is headless.
    pub address: Option<Pair>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Pods that it selects.
    pub endpoints: Vec<Endpoint>,
}

/// Whether a Service has no address of its own.
#[must_use]
pub fn is_headless(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// Gives every Service its addresses; answers those that cannot have the one they wish for.
pub fn give_addresses(world: &mut World) -> Vec<String> {
    let mut mistakes = Vec::new();
    let services = world.objects.services.iter();
    let (wishes, others): (Vec<_>, Vec<_>) = services
        .filter(|(_, service)| !is_headless(service))
        .map(|((namespace, name), service)| {
            let spec = service.spec.as_ref();
            let wish =
                spec.and_then(|spec| spec.cluster_ip.clone()).filter(|wish| !wish.is_empty());
            (format!("{namespace}/{name}"), wish)
        })
        .partition(|(_, wish)| wish.is_some());
    for (owner, wish) in wishes {
        let wish = wish.unwrap_or_default();
        let given = wish
            .parse()
            .ok()
            .and_then(|address| world.service_addresses.take_wish(&owner, address));
        if given.is_none() {
            mistakes.push(format!(
                "service {owner}: clusterIP {wish:?} is in use or is not an address of {}",
                crate::address::SERVICES_V4
            ));
        }
    }
    for (owner, _) in others {
        if world.service_addresses.take(&owner).is_none() {
            mistakes.push(format!("service {owner}: no address is left"));
        }
    }
    mistakes
}

/// Every Service as it is now.
#[must_use]
pub fn views(world: &mut World) -> Vec<View> {
    let World { objects, pods, service_addresses, .. } = world;
    let mut views = Vec::new();
    for ((namespace, name), service) in &objects.services {
        let spec = service.spec.clone().unwrap_or_default();
        let ports = spec.ports.clone().unwrap_or_default();
        let selector = spec.selector.clone().unwrap_or_default();
        let address = if is_headless(service) {
            None
        } else {
            service_addresses.take(&format!("{namespace}/{name}"))
        };
        let mut endpoints = Vec::new();
        for ((pod_namespace, pod_name), pod) in pods.iter() {
            let labels = pod.labels();
            let selected = pod_namespace == namespace
                && !selector.is_empty()
                && selector.iter().all(|(key, value)| labels.get(key) == Some(value));
            if selected && !matches!(pod.phase, Phase::Succeeded | Phase::Failed) {
                let early = spec.publish_not_ready_addresses == Some(true);
                endpoints.push(endpoint(pod_name, pod, name, &ports, early));
            }
        }
        let key = (namespace.clone(), name.clone());
        views.push(View { key, service: service.clone(), address, ports, endpoints });
    }
    views
}

fn endpoint(
    name: &str,
    pod: &PodState,
    service: &str,
    ports: &[ServicePort],
    early: bool,
) -> Endpoint {
    let spec = &pod.template.spec;
    let of_service = spec.subdomain.as_deref() == Some(service);
    Endpoint {
        pod: name.to_owned(),
        address: pod.address,
        ready: (pod.ready || early) && !pod.ending,
        ending: pod.ending,
        host: of_service.then(|| spec.hostname.clone().unwrap_or_else(|| name.to_owned())),
        ports: ports.iter().map(|port| target(port, &spec.containers)).collect(),
    }
}

/// The pod's port for a port of the Service.
fn target(port: &ServicePort, containers: &[Container]) -> u16 {
    match &port.target_port {
        None => u16::try_from(port.port).unwrap_or(0),
        Some(wanted @ IntOrString::String(_)) => {
            containers.iter().find_map(|container| probe::port(wanted, container).ok()).unwrap_or(0)
        }
        Some(IntOrString::Int(number)) => u16::try_from(*number).unwrap_or(0),
    }
}

/// The rules of all Services.
#[must_use]
pub fn forwards(views: &[View]) -> Vec<Forward> {
    let mut forwards = Vec::new();
    for view in views {
        let Some(address) = view.address else { continue };
        for (index, port) in view.ports.iter().enumerate() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase();
            let ready = |pick: fn(Pair) -> IpAddr| -> Vec<SocketAddr> {
                let endpoints = view.endpoints.iter();
                endpoints
                    .filter(|endpoint| endpoint.ready && endpoint.ports[index] != 0)
                    .map(|endpoint| SocketAddr::new(pick(endpoint.address), endpoint.ports[index]))
                    .collect()
            };
            for pick in [(|pair| pair.v4.into()) as fn(Pair) -> IpAddr, |pair| pair.v6.into()] {
                forwards.push(Forward {
                    address: pick(address),
                    port: u16::try_from(port.port).unwrap_or(0),
                    protocol: protocol.clone(),
                    endpoints: ready(pick),
                });
            }
        }
    }
    forwards
}

/// The names of all Services.
#[must_use]
pub fn names(views: &[View]) -> Table {
    let mut table = Table::default();
    for view in views {
        let mut named = Named::default();
        for endpoint in view.endpoints.iter().filter(|endpoint| endpoint.ready) {
            if view.address.is_none() {
                named.v4.push(endpoint.address.v4);
                named.v6.push(endpoint.address.v6);
            }
            if let Some(host) = &endpoint.host {
                named.hosts.insert(host.clone(), (endpoint.address.v4, endpoint.address.v6));
            }
        }
        if let Some(address) = view.address {
            named.v4.push(address.v4);
            named.v6.push(address.v6);
        }
        table.services.insert(view.key.clone(), named);
    }
    table
}
