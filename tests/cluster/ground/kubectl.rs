//! `kubectl`, from PATH, with the KUBECONFIG of this process.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// Runs it to its end, whatever that is.
///
/// # Errors
/// When it cannot be run.
pub(crate) fn output(words: &[&str], input: Option<&str>) -> Result<Output> {
    let mut command = Command::new("kubectl");
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().context("kubectl is missing")?;
    if let Some(text) = input {
        // What it prints meanwhile is a line for each object, and fits into the pipe.
        child.stdin.take().context("a pipe")?.write_all(text.as_bytes())?;
    }
    Ok(child.wait_with_output()?)
}

/// Its standard output.
///
/// # Errors
/// What it says when it fails.
pub(crate) fn run(words: &[&str]) -> Result<String> {
    said(words, &output(words, None)?)
}

/// What it prints as JSON.
///
/// # Errors
/// When it fails.
pub(crate) fn json(words: &[&str]) -> Result<Value> {
    Ok(serde_json::from_str(&run(words)?)?)
}

/// Applies objects.
///
/// # Errors
/// What the API server refuses, in its words.
pub(crate) fn apply(objects: &[Value]) -> Result<String> {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let words = ["apply", "-f", "-"];
    said(&words, &output(&words, Some(&list.to_string()))?)
}

/// Creates an object and leaves no note in it: what is applied later takes nothing away.
///
/// # Errors
/// What the API server refuses.
pub(crate) fn create(object: &Value) -> Result<String> {
    let words = ["create", "-f", "-"];
    said(&words, &output(&words, Some(&object.to_string()))?)
}

/// What would become of an object, which is asked about and not made.
///
/// # Errors
/// What the API server refuses, and the webhook among it.
pub(crate) fn tried(object: &Value) -> Result<Value> {
    let words = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    let said = said(&words, &output(&words, Some(&object.to_string()))?)?;
    Ok(serde_json::from_str(&said)?)
}

fn said(words: &[&str], output: &Output) -> Result<String> {
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {}: {}", words.join(" "), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
