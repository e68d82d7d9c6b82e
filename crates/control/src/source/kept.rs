//! What is kept of a pod and of an EndpointSlice: of these a cluster has tens of thousands, and the mesh reads little of each.
//!
//! The published type of a pod takes kilobytes whatever is in it, and reading it from JSON several times as long as passing over what
//! nobody needs. Names and shape are the published ones; fields that mean one thing here are that thing already. Whether a manifest is
//! right is not known here: the directory source holds it against the published type first. Kinds that are few are kept in that, and of
//! kinds of which nothing is read, nothing is.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// The variable of a proxy's container with the ports that are not captured.
const SKIPPED_PORTS: &str = "LENO_PROXY_SKIP_INBOUND_PORTS";

/// Nothing but that it is there, which its key says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Nothing {}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// `metadata`.
    #[serde(deserialize_with = "or_default")]
    pub metadata: PodMetadata,
    /// `spec`.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// `status`.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// `metadata` of a pod. Its name and version are in its key and origin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetadata {
    /// Tells it from others that had its name.
    pub uid: Option<Box<str>>,
    /// All labels: Services may select by any.
    #[serde(deserialize_with = "or_default")]
    pub labels: Texts,
    /// Annotations of a mesh, and no others.
    #[serde(deserialize_with = "of_a_mesh")]
    pub annotations: Texts,
    #[serde(rename = "ownerReferences", deserialize_with = "controller")]
    pub owner: Option<Owner>,
    /// Whether it has a `deletionTimestamp`.
    #[serde(rename = "deletionTimestamp", deserialize_with = "is_there")]
    pub terminating: bool,
}

/// `ownerReferences[]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// `ReplicaSet`, say.
    pub kind: Box<str>,
    pub name: Box<str>,
    controller: Option<bool>,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub service_account_name: Option<Box<str>>,
    /// The older name of that.
    pub service_account: Option<Box<str>>,
    /// Where it runs.
    pub node_name: Option<Box<str>>,
    /// It has its node's address.
    pub host_network: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub containers: Box<[Container]>,
    /// What runs first; and sidecars.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Box<[Container]>,
    /// Whether more than its containers decides about its readiness.
    #[serde(rename = "readinessGates", deserialize_with = "is_some")]
    pub gated: bool,
}

impl PodSpec {
    /// Its containers of either list.
    pub fn every_container(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().chain(&self.init_containers)
    }
}

/// `containers[]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: Box<str>,
    /// What it says of its ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Box<[ContainerPort]>,
    /// Asked whether it lives.
    pub liveness_probe: Option<Box<Probe>>,
    /// Asked whether it takes traffic.
    pub readiness_probe: Option<Box<Probe>>,
    /// Asked whether it has started.
    pub startup_probe: Option<Box<Probe>>,
    /// The ports that the proxy's rules leave out, where this is a container of ours: they were installed with what stands here, whatever
    /// annotations say since.
    #[serde(rename = "env", deserialize_with = "skipped_ports")]
    pub skipped_ports: Option<Box<str>>,
}

/// `ports[]` of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub name: Option<Box<str>>,
    /// Its number.
    pub container_port: i32,
}

/// A probe over the network.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// By gRPC's health check.
    pub grpc: Option<GrpcAction>,
    pub http_get: Option<HttpGet>,
    /// By connecting.
    pub tcp_socket: Option<TcpSocket>,
}

/// `tcpSocket` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TcpSocket {
    /// The host to connect to; the pod where it is absent.
    pub host: Option<Box<str>>,
    /// Number or name of the port.
    pub port: IntOrString,
}

/// `grpc` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GrpcAction {
    /// Where.
    pub port: i32,
}

/// `httpGet` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HttpGet {
    /// The host of the request; the pod's address if absent.
    pub host: Option<Box<str>>,
    /// What.
    pub path: Option<Box<str>>,
    /// Where.
    pub port: IntOrString,
    /// `HTTP` or `HTTPS`.
    pub scheme: Option<Box<str>>,
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Whether its phase is one that it does not leave.
    #[serde(rename = "phase", deserialize_with = "is_last")]
    pub finished: bool,
    /// Those of its conditions that are read.
    #[serde(deserialize_with = "conditions")]
    pub conditions: PodConditions,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<Box<str>>,
    /// Its addresses; the first is the one above.
    #[serde(rename = "podIPs", deserialize_with = "or_default")]
    pub pod_ips: Box<[PodIp]>,
    /// Its node's address.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<Box<str>>,
    /// Its node's addresses; the first is the one above.
    #[serde(rename = "hostIPs", deserialize_with = "or_default")]
    pub host_ips: Box<[PodIp]>,
}

/// `conditions` of a pod, each whether it is true.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PodConditions {
    /// It takes traffic.
    pub ready: bool,
    /// All of its containers do.
    pub containers_ready: bool,
}

/// `podIPs[]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// An address.
    pub ip: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EndpointSlice {
    /// `metadata`.
    #[serde(deserialize_with = "or_default")]
    pub metadata: SliceMetadata,
    /// Addresses.
    #[serde(deserialize_with = "or_default")]
    pub endpoints: Box<[SliceEndpoint]>,
    /// Ports of each of them.
    #[serde(deserialize_with = "or_default")]
    pub ports: Box<[SlicePort]>,
}

/// `metadata` of a slice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SliceMetadata {
    #[serde(deserialize_with = "or_default")]
    pub labels: SliceLabels,
}

/// The one label of a slice that is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SliceLabels {
    /// Whose slice it is.
    #[serde(rename = "kubernetes.io/service-name")]
    pub service: Option<Box<str>>,
}

/// `endpoints[]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceEndpoint {
    /// All of them the same one.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Box<[Box<str>]>,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub conditions: SliceConditions,
    /// The pod that it is, where it says that it is one.
    #[serde(rename = "targetRef", deserialize_with = "pod_of")]
    pub pod: Option<PodRef>,
}

/// `conditions` of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SliceConditions {
    /// It takes traffic, unless this says otherwise.
    pub ready: Option<bool>,
    /// It would, if it were not leaving; as `ready` where nothing is said.
    pub serving: Option<bool>,
    /// It is leaving.
    pub terminating: Option<bool>,
}

/// `targetRef` of an endpoint that is a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRef {
    /// Its namespace, where it is not the slice's own: a slice may be made by hand.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
    /// Which of those that had the name.
    pub uid: Option<Box<str>>,
}

/// `ports[]` of a slice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SlicePort {
    /// As the Service's port has it.
    pub name: Option<Box<str>>,
    /// Its number.
    pub port: Option<i32>,
    /// `TCP` where nothing is said.
    pub protocol: Option<Box<str>>,
}

/// Names and texts, in the order of names. A map of the standard library takes half a kilobyte for its first entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(Box<[(Box<str>, Box<str>)]>);

impl Texts {
    /// The text of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// Each name with its text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_ref(), text.as_ref()))
    }

    fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
        wanted: fn(&str) -> bool,
    ) -> Result<Self, D::Error> {
        struct Reading(fn(&str) -> bool);
        impl<'de> Visitor<'de> for Reading {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(name) = map.next_key::<Box<str>>()? {
                    if self.0(&name) {
                        texts.push((name, map.next_value()?));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                texts.sort();
                Ok(Texts(texts.into()))
            }
        }
        deserializer.deserialize_map(Reading(wanted))
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer, |_| true)
    }
}

/// Go writes `null` for what is empty.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether an annotation is one of a mesh.
pub(in crate::source) fn is_of_a_mesh(annotation: &str) -> bool {
    let prefix = annotation.split_once('/').map_or("", |(prefix, _)| prefix);
    prefix.ends_with("leno.dev") || prefix.ends_with("linkerd.io")
}

fn of_a_mesh<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
    #[derive(Default)]
    struct Ours(Texts);
    impl<'de> Deserialize<'de> for Ours {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Texts::deserialize(deserializer, is_of_a_mesh).map(Self)
        }
    }
    or_default(deserializer).map(|Ours(texts)| texts)
}

fn controller<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Owner>, D::Error> {
    let owners: Vec<Owner> = or_default(deserializer)?;
    Ok(owners.into_iter().find(|owner| owner.controller.unwrap_or(true)))
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(deserializer)?.is_some())
}

fn is_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(!or_default::<_, Vec<IgnoredAny>>(deserializer)?.is_empty())
}

fn is_last<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let phase: Box<str> = or_default(deserializer)?;
    Ok(matches!(&*phase, "Succeeded" | "Failed"))
}

fn conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PodConditions, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Condition {
        r#type: Box<str>,
        status: Box<str>,
    }
    let conditions: Vec<Condition> = or_default(deserializer)?;
    let is = |name: &str| conditions.iter().any(|c| &*c.r#type == name && &*c.status == "True");
    Ok(PodConditions { ready: is("Ready"), containers_ready: is("ContainersReady") })
}

fn skipped_ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Variable {
        name: Box<str>,
        value: Option<Box<str>>,
    }
    let variables: Vec<Variable> = or_default(deserializer)?;
    let mut skipped = variables.into_iter().filter(|variable| &*variable.name == SKIPPED_PORTS);
    Ok(skipped.next().and_then(|variable| variable.value))
}

fn pod_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PodRef>, D::Error> {
    #[derive(Deserialize)]
    struct Target {
        kind: Option<Box<str>>,
        namespace: Option<Box<str>>,
        name: Option<Box<str>>,
        uid: Option<Box<str>>,
    }
    let target = Option::<Target>::deserialize(deserializer)?;
    let target = target.filter(|target| target.kind.as_deref() == Some("Pod"));
    Ok(target.and_then(|Target { namespace, name, uid, .. }| {
        Some(PodRef { namespace: namespace.filter(|text| !text.is_empty()), name: name?, uid })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
        serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_null_or_missing_is_as_if_it_were_empty() {
        let nulls = [
            json!({}),
            json!({"metadata": null, "spec": null, "status": null}),
            json!({
                "metadata": {"uid": null, "labels": null, "annotations": null, "ownerReferences": null, "deletionTimestamp": null},
                "spec": {"containers": null, "initContainers": null, "hostNetwork": null, "readinessGates": null},
                "status": {"phase": null, "conditions": null, "podIP": null, "podIPs": null, "hostIP": null, "hostIPs": null},
            }),
            json!({"metadata": {"name": "a", "annotations": {"example.org/x": "y"}}, "spec": {"containers": []}}),
        ];
        for pod in nulls {
            assert_eq!(read::<Pod>(&pod), Ok(Pod::default()), "{pod}");
        }
        let slice = json!({"metadata": {"labels": null}, "endpoints": null, "ports": null});
        assert_eq!(read::<EndpointSlice>(&slice), Ok(EndpointSlice::default()));
        let slice =
            json!({"endpoints": [{"addresses": null, "conditions": null, "targetRef": null}]});
        assert_eq!(
            read::<EndpointSlice>(&slice).unwrap().endpoints[..],
            [SliceEndpoint::default()]
        );
    }

    #[test]
    fn a_pod_says_what_it_is() {
        let pod: Pod = read(&json!({
            "metadata": {
                "uid": "u", "labels": {"b": "2", "a": "1"},
                "annotations": {"leno.dev/meshed": "true", "example.org/x": "y", "config.linkerd.io/opaque-ports": "1"},
                "ownerReferences": [{"kind": "Node", "name": "n", "controller": false}, {"kind": "Job", "name": "j", "controller": true}],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 80}]}], "initContainers": [{"name": "i"}]},
            "status": {
                "phase": "Failed", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}],
            },
        }))
        .unwrap();
        let metadata = &pod.metadata;
        assert_eq!(metadata.labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!((metadata.labels.get("b"), metadata.labels.get("c")), (Some("2"), None));
        assert_eq!(metadata.annotations.get("leno.dev/meshed"), Some("true"));
        assert_eq!(metadata.annotations.iter().count(), 2);
        assert_eq!(metadata.owner.as_ref().map(|owner| &*owner.name), Some("j"));
        assert!(metadata.terminating && pod.status.conditions.ready && pod.status.finished);
        let names: Vec<_> = pod.spec.every_container().map(|container| &*container.name).collect();
        assert_eq!(names, ["c", "i"]);
    }

    #[test]
    fn a_field_that_is_read_has_to_be_right() {
        for wrong in [
            json!({"metadata": {"labels": {"a": 1}}}),
            json!({"metadata": {"annotations": {"leno.dev/meshed": true}}}),
            json!({"spec": {"containers": "none"}}),
            json!({"spec": {"containers": [{"ports": [{"containerPort": "eighty"}]}]}}),
            json!({"status": {"conditions": [{"type": 7}]}}),
            json!({"status": {"podIPs": "10.0.0.1"}}),
        ] {
            assert!(read::<Pod>(&wrong).is_err(), "{wrong}");
        }
        for wrong in [
            json!({"endpoints": [{"addresses": "10.0.0.1"}]}),
            json!({"endpoints": [{"conditions": {"ready": "yes"}}]}),
            json!({"ports": [{"port": "eighty"}]}),
        ] {
            assert!(read::<EndpointSlice>(&wrong).is_err(), "{wrong}");
        }
    }
}
