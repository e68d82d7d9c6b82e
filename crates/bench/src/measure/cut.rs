//! Samples of a whole run, cut to its measured phase. Pure.
//!
//! Counters are cut exactly at both ends: between two samples they grow evenly as far as anybody knows, and with a sample
//! taken at the end itself ([`super::Sampler::mark`]) there is nothing to assume.

use super::ledger::Total;
use super::network::Counters;
use super::node::Node;
use super::{Role, Window};
use crate::result::{Machine, Resources, Spread, Used};
use std::collections::BTreeMap;

/// One look at everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// On the monotonic clock.
    pub(super) at_ns: u64,
    /// In the order of the trees; trees that were not known yet are missing.
    pub(super) trees: Vec<Seen>,
    pub(super) node: Node,
    pub(super) tcp: Counters,
    /// CPU of the sampler so far.
    pub(super) sampler_cpu_ns: u64,
}

/// One tree at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) total: Total,
    /// Held back since its cgroup was first seen.
    pub(super) throttled_ns: u64,
    pub(super) charged_bytes: Option<u64>,
}

const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;
/// How far the nearest sample may lie from either end of a window, as a share of the window. Between two samples a counter
/// is taken to grow evenly; at an end it does not, since the load begins or ends there.
const EDGE_SHARE_MAX: f64 = 0.05;
/// A rate is taken over no less than this: samples at a mark lie closer together than a second.
const RATE_MIN_S: f64 = 0.5;

/// What every tree used within the window, and TCP's counters. Nothing without samples.
pub(super) fn cut(
    samples: &[Sample],
    trees: &[(Role, String)],
    window: &Window,
) -> (Resources, BTreeMap<String, u64>) {
    let Some(cut) = Cut::new(samples, window) else { return Default::default() };
    let mut resources = Resources { machine: cut.machine(), ..Resources::default() };
    let mut roles_cpu_s = 0.0;
    for (index, (role, name)) in trees.iter().enumerate() {
        let mut used = cut.tree(index, name);
        if *role == Role::App {
            used.cores_1s = cut.each_second(index);
        }
        roles_cpu_s += used.cpu_s;
        match role {
            Role::Proxy => &mut resources.proxy,
            Role::App => &mut resources.app,
            Role::Control => &mut resources.control,
            Role::Generator => &mut resources.generator,
        }
        .push(used);
    }
    let all = |sample: &Sample| -> f64 {
        sample.trees.iter().map(|seen| seconds(seen.total.cpu_ns)).sum()
    };
    let memory = |sample: &Sample| {
        let roles: u64 = sample.trees.iter().map(|seen| seen.total.resident_bytes).sum();
        (sample.node.used_bytes - roles as f64).max(0.0) / BYTES_PER_MIB
    };
    resources.machine.residual_s = cut.grown(|sample| sample.node.busy_s()) - roles_cpu_s;
    resources.node_residual = vec![Used {
        pod: "node".into(),
        cpu_s: resources.machine.residual_s.max(0.0),
        cpu_unknown: !cut.knows_its_ends(),
        cores: cut.rates(|sample| sample.node.busy_s() - all(sample)),
        mem_mb: cut.levels(memory),
        ..Used::default()
    }];
    resources.sampler_cpu_s = cut.grown(|sample| seconds(sample.sampler_cpu_ns));
    let names = samples.last().into_iter().flat_map(|sample| sample.tcp.keys().copied());
    let tcp = names.map(|name| {
        let at = |sample: &Sample| sample.tcp.get(name).copied().unwrap_or(0) as f64;
        (name.to_owned(), cut.grown(at).round() as u64)
    });
    (resources, tcp.collect())
}

/// Samples and the window on them.
struct Cut<'a> {
    samples: &'a [Sample],
    begin_ns: u64,
    end_ns: u64,
    /// The ends, and the samples between them that lie far enough apart for a rate.
    edges: Vec<u64>,
}

impl<'a> Cut<'a> {
    fn new(samples: &'a [Sample], window: &Window) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let duration_ns = (window.duration_s.max(0.0) * 1e9) as u64;
        let begin_ns = window.begin_monotonic_ns.clamp(first.at_ns, last.at_ns);
        let end_ns =
            window.begin_monotonic_ns.saturating_add(duration_ns).clamp(begin_ns, last.at_ns);
        let mut edges = vec![begin_ns];
        let far = |from: u64, to: u64| to.saturating_sub(from) as f64 >= RATE_MIN_S * 1e9;
        for sample in samples {
            let last = *edges.last()?;
            if far(last, sample.at_ns) && far(sample.at_ns, end_ns) {
                edges.push(sample.at_ns);
            }
        }
        edges.push(end_ns);
        Some(Self { samples, begin_ns, end_ns, edges })
    }

    /// A counter at any moment, by a straight line between the samples around it.
    fn at(&self, moment_ns: u64, counter: &impl Fn(&Sample) -> f64) -> f64 {
        let after = self.samples.partition_point(|sample| sample.at_ns < moment_ns);
        let next = &self.samples[after.min(self.samples.len() - 1)];
        let before = &self.samples[after.saturating_sub(1)];
        let span = next.at_ns.saturating_sub(before.at_ns);
        if span == 0 || next.at_ns == moment_ns {
            return counter(next);
        }
        let share = moment_ns.saturating_sub(before.at_ns) as f64 / span as f64;
        counter(before) + (counter(next) - counter(before)) * share
    }

    /// Whether a sample lies near enough to each end that counters can be cut there.
    fn knows_its_ends(&self) -> bool {
        let far_max = (self.end_ns - self.begin_ns) as f64 * EDGE_SHARE_MAX;
        [self.begin_ns, self.end_ns].into_iter().all(|end| {
            self.samples.iter().any(|sample| sample.at_ns.abs_diff(end) as f64 <= far_max)
        })
    }

    /// How far a counter has grown within the window.
    fn grown(&self, counter: impl Fn(&Sample) -> f64) -> f64 {
        self.at(self.end_ns, &counter) - self.at(self.begin_ns, &counter)
    }

    /// How fast a counter grows, second by second.
    fn rates(&self, counter: impl Fn(&Sample) -> f64) -> Spread {
        let window_s = seconds(self.end_ns - self.begin_ns);
        let rates = self.edges.windows(2).filter(|pair| pair[1] > pair[0]).map(|pair| {
            let grown = self.at(pair[1], &counter) - self.at(pair[0], &counter);
            (grown / seconds(pair[1] - pair[0])).max(0.0)
        });
        let mean = if window_s > 0.0 { self.grown(&counter).max(0.0) / window_s } else { 0.0 };
        Spread { mean, ..spread(rates.collect()) }
    }

    /// Cores that a tree uses in each whole second of the window.
    fn each_second(&self, index: usize) -> Vec<f64> {
        let cpu_s = |sample: &Sample| {
            sample.trees.get(index).map_or(0.0, |seen| seconds(seen.total.cpu_ns))
        };
        let whole = (self.end_ns - self.begin_ns) / 1_000_000_000;
        let edge = |second: u64| self.at(self.begin_ns + second * 1_000_000_000, &cpu_s);
        // A tenth of a millicore is finer than a tick of any clock here.
        let rounded = |cores: f64| (cores.max(0.0) * 1e4).round() / 1e4;
        (0..whole).map(|second| rounded(edge(second + 1) - edge(second))).collect()
    }

    /// A level, of the samples within the window, or the one nearest to its end.
    fn levels(&self, level: impl Fn(&Sample) -> f64) -> Spread {
        let within = |sample: &&Sample| (self.begin_ns..=self.end_ns).contains(&sample.at_ns);
        let mut values: Vec<f64> = self.samples.iter().filter(within).map(&level).collect();
        if values.is_empty() {
            values.push(self.at(self.end_ns, &level));
        }
        spread(values)
    }

    fn tree(&self, index: usize, name: &str) -> Used {
        let seen = |sample: &Sample| sample.trees.get(index).copied().unwrap_or_default();
        let cpu_s = |sample: &Sample| seconds(seen(sample).total.cpu_ns);
        let charged = |sample: &Sample| seen(sample).charged_bytes;
        let mebibytes = |bytes: u64| bytes as f64 / BYTES_PER_MIB;
        let is_charged = self.samples.iter().any(|sample| charged(sample).is_some());
        Used {
            pod: name.to_owned(),
            cpu_s: self.grown(cpu_s).max(0.0),
            cpu_unknown: !self.knows_its_ends(),
            cores: self.rates(cpu_s),
            mem_mb: self.levels(|sample| mebibytes(seen(sample).total.resident_bytes)),
            mem_cgroup_mb: is_charged
                .then(|| self.levels(|sample| mebibytes(charged(sample).unwrap_or(0)))),
            context_switches: self.grown(|sample| seen(sample).total.switches as f64).round()
                as u64,
            throttled_s: self.grown(|sample| seconds(seen(sample).throttled_ns)).max(0.0),
            ..Used::default()
        }
    }

    fn machine(&self) -> Machine {
        let mut machine = Machine {
            user_s: self.grown(|sample| sample.node.user_s),
            system_s: self.grown(|sample| sample.node.system_s),
            irq_s: self.grown(|sample| sample.node.irq_s),
            softirq_s: self.grown(|sample| sample.node.softirq_s),
            steal_s: self.grown(|sample| sample.node.steal_s),
            idle_s: self.grown(|sample| sample.node.idle_s),
            ..Machine::default()
        };
        let all =
            self.grown(|sample| sample.node.busy_s() + sample.node.steal_s + sample.node.idle_s);
        machine.steal_share = if all > 0.0 { machine.steal_s / all } else { 0.0 };
        machine
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let Some(max) = values.last().copied() else { return Spread::default() };
    let at = (values.len() as f64 * 0.95).ceil() as usize;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Spread { mean, p95: values[at.saturating_sub(1)], max }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sample each second from 100 s on: a proxy that uses 0.1 cores, and 0.5 from second 5 to 6.
    fn samples() -> Vec<Sample> {
        let mut cpu_ms = 0;
        (0..=10_u64)
            .map(|second| {
                cpu_ms += if second == 6 { 500 } else { 100 };
                let total = Total {
                    cpu_ns: cpu_ms * 1_000_000,
                    switches: 10 * second,
                    resident_bytes: (20 + second) << 20,
                };
                let node = Node {
                    user_s: second as f64 * 1.5,
                    steal_s: second as f64 * 0.1,
                    idle_s: second as f64 * 0.4,
                    used_bytes: 1e9,
                    ..Node::default()
                };
                Sample {
                    at_ns: (100 + second) * 1_000_000_000,
                    trees: vec![Seen { total, throttled_ns: 0, charged_bytes: None }],
                    node,
                    tcp: BTreeMap::from([("retrans", second * 4)]),
                    sampler_cpu_ns: second * 1_000_000,
                }
            })
            .collect()
    }

    #[test]
    fn counters_are_cut_at_the_ends_of_the_window() {
        let trees = [(Role::Proxy, "web".to_owned())];
        let near = |seen: f64, expected: f64| (seen - expected).abs() < 1e-6;
        let window = |begin_s: f64, duration_s| Window {
            begin_monotonic_ns: (begin_s * 1e9) as u64,
            duration_s,
        };
        // begin, duration, CPU seconds, busiest core, retransmits.
        for (begin_s, duration_s, cpu_s, max, retrans) in [
            (102.0, 2.0, 0.2, 0.1, 8),
            (102.5, 2.0, 0.2, 0.1, 8),
            (104.5, 2.0, 0.6, 0.5, 8),
            (105.25, 0.5, 0.25, 0.5, 2),
            (90.0, 100.0, 1.4, 0.5, 40),
            (95.0, 1.0, 0.0, 0.0, 0),
        ] {
            let (resources, tcp) = cut(&samples(), &trees, &window(begin_s, duration_s));
            let proxy = &resources.proxy[0];
            assert!(near(proxy.cpu_s, cpu_s), "{begin_s}+{duration_s}: {proxy:?}");
            assert!(near(proxy.cores.max, max), "{begin_s}+{duration_s}: {proxy:?}");
            assert_eq!(tcp["retrans"], retrans, "{begin_s}+{duration_s}");
        }
        let (resources, _) = cut(&samples(), &trees, &window(101.0, 8.0));
        let (machine, rest) = (&resources.machine, &resources.node_residual[0]);
        assert!(near(machine.user_s, 12.0) && near(machine.steal_share, 0.05));
        assert!(near(rest.cpu_s, 12.0 - 1.2) && near(machine.residual_s, rest.cpu_s));
        assert!(near(resources.proxy[0].mem_mb.max, 29.0) && near(rest.cores.max, 1.4));
        assert_eq!(resources.proxy[0].context_switches, 80);
        assert!(resources.proxy[0].cores_1s.is_empty(), "for applications only");
        let (apps, _) = cut(&samples(), &[(Role::App, "web".to_owned())], &window(104.0, 3.2));
        assert_eq!(apps.app[0].cores_1s, [0.1, 0.5, 0.1]);
        assert!(near(resources.sampler_cpu_s, 0.008));
    }

    #[test]
    fn cpu_is_unknown_where_no_sample_is_near_an_end() {
        //  begin, duration, unknown
        for (begin_s, duration_s, unknown) in [
            (102.0, 2.0, false),
            (102.09, 2.0, false),
            (102.11, 2.0, true),
            (102.0, 2.2, true),
            // `--quick 0.2`: what was sampled is mostly the time around the phase.
            (102.5, 0.3, true),
            (102.0, 0.3, true),
        ] {
            let window = Window { begin_monotonic_ns: (begin_s * 1e9) as u64, duration_s };
            let (resources, _) = cut(&samples(), &[(Role::Proxy, "web".to_owned())], &window);
            let seen = [&resources.proxy[0], &resources.node_residual[0]];
            assert_eq!(seen.map(|used| used.cpu_unknown), [unknown; 2], "{begin_s}+{duration_s}");
        }
    }

    #[test]
    fn without_samples_there_is_nothing() {
        let (resources, tcp) = cut(&[], &[(Role::App, "web".into())], &Window::default());
        assert!(resources.app.is_empty() && tcp.is_empty());
    }
}
