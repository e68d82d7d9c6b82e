//! The Kubernetes objects of a test's mesh, written where `leno-control` reads them.
//!
//! JSON is YAML: each object is one file in JSON, written beside and renamed, so that a reader never
//! sees half of one.

use crate::network::Addresses;
use anyhow::Result;
use leno_runtime::file::write_atomically;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The namespace of everything in these tests.
pub const NAMESPACE: &str = "default";

/// One port of a service; pods listen on the same number.
#[derive(Debug, Clone)]
pub struct Port {
    /// The number, on the service and on the pod.
    pub number: u16,
    /// What the service declares the protocol to be, if anything.
    pub protocol: Option<&'static str>,
}

/// A directory of manifests.
#[derive(Debug)]
pub struct Manifests {
    directory: PathBuf,
}

impl Manifests {
    /// Makes the directory and the objects every mesh has.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(directory: &Path, annotations: &BTreeMap<String, String>) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let manifests = Self { directory: directory.to_owned() };
        manifests.write(&json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "annotations": annotations},
        }))?;
        Ok(manifests)
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a running pod and its service account.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn pod(
        &self,
        name: &str,
        addresses: Addresses,
        meshed: bool,
        annotations: &BTreeMap<String, String>,
    ) -> Result<()> {
        self.write(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": NAMESPACE},
        }))?;
        let mut annotations = annotations.clone();
        if meshed {
            annotations.insert("leno.dev/meshed".to_owned(), "true".to_owned());
        }
        let [v4, v6] = addresses.both();
        self.write(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"),
                "labels": {"app": name}, "annotations": annotations,
            },
            "spec": {
                "serviceAccountName": name,
                "containers": [{"name": "application", "command": ["none"]}],
            },
            "status": {
                "phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }))
    }

    /// Writes a service and the pods that answer for it, by both address families.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn service(
        &self,
        name: &str,
        addresses: Addresses,
        ports: &[Port],
        pods: &[(String, Addresses)],
    ) -> Result<()> {
        let [v4, v6] = addresses.both();
        let service_ports: Vec<Value> = ports
            .iter()
            .map(|port| {
                let mut value = json!({
                    "name": format!("port-{}", port.number), "protocol": "TCP",
                    "port": port.number, "targetPort": port.number,
                });
                if let Some(protocol) = port.protocol {
                    value["appProtocol"] = json!(protocol);
                }
                value
            })
            .collect();
        self.write(&json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "type": "ClusterIP", "clusterIP": v4, "clusterIPs": [v4, v6],
                "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
                "ports": service_ports,
            },
        }))?;
        for (family, which) in [("IPv4", 0), ("IPv6", 1)] {
            self.slice(name, family, ports, pods, which)?;
        }
        Ok(())
    }

    fn slice(
        &self,
        service: &str,
        family: &str,
        ports: &[Port],
        pods: &[(String, Addresses)],
        which: usize,
    ) -> Result<()> {
        let endpoints: Vec<Value> = pods
            .iter()
            .map(|(pod, addresses)| {
                json!({
                    "addresses": [addresses.both()[which]],
                    "conditions": {"ready": true, "serving": true, "terminating": false},
                    "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": pod},
                })
            })
            .collect();
        let ports: Vec<Value> = ports
            .iter()
            .map(|port| {
                let name = format!("port-{}", port.number);
                json!({"name": name, "protocol": "TCP", "port": port.number})
            })
            .collect();
        self.write(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{service}-{}", family.to_lowercase()), "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": family, "endpoints": endpoints, "ports": ports,
        }))
    }

    /// Gives an object that was written other annotations.
    ///
    /// # Errors
    /// When there is no such object, or it cannot be written.
    pub fn annotate(&self, kind: &str, name: &str, annotations: &Value) -> Result<()> {
        let path = self.directory.join(format!("{kind}-{name}.yaml"));
        let mut object: Value = serde_json::from_slice(&std::fs::read(path)?)?;
        object["metadata"]["annotations"] = annotations.clone();
        self.write(&object)
    }

    /// Writes any object, in a file named for it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, object: &Value) -> Result<()> {
        let kind = object["kind"].as_str().unwrap_or("none").to_lowercase();
        let name = object["metadata"]["name"].as_str().unwrap_or("none");
        let path = self.directory.join(format!("{kind}-{name}.yaml"));
        let content = serde_json::to_vec_pretty(object)?;
        write_atomically(&path, &content, 0o644)?;
        Ok(())
    }
}
