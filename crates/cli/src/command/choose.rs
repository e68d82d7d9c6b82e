//! The pod that a person means, and kinds by the names that people type. Pure.

use crate::args::home::Scope;
use crate::home::Member;
use anyhow::bail;

/// Kinds that own pods, and pods: canonical name, then what else is typed.
const KINDS: [(&str, &[&str]); 9] = [
    ("deployment", &["deploy", "deployments"]),
    ("statefulset", &["sts", "statefulsets"]),
    ("daemonset", &["ds", "daemonsets"]),
    ("job", &["jobs"]),
    ("replicaset", &["rs", "replicasets"]),
    ("replicationcontroller", &["rc", "replicationcontrollers"]),
    ("pod", &["po", "pods"]),
    ("service", &["svc", "services"]),
    ("namespace", &["ns", "namespaces"]),
];

/// A kind's canonical name.
pub(super) fn kind(typed: &str) -> Option<&'static str> {
    let typed = typed.to_ascii_lowercase();
    let mut known = KINDS.iter();
    let found = known.find(|(name, others)| *name == typed || others.contains(&typed.as_str()));
    found.map(|(name, _)| *name)
}

/// The scope in which to look: a namespace before the name is one, too.
pub(super) fn scope(wanted: &str, scope: &Scope) -> Scope {
    match wanted.split_once('/') {
        Some((first, _)) if kind(first).is_none() && scope.namespace.is_none() => {
            Scope { namespace: Some(first.to_owned()), all_namespaces: false, ..scope.clone() }
        }
        _ => scope.clone(),
    }
}

/// By exact name, `deploy/NAME`, or the unique beginning of a name; `namespace/` may come before. The position among `pods`.
pub(super) fn choose(pods: &[Member], wanted: &str) -> anyhow::Result<usize> {
    let usable: Vec<(usize, &Member)> =
        pods.iter().enumerate().filter(|(_, pod)| !pod.ending).collect();
    let typed = wanted.split_once('/').and_then(|(first, name)| Some((kind(first)?, name)));
    if let Some((kind, name)) = typed
        && kind != "pod"
    {
        let workload = format!("{kind}/{name}");
        let mut of_workload = usable.iter().filter(|(_, pod)| pod.workload == workload);
        let ready = of_workload.clone().find(|(_, pod)| pod.ready).or_else(|| of_workload.next());
        return match ready {
            Some((at, _)) => Ok(*at),
            None => bail!("no pod of {workload}; `leno ps` lists pods"),
        };
    }
    let (namespace, name) = match (typed, wanted.split_once('/')) {
        (Some((_, name)), _) => (None, name),
        (None, Some((namespace, name))) => (Some(namespace), name),
        (None, None) => (None, wanted),
    };
    let candidates: Vec<&(usize, &Member)> = usable
        .iter()
        .filter(|(_, pod)| namespace.is_none_or(|namespace| pod.namespace == namespace))
        .collect();
    let exact: Vec<_> = candidates.iter().filter(|(_, pod)| pod.name == name).collect();
    let begin: Vec<_> = candidates.iter().filter(|(_, pod)| pod.name.starts_with(name)).collect();
    match (exact.as_slice(), begin.as_slice()) {
        ([pod], _) | ([], [pod]) => Ok(pod.0),
        ([], []) => match namespace {
            Some(namespace) => bail!("no pod {name:?} in {namespace:?}; `leno ps` lists pods"),
            None => bail!("no pod {name:?}; `leno ps` lists pods"),
        },
        (several, _) if !several.is_empty() => {
            bail!("{wanted:?} is in several namespaces: use NAMESPACE/{name}")
        }
        (_, several) => {
            let names: Vec<&str> = several.iter().map(|(_, pod)| pod.name.as_str()).collect();
            bail!("{wanted:?} matches several pods: {}", names.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str, workload: &str, ready: bool) -> Member {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Member { namespace, name, workload: workload.to_owned(), ready, ..Member::default() }
    }

    #[test]
    fn the_pod_that_is_meant() {
        let over = Member { ending: true, ..pod("default", "web-3", "deployment/web", false) };
        let pods = [
            pod("default", "web", "pod/web", true),
            pod("default", "web-1", "deployment/web", false),
            pod("default", "web-2", "deployment/web", true),
            pod("other", "web-2", "deployment/web", true),
            pod("other", "db-0", "statefulset/db", true),
            over,
        ];
        for (wanted, expected) in [
            ("web", "default/web"),
            ("web-1", "default/web-1"),
            ("pod/web-1", "default/web-1"),
            ("po/web", "default/web"),
            ("other/we", "other/web-2"),
            ("deploy/web", "default/web-2"),
            ("sts/db", "other/db-0"),
            ("web-", "\"web-\" matches several pods: web-1 or web-2 or web-2"),
            ("web-2", "\"web-2\" is in several namespaces: use NAMESPACE/web-2"),
            ("web-3", "no pod \"web-3\"; `leno ps` lists pods"),
            ("x", "no pod \"x\"; `leno ps` lists pods"),
            ("deploy/x", "no pod of deployment/x; `leno ps` lists pods"),
        ] {
            let found = match choose(&pods, wanted) {
                Ok(at) => format!("{}/{}", pods[at].namespace, pods[at].name),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{wanted}");
        }
    }

    #[test]
    fn a_namespace_before_a_name() {
        for (wanted, expected) in [("shop/web", Some("shop")), ("deploy/web", None), ("web", None)]
        {
            let found = scope(wanted, &Scope::default()).namespace;
            assert_eq!(found.as_deref(), expected, "{wanted}");
        }
    }
}
