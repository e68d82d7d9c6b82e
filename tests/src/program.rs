//! A program inside a namespace: started, read, signalled and ended.

use crate::namespace::Namespace;
use crate::wait;
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What to run, before it runs.
#[derive(Debug, Clone)]
pub struct Program {
    path: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    user: Option<u32>,
    directory: Option<PathBuf>,
    input: Vec<u8>,
}

impl Program {
    /// A program by path, or by name to be found in `PATH`.
    pub fn new(path: impl AsRef<OsStr>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            user: None,
            directory: None,
            input: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it as another user, without groups and so without capabilities.
    #[must_use]
    pub fn user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Runs it in a directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// What it reads from standard input.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Starts it inside the namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(self, namespace: &Namespace) -> Result<Running> {
        // `setpriv` sets the parent-death signal and the user without a line of unsafe code here.
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig=KILL");
        if let Some(user) = self.user {
            command.arg(format!("--reuid={user}")).arg(format!("--regid={user}"));
            command.arg("--clear-groups");
        }
        command.arg("--").arg(&self.path).args(&self.arguments).envs(self.environment);
        command.stdin(if self.input.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        let name = self.path.to_string_lossy().rsplit('/').next().unwrap_or_default().to_owned();
        let mut child = namespace
            .on_keeper(move || command.spawn())
            .with_context(|| format!("cannot run {name} by setpriv (Debian: util-linux)"))?;
        if let Some(mut stdin) = child.stdin.take() {
            let input = self.input;
            std::thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let log = Arc::new(Log::default());
        if let Some(stdout) = child.stdout.take() {
            follow(stdout, Arc::clone(&log), |said| &mut said.stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            follow(stderr, Arc::clone(&log), |said| &mut said.stderr);
        }
        Ok(Running { name, child, log, ended: None })
    }

    /// Runs it to its end and returns what it said.
    ///
    /// # Errors
    /// When it cannot be started, fails, or has not ended in time; with all it said.
    pub fn output(self, namespace: &Namespace, limit: Duration) -> Result<Output> {
        let output = self.outcome(namespace, limit)?;
        if !output.status.success() {
            bail!("{} failed ({}):\n{}", output.name, output.status, output.everything());
        }
        Ok(output)
    }

    /// As [`Self::output`], and failing is an answer like any other.
    ///
    /// # Errors
    /// When it cannot be started or has not ended in time; with all it said.
    pub fn outcome(self, namespace: &Namespace, limit: Duration) -> Result<Output> {
        let mut running = self.start(namespace)?;
        let status = running.wait(limit)?;
        let (stdout, stderr) = running.log.complete();
        Ok(Output { name: running.name.clone(), status, stdout, stderr })
    }
}

/// What a program said until its end.
#[derive(Debug)]
pub struct Output {
    name: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Both outputs as text, for a message.
    pub fn everything(&self) -> String {
        format!("{}{}", self.text(), String::from_utf8_lossy(&self.stderr))
    }
}

#[derive(Debug, Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    open: u8,
}

#[derive(Debug, Default)]
struct Log {
    said: Mutex<Said>,
    more: Condvar,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both outputs, once their last writer has closed them (or 10 s after the end of the program:
    /// a grandchild may hold them open).
    fn complete(&self) -> (Vec<u8>, Vec<u8>) {
        let limit = wait::LIMIT;
        let waited = self.more.wait_timeout_while(self.lock(), limit, |said| said.open > 0);
        let (said, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (said.stdout.clone(), said.stderr.clone())
    }
}

fn follow(
    mut from: impl Read + Send + 'static,
    log: Arc<Log>,
    which: fn(&mut Said) -> &mut Vec<u8>,
) {
    log.lock().open += 1;
    std::thread::spawn(move || {
        let mut piece = [0; 16 * 1024];
        loop {
            let count = from.read(&mut piece).unwrap_or(0);
            let mut said = log.lock();
            if count == 0 {
                said.open -= 1;
                log.more.notify_all();
                return;
            }
            which(&mut said).extend_from_slice(&piece[..count]);
            log.more.notify_all();
        }
    });
}

/// A program that runs; killed when dropped.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    log: Arc<Log>,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // A program that has just ended by itself is no reason to fail.
        let _ = kill(Pid::from_raw(self.pid()), signal);
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When it has not ended in time; with all it said.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("{} has not ended within {limit:?}; it said:\n{}", self.name, self.said());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Everything it has said so far, both outputs.
    pub fn said(&self) -> String {
        let said = self.log.lock();
        format!(
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        )
    }

    /// Waits until it has said `text`, on either output.
    ///
    /// # Errors
    /// When it ended or the limit passed before; with all it said.
    pub fn wait_for(&self, text: &str, limit: Duration) -> Result<()> {
        let has = |said: &Said| {
            [&said.stdout, &said.stderr].iter().any(|s| String::from_utf8_lossy(s).contains(text))
        };
        let (said, _) = self
            .log
            .more
            .wait_timeout_while(self.log.lock(), limit, |said| !has(said) && said.open > 0)
            .unwrap_or_else(PoisonError::into_inner);
        if has(&said) {
            return Ok(());
        }
        drop(said);
        bail!("{} did not say {text:?} within {limit:?}; it said:\n{}", self.name, self.said());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
