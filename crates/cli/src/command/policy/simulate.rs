//! `leno policy simulate`: what a policy would change about traffic that was seen.

use super::{minutes, warn_of_missing};
use crate::args::{Problems, Simulate};
use crate::command::diagnostics::encoded;
use crate::command::explain::{self, exit_code, list, object};
use crate::home::Home;
use crate::output;
use anyhow::{bail, ensure};
use leno_up::manifest;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the control plane takes.
const BYTES_MAX: u64 = 1 << 20;
/// Standard input, on the command line.
const STDIN: &str = "-";

pub(super) fn run(state_dir: Option<&Path>, wanted: &Simulate) -> ExitCode {
    exit_code(simulated(state_dir, wanted))
}

/// Prints the answer; whether nothing that was seen would be denied.
fn simulated(state_dir: Option<&Path>, wanted: &Simulate) -> anyhow::Result<bool> {
    let manifests = read(&wanted.files)?;
    let home = Home::find(state_dir, &wanted.cluster)?;
    let namespace = wanted.namespace.as_deref();
    let query = namespace.map(|name| format!("?namespace={}", encoded(name))).unwrap_or_default();
    let page = home.control_put(&format!("/diagnostics/simulate{query}"), &manifests)?;
    let answer = explain::read(&page)?;
    warn_of_missing(&answer);
    match wanted.output {
        Problems::Json => output::print(&format!("{answer:#}\n"))?,
        Problems::Table => output::print(&text(&answer))?,
    }
    for note in list(&answer["notes"]).iter().filter_map(Value::as_str) {
        eprintln!("leno: note: {note}");
    }
    let problems: Vec<&str> = list(&answer["problems"]).iter().filter_map(Value::as_str).collect();
    let is_denied = !list(&answer["denied"]).is_empty();
    match problems.is_empty() {
        true => Ok(!is_denied),
        false if is_denied => {
            eprintln!("leno: with this policy, objects have mistakes:\n{}", problems.join("\n"));
            Ok(false)
        }
        false => bail!("with this policy, objects have mistakes:\n{}", problems.join("\n")),
    }
}

/// The texts of all files as one manifest.
fn read(files: &[PathBuf]) -> anyhow::Result<String> {
    let (stdin, files): (Vec<PathBuf>, Vec<PathBuf>) =
        files.iter().cloned().partition(|file| file == Path::new(STDIN));
    let mut text = String::new();
    if !stdin.is_empty() {
        std::io::stdin().lock().take(BYTES_MAX + 1).read_to_string(&mut text)?;
    }
    if !files.is_empty() {
        let loaded = manifest::read(&files);
        ensure!(!loaded.texts.is_empty(), "no manifest in {}", shown(&files));
        for one in &loaded.texts {
            let _ = write!(text, "\n---\n{}", one.text);
        }
    }
    ensure!(
        text.len() as u64 <= BYTES_MAX,
        "the manifests are larger than {} MiB",
        BYTES_MAX >> 20
    );
    Ok(text)
}

fn shown(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn text(answer: &Value) -> String {
    let mut text = String::new();
    for (field, title) in [
        ("denied", "Would be denied, and passes today:"),
        ("opened", "Would pass, and is denied today:"),
        ("unknown", "Not known, because the record does not say enough:"),
    ] {
        let changes = list(&answer[field]);
        if !changes.is_empty() {
            let rows: Vec<Vec<String>> = changes.iter().map(row).collect();
            let headings = ["WORKLOAD", "PORT", "CLIENT", "REQUEST", "COUNT", "TODAY", "THEN"];
            let _ = writeln!(text, "{title}\n{}", output::table(&headings, &rows));
        }
    }
    let unseen = list(&answer["unseen"]).iter().map(|one| {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        format!("  {}/{} port {}\n", text("namespace"), text("workload"), one["port"])
    });
    let unseen: String = unseen.collect();
    if !unseen.is_empty() {
        let _ = writeln!(text, "Ports that change, and that nobody reached:\n{unseen}");
    }
    let number = |field: &str| answer[field].as_u64().unwrap_or_default();
    let counts = ["denied", "opened", "unknown"].map(|field| list(&answer[field]).len());
    let [denied, opened, unknown] = counts;
    let reach = minutes(number("reach_seconds"));
    let _ = writeln!(
        text,
        "{denied} denied, {opened} opened, {unknown} not known, {} unchanged kinds of traffic in the last {reach}",
        number("unchanged")
    );
    if number("lost") > 0 {
        let _ = writeln!(
            text,
            "The record was full: it lacks {} requests and connections",
            number("lost")
        );
    }
    text
}

fn row(change: &Value) -> Vec<String> {
    let text = |field: &str| change[field].as_str().unwrap_or_default().to_owned();
    let client = change["client"].as_str().map_or_else(|| text("network"), str::to_owned);
    let request = match change["path"].as_str() {
        None => "connection".to_owned(),
        Some("") => format!("{} (a path with two readings)", text("method")),
        Some(path) => format!("{} {path}", text("method")),
    };
    vec![
        format!("{}/{}", text("namespace"), text("workload")),
        change["port"].to_string(),
        client,
        request,
        change["count"].to_string(),
        verdict(&change["before"]),
        verdict(&change["after"]),
    ]
}

fn verdict(judged: &Value) -> String {
    let verdict = judged["verdict"].as_str().unwrap_or_default();
    match (judged["rule"].is_object(), judged["reason"].as_str()) {
        (true, _) => format!("{verdict} by {}", object(&judged["rule"])),
        (false, Some(reason)) => format!("{verdict}: {reason}"),
        (false, None) => verdict.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_for_each_kind_of_traffic() {
        let rule = json!({"kind": "authorizationpolicy", "namespace": "shop", "name": "b"});
        let allowed = json!({"verdict": "allowed", "rule": rule, "reason": null});
        let denied = json!({"verdict": "denied", "rule": null, "reason": null});
        let change = json!({
            "namespace": "shop", "workload": "deployment/web", "port": 8080, "client": null,
            "network": "10.0.0.0/24", "method": "GET", "path": "/a", "count": 3,
            "before": allowed, "after": denied,
        });
        let answer = json!({
            "denied": [change], "opened": [], "unknown": [], "unchanged": 2, "lost": 0,
            "unseen": [{"namespace": "shop", "workload": "deployment/db", "port": 5432}],
            "reach_seconds": 600, "problems": [],
        });
        let expected = "\
Would be denied, and passes today:
WORKLOAD             PORT  CLIENT       REQUEST  COUNT  TODAY                                  THEN
shop/deployment/web  8080  10.0.0.0/24  GET /a   3      allowed by AuthorizationPolicy shop/b  denied

Ports that change, and that nobody reached:
  shop/deployment/db port 5432

1 denied, 0 opened, 0 not known, 2 unchanged kinds of traffic in the last 10 minutes
";
        assert_eq!(text(&answer), expected);
    }
}
