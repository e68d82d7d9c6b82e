//! Closed loops: a table of what was reached, flagged as capacity, as latency says nothing there that the rate does not.

use super::{Panel, name, table};
use crate::report::compared::merged;
use crate::report::group::{Group, counted, groups, over_runs};
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell};

/// All closed loops, in every mode.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let mut rows = Vec::new();
    for group in groups(campaign).iter().filter(|group| !group.open) {
        let measured = group.cells.iter().filter(|cell| counted(cell).next().is_some());
        rows.extend(measured.map(|cell| row(group, cell)));
    }
    if rows.is_empty() {
        return None;
    }
    let head = [
        "load",
        "mesh",
        "time s",
        "answers/s",
        "Δ to no mesh",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "failed",
    ];
    let about = "<b class=\"flag\">capacity, closed loop</b> The next request waits for the last answer: the rate is what \
                 the slowest part can do, and latency is connections ÷ rate."
        .into();
    Some(Panel { id: "closed", title: "Capacity", about, body: table(&head, &rows, 2) })
}

fn row(group: &Group<'_>, cell: &Cell) -> Vec<String> {
    let time = over_runs(cell, |run| run.phases.get("measure").copied());
    let rate = cell.summary.rps.v;
    let none = group
        .of("none")
        .map(|none| none.summary.rps.v)
        .filter(|none| *none > 0.0 && cell.mesh != "none");
    let mut row = vec![
        escape(&group.title()),
        name(&cell.mesh),
        time.map_or_else(|| "–".into(), |[_, mean, _]| words::figure(mean)),
        words::figure(rate),
        none.map_or_else(
            || "–".into(),
            |none| format!("{} %", words::signed((rate / none - 1.0) * 100.0)),
        ),
    ];
    for key in ["p50", "p90", "p99", "p999"] {
        row.push(match merged(cell, key) {
            Some(estimate) if estimate.quotable => words::figure(estimate.v),
            Some(estimate) => format!(
                "<span class=\"none\" title=\"{} samples\">n/a</span>",
                words::count(estimate.n)
            ),
            None => "–".into(),
        });
    }
    row.push(words::share(cell.summary.failed_ratio));
    row
}
