//! A program of the user inside a pod: from the caller's own process, so that the terminal is the caller's.

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, Signal};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Where to enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All namespaces of a container, with its environment.
    Container(u32),
    /// The node's network namespace only.
    Node(u32),
}

/// Runs the program and answers its exit code; 128 and the signal's number when a signal ended it. Call from a process
/// without other threads.
///
/// # Errors
/// The pod is gone, or the program cannot be started.
pub fn run(place: &Place, command: &[String]) -> io::Result<u8> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("no program given"));
    };
    let (pid, kinds): (u32, &[(&str, CloneFlags)]) = match place {
        Place::Node(pid) => (*pid, &[("net", CloneFlags::CLONE_NEWNET)]),
        Place::Container(pid) => (
            *pid,
            &[
                ("net", CloneFlags::CLONE_NEWNET),
                ("uts", CloneFlags::CLONE_NEWUTS),
                ("ipc", CloneFlags::CLONE_NEWIPC),
                ("pid", CloneFlags::CLONE_NEWPID),
                ("mnt", CloneFlags::CLONE_NEWNS),
            ],
        ),
    };
    let environment = match place {
        Place::Container(_) => std::fs::read(format!("/proc/{pid}/environ"))?,
        Place::Node(_) => Vec::new(),
    };
    // All are opened before the first is entered: /proc is another one then.
    let mut opened = Vec::new();
    for (name, kind) in kinds {
        opened.push((File::open(format!("/proc/{pid}/ns/{name}"))?, *kind));
    }
    let mut child = Command::new(program);
    child.args(arguments);
    for (namespace, kind) in opened {
        setns(namespace, kind)?;
    }
    if matches!(place, Place::Container(_)) {
        std::env::set_current_dir("/")?;
    }
    if !environment.is_empty() {
        child.env_clear();
        if let Some(terminal) = std::env::var_os("TERM") {
            child.env("TERM", terminal);
        }
        for variable in environment.split(|byte| *byte == 0) {
            let text = String::from_utf8_lossy(variable);
            if let Some((name, value)) = text.split_once('=') {
                child.env(name, value);
            }
        }
    }
    // Ctrl-C is the program's: it is in the same process group and gets it from the terminal itself.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGQUIT);
    signals.thread_block()?;
    let status = child
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?
        .wait()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
