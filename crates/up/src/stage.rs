//! The hidden faces of the `leno` program: the short stages between `leno up` and a pod's programs.
//!
//! Each runs before any thread of its process exists, so everything here is an ordinary system call in an ordinary process;
//! no code runs between a fork and an exec.

mod root;
mod verb;

use crate::container::Start;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Gid, Pid, Uid, setgid, setgroups, setuid};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
pub use verb::{CONTAINER, FIRST, INSIDE, NODE, PASSAGE};

/// As a shell answers for a program that cannot be run.
const CANNOT_RUN: u8 = 127;

/// Runs a stage when the arguments name one; call first in `main`.
#[must_use]
pub fn run(arguments: &[String]) -> Option<ExitCode> {
    let ended = match arguments.get(1)?.as_str() {
        FIRST => first(),
        CONTAINER => container(Path::new(arguments.get(2)?)),
        INSIDE => inside(arguments.get(2..)?),
        NODE => node(arguments.get(2..)?),
        PASSAGE => passage(arguments.get(2..)?),
        _ => return None,
    };
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leno: {error}");
            ExitCode::from(CANNOT_RUN)
        }
    })
}

/// Takes in orphans until `leno up` is gone. When this ends, the kernel kills everything in the pod.
fn first() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let parent = io::stdin();
    loop {
        // Standard input is a pipe that only `leno up` holds: its end is the parent's end, even if it came before `prctl`.
        let mut ready = [
            PollFd::new(children.as_fd(), PollFlags::POLLIN),
            PollFd::new(parent.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let parent_gone = ready[1].revents().is_some_and(|events| !events.is_empty());
        while children.read_signal()?.is_some() {}
        while let Ok(status) = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        if parent_gone {
            return Ok(());
        }
    }
}

/// Builds the container's root, gives up privileges, and becomes the program.
fn container(start: &Path) -> io::Result<()> {
    let text = std::fs::read(start)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", start.display())))?;
    let start: Start = serde_json::from_slice(&text)?;
    if let Some(root) = &start.root {
        root::enter(root)?;
    } else {
        root::cover(&start.over)?;
    }
    become_program(&start)
}

/// Joins the root of a running container, then as [`container`].
fn inside(arguments: &[String]) -> io::Result<()> {
    let [start, pid, command @ ..] = arguments else {
        return Err(io::Error::other("needs a container, its process and a command"));
    };
    let mut start: Start = serde_json::from_slice(&std::fs::read(start)?)?;
    crate::enter::wait_for_program(pid.parse().map_err(io::Error::other)?)?;
    let root = std::fs::File::open(format!("/proc/{pid}/ns/mnt"))?;
    setns(root, CloneFlags::CLONE_NEWNS)?;
    start.command = command.to_vec();
    become_program(&start)
}

/// Gives up privileges as the container wants, and becomes the program.
fn become_program(start: &Start) -> io::Result<()> {
    let Some((program, arguments)) = start.command.split_first() else {
        return Err(io::Error::other("no command"));
    };
    let directory =
        if start.working_directory.is_empty() { "/" } else { start.working_directory.as_str() };
    std::env::set_current_dir(directory)
        .map_err(|error| io::Error::new(error.kind(), format!("{directory}: {error}")))?;
    // A session of its own: Ctrl-C at the terminal is for `leno up`, which then ends the containers in order.
    nix::unistd::setsid()?;
    setgroups(&[])?;
    setgid(Gid::from_raw(start.group))?;
    setuid(Uid::from_raw(start.user))?;
    let path = start.environment.iter().find(|(name, _)| name == "PATH");
    let program = find(program, path.map_or("", |(_, path)| path))
        .ok_or_else(|| io::Error::other(format!("program {program} not found in PATH")))?;
    let environment = start.environment.iter().map(|(name, value)| (name, value));
    let error = Command::new(&program).args(arguments).env_clear().envs(environment).exec();
    Err(io::Error::new(error.kind(), format!("{program}: {error}")))
}

/// Looks a program up as a shell does, in the container's own PATH.
fn find(program: &str, path: &str) -> Option<String> {
    if program.contains('/') {
        return Some(program.to_owned());
    }
    let places = path.split(':').filter(|place| !place.is_empty());
    let mut candidates = places.map(|place| format!("{place}/{program}"));
    candidates.find(|candidate| Path::new(candidate).is_file())
}

/// Opens the way to a path for every user, and becomes the program.
fn passage(arguments: &[String]) -> io::Result<()> {
    let [path, program, arguments @ ..] = arguments else {
        return Err(io::Error::other("needs a path and a program"));
    };
    crate::passage::open(&[Path::new(path)])?;
    Err(Command::new(program).args(arguments).exec())
}

/// Ends with `leno up`, whatever way that ends, and becomes the program.
fn node(command: &[String]) -> io::Result<()> {
    let Some((parent, [program, arguments @ ..])) = command.split_first() else {
        return Err(io::Error::other("needs the parent and a program"));
    };
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if nix::unistd::getppid().to_string() != *parent {
        return Err(io::Error::other("leno up is gone"));
    }
    nix::unistd::setsid()?;
    Err(Command::new(program).args(arguments).exec())
}
