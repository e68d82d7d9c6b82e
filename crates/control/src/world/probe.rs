//! Health probes of a pod's own containers: which requests the kubelet makes, so that a policy that lets in nobody without
//! identity lets in these.
//!
//! The kubelet has no identity of the mesh, and the address that it comes from is the node's in some networks and a
//! bridge's in others, so a probe is known by what it asks: `GET` of exactly its path, or gRPC's health check, at its port.
//! Other clients that send this request get the same answer. Probes over TLS are the application's own bytes and are not read;
//! a `tcpSocket` probe connects, which the proxy admits from every client; `exec` does not use the network. Hooks (`postStart`,
//! `preStop`) are not probes: they may change state.

use crate::source::kept::{Container, PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use leno_model::name::Resource;
use leno_model::policy::{
    Authentication, Authorization, InboundProtocol, InboundRoute, every_network,
};
use leno_model::route::{PathMatch, RequestMatch};
use leno_model::workload::Labels;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What gRPC's health checking protocol asks for, of whichever service.
const GRPC_CHECK: &str = "/grpc.health.v1.Health/Check";
/// The name of what lets them in, in metrics.
const NAME: &str = "probe";

/// One request of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    port: u16,
    path: Arc<str>,
    grpc: bool,
}

/// Requests of the kubelet, each once.
pub(super) fn read(spec: &PodSpec) -> Vec<Asked> {
    let ours = [leno_inject::pod::INIT, leno_inject::pod::PROXY];
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
        let port = u16::try_from(grpc.port).ok()?;
        return Some(Asked { port, path: GRPC_CHECK.into(), grpc: true });
    }
    let http = probe.http_get.as_ref()?;
    // Another host is not this pod.
    let elsewhere = http.host.as_ref().is_some_and(|host| !host.is_empty());
    if elsewhere || http.scheme.as_deref() == Some("HTTPS") {
        return None;
    }
    let port = match &http.port {
        IntOrString::Int(number) => u16::try_from(*number).ok()?,
        IntOrString::String(name) => {
            let named = container.ports.iter().find(|port| port.name.as_deref() == Some(name));
            match named {
                Some(port) => u16::try_from(port.container_port).ok()?,
                None => name.parse().ok()?,
            }
        }
    };
    // As the kubelet reads it: what follows a `?` is a query, and a path begins with a slash.
    let path = http.path.as_deref().unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = format!("/{}", path.strip_prefix('/').unwrap_or(path));
    (port > 0).then(|| Asked { port, path: path.into(), grpc: false })
}

/// What lets the probes of one port in, where its protocol has requests.
pub(super) fn routes(asked: &[Asked], port: u16, protocol: InboundProtocol) -> Vec<InboundRoute> {
    let readable = |one: &Asked| match protocol {
        InboundProtocol::Opaque | InboundProtocol::Tls => false,
        InboundProtocol::Grpc => one.grpc,
        _ => true,
    };
    let matches: Vec<RequestMatch> = asked
        .iter()
        .filter(|one| one.port == port && readable(one))
        .map(|one| RequestMatch {
            path: Some(PathMatch::Exact(one.path.clone())),
            // A gRPC route has no method, and gRPC no other than POST.
            method: (!one.grpc).then(|| "GET".into()),
            ..RequestMatch::default()
        })
        .collect();
    if matches.is_empty() {
        return Vec::new();
    }
    let resource = Resource::default_named(NAME);
    let everybody = Authorization {
        networks: every_network(),
        authentication: Authentication::Unauthenticated,
        resource: resource.clone(),
        labels: Labels::default(),
    };
    vec![InboundRoute { resource, hosts: Vec::new(), matches, authorizations: vec![everybody] }]
}
