//! Assertions about windows of the measured phase: goodput, shares of servers, amplification. Pure.

use crate::result::{Cell, WindowFigures};
use crate::scenario::rules::{Assertion, Beside};

/// The cell that is compared with: the same mesh, under the same load or another one.
pub(super) fn beside<'a>(beside: &Beside, cell: &'a Cell, cells: &'a [Cell]) -> Option<&'a Cell> {
    let Some(load) = &beside.load else { return Some(cell) };
    let of_mesh = |other: &&Cell| {
        (&other.mesh, &other.mode, &other.load) == (&cell.mesh, &cell.mode, load)
            && !super::is_aa(other)
    };
    // Loads differ in their own parameters; the one with the same ones is the nearest.
    let same = cells.iter().filter(of_mesh).find(|other| other.params == cell.params);
    same.or_else(|| cells.iter().find(of_mesh))
}

/// The mean over the repetitions that count; `None` where one of them does not have it.
pub(super) fn observe(assertion: &Assertion, window: &str, cell: &Cell) -> Option<f64> {
    let counted = cell.runs.iter().filter(|run| run.valid && !run.discarded);
    let seen: Option<Vec<f64>> =
        counted.map(|run| figure(assertion, run.windows.get(window)?)).collect();
    let seen = seen.filter(|seen| !seen.is_empty())?;
    Some(seen.iter().sum::<f64>() / seen.len() as f64)
}

fn figure(assertion: &Assertion, figures: &WindowFigures) -> Option<f64> {
    let reached = |workload: &str| figures.requests.get(workload).copied();
    match assertion.metric.as_str() {
        "goodput" => Some(figures.goodput),
        "failed_ratio" => Some(figures.failed_ratio),
        "p50" => figures.p50_ms,
        "p99" => figures.p99_ms,
        "share" => figures.shares.get(assertion.pod.as_deref()?).copied(),
        "amplification" => {
            let sent = match &assertion.from {
                Some(workload) => reached(workload)?,
                None => figures.offered as f64,
            };
            (sent > 0.0).then_some(reached(assertion.workload.as_deref()?)? / sent)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Run;
    use std::collections::BTreeMap;

    fn cell(load: &str, goodput: f64) -> Cell {
        let figures = WindowFigures {
            goodput,
            offered: 200,
            p99_ms: Some(30.0),
            shares: BTreeMap::from([("web-0".to_owned(), 0.25)]),
            requests: BTreeMap::from([("web".to_owned(), 300.0), ("db".to_owned(), 330.0)]),
            ..WindowFigures::default()
        };
        let windows = BTreeMap::from([("ill".to_owned(), figures)]);
        let run = Run { valid: true, windows, ..Run::default() };
        Cell { mesh: "leno".into(), load: load.into(), runs: vec![run], ..Cell::default() }
    }

    #[test]
    fn figures_of_a_window() {
        let named = |metric: &str| Assertion { metric: metric.into(), ..Assertion::default() };
        let check = |assertion: Assertion, window: &str, expected: Option<f64>| {
            let seen = observe(&assertion, window, &cell("main", 90.0));
            assert_eq!(seen, expected, "{assertion:?}");
        };
        check(named("goodput"), "ill", Some(90.0));
        check(named("goodput"), "well", None);
        check(named("p99"), "ill", Some(30.0));
        check(named("p50"), "ill", None);
        check(Assertion { pod: Some("web-0".into()), ..named("share") }, "ill", Some(0.25));
        check(Assertion { pod: Some("web-9".into()), ..named("share") }, "ill", None);
        let to_db = Assertion { workload: Some("db".into()), ..named("amplification") };
        check(to_db.clone(), "ill", Some(1.65));
        check(Assertion { from: Some("web".into()), ..to_db }, "ill", Some(1.1));
    }

    #[test]
    fn another_load_of_the_same_mesh() {
        let cells = [cell("plain", 100.0), cell("retried", 90.0)];
        let named = |load: Option<&str>| Beside { window: None, load: load.map(str::to_owned) };
        let seen = |load| beside(&named(load), &cells[1], &cells).map(|cell| cell.load.as_str());
        assert_eq!(seen(Some("plain")), Some("plain"));
        assert_eq!(seen(None), Some("retried"));
        assert_eq!(seen(Some("none")), None);
    }
}
