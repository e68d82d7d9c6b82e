//! The control plane's pods: whether they serve, and whether those that are to replace them will.

use super::facts::{CONTROL_PODS, DEPLOYMENT, Facts, text};
use super::{Category, Verdict, failed, passing, some_of, warning};
use serde_json::Value;

/// More restarts than this are worth a look.
const RESTARTS_MAX: u64 = 5;
const CRASHES: &str = "the control plane is not in a crash loop";

pub(super) fn look(facts: &Facts, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    let what = "the control plane is ready";
    let Some(deployment) = facts.object(DEPLOYMENT) else {
        let hint = "restore it with leno upgrade | kubectl apply -f - (or helm upgrade, if Helm installed it)";
        let verdict = facts.unknown(&[DEPLOYMENT]);
        let verdict = verdict.or_else(|| failed(format!("there is no {DEPLOYMENT}"), hint));
        category.add(what, verdict);
        return category.add(CRASHES, restarts(facts));
    };
    let look = format!(
        "see kubectl -n {namespace} describe pod -l app.kubernetes.io/name=leno-control and kubectl -n {namespace} logs deploy/leno-control"
    );
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let ready = facts.control_pods.iter().filter(|pod| is_ready(pod)).count() as u64;
    let verdict = if wanted == 0 {
        let hint = format!("kubectl -n {namespace} scale deployment leno-control --replicas=1");
        failed(
            "it is scaled to 0: no certificates are issued, and pods that should get a proxy cannot be created",
            hint,
        )
    } else if facts.unread.contains_key(CONTROL_PODS) {
        facts.unknown(&[CONTROL_PODS])
    } else if ready == 0 {
        passing(format!("no pod of {wanted} is ready{}", states(facts)), look)
    } else if ready < wanted {
        passing(format!("{ready} of {wanted} pods are ready{}", states(facts)), look)
    } else {
        None
    };
    category.add(what, verdict);
    category.add(CRASHES, restarts(facts));
    category.add("the control plane's last change is rolled out", rollout(facts, deployment));
}

/// Pods that crash now, loudly, though others serve; those that did often, less so.
fn restarts(facts: &Facts) -> Option<Verdict> {
    let namespace = &facts.namespace;
    let mut crashing = Vec::new();
    let mut often = Vec::new();
    // A pod that was evicted stays as a record, and nothing starts it again.
    let staying = |pod: &&Value| {
        pod["metadata"].get("deletionTimestamp").is_none() && pod["status"]["phase"] != "Failed"
    };
    for pod in facts.control_pods.iter().filter(staying) {
        let name = text(&pod["metadata"]["name"]);
        let restarts: u64 = containers(pod).filter_map(|one| one["restartCount"].as_u64()).sum();
        if let Some(why) = containers(pod).find_map(crash).filter(|_| !is_ready(pod)) {
            crashing.push((name, format!("{name}: {why}, restarted {restarts} times")));
        } else if restarts > RESTARTS_MAX {
            often.push((name, format!("{name} {restarts} times")));
        }
    }
    let all = if crashing.is_empty() { &often } else { &crashing };
    let Some((first, _)) = all.first() else { return facts.unknown(&[CONTROL_PODS]) };
    let hint = format!(
        "kubectl -n {namespace} logs {first} --previous and kubectl -n {namespace} describe pod {first} show why it ended. Correct a rejected value with leno upgrade --set … | kubectl apply -f -"
    );
    let seen: Vec<String> = all.iter().map(|(_, seen)| seen.clone()).collect();
    // A control plane that waits for what others are about to make may come through.
    if crashing.is_empty() { warning(some_of(&seen), hint) } else { passing(some_of(&seen), hint) }
}

/// Why a started container ended, unless it was stopped on purpose.
fn crash(container: &Value) -> Option<String> {
    let restarts = container["restartCount"].as_u64().unwrap_or(0);
    let waits = text(&container["state"]["waiting"]["reason"]);
    let ended = [&container["state"]["terminated"], &container["lastState"]["terminated"]]
        .into_iter()
        .find(|ended| ended.is_object() && ended["exitCode"] != 0);
    let is_crash = waits == "CrashLoopBackOff" || (restarts > 0 && ended.is_some());
    let reason = if waits.is_empty() { "it ended" } else { waits };
    is_crash.then(|| match ended {
        Some(ended) => format!("{reason} (exit code {})", ended["exitCode"]),
        None => reason.to_owned(),
    })
}

/// Whether the pods are those of the Deployment as it is now, by its own word.
fn rollout(facts: &Facts, deployment: &Value) -> Option<Verdict> {
    let namespace = &facts.namespace;
    let status = &deployment["status"];
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let hint = format!(
        "until then the old pods serve with the old values. See kubectl -n {namespace} rollout status deployment leno-control, kubectl -n {namespace} describe pod -l app.kubernetes.io/name=leno-control and, for a pod that crashes, kubectl -n {namespace} logs POD --previous"
    );
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let stuck = conditions.find(|one| {
        (one["type"] == "Progressing" && one["status"] == "False")
            || (one["type"] == "ReplicaFailure" && one["status"] == "True")
    });
    if let Some(stuck) = stuck {
        let (reason, message) = (text(&stuck["reason"]), text(&stuck["message"]));
        return passing(format!("{reason}: {message}{}", states(facts)), hint);
    }
    if !status.is_object() || wanted == 0 {
        return None;
    }
    let is_seen = number("observedGeneration")
        >= deployment["metadata"]["generation"].as_u64().unwrap_or_default();
    // Those of before are counted as available, too, so that the new ones may hide behind them.
    let of_now = number("updatedReplicas");
    let behind = of_now < wanted || number("unavailableReplicas") > 0;
    if !is_seen {
        passing("the rollout has not started", hint)
    } else if behind {
        let missing = number("unavailableReplicas");
        let seen =
            format!("{of_now} of {wanted} pods have the last change, {missing} not available");
        passing(format!("{seen}{}", states(facts)), hint)
    } else {
        None
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|list| pod["status"][list].as_array())
        .flatten()
}

/// Whether a pod takes traffic.
pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"].get("deletionTimestamp").is_none()
        && conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Pods that are not ready, in brackets.
fn states(facts: &Facts) -> String {
    let states: Vec<String> = facts.control_pods.iter().filter_map(state).collect();
    if states.is_empty() { String::new() } else { format!(" ({})", some_of(&states)) }
}

/// Why a pod is not ready, by what its containers wait for.
fn state(pod: &Value) -> Option<String> {
    if is_ready(pod) {
        return None;
    }
    let name = text(&pod["metadata"]["name"]);
    let reason =
        containers(pod).filter_map(|one| one["state"]["waiting"]["reason"].as_str()).next();
    Some(format!("{name}: {}", reason.unwrap_or_else(|| text(&pod["status"]["phase"]))))
}
