//! A scenario's manifests as a cluster runs them: in namespaces of their own, from one image, on declared nodes, with what makes a pod part of
//! a mesh. Pure.

use crate::cluster::declaration::{Declaration, Marked};
use crate::cluster::placement::Placement;
use crate::mesh::Sidecars;
use crate::mesh::manifests::stays_out;
use crate::scenario::known::is_named;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The image that manifests name, whatever its tag.
const WORKER: &str = "leno/worker";
/// Namespaces of a benchmark have this label; its value is the campaign's.
pub const LABEL: &str = "leno.dev/bench";
/// A namespace's name has at most so many characters.
const NAME_CHARS_MAX: usize = 63;

/// What all topologies of a campaign have in common.
#[derive(Clone, Debug, Default)]
pub struct Common {
    /// What every pod runs.
    pub image: String,
    pub placement: Placement,
    /// Value of [`LABEL`].
    pub campaign: String,
    /// Cores of the nodes that have servers.
    pub server_cores: usize,
}

/// One topology.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Of the scenario, with replicas and instances.
    pub objects: Vec<Value>,
    pub sidecars: Sidecars,
    /// Workloads that get no proxy in any case.
    pub unmeshed: Vec<String>,
    /// Workloads that send.
    pub clients: Vec<String>,
}

/// Objects to be created in this order, and which namespace of the cluster each of the scenario's is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// Each with its resource, as paths name it.
    pub objects: Vec<(&'static str, Value)>,
    /// Of the scenario → of the cluster.
    pub namespaces: BTreeMap<String, String>,
}

/// The kinds that a scenario may have, in the order in which they are created.
const KINDS: [(&str, &str); 10] = [
    ("ServiceAccount", "serviceaccounts"),
    ("ConfigMap", "configmaps"),
    ("Secret", "secrets"),
    ("Service", "services"),
    ("Gateway", "gateways"),
    ("HTTPRoute", "httproutes"),
    ("GRPCRoute", "grpcroutes"),
    ("Deployment", "deployments"),
    ("Pod", "pods"),
    ("Job", "jobs"),
];

/// Prepares a topology under a mesh; namespaces begin with `name`.
///
/// # Errors
/// Every object that a cluster is not given.
pub fn prepare(
    wanted: &Wanted,
    mesh: &Declaration,
    common: &Common,
    name: &str,
) -> Result<Prepared, Vec<String>> {
    let mut wrong = Vec::new();
    let mut prepared = Prepared::default();
    let own = wanted.objects.iter().filter(|object| object["kind"] != "Namespace");
    for object in own.clone() {
        let namespace = namespace_of(object);
        let mapped = match namespace.as_str() {
            "default" => name.to_owned(),
            other => format!("{name}-{other}"),
        };
        if mapped.len() > NAME_CHARS_MAX {
            wrong.push(format!(
                "namespace {mapped}: a name has at most {NAME_CHARS_MAX} characters; shorten {namespace}"
            ));
        }
        prepared.namespaces.insert(namespace, mapped);
    }
    for namespace in prepared.namespaces.values() {
        let mut object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        mark(&mut object["metadata"], &mesh.join.namespace);
        object["metadata"]["labels"][LABEL] = common.campaign.clone().into();
        prepared.objects.push(("namespaces", object));
    }
    let of_mesh = prepared.namespaces.values().flat_map(|namespace| {
        mesh.objects.iter().map(move |object| {
            let mut object = object.clone();
            object["metadata"]["namespace"] = namespace.clone().into();
            object
        })
    });
    let mut placed: Vec<(usize, Value)> = Vec::new();
    for object in of_mesh.collect::<Vec<_>>() {
        take(object, &mut placed, &mut wrong);
    }
    for object in own {
        let mut changed = object.clone();
        changed["metadata"]["namespace"] =
            prepared.namespaces[&namespace_of(object)].clone().into();
        let is_client = is_client(object, &wanted.clients);
        if let Some(pod) = pod_of(&mut changed) {
            let is_server = is_selected(&wanted.objects, &namespace_of(object), pod);
            let named = object["metadata"]["name"].as_str().unwrap_or_default();
            let place = (&*namespace_of(object), named);
            let is_out = stays_out(wanted.sidecars, &wanted.unmeshed, place, is_server);
            let marks = if is_out { &mesh.leave.pod } else { &mesh.join.pod };
            change(pod, marks, common, is_client);
        }
        take(changed, &mut placed, &mut wrong);
    }
    placed.sort_by_key(|(order, _)| *order);
    prepared.objects.extend(placed.into_iter().map(|(order, object)| (KINDS[order].1, object)));
    if wrong.is_empty() { Ok(prepared) } else { Err(wrong) }
}

fn take(object: Value, placed: &mut Vec<(usize, Value)>, wrong: &mut Vec<String>) {
    let kind = object["kind"].as_str().unwrap_or_default();
    match KINDS.iter().position(|(known, _)| *known == kind) {
        Some(order) => placed.push((order, object)),
        None => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
            wrong.push(format!(
                "{kind} {name}: a benchmark creates only {} in a cluster",
                known.join(", ")
            ));
        }
    }
}

/// The namespace that a manifest means.
fn namespace_of(object: &Value) -> String {
    object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned()
}

/// Whether a Service of the namespace selects this pod.
fn is_selected(objects: &[Value], namespace: &str, pod: &Value) -> bool {
    let services = objects.iter().filter(|object| object["kind"] == "Service");
    let mut here = services.filter(|service| namespace_of(service) == namespace);
    here.any(|service| {
        let wanted = service["spec"]["selector"].as_object().filter(|wanted| !wanted.is_empty());
        wanted.is_some_and(|wanted| {
            wanted.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value)
        })
    })
}

/// Whether a load sends from this workload.
fn is_client(object: &Value, clients: &[String]) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let pod = if object["kind"] == "Pod" { name } else { "" };
    clients.iter().any(|client| is_named(client, &namespace_of(object), name, pod))
}

/// The pod of an object that makes one: metadata and spec.
fn pod_of(object: &mut Value) -> Option<&mut Value> {
    match object["kind"].as_str()? {
        "Pod" => Some(object),
        "Deployment" | "Job" => object["spec"].get_mut("template"),
        _ => None,
    }
}

fn change(pod: &mut Value, marks: &Marked, common: &Common, is_client: bool) {
    mark(&mut pod["metadata"], marks);
    let nodes = if is_client { &common.placement.generators } else { &common.placement.servers };
    // Names of nodes and not a label: every cluster has them.
    pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": nodes.iter().map(|node| json!({
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]
        })).collect::<Vec<_>>()
    }}});
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let named = container["image"].as_str().unwrap_or_default();
            if named == WORKER || named.starts_with(&format!("{WORKER}:")) {
                container["image"] = common.image.clone().into();
            }
            // The image has one program to wait with: a worker that serves nobody, on a port that is free.
            if container["command"][0] == "sleep" {
                container["command"] = json!(["leno-worker", "--name=idle", "--tcp=0"]);
            }
        }
    }
}

fn mark(metadata: &mut Value, marks: &Marked) {
    for (field, pairs) in [("labels", &marks.labels), ("annotations", &marks.annotations)] {
        for (key, value) in pairs {
            metadata[field][key] = value.clone().into();
        }
    }
}

impl Prepared {
    /// A URL of the scenario, with the cluster's namespaces in its host: `http://web.shop-0:80/` → `http://web.bench-1-shop-0:80/`.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
        let end = rest.find(['/', ':', '?']).unwrap_or(rest.len());
        let mut labels: Vec<&str> = rest[..end].split('.').collect();
        if let Some(mapped) = labels.get(1).and_then(|label| self.namespaces.get(*label)) {
            labels[1] = mapped;
        }
        format!("{scheme}://{}{}", labels.join("."), &rest[end..])
    }

    /// As documents for people and `kubectl`.
    #[must_use]
    pub fn documents(&self) -> String {
        let documents: Vec<String> =
            self.objects.iter().map(|(_, object)| format!("{object:#}\n")).collect();
        documents.join("---\n")
    }
}

#[cfg(test)]
mod tests;
