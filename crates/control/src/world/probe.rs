//! Health probes of a pod's own containers: the requests and connections that the kubelet makes, so that a policy that
//! admits no client without identity admits these.
//!
//! The kubelet has no identity of the mesh. A probe that the proxy can read is known by its request, at its port: `GET` of
//! exactly its path, or gRPC's health check. Every client may send that request, because the kubelet's address is the
//! node's in some networks and a bridge's in others. A probe that the proxy cannot read (HTTPS, `tcpSocket`, any probe of
//! a port of bytes) is known by its port and the node's addresses, and by nothing else: the node's addresses open no other
//! port. `exec` never touches the network. Hooks (`postStart`, `preStop`) are not probes: their requests may change state.

use crate::source::kept::{Container, PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use leno_model::name::Resource;
use leno_model::policy::{
    Authentication, Authorization, InboundProtocol, InboundRoute, Network, every_network,
};
use leno_model::route::{PathMatch, RequestMatch};
use leno_model::workload::Labels;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// The path of gRPC's health check.
const GRPC_CHECK: &str = "/grpc.health.v1.Health/Check";
/// The name of their authorizations in metrics.
const NAME: &str = "probe";

/// One probe of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    port: u16,
    how: How,
}

/// What the kubelet sends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// `GET` of this path in plain text.
    Http(Arc<str>),
    /// gRPC's health check.
    Grpc,
    /// Bytes that the proxy does not read, or none.
    Bytes,
}

impl How {
    /// Whether a proxy that takes the port for this protocol sees the request.
    fn is_readable(&self, protocol: InboundProtocol) -> bool {
        match (self, protocol) {
            (Self::Bytes, _) | (_, InboundProtocol::Opaque | InboundProtocol::Tls) => false,
            (_, InboundProtocol::Grpc) => *self == Self::Grpc,
            _ => true,
        }
    }
}

/// Probes of the kubelet, each once.
pub(super) fn read(spec: &PodSpec) -> Vec<Asked> {
    let ours = [leno_inject::names::INIT, leno_inject::names::PROXY];
    let mut asked = BTreeSet::new();
    for container in spec.every_container().filter(|container| !ours.contains(&&*container.name)) {
        let probes =
            [&container.liveness_probe, &container.readiness_probe, &container.startup_probe];
        asked.extend(probes.into_iter().flatten().filter_map(|probe| read_one(probe, container)));
    }
    asked.into_iter().collect()
}

fn read_one(probe: &Probe, container: &Container) -> Option<Asked> {
    if let Some(grpc) = &probe.grpc {
        return Some(Asked { port: u16::try_from(grpc.port).ok()?, how: How::Grpc });
    }
    // Another host is not this pod.
    let is_elsewhere = |host: &Option<Box<str>>| host.as_ref().is_some_and(|host| !host.is_empty());
    if let Some(tcp) = &probe.tcp_socket {
        let port = port_of(&tcp.port, container).filter(|_| !is_elsewhere(&tcp.host))?;
        return Some(Asked { port, how: How::Bytes });
    }
    let http = probe.http_get.as_ref()?;
    let port = port_of(&http.port, container).filter(|_| !is_elsewhere(&http.host))?;
    if http.scheme.as_deref() == Some("HTTPS") {
        return Some(Asked { port, how: How::Bytes });
    }
    // As the kubelet reads it: a query follows a `?`, and a path begins with a slash.
    let path = http.path.as_deref().unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = format!("/{}", path.strip_prefix('/').unwrap_or(path));
    Some(Asked { port, how: How::Http(path.into()) })
}

/// The number of a port that is given by number or by name.
fn port_of(port: &IntOrString, container: &Container) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => u16::try_from(*number).ok()?,
        IntOrString::String(name) => {
            let named = container.ports.iter().find(|port| port.name.as_deref() == Some(name));
            match named {
                Some(port) => u16::try_from(port.container_port).ok()?,
                None => name.parse().ok()?,
            }
        }
    };
    (number > 0).then_some(number)
}

/// What admits those probes of one port that its proxy can read.
pub(super) fn routes(asked: &[Asked], port: u16, protocol: InboundProtocol) -> Vec<InboundRoute> {
    let readable = asked.iter().filter(|one| one.port == port && one.how.is_readable(protocol));
    let matches: Vec<RequestMatch> = readable
        .map(|one| match &one.how {
            How::Http(path) => (path.clone(), Some("GET".into())),
            // A gRPC route has no method, and gRPC no other than POST.
            _ => (Arc::from(GRPC_CHECK), None),
        })
        .map(|(path, method)| RequestMatch {
            path: Some(PathMatch::Exact(path)),
            method,
            ..RequestMatch::default()
        })
        .collect();
    if matches.is_empty() {
        return Vec::new();
    }
    let resource = Resource::default_named(NAME);
    let authorizations = vec![unauthenticated(every_network())];
    vec![InboundRoute { resource, hosts: Vec::new(), matches, authorizations }]
}

/// What admits those probes of one port that its proxy cannot read: connections of its node to this port.
pub(super) fn of_node(
    asked: &[Asked],
    port: u16,
    protocol: InboundProtocol,
    node: &[IpAddr],
) -> Option<Authorization> {
    let mut here = asked.iter().filter(|one| one.port == port);
    let is_needed = here.any(|one| !one.how.is_readable(protocol));
    let networks = node.iter().map(|ip| Network { net: (*ip).into(), except: Vec::new() });
    (is_needed && !node.is_empty()).then(|| unauthenticated(networks.collect()))
}

fn unauthenticated(networks: Vec<Network>) -> Authorization {
    Authorization {
        networks,
        authentication: Authentication::Unauthenticated,
        resource: Resource::default_named(NAME),
        labels: Labels::default(),
    }
}
