//! Pods with proxies, and those that should have one.

use super::facts::{CONFIG, Facts, NAMESPACES, PODS, full_name, text};
use super::replicas::is_ready;
use super::{Category, failed, passing, some_of, warning};
use leno_inject::names::PROXY;
use leno_inject::scope::{self, Marks, Namespace, Wish};
use leno_inject::{Outcome, inject};
use serde_json::Value;

/// Pods that run or will.
fn living(facts: &Facts) -> impl Iterator<Item = &Value> {
    facts.pods.iter().filter(|pod| {
        let phase = text(&pod["status"]["phase"]);
        pod["metadata"].get("deletionTimestamp").is_none()
            && !matches!(phase, "Succeeded" | "Failed")
    })
}

/// Pods that should be in the mesh and are not.
pub(super) fn missing(facts: &Facts, category: &mut Category<'_>) {
    let mesh = facts.mesh();
    let mut without = Vec::new();
    let mut impossible = Vec::new();
    for pod in living(facts).filter(|pod| !scope::is_injected(&pod["spec"])) {
        let name = text(&pod["metadata"]["namespace"]);
        match inject(pod, &namespace_of(facts, name), Wish::Disabled, &mesh) {
            Outcome::Inject(_) => without.push(full_name(pod)),
            Outcome::Refuse(reasons) => {
                impossible.push(format!("{} ({})", full_name(pod), reasons.join("; ")));
            }
            Outcome::Skip(_) | Outcome::LeaveOut(_) => {}
        }
    }
    let verdict = (!without.is_empty()).then(|| {
        failed(
            format!("without a proxy: {}", some_of(&without)),
            "they were created before their namespace or template was labelled, or without the webhook. Restart them (kubectl rollout restart, or delete the pod); the label leno.dev/inject=disabled keeps a pod outside the mesh",
        )
    });
    let unknown = || facts.unknown(&[PODS, NAMESPACES]);
    category.add("every pod that should have a proxy has one", verdict.flatten().or_else(unknown));
    let verdict = (!impossible.is_empty()).then(|| {
        warning(
            some_of(&impossible),
            "correct the reason, or label the pod's template leno.dev/inject=disabled to keep it outside the mesh",
        )
    });
    category
        .add("every pod that should have a proxy can have one", verdict.flatten().or_else(unknown));
}

/// A namespace with what is written on it.
pub(super) fn namespace_of<'a>(facts: &'a Facts, name: &'a str) -> Namespace<'a> {
    let namespace =
        facts.namespaces.iter().find(|namespace| text(&namespace["metadata"]["name"]) == name);
    let marks = namespace.and_then(|namespace| Marks::of(namespace.get("metadata")).ok());
    Namespace { name, marks: marks.unwrap_or_default() }
}

/// Pods with a proxy.
pub(super) fn meshed(facts: &Facts) -> impl Iterator<Item = &Value> {
    living(facts).filter(|pod| scope::is_injected(&pod["spec"]))
}

/// Pods whose proxy runs and may be asked: namespace and name.
#[must_use]
pub fn to_ask(facts: &Facts) -> Vec<(String, String)> {
    let runs = |pod: &&Value| {
        proxy_status(pod).is_some_and(|status| status["state"]["running"].is_object())
    };
    let name = |pod: &Value, field: &str| text(&pod["metadata"][field]).to_owned();
    meshed(facts).filter(runs).map(|pod| (name(pod, "namespace"), name(pod, "name"))).collect()
}

/// Every proxy.
pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    if facts.unread.contains_key(PODS) {
        return category.add("there are pods in the mesh", facts.unknown(&[PODS]));
    }
    let meshed: Vec<&Value> = meshed(facts).collect();
    let place = facts.only.as_deref().map_or(String::new(), |only| format!(" in {only}"));
    let verdict = meshed.is_empty().then(|| {
        warning(
            format!("no pod{place} has a proxy"),
            "kubectl label namespace NAME leno.dev/inject=enabled, then kubectl rollout restart deployment -n NAME",
        )
    });
    category.add("there are pods in the mesh", verdict.flatten());
    let unready: Vec<String> = meshed
        .iter()
        .filter(|pod| !is_ready(pod) && !proxy_status(pod).is_some_and(is_started))
        .map(|pod| {
            format!("{} ({})", full_name(pod), waits_for(pod).unwrap_or("no certificate yet"))
        })
        .collect();
    let verdict = (!unready.is_empty()).then(|| {
        passing(
            some_of(&unready),
            format!(
                "a proxy is ready when it has a certificate; leno logs NAME --proxy shows what it waits for. For ImagePullBackOff, check the value proxy.image. Then check the control plane in namespace {}",
                facts.namespace
            ),
        )
    });
    category.add("every proxy is ready", verdict.flatten());
    skew(facts, &meshed, category);
}

/// Why the proxy does not run: its own reason, or that of the container before it, which has the same image.
fn waits_for(pod: &Value) -> Option<&str> {
    let containers = pod["status"]["initContainerStatuses"].as_array()?;
    let reasons = containers.iter().map(|status| text(&status["state"]["waiting"]["reason"]));
    let mut reasons: Vec<&str> = reasons.filter(|reason| !reason.is_empty()).collect();
    // `PodInitializing` only means waiting for another container, so it comes last.
    reasons.sort_by_key(|reason| *reason == "PodInitializing");
    reasons.first().copied()
}

fn skew(facts: &Facts, meshed: &[&Value], category: &mut Category<'_>) {
    let wanted = facts.config("proxy-image");
    let other: Vec<String> = meshed
        .iter()
        .filter_map(|pod| {
            let image = text(&proxy_of(pod)?["image"]);
            // A pod that chose its own image by annotation wants it so.
            let annotations = pod["metadata"]["annotations"].as_object();
            let chosen = annotations
                .is_some_and(|all| all.keys().any(|name| name.ends_with("leno.dev/proxy-image")));
            (image != wanted && !chosen).then(|| format!("{} ({image})", full_name(pod)))
        })
        .collect();
    let verdict = (!other.is_empty() && !wanted.is_empty()).then(|| {
        warning(
            format!("these have another version than {wanted}: {}", some_of(&other)),
            "a pod keeps the proxy that it was created with; restart these pods: kubectl rollout restart",
        )
    });
    let verdict = verdict.flatten().or_else(|| facts.unknown(&[CONFIG]));
    category.add("proxies have the installed version", verdict);
}

/// The proxy's container.
pub(super) fn proxy_of(pod: &Value) -> Option<&Value> {
    ["initContainers", "containers"]
        .into_iter()
        .filter_map(|list| pod["spec"][list].as_array())
        .flatten()
        .find(|container| text(&container["name"]) == PROXY)
}

fn proxy_status(pod: &Value) -> Option<&Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|list| pod["status"][list].as_array())
        .flatten()
        .find(|status| text(&status["name"]) == PROXY)
}

/// A native sidecar that passed its startup probe, which is readiness, and is ready.
fn is_started(status: &Value) -> bool {
    status["started"] == Value::Bool(true) && status["ready"] == Value::Bool(true)
}
