//! What of an object is kept. A cluster has tens of thousands, and the mesh reads little of each.

use crate::source::Object;
use gateway_api::referencegrants::ReferenceGrant;
use k8s_openapi::api::core::v1::{
    Container, Namespace, ObjectReference, Pod, PodSpec, PodStatus, Probe, Service, ServiceAccount,
    ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use leno_inject::pod::{INIT, PROXY};
use std::sync::Arc;

/// The object with what [`crate::world`] reads and nothing else. Its name and version are in its key and origin.
pub(super) fn strip(object: Object) -> Object {
    match object {
        Object::Namespace(namespace) => {
            let metadata = metadata(take(namespace).metadata);
            Object::Namespace(Arc::new(Namespace { metadata, ..Namespace::default() }))
        }
        Object::ServiceAccount(_) => Object::ServiceAccount(Arc::new(ServiceAccount::default())),
        Object::Pod(pod) => Object::Pod(Arc::new(self::pod(take(pod)))),
        Object::Service(service) => Object::Service(Arc::new(self::service(take(service)))),
        Object::EndpointSlice(slice) => Object::EndpointSlice(Arc::new(self::slice(take(slice)))),
        Object::HttpRoute(route) => {
            let mut route = take(route);
            route.metadata = metadata(route.metadata);
            Object::HttpRoute(Arc::new(route))
        }
        Object::GrpcRoute(route) => {
            let mut route = take(route);
            route.metadata = metadata(route.metadata);
            Object::GrpcRoute(Arc::new(route))
        }
        Object::ReferenceGrant(grant) => {
            let spec = take(grant).spec;
            let metadata = ObjectMeta::default();
            Object::ReferenceGrant(Arc::new(ReferenceGrant { metadata, spec }))
        }
        // Kinds of the directory source alone; see `WATCHED`.
        other => other,
    }
}

/// It was just read, so nobody else has it.
fn take<T: Clone>(object: Arc<T>) -> T {
    Arc::unwrap_or_clone(object)
}

fn metadata(metadata: ObjectMeta) -> ObjectMeta {
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| {
        let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
        prefix.ends_with("leno.dev") || prefix.ends_with("linkerd.io")
    });
    ObjectMeta {
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        labels: metadata.labels,
        uid: metadata.uid,
        generation: metadata.generation,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}

fn pod(pod: Pod) -> Pod {
    let owner = pod.metadata.owner_references.clone().and_then(|owners| {
        let owner = owners.into_iter().find(|owner| owner.controller.unwrap_or(true))?;
        let OwnerReference { kind, name, controller, .. } = owner;
        Some(vec![OwnerReference { kind, name, controller, ..OwnerReference::default() }])
    });
    let spec = pod.spec.unwrap_or_default();
    let containers = containers(spec.containers, spec.init_containers.unwrap_or_default());
    let status = pod.status.unwrap_or_default();
    let mut conditions = status.conditions.unwrap_or_default();
    conditions.retain(|condition| condition.type_ == "Ready");
    conditions.shrink_to_fit();
    for condition in &mut conditions {
        condition.message = None;
        condition.reason = None;
        condition.last_probe_time = None;
        condition.last_transition_time = None;
        condition.observed_generation = None;
    }
    Pod {
        metadata: ObjectMeta { owner_references: owner, ..metadata(pod.metadata) },
        spec: Some(PodSpec {
            containers,
            host_network: spec.host_network,
            service_account_name: spec.service_account_name,
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            conditions: Some(conditions),
            phase: status.phase,
            // The first of `podIPs` is `podIP`.
            pod_ip: status.pod_ip.filter(|_| status.pod_ips.is_none()),
            pod_ips: status.pod_ips,
            host_ips: status.host_ips,
            ..PodStatus::default()
        }),
    }
}

/// Containers with probes over the network, and one for all others: it has the ports that have names, and the proxy's name where one is
/// the proxy. The published type takes kilobytes whatever is in it, and of ten thousand pods most say no more than this.
fn containers(app: Vec<Container>, init: Vec<Container>) -> Vec<Container> {
    let mut kept = Vec::new();
    let mut others = Container::default();
    let mut ports = Vec::new();
    for container in app.into_iter().chain(init) {
        let mut named = container.ports.unwrap_or_default();
        named.retain(|port| port.name.is_some());
        let is_ours = container.name == PROXY || container.name == INIT;
        let with_probes = Container {
            liveness_probe: probe(container.liveness_probe),
            readiness_probe: probe(container.readiness_probe),
            startup_probe: probe(container.startup_probe),
            ..Container::default()
        };
        if is_ours || with_probes == Container::default() {
            ports.extend(named);
            if container.name == PROXY {
                others.name = container.name;
            }
        } else {
            named.shrink_to_fit();
            let ports = Some(named).filter(|named| !named.is_empty());
            kept.push(Container { name: container.name, ports, ..with_probes });
        }
    }
    if !ports.is_empty() || !others.name.is_empty() {
        ports.shrink_to_fit();
        others.ports = Some(ports);
        kept.push(others);
    }
    kept.shrink_to_fit();
    kept
}

fn probe(probe: Option<Probe>) -> Option<Probe> {
    let Probe { grpc, http_get, .. } = probe?;
    let is_asked = grpc.is_some() || http_get.is_some();
    is_asked.then(|| Probe { grpc, http_get, ..Probe::default() })
}

fn service(service: Service) -> Service {
    let spec = service.spec.map(|spec| ServiceSpec {
        // The first of `clusterIPs` is `clusterIP`.
        cluster_ip: spec.cluster_ip.filter(|_| spec.cluster_ips.is_none()),
        cluster_ips: spec.cluster_ips,
        ports: spec.ports,
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        selector: spec.selector,
        type_: spec.type_,
        ..ServiceSpec::default()
    });
    let metadata = ObjectMeta { labels: None, ..metadata(service.metadata) };
    Service { metadata, spec, status: None }
}

fn slice(slice: EndpointSlice) -> EndpointSlice {
    let mut metadata = metadata(slice.metadata);
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| key == "kubernetes.io/service-name");
    }
    let endpoint = |endpoint: Endpoint| Endpoint {
        addresses: endpoint.addresses,
        conditions: endpoint.conditions,
        target_ref: endpoint.target_ref.map(|target| ObjectReference {
            kind: target.kind,
            name: target.name,
            uid: target.uid,
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    };
    let mut endpoints: Vec<Endpoint> = slice.endpoints.into_iter().map(endpoint).collect();
    endpoints.shrink_to_fit();
    EndpointSlice { metadata, endpoints, ports: slice.ports, address_type: slice.address_type }
}
