//! What the other verbs ask a running `leno up`: one line of JSON over the state directory's socket, one line back.

mod status;

use crate::address::CONTROL_ADMIN_PORT;
use crate::figures::{self, Page, Said};
use crate::journal::{Event, Standing};
use crate::pod::Home;
use crate::world::{ContainerState, Phase, World};
use leno_runtime::tasks;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// All pods.
    Ps,
    /// What happened.
    Events,
    /// What is wrong now.
    Problems,
    /// What every proxy says of itself.
    Metrics,
    /// What the control plane's operator page at this path says.
    Control {
        /// Path and query.
        path: String,
        /// The body of a PUT; without one it is a GET.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// The node's process, to enter its network namespace.
    Node,
    /// End.
    Down,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Ps(Vec<PodRow>),
    /// What happened, newest last.
    Events(Vec<Event>),
    /// What is wrong now.
    Problems(Vec<Standing>),
    /// What proxies say.
    Metrics(Vec<Said>),
    /// The page of the control plane.
    Control(Page),
    /// The node's process identifier.
    Node(u32),
    /// It is ending.
    Down,
    /// It was not understood.
    Error(String),
}

/// One row of `leno ps`; the first seven fields are the contract of `docs/cli.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodRow {
    pub name: String,
    pub namespace: String,
    /// IPv4 address.
    pub ip: String,
    /// Whether all containers are ready.
    pub ready: bool,
    /// `leno` or `none`.
    pub mesh: String,
    /// SPIFFE ID; empty when not meshed.
    pub identity: String,
    /// The proxy while it runs.
    pub proxy: Option<ProxyRow>,
    /// IPv6 address.
    pub ipv6: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: Phase,
    /// How it is in one word, as `kubectl get pods` shows it.
    #[serde(default)]
    pub status: String,
    /// Whether it is being ended.
    pub ending: bool,
    /// Kind and name of what it is of, `deployment/web`.
    pub workload: String,
    /// All restarts of its containers.
    pub restarts: u32,
    /// Why it is not ready.
    pub reason: String,
    pub containers: Vec<ContainerState>,
    /// The first process of its namespaces.
    pub first_pid: Option<u32>,
    pub labels: BTreeMap<String, String>,
}

/// What a proxy costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProxyRow {
    /// Process identifier as the machine sees it.
    pub pid: u32,
    /// Resident memory.
    pub rss_bytes: u64,
    /// User and system time so far.
    pub cpu_seconds: f64,
    /// How often it was started again.
    pub restarts: u32,
}

#[must_use]
pub fn rows(world: &World) -> Vec<PodRow> {
    let rows = world.pods.iter().map(|((namespace, name), pod)| {
        let meshed = pod.template.meshed;
        let identity =
            format!("spiffe://cluster.local/ns/{namespace}/sa/{}", pod.service_account());
        let proxy = pod.proxy.as_ref();
        PodRow {
            name: name.clone(),
            namespace: namespace.clone(),
            ip: pod.address.v4.to_string(),
            ready: pod.ready && !pod.ending,
            mesh: if meshed { "leno" } else { "none" }.to_owned(),
            identity: if meshed { identity } else { String::new() },
            proxy: proxy.and_then(|proxy| Some((proxy.pid?, proxy.restarts))).map(
                |(pid, restarts)| {
                    let (rss_bytes, cpu_seconds) = figures::cost(pid);
                    ProxyRow { pid, rss_bytes, cpu_seconds, restarts }
                },
            ),
            ipv6: pod.address.v6.to_string(),
            phase: pod.phase,
            status: status::of(pod),
            ending: pod.ending,
            workload: format!("{}/{}", pod.workload.0, pod.workload.2),
            restarts: pod.containers.iter().map(|container| container.restarts).sum(),
            reason: pod.reason.clone(),
            containers: pod.containers.clone(),
            first_pid: pod.first_pid,
            labels: pod.labels(),
        }
    });
    rows.collect()
}

/// Answers until the returned task is dropped.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(home: Arc<Home>, end: Arc<watch::Sender<bool>>) -> io::Result<tasks::Owned> {
    let path = home.paths.socket();
    let listener = UnixListener::bind(&path)?;
    // A client of this socket can run programs as root in a pod.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(tasks::spawn_owned("requests", async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let (home, end) = (Arc::clone(&home), Arc::clone(&end));
            drop(tasks::spawn("request", async move {
                if let Err(error) = answer(stream, &home, &end).await {
                    tracing::debug!("request: {error}");
                }
            }));
        }
    }))
}

async fn answer(mut stream: UnixStream, home: &Home, end: &watch::Sender<bool>) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    BufReader::new(read).read_line(&mut line).await?;
    let reply = match serde_json::from_str(&line) {
        Ok(Request::Ps) => Reply::Ps(home.shared.read(rows)),
        Ok(Request::Events) => Reply::Events(home.journal.events()),
        Ok(Request::Problems) => Reply::Problems(home.journal.problems()),
        Ok(Request::Metrics) => Reply::Metrics(figures::read(home).await),
        Ok(Request::Control { path, body }) => control(home, &path, body).await,
        Ok(Request::Node) => Reply::Node(std::process::id()),
        Ok(Request::Down) => Reply::Down,
        Err(error) => Reply::Error(error.to_string()),
    };
    let mut text = serde_json::to_string(&reply)?;
    text.push('\n');
    write.write_all(text.as_bytes()).await?;
    if matches!(reply, Reply::Down) {
        end.send_replace(true);
    }
    Ok(())
}

async fn control(home: &Home, path: &str, body: Option<String>) -> Reply {
    if !home.has_control {
        return Reply::Error("no control plane runs in this mesh".to_owned());
    }
    match figures::ask((Ipv4Addr::LOCALHOST, CONTROL_ADMIN_PORT).into(), path, body).await {
        Ok(page) => Reply::Control(page),
        Err(error) => Reply::Error(format!("leno-control does not answer: {error}")),
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing runs there.
    #[error("nothing is up in {0}; start with: leno up -f DIRECTORY")]
    NothingUp(String),
    /// Something may run there, and this user may not ask it.
    #[error("{0}: permission denied; `leno up` runs as root and answers root alone: use sudo")]
    Denied(String),
    /// The connection broke.
    #[error("leno up does not answer: {0}")]
    Broken(#[from] io::Error),
    /// It did not understand.
    #[error("leno up returned an error: {0}")]
    Refused(String),
}

/// Asks a running `leno up`.
///
/// # Errors
/// Nothing runs, or it does not answer.
pub fn ask(state_directory: &Path, request: &Request) -> Result<Reply, Error> {
    use std::io::{BufRead, Write};
    let paths = crate::state::Paths::new(state_directory);
    let place = || paths.root().display().to_string();
    let connected = std::os::unix::net::UnixStream::connect(paths.socket());
    let mut stream = connected.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::Denied(place()),
        _ => Error::NothingUp(place()),
    })?;
    let lock = std::fs::File::open(paths.lock());
    let mut text = serde_json::to_string(request).map_err(io::Error::from)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    let mut reader = std::io::BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let reply = serde_json::from_str(&line).map_err(io::Error::from)?;
    match reply {
        Reply::Error(why) => Err(Error::Refused(why)),
        Reply::Down => {
            // It is over when the lock is free: nothing is left then.
            if let Ok(lock) = lock {
                drop(Flock::lock(lock, FlockArg::LockExclusive));
            }
            Ok(Reply::Down)
        }
        other => Ok(other),
    }
}
