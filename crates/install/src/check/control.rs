//! The control plane: what it was installed with, its rights, its leader, its version. Its pods are in [`super::replicas`].

use super::facts::{
    ACCOUNT, CONFIG, CONTROL_PODS, DEPLOYMENT, Facts, LEASE, REVIEWS, SERVICE, moment, span, text,
};
use super::{Category, failed, not_granted, passing, some_of, warning};

/// A leader renews its Lease every few seconds; nobody writes once it is this old.
const LEASE_SECONDS_MAX: u64 = 60;

pub(super) fn config(facts: &Facts, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    let what = "a control plane is installed";
    if facts.lacks(CONFIG) && facts.lacks(DEPLOYMENT) {
        let hint = "leno check --pre, then leno install | kubectl apply -f -; --control-namespace names another namespace";
        let seen = format!("there is no {CONFIG} in namespace {namespace}");
        return category.add(what, failed(seen, hint));
    }
    let back =
        "restore it with leno upgrade | kubectl apply -f - (or helm upgrade, if Helm installed it)";
    let needed: &[&str] = if facts.lacks(CONFIG) { &[DEPLOYMENT] } else { &[CONFIG] };
    let verdict = facts.unknown(needed).or_else(|| {
        let hint = "install again: leno install --ignore-cluster, with the cluster's certificates in the --identity-… flags";
        facts.lacks(CONFIG).then(|| failed(format!("there is no {CONFIG}"), hint)).flatten()
    });
    category.add(what, verdict);
    for (name, what) in [
        (ACCOUNT, "the control plane has its ServiceAccount"),
        (SERVICE, "the control plane has its Service"),
    ] {
        let verdict = facts.lacks(name).then(|| failed(format!("there is no {name}"), back));
        category.add(what, facts.unknown(&[name]).or(verdict.flatten()));
    }
    let verdict = not_granted(&facts.rights).and_then(|missing| {
        failed(
            format!("these rights are missing: {missing}"),
            "roles or bindings named leno-control were changed or deleted; restore them with leno upgrade | kubectl apply -f - (or helm upgrade, if Helm installed it)",
        )
    });
    let verdict = verdict.or_else(|| facts.unknown(&[REVIEWS]));
    category.add("the control plane has the rights that it needs", verdict);
}

pub(super) fn leader(facts: &Facts, category: &mut Category<'_>) {
    let namespace = &facts.namespace;
    let hint = format!(
        "without a leader, nothing writes the status of routes, the roots in new namespaces, or the webhook certificate. See kubectl -n {namespace} get lease leno-control -o yaml and kubectl -n {namespace} logs deploy/leno-control"
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
    category.add("the control plane has a leader", facts.unknown(&[LEASE]).or(verdict));
}

pub(super) fn version(facts: &Facts, category: &mut Category<'_>) {
    let installed = facts.config("version");
    let ours = &facts.version;
    let verdict = (installed != ours && facts.object(CONFIG).is_some()).then(|| {
        warning(
            format!("the control plane has version {installed}, and this leno has version {ours}"),
            "upgrade the control plane with leno upgrade | kubectl apply -f -, or use a leno of its version",
        )
    });
    let verdict = verdict.flatten().or_else(|| facts.unknown(&[CONFIG]));
    category.add("the control plane has the version of this leno", verdict);
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
            format!("these pods have another image than the Deployment: {}", some_of(&other)),
            format!("a rollout is running or stuck: kubectl -n {} rollout status deployment leno-control", facts.namespace),
        )
    });
    let verdict = verdict.flatten().or_else(|| facts.unknown(&[DEPLOYMENT, CONTROL_PODS]));
    category.add("all replicas of the control plane have one version", verdict);
}
