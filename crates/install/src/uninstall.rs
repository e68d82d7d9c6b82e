//! Everything that an installation leaves in a cluster: `leno uninstall | kubectl delete -f -`.

use crate::chart::{self, Object};
use serde_json::{Value, json};

/// What the control plane made itself, in its own namespace.
const MADE_AT_RUN_TIME: [(&str, &str, &str); 2] =
    [("v1", "Secret", "leno-injector-tls"), ("coordination.k8s.io/v1", "Lease", "leno-control")];

/// References to everything: the webhook first, so that no pod waits for a control plane that is going away; the namespace last. The
/// definitions of policy kinds stay.
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
    // The API server deletes the policies of all users with them.
    all.retain(|object| object["kind"] != "CustomResourceDefinition");
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
    let kind = text(&reference["kind"]).to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(kind) => format!("{kind}ies"),
        None => format!("{kind}s"),
    };
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

/// What an upgrade leaves behind: everything that the chart can make and does not make with these values. Not the namespace, nor roots and
/// keys: others keep those then, or they are nowhere else.
#[must_use]
pub fn left_behind(all: &[Object], made: &[Object]) -> Vec<Value> {
    const KEPT: [&str; 2] = ["Namespace", "Secret"];
    let made: Vec<Value> = made.iter().map(|object| reference(&object.value)).collect();
    let mut left: Vec<Value> = all.iter().map(|object| reference(&object.value)).collect();
    left.retain(|one| {
        !made.contains(one)
            && !KEPT.iter().any(|kind| one["kind"] == *kind)
            && one["metadata"]["name"] != leno_inject::Mesh::TRUST_ANCHORS
    });
    left
}

/// Whether an object that is there was made by the chart.
#[must_use]
pub fn is_of_chart(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/part-of"] == "leno"
}

/// `kind/name`, as `kubectl` takes it.
#[must_use]
pub fn shown(reference: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&reference["kind"]).to_lowercase(), text(&reference["metadata"]["name"]))
}

/// The namespace of the control plane that certifies the proxy of a pod, where it has one that says so.
#[must_use]
pub fn certified_by(spec: &Value) -> Option<&str> {
    let all = spec["initContainers"].as_array()?.iter();
    let proxy = all.clone().find(|one| one["name"] == leno_inject::names::PROXY)?;
    let variables = proxy["env"].as_array()?.iter();
    let identity = variables.clone().find(|one| one["name"] == "LENO_PROXY_CONTROL_IDENTITY")?;
    identity["value"].as_str()?.split_once("/ns/")?.1.split('/').next()
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
            "alerts": {"enabled": true},
            "networkPolicy": {"enabled": true},
        }),
    );
    chart::objects(&values, namespace)
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
            "/apis/networking.k8s.io/v1/namespaces/mesh/networkpolicies/leno-control",
            "/apis/monitoring.coreos.com/v1/namespaces/mesh/podmonitors/leno-proxy",
            "/apis/monitoring.coreos.com/v1/namespaces/mesh/prometheusrules/leno",
            "/apis/coordination.k8s.io/v1/namespaces/mesh/leases/leno-control",
        ] {
            assert_eq!(paths.iter().filter(|path| *path == expected).count(), 1, "{expected}");
        }
        assert!(left_behind(&everything("mesh").unwrap(), &everything("mesh").unwrap()).is_empty());
        // Where Leno cannot be installed any more, it can be taken out.
        assert!(chart::render(&chart::defaults(), "kube-system").is_err());
        assert_eq!(everything("kube-system").unwrap().len(), everything("mesh").unwrap().len());
        let kept = references(&everything("mesh").unwrap(), "mesh", &[], false);
        assert!(kept.iter().all(|one| one["kind"] != "Namespace"));
        let text = yaml(&all).unwrap();
        assert!(!text.contains("\ndata:") && text.contains("kind: Deployment"), "{text}");
    }

    #[test]
    fn what_is_not_made_any_more() {
        let mut values = chart::defaults();
        crate::values::merge(&mut values, json!({"identity": {"external": true}}));
        let all = everything("mesh").unwrap();
        let shown = |values: &Value| -> Vec<String> {
            let made = chart::render(values, "mesh").unwrap();
            left_behind(&all, &made).iter().map(super::shown).collect()
        };
        let monitors = ["podmonitor/leno-control", "podmonitor/leno-proxy"];
        let budget = "poddisruptionbudget/leno-control";
        let dashboards = "configmap/leno-dashboards";
        let policy = "networkpolicy/leno-control";
        let alerts = "prometheusrule/leno";
        let optional = [policy, budget, monitors[0], monitors[1], dashboards, alerts];
        assert_eq!(shown(&values), optional);
        crate::values::merge(&mut values, chart::high_availability());
        crate::values::merge(&mut values, json!({"dashboards": {"enabled": true}}));
        crate::values::merge(&mut values, json!({"networkPolicy": {"enabled": true}}));
        crate::values::merge(&mut values, json!({"alerts": {"enabled": true}}));
        assert_eq!(shown(&values), monitors);
    }

    #[test]
    fn who_certifies_a_proxy() {
        let mesh =
            leno_inject::Mesh { namespace: "mesh".to_owned(), ..leno_inject::Mesh::default() };
        let settings = leno_inject::annotation::Settings::default();
        let added = leno_inject::pod::containers(&json!({}), &settings, &mesh);
        assert_eq!(certified_by(&json!({"initContainers": added})), Some("mesh"));
        assert_eq!(certified_by(&json!({"initContainers": [{"name": "leno-proxy"}]})), None);
        assert_eq!(certified_by(&json!({"containers": [{"name": "app"}]})), None);
    }
}
