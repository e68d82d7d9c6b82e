//! The head of the page: the answer in one sentence, the verdict, and what it stands on.

use crate::report::compared::headline;
use crate::report::svg::escape;
use crate::report::words;
use crate::result::Campaign;

/// Everything above the panels.
pub(super) fn head(campaign: &Campaign) -> String {
    let scenario = &campaign.scenario;
    let mut sentences = headline(campaign).into_iter().map(|sentence| escape(&sentence));
    let first = sentences.next().unwrap_or_default();
    let rest: String =
        sentences.map(|sentence| format!("<p class=\"second\">{sentence}</p>")).collect();
    let (state, words) = validity(campaign);
    let title = if scenario.title.is_empty() {
        String::new()
    } else {
        format!(" · {}", escape(&scenario.title))
    };
    format!(
        "<header><div class=\"bar\"><span class=\"product\">leno bench</span><span class=\"scenario\"><b>{}</b>{title}</span>\
         <button type=\"button\" id=\"theme\" title=\"light or dark\">◐</button></div>\
         <div class=\"verdict {state}\"><span class=\"badge\">{words}</span><div><h1>{first}</h1>{rest}</div></div>{}\
         <div class=\"strip\">{}</div>{}</header>",
        escape(&scenario.id),
        reasons(campaign),
        strip(campaign),
        repro(campaign),
    )
}

/// The class of the badge, and its word: whether the figures may be quoted. Assertions are the scenario author's question and
/// not the reader's: one that fails does not make the measurement a bad one.
fn validity(campaign: &Campaign) -> (&'static str, &'static str) {
    match (campaign.state.as_str(), campaign.verdict.as_str()) {
        ("running", _) => ("running", "RUNNING"),
        (_, "invalid") => ("invalid", "INVALID"),
        ("interrupted", _) => ("invalid", "INTERRUPTED"),
        (_, "pass" | "fail") => ("pass", "VALID"),
        _ => ("running", "NO VERDICT"),
    }
}

/// Why figures may not be quoted; the assertions that fail are listed with the others ([`super::validity`]).
fn reasons(campaign: &Campaign) -> String {
    let lines: String =
        invalid(campaign).map(|line| format!("<li>{}</li>", escape(line))).collect();
    if lines.is_empty() { lines } else { format!("<ul class=\"reasons\">{lines}</ul>") }
}

/// The verdict's reasons but for those of assertions.
pub(in crate::report) fn invalid(campaign: &Campaign) -> impl Iterator<Item = &str> {
    let reasons = campaign.verdict_reasons.iter().map(String::as_str);
    reasons.filter(|reason| !reason.contains(" does not hold: "))
}

/// Small figures side by side.
fn strip(campaign: &Campaign) -> String {
    let mut items: Vec<(&str, String, &str)> = Vec::new();
    let runs = || campaign.cells.iter().flat_map(|cell| &cell.runs);
    let (all, valid) = (runs().count(), runs().filter(|run| run.valid).count());
    if all > 1 {
        items.push((
            "repetitions",
            format!("{valid} of {all} valid"),
            if valid < all { "warn" } else { "" },
        ));
    }
    if let Some(noise) = noise(campaign) {
        items.push(("noise band", noise, ""));
    }
    if let Some(busy) = runs()
        .map(|run| run.generator.busy_max.max(run.generator.wanted_max))
        .reduce(f64::max)
        .filter(|busy| *busy > 0.0)
    {
        let class = if busy > 0.7 { "warn" } else { "" };
        items.push(("generator's busiest thread", words::share(busy), class));
    }
    let asserted = campaign.assertions.len();
    if asserted > 0 {
        let holds = campaign.assertions.iter().filter(|assertion| assertion.pass).count();
        items.push(("scenario's assertions", format!("{holds} of {asserted} hold"), ""));
    }
    if let Some(host) = host(campaign) {
        items.push(("machine", host, ""));
    }
    if !campaign.manifest.tool.is_empty() {
        items.push(("version", campaign.manifest.tool.clone(), ""));
    }
    items.push(("result", campaign.campaign.clone(), ""));
    items
        .iter()
        .map(|(label, value, class)| {
            format!("<div class=\"{class}\"><b>{label}</b><span>{}</span></div>", escape(value))
        })
        .collect()
}

/// `p50 2.1 %, p99 6 %, CPU 1.4 %`.
fn noise(campaign: &Campaign) -> Option<String> {
    let known = [
        ("p50", "p50_ms"),
        ("p99", "p99_ms"),
        ("CPU", "proxy.cpu_us_per_traversal"),
        ("rate", "rps"),
    ];
    let parts: Vec<String> = known
        .iter()
        .filter_map(|(label, key)| {
            campaign.noise_band.get(*key).map(|band| format!("{label} ±{}", words::share(*band)))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// `AMD EPYC 7B13, 2 cores, Linux 6.1`.
fn host(campaign: &Campaign) -> Option<String> {
    let host = &campaign.manifest.host;
    let get = |key: &str| host.get(key).map(words::plain).filter(|text| !text.is_empty());
    let parts = [
        get("cpu"),
        get("cores").map(|cores| format!("{cores} cores")),
        get("memory_mib")
            .and_then(|mib| mib.parse::<f64>().ok())
            .map(|mib| format!("{} GiB", words::figure(mib / 1024.0))),
        get("kernel").map(|kernel| {
            if kernel.starts_with("Linux") { kernel } else { format!("Linux {kernel}") }
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn repro(campaign: &Campaign) -> String {
    if campaign.manifest.repro.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"repro\"><b>again</b><code id=\"repro\">{}</code><button type=\"button\" id=\"copy\">copy</button></div>",
        escape(&campaign.manifest.repro)
    )
}
