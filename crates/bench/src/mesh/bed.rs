//! A running topology: `leno up` as a child process with a state directory of its own, asked and ended like any other.
//!
//! Here: who is in it, and how it ends. `start`: how it comes up. `act`: what is done to it. Dropping it ends everything; what a killed
//! run left behind is ended when the next bed starts.

mod act;
mod start;

pub use act::Worker;

use super::{Choice, Kind, machine, neighbours, state};
use anyhow::{Context, Result, bail};
use leno_up::request::{PodRow, Reply, Request, ask};
use leno_up::state::Paths;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pods may take their termination grace period.
const END_WAIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A pod of a bed. Process identifiers are those that the machine sees; each stands for its whole tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub namespace: String,
    /// Kind and name of what it is of: `deployment/web`.
    pub workload: String,
    /// IPv4 address.
    pub ip: IpAddr,
    /// Whether all of it is ready.
    pub ready: bool,
    /// Restarts of its containers.
    pub restarts: u32,
    /// The first process of each container.
    pub app_pids: Vec<i32>,
    /// The real proxy: not what supervises it. Empty without a sidecar, several while one takes over from another.
    pub proxy_pids: Vec<i32>,
    /// The first process of its namespaces.
    pub first_pid: Option<i32>,
}

/// A running topology; dropping it ends it and leaves nothing.
#[derive(Debug)]
pub struct Bed {
    choice: Choice,
    leno: PathBuf,
    program: Option<PathBuf>,
    directory: PathBuf,
    state: PathBuf,
    up: Child,
    /// How often each pod's nginx was asked, which it counts as requests.
    questions: Mutex<BTreeMap<String, u64>>,
}

impl Bed {
    fn is_supervised(&self) -> bool {
        matches!(self.choice.kind, Kind::Envoy | Kind::Haproxy | Kind::Nginx)
    }

    /// Which mesh this is.
    #[must_use]
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The proxy's program, where there is one.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// Whether it runs; it does not end by itself.
    #[must_use]
    pub fn is_up(&self) -> bool {
        Path::new("/proc").join(self.up.id().to_string()).join("ns/net").exists()
    }

    /// Where `leno up` of this bed keeps its files; gone when the bed has ended.
    #[must_use]
    pub fn up_state(&self) -> PathBuf {
        self.state.join("up")
    }

    /// What `leno up` says of pods and Services.
    pub(super) fn generated(&self) -> Result<String> {
        let file = Paths::new(&self.up_state()).generated().join("leno-up.yaml");
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// The directory of a pod's sidecar.
    pub(super) fn sidecar_directory(&self, pod: &Pod) -> PathBuf {
        Paths::new(&self.up_state()).pod(&pod.namespace, &pod.name).join("proxy")
    }

    /// Takes note of a question to a pod's proxy; answers how many there were.
    pub(super) fn count_question(&self, pod: &str) -> u64 {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = questions.entry(pod.to_owned()).or_default();
        *asked += 1;
        *asked
    }

    /// All pods that are not ending.
    ///
    /// # Errors
    /// `leno up` is gone.
    pub fn pods(&self) -> Result<Vec<Pod>> {
        let Reply::Ps(rows) = ask(&self.up_state(), &Request::Ps)? else {
            bail!("leno up answers something else")
        };
        rows.iter().filter(|row| !row.ending).map(|row| self.pod_of(row)).collect()
    }

    fn pod_of(&self, row: &PodRow) -> Result<Pod> {
        let supervised = self.is_supervised();
        let proxy = row.proxy.as_ref().map(|proxy| proxy.pid.cast_signed());
        Ok(Pod {
            name: row.name.clone(),
            namespace: row.namespace.clone(),
            workload: row.workload.clone(),
            ip: row.ip.parse().with_context(|| format!("address {:?} of {}", row.ip, row.name))?,
            ready: row.ready,
            restarts: row.restarts,
            app_pids: row
                .containers
                .iter()
                .filter_map(|one| Some(one.pid?.cast_signed()))
                .collect(),
            proxy_pids: match proxy {
                Some(pid) if supervised => machine::children(pid),
                proxy => proxy.into_iter().collect(),
            },
            first_pid: row.first_pid.map(u32::cast_signed),
        })
    }

    /// The pod with this name, unique beginning of a name, or `deploy/NAME`, as `leno exec` understands it; of several
    /// pods of a deployment the first.
    ///
    /// # Errors
    /// There is none.
    pub fn pod(&self, wanted: &str) -> Result<Pod> {
        let pods = self.pods()?;
        let workload = wanted.strip_prefix("deploy/").map(|name| format!("deployment/{name}"));
        let (namespace, name) = match wanted.split_once('/') {
            Some((namespace, name)) if workload.is_none() => (Some(namespace), name),
            _ => (None, wanted),
        };
        let in_place = |pod: &&Pod| namespace.is_none_or(|namespace| pod.namespace == namespace);
        let mut fitting = pods.iter().filter(in_place);
        let found = match &workload {
            Some(workload) => fitting.find(|pod| pod.workload == *workload),
            None => {
                let exact = fitting.clone().find(|pod| pod.name == name);
                exact.or_else(|| fitting.find(|pod| pod.name.starts_with(name)))
            }
        };
        found.cloned().with_context(|| format!("there is no pod {wanted:?}"))
    }

    /// Processes of the control plane.
    #[must_use]
    pub fn control_pids(&self) -> Vec<i32> {
        let of_up = machine::children(self.up.id().cast_signed());
        let is_control = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.trim() == "leno-control")
        };
        of_up.into_iter().filter(is_control).collect()
    }

    /// A Service's IPv4 address.
    ///
    /// # Errors
    /// There is no such Service, or it is headless.
    pub fn service_ip(&self, namespace: &str, name: &str) -> Result<IpAddr> {
        let found = neighbours::service_address(&self.generated()?, namespace, name)?;
        found.with_context(|| format!("no Service {namespace}/{name} with an address"))
    }

    /// A command inside of a pod: `leno exec POD -- ARGV`.
    #[must_use]
    pub fn command_in(&self, pod: &str, argv: &[String]) -> Command {
        let mut command = Command::new(&self.leno);
        command.arg("--state-dir").arg(self.up_state()).args(["exec", pod, "--"]).args(argv);
        command
    }

    /// Keeps the logs of `leno up`, of pods and proxies, beside what the caller writes.
    fn keep_logs(&self) {
        let from = self.up_state().join("logs");
        let to = self.directory.join("logs");
        for entry in std::fs::read_dir(&from).into_iter().flatten().flatten() {
            // A log that cannot be kept must not keep the bed.
            let _ = std::fs::create_dir_all(&to)
                .and_then(|()| std::fs::copy(entry.path(), to.join(entry.file_name())));
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.keep_logs();
        // It answers when it has ended; if it does not accept the request, a signal ends it.
        let asked = ask(&self.up_state(), &Request::Down).is_ok();
        let pid = Pid::from_raw(self.up.id().cast_signed());
        if !asked {
            let _ = kill(pid, Signal::SIGTERM);
        }
        let until = Instant::now() + END_WAIT;
        while matches!(self.up.try_wait(), Ok(None)) {
            if Instant::now() > until {
                // The kernel takes the pods together with it.
                let _ = self.up.kill();
                let _ = self.up.wait();
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        state::remove(&self.state);
    }
}
