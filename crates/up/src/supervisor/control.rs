//! `leno-control` as a process of the node, started again whenever it ends or hangs; and what it finds wrong with manifests.

use crate::accepted;
use crate::address::{CONTROL, CONTROL_ADMIN_PORT, CONTROL_PORT};
use crate::figures::{self, Page};
use crate::journal::{Standing, split};
use crate::logs::Log;
use crate::pod::Home;
use crate::stage;
use leno_runtime::backoff::Backoff;
use leno_runtime::tasks;
use serde::Deserialize;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};

const RESTART: Backoff =
    Backoff { min: Duration::from_millis(200), max: Duration::from_secs(10), jitter_ratio: 0.0 };
/// The first start makes keys; everything else waits for them.
const FIRST_START_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// It is asked so often what is wrong, and so whether it lives.
const ASK_INTERVAL: Duration = Duration::from_secs(2);
/// After so many questions without an answer it hangs. A question waits 2 s, so that this is noticed within 15 s.
const MISSES_MAX: u32 = 3;
/// The part of the journal's standing problems that is the control plane's word.
const SOURCE: &str = "control plane";
/// How its message about a kind ends that `leno up` runs without it, such as a Secret.
const NOT_USED: &str = "is not used by the mesh";

/// Starts it and waits until it takes connections; it is kept until the returned task is dropped.
pub(super) async fn start(home: &Arc<Home>) -> io::Result<tasks::Owned> {
    let log = Log::open(&home.paths, "leno", "leno-control", "leno-control", false);
    let mut child = spawn(home, &log)?;
    wait(&mut child, &home.paths.control(), &log).await?;
    let home = Arc::clone(home);
    Ok(tasks::spawn_owned("control plane", async move {
        let mut attempt = 0;
        loop {
            let began = tokio::time::Instant::now();
            let why = tokio::select! {
                ended = child.wait() => match ended {
                    Ok(status) => format!("leno-control ended ({status})"),
                    Err(error) => format!("leno-control is gone ({error})"),
                },
                why = watch(&home, began) => {
                    drop(child.kill().await);
                    why
                }
            };
            if began.elapsed() > RESTART.max {
                attempt = 0;
            }
            let what = format!("{why} and is restarted; proxies continue with their last state");
            home.journal.warning("ControlPlaneRestarted", ("leno", "Control plane"), &what);
            loop {
                tokio::time::sleep(RESTART.delay(attempt, 0.0)).await;
                attempt += 1;
                match spawn(&home, &log) {
                    Ok(started) => break child = started,
                    Err(error) => {
                        let object = ("leno", "Control plane");
                        home.journal.warning("Failed", object, &error.to_string());
                    }
                }
            }
        }
    }))
}

/// Asks what is wrong as long as it answers; then answers why it must be started again.
async fn watch(home: &Home, began: tokio::time::Instant) -> String {
    let address = (Ipv4Addr::LOCALHOST, CONTROL_ADMIN_PORT).into();
    let (mut misses, mut has_answered) = (0, false);
    loop {
        tokio::time::sleep(ASK_INTERVAL).await;
        write_accepted(home);
        match figures::get(address, "/problems").await {
            Ok(page) => {
                (misses, has_answered) = (0, true);
                take_problems(home, &page);
            }
            // It reads all manifests before it answers for the first time.
            Err(_) if !has_answered && began.elapsed() < FIRST_START_MAX => {}
            Err(_) => misses += 1,
        }
        if misses == MISSES_MAX {
            return format!("leno-control did not answer {MISSES_MAX} questions in a row");
        }
    }
}

/// Copies for which there was no room, once there is.
fn write_accepted(home: &Home) {
    let mut unwritten = home.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(texts) = &*unwritten {
        let written = accepted::write(&home.paths, &home.sources, texts);
        home.journal.room(&home.paths, &written);
        if written.is_ok() {
            *unwritten = None;
        }
    }
}

/// A problem as the control plane's page shows it.
#[derive(Deserialize)]
struct Found {
    object: String,
    origin: String,
    field: String,
    message: String,
    /// It is not a mistake, and was printed when the manifests were read.
    note: bool,
}

fn take_problems(home: &Home, page: &Page) {
    let Ok(found) = serde_json::from_str::<Vec<Found>>(&page.body) else { return };
    let is_mistake = |found: &Found| !found.note && !found.message.ends_with(NOT_USED);
    let found = found.into_iter().filter(is_mistake);
    let standing: Vec<Standing> = found.map(Found::stand).collect();
    // What was said when the manifests were read is not said again.
    let known = home.journal.problems();
    let news = home.journal.stand(SOURCE, standing);
    for problem in news.into_iter().filter(|problem| !known.contains(problem)) {
        let (namespace, object) = split(&problem.object);
        let said = Standing { object: String::new(), ..problem };
        home.journal.warning("Problem", (&namespace, &object), &said.to_string());
    }
}

impl Found {
    /// Its origin is `file:document:line` where it is a manifest; people count lines.
    fn stand(self) -> Standing {
        let mut parts = self.origin.rsplitn(3, ':');
        let origin = match (parts.next(), parts.next(), parts.next()) {
            (Some(line), Some(_), Some(file)) => format!("{file}:{line}"),
            _ => self.origin,
        };
        Standing { object: self.object, origin, field: self.field, message: self.message }
    }
}

fn spawn(home: &Home, log: &Arc<Log>) -> io::Result<Child> {
    let mut command = Command::new(&home.leno);
    command.arg(stage::NODE).arg(std::process::id().to_string()).arg(&home.control).arg("run");
    for (copies, shown) in accepted::places(&home.paths, &home.sources) {
        command.arg("--source").arg(copies).arg("--shown-as").arg(shown);
    }
    command.arg("--source").arg(home.paths.generated());
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
