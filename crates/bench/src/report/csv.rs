//! `summary.csv`: every figure of every cell on a line of its own, for spreadsheets and plots.

use crate::result::{Campaign, Cell, Estimate};
use std::collections::BTreeSet;

/// `scenario,mesh,load,mode,<parameters…>,metric,value,lo,hi,n,quotable`; `lo` and `hi` are the 95 % interval, empty
/// without one. Latencies are in milliseconds.
pub(super) fn summary(campaign: &Campaign) -> String {
    let keys: BTreeSet<&str> =
        campaign.cells.iter().flat_map(|cell| cell.params.keys().map(String::as_str)).collect();
    let mut head = vec!["scenario", "mesh", "load", "mode"];
    head.extend(&keys);
    head.extend(["metric", "value", "lo", "hi", "n", "quotable"]);
    let mut text = line(head.into_iter().map(str::to_owned));
    for cell in &campaign.cells {
        for (metric, estimate) in figures(cell) {
            let mut row = vec![
                campaign.scenario.id.clone(),
                cell.mesh.clone(),
                cell.load.clone(),
                cell.mode.clone(),
            ];
            let param = |key: &&str| match cell.params.get(*key) {
                None => String::new(),
                Some(value) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            };
            row.extend(keys.iter().map(param));
            let [low, high] = estimate
                .ci95
                .map_or([String::new(), String::new()], |ends| ends.map(|end| end.to_string()));
            row.extend([
                metric,
                estimate.v.to_string(),
                low,
                high,
                estimate.n.to_string(),
                estimate.quotable.to_string(),
            ]);
            text += &line(row);
        }
    }
    text
}

/// Everything that a summary has, by the names that assertions use.
fn figures(cell: &Cell) -> Vec<(String, Estimate)> {
    let summary = &cell.summary;
    if summary.rps.n == 0 && summary.merged.is_empty() {
        return Vec::new();
    }
    let merged = summary.merged.iter().map(|(key, value)| (format!("response.{key}_ms"), *value));
    let service = summary.service.iter().map(|(key, value)| (format!("service.{key}_ms"), *value));
    let resources = summary.resources.iter().map(|(key, value)| (key.clone(), *value));
    let failed = Estimate { v: summary.failed_ratio, ci95: None, n: summary.rps.n, quotable: true };
    let own = [("rps".to_owned(), summary.rps), ("failed_ratio".to_owned(), failed)];
    merged.chain(service).chain(own).chain(resources).collect()
}

/// One line; quoted where a comma, a quote or a line's end asks for it.
pub(crate) fn line(fields: impl IntoIterator<Item = String>) -> String {
    let quoted = |field: String| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    let fields: Vec<String> = fields.into_iter().map(quoted).collect();
    fields.join(",") + "\n"
}
