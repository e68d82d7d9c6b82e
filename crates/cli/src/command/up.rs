//! `leno up`: in front, or in the background once everything is ready.

use crate::args::{Mesh, Up};
use anyhow::{Context, bail};
use leno_runtime::progress::{Line, Medium};
use leno_up::state::Paths;
use leno_up::supervisor::{self, Options, Substitute, Talk};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Stderr, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The line by which the background half says that it needs its reader no more.
const READY_MARK: &str = "\u{4}ready";

/// The line by which the background half says what it waits for.
const WAITING_MARK: &str = "\u{4}waiting ";

/// Progress to standard error, where it does not mix with what containers write.
struct Front {
    /// What is awaited.
    line: RefCell<Line<Stderr>>,
}

impl Front {
    /// A line that is drawn again would mix with the output of containers, so that gets whole lines.
    fn new(quiet: bool, shows_logs: bool) -> Self {
        let medium = match Medium::of_stderr(quiet) {
            Medium::Terminal if shows_logs => Medium::Pipe,
            medium => medium,
        };
        Self { line: RefCell::new(Line::new(std::io::stderr(), medium)) }
    }

    fn say(&self, line: &str) {
        self.line.borrow_mut().clear();
        eprintln!("leno: {line}");
    }
}

impl Talk for Front {
    fn progress(&self, line: &str) {
        self.say(line);
    }

    fn ready(&self, line: &str) {
        self.say(&format!("{line}; Ctrl-C ends it"));
    }

    fn problem(&self, line: &str) {
        self.say(line);
    }

    fn waiting(&self, text: &str, elapsed: Duration) {
        self.line.borrow_mut().show(&format!("leno: {text}"), elapsed);
    }
}

/// Progress to the front half, which waits on a pipe; nobody is there any more after the mark.
struct Background;

impl Background {
    fn say(line: &str) {
        let mut out = std::io::stdout().lock();
        drop(writeln!(out, "{line}").and_then(|()| out.flush()));
    }
}

impl Talk for Background {
    fn progress(&self, line: &str) {
        Self::say(line);
    }

    fn ready(&self, line: &str) {
        Self::say(line);
        Self::say(READY_MARK);
    }

    fn problem(&self, line: &str) {
        Self::say(line);
        tracing::warn!("{line}");
    }

    fn waiting(&self, text: &str, _elapsed: Duration) {
        Self::say(&format!("{WAITING_MARK}{text}"));
    }
}

pub(super) fn run(state: &Path, up: Up) -> anyhow::Result<ExitCode> {
    if up.detach && !up.detached {
        return detach(state, up.quiet);
    }
    if up.detached {
        nix::unistd::setsid().context("a session of its own")?;
    }
    leno_runtime::log::start(&up.log, leno_runtime::log::Format::Plain)
        .map_err(anyhow::Error::msg)?;
    let control = !up.without_control;
    let sidecar = up.sidecar.map(|program| Substitute {
        command: std::iter::once(program).chain(up.sidecar_args).collect(),
        control,
    });
    let options = Options {
        sources: up.files,
        mesh: up.mesh == Mesh::Leno,
        sidecar,
        state_directory: state.to_owned(),
        show_logs: !up.detached && !up.quiet,
        ready_wait: Duration::from_secs(up.wait),
        end_unless_ready: up.detached,
    };
    let front = Front::new(up.quiet, options.show_logs);
    let talk: &dyn Talk = if up.detached { &Background } else { &front };
    match supervisor::run(&options, talk) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if up.detached => {
            Background::say(&format!("error: {error}"));
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error.into()),
    }
}

/// Starts the same command again in the background and repeats what it says until it is ready.
fn detach(state: &Path, quiet: bool) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(output) = child.stdout.take() else { bail!("no pipe to the background") };
    let (front, began) = (Front::new(quiet, false), Instant::now());
    for line in BufReader::new(output).lines() {
        let line = line?;
        if let Some(text) = line.strip_prefix(WAITING_MARK) {
            front.waiting(text, began.elapsed());
            continue;
        }
        if line == READY_MARK {
            front.say(&format!(
                "in the background; `leno ps` shows it, `leno down` ends it ({})",
                Paths::new(state).root().display()
            ));
            return Ok(ExitCode::SUCCESS);
        }
        front.say(&line);
    }
    child.wait()?;
    Ok(ExitCode::FAILURE)
}
