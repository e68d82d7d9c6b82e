//! How often, in which order, what may be left out, what makes a figure worthless, what must hold, what was published. Pure.

use crate::scenario::reader::{Fields, Node};
use crate::scenario::topology::texts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Repetitions and their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// Repetitions of everything.
    pub blocks: usize,
    /// Order within a block.
    pub order: Order,
    /// Of order and arrivals.
    pub seed: u64,
    /// How often topologies are started anew.
    pub reinstall: Reinstall,
    /// Whether the noise of equal against equal must be known: at least four blocks.
    pub aa_check: bool,
}

/// Order within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the file names them, every block alike.
    Interleaved,
    /// Shuffled anew for each block.
    Randomised,
}

/// How often topologies are started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinstall {
    /// For every repetition.
    PerRun,
    /// For every block and mesh.
    PerBlock,
    /// Once for each mesh: all of them stay, side by side, to the end.
    Once,
}

impl Default for Repeat {
    fn default() -> Self {
        Self {
            blocks: 1,
            order: Order::Interleaved,
            seed: 42,
            reinstall: Reinstall::PerBlock,
            aa_check: false,
        }
    }
}

impl Repeat {
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let fields = node.fields(&["blocks", "order", "seed", "reinstall", "aa_check", "duet"]);
        let otherwise = Self::default();
        if fields.get("duet").and_then(|node| node.flag()) == Some(true) {
            fields.wrong("duet: meshes are not run at the same time; only false is possible");
        }
        let orders = [("interleaved", Order::Interleaved), ("randomised", Order::Randomised)];
        let reinstalls = [
            ("per_run", Reinstall::PerRun),
            ("per_block", Reinstall::PerBlock),
            ("once", Reinstall::Once),
        ];
        let repeat = Self {
            blocks: fields
                .get("blocks")
                .and_then(|node| node.count(1, 1000))
                .map_or(otherwise.blocks, |blocks| blocks as usize),
            order: fields.get("order").and_then(|n| n.one_of(&orders)).unwrap_or(otherwise.order),
            seed: fields.get("seed").and_then(|n| n.count(0, u64::MAX)).unwrap_or(otherwise.seed),
            reinstall: fields
                .get("reinstall")
                .and_then(|node| node.one_of(&reinstalls))
                .unwrap_or(otherwise.reinstall),
            aa_check: fields.get("aa_check").and_then(|node| node.flag()).unwrap_or(false),
        };
        if repeat.aa_check && repeat.blocks < 4 && !fields.is_wrong_in("blocks") {
            fields.wrong("aa_check needs at least two repetitions in each half; use blocks: 4");
        }
        repeat
    }
}

/// Which repetitions of a cell are left out, declared before anything was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Discard {
    #[default]
    None,
    /// Those with the longest latency.
    WorstMax {
        /// How many.
        n: usize,
    },
}

impl Discard {
    pub(crate) fn read(node: &Node<'_>, blocks: usize) -> Self {
        let fields = node.fields(&["rule", "n"]);
        let rule =
            fields.needed("rule").and_then(|n| n.one_of(&[("none", false), ("worst_max", true)]));
        let n = fields.get("n").and_then(|node| node.count(1, 100)).unwrap_or(1) as usize;
        if rule != Some(true) {
            return Self::None;
        }
        let unread = node.is_wrong_below("plan.blocks") || node.is_wrong_in("n");
        if n >= blocks && !unread {
            node.wrong_in("n", format!("excluding {n} of {blocks} blocks leaves no repetition"));
        }
        Self::WorstMax { n }
    }
}

/// Beyond these, a repetition is not quoted.
#[derive(Clone, Debug, PartialEq)]
pub struct Validity {
    /// The generator's own lateness at p99.9 (open loop); 5 % of the median latency is always allowed.
    pub lateness_p999_max: Duration,
    /// Share of time that the generator's busiest thread may be on a CPU (open loop).
    pub generator_cpu_max: f64,
    /// Share of the machine's cores that the applications may use (open loop).
    pub app_cpu_max: f64,
    /// Containers that may restart without the timeline's doing.
    pub restarts_max: u64,
    /// Seconds that generators and applications may be held back by a CPU limit.
    pub throttled_max: Duration,
    /// Share of the requests due that must have been sent (open loop).
    pub offered_vs_started_min: f64,
    /// Share of requests that may fail.
    pub failed_max: f64,
    /// Share of the machine's time that what it runs on may take away.
    pub steal_max: f64,
}

impl Default for Validity {
    fn default() -> Self {
        Self {
            lateness_p999_max: Duration::from_micros(100),
            generator_cpu_max: 0.7,
            app_cpu_max: 0.8,
            restarts_max: 0,
            throttled_max: Duration::ZERO,
            offered_vs_started_min: 0.999,
            failed_max: 0.01,
            steal_max: 0.02,
        }
    }
}

impl Validity {
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let fields = node.fields(&[
            "lateness_p999_max",
            "generator_cpu_max",
            "app_cpu_max",
            "restarts_max",
            "throttled_max",
            "offered_vs_started_min",
            "failed_max",
            "steal_max",
        ]);
        let otherwise = Self::default();
        let share = |name: &str, otherwise: f64| {
            let share = fields.get(name).and_then(|node| node.share()).unwrap_or(otherwise);
            if share > 1.0 {
                node.wrong_in(name, "the share must be at most 1");
            }
            share
        };
        let time = |name: &str, otherwise: Duration| {
            fields.get(name).and_then(|node| node.duration()).unwrap_or(otherwise)
        };
        Self {
            lateness_p999_max: time("lateness_p999_max", otherwise.lateness_p999_max),
            generator_cpu_max: share("generator_cpu_max", otherwise.generator_cpu_max),
            app_cpu_max: share("app_cpu_max", otherwise.app_cpu_max),
            restarts_max: fields.get("restarts_max").and_then(|n| n.count(0, 1000)).unwrap_or(0),
            throttled_max: time("throttled_max", otherwise.throttled_max),
            offered_vs_started_min: share(
                "offered_vs_started_min",
                otherwise.offered_vs_started_min,
            ),
            failed_max: share("failed_max", otherwise.failed_max),
            steal_max: share("steal_max", otherwise.steal_max),
        }
    }
}

/// What must hold; looked at in every cell that `meshes` and `loads` allow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assertion {
    /// What is looked at: `p99`, `rps`, `failed_ratio`, `proxy.cpu_us_per_req`, …
    pub metric: String,
    /// Only these meshes; empty: every one, but for `versus`.
    pub meshes: Vec<String>,
    /// Only these loads; empty: every one.
    pub loads: Vec<String>,
    /// Compared with this mesh under the same parameters.
    pub versus: Option<String>,
    /// At most.
    pub max: Option<f64>,
    /// At least.
    pub min: Option<f64>,
    /// Of `versus`: at most so much more, in the metric's unit.
    pub added_max: Option<f64>,
    /// Of `versus`: at most so many times as much.
    pub ratio_max: Option<f64>,
    /// Of `versus` or `beside`: at least so many times as much.
    pub ratio_min: Option<f64>,
    /// Only this part of the measured phase.
    pub window: Option<String>,
    /// Compared with another window or another load of the same mesh.
    pub beside: Option<Beside>,
    /// `share`: of this pod.
    pub pod: Option<String>,
    /// `amplification`: of requests that reach this workload.
    pub workload: Option<String>,
    /// `amplification`: by requests that reach this workload; without it, by those of the clients.
    pub from: Option<String>,
    /// `failed_ratio_1s`: seconds that do not count, as they follow an event of this kind.
    pub except: Option<(String, Duration)>,
}

/// What an assertion compares a mesh with, of the same mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    pub window: Option<String>,
    pub load: Option<String>,
}

/// Figures of windows.
const WINDOW_METRICS: &[&str] =
    &["goodput", "failed_ratio", "p50", "p99", "share", "amplification"];
/// Those of them that only windows have; without `window` they are of the whole phase.
const WINDOW_ONLY: &[&str] = &["goodput", "share", "amplification"];
/// Figures that only an assertion knows; all others are those of [`crate::statistics`].
const OWN_METRICS: &[&str] = &["failed_ratio_1s", "recovery_s"];
/// The message for a name that is not in [`crate::statistics`].
const NO_FIGURE: &str = "is not a metric; use p50, p75, p90, p95, p99, p999, p9999, max, mean (service.p50 …), rps, failed_ratio, \
    throttled_s, a role's as proxy.cpu_us_per_req";

const ASSERTION_FIELDS: &[&str] = &[
    "metric",
    "mesh",
    "load",
    "versus",
    "beside",
    "max",
    "min",
    "added_max",
    "ratio_max",
    "ratio_min",
    "window",
    "pod",
    "workload",
    "from",
    "except",
];

impl Assertion {
    /// A metric that could not be read is empty: the rest is looked at all the same.
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        let fields = node.fields(ASSERTION_FIELDS);
        let metric = fields.needed("metric").and_then(|node| {
            let metric = node.text()?;
            let is_own = [OWN_METRICS, WINDOW_ONLY].concat().contains(&metric.as_str());
            if is_own || crate::statistics::is_metric(&metric) {
                return Some(metric);
            }
            let own = [OWN_METRICS, WINDOW_ONLY].concat().join(", ");
            node.wrong(format!("{metric:?} {NO_FIGURE}, {own}"));
            None
        });
        let bound = |name: &str| fields.get(name).and_then(|node| bound(&node));
        let text = |name: &str| fields.get(name).and_then(|node| node.text());
        let assertion = Self {
            metric: metric.unwrap_or_default(),
            meshes: fields.get("mesh").map(|node| texts(&node)).unwrap_or_default(),
            loads: fields.get("load").map(|node| texts(&node)).unwrap_or_default(),
            versus: text("versus"),
            max: bound("max"),
            min: bound("min"),
            added_max: bound("added_max"),
            ratio_max: bound("ratio_max"),
            ratio_min: bound("ratio_min"),
            window: text("window"),
            beside: fields.get("beside").map(|node| beside(&node)),
            pod: text("pod"),
            workload: text("workload"),
            from: text("from"),
            except: fields.get("except").and_then(|node| except(&node)),
        };
        if !node.value().is_object() {
            return None;
        }
        assertion.check(&fields);
        assertion.check_window(&fields);
        Some(assertion)
    }

    /// Whether it is about figures of windows.
    #[must_use]
    pub fn is_of_window(&self) -> bool {
        self.window.is_some()
            || self.beside.is_some()
            || WINDOW_ONLY.contains(&self.metric.as_str())
    }

    fn check(&self, fields: &Fields<'_>) {
        // Of the fields that are there, as one that could not be read is not missing.
        let there = |name: &str| fields.get(name).is_some();
        let against = there("added_max") || there("ratio_max") || there("ratio_min");
        if !there("max") && !there("min") && !against {
            fields.wrong("needs max, min, added_max, ratio_max or ratio_min");
        }
        if against != (there("versus") || there("beside")) {
            fields.wrong("versus and beside need added_max, ratio_max or ratio_min");
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            fields.wrong(format!("min {min} is greater than max {max}"));
        }
        if there("except") && !self.metric.is_empty() && self.metric != "failed_ratio_1s" {
            fields.wrong("except is for failed_ratio_1s");
        }
        if OWN_METRICS.contains(&self.metric.as_str()) && there("versus") {
            fields.wrong(format!("{} is not compared", self.metric));
        }
    }

    fn check_window(&self, fields: &Fields<'_>) {
        let there = |name: &str| fields.get(name).is_some();
        if there("versus") && there("beside") {
            fields.wrong("versus and beside: one of them");
        }
        if self.metric.is_empty() {
            return;
        }
        if self.is_of_window() && !WINDOW_METRICS.contains(&self.metric.as_str()) {
            fields.wrong(format!("window and beside are for {}", WINDOW_METRICS.join(", ")));
        }
        for (field, metric) in
            [("pod", "share"), ("workload", "amplification"), ("from", "amplification")]
        {
            if there(field) && self.metric != metric {
                fields.wrong(format!("{field} is for {metric}"));
            }
        }
        for (metric, field) in [("share", "pod"), ("amplification", "workload")] {
            if self.metric == metric && !there(field) {
                fields.wrong(format!("{metric} needs {field}"));
            }
        }
    }

    /// What it is compared with, in words.
    #[must_use]
    pub fn reference(&self) -> String {
        let Some(beside) = &self.beside else { return self.versus.clone().unwrap_or_default() };
        let parts = [("load", &beside.load), ("window", &beside.window)];
        let parts =
            parts.iter().filter_map(|(word, name)| Some(format!("{word} {}", name.as_ref()?)));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// In words.
    #[must_use]
    pub fn spoken(&self) -> String {
        let versus = self.reference();
        let mut bounds = Vec::new();
        let mut add = |bound: Option<f64>, text: &dyn Fn(f64) -> String| {
            bounds.extend(bound.map(text));
        };
        add(self.max, &|max| format!("<= {max}"));
        add(self.min, &|min| format!(">= {min}"));
        add(self.added_max, &|added| format!("<= {versus} + {added}"));
        add(self.ratio_max, &|ratio| format!("<= {ratio} x {versus}"));
        add(self.ratio_min, &|ratio| format!(">= {ratio} x {versus}"));
        let mut subject = self.metric.clone();
        let mut of = |word: &str, name: &Option<String>| {
            if let Some(name) = name {
                subject.push_str(&format!(" {word} {name}"));
            }
        };
        of("of", &self.pod);
        of("of", &self.workload);
        of("from", &self.from);
        of("in", &self.window);
        let mut text = format!("{subject} {}", bounds.join(" and "));
        if let Some((kind, length)) = &self.except {
            text.push_str(&format!(", but for {} s after {kind}", length.as_secs_f64()));
        }
        text
    }
}

/// A number, a share (`0.1%`) or a time (`1ms`: latencies are in milliseconds).
fn bound(node: &Node<'_>) -> Option<f64> {
    match node.value().as_str() {
        None => node.number(),
        Some(text) if text.ends_with('s') => Some(node.duration()?.as_secs_f64() * 1000.0),
        Some(text) if text.ends_with('%') => node.share(),
        Some(_) => {
            node.wrong("must be a number, a share (0.1%) or a time (1ms)");
            None
        }
    }
}

fn beside(node: &Node<'_>) -> Beside {
    let fields = node.fields(&["window", "load"]);
    let text = |name: &str| fields.get(name).and_then(|node| node.text());
    if fields.get("window").is_none() && fields.get("load").is_none() {
        fields.wrong("needs window or load");
    }
    Beside { window: text("window"), load: text("load") }
}

fn except(node: &Node<'_>) -> Option<(String, Duration)> {
    let fields = node.fields(&["after", "for"]);
    let after = fields.needed("after").and_then(|node| node.text());
    let length = fields.needed("for").and_then(|node| node.duration());
    Some((after?, length.unwrap_or_default()))
}

/// What the study has published.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Where the figures are from.
    pub source: String,
    /// On what they were measured.
    pub environment: String,
    pub figures: Vec<Figure>,
}

/// Published figures of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// Mesh of the study.
    pub mesh: String,
    /// Which load of this scenario it belongs to.
    pub load: String,
    /// Which cells of that load: the parameters that must agree; empty: all.
    pub params: BTreeMap<String, f64>,
    /// By metric; latencies in milliseconds.
    pub metrics: BTreeMap<String, f64>,
}

impl Published {
    /// `beside` says what is wrong with a figure beside the rest of the scenario.
    pub(crate) fn read(node: &Node<'_>, beside: &dyn Fn(&Node<'_>, &Figure)) -> Self {
        let fields = node.fields(&["source", "environment", "figures"]);
        let text = |name| fields.get(name).and_then(|node| node.text()).unwrap_or_default();
        if fields.get("source").is_none() {
            fields.wrong("source is missing");
        }
        let nodes = fields.needed("figures").map(|node| node.some()).unwrap_or_default();
        let figures = nodes.iter().filter_map(|node| {
            let figure = Figure::read(node)?;
            beside(node, &figure);
            Some(figure)
        });
        Self {
            source: text("source"),
            environment: text("environment"),
            figures: figures.collect(),
        }
    }
}

impl Figure {
    fn read(node: &Node<'_>) -> Option<Self> {
        let fields = node.fields(&["mesh", "load", "rate", "connections", "metrics"]);
        let mesh = fields.needed("mesh").and_then(|node| node.text());
        let load = fields.needed("load").and_then(|node| node.text());
        let mut params = BTreeMap::new();
        for name in ["rate", "connections"] {
            if let Some(number) = fields.get(name).and_then(|node| node.number()) {
                params.insert(name.to_owned(), number);
            }
        }
        let entries = fields.needed("metrics").map(|node| node.entries()).unwrap_or_default();
        for (name, node) in &entries {
            if !crate::statistics::is_metric(name) {
                node.wrong(NO_FIGURE);
            }
        }
        let metrics =
            entries.iter().filter_map(|(name, n)| Some((name.clone(), n.number()?))).collect();
        Some(Self { mesh: mesh.unwrap_or_default(), load: load?, params, metrics })
    }
}
