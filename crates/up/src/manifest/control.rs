//! What the control plane says of manifests: routes and policies are its business, and so are references between objects.
//!
//! `leno-control check` is asked as a program, so that its code and its types stay in the control plane.

use super::{Problem, Weight, suggest};
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A problem as `leno-control check --output json` writes it.
#[derive(Debug, Deserialize)]
struct Found {
    object: String,
    file: PathBuf,
    line: usize,
    field: String,
    message: String,
    refused: bool,
    note: bool,
}

/// The question, for a caller that waits in its own way.
#[must_use]
pub fn question(control: &Path, sources: &[PathBuf]) -> Command {
    let mut command = Command::new(control);
    command.args(["check", "--output", "json"]);
    for source in sources {
        command.arg("--source").arg(source);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The problems in its answer.
///
/// # Errors
/// It is not what `leno-control` of this version answers.
pub fn answer(output: &std::process::Output) -> io::Result<Vec<Problem>> {
    let found: Vec<Found> = serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("leno-control check ({}): {}", output.status, said.trim()))
    })?;
    let problem = |found: Found| Problem {
        file: found.file,
        line: found.line,
        object: found.object,
        message: match found.message.as_str() {
            "unknown field" => format!("unknown field{}", suggest::of_route(&found.field)),
            _ => found.message,
        },
        field: found.field,
        weight: match (found.refused, found.note) {
            (true, _) => Weight::Error,
            (false, true) => Weight::Note,
            (false, false) => Weight::Warning,
        },
    };
    Ok(found.into_iter().map(problem).collect())
}

/// Asks and waits.
///
/// # Errors
/// The program cannot be run, or answers something else.
pub fn check(control: &Path, sources: &[PathBuf]) -> io::Result<Vec<Problem>> {
    answer(&question(control, sources).output()?)
}
