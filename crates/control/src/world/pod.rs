//! Workloads: pods with their addresses, identities and settings.

use super::settings::{NamespaceSettings, Ports, Settings};
use super::{MeshNames, probe};
use crate::source::{Problem, Sourced};
use k8s_openapi::api::core::v1;
use leno_inject::annotation::MESHED;
use leno_model::name::{PeerName, Resource, SpiffeId, WorkloadId};
use leno_model::policy::DefaultPolicy;
use leno_model::workload::{Endpoint, Labels, PeerIdentity, ProtocolHint};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// linkerd's unit for an endpoint like any other.
pub const WEIGHT_ONE: u32 = 10_000;
/// Where a proxy takes connections from the mesh.
pub const INBOUND_PORT: u16 = 4143;

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub id: WorkloadId,
    /// Its service account.
    pub service_account: Arc<str>,
    /// Who it is, where its account makes a valid name.
    pub identity: Option<PeerIdentity>,
    /// Whether a proxy stands in front of it.
    pub meshed: bool,
    /// Whether that proxy takes HTTP/1 carried in HTTP/2 (`l5d-orig-proto`), as linkerd's does.
    pub http2_upgrade: bool,
    /// Ports that are bytes by annotation.
    pub opaque: Ports,
    /// Ports that its proxy does not see.
    pub skip_inbound: Ports,
    /// Who may connect where nothing else says so.
    pub policy: DefaultPolicy,
    /// Takes traffic.
    pub ready: bool,
    /// Is being deleted.
    pub terminating: bool,
    pub(super) uid: Option<Arc<str>>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) labels: BTreeMap<String, String>,
    metric_labels: Vec<(Arc<str>, Arc<str>)>,
    named_ports: BTreeMap<String, u16>,
    pub(super) probes: Vec<probe::Asked>,
}

impl Pod {
    pub(super) fn read(
        pod: &Sourced<v1::Pod>,
        names: &MeshNames,
        namespaces: &NamespaceSettings,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let metadata = &pod.object.metadata;
        let own = Settings::read(pod, metadata.annotations.as_ref(), problems);
        let inherited = namespaces.get(&pod.key.namespace).cloned().unwrap_or_default();
        let spec = pod.object.spec.as_ref();
        let service_account = spec
            .and_then(|spec| spec.service_account_name.as_ref().or(spec.service_account.as_ref()))
            .filter(|name| !name.is_empty())
            .map_or("default", String::as_str);
        let identity = match identity(names, &pod.key.namespace, service_account) {
            Ok(identity) => Some(identity),
            Err(message) => {
                problems.push(pod.problem("spec.serviceAccountName", message));
                None
            }
        };
        let proxied = !names.proxies_are_containers || spec.is_some_and(has_proxy);
        if own.meshed && !proxied {
            problems.push(pod.problem(
                format!("metadata.annotations[{MESHED}]"),
                "says that there is a proxy, and no container is one: it gets plain text",
            ));
        }
        let meshed = own.meshed && proxied;
        if meshed && identity.is_none() {
            problems.push(
                pod.problem(
                    "spec.serviceAccountName",
                    "without identity it gets no meshed traffic",
                ),
            );
        }
        let status = pod.object.status.as_ref();
        let finished = status
            .and_then(|status| status.phase.as_deref())
            .is_some_and(|phase| phase == "Succeeded" || phase == "Failed");
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        Self {
            id: WorkloadId { namespace: pod.key.namespace.clone(), pod: pod.key.name.clone() },
            service_account: service_account.into(),
            identity,
            meshed,
            http2_upgrade: own.http2_upgrade,
            opaque: own.opaque.or(inherited.opaque).unwrap_or_default(),
            skip_inbound: own.skip_inbound.or(inherited.skip_inbound).unwrap_or_default(),
            policy: own.policy.or(inherited.policy).unwrap_or_default(),
            ready: ready && !finished,
            terminating: metadata.deletion_timestamp.is_some(),
            uid: metadata.uid.as_deref().map(Arc::from),
            addresses: if finished { Vec::new() } else { addresses(pod, problems) },
            labels: metadata.labels.clone().unwrap_or_default(),
            metric_labels: metric_labels(pod, service_account),
            named_ports: named_ports(pod),
            probes: spec.map(probe::read).unwrap_or_default(),
        }
    }

    /// The number of a container's port by its name.
    pub(super) fn port_named(&self, name: &str) -> Option<u16> {
        self.named_ports.get(name).copied()
    }

    /// The object, as metrics and pools know it.
    #[must_use]
    pub fn resource(&self) -> Resource {
        Resource::object("core", "Pod", &self.id.namespace, &self.id.pod)
    }

    /// The pod as an endpoint. `service` is the Service that leads there; it may declare the port to be bytes.
    pub(super) fn endpoint(
        &self,
        address: SocketAddr,
        service: Option<(&str, &str)>,
        opaque: bool,
    ) -> Endpoint {
        // A port that the proxy does not see is plain text, whatever the pod is.
        let behind_proxy = self.meshed && !self.skip_inbound.contains(address.port());
        let identity = self.identity.clone().filter(|_| behind_proxy);
        let hint = if opaque || self.opaque.contains(address.port()) {
            ProtocolHint::Opaque
        } else if self.http2_upgrade && identity.is_some() {
            ProtocolHint::Http2
        } else {
            ProtocolHint::Unknown
        };
        Endpoint {
            address,
            weight: WEIGHT_ONE,
            opaque_transport_port: identity.is_some().then_some(INBOUND_PORT),
            identity,
            hint,
            labels: labels_with_service(self.metric_labels.clone(), service),
            resource: Some(self.resource()),
        }
    }
}

/// An address that no pod has: plain text, as nothing is known of it.
pub(super) fn plain_endpoint(address: SocketAddr, service: Option<(&str, &str)>) -> Endpoint {
    let labels = labels_with_service(Vec::new(), service);
    Endpoint { weight: WEIGHT_ONE, labels, ..Endpoint::plain(address) }
}

fn labels_with_service(
    mut labels: Vec<(Arc<str>, Arc<str>)>,
    service: Option<(&str, &str)>,
) -> Labels {
    if let Some((namespace, name)) = service {
        labels.retain(|(key, _)| key.as_ref() != "namespace");
        labels.push(("namespace".into(), namespace.into()));
        labels.push(("service".into(), name.into()));
    }
    labels.sort();
    labels.into()
}

/// Whether one of the pod's containers is the proxy.
fn has_proxy(spec: &v1::PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.into_iter().any(|container| container.name == leno_inject::pod::PROXY)
}

/// The identity of a service account.
///
/// # Errors
/// The names make no identity.
pub fn identity(
    names: &MeshNames,
    namespace: &str,
    service_account: &str,
) -> Result<PeerIdentity, String> {
    let id = SpiffeId::service_account(&names.trust_domain, namespace, service_account)
        .map_err(|error| error.to_string())?;
    let server_name =
        id.to_dns_like(&names.control_namespace).map_err(|error| error.to_string())?;
    Ok(PeerIdentity { name: PeerName::Spiffe(id), server_name })
}

fn addresses(pod: &Sourced<v1::Pod>, problems: &mut Vec<Problem>) -> Vec<IpAddr> {
    let host_network = pod.object.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let Some(status) = pod.object.status.as_ref().filter(|_| !host_network) else {
        // A host's address belongs to many pods; such a pod is found only by name.
        return Vec::new();
    };
    let several = status.pod_ips.iter().flatten().map(|ip| (&ip.ip, "status.podIPs"));
    let mut found = Vec::new();
    for (text, field) in status.pod_ip.iter().map(|ip| (ip, "status.podIP")).chain(several) {
        match text.parse::<IpAddr>() {
            Ok(ip) if found.contains(&ip) => {}
            Ok(ip) => found.push(ip),
            Err(_) => problems.push(pod.problem(field, format!("{text:?} is not an IP address"))),
        }
    }
    found
}

/// Without the prefix `dst_`, which a proxy adds.
fn metric_labels(pod: &Sourced<v1::Pod>, service_account: &str) -> Vec<(Arc<str>, Arc<str>)> {
    let mut labels: Vec<(Arc<str>, Arc<str>)> = vec![
        ("namespace".into(), pod.key.namespace.clone()),
        ("pod".into(), pod.key.name.clone()),
        ("serviceaccount".into(), service_account.into()),
    ];
    let metadata = &pod.object.metadata;
    let owner = metadata.owner_references.iter().flatten().find(|o| o.controller.unwrap_or(true));
    if let Some(owner) = owner {
        match owner.kind.as_str() {
            // A ReplicaSet is named after its Deployment and the hash of the pod template.
            "ReplicaSet" => {
                let hash = metadata.labels.as_ref().and_then(|l| l.get("pod-template-hash"));
                let deployment = hash
                    .and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'))
                    .or_else(|| owner.name.rsplit_once('-').map(|(name, _)| name));
                let name = deployment.unwrap_or(&owner.name);
                labels.push(("deployment".into(), name.into()));
            }
            kind => {
                let key = kind.to_ascii_lowercase();
                if ["deployment", "job", "statefulset", "daemonset"].contains(&key.as_str()) {
                    labels.push((key.into(), owner.name.as_str().into()));
                }
            }
        }
    }
    labels
}

fn named_ports(pod: &Sourced<v1::Pod>) -> BTreeMap<String, u16> {
    let Some(spec) = &pod.object.spec else { return BTreeMap::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    containers
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| Some((port.name.clone()?, u16::try_from(port.container_port).ok()?)))
        .collect()
}
