//! `report.html`: one file that needs nothing else, from top to bottom what a reader asks.
//!
//! Drawings are made here, once; the script in `page/` only chooses which of them is shown, light or dark, and reloads
//! the page while the run is under way. A panel without data does not exist.

mod answer;
mod chaos;
mod closed;
mod curve;
mod differences;
mod endpoints;
mod heat;
mod latency;
mod lateness;
mod modes;
mod raw;
mod resources;
mod roles;
mod runs;
mod spectrum;
mod timers;
mod validity;
mod verdict;

use super::logs::Logs;
use super::svg::escape;
use super::words;
use crate::result::Campaign;

pub(super) use verdict::invalid;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// What the page may do: draw itself. `connect-src` is for the watch on a run that is served while it goes on.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                                 img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// A part of the page with its heading.
pub(super) struct Panel {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// One sentence on how to read it; HTML.
    pub(super) about: String,
    /// HTML.
    pub(super) body: String,
}

impl Panel {
    /// Heading, sentence, body.
    pub(super) fn section(&self) -> String {
        let Self { id, title, about, body } = self;
        format!(
            "<section id=\"{id}\"><h2>{title}</h2><p class=\"about\">{about}</p>{body}</section>"
        )
    }
}

/// The whole page. `version` is what a served page compares to know of news; empty for a file.
pub(super) fn page(campaign: &Campaign, logs: &Logs, version: &str) -> String {
    let main = [
        latency::panel(campaign),
        resources::panel(campaign),
        roles::panel(campaign),
        closed::panel(campaign),
        curve::panel(campaign),
        chaos::panel(campaign),
        endpoints::panel(campaign),
        differences::panel(campaign),
    ];
    let details = [
        spectrum::panel(campaign),
        heat::panel(campaign, logs),
        runs::panel(campaign),
        modes::panel(campaign),
        validity::panel(campaign),
        validity::manifest(campaign),
        raw::panel(campaign),
    ];
    let mut links = String::new();
    let mut sections = |panels: &[Option<Panel>]| {
        let mut bodies = String::new();
        for panel in panels.iter().flatten() {
            links += &format!("<a href=\"#{}\">{}</a>", panel.id, panel.title);
            bodies += &panel.section();
        }
        bodies
    };
    let (main, details) = (sections(&main), sections(&details));
    let details = match details.is_empty() {
        true => details,
        false => format!("<details class=\"more\"><summary>Details</summary>{details}</details>"),
    };
    let (head, answer) = (verdict::head(campaign), answer::table(campaign));
    let body = format!("{head}{answer}<nav>{links}</nav>{main}{details}");
    let running = campaign.state == "running";
    document(&format!("leno bench · {}", campaign.scenario.id), &body, version, running)
}

/// A page around a body: style, script, and nothing from elsewhere.
pub(super) fn document(title: &str, body: &str, version: &str, running: bool) -> String {
    let (title, version) = (escape(title), escape(version));
    format!(
        "<!doctype html>\n<html lang=\"en\" data-version=\"{version}\" data-running=\"{running}\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\"><title>{title}</title><style>\n{STYLE}</style></head>\n\
         <body><main>{body}</main>\n<script>\n{SCRIPT}</script></body></html>\n"
    )
}

/// A legend: each mesh with its colour.
fn legend<'a>(meshes: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = Vec::new();
    for mesh in meshes {
        if !known.contains(&mesh) {
            known.push(mesh);
        }
    }
    known.sort_by_key(|mesh| words::place(mesh));
    let items: Vec<String> = known.iter().map(|mesh| name(mesh)).collect();
    format!("<div class=\"legend\">{}</div>", items.join(""))
}

/// A mesh's name beside its colour.
fn name(mesh: &str) -> String {
    let (colour, mesh) = (words::colour(mesh), escape(&words::mesh(mesh)));
    format!("<span class=\"mesh {colour}\"><i></i>{mesh}</span>")
}

/// A row of buttons of which one is pressed: `key` is what the script shows and hides by, choices are values and words.
pub(super) fn choice(key: &str, label: &str, choices: &[(&str, &str)]) -> String {
    let mut buttons = String::new();
    for (index, (value, words)) in choices.iter().enumerate() {
        let pressed = index == 0;
        buttons += &format!(
            "<button type=\"button\" data-key=\"{key}\" data-value=\"{value}\" aria-pressed=\"{pressed}\">{words}</button>"
        );
    }
    format!(
        "<span class=\"choice\" role=\"group\" aria-label=\"{label}\"><b>{label}</b>{buttons}</span>"
    )
}

/// One of several drawings of the same thing; shown where every pair of key and value is chosen.
pub(super) fn variant(pairs: &[(&str, &str)], first: bool, body: &str) -> String {
    let pairs: String =
        pairs.iter().map(|(key, value)| format!(" data-of-{key}=\"{value}\"")).collect();
    let hidden = if first { "" } else { " hidden" };
    format!("<div class=\"variant\"{pairs}{hidden}>{body}</div>")
}

/// A table; cells are HTML. The first `left` columns are text, the rest figures.
pub(super) fn table(head: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let class = |column: usize| if column < left { "" } else { " class=\"n\"" };
    let head_of = |column: usize| head.get(column).copied().unwrap_or_default();
    let head: String = head
        .iter()
        .enumerate()
        .map(|(column, text)| format!("<th{}>{text}</th>", class(column)))
        .collect();
    let mut body = String::new();
    for row in rows {
        body += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            // A narrow window shows each row as a block, every cell behind its column's name.
            let label = head_of(column);
            body += &format!("<td{} data-label=\"{label}\">{cell}</td>", class(column));
        }
        body += "</tr>";
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
}
