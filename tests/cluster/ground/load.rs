//! Steady requests from a pod of their own, each counted: `leno-worker client`, whose requests are due at their time whatever the answers do.

use crate::ground::node;
use crate::ground::place::Place;
use crate::ground::worker::{IMAGE, account};
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// For a pod that makes a few requests and ends.
const END_WAIT: Duration = Duration::from_secs(90);

/// A pod that sends requests.
pub(crate) struct Load<'a> {
    place: &'a Place,
    pod: String,
    seconds: u64,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) failed: u64,
    pub(crate) rate: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Statuses and failures, and how many of each.
    pub(crate) results: Value,
    /// Who answered.
    pub(crate) workers: Value,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, failed, rate, p50, p99, max, results, .. } = self;
        write!(
            out,
            "{sent} requests at {rate:.0}/s, {failed} failed; p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.0} ms; {results}"
        )
    }
}

impl Outcome {
    /// Nothing failed, and nothing was left out: all that was due was sent.
    #[track_caller]
    pub(crate) fn steady(&self, per_second: u32) {
        assert_eq!(self.failed, 0, "{self}");
        assert!(self.rate > f64::from(per_second) * 0.98, "{self}");
    }
}

impl<'a> Load<'a> {
    /// Starts it; its first request leaves as soon as its proxy is ready.
    pub(crate) fn start(place: &'a Place, url: &str, per_second: u32, seconds: u64) -> Self {
        Self::start_with(place, url, per_second, seconds, &[])
    }

    /// The same, with more flags of `leno-worker client`.
    pub(crate) fn start_with(
        place: &'a Place,
        url: &str,
        per_second: u32,
        seconds: u64,
        flags: &[&str],
    ) -> Self {
        let pod = "load".to_owned();
        let mut object = pod_of(&pod, url, per_second, seconds);
        let command = object["spec"]["containers"][0]["command"].as_array_mut();
        command.expect("a list").extend(flags.iter().map(|&flag| flag.into()));
        place.apply(&[account(&pod), object]);
        place.wait(&format!("pod/{pod}"), "jsonpath={.status.phase}=Running");
        Self { place, pod, seconds }
    }

    /// Ends it now.
    pub(crate) fn stop(self) -> Outcome {
        let process = node::process(&self.place.name, &self.pod, "client").expect("its process");
        kill(process, Signal::SIGTERM).expect("asked to end");
        self.end()
    }

    /// Its end, and what it has counted.
    pub(crate) fn end(self) -> Outcome {
        // Its own time, and some for the start of its pod and the end of its last request.
        self.place.ended(&self.pod, Duration::from_secs(self.seconds + 120));
        let log = self.place.kubectl(&["logs", &self.pod, "-c", "client"]).expect("a log");
        let outcome = read(&log).expect("the load prints what it counted");
        let words = ["delete", "pod", &self.pod, "--wait"];
        self.place.kubectl(&words).expect("the pod is removed");
        outcome
    }
}

fn pod_of(name: &str, url: &str, per_second: u32, seconds: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "serviceAccountName": name,
            "restartPolicy": "Never",
            "containers": [{
                "name": "client",
                "image": IMAGE,
                "command": [
                    "leno-worker", "client", format!("--url={url}"), format!("--rate={per_second}"),
                    format!("--for={seconds}s"), "--report=10s", "--concurrency=200",
                ],
            }],
        },
    })
}

/// Every URL is asked at the same time, so often, by a container of its own in one pod of the account `client`; answers with what
/// each has counted.
pub(crate) fn asked(place: &Place, urls: &[&str], requests: u32, flags: &[&str]) -> Vec<Value> {
    let name = "client";
    let container = |(number, url): (usize, &&str)| {
        let mut command = vec![
            "leno-worker".to_owned(),
            "client".to_owned(),
            format!("--url={url}"),
            format!("--requests={requests}"),
            "--rate=50".to_owned(),
        ];
        command.extend(flags.iter().map(|&flag| flag.to_owned()));
        json!({"name": format!("client-{number}"), "image": IMAGE, "command": command})
    };
    let mut pod = pod_of(name, "", 0, 0);
    pod["spec"]["containers"] = urls.iter().enumerate().map(container).collect();
    place.apply(&[account(name), pod]);
    place.ended(name, END_WAIT);
    let counted = |number: usize| {
        let words = ["logs", name, "-c", &format!("client-{number}")];
        let log = place.kubectl(&words).expect("a log");
        summary(&log).unwrap_or_else(|error| panic!("{error:#}: {log}"))
    };
    let summaries = (0..urls.len()).map(counted).collect();
    place.kubectl(&["delete", "pod", name, "--wait"]).expect("the pod is removed");
    summaries
}

/// What a client prints at its end.
fn summary(log: &str) -> Result<Value> {
    let line = log.lines().rev().find(|line| line.starts_with('{')).context("no line of JSON")?;
    Ok(serde_json::from_str(line)?)
}

fn read(log: &str) -> Result<Outcome> {
    let value = summary(log)?;
    let whole = |name: &str| value[name].as_u64().with_context(|| name.to_owned());
    let real = |name: &str| value[name].as_f64().with_context(|| name.to_owned());
    Ok(Outcome {
        sent: whole("sent")?,
        failed: whole("failed")?,
        rate: real("rate")?,
        p50: real("p50_ms")?,
        p99: real("p99_ms")?,
        max: real("max_ms")?,
        results: value["results"].clone(),
        workers: value["workers"].clone(),
    })
}
