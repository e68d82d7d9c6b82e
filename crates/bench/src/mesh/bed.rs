//! A running topology: `leno up` as a child process with a state directory of its own, asked and ended like any other.
//!
//! One bed at a time. Dropping it ends everything; what a killed run left behind is ended when the next bed starts.

use super::{
    Choice, Kind, Topology, authority, envoy, haproxy, leno, linkerd, machine, manifests,
    neighbours, nginx, none, redirect, sidecar, state,
};
use anyhow::{Context, Result, bail};
use leno_up::request::{PodRow, Reply, Request, ask};
use leno_up::state::Paths;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// `leno up` reports what is not ready when its own time is over; it may take this much longer to say so.
const SAY_WAIT: Duration = Duration::from_secs(15);
/// Pods may take their termination grace period.
const END_WAIT: Duration = Duration::from_secs(60);
const CONTROL_RESTART_WAIT: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const REPLACE_WAIT: Duration = Duration::from_millis(250);

/// A pod of a bed. Process identifiers are those that the machine sees; each stands for its whole tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// Namespace.
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
    /// Starts the topology under this mesh and waits until all of it is ready. Logs of pods come into the directory when it ends.
    ///
    /// # Errors
    /// Mistakes in manifests, something missing, pods that do not become ready in time; nothing is left then.
    pub fn start(
        choice: &Choice,
        topology: &Topology,
        directory: &Path,
        ready_wait: Duration,
    ) -> Result<Self> {
        if let Some(missing) = super::missing(choice) {
            bail!("{missing}");
        }
        let leno = leno::home(choice).map_err(anyhow::Error::msg)?;
        std::fs::create_dir_all(directory)?;
        let directory = std::path::absolute(directory)?;
        state::end_abandoned();
        let state = state::new()?;
        let guard = state::Unstarted(Some(state.clone()));
        let written = state.join("manifests");
        manifests::write(topology, choice, &written)?;
        let program = program(choice);
        let mut arguments = arguments(choice, &leno, program.as_deref(), &state)?;
        arguments.push("-f".to_owned());
        arguments.push(written.display().to_string());
        let mut up = tied(&leno)
            .arg("--state-dir")
            .arg(state.join("up"))
            .args(["up", "--quiet", "--wait"])
            .arg(ready_wait.as_secs().max(1).to_string())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| leno.display().to_string())?;
        let said = up.stderr.take().context("no pipe")?;
        guard.keep();
        // From here on the bed ends what was started.
        let bed = Self {
            choice: choice.clone(),
            leno,
            program,
            directory,
            state,
            up,
            questions: Mutex::default(),
        };
        bed.until_ready(said, ready_wait)?;
        bed.until_told(ready_wait)?;
        if choice.kind == Kind::Nginx && !nginx::has_stream() {
            bed.refuse_tcp()?;
        }
        Ok(bed)
    }

    /// Follows what `leno up` says, into a file too, until it says that everything is ready.
    fn until_ready(&self, said: impl Read + Send + 'static, ready_wait: Duration) -> Result<()> {
        let mut file = File::create(self.directory.join("up.log"))?;
        let (sender, lines) = mpsc::sync_channel::<String>(1024);
        // Ends with the pipe; nobody may be held up by one that is full.
        std::thread::Builder::new().name("leno up".to_owned()).spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                // A full disk is not a reason to stop reading.
                let _ = writeln!(file, "{line}");
                let _ = sender.try_send(line);
            }
        })?;
        let until = Instant::now() + ready_wait + SAY_WAIT;
        let mut wrong = Vec::new();
        loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("leno: ready: ") => break,
                Ok(line) if line.starts_with("leno: error") || line.starts_with("leno:     ") => {
                    // What starts again and again says the same again and again.
                    if !wrong.contains(&line) {
                        wrong.push(line);
                    }
                }
                Ok(line) => drop(line),
                Err(RecvTimeoutError::Timeout) => {
                    wrong.push("leno up does not say that it is ready".to_owned());
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    wrong.push("leno up ended".to_owned());
                    break;
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let log = self.directory.join("up.log");
        bail!("{} did not become ready ({}):\n{}", self.choice, log.display(), wrong.join("\n"))
    }

    /// Waits until every supervised sidecar has read what `leno up` said last: the last pod that became ready.
    fn until_told(&self, wait: Duration) -> Result<()> {
        if !self.is_supervised() {
            return Ok(());
        }
        let until = Instant::now() + wait;
        let request = b"GET /ready HTTP/1.1\r\nHost: sidecar\r\nConnection: close\r\n\r\n";
        'again: loop {
            let expected = format!("ready {}", sidecar::mark(&self.generated()?));
            for pod in self.pods()?.iter().filter(|pod| !pod.proxy_pids.is_empty()) {
                let first = pod.first_pid.context("a pod without namespaces")?;
                let to = ([127, 0, 0, 1], redirect::READY_PORT).into();
                let said = machine::in_network(first, || machine::exchange(to, request))?
                    .unwrap_or_default();
                if !said.contains(&expected) {
                    if Instant::now() > until {
                        bail!("the sidecar of {} does not follow changes", pod.name);
                    }
                    std::thread::sleep(LOOK_AGAIN);
                    continue 'again;
                }
            }
            break;
        }
        // What is replaced goes on accepting for a moment: nginx gives its workers a tenth of a second.
        std::thread::sleep(REPLACE_WAIT);
        Ok(())
    }

    fn is_supervised(&self) -> bool {
        matches!(self.choice.kind, Kind::Envoy | Kind::Haproxy | Kind::Nginx)
    }

    fn refuse_tcp(&self) -> Result<()> {
        let neighbours = neighbours::read(&self.generated()?, &[])?;
        let tcp = |one: &&neighbours::Destination| one.protocol == neighbours::Protocol::Tcp;
        if let Some(one) = neighbours.destinations.iter().find(tcp) {
            bail!(
                "nginx: {} is not HTTP, and nginx has no stream module; apt-get install libnginx-mod-stream",
                one.name
            );
        }
        Ok(())
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

    /// Sends the signal to every process of the pod's containers. One that ends is started again by `leno up`.
    ///
    /// # Errors
    /// There is no such pod, or nothing of it runs.
    pub fn kill_pod_app(&self, pod: &str, signal: i32) -> Result<()> {
        let pod = self.pod(pod)?;
        let signal = Signal::try_from(signal)?;
        let mut reached = 0;
        for root in &pod.app_pids {
            for pid in machine::tree(*root) {
                reached += usize::from(kill(Pid::from_raw(pid), signal).is_ok());
            }
        }
        if reached == 0 {
            bail!("nothing runs in pod {}", pod.name);
        }
        Ok(())
    }

    /// Kills the control plane and waits until `leno up` has started it again.
    ///
    /// # Errors
    /// This mesh has none, or it does not come back.
    pub fn restart_control(&self) -> Result<()> {
        let before = self.control_pids();
        if before.is_empty() {
            bail!("{} has no control plane to restart", self.choice);
        }
        for pid in &before {
            kill(Pid::from_raw(*pid), Signal::SIGKILL)?;
        }
        let until = Instant::now() + CONTROL_RESTART_WAIT;
        loop {
            let now = self.control_pids();
            if now.iter().any(|pid| !before.contains(pid)) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("leno-control does not come back");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Delays and loses what leaves this pod; zeros take it back. The delay is one way: a round trip is longer by as much.
    ///
    /// # Errors
    /// `tc` is missing, or the kernel has no netem; see [`super::netem_missing`].
    pub fn netem(&self, pod: &str, delay_ms: f64, loss_share: f64) -> Result<()> {
        if !(0.0..=60_000.0).contains(&delay_ms) || !(0.0..=1.0).contains(&loss_share) {
            bail!("netem: a delay from 0 to 60,000 ms and a loss from 0 to 1");
        }
        let pod = self.pod(pod)?;
        let first =
            pod.first_pid.with_context(|| format!("pod {} has no namespaces now", pod.name))?;
        let clear = delay_ms == 0.0 && loss_share == 0.0;
        let mut words = vec!["qdisc"];
        let (delay, loss) = (format!("{delay_ms}ms"), format!("{}%", loss_share * 100.0));
        if clear {
            words.extend(["del", "dev", "eth0", "root"]);
        } else {
            words.extend([
                "replace", "dev", "eth0", "root", "netem", "delay", &delay, "loss", &loss,
            ]);
        }
        let result = machine::in_network(first, || machine::tc(&words))?;
        match result {
            // Nothing was there to be taken back.
            Err(said) if clear && (said.contains("No such file") || said.contains("zero")) => {
                Ok(())
            }
            Err(said) => bail!("{said}"),
            Ok(()) => Ok(()),
        }
    }

    /// Gives the pod's `leno-worker` another plan, on its admin port.
    ///
    /// # Errors
    /// The pod runs no worker with `--admin`, or the worker refuses the plan.
    pub fn set_worker(&self, pod: &str, config: &Value) -> Result<()> {
        let pod = self.pod(pod)?;
        let first =
            pod.first_pid.with_context(|| format!("pod {} has no namespaces now", pod.name))?;
        let port = admin_port(&self.generated()?, &pod)
            .with_context(|| format!("pod {} runs no leno-worker with --admin=PORT", pod.name))?;
        let body = config.to_string();
        let request = format!(
            "PUT /plan HTTP/1.1\r\nHost: worker\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        // Inside of the pod, so that no proxy is in between.
        let answer = machine::in_network(first, || {
            machine::exchange((pod.ip, port).into(), request.as_bytes())
        })??;
        if answer.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        let (head, said) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
        let status = head.lines().next().unwrap_or_default();
        bail!("the worker of {} answers {status}: {}", pod.name, said.trim())
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
        // It answers when it has ended; when it cannot be asked, it is told by signal.
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

/// The program, told to end when this one is killed: what it started goes with it, and no pod is left to run for nobody.
/// Without `setpriv`, which every Debian has, the next bed ends it.
fn tied(program: &Path) -> Command {
    let Some(setpriv) = super::find_program("setpriv") else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "TERM"]).arg(program);
    command
}

fn program(choice: &Choice) -> Option<PathBuf> {
    match choice.kind {
        Kind::None => None,
        Kind::Leno => leno::proxy(choice),
        Kind::Envoy => envoy::find(choice),
        Kind::Haproxy => haproxy::find(choice),
        Kind::Nginx => nginx::find(choice),
        Kind::Linkerd => linkerd::find(choice),
    }
}

/// What `leno up` is told of this mesh.
fn arguments(
    choice: &Choice,
    leno: &Path,
    program: Option<&Path>,
    state: &Path,
) -> Result<Vec<String>> {
    match choice.kind {
        Kind::None => return Ok(none::arguments()),
        Kind::Leno => return Ok(Vec::new()),
        _ => {}
    }
    let authority = state.join("authority");
    let mut arguments = vec!["--sidecar".to_owned(), leno.display().to_string()];
    if !choice.kind.has_control() {
        authority::create(&authority)?;
        arguments.push("--without-control".to_owned());
    }
    let program = program.context("no program")?.display().to_string();
    let authority = authority.display().to_string();
    let name = choice.kind.name();
    for word in ["bench", "sidecar", name, "--program", &program, "--authority", &authority] {
        arguments.push(format!("--sidecar-arg={word}"));
    }
    Ok(arguments)
}

/// The admin port of a pod's worker, from its command line.
fn admin_port(generated: &str, pod: &Pod) -> Option<u16> {
    let documents = neighbours::documents(generated).ok()?;
    let of_pod = documents.iter().find(|value| {
        value["kind"] == "Pod"
            && value["metadata"]["name"] == pod.name.as_str()
            && value["metadata"]["namespace"] == pod.namespace.as_str()
    })?;
    let words = of_pod["spec"]["containers"].as_array()?.iter().flat_map(|container| {
        ["command", "args"]
            .into_iter()
            .flat_map(|key| container[key].as_array().into_iter().flatten())
    });
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    let at = words.iter().position(|word| *word == "--admin" || word.starts_with("--admin="))?;
    let said = words[at].strip_prefix("--admin=").or_else(|| words.get(at + 1).copied())?;
    said.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leno_up_is_told() {
        let place = tempfile::tempdir().unwrap();
        let of = |text: &str, program: &str| {
            let choice: Choice = text.parse().unwrap();
            arguments(&choice, Path::new("/bin/leno"), Some(Path::new(program)), place.path())
                .unwrap()
                .join(" ")
        };
        assert_eq!(of("none", ""), "--mesh none");
        assert_eq!(of("leno", ""), "");
        let haproxy = of("haproxy", "/sbin/haproxy");
        assert!(
            haproxy.starts_with(
                "--sidecar /bin/leno --without-control --sidecar-arg=bench --sidecar-arg=sidecar --sidecar-arg=haproxy \
                 --sidecar-arg=--program --sidecar-arg=/sbin/haproxy"
            ),
            "{haproxy}"
        );
        assert!(place.path().join("authority").join(authority::CERTIFICATE).exists());
        assert!(!of("linkerd", "/x").contains("--without-control"));
    }

    #[test]
    fn the_workers_admin_port() {
        let pod = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let value = serde_json::json!({"kind": "Pod", "metadata": {"name": "w", "namespace": "n"},
                "spec": {"containers": [{"command": words}]}});
            let pod = Pod {
                name: "w".into(),
                namespace: "n".into(),
                workload: String::new(),
                ip: IpAddr::from([10, 0, 0, 1]),
                ready: true,
                restarts: 0,
                app_pids: Vec::new(),
                proxy_pids: Vec::new(),
                first_pid: None,
            };
            admin_port(&format!("---\n{value}\n"), &pod)
        };
        assert_eq!(pod("leno-worker --admin=9901"), Some(9901));
        assert_eq!(pod("leno-worker --http 1 --admin 0.0.0.0:9902"), Some(9902));
        assert_eq!(pod("leno-worker --http 1"), None);
    }
}
