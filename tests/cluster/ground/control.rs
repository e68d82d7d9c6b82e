//! The control plane: its replicas, which of them leads, what each counts.

use crate::ground::kubectl;
use crate::ground::node;
use crate::ground::place::READY_WAIT;
use anyhow::{Context as _, Result, ensure};
use leno_tests::admin::Metrics;
use leno_tests::wait::until;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

const NAMESPACE: &str = "leno";
const DEPLOYMENT: &str = "deployment/leno-control";
const LABEL: &str = "app.kubernetes.io/name=leno-control";
/// Where a replica shows what it counts.
const ADMIN_PORT: u16 = 9990;
/// For a replica to end: streams of proxies may take 30 s to move.
const END_WAIT: Duration = Duration::from_secs(90);

/// There are more replicas than one as long as this lives.
pub(crate) struct Replicas;

/// So many replicas, all ready.
pub(crate) fn replicas(count: u32) -> Replicas {
    let more = Replicas;
    scale(count).expect("scaled");
    rolled_out().expect("all replicas get ready");
    more
}

impl Drop for Replicas {
    fn drop(&mut self) {
        if let Err(error) = scale(1).and_then(|()| alone()) {
            assert!(std::thread::panicking(), "{error:#}");
        }
    }
}

/// Until there is one replica, and it is ready. Those that are ending count too: whoever comes next is to find one.
///
/// # Errors
/// When there are more for long. (No panic: one may be under way, and a second would leave everything as it is.)
pub(crate) fn alone() -> Result<()> {
    rolled_out()?;
    let began = Instant::now();
    loop {
        sleep(Duration::from_millis(500));
        let count = pods().map_or(0, |pods| pods.len());
        if count == 1 {
            return Ok(());
        }
        ensure!(began.elapsed() < END_WAIT, "{count} replicas of the control plane, and not one");
    }
}

fn scale(count: u32) -> Result<()> {
    kubectl::run(&["-n", NAMESPACE, "scale", DEPLOYMENT, &format!("--replicas={count}")])?;
    Ok(())
}

/// Until all replicas are ready.
///
/// # Errors
/// When they do not get ready.
pub(crate) fn rolled_out() -> Result<()> {
    let wait = format!("--timeout={}s", READY_WAIT.as_secs());
    kubectl::run(&["-n", NAMESPACE, "rollout", "status", DEPLOYMENT, &wait])?;
    Ok(())
}

/// Names of the replicas' pods and how often each has restarted.
///
/// # Errors
/// When the API server does not answer.
pub(crate) fn pods() -> Result<Vec<(String, u64)>> {
    let list = kubectl::json(&["-n", NAMESPACE, "get", "pods", "-l", LABEL, "-o", "json"])?;
    let pods = list["items"].as_array().into_iter().flatten();
    let one = |pod: &Value| {
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        Some((pod["metadata"]["name"].as_str()?.to_owned(), restarts.unwrap_or(0)))
    };
    Ok(pods.filter_map(one).collect())
}

/// The pod that holds the Lease; `None` while nobody does.
///
/// # Errors
/// When the API server does not answer.
pub(crate) fn holder() -> Result<Option<String>> {
    let lease = kubectl::json(&["-n", NAMESPACE, "get", "lease/leno-control", "-o", "json"])?;
    // A pod's name and a number of its process.
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    Ok(holder.rsplit_once('-').map(|(pod, _)| pod.to_owned()))
}

/// The leader, as soon as there is one that is not this.
pub(crate) fn leader_after(before: &str) -> String {
    until("a leader", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        holder().ok()?.filter(|holder| holder != before)
    })
}

/// A replica dies at once, with its pod: it gives nothing back, and does not start again.
///
/// # Errors
/// When it does not run on this machine.
pub(crate) fn dies(pod: &str) -> Result<()> {
    let process = node::process(NAMESPACE, pod, "control")?;
    // The kubelet ends it with SIGTERM when the pod is gone, which it must not hear.
    kill(process, Signal::SIGSTOP)?;
    let words = ["delete", "pod", pod, "--force", "--grace-period=0", "--wait=false"];
    kubectl::run(&[&["-n", NAMESPACE], &words[..]].concat())?;
    kill(process, Signal::SIGKILL)?;
    Ok(())
}

/// A replica is asked to end.
///
/// # Errors
/// When there is none of this name.
pub(crate) fn leaves(pod: &str) -> Result<()> {
    kubectl::run(&["-n", NAMESPACE, "delete", "pod", pod, "--wait=false"])?;
    Ok(())
}

/// What the leader has said.
///
/// # Errors
/// When there is none.
pub(crate) fn log() -> Result<String> {
    kubectl::run(&["-n", NAMESPACE, "logs", &holder()?.context("a leader")?])
}

/// What the leader counts.
///
/// # Errors
/// When there is none, or it does not answer.
pub(crate) fn metrics() -> Result<Metrics> {
    let pod = holder()?.context("a leader")?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}:{ADMIN_PORT}/proxy/metrics");
    Ok(Metrics::parse(&kubectl::run(&["get", "--raw", &path])?))
}

/// Serial of the issuer that signs, if it is the one in the Secret.
///
/// # Errors
/// When it is not, or no leader answers.
pub(crate) fn issuer() -> Result<String> {
    let metrics = metrics()?;
    ensure!(metrics.sum("leno_issuer_secret_in_use", &[]) > 0.5, "the Secret is not used");
    let mut samples = metrics.0.iter();
    let of = samples.find(|sample| sample.name == "leno_issuer_certificate_info");
    of.and_then(|sample| sample.labels.get("serial").cloned()).context("no issuer")
}
