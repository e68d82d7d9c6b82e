//! Everything that an installation leaves in a cluster: `leno uninstall | kubectl delete -f -`.

use crate::chart::{self, Object};
use serde_json::{Value, json};

/// Kinds that the chart makes or the control plane makes at run time, as plural paths of the API: what is looked for in a cluster.
pub const LABEL: &str = "app.kubernetes.io/part-of=leno";

/// What the control plane made itself, in its own namespace.
const MADE_AT_RUN_TIME: [(&str, &str, &str); 2] =
    [("v1", "Secret", "leno-injector-tls"), ("coordination.k8s.io/v1", "Lease", "leno-control")];

/// References to everything: the webhook first, so that no pod waits for a control plane that is going away; the namespace last.
#[must_use]
pub fn references(
    objects: &[Object],
    namespace: &str,
    anchors_in: &[String],
    delete_namespace: bool,
) -> Vec<Value> {
    let mut all: Vec<Value> = objects.iter().map(|object| reference(&object.value)).collect();
    all.extend(MADE_AT_RUN_TIME.iter().map(|(version, kind, name)| {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}})
    }));
    all.extend(anchors_in.iter().filter(|copy| *copy != namespace).map(|copy| {
        let metadata = json!({"name": leno_inject::Mesh::TRUST_ANCHORS, "namespace": copy});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    }));
    all.retain(|object| delete_namespace || object["kind"] != "Namespace");
    all.sort_by_key(|object| match object["kind"].as_str() {
        Some("MutatingWebhookConfiguration") => 0,
        Some("Deployment") => 1,
        Some("Namespace") => 3,
        _ => 2,
    });
    all
}

fn reference(object: &Value) -> Value {
    let mut metadata = json!({"name": object["metadata"]["name"]});
    if let Some(namespace) = object["metadata"].get("namespace") {
        metadata["namespace"] = namespace.clone();
    }
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata})
}

/// References as a stream of YAML.
///
/// # Errors
/// Never: they are plain maps of texts.
pub fn yaml(references: &[Value]) -> Result<String, String> {
    references.iter().map(|one| Ok(format!("---\n{}\n", crate::template::to_yaml(one)?))).collect()
}

/// Everything that the chart can make with any values: what is not there, `kubectl delete --ignore-not-found` passes over.
///
/// # Errors
/// What the chart says.
pub fn everything(namespace: &str, monitoring: bool) -> Result<Vec<Object>, chart::ChartError> {
    let mut values = chart::defaults();
    let placeholder = json!({"certificate": "-", "key": "-"});
    crate::values::merge(
        &mut values,
        json!({
            "createNamespace": true,
            "identity": {"trustAnchors": "-", "issuer": placeholder, "root": placeholder},
            "control": {"podDisruptionBudget": {"enabled": true}},
            "podMonitor": {"enabled": monitoring},
            "dashboards": {"enabled": true},
        }),
    );
    chart::render(&values, namespace)
}
