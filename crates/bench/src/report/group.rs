//! Cells that belong side by side: the same load and parameters, one for each mesh. Pure.

use super::words;
use crate::result::{Campaign, Cell, Run, Used};
use leno_load::histogram::Histogram;

/// The percentiles of every panel, by their keys in the summary.
pub(super) const PERCENTILES: [&str; 6] = ["p50", "p90", "p99", "p999", "p9999", "max"];

/// The same load and parameters under several meshes.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// The parameters in words.
    pub(super) words: String,
    /// `honest`, or the compatibility profile.
    pub(super) mode: &'a str,
    /// Whether arrivals are independent of answers.
    pub(super) open: bool,
    /// Requests per second that were asked for; 0 in a closed loop.
    pub(super) rate: f64,
    /// Whether panels show it: in the honest mode, or in a study's own where the load has no other.
    pub(super) leads: bool,
    /// One for each mesh, in the order of every panel.
    pub(super) cells: Vec<&'a Cell>,
}

impl<'a> Group<'a> {
    pub(super) fn of(&self, mesh: &str) -> Option<&'a Cell> {
        self.cells.iter().find(|cell| cell.mesh == mesh).copied()
    }

    /// The words, with the mode where it is not the honest one.
    pub(super) fn title(&self) -> String {
        if is_honest(self.mode) {
            return self.words.clone();
        }
        format!("{} (as {} would say)", self.words, self.mode)
    }
}

/// All groups that hold something. Cells that only repeat another one for the noise band (`aa`) are in none.
pub(super) fn groups(campaign: &Campaign) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in campaign
        .cells
        .iter()
        .filter(|cell| !cell.runs.is_empty() && !cell.params.contains_key("aa"))
    {
        let same = |group: &&mut Group<'_>| {
            let other = group.cells[0];
            (&other.load, &other.mode, &other.params) == (&cell.load, &cell.mode, &cell.params)
        };
        if let Some(group) = groups.iter_mut().find(same) {
            group.cells.push(cell);
            continue;
        }
        let rate = cell.params.get("rate").and_then(words::number).unwrap_or(0.0);
        let words = words::cell(cell);
        let open = is_open(cell, rate);
        let twin = |other: &Cell| is_honest(&other.mode) && other.load == cell.load;
        let leads = is_honest(&cell.mode) || !campaign.cells.iter().any(twin);
        groups.push(Group { words, mode: &cell.mode, open, rate, leads, cells: vec![cell] });
    }
    for group in &mut groups {
        group.cells.sort_by_key(|cell| words::place(&cell.mesh));
    }
    // Closed loops last, loads in the scenario's order, the slowest rate first.
    let mut loads: Vec<&str> = Vec::new();
    for cell in &campaign.cells {
        if !loads.contains(&cell.load.as_str()) {
            loads.push(&cell.load);
        }
    }
    let load = |group: &Group<'_>| loads.iter().position(|load| *load == group.cells[0].load);
    groups.sort_by(|a, b| {
        (!a.open, load(a)).cmp(&(!b.open, load(b))).then(a.rate.total_cmp(&b.rate))
    });
    groups
}

/// Whether latency is counted as a user would see it, and not as a study's tool counts.
pub(super) fn is_honest(mode: &str) -> bool {
    mode == "honest" || mode.is_empty()
}

/// By what the scenario says of arrivals; where it says nothing, a rate makes an open loop.
fn is_open(cell: &Cell, rate: f64) -> bool {
    let said =
        ["arrival", "model", "schedule", "loop"].iter().find_map(|key| cell.params.get(*key));
    match said {
        Some(said) => !words::plain(said).contains("closed") && cell.mode != "oha-closed",
        None => rate > 0.0 && cell.mode != "oha-closed",
    }
}

/// Repetitions that count.
pub(super) fn counted(cell: &Cell) -> impl Iterator<Item = &Run> {
    cell.runs.iter().filter(|run| run.valid && !run.discarded)
}

/// All response (or service) latencies of the repetitions that count.
pub(super) fn pooled(cell: &Cell, of: impl Fn(&Run) -> &Histogram) -> Histogram {
    let mut pooled = Histogram::new();
    for run in counted(cell) {
        pooled.merge(of(run));
    }
    pooled
}

/// Smallest, mean and largest of a figure over the repetitions that count; nothing where none has it.
pub(super) fn over_runs(cell: &Cell, of: impl Fn(&Run) -> Option<f64>) -> Option<[f64; 3]> {
    let values: Vec<f64> = counted(cell).filter_map(of).filter(|value| value.is_finite()).collect();
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    Some([low, values.iter().sum::<f64>() / values.len() as f64, high])
}

/// The sum over processes of a role; nothing where the role has none.
pub(super) fn sum(used: &[Used], of: impl Fn(&Used) -> f64) -> Option<f64> {
    (!used.is_empty()).then(|| used.iter().map(of).sum())
}

/// The mesh that the report is about, and the one that it is held against: Leno and the first peer there is.
pub(super) fn subject(campaign: &Campaign) -> (Option<&str>, Option<&str>) {
    let has = |name: &str| {
        campaign.cells.iter().find(|cell| cell.mesh == name).map(|cell| cell.mesh.as_str())
    };
    let mut others: Vec<&str> = campaign.cells.iter().map(|cell| cell.mesh.as_str()).collect();
    others.retain(|mesh| *mesh != "none");
    others.sort_by_key(|mesh| words::place(mesh));
    others.dedup();
    let subject = has("leno").or_else(|| others.first().copied());
    let known = ["haproxy", "linkerd", "envoy", "nginx"].iter().find_map(|name| has(name));
    let peer = known.filter(|peer| Some(*peer) != subject);
    (subject, peer.or_else(|| others.into_iter().find(|mesh| Some(*mesh) != subject)))
}

/// CPU microseconds per request and proxy: what one passage through one sidecar costs.
pub(super) fn proxy_cost(cell: &Cell) -> Option<&crate::result::Estimate> {
    let resources = &cell.summary.resources;
    let cost = resources
        .get("proxy.cpu_us_per_traversal")
        .or_else(|| resources.get("proxy.cpu_us_per_req"));
    cost.filter(|cost| cost.v > 0.0)
}
