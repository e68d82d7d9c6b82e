//! A topology on a cluster: what a repetition cost by kubelets and proxies, whether the mesh encrypts, what ran again by itself.

use super::{Generator, Phase, Seen};
use crate::cluster::Bed;
use crate::cluster::bed::{Player, Pod, Roles};
use crate::cluster::kubelet::{Readings, Sampler, Series};
use crate::measure;
use crate::result::{Resources, Spread, Used};
use crate::run::traversals::traversals;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Full names of the ready pods of a workload, sorted.
pub(super) fn pods_of(bed: &Bed, workload: &str) -> anyhow::Result<Vec<String>> {
    let pods = bed.pods()?;
    let of = pods.iter().filter(|pod| pod.is_of(workload) && pod.unready.is_empty());
    Ok(of.map(Pod::full_name).collect())
}

/// Looks at a topology from before its generators to after them.
pub(crate) struct Watch<'a> {
    bed: &'a Bed,
    pods: Vec<Pod>,
    roles: Roles,
    /// What proxies had counted.
    before: Vec<(String, String)>,
    generators: Vec<String>,
    sampler: Sampler,
}

impl<'a> Watch<'a> {
    pub(super) fn begin(bed: &'a Bed) -> anyhow::Result<Self> {
        let (pods, roles) = (bed.pods()?, bed.roles()?);
        let before = bed.scrapes()?;
        let sampler = bed.sampler(&roles)?;
        Ok(Self { bed, pods, roles, before, generators: Vec::new(), sampler })
    }

    pub(super) fn follow(&mut self, generators: &[Generator]) {
        let short = |one: &Generator| {
            let pod = self.pods.iter().find(|pod| pod.full_name() == one.pod);
            pod.map_or_else(|| one.pod.clone(), Pod::short_name)
        };
        self.generators = generators.iter().map(short).collect();
    }

    pub(super) fn mark(&self) {
        self.sampler.mark();
    }

    pub(super) fn end(self, phase: &Phase<'_>) -> anyhow::Result<Seen> {
        let outcome = phase.outcome;
        let readings = self.sampler.stop();
        let after = self.bed.scrapes()?;
        let begin_ms = outcome.start_monotonic_ns / 1_000_000;
        let end_ms = begin_ms + (outcome.duration_s * 1000.0) as u64;
        let mut resources = resources(&self.roles, &readings, begin_ms, end_ms);
        let names = self.generators.iter().cloned();
        let counted: Vec<(String, f64)> = names.zip(phase.cpu_s.iter().copied()).collect();
        measure::own_accounts(&mut resources, &counted, outcome.duration_s);
        resources.node_residual = residual(&self.roles, &readings, begin_ms, end_ms);
        let metrics = self.bed.mesh().metrics.as_ref();
        let requests = |scrape: &str| -> Option<u64> {
            let selectors = metrics.map(|metrics| metrics.requests.as_slice()).unwrap_or_default();
            let sums: Vec<f64> = selectors.iter().filter_map(|one| one.sum(scrape)).collect();
            (!selectors.is_empty()).then(|| sums.iter().sum::<f64>() as u64)
        };
        let passed = grown(&self.before, &after, requests);
        let senders: Vec<&str> = self.generators.iter().map(String::as_str).collect();
        let share = phase.share_of_time();
        let traversals = match phase.is_counted {
            true => traversals(&passed, &senders, outcome.counts.started, share),
            false => BTreeMap::new(),
        };
        measure::per_request(&mut resources, &outcome.counts, &traversals);
        let ended = phase.done.iter().flat_map(|event| event.ended.clone()).collect();
        let proof = self.bed.proof(&after);
        let mut seen = Seen {
            restarted: restarted(&self.pods, &self.bed.pods()?, &ended),
            cores: self.bed.server_cores(),
            reasons: Vec::new(),
            facts: facts(&readings, &resources),
            resources,
            tcp: BTreeMap::new(),
        };
        let must_encrypt = self.bed.mesh().mutual_tls.is_some() && self.bed.is_meshed_whole();
        if must_encrypt && proof.mtls != "proved" {
            seen.reasons.push(format!("mutual TLS is {}: {}", proof.mtls, proof.evidence));
        }
        seen.facts.insert("mtls".to_owned(), json!(proof.mtls));
        seen.facts.insert("mtls_evidence".to_owned(), json!(proof.evidence));
        Ok(seen)
    }
}

/// What could not be read.
fn facts(readings: &Readings, resources: &Resources) -> BTreeMap<String, Value> {
    let failed = readings.failed.iter().map(|(node, why)| format!("kubelet of {node}: {why}"));
    let all = [&resources.proxy, &resources.app, &resources.control];
    let unknown = all.into_iter().flatten().filter(|used| used.cpu_unknown).map(|used| {
        format!("CPU of {}: its kubelet's samples do not reach the ends of the phase", used.pod)
    });
    let said: Vec<String> = failed.chain(unknown).collect();
    match said.as_slice() {
        [] => BTreeMap::new(),
        said => BTreeMap::from([("not_read".to_owned(), json!(said))]),
    }
}

fn resources(roles: &Roles, readings: &Readings, begin_ms: u64, end_ms: u64) -> Resources {
    let of = |role: &[Player]| -> Vec<Used> {
        let one = |player: &Player| {
            let series = player.containers.iter().map(|one| readings.containers.get(one));
            used(&player.name, series.collect(), begin_ms, end_ms)
        };
        role.iter().map(one).collect()
    };
    Resources {
        proxy: of(&roles.proxy),
        app: of(&roles.app),
        control: of(&roles.control),
        generator: of(&roles.generator),
        ..Resources::default()
    }
}

/// What each node used beyond the containers of all roles.
fn residual(roles: &Roles, readings: &Readings, begin_ms: u64, end_ms: u64) -> Vec<Used> {
    let rest = |(node, series): (&String, &Series)| {
        let mut rest = used(node, vec![Some(series)], begin_ms, end_ms);
        let here = roles.all().filter(|player| player.node == *node);
        let ours = here
            .flat_map(|player| &player.containers)
            .filter_map(|one| readings.containers.get(one)?.cut(begin_ms, end_ms).cpu_s);
        rest.cpu_s = (rest.cpu_s - ours.sum::<f64>()).max(0.0);
        rest.cores.mean = rest.cpu_s * 1000.0 / end_ms.saturating_sub(begin_ms).max(1) as f64;
        rest
    };
    readings.nodes.iter().map(rest).collect()
}

/// Containers together; CPU is unknown where that of one is.
fn used(name: &str, series: Vec<Option<&Series>>, begin_ms: u64, end_ms: u64) -> Used {
    let cuts: Vec<_> = series
        .into_iter()
        .map(|series| series.map(|series| series.cut(begin_ms, end_ms)).unwrap_or_default())
        .collect();
    let cpu_s: Option<f64> = cuts.iter().map(|cut| cut.cpu_s).sum();
    let duration_s = (end_ms.saturating_sub(begin_ms)) as f64 / 1000.0;
    let together = |of: fn(&crate::cluster::kubelet::Cut) -> Spread| {
        cuts.iter().map(of).fold(Spread::default(), |sum, one| Spread {
            mean: sum.mean + one.mean,
            p95: sum.p95 + one.p95,
            max: sum.max + one.max,
        })
    };
    let mut used = Used {
        pod: name.to_owned(),
        cpu_s: cpu_s.unwrap_or_default(),
        cpu_unknown: cpu_s.is_none(),
        cores: together(|cut| cut.cores),
        mem_mb: together(|cut| cut.memory_mib),
        ..Used::default()
    };
    used.cores.mean = used.cpu_s / duration_s.max(1e-3);
    used.cores.max = used.cores.max.max(used.cores.mean);
    used
}

/// How far a counter of each proxy went up, by pod.
fn grown(
    before: &[(String, String)],
    after: &[(String, String)],
    count: impl Fn(&str) -> Option<u64>,
) -> BTreeMap<String, u64> {
    let of = |(name, text): &(String, String)| {
        let (_, earlier) = before.iter().find(|(other, _)| other == name)?;
        Some((name.clone(), count(text)?.checked_sub(count(earlier)?)?))
    };
    after.iter().filter_map(of).collect()
}

/// Pods that were started again, or are gone, though nobody ended them.
fn restarted(before: &[Pod], after: &[Pod], ended: &BTreeSet<String>) -> Vec<String> {
    let alive = |pod: &Pod| {
        after.iter().any(|other| other.name == pod.name && other.restarts == pod.restarts)
    };
    let gone = before.iter().filter(|pod| !ended.contains(&pod.full_name()) && !alive(pod));
    gone.map(Pod::short_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::kubelet::Container;

    #[test]
    fn counters_of_the_same_proxy() {
        let scrapes = |text: &str| -> Vec<(String, String)> {
            let pair = |one: &str| one.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
            text.split_whitespace().filter_map(pair).collect()
        };
        let seen = grown(&scrapes("a=5 b=9"), &scrapes("a=8 b=1 c=7"), |text| text.parse().ok());
        // `b` was started again, `c` was not asked before.
        assert_eq!(seen, BTreeMap::from([("a".to_owned(), 3)]));
    }

    #[test]
    fn who_ran_again_by_itself() {
        let pod = |name: &str, restarts| Pod {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            restarts,
            ..Pod::default()
        };
        let before = [pod("a", 0), pod("b", 0), pod("c", 0)];
        let after = [pod("a", 0), pod("b", 1)];
        assert_eq!(restarted(&before, &after, &BTreeSet::new()), ["b", "c"]);
        assert_eq!(restarted(&before, &after, &["default/c".to_owned()].into()), ["b"]);
    }

    #[test]
    fn containers_of_a_pod_add_up() {
        let container = |name: &str| Container { name: name.to_owned(), ..Container::default() };
        let web = |containers: Vec<Container>| {
            vec![Player { name: "web".to_owned(), node: "n1".to_owned(), containers }]
        };
        let roles = Roles {
            proxy: web(vec![container("a"), container("b")]),
            app: web(vec![container("unknown")]),
            ..Roles::default()
        };
        let mut readings = Readings::default();
        let text = |name: &str, at: u64, cpu: f64| {
            format!("container_cpu_usage_seconds_total{{container=\"{name}\"}} {cpu} {at}\n")
        };
        let lines = [("a", 0, 1.0), ("a", 10_000, 3.0), ("b", 0, 0.0), ("b", 10_000, 1.0)];
        let node = "node_cpu_usage_seconds_total 1 0\nnode_cpu_usage_seconds_total 9 10000\n";
        let scrape: String = lines.iter().map(|(name, at, cpu)| text(name, *at, *cpu)).collect();
        readings.add("n1", &format!("{scrape}{node}"));
        let resources = resources(&roles, &readings, 0, 10_000);
        let proxy = &resources.proxy[0];
        assert_eq!((proxy.cpu_s, proxy.cores.mean, proxy.cpu_unknown), (3.0, 0.3, false));
        assert!(resources.app[0].cpu_unknown);
        let rest = &residual(&roles, &readings, 0, 10_000)[0];
        assert_eq!((rest.pod.as_str(), rest.cpu_s, rest.cores.mean), ("n1", 5.0, 0.5));
        let said = facts(&readings, &resources)["not_read"].to_string();
        assert!(said.contains("CPU of web: "), "{said}");
    }
}
