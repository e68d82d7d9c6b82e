//! What the mesh as a whole says about its proxies.

use crate::annotation::{Resources, Settings};
use crate::scope::Words;
use serde_json::Value;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

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
    /// The address of that name, for pods that do not ask the cluster's name server (`dnsPolicy: Default` or `None`).
    pub control_ip: Option<IpAddr>,
    /// ConfigMap, in each pod's own namespace, whose key [`Mesh::TRUST_ANCHORS_KEY`] holds the roots in PEM.
    pub trust_anchors: String,
    /// What a proxy asks for where its pod says nothing.
    pub resources: Resources,
    /// What annotations set otherwise: metrics and traces.
    pub settings: Settings,
    /// Whose annotations about injection are read.
    pub words: Words,
    /// What becomes of pods on the node's network.
    pub host_network: HostNetwork,
    /// Injected pods get the annotations `prometheus.io/scrape`, `port` and `path`, unless they have one of them.
    pub prometheus_annotations: bool,
}

/// What becomes of a pod on the node's network (`hostNetwork`) whose namespace is in the mesh. A pod that asks for a proxy itself is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostNetwork {
    /// It is left outside the mesh, as by linkerd and Istio.
    Skip,
    #[default]
    Refuse,
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

    /// Where this pod's proxy finds the control plane.
    #[must_use]
    pub fn control_address_for(&self, spec: &Value) -> Cow<'_, str> {
        let port = self.control_address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        match (self.control_ip, port) {
            (Some(ip), Some(port)) if asks_elsewhere(spec).is_some() && !self.is_address() => {
                SocketAddr::new(ip, port).to_string().into()
            }
            _ => self.control_address.as_str().into(),
        }
    }

    fn is_address(&self) -> bool {
        self.control_address.parse::<SocketAddr>().is_ok()
    }
}

/// The `dnsPolicy` of a pod that does not ask the cluster's name server.
fn asks_elsewhere(spec: &Value) -> Option<&str> {
    let policy = spec.get("dnsPolicy").and_then(Value::as_str);
    policy.filter(|policy| ["Default", "None"].contains(policy))
}

/// A pod that does not ask the cluster's name server cannot look the control plane up.
pub(crate) fn unknown_name(spec: &Value, mesh: &Mesh) -> Option<String> {
    let policy = asks_elsewhere(spec)?;
    let address = mesh.control_address_for(spec);
    address.parse::<SocketAddr>().is_err().then(|| {
        format!("with dnsPolicy {policy} the proxy may not resolve {address}; use an IP address (--control-address)")
    })
}

impl Default for Mesh {
    fn default() -> Self {
        let namespace = Self::NAMESPACE;
        Self {
            proxy_image: format!("localhost/leno-proxy:{}", env!("CARGO_PKG_VERSION")),
            image_pull_policy: "IfNotPresent".to_owned(),
            namespace: namespace.to_owned(),
            trust_domain: "cluster.local".to_owned(),
            control_ip: None,
            control_address: format!("leno-control.{namespace}.svc:{}", Self::CONTROL_PORT),
            trust_anchors: Self::TRUST_ANCHORS.to_owned(),
            // A container without requests stops every HorizontalPodAutoscaler of its pod, and is refused by a ResourceQuota on requests. This
            // is what a proxy takes with little traffic; limits are not for us to guess.
            resources: Resources {
                cpu_request: Some("10m".to_owned()),
                memory_request: Some("20Mi".to_owned()),
                ..Resources::default()
            },
            settings: Settings::default(),
            words: Words::LinkerdsToo,
            host_network: HostNetwork::default(),
            prometheus_annotations: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::read;

    /// The API server refuses a container that asks for more than its limit.
    #[test]
    fn what_the_mesh_asks_for_gives_way_to_the_pod() {
        let quantity = |text: &str| Some(text.to_owned()).filter(|text| text != "-");
        let resources = |text: &str| {
            let all: Vec<&str> = text.split(' ').collect();
            Resources {
                cpu_request: quantity(all[0]),
                cpu_limit: quantity(all[1]),
                memory_request: quantity(all[2]),
                memory_limit: quantity(all[3]),
            }
        };
        let check = |mesh: &str, pod: &[(&str, &str)], expected: &str| {
            let named: Vec<(String, &str)> =
                pod.iter().map(|(name, text)| (format!("config.leno.dev/{name}"), *text)).collect();
            let named = named.iter().map(|(name, text)| (name.as_str(), *text));
            let asked = read(named, [], &|_| None).unwrap().resources(&resources(mesh));
            assert_eq!(asked, resources(expected), "{mesh} with {pod:?}");
        };
        assert_eq!(Mesh::default().resources, resources("10m - 20Mi -"));
        check("10m - 20Mi -", &[], "10m - 20Mi -");
        check("- - - -", &[("proxy-cpu-limit", "1")], "- 1 - -");
        check("10m - 20Mi -", &[("proxy-cpu-limit", "1")], "10m 1 20Mi -");
        check("10m - 20Mi -", &[("proxy-cpu-limit", "5m")], "5m 5m 20Mi -");
        check("10m - 20Mi -", &[("proxy-memory-limit", "16Mi")], "10m - 16Mi 16Mi");
        check("10m 100m 20Mi 64Mi", &[("proxy-cpu-request", "50m")], "50m 100m 20Mi 64Mi");
        check("10m 100m 20Mi 64Mi", &[("proxy-cpu-request", "1")], "1 1 20Mi 64Mi");
        check(
            "10m 100m 20Mi 64Mi",
            &[("proxy-memory-request", "64.5Mi")],
            "10m 100m 64.5Mi 64.5Mi",
        );
        let both = [("proxy-cpu-request", "1m"), ("proxy-cpu-limit", "2m")];
        check("10m 100m 20Mi -", &both, "1m 2m 20Mi -");
    }
}
