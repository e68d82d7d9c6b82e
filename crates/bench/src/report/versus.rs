//! Two results held against each other, as a page: what changed, a forest plot for each figure, and everything in a table.

use super::forest::{self, Row};
use super::html::{self, Panel};
use super::svg::escape;
use super::words;

/// What the page says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versus {
    /// Names of the results.
    pub(crate) before: String,
    pub(crate) after: String,
    /// `pass`, `fail` or `invalid`.
    pub(crate) verdict: &'static str,
    /// `3 worse, 5 better, 40 same`.
    pub(crate) headline: String,
    /// What else there is to say, a line each.
    pub(crate) notes: Vec<String>,
    /// Figure and difference.
    pub(crate) rows: Vec<(&'static str, Row)>,
}

/// The whole page, which needs nothing else.
pub(crate) fn page(versus: &Versus) -> String {
    let title = format!("{} → {}", versus.before, versus.after);
    let notes: String =
        versus.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    let notes =
        if notes.is_empty() { notes } else { format!("<ul class=\"reasons\">{notes}</ul>") };
    let head = format!(
        "<header><div class=\"bar\"><span class=\"product\">leno bench</span><span class=\"scenario\"><b>{}</b></span>\
         <button type=\"button\" id=\"theme\" title=\"light or dark\">◐</button></div>\
         <div class=\"verdict {1}\"><span class=\"badge\">{2}</span><div><h1>{3}</h1></div></div>{notes}</header>",
        escape(&title),
        versus.verdict,
        versus.verdict.to_uppercase(),
        escape(&versus.headline)
    );
    let mut bodies = String::new();
    for panel in [changes(versus), all(versus)].into_iter().flatten() {
        bodies += &panel.section();
    }
    html::document(&format!("leno bench · {title}"), &(head + &bodies), "", false)
}

/// A forest plot for each figure that has changes to show.
fn changes(versus: &Versus) -> Option<Panel> {
    let (mut choices, mut drawings) = (Vec::new(), String::new());
    for (metric, words, less, more) in words::COMPARED {
        let own = versus.rows.iter().filter(|(name, _)| *name == metric);
        let rows: Vec<Row> = own.map(|(_, row)| row.clone()).collect();
        if let Some(drawing) = forest::draw(words, &rows, [less, more], "before → after") {
            drawings += &html::variant(&[("difference", metric)], choices.is_empty(), &drawing);
            choices.push((metric, words));
        }
    }
    if choices.is_empty() {
        return None;
    }
    let about = "Each dot is a cell of the second result divided by the same of the first; the line is its 95 % interval, the grey \
                 box what the repetitions of either result differ by among themselves. p is of the rank-sum test, corrected \
                 after Holm for everything that was compared."
        .into();
    let body = format!(
        "<div class=\"choices\">{}</div>{drawings}",
        html::choice("difference", "figure", &choices)
    );
    Some(Panel { id: "changes", title: "What changed", about, body })
}

/// Every figure of every cell, those that changed first.
fn all(versus: &Versus) -> Option<Panel> {
    let rank = |row: &Row| ["worse", "better", "same"].iter().position(|word| row.effect == *word);
    let mut rows: Vec<&(&str, Row)> = versus.rows.iter().collect();
    rows.sort_by_key(|(_, row)| rank(row).unwrap_or(3));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(metric, row)| line(metric, row)).collect();
    if rows.is_empty() {
        return None;
    }
    let head = ["cell", "figure", "before → after", "ratio", "95 %", "noise", "p (Holm)", "effect"];
    let body = html::table(&head, &rows, 2);
    Some(Panel { id: "all", title: "Everything", about: String::new(), body })
}

fn line(metric: &str, row: &Row) -> Vec<String> {
    let interval = row.ci95.map_or_else(
        || "–".to_owned(),
        |[low, high]| format!("{} to {}", words::figure(low), words::figure(high)),
    );
    vec![
        escape(&row.label),
        escape(metric),
        escape(&row.values),
        format!("{} ×", words::figure(row.ratio)),
        interval,
        row.noise.map_or_else(|| "–".to_owned(), |noise| format!("±{}", words::share(noise))),
        row.p_holm.map_or_else(|| "–".to_owned(), words::figure),
        format!("<span class=\"effect {0}\">{0}</span>", escape(&row.effect)),
    ]
}
