//! Services: the world to virtual addresses and endpoints, and from there to rules, names and EndpointSlices. Pure.

mod family;

pub use family::{Families, Family};

use crate::address::Pair;
use crate::manifest::Key;
use crate::names::{Named, Table};
use crate::probe;
use crate::ruleset::Forward;
use crate::world::{Phase, PodState, World};
use k8s_openapi::api::core::v1::{Container, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::net::SocketAddr;

/// One pod behind a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the pod.
    pub pod: String,
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
    /// Its addresses; `None` when it is headless. Only those of `families` are used.
    pub address: Option<Pair>,
    /// The address families that it has.
    pub families: Families,
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

/// Gives every Service its addresses; answers those that cannot have what they ask for.
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
    let World { objects, pods, service_addresses, has_ipv6, .. } = world;
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
        // What cannot be read was refused before it came into force.
        let families = Families::of(service, *has_ipv6).unwrap_or_default();
        views.push(View { key, service: service.clone(), address, families, ports, endpoints });
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
            let ready = |family: Family| -> Vec<SocketAddr> {
                let endpoints = view.endpoints.iter();
                endpoints
                    .filter(|endpoint| endpoint.ready && endpoint.ports[index] != 0)
                    .map(|endpoint| {
                        SocketAddr::new(family.of(endpoint.address), endpoint.ports[index])
                    })
                    .collect()
            };
            for family in view.families.iter() {
                forwards.push(Forward {
                    address: family.of(address),
                    port: u16::try_from(port.port).unwrap_or(0),
                    protocol: protocol.clone(),
                    endpoints: ready(family),
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
            let addresses = view.families.iter().map(|family| family.of(endpoint.address));
            if view.address.is_none() {
                named.addresses.extend(addresses.clone());
            }
            if let Some(host) = &endpoint.host {
                named.hosts.insert(host.clone(), addresses.collect());
            }
        }
        if let Some(address) = view.address {
            named.addresses.extend(view.families.iter().map(|family| family.of(address)));
        }
        table.services.insert(view.key.clone(), named);
    }
    table
}
