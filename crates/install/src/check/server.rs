//! The API server, its version, the clocks, what must be there before an installation.

use super::facts::{
    BINDING, CONFIG, CONFIGS, DEPLOYMENT, Facts, LINKERD, LINKERDS, Mode, NODE_LEASES, NODES,
    OWN_REVIEWS, WEBHOOK, moment, span, text,
};
use super::{Category, failed, not_granted, some_of, warning};
use crate::linkerd;
use crate::others::Others;
use serde_json::Value;

/// Clocks that differ by more make certificates and tokens look expired, or not valid yet.
const SKEW_SECONDS_MAX: u64 = 5 * 60;
/// Native sidecars, with what proxies need of them.
const MINOR_MIN: u64 = 30;
/// What Leno is made for.
const MINOR_BEST: u64 = 33;
/// Kinds that are read, each in the version in which it is read.
pub(super) const DEFINITIONS: [(&str, &[&str]); 3] = [
    ("httproutes.gateway.networking.k8s.io", &["v1"]),
    ("grpcroutes.gateway.networking.k8s.io", &["v1"]),
    ("referencegrants.gateway.networking.k8s.io", &["v1", "v1beta1"]),
];

pub(super) fn api(facts: &Facts, category: &mut Category<'_>) {
    let what = "the API server answers";
    if let Some(why) = &facts.unreachable {
        let hint = "check --kubeconfig, --context and KUBECONFIG; `kubectl get --raw /version` should answer";
        return category.add(what, failed(why, hint));
    }
    category.add(what, None);
    let unread: Vec<String> =
        facts.unread.iter().map(|(what, why)| format!("{what}: {why}")).collect();
    let problem = (!unread.is_empty()).then(|| {
        let hint = "these checks were skipped; use an account with the right to read everything";
        warning(some_of(&unread), hint)
    });
    category.add("this account can read everything that is checked", problem.flatten());
    clocks(facts, category);
}

fn clocks(facts: &Facts, category: &mut Category<'_>) {
    let Some(server) = facts.server_clock else { return };
    let apart = server.abs_diff(facts.now);
    let ntp = "the validity of certificates and tokens depends on the clock: set it (timedatectl set-ntp true, or chrony)";
    let wrong = (apart > SKEW_SECONDS_MAX).then(|| {
        let side = if facts.now > server { "ahead of" } else { "behind" };
        failed(format!("this machine's clock is {} {side} the API server's", span(apart)), ntp)
    });
    category.add("this machine's clock agrees with the API server's", wrong.flatten());
    let ready = |name: &str| {
        let node = facts.nodes.iter().find(|node| text(&node["metadata"]["name"]) == name);
        let conditions = node.and_then(|node| node["status"]["conditions"].as_array());
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let apart: Vec<String> = facts
        .node_leases
        .iter()
        .filter_map(|lease| {
            let name = text(&lease["metadata"]["name"]);
            let renewed = moment(text(&lease["spec"]["renewTime"]))?;
            // A node that is not ready may have stopped; one that is renews every ten seconds, by its own clock.
            (ready(name) && renewed.abs_diff(server) > SKEW_SECONDS_MAX).then(|| {
                let side = if renewed > server { "ahead" } else { "behind" };
                format!("{name} is {} {side}", span(renewed.abs_diff(server)))
            })
        })
        .collect();
    let wrong =
        (!apart.is_empty()).then(|| failed(some_of(&apart), format!("on these nodes, {ntp}")));
    let wrong = wrong.flatten().or_else(|| facts.unknown(&[NODES, NODE_LEASES]));
    category.add("the nodes' clocks agree with the API server's", wrong);
}

pub(super) fn version(facts: &Facts, category: &mut Category<'_>) {
    let digits = |field: &str| {
        let word = text(&facts.server[field]);
        let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        word[..end].parse::<u64>().ok()
    };
    let shown = text(&facts.server["gitVersion"]);
    let verdict = match (digits("major"), digits("minor")) {
        (Some(1), Some(minor)) if minor < MINOR_MIN => failed(
            format!("this is {shown}"),
            format!("native sidecars need Kubernetes 1.{MINOR_MIN}: upgrade the cluster"),
        ),
        (Some(1), Some(minor)) if minor < MINOR_BEST => warning(
            format!("this is {shown}"),
            format!("Leno is made for Kubernetes 1.{MINOR_BEST} and later: upgrade when you can"),
        ),
        (Some(1), Some(_)) => None,
        _ => warning(
            format!("the version {shown:?} is not in a known format"),
            "ignore this if all other checks pass",
        ),
    };
    category.add("the version of Kubernetes is supported", verdict);
}

pub(super) fn definitions(facts: &Facts, category: &mut Category<'_>) {
    for (name, versions) in DEFINITIONS {
        let install = "install the Gateway API's standard channel: kubectl apply --server-side -f \
            https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.6.3/standard-install.yaml";
        let verdict = match facts.definitions.get(name) {
            None if facts.unread.contains_key(name) => facts.unknown(&[name]),
            None => failed(format!("there is no CustomResourceDefinition {name}"), install),
            Some(definition) => {
                let all = definition["spec"]["versions"].as_array().into_iter().flatten();
                let served: Vec<&str> = all
                    .filter(|version| version["served"] == Value::Bool(true))
                    .map(|version| text(&version["name"]))
                    .collect();
                let good = versions.iter().any(|version| served.contains(version));
                (!good)
                    .then(|| {
                        let wanted = versions.join(" or ");
                        failed(
                            format!("it serves {}, and Leno reads {wanted}", served.join(", ")),
                            install,
                        )
                    })
                    .flatten()
            }
        };
        category.add(format!("{} are known", name.split('.').next().unwrap_or(name)), verdict);
    }
}

pub(super) fn before(facts: &Facts, category: &mut Category<'_>) {
    debug_assert_eq!(facts.mode, Mode::BeforeInstallation);
    let there = [CONFIG, DEPLOYMENT].iter().find(|name| facts.object(name).is_some());
    let verdict = there.and_then(|name| {
        failed(
            format!("{name} is already in namespace {}", facts.namespace),
            "to change the installation: leno upgrade | kubectl apply -f -; to remove it: leno uninstall | kubectl delete -f -",
        )
    });
    let verdict = verdict.or_else(|| facts.unknown(&[CONFIG, DEPLOYMENT]));
    category.add("no control plane is installed yet", verdict);
    let (webhook, binding) = (facts.object(WEBHOOK), facts.object(BINDING));
    let others = Others::find(&facts.namespace, webhook, binding, &facts.configs);
    let names = others.namespaces().into_iter().collect::<Vec<_>>().join(" and ");
    let verdict = (!names.is_empty()).then(|| {
        failed(
            format!("Leno is in namespace {names}; a cluster can have only one"),
            "use that one (--control-namespace), or remove it: leno uninstall --namespace NAME | kubectl delete -f -",
        )
    });
    let unknown = || facts.unknown(&[WEBHOOK, BINDING, CONFIGS]);
    category.add("no other namespace has a control plane", verdict.flatten().or_else(unknown));
    // A warning: what will be said with the installation is not known yet.
    let verdict = facts
        .injector_of_linkerd()
        .and_then(|name| warning(linkerd::seen(name), linkerd::hint("leno install")));
    let unknown = || facts.unknown(&[LINKERD, LINKERDS]);
    category.add("linkerd's injector does not select the same pods", verdict.or_else(unknown));
    let verdict = not_granted(&facts.own_rights).and_then(|missing| {
        failed(
            format!("these rights are missing: {missing}"),
            "install with an account that has these rights, such as one with the ClusterRole cluster-admin",
        )
    });
    let verdict = verdict.or_else(|| facts.unknown(&[OWN_REVIEWS]));
    category.add("this account has the rights to install Leno", verdict);
}
