//! The honest mode beside what the study's own method would have reported; and the published figures beside both.

use super::{Panel, name, table};
use crate::report::compared::merged;
use crate::report::group::counted;
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell};

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
    let about = "The same load, recorded honestly and in the study's own way. Where they differ, the instrument made the difference.".into();
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

/// The study's figures beside ours.
fn published(campaign: &Campaign) -> String {
    if campaign.published_check.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = campaign
        .published_check
        .iter()
        .map(|one| {
            let ours = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), words::figure);
            vec![
                escape(&one.cell),
                name(&one.mesh),
                escape(words::percentile(&one.metric)),
                words::figure(one.published),
                ours(one.observed),
                ours(one.observed_compat),
            ]
        })
        .collect();
    let head = ["load", "mesh", "figure", "published", "here, honest", "here, the study's way"];
    format!("<h3>Published figures, from the study's own machines</h3>{}", table(&head, &rows, 3))
}
