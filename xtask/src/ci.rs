//! `cargo xtask ci`: every check and every test, quick ones first. `make test` is this.
//!
//! Dependencies are compiled twice and not three times: once for clippy (no code), once for build and tests,
//! which ask for the same packages, targets and features and so share everything.

use crate::command::{self, is_root};
use crate::{dashboard, fences, grafana, pages, prose, setup};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Command;
use std::time::Instant;

/// Of clippy, build and tests alike: other features would be other builds.
const EVERYTHING: [&str; 3] = ["--locked", "--workspace", "--all-features"];

/// Runs all of it, up to the first failure; all tests are run whatever fails.
pub(crate) fn run() -> Result<()> {
    let began = Instant::now();
    if !is_root() {
        bail!(
            "whole-mesh tests make network namespaces, which takes root. Run\n\n    sudo make test\n"
        );
    }
    setup::test()?;
    command::step(&mut command::cargo(&["fmt", "--all", "--check"]))?;
    eprintln!("\n+ fences");
    fences::run()?;
    eprintln!("\n+ prose");
    prose::run(&[])?;
    eprintln!("\n+ dashboard");
    dashboard::run(false)?;
    grafana::run(false)?;
    let clippy = [&["clippy"], &EVERYTHING[..], &["--all-targets", "--", "-D", "warnings"]];
    command::step(&mut command::cargo(&clippy.concat()))?;
    let build = [&["build"], &EVERYTHING[..], &["--bins", "--tests"]];
    command::step(&mut command::cargo(&build.concat()))?;
    eprintln!("\n+ pages");
    pages::run(false)?;
    tests()?;
    // Cargo has just built this program anew, with all that it can do.
    let mut instructions = Command::new(command::target_directory()?.join("debug/xtask"));
    command::step(instructions.args(["instructions", "--built"]))?;
    eprintln!("\nAll is well, after {:.0} s.", began.elapsed().as_secs_f64());
    Ok(())
}

fn tests() -> Result<()> {
    let list = [&["nextest", "list"], &EVERYTHING[..], &["--message-format", "json"]];
    let list = command::output(&mut command::cargo(&list.concat()))?;
    let (count, ignored) = count(&list)?;
    if !ignored.is_empty() {
        bail!("a test that is skipped is a test that fails: {}", ignored.join(", "));
    }
    if count == 0 {
        bail!("there are no tests");
    }
    let run = [&["nextest", "run"], &EVERYTHING[..]];
    command::step(&mut command::where_all_may_enter(&run.concat())?)?;
    // Examples in documentation, which nextest does not run.
    let doc = [&["test", "--quiet", "--doc"], &EVERYTHING[..]];
    command::step(&mut command::cargo(&doc.concat()))
}

/// How many tests there are, and which of them are ignored.
fn count(list: &str) -> Result<(usize, Vec<String>)> {
    let list: Value = serde_json::from_str(list).context("the list of tests")?;
    let suites = list["rust-suites"].as_object().context("a list of suites")?;
    let mut count = 0;
    let mut ignored = Vec::new();
    for (suite, content) in suites {
        for (name, test) in content["testcases"].as_object().into_iter().flatten() {
            count += 1;
            if test["ignored"] == Value::Bool(true) {
                ignored.push(format!("{suite} {name}"));
            }
        }
    }
    Ok((count, ignored))
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn ignored_tests_are_found() {
        let list = r#"{"rust-suites": {"a": {"testcases": {"x": {"ignored": false}, "y": {"ignored": true}}}, "b": {"testcases": {}}}}"#;
        assert_eq!(count(list).unwrap(), (2, vec!["a y".to_owned()]));
    }
}
