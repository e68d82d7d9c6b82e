//! What the chart grants, to ask the API server about.

use crate::uninstall;
use serde_json::{Value, json};

/// One thing that someone may or may not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// API group; empty for the first.
    pub group: String,
    /// `routes`, or `routes/status`.
    pub resource: String,
    /// `list`, `patch`, …
    pub verb: String,
    /// Only this object.
    pub name: Option<String>,
    /// Only in this namespace.
    pub namespace: Option<String>,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// Every right that the chart's roles grant to the control plane of a namespace.
#[must_use]
pub fn of_control(namespace: &str) -> Vec<Right> {
    // The chart with its own values renders; a test sees to it.
    let objects = uninstall::everything(namespace).unwrap_or_default();
    let mut rights = Vec::new();
    // Other roles of the chart are for people.
    let is_of_control = |object: &&Value| object["metadata"]["name"] == "leno-control";
    for object in objects.iter().map(|object| &object.value).filter(is_of_control) {
        let place = match object["kind"].as_str() {
            Some("ClusterRole") => None,
            Some("Role") => Some(namespace.to_owned()),
            _ => continue,
        };
        for rule in object["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        let right = |name: Option<String>| Right {
                            group: group.clone(),
                            resource: resource.clone(),
                            verb: verb.clone(),
                            name,
                            namespace: place.clone(),
                        };
                        let names = texts(&rule["resourceNames"]);
                        if names.is_empty() {
                            rights.push(right(None));
                        }
                        rights.extend(names.into_iter().map(|name| right(Some(name))));
                    }
                }
            }
        }
    }
    rights
}

/// What a person needs to apply the chart.
#[must_use]
pub fn of_installation(namespace: &str) -> Vec<Right> {
    let objects = uninstall::everything(namespace).unwrap_or_default();
    let mut rights: Vec<Right> = objects
        .iter()
        // Kinds of others, which are asked for by a value.
        .filter(|object| object.value["apiVersion"] != "monitoring.coreos.com/v1")
        .map(|object| {
            let version = object.value["apiVersion"].as_str().unwrap_or_default();
            let kind = object.value["kind"].as_str().unwrap_or_default();
            Right {
                group: version.split_once('/').map_or("", |(group, _)| group).to_owned(),
                resource: format!("{}s", kind.to_lowercase()),
                verb: "create".to_owned(),
                name: None,
                namespace: object.value["metadata"]["namespace"].as_str().map(str::to_owned),
            }
        })
        .collect();
    rights.sort();
    rights.dedup();
    rights
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// The question to the API server: may `account` of `namespace`, or may we ourselves?
#[must_use]
pub fn review(right: &Right, account: Option<(&str, &str)>) -> (&'static str, Value) {
    let (resource, subresource) =
        right.resource.split_once('/').unwrap_or((right.resource.as_str(), ""));
    let attributes = json!({
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "name": right.name.as_deref().unwrap_or_default(),
        "namespace": right.namespace.as_deref().unwrap_or_default(),
    });
    let version = "authorization.k8s.io/v1";
    match account {
        None => (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({
                "apiVersion": version, "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }),
        ),
        Some((namespace, name)) => (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            json!({
                "apiVersion": version, "kind": "SubjectAccessReview",
                "spec": {
                    "user": format!("system:serviceaccount:{namespace}:{name}"),
                    "groups": [
                        "system:serviceaccounts",
                        format!("system:serviceaccounts:{namespace}"),
                        "system:authenticated",
                    ],
                    "resourceAttributes": attributes,
                },
            }),
        ),
    }
}
