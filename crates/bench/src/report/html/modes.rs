//! The honest mode beside what the study's own method would have reported; and the published figures beside both.

use super::{Panel, name, table};
use crate::report::compared::merged;
use crate::report::group::counted;
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell, Published};

/// Nothing in a scenario that has one mode and no published figures.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let mut body = String::new();
    let pairs = pairs(campaign);
    if !pairs.is_empty() {
        let head = [
            "load",
            "mesh",
            "mode",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
            "answers/s",
        ];
        let rows: Vec<Vec<String>> =
            pairs.iter().flat_map(|(honest, compat)| rows(honest, compat)).collect();
        body += &table(&head, &rows, 3);
        let mut modes: Vec<&str> = pairs.iter().map(|(_, compat)| compat.mode.as_str()).collect();
        modes.dedup();
        let why: Vec<String> = modes
            .iter()
            .filter_map(|mode| why(mode))
            .map(|why| format!("<li>{why}</li>"))
            .collect();
        body += &format!("<ul>{}</ul>", why.join(""));
    }
    body += &published(campaign);
    if body.is_empty() {
        return None;
    }
    let about = "The same load, recorded honestly and in the study's own way. A difference between both comes from the load generator.".into();
    Some(Panel { id: "modes", title: "Honest beside the study's way", about, body })
}

/// Every compatibility cell with its honest twin.
fn pairs(campaign: &Campaign) -> Vec<(&Cell, &Cell)> {
    let honest = |mode: &str| mode == "honest" || mode.is_empty();
    let measured = || campaign.cells.iter().filter(|cell| counted(cell).next().is_some());
    let mut pairs: Vec<(&Cell, &Cell)> = measured()
        .filter(|cell| !honest(&cell.mode))
        .filter_map(|compat| {
            let twin = measured().find(|cell| {
                honest(&cell.mode)
                    && (&cell.mesh, &cell.load, &cell.params)
                        == (&compat.mesh, &compat.load, &compat.params)
            });
            Some((twin?, compat))
        })
        .collect();
    pairs.sort_by_key(|(honest, _)| (words::cell(honest), words::place(&honest.mesh)));
    pairs
}

fn rows(honest: &Cell, compat: &Cell) -> [Vec<String>; 2] {
    [(honest, "honest"), (compat, compat.mode.as_str())].map(|(cell, mode)| {
        let first = mode == "honest";
        let mut row = vec![
            if first { escape(&words::cell(cell)) } else { String::new() },
            if first { name(&cell.mesh) } else { String::new() },
            escape(mode),
        ];
        for key in ["p50", "p90", "p99", "p999", "max"] {
            let times = merged(honest, key)
                .zip(merged(compat, key))
                .filter(|(honest, _)| !first && honest.v > 0.0);
            let times = times.map_or_else(String::new, |(honest, compat)| {
                format!(" <small>{} ×</small>", words::figure(compat.v / honest.v))
            });
            row.push(merged(cell, key).map_or_else(
                || "–".into(),
                |estimate| {
                    let class = if estimate.quotable { "" } else { " class=\"none\"" };
                    format!("<span{class}>{}</span>{times}", words::figure(estimate.v))
                },
            ));
        }
        row.push(words::figure(cell.summary.rps.v));
        row
    })
}

/// Why a profile says something else.
fn why(mode: &str) -> Option<&'static str> {
    match mode {
        "wrk2" => Some(
            "<b>wrk2</b> rounds every wait up to the next millisecond and counts it as latency: half to one and a half milliseconds more at every percentile.",
        ),
        "wrk2-kinvolk" => Some(
            "<b>wrk2-kinvolk</b> rounds waits up to the millisecond, and opens a new connection whenever the host changes: it measures connecting.",
        ),
        "fortio" => Some(
            "<b>fortio</b> sends on all connections at once, and counts from the send: a request that had to wait for its turn looks fast.",
        ),
        "oha-closed" => Some(
            "<b>oha-closed</b> sends the next request when the last is answered, on a new connection: slow answers slow the asking down.",
        ),
        _ => None,
    }
}

/// The study's figures beside ours: a row for each of its cells, those of meshes that were run here first.
fn published(campaign: &Campaign) -> String {
    let mut metrics: Vec<&str> = Vec::new();
    let mut cells: Vec<(&str, &str)> = Vec::new();
    for one in &campaign.published_check {
        if !metrics.contains(&one.metric.as_str()) {
            metrics.push(&one.metric);
        }
        if !cells.contains(&(&one.cell, &one.mesh)) {
            cells.push((&one.cell, &one.mesh));
        }
    }
    if cells.is_empty() {
        return String::new();
    }
    let was_run = |(_, mesh): &(&str, &str)| campaign.cells.iter().any(|cell| cell.mesh == *mesh);
    let rows = |own: bool| -> Vec<Vec<String>> {
        let chosen = cells.iter().filter(|cell| was_run(cell) == own);
        chosen.map(|cell| published_row(campaign, cell, &metrics)).collect()
    };
    let mut head = vec!["load".to_owned(), "mesh".to_owned()];
    head.extend(metrics.iter().map(|metric| match *metric {
        "rps" => "answers/s".to_owned(),
        metric => format!("{} ms", words::percentile(metric)),
    }));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut body = "<h3>Published figures, from the study's own machines</h3><p class=\"about\">In small what was seen here: \
                    <i>here</i> in the honest mode, <i>its way</i> as the study's tool counts.</p>"
        .to_owned();
    let (own, others) = (rows(true), rows(false));
    if !own.is_empty() {
        body += &table(&head, &own, 2);
    }
    if !others.is_empty() {
        body += &format!(
            "<details><summary>{} of meshes that were not run here</summary>{}</details>",
            others.len(),
            table(&head, &others, 2)
        );
    }
    body
}

fn published_row(campaign: &Campaign, cell: &(&str, &str), metrics: &[&str]) -> Vec<String> {
    let mut row = vec![escape(cell.0), name(cell.1)];
    row.extend(metrics.iter().map(|metric| {
        let here = |one: &&Published| {
            (one.cell.as_str(), one.mesh.as_str()) == *cell && one.metric == *metric
        };
        campaign.published_check.iter().find(here).map_or_else(|| "–".to_owned(), figures)
    }));
    row
}

/// `202 <small>here 6.7, its way 6.9</small>`.
fn figures(one: &Published) -> String {
    let seen = [("here", one.observed), ("its way", one.observed_compat)];
    let seen: Vec<String> = seen
        .into_iter()
        .filter_map(|(word, value)| Some(format!("{word} {}", words::figure(value?))))
        .collect();
    let published = words::figure(one.published);
    match seen.is_empty() {
        true => published,
        false => format!("{published} <small>{}</small>", seen.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_published_and_what_was_seen() {
        let check = |observed, observed_compat, expected: &str| {
            let one =
                Published { published: 6.1, observed, observed_compat, ..Published::default() };
            assert_eq!(figures(&one), expected);
        };
        check(None, None, "6.10");
        check(Some(0.5), None, "6.10 <small>here 0.50</small>");
        check(Some(0.5), Some(1.5), "6.10 <small>here 0.50, its way 1.50</small>");
    }

    #[test]
    fn a_study_is_a_row_for_each_of_its_cells() {
        let one = |mesh: &str, metric: &str| Published {
            mesh: mesh.into(),
            cell: "main rate=20".into(),
            metric: metric.into(),
            published: 6.1,
            ..Published::default()
        };
        let campaign = Campaign {
            published_check: vec![one("none", "p50"), one("none", "max"), one("istio", "p50")],
            cells: vec![Cell { mesh: "none".into(), ..Cell::default() }],
            ..Campaign::default()
        };
        let html = published(&campaign);
        assert_eq!(html.matches("<tbody><tr>").count(), 2, "{html}");
        assert!(html.contains("<summary>1 of meshes that were not run here"), "{html}");
        assert!(published(&Campaign::default()).is_empty());
    }
}
