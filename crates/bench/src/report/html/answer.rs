//! The figures behind the sentence: one row for each mesh under each load.

use super::name;
use crate::report::compared::{self, Difference};
use crate::report::group::{self, Group, counted, groups};
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell, Estimate};

/// The meshes of one group; nothing where nothing was measured.
fn rows_of(campaign: &Campaign, group: &Group<'_>) -> Vec<Vec<String>> {
    let (subject, _) = group::subject(campaign);
    let subject = subject.and_then(|subject| group.of(subject));
    let measured = group.cells.iter().filter(|cell| counted(cell).next().is_some());
    measured
        .map(|cell| {
            let against = subject.filter(|subject| subject.mesh != cell.mesh);
            let times = against.and_then(|subject| compared::cost(campaign, cell, subject)?.ratio);
            vec![
                name(&cell.mesh),
                group::proxy_cost(cell).map_or_else(blank, interval),
                times.map_or_else(blank, |times| format!("{} ×", words::figure(times))),
                latency(campaign, group, cell, "p50"),
                latency(campaign, group, cell, "p99"),
                cell.summary
                    .resources
                    .get("proxy.mem_mb_max")
                    .filter(|memory| memory.v > 0.0)
                    .map_or_else(blank, |memory| words::figure(memory.v)),
                words::figure(cell.summary.rps.v),
                words::share(cell.summary.failed_ratio),
            ]
        })
        .collect()
}

/// All groups of the honest mode, each with a heading.
pub(super) fn table(campaign: &Campaign) -> String {
    let (subject, _) = group::subject(campaign);
    let divided = subject.map_or_else(
        || "ratio".to_owned(),
        |subject| format!("{} ÷ this", escape(&words::mesh(subject))),
    );
    let mut rows = Vec::new();
    for group in groups(campaign).iter().filter(|group| group.leads) {
        let own = rows_of(campaign, group);
        if own.is_empty() {
            continue;
        }
        let kind = if group.open { "" } else { " <em>closed loop: capacity</em>" };
        rows.push(vec![format!("<h3>{}{kind}</h3>", escape(&group.title()))]);
        rows.extend(own);
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "",
        "CPU µs per request and proxy",
        &divided,
        "p50 ms (added)",
        "p99 ms (added)",
        "proxy MiB, max",
        "answers/s",
        "failed",
    ];
    format!("<section class=\"answer\">{}</section>", spanned(&super::table(&head, &rows, 1)))
}

/// Rows of one cell are headings over the whole width.
fn spanned(html: &str) -> String {
    html.replace("<tr><td data-label=\"\"><h3>", "<tr class=\"head\"><td colspan=\"8\"><h3>")
}

fn blank() -> String {
    "<span class=\"none\">–</span>".into()
}

/// `61.2 <small>58.9–63.4</small>`.
fn interval(estimate: &Estimate) -> String {
    let interval = estimate.ci95.map_or_else(String::new, |[low, high]| {
        format!(" <small>{}–{}</small>", words::figure(low), words::figure(high))
    });
    format!("{}{interval}", words::figure(estimate.v))
}

/// `0.51 <small>+0.09</small>`, grey where there are too few samples.
fn latency(campaign: &Campaign, group: &Group<'_>, cell: &Cell, key: &str) -> String {
    let Some(estimate) = compared::merged(cell, key) else { return blank() };
    if !estimate.quotable {
        let samples = words::count(estimate.n);
        return format!("<span class=\"none\" title=\"{samples} samples are too few\">n/a</span>");
    }
    // In a closed loop the difference says what the rate says already.
    let added = compared::added(campaign, group, &cell.mesh, key).filter(|_| group.open);
    let added = added.map_or_else(String::new, |Difference { diff, same, .. }| {
        let noise = if same { " class=\"none\" title=\"within noise\"" } else { "" };
        format!(" <small{noise}>{}</small>", words::signed(diff))
    });
    format!("{}{added}", words::figure(estimate.v))
}
