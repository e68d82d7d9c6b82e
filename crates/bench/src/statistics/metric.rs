//! The names of figures, and how each is made of repetitions.
//!
//! `response.p99` and `p99_ms` are the same figure: the one is what assertions write, the other what results print.

use super::figure::{Figure, Pool};
use crate::result::{Run, Used, is_cpu_known};
use leno_load::histogram::Histogram;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Percentiles, by name.
pub(super) const QUANTILES: [(&str, f64); 7] = [
    ("p50", 0.50),
    ("p75", 0.75),
    ("p90", 0.90),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p999", 0.999),
    ("p9999", 0.9999),
];
/// How many latencies must lie beyond a percentile before it may be quoted.
const BEYOND_MIN: f64 = 10.0;

/// Roles, as in the names of figures.
pub(super) const ROLES: [&str; 5] = ["proxy", "app", "control", "generator", "node_residual"];
/// What is known of a role, as in the names of figures.
pub(super) const COSTS: [&str; 10] = [
    "cpu_s",
    "cpu_us_per_req",
    "cpu_us_per_traversal",
    "cores_mean",
    "cores_p95",
    "cores_max",
    "mem_mb_mean",
    "mem_mb_max",
    "context_switches_per_req",
    "throttled_s",
];

/// What two meshes, or two results, are compared by.
pub(super) const COMPARED: [&str; 18] = [
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "service.p50_ms",
    "service.p99_ms",
    "rps",
    "failed_ratio",
    "proxy.cpu_us_per_req",
    "proxy.cpu_us_per_traversal",
    "proxy.mem_mb_max",
    "control.cores_mean",
    "control.mem_mb_max",
    "app.cpu_us_per_req",
    "generator.cpu_us_per_req",
    "node_residual.cpu_us_per_req",
    "throttled_s",
];

/// Whether two results are judged by it. Neither what else ran on the machine nor the generator is the mesh's doing.
pub(super) fn is_judged(name: &Name) -> bool {
    !matches!(name, Name::Cost(role, _) if role == "generator" || role == "node_residual")
}

/// A figure's name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// `p50`, `max`, `mean` of the response latency.
    Response(String),
    /// The same of the send-to-answer latency.
    Service(String),
    Rps,
    FailedRatio,
    /// Role and cost.
    Cost(String, String),
    /// Seconds that anything was held back by a CPU limit.
    Throttled,
}

impl Name {
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "rps" => return Some(Self::Rps),
            "failed_ratio" => return Some(Self::FailedRatio),
            "throttled_s" => return Some(Self::Throttled),
            _ => {}
        }
        let (first, rest) = name.split_once('.').unwrap_or(("response", name));
        if ROLES.contains(&first) {
            return COSTS.contains(&rest).then(|| Self::Cost(first.into(), rest.into()));
        }
        let latency = rest.strip_suffix("_ms").unwrap_or(rest);
        let known = QUANTILES.iter().any(|(known, _)| *known == latency)
            || ["max", "mean"].contains(&latency);
        match first {
            "response" if known => Some(Self::Response(latency.into())),
            "service" if known => Some(Self::Service(latency.into())),
            _ => None,
        }
    }

    /// Whether more of it is better.
    pub(super) fn more_is_better(&self) -> bool {
        *self == Self::Rps
    }
}

/// Whether so many samples can carry this percentile (or `max`, `mean`).
pub(super) fn quotable(latency: &str, samples: u64) -> bool {
    match QUANTILES.iter().find(|(name, _)| *name == latency) {
        Some((_, share)) => samples as f64 * (1.0 - share) >= BEYOND_MIN - 1e-6,
        None => samples > 0,
    }
}

/// The pooled histograms of some repetitions, and the repetitions: what figures are made of.
pub(super) struct Source<'a> {
    pub(super) runs: Vec<&'a Run>,
    response: Rc<Pool>,
    service: Rc<Pool>,
}

impl<'a> Source<'a> {
    pub(super) fn new(runs: Vec<&'a Run>) -> Self {
        let pool = |of: fn(&Run) -> &Histogram| {
            Rc::new(Pool::new(&runs.iter().map(|run| of(run)).collect::<Vec<_>>()))
        };
        let (response, service) = (pool(|run| &run.hist.response), pool(|run| &run.hist.service));
        Self { runs, response, service }
    }

    /// The figure of this name; nothing where these repetitions do not have it.
    pub(super) fn figure(&self, name: &Name) -> Option<Figure> {
        let ratio = |above: fn(&Run) -> f64, below: fn(&Run) -> f64| {
            let of = |one: fn(&Run) -> f64| self.runs.iter().map(|run| one(run)).collect();
            Some(Figure::Ratio(of(above), of(below)))
        };
        match name {
            Name::Response(latency) => {
                self.latency(latency, &self.response, |run| &run.hist.response)
            }
            Name::Service(latency) => self.latency(latency, &self.service, |run| &run.hist.service),
            Name::Rps => ratio(|run| run.counts.completed as f64, measured_s),
            Name::FailedRatio => ratio(|run| failed(run) as f64, |run| run.counts.started as f64),
            Name::Cost(role, what) => self.cost(role, what),
            Name::Throttled => {
                let sum = |run: &Run| {
                    ROLES.iter().flat_map(|name| role(run, name)).map(|used| used.throttled_s).sum()
                };
                Some(Figure::mean(self.runs.iter().map(|run| sum(run)).collect()))
            }
        }
    }

    /// Samples behind a latency figure.
    pub(super) fn samples(&self, name: &Name) -> u64 {
        let count = |of: fn(&Run) -> &Histogram| self.runs.iter().map(|run| of(run).count()).sum();
        match name {
            Name::Response(_) => count(|run| &run.hist.response),
            Name::Service(_) => count(|run| &run.hist.service),
            _ => self.runs.len() as u64,
        }
    }

    /// Whether the figure may be quoted.
    pub(super) fn quotable(&self, name: &Name) -> bool {
        match name {
            Name::Response(latency) | Name::Service(latency) => {
                quotable(latency, self.samples(name))
            }
            _ => !self.runs.is_empty(),
        }
    }

    fn latency(&self, name: &str, pool: &Rc<Pool>, of: fn(&Run) -> &Histogram) -> Option<Figure> {
        let milliseconds = |nanoseconds: f64| nanoseconds / 1e6;
        match name {
            "max" => Some(Figure::Largest(
                self.runs.iter().map(|run| milliseconds(of(run).max() as f64)).collect(),
            )),
            "mean" => {
                let count = |run: &&Run| of(run).count() as f64;
                let sum = |run: &&Run| milliseconds(of(run).mean() * count(run));
                Some(Figure::Ratio(
                    self.runs.iter().map(sum).collect(),
                    self.runs.iter().map(count).collect(),
                ))
            }
            _ => {
                let (_, share) = QUANTILES.iter().find(|(known, _)| *known == name)?;
                Some(Figure::Quantile(Rc::clone(pool), *share))
            }
        }
    }

    /// Of all processes of a role: sums for CPU and switches, the largest of any for peaks and memory; only the memory of
    /// a control plane, which is one thing in several processes, adds up.
    fn cost(&self, name: &str, what: &str) -> Option<Figure> {
        if self.runs.iter().all(|run| role(run, name).is_empty()) {
            return None;
        }
        let sum = |of: fn(&Used) -> f64| -> Vec<f64> {
            self.runs.iter().map(|run| role(run, name).iter().map(of).sum()).collect()
        };
        let largest = |of: fn(&Used) -> f64| -> Vec<f64> {
            self.runs.iter().map(|run| role(run, name).iter().map(of).fold(0.0, f64::max)).collect()
        };
        let requests = || self.runs.iter().map(|run| run.counts.completed as f64).collect();
        let microseconds = || sum(|used| used.cpu_s * 1e6);
        let figure = match what {
            "cpu_s" => Figure::mean(sum(|used| used.cpu_s)),
            "cpu_us_per_traversal" if name == "proxy" => {
                let (above, below) =
                    self.runs.iter().map(|run| traversed(run, role(run, name))).unzip();
                Figure::Ratio(above, below)
            }
            // Requests pass proxies. Nobody counts what reaches each process of another role (a client's pod sees none of
            // them), so theirs is not divided by how many processes there are.
            "cpu_us_per_req" | "cpu_us_per_traversal" => Figure::Ratio(microseconds(), requests()),
            "cores_mean" => Figure::mean(sum(|used| used.cores.mean)),
            "cores_p95" => Figure::mean(largest(|used| used.cores.p95)),
            "cores_max" => Figure::mean(largest(|used| used.cores.max)),
            "mem_mb_mean" if name == "control" => Figure::mean(sum(|used| used.mem_mb.mean)),
            "mem_mb_max" if name == "control" => Figure::mean(sum(|used| used.mem_mb.max)),
            "mem_mb_mean" => Figure::mean(largest(|used| used.mem_mb.mean)),
            "mem_mb_max" => Figure::mean(largest(|used| used.mem_mb.max)),
            "context_switches_per_req" => {
                Figure::Ratio(sum(|used| used.context_switches as f64), requests())
            }
            "throttled_s" => Figure::mean(sum(|used| used.throttled_s)),
            _ => return None,
        };
        let is_cpu = !what.starts_with("mem_") && what != "throttled_s";
        Some(if is_cpu { self.without_unknown(figure, name) } else { figure })
    }

    /// Leaves out repetitions in which the role's CPU is unknown: they weigh nothing.
    fn without_unknown(&self, figure: Figure, name: &str) -> Figure {
        let Figure::Ratio(mut above, mut below) = figure else { return figure };
        for ((above, below), run) in above.iter_mut().zip(&mut below).zip(&self.runs) {
            if !is_cpu_known(role(run, name)) {
                (*above, *below) = (0.0, 0.0);
            }
        }
        Figure::Ratio(above, below)
    }
}

/// CPU microseconds of proxies, and the requests that they were spent on. Of those that counted their requests, where some
/// did: one that was killed took its count with it. Where none did, every request counts as having passed each.
pub(crate) fn traversed(run: &Run, all: &[Used]) -> (f64, f64) {
    let counted: Vec<(f64, u64)> =
        all.iter().filter_map(|used| Some((used.cpu_s, used.traversals?))).collect();
    let (cpu_s, passed) = match counted.is_empty() {
        true => (all.iter().map(|used| used.cpu_s).sum(), all.len() as u64 * run.counts.completed),
        false => (
            counted.iter().map(|(cpu_s, _)| cpu_s).sum::<f64>(),
            counted.iter().map(|(_, passed)| passed).sum(),
        ),
    };
    (cpu_s * 1e6, passed as f64)
}

/// What the processes of one role used in one repetition.
fn role<'a>(run: &'a Run, name: &str) -> &'a [Used] {
    match name {
        "proxy" => &run.resources.proxy,
        "app" => &run.resources.app,
        "control" => &run.resources.control,
        "generator" => &run.resources.generator,
        _ => &run.resources.node_residual,
    }
}

/// Seconds of the measured phase.
fn measured_s(run: &Run) -> f64 {
    run.phases.get("measure").copied().unwrap_or(0.0)
}

/// Failed requests, answers of 500 and above, and gRPC statuses but 0.
fn failed(run: &Run) -> u64 {
    let errors: u64 = run.counts.errors.values().sum();
    let wrong = |status: &str| {
        status.starts_with("grpc-") || status.parse::<u32>().is_ok_and(|status| status >= 500)
    };
    let statuses: &BTreeMap<String, u64> = &run.counts.status;
    errors + statuses.iter().filter(|(status, _)| wrong(status)).map(|(_, n)| n).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let latency = |name: &str| Some(Name::Response(name.to_owned()));
        let cost = |role: &str, what: &str| Some(Name::Cost(role.into(), what.into()));
        let check = |name: &str, expected: Option<Name>| {
            assert_eq!(Name::parse(name), expected, "{name}");
        };
        check("response.p99", latency("p99"));
        check("p99_ms", latency("p99"));
        check("p99", latency("p99"));
        check("max_ms", latency("max"));
        check("service.mean", Some(Name::Service("mean".into())));
        check("service.p50_ms", Some(Name::Service("p50".into())));
        check("rps", Some(Name::Rps));
        check("proxy.mem_mb_max", cost("proxy", "mem_mb_max"));
        check("node_residual.cpu_us_per_req", cost("node_residual", "cpu_us_per_req"));
        check("proxy.colour", None);
        check("response.p98", None);
        check("ttfb.p50", None);
        check("", None);
        assert!(COMPARED.iter().all(|name| Name::parse(name).is_some()));
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let check = |latency: &str, samples: u64, expected: bool| {
            assert_eq!(quotable(latency, samples), expected, "{latency} of {samples}");
        };
        check("p50", 19, false);
        check("p50", 20, true);
        check("p99", 999, false);
        check("p99", 1_000, true);
        check("p9999", 12_000, false);
        check("p9999", 100_000, true);
        check("max", 1, true);
        check("max", 0, false);
    }

    #[test]
    fn a_proxy_that_took_its_count_with_it_is_in_neither_part() {
        let used = |cpu_s: f64, traversals| Used { cpu_s, traversals, ..Used::default() };
        let mut run = Run::default();
        run.counts.completed = 100;
        let check = |all: &[Used], expected: (f64, f64)| {
            assert_eq!(traversed(&run, all), expected, "{all:?}");
        };
        check(&[used(1.0, Some(60)), used(2.0, Some(40))], (3e6, 100.0));
        check(&[used(1.0, Some(60)), used(9.0, None)], (1e6, 60.0));
        check(&[used(1.0, None), used(2.0, None)], (3e6, 200.0));
        check(&[used(0.5, Some(0)), used(2.0, Some(100))], (2.5e6, 100.0));
        check(&[], (0.0, 0.0));
    }

    #[test]
    fn cpu_that_is_unknown_is_in_no_figure() {
        let run = |cpu_s: f64, cpu_unknown| {
            let mut run = Run::default();
            run.counts.completed = 100;
            run.resources.proxy =
                vec![Used { cpu_s, cpu_unknown, traversals: Some(100), ..Used::default() }];
            run.resources.proxy[0].mem_mb.max = 7.0;
            run
        };
        let (known, unknown) = (run(1.0, false), run(0.1, true));
        //  repetitions, microseconds per request, cores
        for (runs, cpu, cores) in [
            (vec![&known], Some(10_000.0), Some(0.0)),
            (vec![&known, &unknown], Some(10_000.0), Some(0.0)),
            (vec![&unknown], None, None),
        ] {
            let source = Source::new(runs);
            let seen = |name: &str| source.figure(&Name::parse(name).expect("a name"))?.whole();
            assert_eq!(seen("proxy.cpu_us_per_req"), cpu);
            assert_eq!(seen("proxy.cpu_us_per_traversal"), cpu);
            assert_eq!(seen("proxy.cores_mean"), cores);
            assert_eq!(seen("proxy.mem_mb_max"), Some(7.0));
        }
    }

    #[test]
    fn only_proxies_are_passed_by_requests() {
        let used = |cpu_s: f64, traversals| Used { cpu_s, traversals, ..Used::default() };
        let mut run = Run::default();
        run.counts.completed = 100;
        // The client's pod is idle.
        run.resources.app = vec![used(1.0, None), used(0.0, None)];
        run.resources.control = vec![used(0.5, None), used(0.5, None)];
        run.resources.proxy = vec![used(1.0, Some(100)), used(2.0, Some(100))];
        let source = Source::new(vec![&run]);
        let check = |name: &str, expected: f64| {
            let figure = source.figure(&Name::parse(name).expect("a name")).expect("a figure");
            assert_eq!(figure.whole(), Some(expected), "{name}");
        };
        check("app.cpu_us_per_req", 10_000.0);
        check("app.cpu_us_per_traversal", 10_000.0);
        check("control.cpu_us_per_traversal", 10_000.0);
        check("proxy.cpu_us_per_req", 30_000.0);
        check("proxy.cpu_us_per_traversal", 15_000.0);
    }

    #[test]
    fn an_answer_that_says_no_has_failed() {
        let mut run = Run::default();
        run.counts.errors = BTreeMap::from([("reset".into(), 3)]);
        run.counts.status = [("200", 5), ("404", 7), ("503", 11), ("grpc-14", 13)]
            .map(|(status, n)| (status.to_owned(), n))
            .into();
        assert_eq!(failed(&run), 3 + 11 + 13);
    }
}
