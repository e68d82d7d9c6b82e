//! What differs between meshes, and whether beyond the noise: a forest plot for each figure that matters, and the table.

use super::{Panel, choice, name, table, variant};
use crate::report::compared;
use crate::report::forest::{self, Row};
use crate::report::group;
use crate::report::svg::escape;
use crate::report::words;
use crate::result::{Campaign, Comparison};

/// More rows than that are for the table.
const ROWS_MAX: usize = 40;

/// Every pair of meshes, with interval and test.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    if campaign.compare.is_empty() {
        return None;
    }
    let mut choices = Vec::new();
    let mut drawings = String::new();
    for (metric, words, less, more) in words::COMPARED {
        let rows = rows(campaign, metric);
        if let Some(drawing) = forest::draw(words, &rows, [less, more], "other → this") {
            drawings += &variant(&[("difference", metric)], choices.is_empty(), &drawing);
            choices.push((metric, words));
        }
    }
    let body = format!(
        "<div class=\"choices\">{}</div>{drawings}<details><summary>All {} comparisons</summary>{}</details>",
        choice("difference", "figure", &choices),
        campaign.compare.len(),
        all(campaign)
    );
    let about = "Each dot is the mesh that this report is about divided by another under the same load, blocks paired; the line is its 95 % interval, the \
                 grey box the noise band. <i>Same</i> means within the band, or an interval that has 1 in it."
        .into();
    Some(Panel { id: "differences", title: "Differences", about, body })
}

/// The comparisons of a figure: of the mesh that the report is about with all others, and of those with no mesh.
fn rows(campaign: &Campaign, metric: &str) -> Vec<Row> {
    let (subject, _) = group::subject(campaign);
    let about = |one: &&Comparison| {
        one.metric == metric
            && [one.a.as_str(), one.b.as_str()].iter().any(|mesh| Some(*mesh) == subject)
    };
    let mut rows: Vec<Row> = campaign
        .compare
        .iter()
        .filter(about)
        .filter_map(|one| row(campaign, one, subject))
        .collect();
    rows.truncate(ROWS_MAX);
    rows
}

/// A ratio is always that of the subject's figure to the other's, as at the top of the page.
fn row(campaign: &Campaign, one: &Comparison, subject: Option<&str>) -> Option<Row> {
    let turned = (Some(one.a.as_str()) == subject).then(|| compared::turned(one));
    let one = turned.as_ref().unwrap_or(one);
    let ratio = one.ratio.filter(|ratio| *ratio > 0.0)?;
    let before = if (ratio - 1.0).abs() > 1e-12 { one.diff / (ratio - 1.0) } else { 0.0 };
    let cell = campaign.cells.iter().find(|cell| crate::statistics::cell_words(cell) == one.cell);
    let load = cell.map_or_else(|| one.cell.clone(), |cell| words::short(cell, &campaign.cells));
    Some(Row {
        label: format!("{load}: {} ÷ {}", words::mesh(&one.b), words::mesh(&one.a)),
        ratio,
        ci95: one.ratio_ci95,
        noise: match before {
            0.0 => None,
            _ => one.noise_band.map(|band| (band / before).abs()),
        },
        effect: one.effect.clone(),
        p_holm: one.p_holm,
        values: match before {
            0.0 => String::new(),
            _ => format!("{} → {}", words::figure(before), words::figure(before + one.diff)),
        },
    })
}

fn all(campaign: &Campaign) -> String {
    let row = |one: &Comparison| {
        let interval = one.ci95.map_or_else(
            || "–".into(),
            |[low, high]| format!("{} to {}", words::signed(low), words::signed(high)),
        );
        vec![
            escape(&one.cell),
            format!("{} → {}", name(&one.a), name(&one.b)),
            escape(&one.metric),
            words::signed(one.diff),
            interval,
            one.ratio.map_or_else(|| "–".into(), |ratio| format!("{} ×", words::figure(ratio))),
            one.p_holm.map_or_else(|| "–".into(), words::figure),
            one.noise_band.map_or_else(|| "–".into(), words::figure),
            format!("<span class=\"effect {0}\">{0}</span>", escape(&one.effect)),
        ]
    };
    let head = [
        "load",
        "from → to",
        "figure",
        "difference",
        "95 % interval",
        "ratio",
        "p (Holm)",
        "noise",
        "effect",
    ];
    table(&head, &campaign.compare.iter().map(row).collect::<Vec<_>>(), 3)
}
