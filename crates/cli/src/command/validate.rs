//! `leno validate`: what `leno up` and its control plane would say of manifests.

use crate::args::{Problems, Validate};
use crate::output;
use anyhow::{Context as _, ensure};
use leno_up::judge::judge;
use leno_up::manifest::{self, Loaded, Problem, Weight};
use leno_up::supervisor;
use serde::Serialize;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What standard input is called, on the command line and in problems.
const STDIN: &str = "-";

/// A problem as programs read it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    file: String,
    /// Counted from 1; 0 when it is about the whole file.
    line: usize,
    column: usize,
    object: String,
    field: String,
    severity: String,
    message: String,
}

pub(super) fn run(wanted: &Validate) -> anyhow::Result<ExitCode> {
    let taken = Taken::of(&wanted.files)?;
    let mut loaded = manifest::read(&taken.sources);
    judge(&mut loaded, true, true);
    let control = supervisor::program("leno-control").context("routes are read by leno-control")?;
    loaded.add(manifest::control::check(&control, &taken.sources)?);
    let rows: Vec<Row> = {
        let mut problems: Vec<&Problem> = loaded.problems.iter().collect();
        problems.sort_by_key(|problem| (&problem.file, problem.line));
        problems.into_iter().map(|problem| taken.row(&loaded, problem)).collect()
    };
    match wanted.output {
        Problems::Json => output::print(&format!("{}\n", serde_json::to_string_pretty(&rows)?))?,
        Problems::Table => output::print_verdicts(&rows.iter().map(text).collect::<String>())?,
    }
    let worst = loaded.problems.iter().map(|problem| problem.weight).max();
    let is_bad = worst >= Some(if wanted.strict { Weight::Warning } else { Weight::Error });
    if !is_bad && wanted.output == Problems::Table {
        match loaded.texts.len() {
            1 => eprintln!("leno: 1 manifest is valid"),
            many => eprintln!("leno: {many} manifests are valid"),
        }
    }
    Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Paths to read, standard input among them as a file.
struct Taken {
    sources: Vec<PathBuf>,
    stdin: Option<PathBuf>,
}

impl Taken {
    fn of(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut taken = Self { sources: files.to_vec(), stdin: None };
        let Some(at) = files.iter().position(|file| file == Path::new(STDIN)) else {
            return Ok(taken);
        };
        let mut text = String::new();
        let max = leno_runtime::regular_file::BYTES_MAX;
        std::io::stdin().lock().take(max + 1).read_to_string(&mut text)?;
        ensure!(text.len() as u64 <= max, "standard input is larger than {} MiB", max >> 20);
        let place = std::env::temp_dir().join(format!("leno-validate-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&place)?;
        let file = place.join("stdin.yaml");
        std::fs::write(&file, text)?;
        taken.sources[at] = file.clone();
        taken.stdin = Some(file);
        Ok(taken)
    }

    fn row(&self, loaded: &Loaded, problem: &Problem) -> Row {
        let of_file = loaded.texts.iter().find(|text| text.file == problem.file);
        let line = of_file.and_then(|text| text.text.lines().nth(problem.line.checked_sub(1)?));
        let file = problem.file.display().to_string();
        let is_stdin = self.stdin.as_ref() == Some(&problem.file);
        Row {
            file: if is_stdin { STDIN.to_owned() } else { file },
            line: problem.line,
            column: line.map_or(0, |line| column(line, &problem.field)),
            object: problem.object.clone(),
            field: problem.field.clone(),
            severity: problem.weight.to_string(),
            message: problem.message.clone(),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(place) = self.stdin.as_deref().and_then(Path::parent) {
            drop(std::fs::remove_dir_all(place));
        }
    }
}

/// Where the last name of a field stands in its line; otherwise where the line begins. Counted from 1.
fn column(line: &str, field: &str) -> usize {
    let name = field
        .rsplit(['.', ']'])
        .find(|part| !part.is_empty() && !part.starts_with(|c: char| c.is_ascii_digit()));
    let name = name.map(|name| name.split('[').next().unwrap_or(name));
    let start = line.len() - line.trim_start_matches([' ', '-']).len();
    let at = name.and_then(|name| line.find(&format!("{name}:"))).unwrap_or(start);
    line[..at].chars().count() + 1
}

fn text(row: &Row) -> String {
    let place = if row.line == 0 { String::new() } else { format!("{}:{}:", row.line, row.column) };
    let parts = [row.severity.as_str(), &row.object, &row.field, &row.message];
    let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{}:{place} {}\n", row.file, said.join(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_fields() {
        for (line, field, expected) in [
            ("  replcas: 2", "spec.replcas", 3),
            ("    - name: a", "spec.containers.0.name", 7),
            ("    - {name: a, wieght: 5}", "spec.rules[0].backendRefs[1].wieght", 17),
            ("    - name: a", "spec.containers[0]", 7),
            ("spec:", "", 1),
        ] {
            assert_eq!(column(line, field), expected, "{line:?} {field}");
        }
    }
}
