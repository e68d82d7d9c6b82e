//! `report.md`: the answer and the table behind it, short enough for a pull request.

use super::compared::{self, headline};
use super::group::{self, Group, counted, groups};
use super::html;
use super::words;
use crate::result::{Campaign, Cell, Estimate};

/// The whole report.
pub(super) fn report(campaign: &Campaign) -> String {
    let verdict = match (campaign.state.as_str(), campaign.verdict.as_str()) {
        ("running", _) => "still running",
        (_, "") => "no verdict",
        (_, "invalid") => "invalid",
        _ => "valid",
    };
    let mut text = format!("## leno bench {}: {verdict}\n\n", code(&campaign.scenario.id));
    for sentence in headline(campaign) {
        text += &format!("**{}**\n\n", plain(&sentence));
    }
    let invalid: String =
        html::invalid(campaign).map(|reason| format!("- {}\n", plain(reason))).collect();
    if !invalid.is_empty() {
        text += &(invalid + "\n");
    }
    for group in groups(campaign) {
        text += &table(campaign, &group);
    }
    text += &failing(campaign);
    text += &footer(campaign);
    text
}

fn table(campaign: &Campaign, group: &Group<'_>) -> String {
    let measured: Vec<&&Cell> =
        group.cells.iter().filter(|cell| counted(cell).next().is_some()).collect();
    if measured.is_empty() {
        return String::new();
    }
    let (subject, _) = group::subject(campaign);
    let subject = subject.and_then(|mesh| group.of(mesh));
    let divided = subject
        .map_or_else(|| "ratio".into(), |cell| format!("{} ÷ this", words::mesh(&cell.mesh)));
    let kind = if group.open { "" } else { " (capacity, closed loop)" };
    let mut text = format!(
        "### {}{kind}\n\n| mesh | CPU µs per request and proxy | {divided} | p50 ms (added) | p99 ms (added) | proxy MiB, max | answers/s | failed |\n\
         | --- | --: | --: | --: | --: | --: | --: | --: |\n",
        plain(&group.title())
    );
    for cell in measured {
        let against = subject.filter(|subject| subject.mesh != cell.mesh);
        let times = against.and_then(|subject| compared::cost(campaign, cell, subject)?.ratio);
        let memory = cell.summary.resources.get("proxy.mem_mb_max").filter(|memory| memory.v > 0.0);
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            plain(&words::mesh(&cell.mesh)),
            group::proxy_cost(cell).map_or_else(|| "–".into(), interval),
            times.map_or_else(|| "–".into(), |times| format!("{} ×", words::figure(times))),
            latency(campaign, group, cell, "p50"),
            latency(campaign, group, cell, "p99"),
            memory.map_or_else(|| "–".into(), |memory| words::figure(memory.v)),
            words::figure(cell.summary.rps.v),
            words::share(cell.summary.failed_ratio),
        );
    }
    text + "\n"
}

fn interval(estimate: &Estimate) -> String {
    let interval = estimate.ci95.map_or_else(String::new, |[low, high]| {
        format!(" ({}–{})", words::figure(low), words::figure(high))
    });
    format!("{}{interval}", words::figure(estimate.v))
}

fn latency(campaign: &Campaign, group: &Group<'_>, cell: &Cell, key: &str) -> String {
    let Some(estimate) = compared::merged(cell, key) else { return "–".into() };
    if !estimate.quotable {
        return "n/a".into();
    }
    let added = compared::added(campaign, group, &cell.mesh, key).filter(|_| group.open);
    let added = added.map_or_else(String::new, |added| {
        format!(" ({}{})", words::signed(added.diff), if added.same { ", noise" } else { "" })
    });
    format!("{}{added}", words::figure(estimate.v))
}

fn failing(campaign: &Campaign) -> String {
    let mut text = String::new();
    for one in campaign.assertions.iter().filter(|assertion| !assertion.pass) {
        let seen = one.observed.map_or_else(|| "not seen".into(), words::figure);
        text += &format!(
            "- fails: {} in {}: {seen}\n",
            code(&crate::statistics::spoken(one)),
            plain(&one.cell)
        );
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn footer(campaign: &Campaign) -> String {
    let runs = || campaign.cells.iter().flat_map(|cell| &cell.runs);
    let mut parts = vec![format!(
        "{} of {} repetitions valid",
        runs().filter(|run| run.valid).count(),
        runs().count()
    )];
    if let Some(band) = campaign.noise_band.get("p99_ms") {
        parts.push(format!("noise of p99 ±{}", words::share(*band)));
    }
    let host = |key: &str| campaign.manifest.host.get(key).map(words::plain);
    parts.extend(host("cpu"));
    parts.extend(host("cores").map(|cores| format!("{cores} cores")));
    let mut text =
        format!("{}. Intervals are 95 %; n/a means too few samples.\n", plain(&parts.join(", ")));
    if !campaign.manifest.repro.is_empty() {
        text += &format!("\n```sh\n{}\n```\n", campaign.manifest.repro.replace("```", ""));
    }
    text
}

/// Text that cannot become a table's edge, a tag or a heading.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

/// A code span, in which nothing is markup but the backtick that ends it: an entity would be read as it is written.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Assertion;

    #[test]
    fn a_code_span_is_read_as_it_is_written() {
        check("p99 <= 0.001", "- fails: `p99_ms <= 0.001` in a\\|b &lt;i>: 4.20\n");
        check("rps >= 5 & <b>|x|", "- fails: `rps >= 5 & <b>|x|` in a\\|b &lt;i>: 4.20\n");
        check("rps `>=` 5\n# x", "- fails: `rps '>=' 5 # x` in a\\|b &lt;i>: 4.20\n");
    }

    #[track_caller]
    fn check(expr: &str, expected: &str) {
        let failed = Assertion {
            expr: expr.into(),
            cell: "a|b <i>".into(),
            observed: Some(4.2),
            pass: false,
        };
        let mut campaign = Campaign { assertions: vec![failed], ..Campaign::default() };
        campaign.scenario.id = "a<b".into();
        let text = report(&campaign);
        assert!(text.contains(expected), "{text}");
        assert!(text.starts_with("## leno bench `a<b`: no verdict\n"), "{text}");
    }
}
