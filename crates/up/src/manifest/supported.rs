//! Which fields of each kind `leno up` acts on. A table, so that the report and the documentation cannot forget one.
//!
//! `[]` stands for each element of a list; `**` for everything below.

use serde_json::Value;

/// Kinds of which only the name (and labels, annotations) matter.
pub const NAMED: &[&str] = &["metadata.**", "spec.finalizers.**", "automountServiceAccountToken"];

/// ConfigMap and Secret.
pub const CONFIG: &[&str] =
    &["metadata.**", "data.**", "binaryData.**", "stringData.**", "type", "immutable"];

pub const SERVICE: &[&str] = &[
    "metadata.**",
    "spec.selector.**",
    "spec.ports.**",
    "spec.clusterIP",
    "spec.clusterIPs.**",
    "spec.ipFamilies.**",
    "spec.ipFamilyPolicy",
    "spec.publishNotReadyAddresses",
    "spec.type",
    "status.**",
];

/// Pod; the fields of its `spec` are those of every template.
pub const POD: &[&str] = &["metadata.**", "spec.<pod>", "status.**"];

pub const DEPLOYMENT: &[&str] = &[
    "metadata.**",
    "spec.replicas",
    "spec.selector.**",
    "spec.strategy.**",
    "spec.template.metadata.**",
    "spec.template.spec.<pod>",
    "status.**",
];

pub const JOB: &[&str] = &[
    "metadata.**",
    "spec.backoffLimit",
    "spec.template.metadata.**",
    "spec.template.spec.<pod>",
    "status.**",
];

const POD_SPEC: &[&str] = &[
    "containers[].<container>",
    "initContainers[].<container>",
    "restartPolicy",
    "serviceAccountName",
    "serviceAccount",
    "terminationGracePeriodSeconds",
    "hostname",
    "subdomain",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "volumes[].name",
    "volumes[].emptyDir.**",
    "volumes[].configMap.**",
    "volumes[].secret.**",
];

const CONTAINER: &[&str] = &[
    "name",
    "image",
    "imagePullPolicy",
    "command.**",
    "args.**",
    "env[].name",
    "env[].value",
    "env[].valueFrom.configMapKeyRef.**",
    "env[].valueFrom.secretKeyRef.**",
    "env[].valueFrom.fieldRef.**",
    "envFrom.**",
    "workingDir",
    "ports.**",
    "restartPolicy",
    "volumeMounts[].name",
    "volumeMounts[].mountPath",
    "volumeMounts[].readOnly",
    "volumeMounts[].subPath",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "lifecycle.preStop.exec.**",
    "lifecycle.preStop.sleep.**",
    "readinessProbe.<probe>",
    "livenessProbe.<probe>",
    "startupProbe.<probe>",
];

const PROBE: &[&str] = &[
    "httpGet.**",
    "tcpSocket.**",
    "exec.**",
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
    "failureThreshold",
    "successThreshold",
];

/// The tables above with `<pod>`, `<container>` and `<probe>` written out.
fn expand(pattern: &str) -> Vec<String> {
    for (word, table) in [("<pod>", POD_SPEC), ("<container>", CONTAINER), ("<probe>", PROBE)] {
        if let Some(prefix) = pattern.strip_suffix(word) {
            return table.iter().flat_map(|rest| expand(&format!("{prefix}{rest}"))).collect();
        }
    }
    vec![pattern.to_owned()]
}

/// The fields of a table, written out.
#[must_use]
pub fn patterns(table: &[&str]) -> Vec<String> {
    table.iter().flat_map(|pattern| expand(pattern)).collect()
}

/// Every field of `value` that is not in the table, topmost first; with indices, dotted.
#[must_use]
pub fn unused(value: &Value, table: &[&str]) -> Vec<String> {
    let mut patterns = patterns(table);
    patterns.extend(["apiVersion".to_owned(), "kind".to_owned()]);
    let mut found = Vec::new();
    walk(value, "", "", &patterns, &mut found);
    found
}

fn walk(value: &Value, path: &str, shown: &str, patterns: &[String], found: &mut Vec<String>) {
    let below = format!("{path}.**");
    if value.is_null() || patterns.iter().any(|pattern| *pattern == below || pattern == path) {
        return;
    }
    let known = path.is_empty()
        || patterns.iter().any(|pattern| {
            pattern
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('.') || rest.starts_with("[]"))
        });
    if !known {
        found.push(shown.to_owned());
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{name}");
                walk(value, &path, &format!("{shown}{dot}{name}"), patterns, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                let path = format!("{path}[]");
                walk(value, &path, &format!("{shown}.{index}"), patterns, found);
            }
        }
        _ => {}
    }
}

/// Names of the supported fields right below a dotted one.
#[must_use]
pub fn children(parent: &str, table: &[&str]) -> Vec<String> {
    let mut path = String::new();
    for part in parent.split('.').filter(|part| !part.is_empty()) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str("[]");
        } else {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(part);
        }
    }
    let dot = if path.is_empty() { "" } else { "." };
    let prefix = format!("{path}{dot}");
    let mut found: Vec<String> = patterns(table)
        .into_iter()
        .filter_map(|pattern| {
            let rest = pattern.strip_prefix(&prefix)?;
            let name = rest.split(['.', '[']).next()?;
            (!name.is_empty() && name != "**").then(|| name.to_owned())
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The first `image` of a pod or template.
#[must_use]
pub fn first_image(value: &Value) -> Option<String> {
    for prefix in ["spec", "spec/template/spec"] {
        let containers = value.pointer(&format!("/{prefix}/containers")).and_then(Value::as_array);
        let named = containers
            .and_then(|list| list.iter().position(|container| container.get("image").is_some()));
        if let Some(index) = named {
            return Some(format!("{}.containers.{index}.image", prefix.replace('/', ".")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_in_the_table_is_found() {
        let value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {"a": "b"}},
            "spec": {"paused": true, "template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {}},
            "readinessProbe": {"grpc": {"port": 1}, "periodSeconds": 1}}], "hostNetwork": true}}}});
        assert_eq!(
            unused(&value, DEPLOYMENT),
            [
                "spec.paused",
                "spec.template.spec.containers.0.readinessProbe.grpc",
                "spec.template.spec.containers.0.resources",
                "spec.template.spec.hostNetwork",
            ]
        );
    }
}
