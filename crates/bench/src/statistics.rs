//! What repetitions say together: pooled percentiles with intervals, the noise band, and what differs beyond it.
//!
//! Pure: results in, results out, the same for the same seed. It measures nothing ([`crate::measure`]) and prints nothing.
//! [`summarise`] one cell after each repetition, [`compare_cells`] and [`noise_band`] the campaign, [`metric`] for
//! assertions. The rules, and why: percentiles are of the pooled histogram, never means of percentiles; intervals draw
//! whole repetitions, as requests of one repetition share its luck; nothing is left out unless the scenario declares it.

mod bootstrap;
mod effect;
mod figure;
mod metric;
mod noise;
mod pairs;
mod random;
mod rank;
#[cfg(test)]
mod tests;

use crate::result::{Assertion, Campaign, Cell, Estimate, PerRun, Run, Summary, is_cpu_known};
use bootstrap::{DRAWS, Draws};
pub(crate) use effect::Effect;
pub(crate) use metric::traversed;
use metric::{COMPARED, COSTS, Name, QUANTILES, ROLES, Source};
pub(crate) use pairs::{Change, changes, correct_changes};
use std::collections::BTreeMap;
use std::fmt;

/// Which repetitions a scenario leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discard {
    /// Every valid repetition counts.
    #[default]
    None,
    /// Those with the longest response latency are left out, so many: what one of the studies did.
    WorstMax(usize),
}

impl fmt::Display for Discard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::WorstMax(n) => write!(out, "worst_max({n})"),
        }
    }
}

/// Fills `cell.summary` from its valid repetitions, and marks those that `rule` leaves out as discarded.
///
/// Without a valid repetition the summary is empty: every figure 0, with no samples, not quotable.
pub fn summarise(cell: &mut Cell, rule: &Discard, seed: u64) {
    let left_out = worst(cell, *rule);
    for (index, run) in cell.runs.iter_mut().enumerate() {
        run.discarded = left_out.contains(&index);
    }
    let source = Source::new(taken(cell).collect());
    let draws = Draws::new(source.runs.len(), DRAWS, seed);
    let estimate = |name: &str| estimate(&source, &Name::parse(name)?, &draws);
    let latencies = |of: &str| -> BTreeMap<String, Estimate> {
        latency_names()
            .filter_map(|name| Some((name.to_owned(), estimate(&format!("{of}.{name}"))?)))
            .collect()
    };
    let resources = ROLES
        .iter()
        .flat_map(|role| COSTS.iter().map(move |cost| format!("{role}.{cost}")))
        .filter_map(|name| estimate(&name).map(|estimate| (name, estimate)))
        .collect();
    let summary = Summary {
        merged: latencies("response"),
        service: latencies("service"),
        per_run: per_run(&source),
        rps: estimate("rps").unwrap_or_default(),
        failed_ratio: estimate("failed_ratio").map_or(0.0, |estimate| estimate.v),
        resources,
        excluded_by_rule: left_out.iter().map(|index| cell.runs[*index].block).collect(),
        sensitivity: sensitivity(cell, *rule),
    };
    cell.summary = summary;
}

/// Fills `campaign.compare` with every pair of meshes under the same parameters (in the order in which they first
/// appear), and the noise band. Two cells of the same mesh are an A/A pair when the parameters of one say `aa`.
pub fn compare_cells(campaign: &mut Campaign) {
    let seed = campaign.manifest.seed;
    let mut compared = Vec::new();
    for (index, a) in campaign.cells.iter().enumerate() {
        for b in &campaign.cells[index + 1..] {
            if a.mesh != b.mesh && !is_aa(a) && !is_aa(b) && same_place(a, b) {
                compared.extend(pairs::compare(a, b, DRAWS, seed));
            }
        }
    }
    pairs::correct(&mut compared);
    campaign.compare = compared;
    campaign.noise_band = noise_band(&campaign.cells, seed);
    campaign.noise_method = match campaign.cells.iter().any(is_aa) {
        true => "halves and A/A cells".into(),
        false => "halves".into(),
    };
}

/// How far the same thing differs from itself, by metric, as a share of it: the largest of all cells.
///
/// From halves of each cell's repetitions, and from A/A cells where there are some.
#[must_use]
pub fn noise_band(cells: &[Cell], seed: u64) -> BTreeMap<String, f64> {
    let mut bands: BTreeMap<String, f64> = BTreeMap::new();
    let mut widen = |metric: &str, band: f64| {
        let known = bands.entry(metric.to_owned()).or_default();
        *known = known.max(band);
    };
    for cell in cells {
        let source = Source::new(taken(cell).collect());
        for metric in COMPARED {
            let Some(name) = Name::parse(metric).filter(|name| source.quotable(name)) else {
                continue;
            };
            if let Some(band) = source.figure(&name).and_then(|figure| noise::band(&figure, seed)) {
                widen(metric, band);
            }
        }
    }
    for (index, a) in cells.iter().enumerate() {
        for b in &cells[index + 1..] {
            if a.mesh == b.mesh && is_aa(a) != is_aa(b) && same_place(a, b) {
                for (metric, share) in aa_shares(a, b) {
                    widen(metric, share);
                }
            }
        }
    }
    bands
}

/// One figure of a summarised cell, for assertions: `response.p50` … `response.max`, `service.*`, `rps`, `failed_ratio`,
/// `proxy.cpu_us_per_req`, `proxy.cpu_us_per_traversal`, `proxy.mem_mb_max`, `control.*`, `app.*`, `generator.*`,
/// `node_residual.*`. Latencies are in milliseconds. Nothing for an unknown name, or where the cell does not have it.
#[must_use]
pub fn metric(cell: &Cell, name: &str) -> Option<Estimate> {
    let summary = &cell.summary;
    match Name::parse(name)? {
        Name::Response(latency) => summary.merged.get(&latency).copied(),
        Name::Service(latency) => summary.service.get(&latency).copied(),
        Name::Rps => (summary.rps.n > 0).then_some(summary.rps),
        Name::Cost(role, what) => summary.resources.get(&format!("{role}.{what}")).copied(),
        other @ (Name::FailedRatio | Name::Throttled) => {
            let source = Source::new(taken(cell).collect());
            let draws = Draws::new(source.runs.len(), DRAWS, 0);
            estimate(&source, &other, &draws)
        }
    }
}

/// CPU microseconds for each request that passed a proxy, of one repetition; nothing without proxies, or where their CPU is
/// unknown.
#[must_use]
pub fn proxy_cost(run: &Run) -> Option<f64> {
    if !is_cpu_known(&run.resources.proxy) {
        return None;
    }
    let (microseconds, passed) = traversed(run, &run.resources.proxy);
    (passed > 0.0).then_some(microseconds / passed)
}

/// Whether [`metric`] knows the name at all: for a scenario's checks.
#[must_use]
pub fn is_metric(name: &str) -> bool {
    Name::parse(name).is_some()
}

/// The name with its unit in it, as results print it: `p99_ms` of `p99`. Other figures' names have theirs already.
fn with_unit(name: &str) -> String {
    match Name::parse(name) {
        Some(Name::Response(_) | Name::Service(_)) if !name.ends_with("_ms") => {
            format!("{name}_ms")
        }
        _ => name.to_owned(),
    }
}

/// The words of an assertion with the unit of its bounds, which is the unit of the figure: `p99_ms <= 0.001` of
/// `p99 <= 0.001`.
pub(crate) fn spoken(assertion: &Assertion) -> String {
    match assertion.expr.split_once(' ') {
        Some((figure, bounds)) => format!("{} {bounds}", with_unit(figure)),
        None => assertion.expr.clone(),
    }
}

/// Which cell, in words: load, mode and parameters, not the mesh.
#[must_use]
pub fn cell_words(cell: &Cell) -> String {
    let mut words = vec![cell.load.clone()];
    if !cell.mode.is_empty() && cell.mode != "honest" {
        words.push(cell.mode.clone());
    }
    words.extend(cell.params.iter().map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    }));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// Repetitions that count.
fn taken(cell: &Cell) -> impl Iterator<Item = &Run> {
    cell.runs.iter().filter(|run| run.valid && !run.discarded)
}

/// One figure with its interval.
fn estimate(source: &Source, name: &Name, draws: &Draws) -> Option<Estimate> {
    let figure = source.figure(name)?;
    Some(Estimate {
        v: figure.whole()?,
        ci95: draws.of(&figure),
        n: source.samples(name),
        quotable: source.quotable(name),
    })
}

fn latency_names() -> impl Iterator<Item = &'static str> {
    QUANTILES.iter().map(|(name, _)| *name).chain(["max", "mean"])
}

/// Each repetition's own figures, then their mean and spread.
fn per_run(source: &Source) -> BTreeMap<String, PerRun> {
    let names = latency_names().chain(["rps", "failed_ratio"]);
    names
        .filter_map(|name| {
            let figure = source.figure(&Name::parse(name)?)?;
            let values: Vec<f64> =
                (0..figure.runs()).filter_map(|run| figure.of_run(run)).collect();
            (!values.is_empty()).then(|| (name.to_owned(), spread(values)))
        })
        .collect()
}

fn spread(mut values: Vec<f64>) -> PerRun {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    PerRun {
        mean,
        sd: if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 },
        median: f64::midpoint(values[(n - 1) / 2], values[n / 2]),
        min: values[0],
        max: values[n - 1],
    }
}

/// Which repetitions (by index) the rule leaves out; always one at least stays.
fn worst(cell: &Cell, rule: Discard) -> Vec<usize> {
    let Discard::WorstMax(n) = rule else { return Vec::new() };
    let mut valid: Vec<usize> =
        (0..cell.runs.len()).filter(|index| cell.runs[*index].valid).collect();
    valid.sort_by_key(|index| std::cmp::Reverse(cell.runs[*index].hist.response.max()));
    valid.truncate(n.min(valid.len().saturating_sub(1)));
    valid.sort_unstable();
    valid
}

/// The pooled latencies under every rule that one might have declared.
fn sensitivity(cell: &Cell, declared: Discard) -> BTreeMap<String, BTreeMap<String, f64>> {
    [Discard::None, Discard::WorstMax(1), declared]
        .into_iter()
        .filter_map(|rule| {
            let without = worst(cell, rule);
            let kept = cell.runs.iter().enumerate();
            let kept = kept.filter(|(index, run)| run.valid && !without.contains(index));
            let source = Source::new(kept.map(|(_, run)| run).collect());
            if source.runs.is_empty() {
                return None;
            }
            let figures = latency_names()
                .filter_map(|name| {
                    let value = source.figure(&Name::Response(name.to_owned()))?.whole()?;
                    Some((name.to_owned(), value))
                })
                .collect();
            Some((rule.to_string(), figures))
        })
        .collect()
}

/// Whether the cell is the second half of an A/A pair.
fn is_aa(cell: &Cell) -> bool {
    cell.params.contains_key("aa")
}

/// The same load, mode and parameters.
fn same_place(a: &Cell, b: &Cell) -> bool {
    let without = |cell: &Cell| {
        let mut params = cell.params.clone();
        params.remove("aa");
        params
    };
    a.load == b.load && a.mode == b.mode && without(a) == without(b)
}

/// How far an A/A pair lies apart, by metric, as a share of its mean.
fn aa_shares(a: &Cell, b: &Cell) -> Vec<(&'static str, f64)> {
    let (a, b) = (Source::new(taken(a).collect()), Source::new(taken(b).collect()));
    let share = |metric: &&'static str| {
        let name = Name::parse(metric)?;
        if !a.quotable(&name) || !b.quotable(&name) {
            return None;
        }
        let (one, other) = (a.figure(&name)?.whole()?, b.figure(&name)?.whole()?);
        let mean = f64::midpoint(one, other);
        Some((*metric, if mean == 0.0 { 0.0 } else { ((one - other) / mean).abs() }))
    };
    COMPARED.iter().filter_map(share).collect()
}
