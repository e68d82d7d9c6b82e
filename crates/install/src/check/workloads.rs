//! Workloads with injection whose pods are rejected, so that there is no pod to check.

use super::facts::{EVENTS, Facts, NAMESPACES, WORKLOADS, text};
use super::identity::{is_looked_at, wishes};
use super::proxies::namespace_of;
use super::{Category, Problem, Verdict, some_of, warning};
use leno_inject::scope::{self, Wish};
use leno_inject::{Mesh, Outcome, inject};
use serde_json::{Value, json};

/// What a namespace enforces, and the words that refuse NET_ADMIN.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const REFUSING: [&str; 2] = ["baseline", "restricted"];

/// Who refuses a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    PodSecurity,
    Injector,
    /// The API server did not reach the webhook.
    NoAnswer,
    Other,
}

pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    category.add("namespaces in the mesh accept pods with a proxy", standards(facts));
    category.add("every workload in the mesh can create its pods", refused(facts));
}

fn standards(facts: &Facts) -> Option<Verdict> {
    let wrong: Vec<(&str, &str)> = facts
        .namespaces
        .iter()
        .filter(|namespace| is_looked_at(facts, namespace) && wishes(facts, namespace))
        .map(|namespace| &namespace["metadata"])
        .map(|metadata| (text(&metadata["name"]), text(&metadata["labels"][ENFORCE])))
        .filter(|(_, word)| REFUSING.contains(word))
        .collect();
    let Some((first, _)) = wrong.first() else { return facts.unknown(&[NAMESPACES]) };
    let seen: Vec<String> =
        wrong.iter().map(|(name, word)| format!("{name} enforces {word}")).collect();
    warning(
        format!("Pod Security rejects pods with a proxy: {}", some_of(&seen)),
        format!(
            "leno-init needs the capability NET_ADMIN: kubectl label namespace {first} {ENFORCE}=privileged --overwrite. Or remove the namespace from the mesh: kubectl label namespace {first} leno.dev/inject=disabled --overwrite"
        ),
    )
}

fn refused(facts: &Facts) -> Option<Verdict> {
    let mesh = facts.mesh();
    let mut seen = Vec::new();
    let mut by = Vec::new();
    for workload in facts.workloads.iter().filter(|one| wishes_proxies(facts, one, &mesh)) {
        let Some(message) = refusal(facts, workload) else { continue };
        by.push(who(&message));
        // The message may have several lines; show it in one.
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("{}: {message}", shown(workload));
        if !seen.contains(&line) {
            seen.push(line);
        }
    }
    if seen.is_empty() {
        let lists = WORKLOADS.map(|(list, _)| list);
        return facts.unknown(&[lists.as_slice(), &[NAMESPACES, EVENTS]].concat());
    }
    by.sort();
    by.dedup();
    let hints: Vec<&str> = by.iter().map(|by| hint(*by)).collect();
    let problem = Problem {
        seen: format!("refused: {}", some_of(&seen)),
        hint: hints.join("; "),
        passing: by == [By::NoAnswer],
    };
    // A quota is not the mesh's, though it may be the proxy that is too much for it.
    Some(if by == [By::Other] { Verdict::Warning(problem) } else { Verdict::Failed(problem) })
}

fn wishes_proxies(facts: &Facts, workload: &Value, mesh: &Mesh) -> bool {
    let name = text(&workload["metadata"]["namespace"]);
    if workload["metadata"].get("deletionTimestamp").is_some()
        || facts.only.as_deref().is_some_and(|only| only != name)
    {
        return false;
    }
    let template = &workload["spec"]["template"];
    let pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    scope::is_injected(&pod["spec"])
        || !matches!(
            inject(&pod, &namespace_of(facts, name), Wish::Disabled, mesh),
            Outcome::Skip(_) | Outcome::LeaveOut(_)
        )
}

/// What was said when its pods were refused, while there are less than it wants.
fn refusal(facts: &Facts, workload: &Value) -> Option<String> {
    let (spec, status) = (&workload["spec"], &workload["status"]);
    let number = |value: &Value, otherwise: u64| value.as_u64().unwrap_or(otherwise);
    let is_short = match text(&workload["kind"]) {
        "DaemonSet" => {
            number(&status["currentNumberScheduled"], 0)
                < number(&status["desiredNumberScheduled"], 0)
        }
        "Job" => {
            let ended = status["conditions"].as_array().into_iter().flatten().any(|one| {
                ["Complete", "Failed"].contains(&text(&one["type"])) && one["status"] == "True"
            });
            !ended && spec["suspend"] != true && number(&status["active"], 0) == 0
        }
        _ => number(&status["replicas"], 0) < number(&spec["replicas"], 1),
    };
    if !is_short {
        return None;
    }
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let failure = conditions.find(|one| {
        one["type"] == "ReplicaFailure"
            && one["status"] == "True"
            && one["reason"] == "FailedCreate"
    });
    if let Some(failure) = failure {
        return Some(text(&failure["message"]).to_owned());
    }
    // Other kinds than ReplicaSets say it in Events alone.
    let metadata = &workload["metadata"];
    let about = |event: &&Value| {
        let object = &event["involvedObject"];
        object["kind"] == workload["kind"]
            && object["name"] == metadata["name"]
            && object["namespace"] == metadata["namespace"]
            && object["uid"] == metadata["uid"]
    };
    let at = |event: &&Value| {
        [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]]
            .into_iter()
            .find_map(Value::as_str)
            .map(str::to_owned)
    };
    let last = facts.events.iter().filter(about).max_by_key(at)?;
    Some(text(&last["message"]).to_owned())
}

/// `deployment shop/web`: what a person has made.
fn shown(workload: &Value) -> String {
    let metadata = &workload["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.into_iter().find(|owner| owner["controller"] == true);
    let (kind, name) = match owner {
        Some(owner) => (text(&owner["kind"]), text(&owner["name"])),
        None => (text(&workload["kind"]), text(&metadata["name"])),
    };
    format!("{} {}/{name}", kind.to_lowercase(), text(&metadata["namespace"]))
}

fn who(message: &str) -> By {
    if message.contains("violates PodSecurity") {
        By::PodSecurity
    } else if message.contains("failed calling webhook") && message.contains("injector.leno.dev") {
        By::NoAnswer
    } else if message.contains("injector.leno.dev") {
        By::Injector
    } else {
        By::Other
    }
}

fn hint(by: By) -> &'static str {
    match by {
        By::PodSecurity => {
            "leno-init needs the capability NET_ADMIN, which Pod Security baseline and restricted reject: kubectl label namespace NAME pod-security.kubernetes.io/enforce=privileged --overwrite, or label the template leno.dev/inject=disabled"
        }
        By::Injector => {
            "correct the reason, or label the template leno.dev/inject=disabled to keep its pods outside the mesh"
        }
        By::NoAnswer => {
            "the API server does not reach the webhook: see leno-webhooks and leno-control-plane above. Kubernetes retries the pods"
        }
        By::Other => {
            "see kubectl describe. A quota counts leno-init and leno-proxy with the value proxy.resources (leno upgrade --set proxy.resources.requests.cpu=5m | kubectl apply -f -) or the template's annotation config.leno.dev/proxy-cpu-request. For a LimitRange, set allowed values in the same places, or use its defaults with proxy.resources.requests=null"
        }
    }
}
