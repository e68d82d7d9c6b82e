//! The proxy of a meshed pod: its rules, its token, its environment, and the wait for its identity.
//!
//! `leno bench` puts another program in its place: under the same rules, with the same environment and what
//! [`place_of_substitute`] adds, ready by the same question. It is started as root, so that it can add rules of its own, and
//! has to give up its privileges itself: what runs as another user than [`USER`] is captured.

use super::process::{self, Probes, Process, Restart};
use super::{PROXY_NAME, Run};
use crate::address::{CONTROL, CONTROL_PORT, NODE_V4, NODE_V6};
use crate::container::Start;
use crate::probe::{Question, Timing};
use leno_runtime::file::write_atomically;
use leno_runtime::tasks;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The user whose traffic the kernel does not capture.
const USER: u32 = 2102;
/// Where `/ready` and `/metrics` are.
pub const ADMIN_PORT: u16 = 4191;
/// A proxy that hangs is noticed and started again within 15 s.
const LIVENESS: Timing = Timing {
    initial_delay: Duration::ZERO,
    period: Duration::from_secs(2),
    timeout: Duration::from_secs(2),
    failures: 3,
    successes: 1,
};
/// A proxy that does not answer has little to finish.
const HUNG_GRACE: Duration = Duration::from_secs(1);
/// The proxy is given a little more than it gives its connections.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);

/// Captures the pod's traffic and starts the proxy; returns when the proxy is ready, or the pod is to end.
///
/// # Errors
/// A program is missing, or refuses.
pub async fn start(
    run: &Arc<Run>,
    stopped: watch::Receiver<bool>,
    end: &mut watch::Receiver<bool>,
) -> io::Result<JoinHandle<bool>> {
    let directory = run.directory.join("proxy");
    std::fs::create_dir_all(&directory)?;
    let token = directory.join("token");
    if run.home.has_control {
        issue_token(run, &token).await?;
        copy_trust_anchors(run)?;
    }
    let mut environment = environment(run, &token);
    environment.push(("LENO_PROXY_STATE_DIR".to_owned(), snapshots(&directory)?));
    capture(run, &environment).await?;
    let (command, user) = match &run.home.sidecar {
        None => (vec![run.home.proxy.display().to_string()], USER),
        Some(command) => {
            environment.extend(place_of_substitute(run, &directory));
            (command.clone(), 0)
        }
    };
    let readiness = Timing {
        initial_delay: Duration::ZERO,
        period: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        failures: 3,
        successes: 1,
    };
    let admin = |path: &str| Question::Http {
        path: path.to_owned(),
        port: ADMIN_PORT,
        headers: Vec::new(),
    };
    // Only ours answers there.
    let is_ours = run.home.sidecar.is_none();
    let proxy = Process {
        name: PROXY_NAME.to_owned(),
        start: Start {
            command,
            environment,
            working_directory: String::new(),
            user,
            group: user,
            root: None,
            over: resolver_files(run, &directory)?,
        },
        restart: Restart::Always,
        restarts_max: None,
        grace: super::grace(&run.template) + DRAIN_MARGIN,
        unhealthy_grace: Some(HUNG_GRACE),
        pre_stop: None,
        probes: Probes {
            readiness: Some((admin("/ready"), readiness)),
            liveness: is_ours.then(|| (admin("/live"), LIVENESS)),
            ..Probes::default()
        },
    };
    let kept = tasks::spawn("proxy", process::keep(Arc::clone(run), proxy, stopped));
    process::until_started(run, PROXY_NAME, end).await;
    Ok(kept)
}

/// The proxy resolves names as its pod does: a collector of traces is named by its Service.
fn resolver_files(run: &Run, directory: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let wanted = ["/etc/resolv.conf", "/etc/nsswitch.conf"];
    let files = super::etc_files(run).into_iter().filter(|(place, _)| wanted.contains(&&**place));
    let write = |(place, content): (String, String)| {
        let place = PathBuf::from(place);
        let source = directory.join(place.file_name().unwrap_or_default());
        write_atomically(&source, content.as_bytes(), 0o644)?;
        Ok((source, place))
    };
    files.map(write).collect()
}

/// Directory of the proxy's snapshot, for a restart without the control plane. It belongs to this pod alone: an earlier pod may have
/// had the same name.
fn snapshots(directory: &Path) -> io::Result<String> {
    let snapshots = directory.join("state");
    match std::fs::remove_dir_all(&snapshots) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => std::fs::DirBuilder::new().mode(0o700).create(&snapshots)?,
    }
    chown(&snapshots, Some(USER), Some(USER))?;
    Ok(snapshots.display().to_string())
}

/// The environment of both `leno-proxy` and `leno-proxy capture`.
fn environment(run: &Run, token: &Path) -> Vec<(String, String)> {
    let (namespace, pod) = &run.key;
    let account = &run.facts.service_account;
    let drain = super::grace(&run.template).min(Duration::from_secs(30)).as_secs();
    let mut environment: Vec<(String, String)> = [
        ("WORKLOAD", serde_json::json!({"ns": namespace, "pod": pod}).to_string()),
        ("IDENTITY", format!("spiffe://cluster.local/ns/{namespace}/sa/{account}")),
        ("CONTROL_ADDRESS", format!("{CONTROL}:{CONTROL_PORT}")),
        ("TRUST_ANCHORS_FILE", run.home.paths.trust_anchors().display().to_string()),
        ("TOKEN_FILE", token.display().to_string()),
        ("PROBE_SOURCES", format!("{NODE_V4},{NODE_V6}")),
        ("DRAIN_SECONDS", drain.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (format!("LENO_PROXY_{name}"), value))
    .collect();
    for (variable, wish) in run.template.proxy.variables() {
        environment.retain(|(name, _)| name != variable);
        environment.push((variable.to_owned(), wish.to_owned()));
    }
    environment.push(("PATH".to_owned(), run.home.search_path.clone()));
    environment
}

/// What another program than `leno-proxy` is told besides: it discovers its neighbours from files.
fn place_of_substitute(run: &Run, directory: &Path) -> Vec<(String, String)> {
    let generated = run.home.paths.generated();
    let manifests: Vec<String> = run
        .home
        .sources
        .iter()
        .chain([&generated])
        .map(|source| std::path::absolute(source).unwrap_or_else(|_| source.clone()))
        .map(|source| source.display().to_string())
        .collect();
    [
        // The last is what `leno up` writes: pods with their addresses, Services with theirs, EndpointSlices.
        ("LENO_UP_MANIFESTS", manifests.join(":")),
        ("LENO_UP_POD_DIRECTORY", directory.display().to_string()),
        ("LENO_UP_POD_ADDRESSES", run.facts.addresses.clone()),
        ("LENO_UP_SERVICE_ACCOUNT", run.facts.service_account.clone()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// A token for this pod, which only its proxy can read.
async fn issue_token(run: &Run, file: &Path) -> io::Result<()> {
    let (namespace, pod) = &run.key;
    let issued = Command::new(&run.home.control)
        .arg("issue-token")
        .arg("--state-dir")
        .arg(run.home.paths.control())
        .args(["--namespace", namespace, "--service-account", &run.facts.service_account])
        .args(["--pod", pod])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| missing(&run.home.control, &error))?;
    if !issued.status.success() {
        let said = String::from_utf8_lossy(&issued.stderr);
        return Err(io::Error::other(format!("leno-control issue-token: {}", said.trim())));
    }
    write_atomically(file, String::from_utf8_lossy(&issued.stdout).trim().as_bytes(), 0o400)?;
    chown(file, Some(USER), Some(USER))
}

/// The control plane's directory is closed to others; its anchors are for all.
fn copy_trust_anchors(run: &Run) -> io::Result<()> {
    let anchors = run.home.paths.control().join("trust-anchors.pem");
    let content = std::fs::read(&anchors)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", anchors.display())))?;
    write_atomically(&run.home.paths.trust_anchors(), &content, 0o644)
}

/// Rules of the pod's network namespace, before any program runs in it.
async fn capture(run: &Run, environment: &[(String, String)]) -> io::Result<()> {
    let mut command = Command::new(&run.home.proxy);
    command
        .args(["capture", "apply"])
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = run.room.start(command).await.map_err(|error| missing(&run.home.proxy, &error))?;
    let ended = child.wait_with_output().await?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(format!("leno-proxy capture apply: {}", said.trim())))
}

fn missing(program: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", program.display()))
}
