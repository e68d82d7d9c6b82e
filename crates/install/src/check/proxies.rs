//! Pods with proxies, and those that should have one.

use super::control::is_ready;
use super::facts::{Facts, full_name, text};
use super::{Category, failed, passing, some_of, warning};
use leno_inject::pod::PROXY;
use leno_inject::scope::{self, Marks, Namespace, Wish};
use leno_inject::{Mesh, Outcome, inject};
use serde_json::Value;

/// Pods that run or will.
fn living(facts: &Facts) -> impl Iterator<Item = &Value> {
    facts.pods.iter().filter(|pod| {
        let phase = text(&pod["status"]["phase"]);
        pod["metadata"].get("deletionTimestamp").is_none()
            && !matches!(phase, "Succeeded" | "Failed")
    })
}

/// Pods that wish to be in the mesh and are not.
pub(super) fn missing(facts: &Facts, category: &mut Category<'_>) {
    let mesh = Mesh { namespace: facts.namespace.clone(), ..Mesh::default() };
    let mut without = Vec::new();
    let mut impossible = Vec::new();
    for pod in living(facts).filter(|pod| !scope::is_injected(&pod["spec"])) {
        let name = text(&pod["metadata"]["namespace"]);
        let namespace =
            facts.namespaces.iter().find(|namespace| text(&namespace["metadata"]["name"]) == name);
        let marks = namespace.and_then(|namespace| Marks::of(namespace.get("metadata")).ok());
        let namespace = Namespace { name, marks: marks.unwrap_or_default() };
        match inject(pod, &namespace, Wish::Disabled, &mesh) {
            Outcome::Inject(_) => without.push(full_name(pod)),
            Outcome::Refuse(reasons) => {
                impossible.push(format!("{} ({})", full_name(pod), reasons.join("; ")));
            }
            Outcome::Skip(_) => {}
        }
    }
    let verdict = (!without.is_empty()).then(|| {
        failed(
            format!("without a proxy: {}", some_of(&without)),
            "they were made before their namespace or template was labelled, or while there was no webhook: kubectl rollout \
             restart their Deployment, or delete the pod; label leno.dev/inject=disabled says that one stays outside",
        )
    });
    category.add("every pod that wishes a proxy has one", verdict.flatten());
    let verdict = (!impossible.is_empty()).then(|| {
        warning(
            some_of(&impossible),
            "put right what is said, or label the pod's template leno.dev/inject=disabled: it stays outside of the mesh as it is",
        )
    });
    category.add("every pod that wishes a proxy can have one", verdict.flatten());
}

/// Every proxy.
pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    let meshed: Vec<&Value> =
        living(facts).filter(|pod| scope::is_injected(&pod["spec"])).collect();
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
            let status = proxy_status(pod);
            let waiting = status.map_or("", |status| text(&status["state"]["waiting"]["reason"]));
            let waiting = if waiting.is_empty() { "no certificate yet" } else { waiting };
            format!("{} ({waiting})", full_name(pod))
        })
        .collect();
    let verdict = (!unready.is_empty()).then(|| {
        passing(
            some_of(&unready),
            format!(
                "a proxy is ready once it has a certificate: leno logs NAME --proxy says what it waits for; ImagePullBackOff is \
                 about proxy.image; then look at the control plane in namespace {}",
                facts.namespace
            ),
        )
    });
    category.add("every proxy is ready", verdict.flatten());
    skew(facts, &meshed, category);
}

fn skew(facts: &Facts, meshed: &[&Value], category: &mut Category<'_>) {
    let wanted = facts.config("proxy-image");
    let other: Vec<String> = meshed
        .iter()
        .filter_map(|pod| {
            let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
            let containers =
                containers.chain(pod["spec"]["containers"].as_array().into_iter().flatten());
            let mut proxies = containers.filter(|container| text(&container["name"]) == PROXY);
            let image = text(&proxies.next()?["image"]);
            // A pod that chose its own image by annotation wants it so.
            let annotations = pod["metadata"]["annotations"].as_object();
            let chosen = annotations
                .is_some_and(|all| all.keys().any(|name| name.ends_with("leno.dev/proxy-image")));
            (image != wanted && !chosen).then(|| format!("{} ({image})", full_name(pod)))
        })
        .collect();
    let verdict = (!other.is_empty() && !wanted.is_empty()).then(|| {
        warning(
            format!("of another version than {wanted}: {}", some_of(&other)),
            "pods keep the proxy with which they were made: kubectl rollout restart their Deployment",
        )
    });
    category.add("proxies are of the installed version", verdict.flatten());
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
