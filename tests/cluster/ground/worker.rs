//! Service nodes as manifests: an account, a service and a deployment each.

use serde_json::{Value, json};

/// What every program of these tests is in.
pub(crate) const IMAGE: &str = concat!("localhost/leno-worker:", env!("CARGO_PKG_VERSION"));
/// Where they serve.
pub(crate) const PORT: u16 = 8080;

pub(crate) struct Worker {
    pub(crate) name: &'static str,
    pub(crate) replicas: u32,
    /// Of `leno-worker`, besides its name and port.
    pub(crate) flags: Vec<String>,
}

impl Worker {
    /// One that answers with its name, one replica.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, replicas: 1, flags: Vec::new() }
    }

    /// With these flags.
    pub(crate) fn with(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// As many pods.
    pub(crate) fn times(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Account, service and deployment.
    pub(crate) fn objects(&self) -> Vec<Value> {
        vec![account(self.name), service(self.name, &json!({})), self.deployment()]
    }

    /// The deployment alone.
    pub(crate) fn deployment(&self) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": self.template(),
            },
        })
    }

    /// A pod's metadata and spec.
    pub(crate) fn template(&self) -> Value {
        json!({"metadata": {"labels": {"app": self.name}}, "spec": self.spec()})
    }

    /// A pod that is not made by anybody else.
    pub(crate) fn pod(&self, name: &str, namespace: &str) -> Value {
        let mut pod = self.template();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = name.into();
        pod["metadata"]["namespace"] = namespace.into();
        pod
    }

    fn spec(&self) -> Value {
        let mut command = vec![
            "leno-worker".to_owned(),
            format!("--name={}", self.name),
            format!("--http={PORT}"),
            // Until everybody knows that it is leaving.
            "--shutdown-wait=2s".to_owned(),
        ];
        command.extend(self.flags.iter().cloned());
        json!({
            "serviceAccountName": self.name,
            "terminationGracePeriodSeconds": 40,
            "containers": [{
                "name": "worker",
                "image": IMAGE,
                "command": command,
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "ports": [{"name": "http", "containerPort": PORT}],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 1},
            }],
        })
    }
}

/// A service account.
pub(crate) fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
}

/// A service for pods with the label `app`, port 80 to [`PORT`]; `changes` are laid over its spec.
pub(crate) fn service(name: &str, changes: &Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 80, "targetPort": PORT, "appProtocol": "http"}],
        },
    });
    for (field, value) in changes.as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    service
}
