//! What a campaign proves: assertions, published figures beside ours, the verdict. Pure.

mod windows;

use crate::result::{Assertion, Campaign, Cell, Published};
use crate::scenario::Scenario;
use crate::scenario::rules::{self, Figure};
use crate::scenario::windows::WHOLE;
use crate::statistics;
use std::time::Duration;

/// Fills `assertions`, `published_check`, `verdict` and its reasons.
pub(crate) fn judge(campaign: &mut Campaign, scenario: &Scenario) {
    let mut assertions = Vec::new();
    for assertion in &scenario.assertions {
        assertions.extend(assert(assertion, &campaign.cells));
    }
    campaign.assertions = assertions;
    campaign.published_check = published(scenario, &campaign.cells);
    (campaign.verdict, campaign.verdict_reasons) = verdict(campaign);
}

/// One assertion in every cell that it is about.
fn assert(assertion: &rules::Assertion, cells: &[Cell]) -> Vec<Assertion> {
    let any = |names: &[String], is: &dyn Fn(&str) -> bool| {
        names.is_empty() || names.iter().any(|name| is(name))
    };
    let versus = assertion.versus.as_deref().map(|name| mesh_named(name, cells));
    let meant = cells.iter().filter(|cell| {
        let is_reference = versus == Some(cell.mesh.as_str());
        any(&assertion.meshes, &|name| name == cell.mesh || name == kind_of(&cell.mesh))
            && any(&assertion.loads, &|name| name == cell.load)
            && !is_reference
            && !is_aa(cell)
            // What no repetition stands behind is invalid, not failed.
            && cell.runs.iter().any(|run| run.valid)
    });
    let mut found = Vec::new();
    for cell in meant {
        let reference = match (&assertion.beside, versus) {
            (Some(beside), _) => Some(windows::beside(beside, cell, cells)),
            (None, Some(mesh)) => Some(under(mesh, cell, cells)),
            (None, None) => None,
        };
        // A mesh that was not run, or of which nothing may be quoted, cannot be compared with.
        let nothing = |cell: &Cell| !cell.runs.iter().any(|run| run.valid);
        if reference.is_some_and(|reference| reference.is_none_or(nothing)) {
            continue;
        }
        let observed = observe(assertion, assertion.window.as_deref(), cell);
        let window = match &assertion.beside {
            Some(beside) => beside.window.as_deref().or(assertion.window.as_deref()),
            None => assertion.window.as_deref(),
        };
        let base = reference.flatten().and_then(|cell| observe(assertion, window, cell));
        found.push(Assertion {
            expr: match base {
                Some(base) => {
                    format!("{} ({} {base:.4})", assertion.spoken(), assertion.reference())
                }
                None => assertion.spoken(),
            },
            cell: format!("{} {}", cell.mesh, statistics::cell_words(cell)),
            observed,
            pass: observed.is_some_and(|observed| holds(assertion, observed, base)),
        });
    }
    found
}

/// The cell of another mesh under the same parameters.
fn under<'a>(mesh: &str, cell: &Cell, cells: &'a [Cell]) -> Option<&'a Cell> {
    let words = statistics::cell_words(cell);
    cells.iter().find(|other| other.mesh == mesh && statistics::cell_words(other) == words)
}

/// `linkerd` of `linkerd=/opt/linkerd2-proxy+workers=2`: files name meshes, command lines say which program, too.
fn kind_of(mesh: &str) -> &str {
    mesh.split(['=', '+']).next().unwrap_or(mesh)
}

/// The mesh that a file means: the one of exactly this name, or else the first of this kind.
fn mesh_named<'a>(name: &'a str, cells: &'a [Cell]) -> &'a str {
    let meshes = || cells.iter().map(|cell| cell.mesh.as_str());
    let found = meshes().find(|mesh| *mesh == name);
    found.or_else(|| meshes().find(|mesh| kind_of(mesh) == name)).unwrap_or(name)
}

fn is_aa(cell: &Cell) -> bool {
    cell.params.contains_key("aa")
}

fn holds(assertion: &rules::Assertion, observed: f64, base: Option<f64>) -> bool {
    let against = |bound: Option<f64>, limit: &dyn Fn(f64, f64) -> f64| match (bound, base) {
        (None, _) => true,
        (Some(bound), Some(base)) => observed <= limit(base, bound),
        (Some(_), None) => false,
    };
    assertion.max.is_none_or(|max| observed <= max)
        && assertion.min.is_none_or(|min| observed >= min)
        && against(assertion.added_max, &|base, added| base + added)
        && against(assertion.ratio_max, &|base, ratio| base * ratio)
        && assertion.ratio_min.is_none_or(|ratio| base.is_some_and(|base| observed >= base * ratio))
}

/// The measured value of the assertion's metric; `None` if there is none.
fn observe(assertion: &rules::Assertion, window: Option<&str>, cell: &Cell) -> Option<f64> {
    if assertion.is_of_window() {
        return windows::observe(assertion, window.unwrap_or(WHOLE), cell);
    }
    match assertion.metric.as_str() {
        "failed_ratio_1s" => worst_second(cell, assertion.except.as_ref()),
        "recovery_s" => slowest_recovery(cell),
        metric => statistics::metric(cell, metric).map(|estimate| estimate.v),
    }
}

/// The largest share of failures in any second, but for those that follow an excepted event.
fn worst_second(cell: &Cell, except: Option<&(String, Duration)>) -> Option<f64> {
    let mut worst: Option<f64> = None;
    for run in cell.runs.iter().filter(|run| run.valid) {
        let series = &run.series_1s;
        let phase_s = run.phases.get("measure").copied().unwrap_or(f64::INFINITY);
        for (index, (rps, failed)) in series.rps.iter().zip(&series.errors).enumerate() {
            let at = index as f64 * series.step_s;
            let excepted = except.is_some_and(|(kind, length)| {
                run.events.iter().filter(|event| event.kind == *kind).any(|event| {
                    let until = event.t + length.as_secs_f64();
                    at + series.step_s > event.t && at < until
                })
            });
            if !excepted {
                // Answers of 500 and above are in both.
                let unanswered =
                    failed.saturating_sub(series.failed_answers.get(index).copied().unwrap_or(0));
                let all = rps * series.length_s(index, phase_s) + unanswered as f64;
                worst = Some(worst.unwrap_or(0.0).max(*failed as f64 / all.max(1.0)));
            }
        }
    }
    worst
}

/// The slowest recovery; nothing where some event's failures never ended, 0 where nothing failed.
fn slowest_recovery(cell: &Cell) -> Option<f64> {
    let events = cell.runs.iter().filter(|run| run.valid).flat_map(|run| &run.events);
    let recoveries: Option<Vec<f64>> =
        events.map(|event| if event.failed == 0 { Some(0.0) } else { event.recovery_s }).collect();
    Some(recoveries?.into_iter().fold(0.0, f64::max))
}

/// Each published figure beside ours, in honest mode and in the study's own.
fn published(scenario: &Scenario, cells: &[Cell]) -> Vec<Published> {
    let mut found = Vec::new();
    for figure in &scenario.published.figures {
        let mesh = mesh_named(&figure.mesh, cells);
        let matching = |honest: bool| {
            cells.iter().find(|cell| {
                (cell.mode == "honest") == honest
                    && !is_aa(cell)
                    && cell.mesh == mesh
                    && belongs(figure, cell)
            })
        };
        let (honest, compat) = (matching(true), matching(false));
        let params = figure.params.iter().map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> = std::iter::once(figure.load.clone()).chain(params).collect();
        for (metric, published) in &figure.metrics {
            let ours = |cell: Option<&Cell>| Some(statistics::metric(cell?, metric)?.v);
            found.push(Published {
                mesh: figure.mesh.clone(),
                cell: words.join(" "),
                metric: metric.clone(),
                published: *published,
                observed: ours(honest),
                observed_compat: ours(compat),
            });
        }
    }
    found
}

fn belongs(figure: &Figure, cell: &Cell) -> bool {
    let agrees = |(name, value): (&String, &f64)| {
        cell.params.get(name).and_then(serde_json::Value::as_f64).is_some_and(|ours| ours == *value)
    };
    figure.load == cell.load && figure.params.iter().all(agrees)
}

/// `invalid` where a cell has no repetition that may be quoted, `fail` where an assertion does not hold, else `pass`.
fn verdict(campaign: &Campaign) -> (String, Vec<String>) {
    let name = |cell: &Cell| format!("{} {}", cell.mesh, statistics::cell_words(cell));
    let mut invalid = Vec::new();
    let is_ended_early = !matches!(campaign.state.as_str(), "running" | "finished");
    if is_ended_early && campaign.cells.iter().all(|cell| cell.runs.is_empty()) {
        invalid.push("no repetition was finished".to_owned());
    }
    for cell in &campaign.cells {
        if cell.runs.is_empty() && campaign.state == "finished" {
            invalid.push(format!("{}: was not run", name(cell)));
        } else if !cell.runs.is_empty() && !cell.runs.iter().any(|run| run.valid) {
            let mut reasons: Vec<&str> =
                cell.runs.iter().flat_map(|run| &run.invalid_reasons).map(String::as_str).collect();
            reasons.sort_unstable();
            reasons.dedup();
            reasons.truncate(3);
            invalid.push(format!("{}: no repetition is valid: {}", name(cell), reasons.join("; ")));
        }
    }
    let failed = campaign.assertions.iter().filter(|assertion| !assertion.pass).map(|assertion| {
        let seen = match assertion.observed {
            Some(seen) => format!("{seen:.4}"),
            None if assertion.expr.starts_with("recovery_s") => {
                "failures went on to the end".to_owned()
            }
            None => "nothing to see".to_owned(),
        };
        format!("{}: {} does not hold: {seen}", assertion.cell, assertion.expr)
    });
    let failed: Vec<String> = failed.collect();
    let verdict = match (invalid.is_empty(), failed.is_empty()) {
        (false, _) => "invalid",
        (true, false) => "fail",
        (true, true) => "pass",
    };
    (verdict.to_owned(), [invalid, failed].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Estimate, Event, Run, Series};

    fn cell(mesh: &str, p99: f64, valid: bool) -> Cell {
        let run = Run {
            valid,
            invalid_reasons: if valid { Vec::new() } else { vec!["late".into()] },
            series_1s: Series {
                rps: vec![100.0, 100.0, 100.0, 100.0],
                errors: vec![0, 50, 1, 0],
                ..Series::default()
            },
            events: vec![Event {
                t: 1.2,
                kind: "kill".into(),
                recovery_s: Some(1.8),
                failed: 51,
                ..Event::default()
            }],
            ..Run::default()
        };
        let mut cell = Cell {
            mesh: mesh.into(),
            load: "main".into(),
            mode: "honest".into(),
            runs: vec![run],
            ..Cell::default()
        };
        cell.params.insert("rate".into(), 20.into());
        cell.summary.merged.insert("p99".into(), Estimate { v: p99, n: 1, ..Estimate::default() });
        cell
    }

    fn scenario(assertion: &str) -> Scenario {
        let text = format!(
            "apiVersion: leno-bench/v1\nkind: Scenario\nmetadata: {{id: a, title: A}}\ntopology: {{manifests: [a]}}\n\
             meshes: [none]\nphases: {{measure: 9s}}\nloads: [{{name: main, target: http://x/, rate: 20}}]\n\
             timeline: [{{at: 1s, do: {{kill: {{workload: x}}}}}}]\n\
             assert: [{assertion}]\n\
             published: {{source: s, figures: [{{mesh: leno, load: main, rate: 20, metrics: {{p99: 7}}}}]}}\n"
        );
        crate::scenario::parse(std::path::Path::new("a.yaml"), &text)
            .unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
    }

    #[test]
    fn assertions() {
        check("{metric: p99, max: 3ms}", "none=ok leno=no fail");
        check("{metric: p99, max: 3, mesh: none}", "none=ok pass");
        check("{metric: p99, versus: none, added_max: 1ms}", "leno=no fail");
        check("{metric: p99, versus: none, added_max: 2}", "leno=ok pass");
        check("{metric: p99, versus: none, ratio_max: 2}", "leno=ok pass");
        check("{metric: p99, versus: envoy, ratio_max: 2}", "pass");
        check("{metric: failed_ratio_1s, max: 0.1%, mesh: leno}", "leno=no fail");
        check(
            "{metric: failed_ratio_1s, max: 0.1%, mesh: leno, except: {after: kill, for: 500ms}}",
            "leno=no fail",
        );
        check(
            "{metric: failed_ratio_1s, max: 0.1%, mesh: leno, except: {after: kill, for: 1s}}",
            "leno=ok pass",
        );
        check("{metric: recovery_s, max: 2, mesh: leno}", "leno=ok pass");
        check("{metric: rps, min: 5, mesh: leno}", "leno=no fail");
    }

    #[test]
    fn who_never_recovers_is_told_so() {
        let mut ill = cell("leno", 4.0, true);
        ill.runs[0].events[0].recovery_s = None;
        let mut campaign =
            Campaign { state: "finished".into(), cells: vec![ill], ..Campaign::default() };
        judge(&mut campaign, &scenario("{metric: recovery_s, max: 2}"));
        let said = "leno main rate=20: recovery_s <= 2 does not hold: failures went on to the end";
        assert_eq!(campaign.verdict_reasons, [said]);
    }

    #[track_caller]
    fn check(assertion: &str, expected: &str) {
        let mut campaign = Campaign {
            state: "finished".into(),
            cells: vec![cell("none", 2.0, true), cell("leno", 4.0, true)],
            ..Campaign::default()
        };
        judge(&mut campaign, &scenario(assertion));
        let mut seen: Vec<String> = campaign
            .assertions
            .iter()
            .map(|seen| {
                let mesh = seen.cell.split(' ').next().unwrap_or_default();
                format!("{mesh}={}", if seen.pass { "ok" } else { "no" })
            })
            .collect();
        seen.push(campaign.verdict.clone());
        assert_eq!(seen.join(" "), expected, "{assertion}");
        let published = &campaign.published_check[0];
        assert_eq!((published.published, published.observed), (7.0, Some(4.0)));
    }

    #[test]
    fn a_mesh_with_a_program_is_still_that_mesh() {
        let mut campaign = Campaign {
            state: "finished".into(),
            cells: vec![
                cell("none", 2.0, true),
                cell("leno=/old", 8.0, true),
                cell("leno", 4.0, true),
                cell("envoy=/e+workers=2", 5.0, true),
            ],
            ..Campaign::default()
        };
        let seen = |campaign: &Campaign| -> Vec<String> {
            let mesh = |cell: &str| cell.split(' ').next().unwrap_or_default().to_owned();
            campaign
                .assertions
                .iter()
                .map(|one| format!("{} {}", mesh(&one.cell), one.pass))
                .collect()
        };
        judge(&mut campaign, &scenario("{metric: p99, max: 6, mesh: [leno, envoy]}"));
        assert_eq!(seen(&campaign), ["leno=/old false", "leno true", "envoy=/e+workers=2 true"]);
        // The published figure stands beside the mesh of exactly that name.
        assert_eq!(campaign.published_check[0].observed, Some(4.0));
        judge(&mut campaign, &scenario("{metric: p99, versus: envoy, ratio_max: 1, mesh: leno}"));
        assert_eq!(seen(&campaign), ["leno=/old false", "leno true"]);
        judge(&mut campaign, &scenario("{metric: p99, versus: leno, ratio_max: 1.5, mesh: leno}"));
        assert_eq!(seen(&campaign), ["leno=/old false"]);
    }

    #[test]
    fn nothing_is_concluded_from_what_is_invalid() {
        let mut campaign = Campaign {
            state: "finished".into(),
            cells: vec![cell("leno", 4.0, false)],
            ..Campaign::default()
        };
        judge(&mut campaign, &scenario("{metric: p99, max: 3ms}"));
        assert!(campaign.assertions.is_empty());
        assert_eq!(campaign.verdict, "invalid");
        assert_eq!(campaign.verdict_reasons, ["leno main rate=20: no repetition is valid: late"]);
    }

    #[test]
    fn a_run_without_a_repetition_is_not_a_pass() {
        let check = |state: &str, runs: bool, expected: &str| {
            let mut cells = vec![cell("leno", 1.0, true)];
            if !runs {
                cells[0].runs.clear();
            }
            let campaign = Campaign { state: state.into(), cells, ..Campaign::default() };
            assert_eq!(verdict(&campaign).0, expected, "{state} {runs}");
        };
        check("interrupted", false, "invalid");
        check("interrupted", true, "pass");
        check("finished", false, "invalid");
        check("running", false, "pass");
    }
}
