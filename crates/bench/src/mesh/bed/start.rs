//! Start of a testbed: the arguments of `leno up`, and the wait until applications and sidecars are ready.

use super::{Bed, LOOK_AGAIN};
use crate::mesh::{
    self, Choice, Kind, Topology, authority, envoy, haproxy, leno, linkerd, machine, manifests,
    neighbours, nginx, none, redirect, sidecar, state,
};
use anyhow::{Context, Result, bail};
use leno_runtime::http_client::Call;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// `leno up` reports what is not ready when its own time is over; it may take this much longer to say so.
const SAY_WAIT: Duration = Duration::from_secs(15);
const REPLACE_WAIT: Duration = Duration::from_millis(250);

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
        if let Some(missing) = mesh::missing(choice) {
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
                Ok(line) if line.starts_with("leno: not ready: ") => break,
                Ok(line) if line.starts_with("leno: error") || line.starts_with("leno:     ") => {
                    // What starts again and again says the same again and again.
                    if !wrong.contains(&line) {
                        wrong.push(line);
                    }
                }
                Ok(line) => drop(line),
                Err(RecvTimeoutError::Timeout) => {
                    wrong.push("leno up did not become ready".to_owned());
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
        let question = Call::get("/ready", machine::ANSWER_WAIT, machine::ANSWER_BYTES_MAX);
        'again: loop {
            let expected = format!("ready {}", sidecar::mark(&self.generated()?));
            for pod in self.pods()?.iter().filter(|pod| !pod.proxy_pids.is_empty()) {
                let first = pod.first_pid.context("a pod without namespaces")?;
                let to = ([127, 0, 0, 1], redirect::READY_PORT).into();
                let said = machine::in_network(first, || question.tcp_blocking(to))?;
                if !said.is_ok_and(|said| said.body.contains(&expected)) {
                    if Instant::now() > until {
                        bail!("the sidecar of {} does not apply changes", pod.name);
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
}

/// The program, which ends when this one is killed, with everything that it started, so that no pod stays behind.
/// Without `setpriv`, which every Debian has, the next bed ends it.
fn tied(program: &Path) -> Command {
    let Some(setpriv) = mesh::find_program("setpriv") else { return Command::new(program) };
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

/// The arguments of `leno up` for this mesh.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

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
    fn what_is_tied_ends_with_who_started_it() {
        // The kernel looks at the thread that started it.
        let starter = std::thread::spawn(|| {
            let child = tied(Path::new("/bin/sleep")).arg("600").spawn().unwrap();
            let name = format!("/proc/{}/comm", child.id());
            while std::fs::read_to_string(&name).unwrap().trim() != "sleep" {
                std::thread::sleep(LOOK_AGAIN);
            }
            child
        });
        let mut child = starter.join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
    }
}
