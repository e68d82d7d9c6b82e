//! `leno-control` as a process of the node, started again whenever it ends.

use crate::address::{CONTROL, CONTROL_ADMIN_PORT, CONTROL_PORT};
use crate::logs::Log;
use crate::pod::Home;
use crate::stage;
use leno_runtime::backoff::Backoff;
use leno_runtime::tasks;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{Child, Command};

const RESTART: Backoff =
    Backoff { min: Duration::from_millis(200), max: Duration::from_secs(10), jitter_ratio: 0.0 };
/// The first start makes keys; everything else waits for them.
const FIRST_START_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Starts it and waits until it takes connections; it is kept until the returned task is dropped.
pub(super) async fn start(home: &Arc<Home>, sources: &[PathBuf]) -> io::Result<tasks::Owned> {
    let log = Log::open(&home.paths, "leno", "leno-control", "leno-control", false);
    let sources = sources.to_vec();
    let mut child = spawn(home, &sources, &log)?;
    wait(&mut child, &home.paths.control(), &log).await?;
    let home = Arc::clone(home);
    Ok(tasks::spawn_owned("control plane", async move {
        let mut attempt = 0;
        loop {
            let began = tokio::time::Instant::now();
            let ended = child.wait().await;
            if began.elapsed() > RESTART.max {
                attempt = 0;
            }
            tracing::warn!("leno-control ended ({ended:?}) and is restarted");
            loop {
                tokio::time::sleep(RESTART.delay(attempt, 0.0)).await;
                attempt += 1;
                match spawn(&home, &sources, &log) {
                    Ok(started) => break child = started,
                    Err(error) => tracing::error!("leno-control: {error}"),
                }
            }
        }
    }))
}

fn spawn(home: &Home, sources: &[PathBuf], log: &Arc<Log>) -> io::Result<Child> {
    let mut command = Command::new(&home.leno);
    command.arg(stage::NODE).arg(std::process::id().to_string()).arg(&home.control).arg("run");
    for source in sources.iter().chain([&home.paths.generated()]) {
        command.arg("--source").arg(source);
    }
    command
        .arg("--state-dir")
        .arg(home.paths.control())
        .arg("--listen")
        .arg(format!("{CONTROL}:{CONTROL_PORT}"))
        .arg("--admin")
        .arg(format!("{}:{CONTROL_ADMIN_PORT}", Ipv4Addr::LOCALHOST))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    if let Some(output) = child.stdout.take() {
        log.take(output);
    }
    if let Some(output) = child.stderr.take() {
        log.take(output);
    }
    Ok(child)
}

async fn wait(child: &mut Child, state: &Path, log: &Log) -> io::Result<()> {
    let ready = async {
        loop {
            let listening = tokio::net::TcpStream::connect((CONTROL, CONTROL_PORT)).await.is_ok();
            if listening && state.join("trust-anchors.pem").exists() {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let why = tokio::select! {
        () = ready => return Ok(()),
        ended = child.wait() => format!("leno-control ended: {ended:?}"),
        () = tokio::time::sleep(FIRST_START_MAX) => "leno-control does not accept connections".to_owned(),
    };
    Err(io::Error::other(format!(
        "{why}; the last lines of its log:\n    {}",
        log.last_lines().join("\n    ")
    )))
}
