//! A program of the user inside a pod: from the caller's own process, so that the terminal is the caller's.

use crate::container::Start;
use crate::stage::CONTAINER;
use crate::state::Paths;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigSet, Signal};
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A container's process becomes its program within milliseconds, on a machine that has anything to give.
const PROGRAM_WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Where to enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All namespaces of a container's process, as the user and with the environment that the container was started with.
    Container(u32, Box<Start>),
    /// The node's network namespace only.
    Node(u32),
}

/// Waits until a container's process has become its program. Before that it sees the machine's own files, or a root that is half
/// built, and what is done in the container must not be done there.
///
/// # Errors
/// The process is gone, or stays what it is.
pub fn wait_for_program(pid: u32) -> io::Result<()> {
    let began = Instant::now();
    while !is_program(&std::fs::read(format!("/proc/{pid}/cmdline"))?) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        if status.contains(") Z ") {
            return Err(io::Error::other("the container has ended"));
        }
        if began.elapsed() > PROGRAM_WAIT_MAX {
            return Err(io::Error::other("the container has not started its program"));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Whether this is the command line of a container's program. It is empty in the middle of an exec.
fn is_program(command_line: &[u8]) -> bool {
    let stage = command_line.split(|byte| *byte == 0).nth(1);
    !command_line.is_empty() && stage != Some(CONTAINER.as_bytes())
}

/// How a container was started, from where `leno up` keeps it for itself.
///
/// # Errors
/// The container is gone, or the caller is not root.
pub fn start_of(paths: &Paths, namespace: &str, pod: &str, container: &str) -> io::Result<Start> {
    let file = paths.start(namespace, pod, container);
    let text = std::fs::read(&file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Connects to a loopback port inside of a process's network namespace. Only root may; the connection works everywhere.
///
/// # Errors
/// The process is gone, the caller is not root, or nothing listens.
pub fn connect(pid: u32, port: u16, limit: Duration) -> io::Result<TcpStream> {
    // A thread of its own: a thread that has entered does not come back.
    let entered = std::thread::spawn(move || {
        setns(File::open(format!("/proc/{pid}/ns/net"))?, CloneFlags::CLONE_NEWNET)?;
        TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), limit)
    });
    entered.join().map_err(|_| io::Error::other("the connecting thread panicked"))?
}

/// Runs the program and answers its exit code; 128 and the signal's number when a signal ended it. Call from a process
/// without other threads.
///
/// # Errors
/// The pod is gone, or the program cannot be started.
pub fn run(place: &Place, command: &[String]) -> io::Result<u8> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("the program to run is missing"));
    };
    let (pid, kinds): (u32, &[(&str, CloneFlags)]) = match place {
        Place::Node(pid) => (*pid, &[("net", CloneFlags::CLONE_NEWNET)]),
        Place::Container(pid, _) => (
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
    if matches!(place, Place::Container(..)) {
        wait_for_program(pid)?;
    }
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
    if let Place::Container(_, start) = place {
        let directory = Some(start.working_directory.as_str()).filter(|path| !path.is_empty());
        std::env::set_current_dir(directory.unwrap_or("/"))?;
        // Not what is in /proc: the program may have changed that, and this process is root's.
        child.env_clear().envs(start.environment.iter().map(|(name, value)| (name, value)));
        if let Some(terminal) = std::env::var_os("TERM") {
            child.env("TERM", terminal);
        }
        child.uid(start.user).gid(start.group);
    }
    // Ctrl-C is the program's: it is in the same process group and gets it from the terminal itself.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGQUIT);
    signals.thread_block()?;
    let status = match child.spawn() {
        Ok(mut started) => started.wait()?,
        // As a shell answers for a program that is not there, or may not be run.
        Err(error) => {
            eprintln!("leno: {program}: {error}");
            return Ok(if is_found(place, program) { 126 } else { 127 });
        }
    };
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Does something on a thread of its own in the network namespace of a process.
///
/// # Errors
/// The process is gone, or the caller is not root.
pub fn in_network<T: Send>(pid: u32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let network = File::open(format!("/proc/{pid}/ns/net"))?;
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            setns(network, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        });
        inside.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the pod panicked")))
    })
}

/// Whether there is such a program. The kernel answers "permission denied" also where it may not look into a directory of `PATH`.
fn is_found(place: &Place, program: &str) -> bool {
    let Place::Container(_, start) = place else { return Path::new(program).exists() };
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let path = start.environment.iter().find(|(name, _)| name == "PATH");
    let mut places = path.map_or("", |(_, path)| path.as_str()).split(':');
    places.any(|place| Path::new(place).join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn a_container_is_entered_when_it_is_one() {
        assert!(!is_program(b""));
        assert!(!is_program(b"/proc/self/exe\0__container\0/run/start.json\0"));
        assert!(is_program(b"/bin/server\0"));
        assert!(is_program(b"sh\0-c\0echo __container\0"));
        // A shell that waits for its script, and does not look like a program yet.
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join(CONTAINER);
        nix::unistd::mkfifo(&script, Mode::S_IRWXU).unwrap();
        let mut shell = Command::new("/bin/sh");
        let mut shell = shell.arg0("leno").arg(CONTAINER).current_dir(&place).spawn().unwrap();
        let line = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!is_program(&line(shell.id())));
        std::fs::write(&script, "exec sleep 600\n").unwrap();
        wait_for_program(shell.id()).unwrap();
        assert!(line(shell.id()).starts_with(b"sleep\0"));
        shell.kill().unwrap();
        let ended = loop {
            let ended = wait_for_program(shell.id());
            if ended.is_err() {
                break ended;
            }
        };
        assert_eq!(ended.unwrap_err().to_string(), "the container has ended");
        shell.wait().unwrap();
        assert!(wait_for_program(shell.id()).is_err());
    }
}
