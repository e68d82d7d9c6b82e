//! Where the pods are in objects of every kind.

use serde_json::Value;

/// A pod, or a template of pods, in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `deployment "web"`, as people are told of it.
    pub shown: String,
    /// The namespace that the object names; empty where it names none.
    pub namespace: String,
    /// JSON pointer from the document's root to what has `metadata` and `spec`; `None` where the kind has no pods.
    pub pointer: Option<String>,
    /// The kind is not known, and yet there is what looks like a template of pods: somebody makes pods of it.
    pub looks_like_pods: bool,
}

/// Lists in lists are followed this deep.
const DEPTH_MAX: usize = 8;

/// Every object of a document, those in lists one by one.
#[must_use]
pub fn places(document: &Value) -> Vec<Place> {
    let mut found = Vec::new();
    walk(document, String::new(), ("", ""), 0, &mut found);
    found
}

/// What the items of a list are that do not say it themselves: in what an API server answers, a PodList's are Pods.
pub(crate) fn item_kind(list: &str) -> &str {
    list.strip_suffix("List").unwrap_or_default()
}

fn walk(
    object: &Value,
    pointer: String,
    (version, kind): (&str, &str),
    depth: usize,
    found: &mut Vec<Place>,
) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = match (text("/apiVersion"), text("/kind")) {
        (_, "") => (version, kind),
        own => own,
    };
    let items = object.get("items").and_then(Value::as_array);
    if let Some(items) = items.filter(|_| kind.ends_with("List") && depth < DEPTH_MAX) {
        for (at, item) in items.iter().enumerate() {
            let of_list = (version, item_kind(kind));
            walk(item, format!("{pointer}/items/{at}"), of_list, depth + 1, found);
        }
        return;
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let below = template(group, kind);
    let name = match (text("/metadata/name"), text("/metadata/generateName")) {
        ("", generated) => generated,
        (name, _) => name,
    };
    let kind = if kind.is_empty() { "object".to_owned() } else { kind.to_ascii_lowercase() };
    found.push(Place {
        shown: format!("{kind} {name:?}"),
        namespace: text("/metadata/namespace").to_owned(),
        looks_like_pods: below.is_none()
            && object.pointer("/spec/template/spec/containers").is_some_and(Value::is_array),
        pointer: below.map(|below| format!("{pointer}{below}")),
    });
}

/// Where in an object of this kind the pod or its template is.
#[must_use]
pub fn template(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "Pod") => Some(""),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job") => Some("/spec/template"),
        ("batch", "CronJob") => Some("/spec/jobTemplate/spec/template"),
        ("", "PodTemplate") => Some("/template"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind() {
        #[track_caller]
        fn check(document: Value, expected: &[&str]) {
            let shown: Vec<String> = places(&document)
                .into_iter()
                .map(|place| {
                    format!("{} in {:?}: {:?}", place.shown, place.namespace, place.pointer)
                })
                .collect();
            assert_eq!(shown, expected, "{document}");
        }
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "n"}});
        check(object("v1", "Pod"), &["pod \"a\" in \"n\": Some(\"\")"]);
        check(
            object("apps/v1", "Deployment"),
            &["deployment \"a\" in \"n\": Some(\"/spec/template\")"],
        );
        check(
            object("batch/v1", "CronJob"),
            &["cronjob \"a\" in \"n\": Some(\"/spec/jobTemplate/spec/template\")"],
        );
        check(object("other/v1", "Deployment"), &["deployment \"a\" in \"n\": None"]);
        check(object("v1", "Service"), &["service \"a\" in \"n\": None"]);
        check(json!(null), &["object \"\" in \"\": None"]);
        check(json!([1]), &["object \"\" in \"\": None"]);
        check(
            json!({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "PodList", "items": [object("v1", "Pod")]}, 7]}),
            &["pod \"a\" in \"n\": Some(\"/items/0/items/0\")", "object \"\" in \"\": None"],
        );
        // As an API server answers: the list says it for its items.
        let bare = json!({"metadata": {"name": "a", "namespace": "n"}});
        check(
            json!({"apiVersion": "v1", "kind": "PodList", "items": [bare]}),
            &["pod \"a\" in \"n\": Some(\"/items/0\")"],
        );
        check(
            json!({"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [bare, object("v1", "Pod")]}),
            &[
                "deployment \"a\" in \"n\": Some(\"/items/0/spec/template\")",
                "pod \"a\" in \"n\": Some(\"/items/1\")",
            ],
        );
        check(json!({"kind": "List", "items": [bare]}), &["object \"a\" in \"n\": None"]);
        check(json!({"kind": "List", "items": {}}), &["list \"\" in \"\": None"]);
    }
}
