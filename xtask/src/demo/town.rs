//! The running example: started, asked, driven, and gone at the end, on Ctrl-C too.

use crate::command;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A mesh that runs bookinfo.
pub(crate) struct Town {
    leno: PathBuf,
    place: PathBuf,
    up: Arc<Mutex<Option<Child>>>,
    machine: Machine,
    /// What `leno up` said when everything was ready.
    pub(super) ready: String,
}

/// A pod with a proxy.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) workload: String,
    pub(super) identity: String,
    pub(super) proxy: u32,
}

/// What the load driver says at its end.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) sent: u64,
    pub(crate) failed: u64,
    pub(super) rate: f64,
    pub(super) milliseconds: [f64; 3],
    pub(super) results: String,
}

impl Town {
    /// Starts bookinfo and waits until every pod is ready. From here on, signals end it first and us then.
    pub(crate) fn start(leno: &Path, place: &Path) -> Result<Self> {
        let machine = Machine::now()?;
        let up = Arc::new(Mutex::new(None));
        let mut town = Self {
            leno: leno.to_owned(),
            place: place.to_owned(),
            up,
            machine,
            ready: String::new(),
        };
        let mut command = Command::new("setpriv");
        // If we are killed, it still ends in order; and Ctrl-C is ours to pass on, not the terminal's.
        command.args(["--pdeathsig=TERM", "--"]).arg(leno).arg("--state-dir").arg(town.state());
        command.args(["up", "--quiet", "-f", "examples/bookinfo"]).process_group(0);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("a pipe was asked for")?;
        *town.up.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        // Not before: children inherit what is blocked, and `leno up` shall hear its signals.
        end_on_signals(Arc::clone(&town.up), place.to_owned())?;
        let mut said = Vec::new();
        let mut lines = BufReader::new(stderr).lines();
        for line in lines.by_ref() {
            let line = line?;
            if let Some(ready) = line.strip_prefix("leno: ready: ") {
                town.ready = ready.trim_end_matches("; Ctrl-C ends it").to_owned();
                break;
            }
            said.push(line);
        }
        if town.ready.is_empty() {
            bail!("bookinfo did not start:\n{}\n`leno check` looks for reasons", said.join("\n"));
        }
        std::thread::spawn(move || lines.for_each(drop));
        Ok(town)
    }

    fn state(&self) -> PathBuf {
        self.place.join("state")
    }

    /// `leno` with these words, about this mesh.
    pub(crate) fn leno(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.leno);
        command.arg("--state-dir").arg(self.state()).args(words).stdin(Stdio::null());
        command
    }

    /// All pods with their proxies.
    pub(super) fn pods(&self) -> Result<Vec<Pod>> {
        let rows: Value =
            serde_json::from_str(&command::output(&mut self.leno(&["ps", "-o", "json"]))?)?;
        let rows = rows.as_array().context("`leno ps -o json` is an array")?;
        let pods = rows.iter().map(|row| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let proxy = row["proxy"]["pid"].as_u64().context("a pod without a proxy")?;
            let workload = text("workload").rsplit('/').next().unwrap_or_default().to_owned();
            let identity = text("identity");
            Ok(Pod { name: text("name"), workload, identity, proxy: u32::try_from(proxy)? })
        });
        pods.collect()
    }

    /// What the proxy of a pod has counted, asked from inside the pod.
    pub(super) fn metrics(&self, pod: &Pod) -> Result<String> {
        let address = "http://127.0.0.1:4191/metrics?detail=full";
        let words = ["exec", &pod.name, "--", "curl", "-sSf", "-m5", address];
        command::output(&mut self.leno(&words))
    }

    /// The control plane: the one process of its name that works on our state.
    pub(super) fn control(&self) -> Option<u32> {
        processes_of(&self.place).into_iter().find(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "leno-control"
        })
    }

    /// Steady load on the page, from the client pod.
    pub(crate) fn load(&self, rate: u32, seconds: u32) -> Result<Load> {
        let (rate, seconds) = (rate.to_string(), format!("{seconds}s"));
        let url = "http://productpage:9080/productpage";
        let driver =
            ["exec", "client", "--", "leno-worker", "client", "--url", url, "--rate", &rate];
        let mut command = self.leno(&driver);
        // It ends with 1 when a request failed; its line says how many.
        let output = command.args(["--for", &seconds]).stderr(Stdio::inherit()).output()?;
        let line = String::from_utf8_lossy(&output.stdout);
        let said: Value = serde_json::from_str(line.trim())
            .with_context(|| format!("the load driver said {line:?}"))?;
        let number = |name: &str| said[name].as_f64().unwrap_or_default();
        let results = said["results"].as_object().into_iter().flatten();
        let results: Vec<_> = results.map(|(what, count)| format!("{count} × {what}")).collect();
        Ok(Load {
            sent: number("sent") as u64,
            failed: number("failed") as u64,
            rate: number("rate"),
            milliseconds: ["p50_ms", "p95_ms", "p99_ms"].map(number),
            results: results.join(", "),
        })
    }

    /// Ends it; what is left of it on the machine, which should be nothing.
    pub(crate) fn end(&self) -> Result<Vec<String>> {
        end(&self.up, &self.place)?;
        let mut left = self.machine.differences()?;
        for pid in processes_of(&self.place) {
            left.push(format!("process {pid}"));
        }
        Ok(left)
    }
}

/// A signal came, and the thread that waits for it ends everything, us too.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

impl Drop for Town {
    fn drop(&mut self) {
        while INTERRUPTED.load(Ordering::SeqCst) {
            std::thread::park();
        }
        drop(end(&self.up, &self.place));
    }
}

/// Ends `leno up`, waits for it and removes its place. The second call finds nothing to do.
fn end(up: &Mutex<Option<Child>>, place: &Path) -> Result<()> {
    let mut up = up.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mut child) = up.take() {
        if child.try_wait()?.is_none() {
            kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM)?;
        }
        child.wait()?;
    }
    match std::fs::remove_dir_all(place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// From here on Ctrl-C and its like end the mesh before they end us. They are blocked in every thread but
/// one, which waits for them.
fn end_on_signals(up: Arc<Mutex<Option<Child>>>, place: PathBuf) -> Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    std::thread::spawn(move || {
        if let Ok(signal) = signals.wait() {
            INTERRUPTED.store(true, Ordering::SeqCst);
            eprintln!("\n{signal}: ending the mesh …");
            let code = match end(&up, &place) {
                Ok(()) => 128 + signal as i32,
                Err(error) => {
                    eprintln!("{error:#}");
                    1
                }
            };
            std::process::exit(code);
        }
    });
    Ok(())
}

/// Processes whose command line names a path, other than ourselves.
fn processes_of(place: &Path) -> Vec<u32> {
    let place = place.to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    let works_there = |pid: &u32| {
        let mut line = Vec::new();
        let file = std::fs::File::open(format!("/proc/{pid}/cmdline"));
        let read = file.and_then(|mut file| file.read_to_end(&mut line));
        read.is_ok() && String::from_utf8_lossy(&line).contains(&place)
    };
    pids.filter(|pid| *pid != std::process::id()).filter(works_there).collect()
}

/// What a mesh could leave on a machine: the same before and after.
struct Machine([(&'static str, Vec<String>); 3]);

impl Machine {
    fn now() -> Result<Self> {
        let lines = |text: String| text.lines().map(str::to_owned).collect();
        let links = command::output(Command::new("ip").args(["-o", "link"]))?;
        let rules = command::output(Command::new("nft").args(["list", "ruleset"]))?;
        Ok(Self([
            ("interface", lines(links)),
            ("rule", lines(rules)),
            ("mount", lines(std::fs::read_to_string("/proc/self/mountinfo")?)),
        ]))
    }

    /// Lines that are there now and were not before.
    fn differences(&self) -> Result<Vec<String>> {
        let now = Self::now()?;
        let pairs = self.0.iter().zip(&now.0);
        let new = pairs.flat_map(|((what, before), (_, after))| {
            let new = after.iter().filter(|line| !before.contains(line));
            new.map(move |line| format!("{what}: {line}"))
        });
        Ok(new.collect())
    }
}
