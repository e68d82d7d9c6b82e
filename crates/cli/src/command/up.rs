//! `leno up`: in front, or in the background once everything is ready.

use crate::args::{Mesh, Up};
use anyhow::{Context, bail};
use leno_up::state::Paths;
use leno_up::supervisor::{self, Options, Substitute, Talk};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The line by which the background half says that it needs its reader no more.
const READY_MARK: &str = "\u{4}ready";

/// Progress to standard error, where it does not mix with what containers write.
struct Front;

impl Talk for Front {
    fn progress(&self, line: &str) {
        eprintln!("leno: {line}");
    }

    fn ready(&self, line: &str) {
        eprintln!("leno: {line}; Ctrl-C ends it");
    }

    fn problem(&self, line: &str) {
        eprintln!("leno: {line}");
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
}

pub(super) fn run(state: &Path, up: Up) -> anyhow::Result<ExitCode> {
    if up.detach && !up.detached {
        return detach(state);
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
    let talk: &dyn Talk = if up.detached { &Background } else { &Front };
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
fn detach(state: &Path) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(output) = child.stdout.take() else { bail!("no pipe to the background") };
    for line in BufReader::new(output).lines() {
        let line = line?;
        if line == READY_MARK {
            eprintln!(
                "leno: in the background; `leno ps` shows it, `leno down` ends it ({})",
                Paths::new(state).root().display()
            );
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("leno: {line}");
    }
    child.wait()?;
    Ok(ExitCode::FAILURE)
}
