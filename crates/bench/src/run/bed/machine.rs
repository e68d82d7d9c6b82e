//! A running topology as the runner sees it: who is who, what the timeline does to it, what ran again by itself.

use crate::chaos::Stage;
use crate::measure::Roles;
use crate::mesh::{Bed, Pod};
use crate::scenario::known::is_named;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a scenario means this pod by this name.
pub(crate) fn is_of(pod: &Pod, workload: &str) -> bool {
    let own = pod.workload.rsplit('/').next().unwrap_or_default();
    is_named(workload, &pod.namespace, own, &pod.name)
}

/// How commands name a pod.
pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// How results name a pod: as commands do, but without the namespace where it is the usual one.
pub(crate) fn short_name(pod: &Pod) -> String {
    if pod.namespace == "default" { pod.name.clone() } else { full_name(pod) }
}

/// Full names of the pods of a workload whose application runs, sorted.
pub(crate) fn pods_of(bed: &Bed, workload: &str) -> anyhow::Result<Vec<String>> {
    let pods = bed.pods()?;
    let of = pods.iter().filter(|pod| is_of(pod, workload) && !pod.app_pids.is_empty());
    let mut names: Vec<String> = of.map(full_name).collect();
    names.sort();
    Ok(names)
}

/// Who is who, with these generators.
pub(crate) fn roles(pods: &[Pod], control: &[i32], generators: &[(String, i32)]) -> Roles {
    let mut generator: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (pod, pid) in generators {
        generator.entry(pod.clone()).or_default().push(*pid);
    }
    let named = |pids: fn(&Pod) -> &Vec<i32>| {
        let known = pods.iter().filter(|pod| !pids(pod).is_empty());
        known.map(|pod| (short_name(pod), pids(pod).clone())).collect()
    };
    Roles {
        proxy: named(|pod| &pod.proxy_pids),
        app: named(|pod| &pod.app_pids),
        control: match control {
            [] => Vec::new(),
            pids => vec![("leno-control".to_owned(), pids.to_vec())],
        },
        generator: generator.into_iter().collect(),
    }
}

/// Pods whose programs are other ones than before, or gone, though nobody ended them.
pub(crate) fn restarted(before: &[Pod], after: &[Pod], ended: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for pod in before.iter().filter(|pod| !ended.contains(&full_name(pod))) {
        let same = after.iter().any(|other| {
            full_name(other) == full_name(pod)
                && other.app_pids == pod.app_pids
                && other.restarts == pod.restarts
        });
        if !same {
            found.push(short_name(pod));
        }
    }
    found
}

impl Stage for Bed {
    fn pods(&self, workload: &str) -> anyhow::Result<Vec<String>> {
        pods_of(self, workload)
    }

    fn signal(&self, pod: &str, signal: i32) -> anyhow::Result<()> {
        self.kill_pod_app(pod, signal)
    }

    fn set(&self, pod: &str, plan: &Value) -> anyhow::Result<()> {
        self.set_worker(pod, plan)
    }

    fn restart_control(&self) -> anyhow::Result<()> {
        Bed::restart_control(self)
    }

    fn netem(&self, pod: &str, delay_ms: f64, loss_share: f64) -> anyhow::Result<()> {
        Bed::netem(self, pod, delay_ms, loss_share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn pod(namespace: &str, name: &str, workload: &str, pid: i32) -> Pod {
        Pod {
            name: name.into(),
            namespace: namespace.into(),
            workload: workload.into(),
            ip: IpAddr::from([10, 244, 0, 3]),
            ready: true,
            restarts: 0,
            app_pids: vec![pid],
            proxy_pids: vec![pid + 1],
            first_pid: None,
        }
    }

    #[test]
    fn workloads_by_any_of_their_names() {
        let web = pod("shop", "web-7x-9k", "deployment/web", 1);
        let bare = pod("default", "bar-3", "pod/bar-3", 1);
        for (pod, workload, expected) in [
            (&web, "web", true),
            (&web, "shop/web", true),
            (&web, "default/web", false),
            (&web, "deployment/web", true),
            (&web, "web-7x-9k", true),
            (&web, "we", false),
            (&bare, "bar", true),
            (&bare, "bar-3", true),
            (&bare, "ba", false),
            (&bare, "default/bar", true),
        ] {
            assert_eq!(is_of(pod, workload), expected, "{} {workload}", pod.name);
        }
    }

    #[test]
    fn who_ran_again_by_itself() {
        let before = [pod("d", "a", "", 1), pod("d", "b", "", 2), pod("d", "c", "", 3)];
        let after = [pod("d", "a", "", 1), pod("d", "b", "", 9)];
        assert_eq!(restarted(&before, &after, &BTreeSet::new()), ["d/b", "d/c"]);
        assert_eq!(restarted(&before, &after, &BTreeSet::from(["d/c".to_owned()])), ["d/b"]);
    }

    #[test]
    fn roles_of_pods() {
        let pods = [pod("default", "a", "", 1)];
        let generators = [("a".to_owned(), 7), ("a".to_owned(), 8)];
        let roles = roles(&pods, &[5], &generators);
        assert_eq!(roles.proxy, [("a".to_owned(), vec![2])]);
        assert_eq!(roles.app, [("a".to_owned(), vec![1])]);
        assert_eq!(roles.control, [("leno-control".to_owned(), vec![5])]);
        assert_eq!(roles.generator, [("a".to_owned(), vec![7, 8])]);
    }
}
