//! The node's own side of a pod: processes, as the machine sees them. For clusters whose nodes are namespaces of this machine, as
//! those of `cargo xtask test-cluster`; elsewhere these fail and say so.

use crate::ground::kubectl;
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The main process of a pod's container, sidecars among them.
///
/// # Errors
/// When the pod does not run on this machine.
pub(crate) fn process(namespace: &str, pod: &str, container: &str) -> Result<Pid> {
    let pod = kubectl::json(&["-n", namespace, "get", "pod", pod, "-o", "json"])?;
    let fields = ["containerStatuses", "initContainerStatuses"];
    let statuses = fields.iter().flat_map(|field| pod["status"][field].as_array()).flatten();
    let id = statuses
        .filter(|status| status["name"] == container)
        .find_map(|status| status["containerID"].as_str()?.rsplit('/').next())
        .context("no such container")?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if groups.contains(id) {
            return Ok(Pid::from_raw(number));
        }
    }
    bail!("container {id} does not run on this machine; this test needs the node's processes")
}

/// The API server of a cluster that runs as processes of this machine.
pub(crate) struct ApiServer {
    /// `PID NAME` in each line; whoever stops the cluster reads it.
    list: PathBuf,
    command: Vec<String>,
}

impl ApiServer {
    /// Ends it at once, as a crash does.
    ///
    /// # Errors
    /// When it is not one of this machine.
    pub(crate) fn kill() -> Result<Self> {
        let configuration = kubectl::run(&["config", "view", "--raw", "-o", "json"])?;
        let configuration: Value = serde_json::from_str(&configuration)?;
        let user = &configuration["users"][0]["user"];
        let near = user["client-certificate"].as_str().map(PathBuf::from).or_else(kubeconfig);
        let list = near.as_deref().and_then(Path::parent).and_then(Path::parent);
        let list = list.context("where the cluster is")?.join("pids");
        let text = fs::read_to_string(&list).with_context(|| {
            format!("{}: this test needs a cluster of `cargo xtask test-cluster`", list.display())
        })?;
        let pid: i32 = pid_of(&text).context("no API server")?.parse()?;
        let line = fs::read(format!("/proc/{pid}/cmdline"))?;
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let command = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        kill(Pid::from_raw(pid), Signal::SIGKILL)?;
        Ok(Self { list, command })
    }

    /// Starts it again as it was.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(&self) -> Result<()> {
        let log = self.list.with_file_name("log").join("kube-apiserver.log");
        let log = fs::OpenOptions::new().append(true).open(log)?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // It outlives this test.
        let child = command.process_group(0).spawn()?;
        let text = fs::read_to_string(&self.list)?;
        let old = pid_of(&text).context("no API server")?;
        let lines = text.lines().map(|line| {
            if line.starts_with(&format!("{old} ")) {
                format!("{} kube-apiserver\n", child.id())
            } else {
                format!("{line}\n")
            }
        });
        fs::write(&self.list, lines.collect::<String>())?;
        Ok(())
    }
}

fn pid_of(list: &str) -> Option<&str> {
    list.lines().find_map(|line| line.strip_suffix(" kube-apiserver"))
}

#[expect(clippy::disallowed_methods, reason = "which cluster these tests are for")]
fn kubeconfig() -> Option<PathBuf> {
    std::env::var("KUBECONFIG").ok().map(PathBuf::from)
}
