//! What is looked at, as the API server gives it.

use super::Verdict;
use super::rights::Right;
use crate::certificates::Pair;
use crate::{linkerd, others};
use base64::Engine as _;
use leno_inject::scope::Words;
use leno_inject::{HostNetwork, Mesh};
use serde_json::Value;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

/// Which facts there are, and which findings are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `--pre`: whether an installation can begin.
    BeforeInstallation,
    /// The control plane, and pods that should have a proxy.
    #[default]
    Whole,
    /// `--proxy`: that, and every proxy.
    Proxies,
}

/// Objects that are looked at by name.
pub const CONFIG: &str = "ConfigMap/leno-config";
/// The roots.
pub const ANCHORS: &str = "ConfigMap/leno-trust-anchors";
/// Who signs.
pub const ISSUER: &str = "Secret/leno-identity-issuer";
/// The webhook's certificate.
pub const WEBHOOK_TLS: &str = "Secret/leno-injector-tls";
/// Which pods the webhook is asked about.
pub const WEBHOOK: &str = "MutatingWebhookConfiguration/leno-injector";
/// The control plane.
pub const DEPLOYMENT: &str = "Deployment/leno-control";
/// Who the control plane is to the API server.
pub const ACCOUNT: &str = "ServiceAccount/leno-control";
/// Who of the replicas writes.
pub const LEASE: &str = "Lease/leno-control";
/// Where proxies connect.
pub const SERVICE: &str = "Service/leno-control";
/// Where the API server asks.
pub const INJECTOR: &str = "Service/leno-injector";

/// The subjects of the cluster-wide roles; checked before an installation.
pub const BINDING: &str = "ClusterRoleBinding/leno-control";
/// linkerd's injector, by its usual name; no part of the mesh, so it is not among [`OBJECTS`].
pub const LINKERD: &str = "MutatingWebhookConfiguration/linkerd-proxy-injector-webhook-config";
/// The same by its label, a list.
pub const LINKERDS: &str = "mutatingwebhookconfigurations of linkerd";
/// Values of every installation in the cluster.
pub const CONFIGS: &str = "configmaps leno-config";

/// Where each of them is, with `NS` for the control plane's namespace.
pub const OBJECTS: [(&str, &str); 10] = [
    (CONFIG, "/api/v1/namespaces/NS/configmaps/leno-config"),
    (ANCHORS, "/api/v1/namespaces/NS/configmaps/leno-trust-anchors"),
    (ISSUER, "/api/v1/namespaces/NS/secrets/leno-identity-issuer"),
    (WEBHOOK_TLS, "/api/v1/namespaces/NS/secrets/leno-injector-tls"),
    (WEBHOOK, others::WEBHOOK),
    (DEPLOYMENT, "/apis/apps/v1/namespaces/NS/deployments/leno-control"),
    (ACCOUNT, "/api/v1/namespaces/NS/serviceaccounts/leno-control"),
    (LEASE, "/apis/coordination.k8s.io/v1/namespaces/NS/leases/leno-control"),
    (SERVICE, "/api/v1/namespaces/NS/services/leno-control"),
    (INJECTOR, "/api/v1/namespaces/NS/services/leno-injector"),
];

/// Lists, by the names under which they are in [`Facts::unread`].
pub const NODES: &str = "nodes";
/// By which nodes say that they live.
pub const NODE_LEASES: &str = "leases of nodes";
/// Replicas.
pub const CONTROL_PODS: &str = "pods of the control plane";
/// All of them.
pub const NAMESPACES: &str = "namespaces";
/// Of all namespaces, or of one.
pub const PODS: &str = "pods";
/// Roots in other namespaces.
pub const COPIES: &str = "configmaps leno-trust-anchors";
/// Lists of what makes pods, and its kinds.
pub const WORKLOADS: [(&str, &str); 4] = [
    ("replicasets", "ReplicaSet"),
    ("statefulsets", "StatefulSet"),
    ("daemonsets", "DaemonSet"),
    ("jobs", "Job"),
];
/// Those that say that a pod was not made.
pub const EVENTS: &str = "events";
/// What the control plane may do.
pub const REVIEWS: &str = "subjectaccessreviews";
/// What we may do.
pub const OWN_REVIEWS: &str = "selfsubjectaccessreviews";

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What is wanted.
    pub mode: Mode,
    /// Version of this program.
    pub version: String,
    /// The control plane's namespace.
    pub namespace: String,
    /// Only pods of this namespace are looked at, where there is one.
    pub only: Option<String>,
    /// This machine's clock, Unix time.
    pub now: u64,
    /// Why the API server does not answer.
    pub unreachable: Option<String>,
    /// Its `/version`.
    pub server: Value,
    /// Its clock, Unix time.
    pub server_clock: Option<u64>,
    pub nodes: Vec<Value>,
    pub node_leases: Vec<Value>,
    /// Definitions of the Gateway API's kinds, by name.
    pub definitions: BTreeMap<String, Value>,
    /// Of [`OBJECTS`], those that are there.
    pub objects: BTreeMap<&'static str, Value>,
    /// What could not be read, and why.
    pub unread: BTreeMap<String, String>,
    /// Pods of the control plane.
    pub control_pods: Vec<Value>,
    /// What each of them says of itself, by pod: an exposition, or why there is none.
    pub control_metrics: Vec<(String, Result<String, String>)>,
    /// What each of them knows of its proxies at `/diagnostics/applied`, by pod, or why that is not known.
    pub applied: Vec<(String, Result<Value, String>)>,
    pub namespaces: Vec<Value>,
    /// Pods of all of them, or of [`Facts::only`].
    pub pods: Vec<Value>,
    /// ConfigMaps of the roots, in all namespaces.
    pub anchors: Vec<Value>,
    /// Values of every installation; asked before one begins.
    pub configs: Vec<Value>,
    /// Configurations of linkerd's injector, by their label.
    pub linkerds: Vec<Value>,
    /// Objects of [`WORKLOADS`], each with its kind.
    pub workloads: Vec<Value>,
    /// Events of pods that were not made.
    pub events: Vec<Value>,
    /// What became of a pod that asks for a proxy, of which the API server did all but to make it; or why it was refused.
    pub trial: Option<Result<Value, String>>,
    /// What proxies say of themselves, by `namespace/name` of their pods: an exposition, or why there is none.
    pub proxy_metrics: BTreeMap<String, Result<String, String>>,
    /// What the chart grants to the control plane, and whether it may.
    pub rights: Vec<(Right, bool)>,
    /// What an installation takes, and whether this person may.
    pub own_rights: Vec<(Right, bool)>,
}

impl Facts {
    pub(super) fn object(&self, name: &str) -> Option<&Value> {
        self.objects.get(name)
    }

    /// Whether it is known that there is no such object; one that cannot be read may be there.
    pub(super) fn lacks(&self, name: &str) -> bool {
        !self.objects.contains_key(name) && !self.unread.contains_key(name)
    }

    /// What is said instead of a verdict where one of these could not be read.
    pub(super) fn unknown(&self, needed: &[&str]) -> Option<Verdict> {
        let (name, why) = needed.iter().find_map(|name| self.unread.get_key_value(*name))?;
        super::warning(
            format!("not checked: {name} cannot be read: {why}"),
            "use an account with the right to read it",
        )
    }

    /// The roots in the control plane's namespace.
    pub(super) fn anchors_pem(&self) -> Option<&str> {
        self.object(ANCHORS)?["data"][Mesh::TRUST_ANCHORS_KEY].as_str()
    }

    /// A word of what was installed.
    pub(super) fn config(&self, name: &str) -> &str {
        self.object(CONFIG).map_or("", |config| text(&config["data"][name]))
    }

    /// Whose annotations about injection the control plane reads.
    pub(super) fn words(&self) -> Words {
        match self.config("linkerd-annotations") {
            "false" => Words::OursAlone,
            _ => Words::LinkerdsToo,
        }
    }

    /// What decides on pods, as the control plane does.
    pub(super) fn mesh(&self) -> Mesh {
        let host_network = match self.config("host-network") {
            "skip" => HostNetwork::Skip,
            // An installation of an older version refuses them.
            _ => HostNetwork::Refuse,
        };
        let namespace = self.namespace.clone();
        Mesh { namespace, words: self.words(), host_network, ..Mesh::default() }
    }

    /// The name of the configuration of linkerd's injector, where there is one.
    pub(super) fn injector_of_linkerd(&self) -> Option<&str> {
        linkerd::injector(self.object(LINKERD), &self.linkerds)
    }

    /// The clock by which certificates are judged: the cluster's, where it is known.
    pub(super) fn clock(&self) -> u64 {
        self.server_clock.unwrap_or(self.now)
    }
}

/// A text, or nothing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `namespace/name`.
pub(super) fn full_name(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

/// What a Secret holds under a name.
pub(super) fn secret(object: &Value, name: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(object["data"][name].as_str()?);
    String::from_utf8(bytes.ok()?).ok().filter(|text| !text.is_empty())
}

/// Certificate and key of a Secret.
pub(super) fn pair(object: &Value) -> Option<Pair> {
    Some(Pair { certificate: secret(object, "tls.crt")?, key: secret(object, "tls.key")? })
}

/// A moment as Kubernetes writes it, in seconds of Unix time.
#[must_use]
pub fn moment(text: &str) -> Option<u64> {
    u64::try_from(OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp()).ok()
}

/// A moment as HTTP writes it.
#[must_use]
pub fn http_moment(text: &str) -> Option<u64> {
    u64::try_from(OffsetDateTime::parse(text, &Rfc2822).ok()?.unix_timestamp()).ok()
}

/// `3 days`, `5 hours`, `20 s`.
#[must_use]
pub fn span(seconds: u64) -> String {
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7_200.. => format!("{} hours", seconds / 3_600),
        120.. => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} s"),
    }
}
