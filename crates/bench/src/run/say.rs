//! What people are told: the plan, each repetition as it ends, the answer.

use crate::mesh::Choice;
use crate::result::{Campaign, Cell, Run};
use crate::run::plan::{Plan, Step};
use crate::scenario::Scenario;
use crate::scenario::units::spoken;
use crate::statistics;
use std::fmt::Write as _;
use std::path::Path;

/// A repetition begins.
pub(crate) fn begin(number: usize, all: usize, step: &Step, mesh: &str, cell: &Cell) {
    let words = statistics::cell_words(cell);
    eprint!("[{:>3}/{all}] block {} {mesh:<8} {words} ", number + 1, step.block);
}

/// A topology is started; the line of the repetition is not finished.
pub(crate) fn starting(choice: &Choice) {
    eprint!("(starting {}) ", choice.kind);
}

/// A repetition has ended.
pub(crate) fn done(run: &Run) {
    eprintln!("{}", figures(run));
    for reason in &run.invalid_reasons {
        eprintln!("          not quoted: {reason}");
    }
    for event in &run.events {
        let recovery = event.recovery_s.map(|s| format!(", well again after {s:.1} s"));
        let recovery = recovery.unwrap_or_default();
        eprintln!(
            "          {:>6.1} s {} {}: {} failed{recovery}",
            event.t, event.kind, event.target, event.failed
        );
    }
}

/// A repetition's figures on one line.
fn figures(run: &Run) -> String {
    if run.counts.completed == 0 {
        return "-> nothing was answered".to_owned();
    }
    let seconds = run.phases.get("measure").copied().unwrap_or(1.0);
    let latency = |share| run.hist.response.quantile(share) as f64 / 1e6;
    let mut text = format!(
        "-> {:.0}/s  p50 {:.2} ms  p99 {:.2} ms  max {:.1} ms",
        run.counts.completed as f64 / seconds,
        latency(0.5),
        latency(0.99),
        run.hist.response.max() as f64 / 1e6
    );
    let proxies: f64 = run.resources.proxy.iter().map(|used| used.cpu_us_per_req).sum();
    if !run.resources.proxy.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, "  proxies {proxies:.0} us/request");
    }
    text
}

/// What would be done.
#[must_use]
pub(crate) fn plan(scenario: &Scenario, choices: &[Choice], plan: &Plan) -> String {
    let mut text = format!("{}: {}\n", scenario.id, scenario.title);
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    let mut order = 0;
    let mut block = 0;
    for step in &plan.steps {
        let cell = &plan.cells[step.cell];
        if step.block != block {
            block = step.block;
            line(format!("block {block}"));
        }
        order += 1;
        let shown = Cell {
            load: scenario.loads[cell.load].name.clone(),
            mode: cell.mode.name().to_owned(),
            params: cell.params(scenario, None),
            ..Cell::default()
        };
        let fresh = if step.is_fresh { "new" } else { "" };
        let words = statistics::cell_words(&shown);
        line(format!("  {order:>4}  {:<8} {fresh:<4}{words}", choices[cell.bed.mesh].to_string()));
    }
    let expected = spoken(plan.expected(scenario));
    line(format!("{} repetitions, at most {expected}", plan.steps.len()));
    text
}

/// The answer: a line for each cell, the verdict, where the rest is.
#[must_use]
pub(crate) fn answer(campaign: &Campaign, out: &Path) -> String {
    let mut rows = vec![
        ["cell", "mesh", "rate/s", "p50 ms", "p99 ms", "proxies us/req", "MiB/proxy", "quoted"]
            .map(str::to_owned),
    ];
    let mut cells: Vec<(String, &Cell)> =
        campaign.cells.iter().map(|cell| (statistics::cell_words(cell), cell)).collect();
    let order: Vec<String> = cells.iter().map(|(words, _)| words.clone()).collect();
    cells.sort_by_key(|(words, _)| order.iter().position(|other| other == words));
    let mut last = String::new();
    for (words, cell) in cells {
        let figure = |name: &str, digits: usize| {
            let estimate = statistics::metric(cell, name).filter(|estimate| estimate.n > 0);
            estimate.map_or("-".to_owned(), |estimate| {
                let mark = if estimate.quotable { "" } else { "?" };
                format!("{:.digits$}{mark}", estimate.v)
            })
        };
        let valid = cell.runs.iter().filter(|run| run.valid && !run.discarded).count();
        let shown = if words == last { String::new() } else { words.clone() };
        rows.push([
            shown,
            cell.mesh.clone(),
            figure("rps", 0),
            figure("p50", 2),
            figure("p99", 2),
            figure("proxy.cpu_us_per_req", 1),
            figure("proxy.mem_mb_max", 1),
            format!("{valid}/{}", cell.runs.len()),
        ]);
        last = words;
    }
    let mut text = table(&rows);
    for assertion in &campaign.assertions {
        let mark = if assertion.pass { "holds" } else { "FAILS" };
        let seen = assertion.observed.map_or("-".to_owned(), |seen| format!("{seen:.4}"));
        let _ = writeln!(text, "{mark}  {}  {}  (seen {seen})", assertion.cell, assertion.expr);
    }
    let _ = writeln!(text, "verdict: {}", campaign.verdict);
    for reason in &campaign.verdict_reasons {
        let _ = writeln!(text, "  {reason}");
    }
    let _ = writeln!(text, "{}", out.display());
    text
}

/// Columns, the first two to the left, figures to the right.
fn table(rows: &[[String; 8]]) -> String {
    let widths: Vec<usize> = (0..8)
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
