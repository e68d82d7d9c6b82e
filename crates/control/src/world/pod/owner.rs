//! What a pod belongs to, and the labels by which a person would select it.

use super::Pod;
use std::net::IpAddr;

/// Labels that name one pod or one revision of a workload.
const LABELS_OF_ONE: [&str; 6] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "controller-revision-hash",
    "controller-uid",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
];
/// Labels that name a workload where they are given.
const LABELS_OF_NAMES: [&str; 3] = ["app.kubernetes.io/name", "app", "k8s-app"];

impl Pod {
    /// Kind and name of the workload: `deployment` and `web`; the pod itself without an owner.
    #[must_use]
    pub fn workload(&self) -> (&str, &str) {
        let own = ["namespace", "pod", "serviceaccount"];
        let owner = self.metric_labels.iter().find(|(kind, _)| !own.contains(&kind.as_ref()));
        owner.map_or(("pod", &self.id.pod), |(kind, name)| (kind, name))
    }

    /// The number of the first container port of that name.
    #[must_use]
    pub fn port_with_name(&self, name: &str) -> Option<u16> {
        self.port_named(name)
    }

    pub fn ports_with_names(&self) -> impl Iterator<Item = u16> {
        self.named_ports.iter().map(|(_, port)| *port)
    }

    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Whether its kubelet connects from this address.
    #[must_use]
    pub fn is_of_node(&self, address: IpAddr) -> bool {
        self.node_addresses.contains(&address)
    }

    /// Whether a policy treats both alike, apart from their addresses and nodes.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.id.namespace == other.id.namespace
            && self.policy == other.policy
            && self.meshed == other.meshed
            && self.labels == other.labels
            && self.opaque == other.opaque
            && self.skip_inbound == other.skip_inbound
            && self.require_identity == other.require_identity
            && self.named_ports == other.named_ports
            && self.probes == other.probes
    }

    /// The labels by which a person would select the pods of its workload.
    #[must_use]
    pub fn selecting_labels(&self) -> Vec<(&str, &str)> {
        let named = LABELS_OF_NAMES.iter().find_map(|name| Some((*name, self.labels.get(name)?)));
        match named {
            Some(named) => vec![named],
            None => self.labels.iter().filter(|(name, _)| !LABELS_OF_ONE.contains(name)).collect(),
        }
    }
}
