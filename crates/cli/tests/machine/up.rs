//! A `leno up` of a test, with a state directory and manifests of its own.

use crate::left::Machine;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Far more than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Mesh {
    pub(crate) place: tempfile::TempDir,
    pub(crate) up: Option<Child>,
    pub(crate) before: Machine,
    /// Of `leno up`, besides the manifests.
    pub(crate) arguments: &'static [&'static str],
}

impl Mesh {
    pub(crate) fn new(manifests: &str) -> Self {
        assert!(nix::unistd::geteuid().is_root(), "these tests make namespaces: run them as root");
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let place = tempfile::tempdir_in(parent).expect("a directory");
        fs::create_dir(place.path().join("manifests")).expect("a directory");
        let arguments = &["--mesh", "none"];
        let mesh = Self { place, up: None, before: Machine::now(), arguments };
        mesh.write(manifests);
        mesh
    }

    pub(crate) fn up(manifests: &str) -> Self {
        let mut mesh = Self::new(manifests);
        mesh.start();
        mesh
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    pub(crate) fn manifests(&self) -> PathBuf {
        self.place.path().join("manifests")
    }

    pub(crate) fn write(&self, manifests: &str) {
        fs::write(self.manifests().join("all.yaml"), manifests).expect("manifests");
    }

    pub(crate) fn leno(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
        command.arg("--state-dir").arg(self.state()).stdin(Stdio::null());
        command
    }

    /// Starts and waits for the line that says that everything is ready.
    pub(crate) fn start(&mut self) {
        let mut up = self
            .leno()
            .args(["up", "-f"])
            .arg(self.manifests())
            .args(self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("leno up");
        let talk = BufReader::new(up.stderr.take().expect("stderr"));
        let (ready, is_ready) = std::sync::mpsc::channel();
        // Reads to the end: nobody may be held up by a full pipe.
        std::thread::spawn(move || {
            for line in talk.lines().map_while(Result::ok) {
                if line.contains("ready: ") || line.contains("error") {
                    let _ = ready.send(line);
                }
            }
        });
        let line = is_ready.recv_timeout(PATIENCE).expect("a word from leno up");
        assert!(line.contains("ready: "), "{line}");
        self.up = Some(up);
    }

    pub(crate) fn exec(&self, pod: &str, script: &str) -> Output {
        self.leno().args(["exec", pod, "--", "sh", "-c", script]).output().expect("leno exec")
    }

    #[track_caller]
    pub(crate) fn check(&self, pod: &str, script: &str, expected: &str) {
        let output = self.exec(pod, script);
        let said = String::from_utf8_lossy(&output.stdout);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.trim(), expected, "{script}: {talk}");
    }

    pub(crate) fn pods(&self) -> Vec<serde_json::Value> {
        let output = self.leno().args(["ps", "-o", "json"]).output().expect("leno ps");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Asks until it is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, so: impl Fn(&[serde_json::Value]) -> bool) {
        let began = Instant::now();
        let mut pods = self.pods();
        while !so(&pods) {
            assert!(began.elapsed() < PATIENCE, "{what}: {pods:#?}");
            std::thread::sleep(Duration::from_millis(20));
            pods = self.pods();
        }
    }

    pub(crate) fn processes(&self) -> BTreeSet<u64> {
        let pods = self.pods();
        let containers =
            pods.iter().flat_map(|pod| pod["containers"].as_array().cloned().unwrap_or_default());
        let pids = containers.filter_map(|container| container["pid"].as_u64());
        pids.chain(pods.iter().filter_map(|pod| pod["first_pid"].as_u64())).collect()
    }

    /// Whether processes are gone; the kernel may need a moment after a kill.
    #[track_caller]
    pub(crate) fn gone(&self, processes: &BTreeSet<u64>) {
        let began = Instant::now();
        let alive = |pid: &u64| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while processes.iter().any(alive) {
            assert!(began.elapsed() < PATIENCE, "still there: {processes:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    pub(crate) fn ends_without_a_trace(mut self) {
        let processes = self.processes();
        assert!(!processes.is_empty());
        let output = self.leno().arg("down").output().expect("leno down");
        assert!(output.status.success(), "{output:?}");
        let mut up = self.up.take().expect("was up");
        assert!(up.wait().expect("leno up").success());
        self.gone(&processes);
        assert!(!self.state().exists(), "{:?}", fs::read_dir(self.state()).map(Iterator::count));
        assert_eq!(self.before, Machine::now());
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        if let Some(mut up) = self.up.take() {
            drop(up.kill());
            drop(up.wait());
        } else if self.state().exists() {
            // A test that failed has left it in the background.
            drop(self.leno().arg("down").output());
        }
    }
}

pub(crate) fn ready(pods: &[serde_json::Value], count: usize) -> bool {
    pods.len() == count && pods.iter().all(|pod| pod["ready"] == true)
}
