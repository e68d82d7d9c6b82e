//! The control plane: what it was installed with, its rights, its pods, its leader, its version.

use super::facts::{ACCOUNT, CONFIG, DEPLOYMENT, Facts, LEASE, SERVICE, moment, span, text};
use super::{Category, failed, not_granted, passing, some_of, warning};
use serde_json::Value;

/// A leader renews its Lease every few seconds; nobody writes once it is this old.
const LEASE_SECONDS_MAX: u64 = 60;
/// More restarts than this are worth a look.
const RESTARTS_MAX: u64 = 5;

pub(super) fn config(facts: &Facts, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    if facts.object(CONFIG).is_none() && facts.object(DEPLOYMENT).is_none() {
        let hint = "leno check --pre, then leno install | kubectl apply -f -; --control-namespace names another namespace";
        let seen = format!("there is no {CONFIG} in namespace {namespace}");
        return category.add("a control plane is installed", failed(seen, hint));
    }
    let back =
        "leno upgrade | kubectl apply -f - puts it back (helm upgrade, where Helm installed it)";
    let verdict = facts.object(CONFIG).is_none().then(|| {
        let hint = "install again: leno install --ignore-cluster with the certificates of the cluster as --identity-… files";
        failed(format!("there is no {CONFIG}"), hint)
    });
    category.add("a control plane is installed", verdict.flatten());
    for (name, what) in [
        (ACCOUNT, "the control plane has its ServiceAccount"),
        (SERVICE, "proxies find the control plane by its Service"),
    ] {
        let verdict = facts.object(name).is_none();
        let verdict = verdict.then(|| failed(format!("there is no {name}"), back)).flatten();
        category.add(what, verdict);
    }
    let verdict = not_granted(&facts.rights).map(|missing| {
        failed(
            format!("it may not: {missing}"),
            "roles and bindings named leno-control were changed or taken away: leno upgrade | kubectl apply -f - puts them \
             back (helm upgrade, where Helm installed it)",
        )
    });
    category.add("the control plane may do what it has to", verdict.flatten());
}

pub(super) fn pods(facts: &Facts, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    let look = format!(
        "kubectl -n {namespace} describe pod -l app.kubernetes.io/name=leno-control and kubectl -n {namespace} logs \
         deploy/leno-control say why"
    );
    let what = "the control plane is ready";
    let Some(deployment) = facts.object(DEPLOYMENT) else {
        let hint = "leno upgrade | kubectl apply -f - puts it back (helm upgrade, where Helm installed it)";
        return category.add(what, failed(format!("there is no {DEPLOYMENT}"), hint));
    };
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let ready = facts.control_pods.iter().filter(|pod| is_ready(pod)).count() as u64;
    let states: Vec<String> = facts.control_pods.iter().filter_map(state).collect();
    let states = if states.is_empty() { String::new() } else { format!(" ({})", some_of(&states)) };
    let verdict = if wanted == 0 {
        let hint = format!("kubectl -n {namespace} scale deployment leno-control --replicas=1");
        failed(
            "it is scaled to 0: nobody gives certificates, pods that wish a proxy are not made",
            hint,
        )
    } else if ready == 0 {
        passing(format!("no pod of {wanted} is ready{states}"), look.clone())
    } else if ready < wanted {
        passing(format!("{ready} of {wanted} pods are ready{states}"), look.clone())
    } else {
        None
    };
    category.add(what, verdict);
    let restarted: Vec<String> = facts
        .control_pods
        .iter()
        .filter_map(|pod| {
            let all = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            let restarts: u64 = all.filter_map(|one| one["restartCount"].as_u64()).sum();
            let name = text(&pod["metadata"]["name"]);
            (restarts > RESTARTS_MAX).then(|| format!("{name} {restarts} times"))
        })
        .collect();
    let verdict = (!restarted.is_empty()).then(|| warning(some_of(&restarted), look));
    category.add("the control plane does not start again and again", verdict.flatten());
    leader(facts, category);
}

fn leader(facts: &Facts, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    let hint = format!(
        "without a leader no route's status, no roots in new namespaces and no webhook certificate are written: kubectl -n \
         {namespace} get lease leno-control -o yaml, kubectl -n {namespace} logs deploy/leno-control"
    );
    let renewed = facts.object(LEASE).map(|lease| {
        let holder = text(&lease["spec"]["holderIdentity"]);
        (holder, moment(text(&lease["spec"]["renewTime"])))
    });
    let verdict = match renewed {
        None => passing(format!("there is no {LEASE}"), hint),
        Some(("", _)) => passing(format!("{LEASE} has no holder"), hint),
        Some((holder, Some(at))) if facts.clock().saturating_sub(at) > LEASE_SECONDS_MAX => {
            let ago = span(facts.clock() - at);
            passing(format!("{holder} renewed {LEASE} {ago} ago"), hint)
        }
        Some(_) => None,
    };
    category.add("one replica leads", verdict);
}

/// Whether a pod takes traffic.
pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"].get("deletionTimestamp").is_none()
        && conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Why a pod is not ready, by what its containers wait for.
fn state(pod: &Value) -> Option<String> {
    if is_ready(pod) {
        return None;
    }
    let name = text(&pod["metadata"]["name"]);
    let all = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let reason = all.filter_map(|one| one["state"]["waiting"]["reason"].as_str()).next();
    Some(format!("{name}: {}", reason.unwrap_or_else(|| text(&pod["status"]["phase"]))))
}

pub(super) fn version(facts: &Facts, category: &mut Category<'_>) {
    let installed = facts.config("version");
    let ours = &facts.version;
    let verdict = (installed != ours && facts.object(CONFIG).is_some()).then(|| {
        warning(
            format!("the control plane is of version {installed}, and this leno of {ours}"),
            "leno upgrade | kubectl apply -f - brings the control plane to this version; or use the leno of its version",
        )
    });
    category.add("the control plane is of this program's version", verdict.flatten());
    let images: Vec<String> = facts
        .object(DEPLOYMENT)
        .and_then(|deployment| deployment.pointer("/spec/template/spec/containers/0/image"))
        .map(|image| text(image).to_owned())
        .into_iter()
        .collect();
    let other: Vec<String> = facts
        .control_pods
        .iter()
        .filter(|pod| pod["metadata"].get("deletionTimestamp").is_none())
        .filter(|pod| {
            let image = pod.pointer("/spec/containers/0/image").map_or("", text);
            !images.is_empty() && !images.iter().any(|wanted| wanted == image)
        })
        .map(|pod| text(&pod["metadata"]["name"]).to_owned())
        .collect();
    let verdict = (!other.is_empty()).then(|| {
        warning(
            format!("of another image than the Deployment's: {}", some_of(&other)),
            format!("a rollout goes on or is stuck: kubectl -n {} rollout status deployment leno-control", facts.namespace),
        )
    });
    category.add("its replicas are of one version", verdict.flatten());
}
