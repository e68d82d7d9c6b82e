//! Workloads: pods with their addresses, identities and settings.

mod owner;

use super::settings::{NamespaceSettings, Ports, Settings};
use super::{MeshNames, probe};
use crate::source::{Problem, Sourced, kept};
use leno_inject::annotation::MESHED;
use leno_model::name::{PeerName, Resource, SpiffeId, WorkloadId};
use leno_model::policy::DefaultPolicy;
use leno_model::workload::{Endpoint, Labels, PeerIdentity, ProtocolHint};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};

/// linkerd's unit for an endpoint like any other.
pub const WEIGHT_ONE: u32 = 10_000;
/// Where a proxy takes connections from the mesh.
pub const INBOUND_PORT: u16 = 4143;

#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub id: WorkloadId,
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
    /// What its namespace lets no policy admit.
    pub minimum: DefaultPolicy,
    /// Ports for which the default policy admits only clients with an identity.
    pub require_identity: Ports,
    /// Takes traffic.
    pub ready: bool,
    /// Its containers were ready in the kubelet's last report, and it has no readiness gates. The cluster marked it unready since then,
    /// because the node lost contact.
    pub unheard: bool,
    /// Is being deleted.
    pub terminating: bool,
    pub(super) node: Option<Box<str>>,
    pub(super) uid: Option<Arc<str>>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) labels: kept::Texts,
    metric_labels: Vec<(Arc<str>, Arc<str>)>,
    named_ports: Box<[(Box<str>, u16)]>,
    pub(super) probes: Vec<probe::Asked>,
    /// Its node's addresses, from which its kubelet comes.
    pub(super) node_addresses: Box<[IpAddr]>,
}

/// Addresses that cannot be read are left out: the kubelet is then not known by them.
fn node_addresses(status: &kept::PodStatus) -> Box<[IpAddr]> {
    let several = status.host_ips.iter().map(|host| &*host.ip);
    let mut all: Vec<IpAddr> =
        status.host_ip.as_deref().into_iter().chain(several).flat_map(|ip| ip.parse()).collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

impl Pod {
    pub(super) fn read(
        pod: &Sourced<kept::Pod>,
        names: &MeshNames,
        namespaces: &NamespaceSettings,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let metadata = &pod.object.metadata;
        let (spec, status) = (&pod.object.spec, &pod.object.status);
        let annotations = |name: &str| metadata.annotations.get(name);
        let number_of = |name: &str| number_of(spec, name);
        let own = Settings::read(pod, &annotations, Some(&number_of), problems);
        let inherited = namespaces.get(&pod.key.namespace).cloned().unwrap_or_default();
        let inherited = inherited.for_ports(&number_of);
        let minimum = inherited.minimum;
        problems.extend(own.exceeding(pod, &annotations, minimum));
        problems.extend(Settings::misplaced_minimum(pod, &annotations));
        let service_account = spec
            .service_account_name
            .as_deref()
            .or(spec.service_account.as_deref())
            .filter(|name| !name.is_empty())
            .unwrap_or("default");
        let identity = match identity(names, &pod.key.namespace, service_account) {
            Ok(identity) => Some(identity),
            Err(message) => {
                problems.push(pod.problem("spec.serviceAccountName", message));
                None
            }
        };
        let seen = proxy_of(spec).filter(|_| names.proxies_are_containers);
        let believed = own.meshed && !names.proxies_are_containers;
        if own.meshed && names.proxies_are_containers && seen.is_none() {
            problems.push(pod.problem(
                format!("metadata.annotations[{MESHED}]"),
                "the annotation claims a proxy, but no container is one; the pod gets plain text",
            ));
        }
        // A container cannot be taken out of a pod, as an annotation can.
        let meshed = believed || seen.is_some();
        if meshed && identity.is_none() {
            problems.push(pod.problem(
                "spec.serviceAccountName",
                "the pod has no identity, so it gets no meshed traffic",
            ));
        }
        Self {
            id: WorkloadId { namespace: pod.key.namespace.clone(), pod: pod.key.name.clone() },
            service_account: service_account.into(),
            identity,
            meshed,
            http2_upgrade: own.http2_upgrade,
            opaque: own.opaque.or(inherited.opaque).unwrap_or_default(),
            skip_inbound: match seen {
                // What was installed with the pod holds as long as it does.
                Some(proxy) => Ports::parse(proxy.skipped_ports.as_deref().unwrap_or_default()).0,
                None => own.skip_inbound.or(inherited.skip_inbound).unwrap_or_default(),
            },
            policy: own.policy.or(inherited.policy).unwrap_or_default().at_least(minimum),
            minimum,
            require_identity: own
                .require_identity
                .or(inherited.require_identity)
                .unwrap_or_default(),
            ready: status.conditions.ready && !status.finished,
            unheard: status.conditions.containers_ready
                && !(status.conditions.ready || status.finished || spec.gated),
            terminating: metadata.terminating,
            node: spec.node_name.clone(),
            uid: metadata.uid.as_deref().map(Arc::from),
            addresses: if status.finished { Vec::new() } else { addresses(pod, problems) },
            labels: metadata.labels.clone(),
            metric_labels: metric_labels(pod, service_account),
            named_ports: named_ports(pod),
            probes: probe::read(spec),
            node_addresses: node_addresses(status),
        }
    }

    /// The number of a container's port by its name.
    pub(super) fn port_named(&self, name: &str) -> Option<u16> {
        let named = self.named_ports.iter().find(|(known, _)| known.as_ref() == name);
        named.map(|(_, port)| *port)
    }

    /// The numbers of all ports of that name: several containers may have one.
    pub(super) fn ports_named(&self, name: &str) -> impl Iterator<Item = u16> {
        let named = self.named_ports.iter().filter(move |(known, _)| known.as_ref() == name);
        named.map(|(_, port)| *port).filter(|port| *port > 0)
    }

    /// The object, as metrics and pools know it.
    #[must_use]
    pub fn resource(&self) -> Resource {
        Resource::Object {
            group: word("core"),
            kind: word("Pod"),
            namespace: self.id.namespace.clone(),
            name: self.id.pod.clone(),
            section: word(""),
            port: 0,
        }
    }

    /// The pod as an endpoint. `service` is the Service that leads there; it may declare the port to be bytes.
    pub(super) fn endpoint(
        &self,
        address: SocketAddr,
        service: Option<(&Arc<str>, &Arc<str>)>,
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
pub(super) fn plain_endpoint(
    address: SocketAddr,
    service: Option<(&Arc<str>, &Arc<str>)>,
) -> Endpoint {
    let labels = labels_with_service(Vec::new(), service);
    Endpoint { weight: WEIGHT_ONE, labels, ..Endpoint::plain(address) }
}

fn labels_with_service(
    mut labels: Vec<(Arc<str>, Arc<str>)>,
    service: Option<(&Arc<str>, &Arc<str>)>,
) -> Labels {
    if let Some((namespace, name)) = service {
        labels.retain(|(key, _)| key.as_ref() != "namespace");
        labels.push((word("namespace"), namespace.clone()));
        labels.push((word("service"), name.clone()));
    }
    labels.sort();
    labels.into()
}

/// What is the same in the resources and labels of ten thousand pods is kept once.
fn word(text: &'static str) -> Arc<str> {
    static WORDS: LazyLock<HashMap<&str, Arc<str>>> = LazyLock::new(|| {
        let words =
            ["", "core", "Pod", "namespace", "pod", "serviceaccount", "service", "deployment"];
        words.map(|word| (word, word.into())).into()
    });
    WORDS.get(text).map_or_else(|| text.into(), Arc::clone)
}

/// Whether one of the pod's sidecars is the proxy; a container of the application's may have any name.
fn proxy_of(spec: &kept::PodSpec) -> Option<&kept::Container> {
    spec.init_containers.iter().find(|container| &*container.name == leno_inject::names::PROXY)
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

fn addresses(pod: &Sourced<kept::Pod>, problems: &mut Vec<Problem>) -> Vec<IpAddr> {
    if pod.object.spec.host_network == Some(true) {
        // A host's address belongs to many pods; such a pod is found only by name.
        return Vec::new();
    }
    let status = &pod.object.status;
    let several = status.pod_ips.iter().map(|ip| (&ip.ip, "status.podIPs"));
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
fn metric_labels(pod: &Sourced<kept::Pod>, service_account: &str) -> Vec<(Arc<str>, Arc<str>)> {
    let mut labels: Vec<(Arc<str>, Arc<str>)> = vec![
        (word("namespace"), pod.key.namespace.clone()),
        (word("pod"), pod.key.name.clone()),
        (word("serviceaccount"), service_account.into()),
    ];
    let metadata = &pod.object.metadata;
    if let Some(owner) = &metadata.owner {
        match &*owner.kind {
            // A ReplicaSet is named after its Deployment and the hash of the pod template.
            "ReplicaSet" => {
                let hash = metadata.labels.get("pod-template-hash");
                let deployment = hash
                    .and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'))
                    .or_else(|| owner.name.rsplit_once('-').map(|(name, _)| name));
                let name = deployment.unwrap_or(&owner.name);
                labels.push((word("deployment"), name.into()));
            }
            kind => {
                let key = kind.to_ascii_lowercase();
                if ["deployment", "job", "statefulset", "daemonset"].contains(&key.as_str()) {
                    labels.push((key.into(), owner.name.as_ref().into()));
                }
            }
        }
    }
    labels
}

/// The number of a port in annotations by its name, of several the first: as the injector finds it, before whose containers' those of the
/// application come.
fn number_of(spec: &kept::PodSpec, name: &str) -> Option<u16> {
    let mut ports = spec.every_container().flat_map(|container| &container.ports);
    let port = ports.find(|port| port.name.as_deref() == Some(name))?;
    u16::try_from(port.container_port).ok().filter(|number| *number > 0)
}

fn named_ports(pod: &Sourced<kept::Pod>) -> Box<[(Box<str>, u16)]> {
    let ports = pod.object.spec.every_container().flat_map(|container| &container.ports);
    ports
        .filter_map(|port| Some((port.name.clone()?, u16::try_from(port.container_port).ok()?)))
        .collect()
}

/// What of the pods is not as it was.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) pods: HashSet<WorkloadId>,
    pub(super) addresses: HashSet<IpAddr>,
    pub(super) namespaces: HashSet<Arc<str>>,
}

impl Changed {
    pub(super) fn note(&mut self, pod: &Pod) {
        self.addresses.extend(&pod.addresses);
        self.namespaces.insert(pod.id.namespace.clone());
        self.pods.insert(pod.id.clone());
    }
}
