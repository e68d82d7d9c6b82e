//! What the mesh as a whole says about its proxies.

use crate::annotation::Resources;

/// Values of the mesh. Those who install it choose them; annotations of a pod change some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Image of the proxy. Its entry point is `leno-proxy`.
    pub proxy_image: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub image_pull_policy: String,
    /// Namespace of the control plane, which is never injected.
    pub namespace: String,
    /// Trust domain of all identities.
    pub trust_domain: String,
    /// Where the control plane is, `ip:port` or `name:port`; the proxy looks a name up in its pod.
    pub control_address: String,
    /// ConfigMap, in each pod's own namespace, whose key [`Mesh::TRUST_ANCHORS_KEY`] holds the roots in PEM.
    pub trust_anchors: String,
    /// What a proxy asks for where its pod says nothing.
    pub resources: Resources,
}

impl Mesh {
    /// Key of the ConfigMap, and name of the file that the proxy reads.
    pub const TRUST_ANCHORS_KEY: &str = "trust-anchors.pem";
    /// Namespace of the control plane where nobody says otherwise; the proxy's own defaults are made of it.
    pub const NAMESPACE: &str = "leno";
    /// ConfigMap of the roots where nobody says otherwise.
    pub const TRUST_ANCHORS: &str = "leno-trust-anchors";
    /// Where the control plane listens.
    pub const CONTROL_PORT: u16 = 8086;
}

impl Default for Mesh {
    fn default() -> Self {
        let namespace = Self::NAMESPACE;
        Self {
            proxy_image: format!("localhost/leno-proxy:{}", env!("CARGO_PKG_VERSION")),
            image_pull_policy: "IfNotPresent".to_owned(),
            namespace: namespace.to_owned(),
            trust_domain: "cluster.local".to_owned(),
            control_address: format!("leno-control.{namespace}.svc:{}", Self::CONTROL_PORT),
            trust_anchors: Self::TRUST_ANCHORS.to_owned(),
            resources: Resources::default(),
        }
    }
}
