//! Output for people: the plan, each repetition when it ends, the answer. Not here: the time that is left ([`super::progress`]).

use crate::result::{Campaign, Cell, Run, is_cpu_known};
use crate::run::home::Home;
use crate::run::plan::{Plan, Planned, Step};
use crate::run::validity;
use crate::scenario::Scenario;
use crate::scenario::units::spoken;
use crate::statistics;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Which repetition of how many.
pub(crate) fn begin(number: usize, all: usize, step: &Step, cells: &[Cell]) -> String {
    let cell = &cells[step.cell];
    let (words, mesh) = (words(cell, cells), &cell.mesh);
    format!("[{:>3}/{all}] block {} {mesh:<8} {words}", number + 1, step.block)
}

/// Which cell, in the fewest words: load, mode, and the parameters in which cells of this load differ.
fn words(cell: &Cell, cells: &[Cell]) -> String {
    let mut words = vec![cell.load.clone()];
    if cell.mode != "honest" {
        words.push(cell.mode.clone());
    }
    let alike = || cells.iter().filter(|other| other.load == cell.load && other.mode == cell.mode);
    for (name, value) in &cell.params {
        if alike().any(|other| other.params.get(name) != Some(value)) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            words.push(format!("{name}={value}"));
        }
    }
    words.join(" ")
}

/// What a repetition gave: its figures, and lines about them.
pub(crate) fn done(run: &Run, campaign: &Campaign) -> Vec<String> {
    let mut lines = vec![figures(run)];
    lines.extend(run.invalid_reasons.iter().map(|reason| format!("invalid: {reason}")));
    let note = validity::note(&run.resources, cores(campaign));
    lines.extend(note.map(|note| format!("note: {note}")));
    for event in &run.events {
        let recovery = match event.recovery_s {
            Some(seconds) => format!(", well again after {seconds:.1} s"),
            None if event.failed > 0 => ", not well again by the end".to_owned(),
            None => String::new(),
        };
        lines.push(format!(
            "{:>6.1} s {} {}: {} failed{recovery}",
            event.t, event.kind, event.target, event.failed
        ));
    }
    lines
}

/// What of the costs could not be read.
pub(crate) fn not_read(facts: &BTreeMap<String, Value>) -> Vec<String> {
    let found = facts.get("not_read").and_then(Value::as_array).into_iter().flatten();
    found.map(|why| format!("not read: {}", why.as_str().unwrap_or_default())).collect()
}

/// Of the machine, or of all nodes that are used.
fn cores(campaign: &Campaign) -> usize {
    campaign.manifest.host.get("cores").and_then(Value::as_u64).map_or(1, |cores| cores as usize)
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
    if let Some(microseconds) = statistics::proxy_cost(run) {
        // Writing to a String cannot fail.
        let _ = write!(text, "  CPU {microseconds:.1} us/request and proxy");
    } else if !is_cpu_known(&run.resources.proxy) {
        text.push_str("  CPU unknown");
    }
    text
}

/// What would be done.
#[must_use]
pub(crate) fn plan(scenario: &Scenario, home: &Home, plan: &Plan) -> String {
    let names = home.names();
    let mut text = format!("{}: {}\n", scenario.id, scenario.title);
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    let shown = |planned: &Planned| Cell {
        mesh: names[planned.bed.mesh].clone(),
        load: scenario.loads[planned.load].name.clone(),
        mode: planned.mode.name().to_owned(),
        params: planned.params(scenario, None),
        ..Cell::default()
    };
    let cells: Vec<Cell> = plan.cells.iter().map(shown).collect();
    let mut block = 0;
    for (number, step) in plan.steps.iter().enumerate() {
        if step.block != block {
            block = step.block;
            line(format!("block {block}"));
        }
        let cell = &cells[step.cell];
        let fresh = if step.is_fresh { "new" } else { "" };
        line(format!("  {:>4}  {:<8} {fresh:<4}{}", number + 1, cell.mesh, words(cell, &cells)));
    }
    let expected = spoken(plan.expected(scenario, home.bed_start()));
    line(format!("{} repetitions, at most {expected}", plan.steps.len()));
    text
}

/// The answer: a line for each cell, the verdict, where the rest is.
#[must_use]
pub(crate) fn answer(campaign: &Campaign, out: &Path) -> String {
    let mut rows = vec![
        ["cell", "mesh", "rate/s", "p50 ms", "p99 ms", "us/req/proxy", "MiB/proxy", "quoted"]
            .map(str::to_owned),
    ];
    let all = &campaign.cells;
    let mut cells: Vec<(String, &Cell)> = all.iter().map(|cell| (words(cell, all), cell)).collect();
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
            figure("proxy.cpu_us_per_traversal", 1),
            figure("proxy.mem_mb_max", 1),
            format!("{valid}/{}", cell.runs.len()),
        ]);
        last = words;
    }
    let is_marked = rows.iter().any(|row| row.iter().any(|figure| figure.ends_with('?')));
    let mut text = table(&rows);
    if is_marked {
        text.push_str("? fewer than ten requests are beyond this percentile: too few to quote\n");
    }
    text.push_str(&unknown_cpu(campaign));
    text.push_str(&disturbed(campaign));
    let holding = campaign.assertions.iter().filter(|assertion| assertion.pass).count();
    if !campaign.assertions.is_empty() {
        let _ = writeln!(text, "{holding} of {} assertions hold", campaign.assertions.len());
    }
    let so_far = match campaign.state.as_str() {
        "interrupted" => ", of what was measured before it was interrupted",
        _ => "",
    };
    let _ = writeln!(text, "verdict: {}{so_far}", campaign.verdict);
    for reason in &campaign.verdict_reasons {
        let _ = writeln!(text, "  {reason}");
    }
    let _ = writeln!(text, "{}", out.display());
    text
}

/// In how many repetitions the phase was too short to know what it cost.
fn unknown_cpu(campaign: &Campaign) -> String {
    let runs = || campaign.cells.iter().flat_map(|cell| &cell.runs);
    let is_known =
        |run: &&Run| is_cpu_known(&run.resources.proxy) && is_cpu_known(&run.resources.app);
    let (unknown, all) = (runs().filter(|run| !is_known(run)).count(), runs().count());
    match unknown {
        0 => String::new(),
        _ => format!(
            "note: CPU is unknown in {unknown} of {all} repetitions: the phase was too short for samples at its ends; measure longer\n"
        ),
    }
}

/// In how many repetitions the machine was not ours alone.
fn disturbed(campaign: &Campaign) -> String {
    let runs = || campaign.cells.iter().flat_map(|cell| &cell.runs);
    let busy =
        runs().filter(|run| validity::note(&run.resources, cores(campaign)).is_some()).count();
    let all = runs().count();
    match busy {
        0 => String::new(),
        _ => format!(
            "note: in {busy} of {all} repetitions other programs kept at least a quarter of the machine busy\n"
        ),
    }
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
