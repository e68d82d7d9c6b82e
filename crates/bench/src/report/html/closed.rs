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
    let head =
        ["load", "mesh", "time s", "answers/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "failed"];
    let about = "<b class=\"flag\">capacity, closed loop</b> The next request waits for the last answer: the rate is what \
                 the slowest part can do, and latency is connections ÷ rate. In small, the change from no mesh."
        .into();
    Some(Panel { id: "closed", title: "Capacity", about, body: table(&head, &rows, 2) })
}

/// `9,900 <small>−5.2 %</small>`.
fn changed(value: f64, none: Option<f64>) -> String {
    let none = none.filter(|none| *none > 0.0 && value.is_finite());
    let change = none.map_or_else(String::new, |none| {
        format!(" <small>{} %</small>", words::signed((value / none - 1.0) * 100.0))
    });
    format!("{}{change}", words::figure(value))
}

fn row(group: &Group<'_>, cell: &Cell) -> Vec<String> {
    let measured_s = |cell: &Cell| {
        over_runs(cell, |run| run.phases.get("measure").copied()).map(|[_, mean, _]| mean)
    };
    let none = group.of("none").filter(|_| cell.mesh != "none");
    let mut row = vec![
        escape(&group.title()),
        name(&cell.mesh),
        measured_s(cell)
            .map_or_else(|| "–".into(), |time| changed(time, none.and_then(measured_s))),
        changed(cell.summary.rps.v, none.map(|none| none.summary.rps.v)),
    ];
    for key in ["p50", "p90", "p99", "p999"] {
        row.push(match merged(cell, key) {
            Some(estimate) if estimate.quotable => {
                let none = none.and_then(|none| merged(none, key)).filter(|none| none.quotable);
                changed(estimate.v, none.map(|none| none.v))
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_said_where_there_is_something_to_change_from() {
        for (value, none, expected) in [
            (120.0, Some(150.0), "120 <small>−20.0 %</small>"),
            (120.0, Some(120.0), "120 <small>±0 %</small>"),
            (120.0, Some(0.0), "120"),
            (120.0, None, "120"),
        ] {
            assert_eq!(changed(value, none), expected);
        }
    }
}
