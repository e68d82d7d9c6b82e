//! A topology of `leno up`: who is who, what a repetition cost by `/proc` and cgroups, what ran again by itself.

use super::{Generator, Phase, Seen};
use crate::measure::{self, Roles, Sampler, Window};
use crate::mesh::{Bed, Pod};
use crate::run::traversals::traversals;
use crate::scenario::known::is_named;
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

/// How results name the pod of a generator.
fn client_name(pods: &[Pod], full: &str) -> String {
    let found = pods.iter().find(|pod| full_name(pod) == full);
    found.map_or_else(|| full.to_owned(), short_name)
}

/// How far each proxy's counter of requests went up, by pod.
fn grown(
    pods: &[Pod],
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let counted = after.iter().filter_map(|(name, after)| {
        let pod = pods.iter().find(|pod| pod.name == *name)?;
        // A proxy that started meanwhile has counted from 0.
        Some((short_name(pod), after.checked_sub(*before.get(name)?)?))
    });
    counted.collect()
}

/// Looks at a topology from before its generators to after them.
pub(crate) struct Watch<'a> {
    bed: &'a Bed,
    pods: Vec<Pod>,
    /// What proxies had counted.
    passed: BTreeMap<String, u64>,
    generators: Vec<(String, i32)>,
    sampler: Option<Sampler>,
}

impl<'a> Watch<'a> {
    pub(super) fn begin(bed: &'a Bed) -> anyhow::Result<Self> {
        let (pods, passed) = (bed.pods()?, bed.requests_through_proxies());
        Ok(Self { bed, pods, passed, generators: Vec::new(), sampler: None })
    }

    pub(super) fn follow(&mut self, generators: &[Generator]) {
        let of = |one: &Generator| Some((client_name(&self.pods, &one.pod), one.pid?));
        self.generators = generators.iter().filter_map(of).collect();
        let roles = roles(&self.pods, &self.bed.control_pids(), &self.generators);
        self.sampler = Some(Sampler::start(roles));
    }

    pub(super) fn mark(&self) {
        if let Some(sampler) = &self.sampler {
            sampler.mark();
        }
    }

    pub(super) fn end(mut self, phase: &Phase<'_>) -> anyhow::Result<Seen> {
        let outcome = phase.outcome;
        let window = Window {
            begin_monotonic_ns: outcome.start_monotonic_ns,
            duration_s: outcome.duration_s,
        };
        let stopped = self.sampler.take().map(|sampler| sampler.stop(&window));
        let (mut resources, tcp) = stopped.unwrap_or_default();
        let names = self.generators.iter().map(|(name, _)| name.clone());
        let counted: Vec<(String, f64)> = names.zip(phase.cpu_s.iter().copied()).collect();
        measure::own_accounts(&mut resources, &counted, outcome.duration_s);
        if phase.done.is_empty() {
            // Nobody went away, so nobody took over.
            resources.app.iter_mut().for_each(|used| used.cores_1s.clear());
        }
        let after = self.bed.pods()?;
        let passed = grown(&self.pods, &self.passed, &self.bed.requests_through_proxies());
        let senders: Vec<&str> = self.generators.iter().map(|(name, _)| name.as_str()).collect();
        let traversals = match phase.is_counted {
            true => traversals(&passed, &senders, outcome.counts.started, phase.share_of_time()),
            false => BTreeMap::new(),
        };
        measure::per_request(&mut resources, &outcome.counts, &traversals);
        let ended = phase.done.iter().flat_map(|event| event.ended.clone()).collect();
        Ok(Seen {
            restarted: restarted(&self.pods, &after, &ended),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            resources,
            tcp,
            ..Seen::default()
        })
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
