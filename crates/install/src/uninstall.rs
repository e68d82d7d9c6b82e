//! Everything that an installation leaves in a cluster: `leno uninstall | kubectl delete -f -`.

use crate::chart::{self, Object};
use serde_json::{Value, json};

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

/// Where the API server has the object of a reference.
#[must_use]
pub fn path(reference: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&reference["apiVersion"]);
    let root = if version.contains('/') { "apis" } else { "api" };
    // All kinds of the chart have the regular plural.
    let plural = format!("{}s", text(&reference["kind"]).to_lowercase());
    let name = text(&reference["metadata"]["name"]);
    match reference["metadata"].get("namespace").map(text) {
        Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("/{root}/{version}/{plural}/{name}"),
    }
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

/// Everything that the chart can make with any values; not all of it is in every cluster.
///
/// # Errors
/// What the chart says.
pub fn everything(namespace: &str) -> Result<Vec<Object>, chart::ChartError> {
    let mut values = chart::defaults();
    let placeholder = json!({"certificate": "-", "key": "-"});
    crate::values::merge(
        &mut values,
        json!({
            "createNamespace": true,
            "identity": {"trustAnchors": "-", "issuer": placeholder, "root": placeholder},
            "control": {"podDisruptionBudget": {"enabled": true}},
            "podMonitor": {"enabled": true},
            "dashboards": {"enabled": true},
        }),
    );
    chart::render(&values, namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_webhook_goes_first_and_the_namespace_last() {
        let all = everything("mesh").unwrap();
        let all = references(&all, "mesh", &["shop".to_owned(), "mesh".to_owned()], true);
        let paths: Vec<String> = all.iter().map(path).collect();
        let webhook =
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/leno-injector";
        assert_eq!(paths.first().unwrap(), webhook);
        assert_eq!(paths.last().unwrap(), "/api/v1/namespaces/mesh");
        for expected in [
            "/api/v1/namespaces/shop/configmaps/leno-trust-anchors",
            "/api/v1/namespaces/mesh/configmaps/leno-trust-anchors",
            "/api/v1/namespaces/mesh/secrets/leno-injector-tls",
            "/api/v1/namespaces/mesh/secrets/leno-identity-root",
            "/apis/apps/v1/namespaces/mesh/deployments/leno-control",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/leno-control",
            "/apis/policy/v1/namespaces/mesh/poddisruptionbudgets/leno-control",
            "/apis/monitoring.coreos.com/v1/namespaces/mesh/podmonitors/leno-proxy",
            "/apis/coordination.k8s.io/v1/namespaces/mesh/leases/leno-control",
        ] {
            assert_eq!(paths.iter().filter(|path| *path == expected).count(), 1, "{expected}");
        }
        let kept = references(&everything("mesh").unwrap(), "mesh", &[], false);
        assert!(kept.iter().all(|one| one["kind"] != "Namespace"));
        let text = yaml(&all).unwrap();
        assert!(!text.contains("\ndata:") && text.contains("kind: Deployment"), "{text}");
    }
}
