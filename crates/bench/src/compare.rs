//! `leno bench compare A B`: what changed from one result to another beyond the noise, as a table and an exit code.
//!
//! Cells are the same when mesh, load, mode and parameters are. Two campaigns share no blocks, so their repetitions are
//! not paired, and the noise band holds what moves a whole campaign's repetitions ([`crate::statistics`]).

use crate::report::{self, Row, Versus};
use crate::result::{Campaign, Cell};
use crate::statistics::{self, Change, Effect};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Columns of the table.
const COLUMNS: usize = 8;
/// Nothing got worse.
const PASS: u8 = 0;
/// Something got worse beyond the noise band, or an assertion of the second result failed.
const WORSE: u8 = 1;
/// One of the results cannot be stood behind, or they have nothing to compare.
const INVALID: u8 = 2;

/// Two results, compared.
#[derive(Debug, Default)]
pub struct Compared {
    /// Names of the campaigns.
    campaigns: [String; 2],
    cells: Vec<(String, Vec<Change>)>,
    /// Cells that only one of them has.
    alone: [Vec<String>; 2],
    /// Why a result cannot be stood behind.
    invalid: Vec<String>,
    /// Assertions of the second result that failed.
    failed: Vec<String>,
    /// The machines, where they were not the same one.
    machines: Vec<String>,
}

/// Reads a result: the file itself, or the directory that it is in.
///
/// # Errors
/// It cannot be read, is not a result, or has another version.
pub fn read(path: &Path) -> Result<Campaign, String> {
    let file: PathBuf = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let shown = file.display();
    let text = std::fs::read(&file).map_err(|error| format!("{shown}: {error}"))?;
    report::parse(&text).map_err(|error| format!("{shown}: {error}"))
}

/// Compares two results. A change of less than `tolerance` (0.02 is 2 %) is never called one, whatever the noise.
#[must_use]
pub fn compare(a: &Campaign, b: &Campaign, tolerance: f64) -> Compared {
    let mut compared = Compared {
        campaigns: [a.campaign.clone(), b.campaign.clone()],
        alone: [alone(a, b), alone(b, a)],
        failed: b
            .assertions
            .iter()
            .filter(|assertion| !assertion.pass)
            .map(|assertion| format!("{} ({})", statistics::spoken(assertion), assertion.cell))
            .collect(),
        machines: machines(a, b),
        ..Compared::default()
    };
    for campaign in [a, b] {
        if campaign.verdict == "invalid" {
            let reasons = campaign.verdict_reasons.join("; ");
            compared.invalid.push(format!("{}: {reasons}", campaign.campaign));
        }
    }
    for cell in &a.cells {
        let Some(other) = b.cells.iter().find(|other| is_same(cell, other)) else { continue };
        for (campaign, cell) in [(a, cell), (b, other)] {
            if !cell.runs.iter().any(|run| run.valid) {
                let name = name(cell);
                let reason = format!("{}: {name}: no valid repetition", campaign.campaign);
                compared.invalid.push(reason);
            }
        }
        let changes = statistics::changes(cell, other, tolerance, a.manifest.seed);
        compared.cells.push((name(cell), changes));
    }
    let all = compared.cells.iter_mut().flat_map(|(_, changes)| changes);
    statistics::correct_changes(all);
    let told = compared.changes().any(|(_, change)| change.effect != Effect::Unknown);
    if compared.invalid.is_empty() && !told {
        let reason = "nothing can be compared: no cell in common has three repetitions in both";
        compared.invalid.push(reason.to_owned());
    }
    compared
}

/// Processor and kernel of both, where they differ: then it is not the mesh alone that was changed.
fn machines(a: &Campaign, b: &Campaign) -> Vec<String> {
    let machine = |campaign: &Campaign| {
        let known = ["cpu", "cores", "kernel"].map(|key| {
            let value = campaign.manifest.host.get(key)?;
            Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        });
        known.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let (before, after) = (machine(a), machine(b));
    if before == after {
        return Vec::new();
    }
    vec![format!("before on {before}; after on {after}")]
}

/// The cells of one that the other does not have.
fn alone(one: &Campaign, other: &Campaign) -> Vec<String> {
    let missing = |cell: &&Cell| !other.cells.iter().any(|known| is_same(cell, known));
    one.cells.iter().filter(missing).map(name).collect()
}

fn is_same(a: &Cell, b: &Cell) -> bool {
    a.mesh == b.mesh && a.load == b.load && a.mode == b.mode && a.params == b.params
}

fn name(cell: &Cell) -> String {
    format!("{} {}", cell.mesh, statistics::cell_words(cell)).trim_end().to_owned()
}

impl Compared {
    fn changes(&self) -> impl Iterator<Item = (&str, &Change)> {
        self.cells
            .iter()
            .flat_map(|(cell, changes)| changes.iter().map(move |change| (cell.as_str(), change)))
    }

    fn count(&self, effect: Effect) -> usize {
        self.changes().filter(|(_, change)| change.effect == effect).count()
    }

    /// 0 nothing got worse, 1 something did (or an assertion failed), 2 a result cannot be stood behind.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if !self.invalid.is_empty() {
            INVALID
        } else if self.count(Effect::Worse) > 0 || !self.failed.is_empty() {
            WORSE
        } else {
            PASS
        }
    }

    /// For people: what changed, then everything that did not, then what could not be compared.
    #[must_use]
    pub fn table(&self) -> String {
        let mut rows: Vec<[String; COLUMNS]> = vec![
            ["cell", "metric", "before", "after", "change", "noise", "p (Holm)", "effect"]
                .map(str::to_owned),
        ];
        let mut changes: Vec<(&str, &Change)> = self.changes().collect();
        // Stable: cells stay together within worse, better, same and unknown.
        changes.sort_by_key(|(_, change)| match change.effect {
            Effect::Worse => 0,
            Effect::Better => 1,
            Effect::Same => 2,
            Effect::Unknown => 3,
        });
        rows.extend(changes.into_iter().map(|(cell, change)| row(cell, change)));
        let mut text =
            format!("{} -> {}\n\n{}", self.campaigns[0], self.campaigns[1], aligned(&rows));
        // Writing to a string cannot fail.
        let _written = writeln!(text, "\n{}", self.headline());
        for note in self.notes() {
            let _written = writeln!(text, "{note}");
        }
        text
    }

    /// `3 worse, 5 better, 40 same`.
    fn headline(&self) -> String {
        let (worse, better) = (self.count(Effect::Worse), self.count(Effect::Better));
        let (same, unknown) = (self.count(Effect::Same), self.count(Effect::Unknown));
        let mut text = format!("{worse} worse, {better} better, {same} same");
        if unknown > 0 {
            text += &format!(", {unknown} unknown (fewer than three repetitions)");
        }
        text
    }

    /// What else there is to say, a line each.
    fn notes(&self) -> Vec<String> {
        let [only_a, only_b] = &self.alone;
        let notes = [
            ("other machine", &self.machines),
            ("only before", only_a),
            ("only after", only_b),
            ("assertion failed", &self.failed),
            ("invalid", &self.invalid),
        ];
        let lines = |(word, lines): (&str, &Vec<String>)| -> Vec<String> {
            lines.iter().map(|line| format!("{word}: {line}")).collect()
        };
        notes.into_iter().flat_map(lines).collect()
    }

    /// A cell's name without the words that all cells have.
    fn short(&self, cell: &str) -> String {
        let shared = |word: &&str| {
            self.cells.iter().all(|(other, _)| other.split(' ').any(|one| one == *word))
        };
        let own: Vec<&str> = cell.split(' ').filter(|word| !shared(word)).collect();
        if own.is_empty() { cell.to_owned() } else { own.join(" ") }
    }

    /// For a browser: one page that needs nothing else, with a forest plot for each figure.
    #[must_use]
    pub fn html(&self) -> String {
        let row = |(cell, change): (&str, &Change)| {
            let ratio = ratio(change).filter(|ratio| *ratio > 0.0)?;
            let of_a = |value: f64| value / change.a;
            let row = Row {
                label: self.short(cell),
                ratio,
                ci95: change.ci95.map(|[low, high]| [1.0 + of_a(low), 1.0 + of_a(high)]),
                noise: change.noise_band.map(|band| of_a(band).abs()),
                effect: change.effect.to_string(),
                p_holm: change.p_holm,
                values: format!("{} → {}", figure(change.a), figure(change.b)),
            };
            Some((change.metric, row))
        };
        report::versus_page(&Versus {
            before: self.campaigns[0].clone(),
            after: self.campaigns[1].clone(),
            verdict: match self.exit_code() {
                PASS => "pass",
                WORSE => "fail",
                _ => "invalid",
            },
            headline: self.headline(),
            notes: self.notes(),
            rows: self.changes().filter_map(row).collect(),
        })
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let changes: Vec<Value> = self
            .changes()
            .map(|(cell, change)| {
                json!({
                    "cell": cell,
                    "metric": change.metric,
                    "a": change.a,
                    "b": change.b,
                    "diff": change.b - change.a,
                    "ratio": ratio(change),
                    "ci95": change.ci95,
                    "noise_band": change.noise_band,
                    "p": change.p,
                    "p_holm": change.p_holm,
                    "effect": change.effect.to_string(),
                })
            })
            .collect();
        json!({
            "a": self.campaigns[0],
            "b": self.campaigns[1],
            "changes": changes,
            "only_a": self.alone[0],
            "only_b": self.alone[1],
            "assertions_failed": self.failed,
            "invalid": self.invalid,
            "exit_code": self.exit_code(),
        })
    }
}

fn ratio(change: &Change) -> Option<f64> {
    (change.a != 0.0).then(|| change.b / change.a)
}

fn row(cell: &str, change: &Change) -> [String; COLUMNS] {
    let share = |value: f64| match change.a {
        0.0 => "-".to_owned(),
        a => format!("{:.1} %", value / a.abs() * 100.0),
    };
    let sign = if change.b > change.a && change.a != 0.0 { "+" } else { "" };
    [
        cell.to_owned(),
        change.metric.to_owned(),
        figure(change.a),
        figure(change.b),
        format!("{sign}{}", share(change.b - change.a)),
        change.noise_band.map_or_else(|| "-".to_owned(), share),
        change.p_holm.map_or_else(|| "-".to_owned(), |p| format!("{p:.3}")),
        change.effect.to_string(),
    ]
}

/// Four digits that count.
fn figure(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    format!("{value:.*}", usize::try_from(4 - before_point).unwrap_or(0).min(9))
}

/// Columns as wide as their widest word: the first two to the left, figures to the right.
fn aligned(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..COLUMNS).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let words: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (word, width))| match column {
                0 | 1 | 7 => format!("{word:<width$}"),
                _ => format!("{word:>width$}"),
            })
            .collect();
        text.push_str(words.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Assertion, Run, SCHEMA, Used};

    /// A campaign of one cell whose repetitions have these medians, in milliseconds.
    fn campaign(medians_ms: &[f64]) -> Campaign {
        let run = |(index, median_ms): (usize, &f64)| {
            let mut run = Run { block: index + 1, valid: true, ..Run::default() };
            (1..=1_000_u64).for_each(|share| {
                run.hist.response.record((median_ms * 2_000.0) as u64 * share);
            });
            run.counts.started = 1_000;
            run.counts.completed = 1_000;
            run.phases.insert("measure".into(), 2.0);
            run
        };
        let cell = Cell {
            mesh: "leno".into(),
            load: "main".into(),
            runs: medians_ms.iter().enumerate().map(run).collect(),
            ..Cell::default()
        };
        Campaign {
            schema: SCHEMA.into(),
            campaign: "then".into(),
            cells: vec![cell],
            ..Campaign::default()
        }
    }

    const STEADY: [f64; 6] = [1.00, 1.01, 0.99, 1.00, 1.02, 0.98];

    #[test]
    fn exit_codes() {
        let check = |a: &Campaign, b: &Campaign, tolerance: f64, expected: u8| {
            let compared = compare(a, b, tolerance);
            assert_eq!(compared.exit_code(), expected, "{}", compared.table());
        };
        let then = campaign(&STEADY);
        let slower = campaign(&STEADY.map(|median| median * 1.2));
        check(&then, &then.clone(), 0.0, PASS);
        check(&then, &campaign(&[1.01, 1.00, 0.98, 1.02, 1.00, 0.99]), 0.0, PASS);
        check(&then, &slower, 0.0, WORSE);
        check(&slower, &then, 0.0, PASS);
        check(&then, &slower, 0.3, PASS);
        // Noise as large as the change.
        check(&campaign(&[0.6, 1.5, 0.8, 1.3, 1.0, 0.9]), &slower, 0.0, PASS);
        // Too few repetitions for a verdict.
        check(&campaign(&STEADY[..2]), &slower, 0.0, INVALID);
        let mut failed = then.clone();
        let expr = "response.p99 < 1ms".to_owned();
        failed.assertions = vec![Assertion { expr, ..Assertion::default() }];
        check(&then, &failed, 0.0, WORSE);
        // It was so before: not the second result's fault.
        check(&failed, &then, 0.0, PASS);
        let mut invalid = slower.clone();
        invalid.verdict = "invalid".into();
        check(&then, &invalid, 0.0, INVALID);
        check(&invalid, &then, 0.0, INVALID);
        let mut late = then.clone();
        late.cells[0].runs.iter_mut().for_each(|run| run.valid = false);
        check(&then, &late, 0.0, INVALID);
        check(&then, &Campaign::default(), 0.0, INVALID);
    }

    #[test]
    fn neither_the_neighbours_nor_the_generator_are_judged() {
        let with = |generator_s: f64, others_s: f64| {
            let mut campaign = campaign(&STEADY);
            for run in &mut campaign.cells[0].runs {
                let used = |cpu_s| vec![Used { cpu_s, ..Used::default() }];
                run.resources.generator = used(generator_s);
                run.resources.node_residual = used(others_s);
            }
            campaign
        };
        let compared = compare(&with(0.1, 0.1), &with(0.9, 0.9), 0.0);
        assert_eq!(compared.exit_code(), PASS, "{}", compared.table());
        let named = |(_, change): (&str, &Change)| {
            change.metric.starts_with("generator") || change.metric.starts_with("node_residual")
        };
        assert!(!compared.changes().any(named), "{}", compared.table());
    }

    #[test]
    fn a_table_names_what_changed_and_what_is_alone() {
        let then = campaign(&STEADY);
        let mut now = campaign(&STEADY.map(|median| median * 1.5));
        now.campaign = "now".into();
        now.cells.push(Cell { mesh: "envoy".into(), load: "main".into(), ..Cell::default() });
        let compared = compare(&then, &now, 0.0);
        let text = compared.table();
        assert!(text.starts_with("then -> now\n\ncell       metric"), "{text}");
        let first = text.lines().nth(3).expect("a row");
        let words: Vec<&str> = first.split_whitespace().collect();
        assert_eq!(words[..3], ["leno", "main", "p50_ms"], "{text}");
        assert!(words.contains(&"+49.9") && words.last() == Some(&"worse"), "{text}");
        assert!(text.contains("only after: envoy main\n"), "{text}");
        let json = compared.json();
        assert_eq!((&json["exit_code"], &json["only_b"][0]), (&json!(1), &json!("envoy main")));
        assert_eq!(json["changes"][0]["effect"], "worse");
        // Six against six, all apart: 2 of 924, times everything that was compared.
        let (p, holm) = (&json["changes"][0]["p"], &json["changes"][0]["p_holm"]);
        assert!((p.as_f64().expect("a test") - 2.0 / 924.0).abs() < 1e-9, "{p}");
        assert!(holm.as_f64().expect("corrected") > p.as_f64().expect("a test"), "{holm}");
        let html = compared.html();
        assert!(html.contains("only after: envoy main") && html.contains("e-worse"), "{html}");
        assert!(html.contains("<span class=\"badge\">FAIL</span>"), "{html}");
    }

    #[test]
    fn noise_that_is_not_known_is_not_0() {
        let compared = compare(&campaign(&STEADY[..2]), &campaign(&STEADY), 0.02);
        let text = compared.table();
        let first = text.lines().nth(3).expect("a row");
        let words: Vec<&str> = first.split_whitespace().collect();
        assert!(words.ends_with(&["-", "-", "unknown"]), "{text}");
        let json = compared.json();
        assert_eq!(json["changes"][0]["noise_band"], Value::Null, "{json}");
        let html = compared.html();
        assert!(html.contains("unknown") && !html.contains("noise: ±"), "{html}");
    }

    #[test]
    fn another_machine_is_named() {
        let mut then = campaign(&STEADY);
        then.manifest.host.insert("kernel".into(), "6.1".into());
        let mut now = then.clone();
        assert!(!compare(&then, &now, 0.0).table().contains("other machine"));
        now.manifest.host.insert("kernel".into(), "6.2".into());
        let text = compare(&then, &now, 0.0).table();
        assert!(text.contains("other machine: before on 6.1; after on 6.2\n"), "{text}");
    }

    #[test]
    fn figures_keep_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.001_234_56, "0.001235"),
            (1.0, "1.000"),
            (123.456, "123.5"),
            (98_765.4, "98765"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn results_are_read_from_files_and_directories_and_other_versions_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("result.json");
        let check = |text: &str, expected: &str| {
            std::fs::write(&file, text).expect("written");
            let seen = read(place.path()).map(|_| String::new()).unwrap_or_else(|error| error);
            assert!(seen.contains(expected) && seen.is_empty() == expected.is_empty(), "{seen}");
        };
        check("{}", "it has no schema");
        check("nothing", "expected");
        check(r#"{"schema":"leno-bench/result/v2"}"#, "its schema is leno-bench/result/v2");
        check(&format!(r#"{{"schema":"{SCHEMA}"}}"#), "missing field");
        check(&serde_json::to_string(&campaign(&STEADY)).expect("plain"), "");
        assert_eq!(read(&file).expect("the file itself").cells[0].runs.len(), 6);
        assert!(read(&place.path().join("none")).is_err());
    }
}
