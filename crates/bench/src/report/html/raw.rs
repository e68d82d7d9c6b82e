//! Everything to take away: the result, its figures, and the latencies of each second of each repetition.

use super::{Panel, name, table};
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Cell};

/// Links beside the page itself.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    if campaign.cells.iter().all(|cell| cell.runs.is_empty()) {
        return None;
    }
    let files = [
        ("result.json", "everything"),
        ("summary.csv", "every figure of every cell"),
        ("report.md", "for a pull request"),
    ];
    let files: String = files
        .iter()
        .map(|(file, what)| format!("<li><a href=\"{file}\" download>{file}</a> {what}</li>"))
        .collect();
    let rows: Vec<Vec<String>> =
        campaign.cells.iter().filter_map(|cell| logs(campaign, cell)).collect();
    let logs = match rows.len() {
        0 => String::new(),
        count => format!(
            "<details><summary>HdrHistogram logs of {count} cells, a file for each repetition</summary>{}</details>",
            table(&["mesh", "load", "repetitions"], &rows, 3)
        ),
    };
    let about = "Files beside this page; where there is only the page, they are where it was written. Seconds are in \
                 HdrHistogram's log format, which its own tools plot."
        .into();
    Some(Panel { id: "raw", title: "Raw data", about, body: format!("<ul>{files}</ul>{logs}") })
}

fn logs(campaign: &Campaign, cell: &Cell) -> Option<Vec<String>> {
    let link = |(index, log): (usize, &str)| {
        format!("<a href=\"{}\" download>{}</a>", escape(log), index + 1)
    };
    let logs = cell.runs.iter().map(|run| run.series_1s.hlog.as_str()).enumerate();
    // A name with a path or a scheme is not one of our files.
    let own = |log: &str| !log.is_empty() && !log.contains(['/', ':', '\\']);
    let links: Vec<String> = logs.filter(|(_, log)| own(log)).map(link).collect();
    (!links.is_empty()).then(|| {
        vec![name(&cell.mesh), escape(&words::short(cell, &campaign.cells)), links.join(" ")]
    })
}
