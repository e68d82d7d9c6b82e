//! What stands behind the figures: the generator's own lateness, what was left out and what that changes, TCP's own
//! timers, and where it all ran.

use super::{Panel, lateness, name, table, timers};
use crate::report::group::{counted, pooled};
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell, Run};
use serde_json::Value;
use std::collections::BTreeMap;

/// The generator, what was left out, what else one could have concluded, the assertions.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let mut body = assertions(campaign);
    body += &excluded(campaign);
    body += &generators(campaign);
    body += &lateness::drawings(campaign);
    body += &timers::table_of(campaign);
    body += &sensitivity(campaign);
    body += &tcp(campaign);
    if body.is_empty() {
        return None;
    }
    let about = "A figure counts only if the load generator worked well: requests sent on time, CPU to spare, nothing throttled.".into();
    Some(Panel { id: "validity", title: "Validity", about, body })
}

fn titled(title: &str, body: &str) -> String {
    format!("<h3>{title}</h3>{body}")
}

fn assertions(campaign: &Campaign) -> String {
    assertions_about(campaign, &[""])
}

/// The assertions whose words hold one of these.
pub(super) fn assertions_about(campaign: &Campaign, words_of: &[&str]) -> String {
    let chosen: Vec<_> = campaign
        .assertions
        .iter()
        .filter(|one| words_of.iter().any(|word| one.expr.contains(word)))
        .collect();
    if chosen.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = chosen
        .into_iter()
        .map(|one| {
            let holds = if one.pass {
                "<span class=\"effect better\">holds</span>"
            } else {
                "<span class=\"effect worse\">fails</span>"
            };
            vec![
                holds.into(),
                escape(&crate::statistics::spoken(one)),
                escape(&one.cell),
                one.observed.map_or_else(|| "not seen".into(), words::figure),
            ]
        })
        .collect();
    titled("Assertions", &table(&["", "assertion", "load", "seen"], &rows, 3))
}

/// Repetitions that do not count, and why.
fn excluded(campaign: &Campaign) -> String {
    let mut rows = Vec::new();
    for cell in &campaign.cells {
        for (index, run) in
            cell.runs.iter().enumerate().filter(|(_, run)| !run.valid || run.discarded)
        {
            let why = if run.valid {
                "left out by the scenario's rule".to_owned()
            } else {
                run.invalid_reasons.join("; ")
            };
            rows.push(vec![
                name(&cell.mesh),
                escape(&words::cell(cell)),
                format!("{} (block {})", index + 1, run.block),
                if run.valid { "left out" } else { "invalid" }.into(),
                escape(&why),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    titled(
        "Repetitions that do not count",
        &table(&["mesh", "load", "repetition", "", "why"], &rows, 5),
    )
}

/// How late the generator was, and how busy.
fn generators(campaign: &Campaign) -> String {
    let mut rows = Vec::new();
    for cell in campaign.cells.iter().filter(|cell| counted(cell).next().is_some()) {
        let late = pooled(cell, |run| &run.hist.lateness);
        let microseconds = |share: f64| {
            if late.count() == 0 {
                "–".to_owned()
            } else {
                words::figure(late.quantile(share) as f64 / 1e3)
            }
        };
        let most = |of: fn(&Run) -> f64| counted(cell).map(of).reduce(f64::max).unwrap_or(f64::NAN);
        let (offered, started) = counted(cell).fold((0, 0), |(offered, started), run| {
            (offered + run.counts.offered, started + run.counts.started)
        });
        rows.push(vec![
            name(&cell.mesh),
            escape(&format!(
                "{}{}",
                words::cell(cell),
                if cell.mode == "honest" { String::new() } else { format!(" ({})", cell.mode) }
            )),
            microseconds(0.5),
            microseconds(0.99),
            microseconds(0.999),
            words::share(most(|run| run.generator.busy_max)),
            words::figure(most(|run| run.generator.cpu_us_per_req)),
            words::share(if offered > 0 { started as f64 / offered as f64 } else { f64::NAN }),
            throttled(cell),
            words::share(most(|run| run.resources.machine.steal_share)),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "mesh",
        "load",
        "lateness p50 µs",
        "p99 µs",
        "p99.9 µs",
        "busiest thread",
        "CPU µs per request",
        "sent of due",
        "throttled s",
        "stolen",
    ];
    titled("The load generator", &table(&head, &rows, 2))
}

/// Seconds that a CPU limit held anything of the cell back.
fn throttled(cell: &Cell) -> String {
    let all = counted(cell).flat_map(|run| {
        let all = &run.resources;
        [&all.proxy, &all.app, &all.control, &all.generator].into_iter().flatten()
    });
    words::figure(all.map(|used| used.throttled_s).sum())
}

/// What the pooled p99 would be under other rules.
fn sensitivity(campaign: &Campaign) -> String {
    let mut rows = Vec::new();
    for cell in campaign.cells.iter().filter(|cell| cell.summary.sensitivity.len() > 1) {
        for (rule, figures) in &cell.summary.sensitivity {
            let of = |key: &str| {
                figures.get(key).map_or_else(|| "–".to_owned(), |value| words::figure(*value))
            };
            rows.push(vec![
                name(&cell.mesh),
                escape(&words::cell(cell)),
                rule_words(rule),
                of("p50"),
                of("p99"),
                of("p999"),
                of("max"),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = ["mesh", "load", "rule", "p50 ms", "p99 ms", "p99.9 ms", "max ms"];
    let body = table(&head, &rows, 3);
    format!(
        "<details><summary>What another rule for leaving out would say</summary>{body}</details>"
    )
}

fn rule_words(rule: &str) -> String {
    match rule {
        "none" => "every valid repetition".into(),
        "worst_max(1)" => "without the one with the longest latency".into(),
        rule => escape(rule),
    }
}

/// TCP's own troubles, summed over a cell's repetitions.
fn tcp(campaign: &Campaign) -> String {
    let mut keys: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    let sums = |cell: &Cell| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (key, value) in counted(cell).flat_map(|run| &run.tcp) {
            *sums.entry(key.clone()).or_default() += value;
        }
        sums
    };
    for cell in &campaign.cells {
        for (key, _) in cell.runs.iter().flat_map(|run| &run.tcp) {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
    }
    if keys.is_empty() {
        return String::new();
    }
    for cell in campaign.cells.iter().filter(|cell| counted(cell).next().is_some()) {
        let sums = sums(cell);
        let mut row = vec![name(&cell.mesh), escape(&words::cell(cell))];
        row.extend(
            keys.iter()
                .map(|key| sums.get(*key).map_or_else(|| "–".into(), |value| words::count(*value))),
        );
        rows.push(row);
    }
    let mut head = vec!["mesh".to_owned(), "load".to_owned()];
    head.extend(keys.iter().map(|key| escape(&key.replace('_', " "))));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    format!(
        "<details><summary>TCP counters of the machine</summary>{}</details>",
        table(&head, &rows, 2)
    )
}

/// Machine, meshes, scenario: what somebody else needs to do it again.
pub(super) fn manifest(campaign: &Campaign) -> Option<Panel> {
    let mut body = String::new();
    let pairs = |map: &BTreeMap<String, Value>| -> Vec<Vec<String>> {
        map.iter()
            .map(|(key, value)| vec![escape(&key.replace('_', " ")), escape(&words::plain(value))])
            .collect()
    };
    if !campaign.manifest.host.is_empty() {
        body += &titled("Machine", &table(&["", ""], &pairs(&campaign.manifest.host), 2));
    }
    let mut rows = Vec::new();
    for (mesh, facts) in &campaign.manifest.mesh {
        for (index, (key, value)) in facts.iter().enumerate() {
            let first = if index == 0 { name(mesh) } else { String::new() };
            rows.push(vec![first, escape(&key.replace('_', " ")), escape(&words::plain(value))]);
        }
    }
    if !rows.is_empty() {
        body += &titled("Meshes, as probed", &table(&["", "", ""], &rows, 3));
    }
    if !campaign.scenario.text.is_empty() {
        body += &format!(
            "<details><summary>The scenario, SHA-256 {}</summary><pre>{}</pre></details>",
            escape(&campaign.scenario.sha256),
            escape(&campaign.scenario.text)
        );
    }
    if body.is_empty() {
        return None;
    }
    let about = format!("Seed {}.", campaign.manifest.seed);
    Some(Panel { id: "manifest", title: "Where and with what", about, body })
}
