//! `kubectl`, from PATH, with the KUBECONFIG of this process.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

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

/// A port of the cluster that is reached on this machine as long as this lives.
pub(crate) struct Forward {
    child: Child,
    /// It says a word on every connection, and ends where nobody listens.
    _out: BufReader<ChildStdout>,
    /// Where.
    pub(crate) address: SocketAddr,
}

/// Reaches a port of a workload, as `deployment/web`.
///
/// # Errors
/// When there is no such workload or port.
pub(crate) fn forward(namespace: &str, workload: &str, port: u16) -> Result<Forward> {
    let mut command = Command::new("kubectl");
    // Any port that is free here.
    command.args(["-n", namespace, "port-forward", workload, &format!(":{port}")]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("kubectl is missing")?;
    let mut out = BufReader::new(child.stdout.take().context("a pipe")?);
    let mut line = String::new();
    out.read_line(&mut line)?;
    let words = line.strip_prefix("Forwarding from ").and_then(|rest| rest.split_once(" -> "));
    let address = words.and_then(|(address, _)| address.parse().ok());
    // Where it says something else it is about to end.
    let address = address.with_context(|| format!("port-forward said {line:?}"))?;
    Ok(Forward { child, _out: out, address })
}

impl Drop for Forward {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn said(words: &[&str], output: &Output) -> Result<String> {
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {}: {}", words.join(" "), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
