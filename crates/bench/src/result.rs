//! `result.json`: what a run of a scenario leaves, versioned. `docs/results.md` is its description for people.
//!
//! Written again after every repetition, so that a crash loses one at most.

use leno_load::outcome::{Counts, Generator, Histograms, Second};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of [`Campaign`]'s JSON. A reader refuses another major version.
pub const SCHEMA: &str = "leno-bench/result/v1";

/// A whole run of a scenario.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Campaign {
    /// [`SCHEMA`].
    pub schema: String,
    /// `2026-11-21T09-12-03-quick`.
    pub campaign: String,
    /// What was asked for.
    pub scenario: Scenario,
    /// Where and with what.
    pub manifest: Manifest,
    /// `running`, `finished` or `interrupted`.
    pub state: String,
    /// One mesh with one set of parameters, each with its repetitions.
    pub cells: Vec<Cell>,
    /// Pairs of meshes with the same parameters.
    pub compare: Vec<Comparison>,
    /// How far two halves of the same mesh's repetitions differ, by metric, as a share of their mean: what lies within
    /// is noise. The largest of any cell.
    pub noise_band: BTreeMap<String, f64>,
    /// How the noise band was found: `halves` of the repetitions of each cell, or `halves and A/A cells`.
    #[serde(default)]
    pub noise_method: String,
    /// What the scenario asserts.
    pub assertions: Vec<Assertion>,
    /// The published figures beside ours.
    pub published_check: Vec<Published>,
    /// `pass`, `fail` (an assertion) or `invalid` (a measurement that cannot be stood behind).
    pub verdict: String,
    /// Why it is `fail` or `invalid`, a line each.
    pub verdict_reasons: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Scenario {
    /// Its id, which is its file's name.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// Which studies it reproduces.
    pub sources: Vec<String>,
    /// SHA-256 of the file.
    pub sha256: String,
    /// The file itself, so that a result explains itself.
    pub text: String,
}

/// Where and with what.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of `leno`.
    pub tool: String,
    /// The machine: `cpu`, `cores`, `memory_mib`, `kernel`, `governor`, `mitigations`, `cgroup`, `clocksource`,
    /// `steal_share`, `load_1m`, …
    pub host: BTreeMap<String, serde_json::Value>,
    /// Each mesh: version, program, features probed (`mtls`, `metrics`).
    pub mesh: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// The seed of order and arrivals.
    pub seed: u64,
    /// The command that does it again.
    pub repro: String,
}

/// One mesh with one set of parameters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// `none`, `leno`, `haproxy`, …
    pub mesh: String,
    /// The load's name in the scenario.
    pub load: String,
    /// `honest`, or the compatibility profile: `wrk2`, `fortio`, `oha-closed`.
    pub mode: String,
    /// `rate`, `connections`, `protocol`, `path`, …
    pub params: BTreeMap<String, serde_json::Value>,
    /// Repetitions, in the order in which they ran.
    pub runs: Vec<Run>,
    /// All valid repetitions together.
    pub summary: Summary,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Which block (repetition of the whole plan), from 1.
    pub block: usize,
    /// Place within the block, from 1.
    pub order: usize,
    /// RFC 3339.
    pub start: String,
    /// Seconds of each phase: `warmup`, `measure`.
    pub phases: BTreeMap<String, f64>,
    /// Whether it may be quoted.
    pub valid: bool,
    /// Why not.
    pub invalid_reasons: Vec<String>,
    /// Left out by the scenario's declared discard rule.
    pub discarded: bool,
    /// How many requests.
    pub counts: Counts,
    /// How long they took.
    pub hist: Histograms,
    /// Second by second; the histograms are in `hlog`.
    pub series_1s: Series,
    /// What everything cost, by role.
    pub resources: Resources,
    /// `retrans`, `rto`, `delayed_acks`, … of all namespaces that a measured process lives in, as differences over the
    /// measured phase.
    pub tcp: BTreeMap<String, u64>,
    /// What the timeline did, and what followed.
    pub events: Vec<Event>,
    /// What reached the servers that the scenario counts (`topology.counted`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Endpoint>,
    /// Figures of the scenario's windows, by name; `whole` is the measured phase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, WindowFigures>,
    /// What the generator says of itself.
    pub generator: Generator,
}

/// Figures for each second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// File with the histogram of each second, beside `result.json`.
    pub hlog: String,
    /// Seconds that an entry stands for: 1, and in a phase of more than an hour 2, 4, …
    #[serde(default = "one_second")]
    pub step_s: f64,
    /// Requests due per second.
    #[serde(default)]
    pub offered: Vec<f64>,
    /// Answers per second.
    pub rps: Vec<f64>,
    /// Median response latency, in milliseconds.
    pub p50: Vec<f64>,
    /// 99th percentile, in milliseconds.
    pub p99: Vec<f64>,
    /// The longest, in milliseconds.
    pub max: Vec<f64>,
    /// Failed requests and answers of 500 and above.
    pub errors: Vec<u64>,
    /// Of `errors`, the ones that were answered.
    #[serde(default)]
    pub failed_answers: Vec<u64>,
}

const fn one_second() -> f64 {
    1.0
}

impl Default for Series {
    fn default() -> Self {
        Self {
            hlog: String::new(),
            step_s: one_second(),
            offered: Vec::new(),
            rps: Vec::new(),
            p50: Vec::new(),
            p99: Vec::new(),
            max: Vec::new(),
            errors: Vec::new(),
            failed_answers: Vec::new(),
        }
    }
}

impl Series {
    /// From the seconds of a phase that lasted so long. Rates are of the time that an entry covers, which is less than a
    /// second at the end of most phases.
    #[must_use]
    pub fn of(seconds: &[Second], phase_s: f64) -> Self {
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let rate = |second: &Second, count: u64| count as f64 / second.length_s(phase_s);
        let step = seconds.iter().map(|second| second.span_s).max().unwrap_or(1);
        Self {
            hlog: String::new(),
            step_s: step as f64,
            offered: seconds.iter().map(|second| rate(second, second.offered)).collect(),
            rps: seconds.iter().map(|second| rate(second, second.completed)).collect(),
            p50: seconds.iter().map(|s| milliseconds(s.response.quantile(0.5))).collect(),
            p99: seconds.iter().map(|s| milliseconds(s.response.quantile(0.99))).collect(),
            max: seconds.iter().map(|s| milliseconds(s.response.max())).collect(),
            errors: seconds.iter().map(|second| second.failed).collect(),
            failed_answers: seconds.iter().map(|second| second.failed_answers).collect(),
        }
    }

    /// How much of the phase an entry covers, in seconds.
    #[must_use]
    pub fn length_s(&self, index: usize, phase_s: f64) -> f64 {
        let left = phase_s - index as f64 * self.step_s;
        if left > 0.0 { self.step_s.min(left) } else { self.step_s }
    }
}

/// What everything cost, by role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Sidecars, each for itself.
    pub proxy: Vec<Used>,
    /// Applications.
    pub app: Vec<Used>,
    /// Control plane.
    pub control: Vec<Used>,
    /// Load generators.
    pub generator: Vec<Used>,
    /// The machine's busy time that belongs to none of these: kernel threads, softirq, everything else on it.
    pub node_residual: Vec<Used>,
    /// The whole machine's time, by kind.
    #[serde(default)]
    pub machine: Machine,
    /// CPU seconds that taking the samples cost; they are within `node_residual`.
    #[serde(default)]
    pub sampler_cpu_s: f64,
}

/// The whole machine's time in the measured phase, in CPU seconds of all cores.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Programs.
    pub user_s: f64,
    /// The kernel on behalf of programs, and its own threads.
    pub system_s: f64,
    /// Interrupts.
    pub irq_s: f64,
    /// What interrupts put off: most of the network's work.
    pub softirq_s: f64,
    /// Taken away by the machine underneath a virtual one.
    pub steal_s: f64,
    /// Nothing to do, waiting for a disk included.
    pub idle_s: f64,
    /// `steal_s` as a share of all of it.
    pub steal_share: f64,
    /// User, system, irq and softirq, less what all roles used. Below zero where the kernel's coarse tick counted less
    /// than the processes' exact clocks: then `node_residual` says 0.
    pub residual_s: f64,
}

/// What one process tree (or the rest of the machine) used in the measured phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// Pod, or a name where there is none.
    pub pod: String,
    /// CPU seconds, user and system.
    pub cpu_s: f64,
    /// CPU microseconds for each request of the generators.
    pub cpu_us_per_req: f64,
    /// CPU microseconds for each request that passed this proxy, where that is known (its own metrics, or the
    /// scenario's topology); else the same as `cpu_us_per_req`.
    pub cpu_us_per_traversal: f64,
    /// Requests that passed this proxy, where that is known.
    #[serde(default)]
    pub traversals: Option<u64>,
    /// Whether CPU and context switches are unknown: no sample lies near the begin or the end of the phase, as in one of
    /// a few tenths of a second. They are then left out of every figure.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cpu_unknown: bool,
    /// Cores in use, of samples a second apart.
    pub cores: Spread,
    /// Of an application in a repetition with a timeline: cores in use, second by second. Who served when others were gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores_1s: Vec<f64>,
    /// Resident memory in MiB; pages that two processes share count for each.
    pub mem_mb: Spread,
    /// Memory that a cgroup of its own is charged with, in MiB: page cache and socket buffers included. Absent where
    /// it has none.
    #[serde(default)]
    pub mem_cgroup_mb: Option<Spread>,
    /// Voluntary and forced context switches.
    pub context_switches: u64,
    /// Seconds held back by a CPU limit.
    pub throttled_s: f64,
}

/// Whether the CPU of all of them is known.
pub(crate) fn is_cpu_known(used: &[Used]) -> bool {
    !used.iter().any(|one| one.cpu_unknown)
}

/// Samples of one figure.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    pub mean: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Maximum.
    pub max: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What the timeline did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since the measured phase began.
    pub t: f64,
    /// `kill`, `stop`, `continue`, `set`, `control_plane`, `netem`, …
    pub kind: String,
    /// Pod or service.
    pub target: String,
    /// What it did, for people.
    pub detail: String,
    /// Seconds until a whole second without failures began; absent where nothing failed or it never came.
    pub recovery_s: Option<f64>,
    /// Failures in the ten seconds after.
    pub failed: u64,
}

/// A server whose requests are counted by itself, whatever mesh is in front of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Endpoint {
    pub pod: String,
    /// The workload by which the scenario names it.
    pub workload: String,
    /// Requests in each second of the measured phase, retries included.
    pub requests_1s: Vec<f64>,
}

/// Figures of a part of the measured phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WindowFigures {
    pub seconds: f64,
    /// Requests due.
    pub offered: u64,
    /// Answers that are not failures, per second.
    pub goodput: f64,
    /// Failed requests and answers of 500 and above, as a share of those that ended.
    pub failed_ratio: f64,
    /// Median response latency of the answers that are not failures, in milliseconds.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of the same.
    pub p99_ms: Option<f64>,
    /// Each counted server's share of the requests of its workload, 0 to 1.
    pub shares: BTreeMap<String, f64>,
    /// Requests that reached each counted workload.
    pub requests: BTreeMap<String, f64>,
}

/// All valid repetitions of a cell together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Response latency over the pooled histogram, in milliseconds: `p50`, `p75`, `p90`, `p95`, `p99`, `p999`, `p9999`,
    /// `max`, `mean`.
    pub merged: BTreeMap<String, Estimate>,
    /// The same of the send-to-answer latency.
    pub service: BTreeMap<String, Estimate>,
    /// The seed's way: the percentile of each repetition, then mean and deviation.
    pub per_run: BTreeMap<String, PerRun>,
    /// Answers per second.
    pub rps: Estimate,
    /// Failed requests and answers of 500 and above, as a share of those started.
    pub failed_ratio: f64,
    /// `proxy.cpu_us_per_req`, `proxy.cpu_us_per_traversal`, `proxy.mem_mb_max`, `proxy.cores_mean`,
    /// `control.cores_mean`, `control.mem_mb_max`, `app.cpu_us_per_req`, `generator.cpu_us_per_req`, …
    pub resources: BTreeMap<String, Estimate>,
    /// Repetitions (`block`) that the discard rule left out.
    pub excluded_by_rule: Vec<usize>,
    /// What `merged` would be with every valid repetition (`none`), and without the worst (`worst_max(1)`, …):
    /// `{rule: {p99: ms}}`.
    pub sensitivity: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A figure with its confidence interval.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub v: f64,
    /// 95 % confidence interval over repetitions; absent with fewer than three.
    pub ci95: Option<[f64; 2]>,
    /// Samples behind it.
    pub n: u64,
    /// Whether there are enough samples to quote it: at least ten beyond the percentile.
    pub quotable: bool,
}

/// Over repetitions.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct PerRun {
    /// Mean of the repetitions' values.
    pub mean: f64,
    /// Standard deviation of them.
    pub sd: f64,
    /// Median of them.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// Two meshes with the same parameters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// The one compared with.
    pub a: String,
    /// The one that is compared.
    pub b: String,
    /// Which cell: the parameters in words.
    pub cell: String,
    /// `p99_ms`, `service.p99_ms`, `rps`, `proxy.cpu_us_per_req`, …
    pub metric: String,
    /// `b - a`.
    pub diff: f64,
    /// `b / a`; absent where `a` is 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio, repetitions paired by block.
    #[serde(default)]
    pub ratio_ci95: Option<[f64; 2]>,
    /// Blocks in which both have a repetition that counts.
    #[serde(default)]
    pub pairs: u64,
    /// 95 % interval of the difference, repetitions paired by block.
    pub ci95: Option<[f64; 2]>,
    /// Wilcoxon's signed-rank test, two-sided; absent with fewer than six pairs.
    pub p: Option<f64>,
    /// The same, corrected after Holm for all comparisons of the campaign.
    pub p_holm: Option<f64>,
    /// Noise of this metric, absolute; absent with fewer than three pairs (results of before say 0 then).
    #[serde(default)]
    pub noise_band: Option<f64>,
    /// `better`, `worse` or `same`; `unknown` with fewer than three pairs of repetitions.
    pub effect: String,
}

/// What the scenario asserts, and what was seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Assertion {
    /// The assertion in words.
    pub expr: String,
    /// Which cell it was looked at in.
    pub cell: String,
    /// What was seen; absent where it could not be.
    pub observed: Option<f64>,
    /// Whether it holds.
    pub pass: bool,
}

/// A published figure and ours.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Published {
    /// Mesh of the study.
    pub mesh: String,
    /// Which cell, in words.
    pub cell: String,
    /// `p50`, `max`, `rps`, …
    pub metric: String,
    /// The study's figure.
    pub published: f64,
    /// Ours in honest mode, where a mesh of that name was run.
    pub observed: Option<f64>,
    /// Ours in the study's own mode.
    pub observed_compat: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A campaign in which nothing is absent.
    fn filled() -> Campaign {
        let words = || vec!["word".to_owned()];
        let spread = Spread::default();
        let used = Used {
            traversals: Some(1),
            cpu_unknown: true,
            cores_1s: vec![1.0],
            mem_cgroup_mb: Some(spread),
            ..Used::default()
        };
        let all = || vec![used.clone()];
        let estimate = Estimate { ci95: Some([0.0, 1.0]), ..Estimate::default() };
        let latencies = || BTreeMap::from([("p99".to_owned(), estimate)]);
        let one = || BTreeMap::from([("p99".to_owned(), 1.0)]);
        let errors = BTreeMap::from([("reset".to_owned(), 1)]);
        let status = BTreeMap::from([("grpc-N".to_owned(), 1)]);
        let second = Second::default();
        let window = WindowFigures {
            p50_ms: Some(1.0),
            p99_ms: Some(1.0),
            shares: one(),
            requests: one(),
            ..WindowFigures::default()
        };
        let run = Run {
            phases: BTreeMap::from([("warmup".to_owned(), 1.0), ("measure".to_owned(), 1.0)]),
            invalid_reasons: words(),
            counts: Counts { errors, status, ..Counts::default() },
            series_1s: Series::of(&[second], 1.0),
            resources: Resources {
                proxy: all(),
                app: all(),
                control: all(),
                generator: all(),
                node_residual: all(),
                ..Resources::default()
            },
            tcp: BTreeMap::from([("rto".to_owned(), 1)]),
            events: vec![Event { recovery_s: Some(1.0), ..Event::default() }],
            endpoints: vec![Endpoint { requests_1s: vec![1.0], ..Endpoint::default() }],
            windows: BTreeMap::from([("whole".to_owned(), window)]),
            ..Run::default()
        };
        let summary = Summary {
            merged: latencies(),
            service: latencies(),
            per_run: BTreeMap::from([("p99".to_owned(), PerRun::default())]),
            rps: estimate,
            resources: BTreeMap::from([("cpu_us_per_req".to_owned(), estimate)]),
            excluded_by_rule: vec![1],
            sensitivity: BTreeMap::from([("worst_max(1)".to_owned(), one())]),
            ..Summary::default()
        };
        let params = BTreeMap::from([("rate".to_owned(), json!(1))]);
        let compared = Comparison {
            ratio: Some(1.0),
            ratio_ci95: Some([0.0, 1.0]),
            ci95: Some([0.0, 1.0]),
            p: Some(1.0),
            p_holm: Some(1.0),
            noise_band: Some(1.0),
            ..Comparison::default()
        };
        let probed = BTreeMap::from([("mtls".to_owned(), json!(true))]);
        Campaign {
            scenario: Scenario { sources: words(), ..Scenario::default() },
            manifest: Manifest {
                host: crate::measure::machine::describe(),
                mesh: BTreeMap::from([("leno".to_owned(), probed)]),
                ..Manifest::default()
            },
            cells: vec![Cell { params, runs: vec![run], summary, ..Cell::default() }],
            compare: vec![compared],
            noise_band: one(),
            assertions: vec![Assertion { observed: Some(1.0), ..Assertion::default() }],
            published_check: vec![Published {
                observed: Some(1.0),
                observed_compat: Some(1.0),
                ..Published::default()
            }],
            verdict_reasons: words(),
            ..Campaign::default()
        }
    }

    /// Every key, and every value that would hide keys: an empty list, or nothing.
    fn walk(value: &Value, path: &str, keys: &mut Vec<String>, hidden: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    keys.push(key.clone());
                    walk(value, &format!("{path}.{key}"), keys, hidden);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                items.iter().for_each(|item| walk(item, &format!("{path}[]"), keys, hidden));
            }
            // What this machine does not say of itself is not hidden by us.
            Value::Null | Value::Array(_) if !path.starts_with(".manifest.host") => {
                hidden.push(path.to_owned());
            }
            _ => {}
        }
    }

    #[test]
    fn an_entry_is_of_the_time_that_it_covers() {
        //     at, span, completed   phase      step  rates
        check(&[(0, 1, 100), (1, 1, 50)], 1.5, 1.0, &[100.0, 100.0]);
        check(&[(0, 1, 100), (1, 1, 100)], 2.0, 1.0, &[100.0, 100.0]);
        // What came after the end is a second of its own.
        check(&[(0, 1, 100), (1, 1, 2)], 1.0, 1.0, &[100.0, 2.0]);
        // Beyond an hour, an entry stands for several seconds, and the last for what is left.
        check(&[(0, 4, 400), (4, 4, 200)], 6.0, 4.0, &[100.0, 100.0]);
        check(&[], 0.0, 1.0, &[]);
    }

    #[track_caller]
    fn check(seconds: &[(u64, u64, u64)], phase_s: f64, step_s: f64, rates: &[f64]) {
        let second = |(at_s, span_s, completed): &(u64, u64, u64)| Second {
            at_s: *at_s,
            span_s: *span_s,
            completed: *completed,
            ..Second::default()
        };
        let series = Series::of(&seconds.iter().map(second).collect::<Vec<_>>(), phase_s);
        assert_eq!((series.step_s, &series.rps[..]), (step_s, rates));
    }

    #[test]
    fn a_noise_band_that_is_not_known_is_null_and_numbers_of_old_results_are_read() {
        let mut value = serde_json::to_value(Comparison::default()).expect("plain");
        assert_eq!(value["noise_band"], Value::Null);
        for (written, expected) in
            [(json!(null), None), (json!(0.25), Some(0.25)), (json!(0.0), Some(0.0))]
        {
            value["noise_band"] = written;
            let seen: Comparison = serde_json::from_value(value.clone()).expect("a comparison");
            assert_eq!(seen.noise_band, expected, "{value}");
        }
    }

    #[test]
    fn every_field_is_explained() {
        let page = include_str!("../../../docs/results.md");
        let (mut keys, mut hidden) = (Vec::new(), Vec::new());
        let mut value = serde_json::to_value(filled()).expect("plain");
        // Its keys are the kernel's names of weaknesses.
        value["manifest"]["host"]["mitigations"] = json!({});
        walk(&value, "", &mut keys, &mut hidden);
        assert!(hidden.is_empty(), "not filled in, so not looked at: {hidden:?}");
        keys.retain(|key| {
            !page.contains(&format!("`{key}`")) && !page.contains(&format!("\"{key}\""))
        });
        assert!(keys.is_empty(), "docs/results.md does not name {keys:?}");
        let read: Campaign = serde_json::from_value(value).expect("it was written here");
        assert_eq!(read.cells[0].runs[0].resources.proxy.len(), 1);
    }
}
