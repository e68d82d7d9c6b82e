//! The report of a made-up campaign: every panel, every form, and a real browser's opinion of the page.

mod browser;
mod made_up;

use leno_bench::load::hlog;
use leno_bench::report;
use leno_bench::result::{Campaign, SCHEMA};
use leno_load::outcome::{Outcome, Second};
use std::fs;
use std::path::Path;

/// Text of others that would be markup, were it not for escaping.
const MARK: &str = "<script>throw 1</script>\"'&";

fn written(campaign: &Campaign) -> (tempfile::TempDir, String, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    report::write(campaign, directory.path()).expect("write the report");
    let read =
        |name: &str| fs::read_to_string(directory.path().join(name)).expect("it was written");
    let texts = (read("report.html"), read("report.md"), read("summary.csv"));
    (directory, texts.0, texts.1, texts.2)
}

#[test]
fn every_panel_has_its_place() {
    let (_directory, html, markdown, csv) = written(&made_up::campaign(MARK));
    let ids = [
        "latency",
        "resources",
        "roles",
        "closed",
        "curve",
        "chaos",
        "spectrum",
        "runs",
        "modes",
        "differences",
        "validity",
        "manifest",
        "raw",
    ];
    for id in ids {
        assert!(html.contains(&format!("<section id=\"{id}\">")), "no panel {id}");
    }
    assert!(!html.contains(MARK), "others' text is markup");
    assert!(
        !html.contains("http://") && !html.contains("https://"),
        "something comes from elsewhere"
    );
    assert!(
        html.contains("× HAProxy CPU per request and proxy at 2,000/s; +"),
        "the answer is not at the top"
    );
    assert!(html.contains("the generator was late"), "an invalid repetition has no reason");
    assert!(
        markdown.contains("× HAProxy CPU per request")
            && markdown.contains("leno bench run scenarios/quick.yaml")
    );
    assert!(!markdown.contains(MARK));
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some(
            "scenario,mesh,load,mode,arrival,connections,protocol,rate,metric,value,lo,hi,n,quotable"
        )
    );
    let p99 = csv.lines().find(|line| {
        line.starts_with("quick,leno,main,honest,poisson,32,http1,2000.0,response.p99_ms,")
    });
    assert_eq!(p99.expect("a line for every figure").split(',').count(), 14);
}

/// What a report calls its answer.
fn headline(html: &str) -> &str {
    let head = html.split("<h1>").nth(1).expect("a headline");
    head.split("<div class=\"strip\">").next().expect("something before the small figures")
}

#[test]
fn the_headline_names_losses_and_nothing_within_the_noise() {
    let mut campaign = made_up::campaign("");
    for one in &mut campaign.compare {
        let meshes = [one.a.as_str(), one.b.as_str()];
        let is_pair = |other: &str| meshes.contains(&"leno") && meshes.contains(&other);
        if one.metric == "p99_ms" && is_pair("haproxy") {
            one.effect = if one.b == "leno" { "worse" } else { "better" }.into();
            one.ratio = Some(if one.b == "leno" { 1.66 } else { 1.0 / 1.66 });
        }
        if one.metric == "p50_ms" && is_pair("none") {
            one.effect = "same".into();
        }
        if one.metric == "proxy.cpu_us_per_traversal" && is_pair("haproxy") {
            one.effect = "same".into();
        }
    }
    let (_directory, html, markdown, _) = written(&campaign);
    for text in [headline(&html), &markdown] {
        assert!(text.contains("Worse than HAProxy: ") && text.contains("(1.66 ×)"), "{text}");
        assert!(!text.contains("ms p50 over no mesh"), "{text}");
        assert!(text.contains("the same CPU per request and proxy as HAProxy, within noise"));
    }
}

#[test]
fn a_failed_assertion_does_not_make_a_measurement_a_bad_one() {
    let mut campaign = made_up::campaign("");
    campaign.verdict = "fail".into();
    campaign.verdict_reasons = vec!["leno main: p99_ms <= 1 does not hold: 2.0000".into()];
    let (_directory, html, markdown, _) = written(&campaign);
    assert!(html.contains("verdict pass") && html.contains(">VALID<"), "{}", headline(&html));
    assert!(!html.contains("verdict fail") && !headline(&html).contains("does not hold"));
    assert!(markdown.starts_with("## leno bench `quick`: valid\n"), "{markdown}");
    campaign.verdict = "invalid".into();
    campaign.verdict_reasons.push("leno grpc: no repetition may be quoted: late".into());
    let (_directory, html, ..) = written(&campaign);
    assert!(html.contains("verdict invalid") && headline(&html).contains("quoted: late"));
}

#[test]
fn what_was_not_measured_is_not_drawn() {
    let mut campaign = made_up::campaign("");
    campaign.cells.retain(|cell| cell.load == "saturated" && cell.mesh == "none");
    campaign.compare.clear();
    campaign.published_check.clear();
    let (_directory, html, ..) = written(&campaign);
    for id in ["latency", "resources", "chaos", "modes", "differences"] {
        assert!(!html.contains(&format!("<section id=\"{id}\">")), "an empty panel {id}");
    }
    assert!(html.contains("<section id=\"closed\">"));
    let nothing =
        Campaign { schema: SCHEMA.into(), state: "running".into(), ..Campaign::default() };
    let (_directory, html, markdown, csv) = written(&nothing);
    assert!(html.contains("Nothing has been measured yet.") && !html.contains("<svg"));
    assert!(markdown.contains("still running") && csv.lines().count() == 1);
}

#[test]
fn latencies_over_time_are_drawn_where_their_logs_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut campaign = made_up::campaign("");
    let run = &mut campaign.cells[0].runs[0];
    run.series_1s.hlog = "run1.hlog".into();
    let seconds = (0..6).map(|at_s| {
        let mut second = Second { at_s, ..Second::default() };
        (1..400_u64).for_each(|step| second.response.record(step * 40_000 * (at_s + 1)));
        second
    });
    let outcome = Outcome { seconds: seconds.collect(), duration_s: 6.0, ..Outcome::default() };
    for log in [None, Some("no log at all".to_owned()), Some(hlog::write(&outcome))] {
        let is_drawn = log.as_ref().is_some_and(|log| log.starts_with('#'));
        if let Some(log) = log {
            fs::write(directory.path().join("run1.hlog"), log).expect("write it");
        }
        report::write(&campaign, directory.path()).expect("write the report");
        let html = fs::read_to_string(directory.path().join("report.html")).expect("written");
        assert_eq!(html.contains("<section id=\"heat\">"), is_drawn);
        assert_eq!(html.contains("class=\"heat h"), is_drawn);
        assert!(html.contains("<a href=\"run1.hlog\" download>1</a>"), "the log is no link");
    }
}

#[test]
fn a_result_is_read_and_reported_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("result.json");
    let keep = |campaign: &Campaign, file: &Path| {
        fs::write(file, serde_json::to_vec(campaign).expect("it is JSON")).expect("write it");
    };
    keep(&Campaign { schema: SCHEMA.into(), ..Campaign::default() }, &file);
    for place in [directory.path(), file.as_path()] {
        let written = report::again(place).expect("it is a result");
        assert!(written.len() == 3 && written.iter().all(|path| path.exists()));
    }
    keep(&Campaign { schema: "leno-bench/result/v2".into(), ..Campaign::default() }, &file);
    let refused = format!("{:#}", report::again(&file).expect_err("another version"));
    assert!(refused.contains("leno-bench/result/v2"), "{refused}");
}
