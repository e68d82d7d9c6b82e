//! What `leno up` knows and manifests do not say, written as manifests for the control plane: Pods with their addresses,
//! Services with theirs, EndpointSlices. Pure; the file is written by the supervisor.

use crate::plan::Kind;
use crate::service::{Family, View};
use crate::world::{Phase, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The annotation by which the control plane knows that a pod has a proxy.
pub const MESHED: &str = "leno.dev/meshed";

/// All objects, as one YAML text of JSON documents.
#[must_use]
pub fn text(world: &World, views: &[View]) -> String {
    let mut text = String::from("# Written by leno up; changed with every pod.\n");
    let pods = pods(world);
    for object in pods.iter().chain(&services(views)).chain(&slices(views)) {
        text.push_str("---\n");
        text.push_str(&serde_json::to_string_pretty(object).unwrap_or_default());
        text.push('\n');
    }
    text
}

fn pods(world: &World) -> Vec<Value> {
    let mut objects = Vec::new();
    for ((namespace, name), pod) in &world.pods {
        let mut annotations = pod.template.annotations.clone();
        if pod.template.meshed {
            annotations.insert(MESHED.to_owned(), "true".to_owned());
        } else {
            // What the author wrote must not pretend to a proxy that is not there.
            annotations.remove(MESHED);
        }
        let (kind, _, workload) = &pod.workload;
        let owner = match kind {
            Kind::Pod => None,
            Kind::Deployment => {
                Some(("apps/v1", "ReplicaSet", format!("{workload}-{}", pod.template.hash)))
            }
            Kind::Job => Some(("batch/v1", "Job", workload.clone())),
        };
        let owners: Vec<Value> = owner
            .iter()
            .map(|(version, kind, name)| {
                json!({"apiVersion": version, "kind": kind, "name": name, "controller": true,
                    "uid": format!("{namespace}-{name}")})
            })
            .collect();
        let ready = if pod.ready && !pod.ending { "True" } else { "False" };
        let mut spec = serde_json::to_value(&pod.template.spec).unwrap_or_default();
        spec["serviceAccountName"] = pod.service_account().into();
        spec["nodeName"] = "leno".into();
        let mut metadata = json!({"name": name, "namespace": namespace, "labels": pod.labels(),
            "annotations": annotations, "uid": format!("{namespace}-{name}")});
        if !owners.is_empty() {
            metadata["ownerReferences"] = owners.into();
        }
        if pod.ending {
            metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        }
        let phase = match pod.phase {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        };
        objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
            "status": {"phase": phase, "podIP": pod.address.v4, "hostIP": crate::address::NODE_V4,
                "hostIPs": [{"ip": crate::address::NODE_V4}, {"ip": crate::address::NODE_V6}],
                "podIPs": [{"ip": pod.address.v4}, {"ip": pod.address.v6}],
                "conditions": [{"type": "Ready", "status": ready}]}}));
    }
    objects
}

fn services(views: &[View]) -> Vec<Value> {
    let mut objects = Vec::new();
    for view in views {
        let mut service = serde_json::to_value(&view.service).unwrap_or_default();
        service["metadata"]["namespace"] = view.key.0.clone().into();
        let families: Vec<&str> = view.families.iter().map(Family::name).collect();
        service["spec"]["ipFamilies"] = json!(families);
        service["spec"]["ipFamilyPolicy"] = view.families.policy().into();
        if let Some(address) = view.address {
            let addresses: Vec<IpAddr> =
                view.families.iter().map(|family| family.of(address)).collect();
            service["spec"]["clusterIP"] = json!(addresses[0]);
            service["spec"]["clusterIPs"] = json!(addresses);
        }
        objects.push(service);
    }
    objects
}

fn slices(views: &[View]) -> Vec<Value> {
    let mut objects = Vec::new();
    for view in views {
        let (namespace, name) = &view.key;
        // A named port may have another number in another pod: one slice for each combination, as in a cluster.
        let mut groups: BTreeMap<&[u16], Vec<&crate::service::Endpoint>> = BTreeMap::new();
        for endpoint in &view.endpoints {
            groups.entry(&endpoint.ports).or_default().push(endpoint);
        }
        for (group, (numbers, endpoints)) in groups.iter().enumerate() {
            let numbered = view.ports.iter().zip(*numbers).filter(|(_, number)| **number != 0);
            let ports: Vec<Value> = numbered
                .map(|(port, number)| {
                    let mut object = json!({"name": port.name.as_deref().unwrap_or(""), "port": number,
                        "protocol": port.protocol.as_deref().unwrap_or("TCP")});
                    if let Some(protocol) = &port.app_protocol {
                        object["appProtocol"] = protocol.clone().into();
                    }
                    object
                })
                .collect();
            for family in view.families.iter() {
                let endpoints: Vec<Value> = endpoints
                    .iter()
                    .map(|endpoint| {
                        let mut object = json!({"addresses": [family.of(endpoint.address)],
                            "conditions": {"ready": endpoint.ready, "serving": endpoint.ready,
                                "terminating": endpoint.ending},
                            "nodeName": "leno",
                            "targetRef": {"kind": "Pod", "name": endpoint.pod, "namespace": namespace}});
                        if let Some(host) = &endpoint.host {
                            object["hostname"] = host.clone().into();
                        }
                        object
                    })
                    .collect();
                objects.push(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                    "metadata": {"name": format!("{name}-{}-{group}", family.name().to_ascii_lowercase()), "namespace": namespace,
                        "labels": {"kubernetes.io/service-name": name,
                            "endpointslice.kubernetes.io/managed-by": "leno-up"}},
                    "addressType": family.name(), "ports": ports, "endpoints": endpoints}));
            }
        }
    }
    objects
}
