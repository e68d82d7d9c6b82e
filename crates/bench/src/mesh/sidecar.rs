//! `leno bench sidecar`: what runs in a pod in the place of Leno's proxy, around the real proxy of a peer.
//!
//! [`run`] is the whole story: a certificate, the configuration, the proxy as the user that is not captured, the rules, then waiting.
//! It wakes up when the neighbours' file of `leno up` changes, when the proxy ends, at a signal, and for a readiness request. Otherwise it
//! uses no CPU, and its CPU does not count as the proxy's.

use super::neighbours;
use super::place::{BOTH, Configuration, KEY, LEAF, Numbers, Place};
use super::privileges::drop_privileges;
use super::redirect::{INBOUND_PORT, OUTBOUND_PORT, PROXY_USER, READY_PORT};
use super::{authority, envoy, haproxy, linkerd, nginx};
use anyhow::{Context, Result, bail};
use leno_runtime::file::write_atomically;
use leno_up::namespace::feed;
use leno_up::passage;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Changes come in groups: pods start together.
const QUIET_MILLISECONDS: u16 = 40;
/// A proxy that does not listen by then does not come up.
const LISTEN_WAIT_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// A reader of `/ready` that says nothing.
const READY_WAIT_MAX: Duration = Duration::from_secs(2);

/// Whose proxy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `HAProxy`.
    Haproxy,
    Nginx,
    Envoy,
    /// linkerd2-proxy.
    Linkerd,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "haproxy" => Ok(Self::Haproxy),
            "nginx" => Ok(Self::Nginx),
            "envoy" => Ok(Self::Envoy),
            "linkerd" => Ok(Self::Linkerd),
            _ => Err(format!("{text:?} is not a known sidecar")),
        }
    }
}

/// The command line of the sidecar.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whose proxy.
    pub peer: Peer,
    /// The real proxy.
    pub program: PathBuf,
    /// The directory of the bed's authority; linkerd has the control plane's.
    pub authority: PathBuf,
    /// Command that runs what follows it as the proxy's user, ended with this process: `leno bench sidecar become --`.
    pub become_command: Vec<String>,
}

/// Runs until a signal ends it.
///
/// # Errors
/// What cannot be made, or that the proxy ended by itself.
pub fn run(wanted: &Wanted) -> Result<()> {
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    let place = Place::read(&variables, wanted.authority.join(authority::CERTIFICATE))?;
    // The proxy runs as a user of its own, also where it lies in a home that is closed to others.
    passage::open(&[&wanted.program])?;
    chown(&place.directory, Some(PROXY_USER), Some(PROXY_USER))?;
    if wanted.peer == Peer::Linkerd {
        match linkerd::become_proxy(&place, &variables, &wanted.program)? {}
    }
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT] {
        mask.add(signal);
    }
    // Before the first thread, which inherits it.
    mask.thread_block()?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    changes
        .add_watch(&place.generated, AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CLOSE_WRITE)?;
    write_certificate(&place, &wanted.authority)?;
    let configured = Arc::new(AtomicU64::new(0));
    answer_ready(place.ipv6, Arc::clone(&configured))?;
    let mut kept = Kept {
        wanted: wanted.clone(),
        place,
        numbers: Numbers::default(),
        now: Configuration::default(),
        proxy: None,
        old: Vec::new(),
    };
    configured.store(kept.configure()?, Ordering::Release);
    loop {
        let mut ready = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(changes.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let changed = ready[1].revents().is_some_and(|events| !events.is_empty());
        while let Some(signal) = signals.read_signal()? {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                return kept.end();
            }
        }
        kept.reap()?;
        if changed {
            until_quiet(&changes)?;
            match kept.configure() {
                Ok(mark) => configured.store(mark, Ordering::Release),
                Err(error) => eprintln!(
                    "the new configuration was rejected; the previous one stays: {error:#}"
                ),
            }
        }
    }
}

/// Takes events until none comes for a moment.
fn until_quiet(changes: &Inotify) -> Result<()> {
    loop {
        // No event left to read is not an error.
        let _ = changes.read_events();
        let mut more = [PollFd::new(changes.as_fd(), PollFlags::POLLIN)];
        if poll(&mut more, PollTimeout::from(QUIET_MILLISECONDS))? == 0 {
            return Ok(());
        }
    }
}

/// By which it is known what a sidecar has read; never 0.
#[must_use]
pub fn mark(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish() | 1
}

fn write_certificate(place: &Place, directory: &Path) -> Result<()> {
    let leaf = authority::issue(directory, &place.identity)?;
    let both = format!("{}{}", leaf.certificate, leaf.key);
    for (name, content) in [(LEAF, &leaf.certificate), (KEY, &leaf.key), (BOTH, &both)] {
        let file = place.directory.join(name);
        write_atomically(&file, content.as_bytes(), 0o400)?;
        chown(&file, Some(PROXY_USER), Some(PROXY_USER))?;
    }
    Ok(())
}

/// The proxy, and what it runs with now.
struct Kept {
    wanted: Wanted,
    place: Place,
    numbers: Numbers,
    now: Configuration,
    proxy: Option<Child>,
    /// Predecessors that finish their connections.
    old: Vec<Child>,
}

impl Kept {
    /// Configures the proxy for the current neighbours; returns the mark of this configuration.
    fn configure(&mut self) -> Result<u64> {
        let text = self.place.read_generated()?;
        let neighbours = neighbours::read(&text, &self.place.addresses)?;
        let place = &self.place;
        let next = match self.wanted.peer {
            Peer::Haproxy => haproxy::configuration(place, &neighbours, &mut self.numbers),
            Peer::Nginx => {
                nginx::configuration(place, &neighbours, &mut self.numbers, nginx::has_stream())
            }
            Peer::Envoy => envoy::configuration(place, &neighbours),
            Peer::Linkerd => Configuration::default(),
        };
        let changed: Vec<&String> = next
            .files
            .iter()
            .filter(|(name, text)| self.now.files.get(*name) != Some(*text))
            .map(|(name, _)| name)
            .collect();
        for name in &changed {
            write_atomically(&place.directory.join(name), next.files[*name].as_bytes(), 0o644)?;
        }
        if !changed.is_empty() || self.proxy.is_none() {
            self.reload()?;
        }
        if next.redirects != self.now.redirects || self.now.files.is_empty() {
            let mut listeners: BTreeSet<u16> = [OUTBOUND_PORT, INBOUND_PORT].into();
            listeners.extend(next.redirects.leaving.iter().map(|leaving| leaving.listener));
            let arriving = next.redirects.arriving.iter();
            listeners.extend(
                arriving.flat_map(|one| [one.with_tls, one.plain].into_iter().chain(one.plain_v6)),
            );
            self.until_listening(&listeners)?;
            feed("nft", &["-f", "-"], &next.redirects.text())?;
        }
        self.now = next;
        Ok(mark(&text))
    }

    /// Starts the proxy, or has it take what was written without losing a connection.
    fn reload(&mut self) -> Result<()> {
        let file = |name: &str| self.place.file(name);
        let program = self.wanted.program.display().to_string();
        let mut command = vec![program];
        let running = self.proxy.as_ref().map(|proxy| proxy.id().to_string());
        match (self.wanted.peer, &running) {
            (Peer::Haproxy, running) => {
                command.extend(["-db".to_owned(), "-f".to_owned(), file(haproxy::FILE)]);
                if let Some(pid) = running {
                    command.extend([
                        "-x".to_owned(),
                        file(haproxy::SOCKET),
                        "-sf".to_owned(),
                        pid.clone(),
                    ]);
                }
            }
            (Peer::Nginx, None) => {
                let directory = self.place.directory.display().to_string();
                command.extend(["-p".to_owned(), directory, "-c".to_owned(), file(nginx::FILE)]);
            }
            (Peer::Envoy, None) => {
                command.extend(["-c".to_owned(), file(envoy::FILE)]);
                command.extend(["--concurrency".to_owned(), self.place.workers.to_string()]);
                command
                    .extend(["--disable-hot-restart", "--log-level", "warning"].map(str::to_owned));
            }
            (Peer::Nginx, Some(_)) => return self.tell(Signal::SIGHUP),
            // Envoy watches its files; linkerd's proxy asks the control plane.
            (Peer::Envoy | Peer::Linkerd, _) => return Ok(()),
        }
        let Some((first, arguments)) = self.wanted.become_command.split_first() else {
            bail!("the command of the proxy is missing")
        };
        let child = Command::new(first)
            .args(arguments)
            .args(command)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| first.clone())?;
        self.old.extend(self.proxy.replace(child));
        Ok(())
    }

    fn tell(&self, signal: Signal) -> Result<()> {
        for child in self.proxy.iter().chain(&self.old) {
            // A process that has just ended cannot get a signal, and needs none.
            let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
        }
        Ok(())
    }

    fn until_listening(&mut self, ports: &BTreeSet<u16>) -> Result<()> {
        let until = Instant::now() + LISTEN_WAIT_MAX;
        loop {
            let listening = listening();
            let Some(not) = ports.iter().find(|port| !listening.contains(port)) else {
                return Ok(());
            };
            self.reap()?;
            if Instant::now() > until {
                bail!("{} does not listen on port {not}", self.wanted.program.display());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Takes note of what has ended; a proxy that ended by itself is a mistake, and `leno up` starts the sidecar again.
    fn reap(&mut self) -> Result<()> {
        self.old.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if let Some(proxy) = &mut self.proxy
            && let Some(status) = proxy.try_wait()?
        {
            self.tell(Signal::SIGTERM)?;
            bail!("{} ended: {status}", self.wanted.program.display());
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.tell(Signal::SIGTERM)?;
        for child in self.proxy.iter_mut().chain(&mut self.old) {
            child.wait()?;
        }
        Ok(())
    }
}

/// Ports that something in this network namespace listens on.
fn listening() -> BTreeSet<u16> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let texts = tables.iter().filter_map(|table| std::fs::read_to_string(table).ok());
    texts.flat_map(|text| listeners(&text)).collect()
}

/// Of the kernel's table: local address, remote address, state; `0A` is a listener.
fn listeners(table: &str) -> BTreeSet<u16> {
    let ports = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _remote, state) = (words.next()?, words.next()?, words.next()?);
        let (_, port) = local.rsplit_once(':')?;
        (state == "0A").then(|| u16::from_str_radix(port, 16).ok())?
    });
    ports.collect()
}

/// Answers `/ready` in a thread: 200 once the proxy is configured and listens, with the [`mark`] of what it is configured for.
fn answer_ready(ipv6: bool, configured: Arc<AtomicU64>) -> Result<()> {
    let listener = match ipv6 {
        true => TcpListener::bind((Ipv6Addr::UNSPECIFIED, READY_PORT)),
        false => TcpListener::bind((Ipv4Addr::UNSPECIFIED, READY_PORT)),
    }
    .with_context(|| format!("port {READY_PORT}"))?;
    std::thread::Builder::new().name("ready".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let mark = configured.load(Ordering::Acquire);
            let listening = listening();
            let up = [OUTBOUND_PORT, INBOUND_PORT].iter().all(|port| listening.contains(port));
            // The client may have closed; then errors do not matter.
            let _ = answer(stream, if up { mark } else { 0 });
        }
    })?;
    Ok(())
}

fn answer(mut stream: TcpStream, mark: u64) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READY_WAIT_MAX))?;
    let mut request = [0; 2048];
    if stream.read(&mut request)? == 0 {
        return Ok(());
    }
    let (status, body) = match mark {
        0 => ("503 Service Unavailable", "not yet\n".to_owned()),
        mark => ("200 OK", format!("ready {mark}\n")),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Gives up privileges and becomes the program, which the kernel ends together with its parent.
///
/// # Errors
/// It cannot be run.
pub fn become_program(command: &[String]) -> Result<Infallible> {
    let Some((program, arguments)) = command.split_first() else {
        bail!("the program to run is missing")
    };
    drop_privileges()?;
    // After the change of user, which takes it back.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| program.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_of_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
            0: 00000000:102F 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:1030 0100007F:A000 01 00000000:00000000\n   \
            2: 00000000000000000000000000000000:105F 00000000000000000000000000000000:0000 0A 0:0\n";
        assert_eq!(listeners(table), [4143, 4191].into());
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(listening().contains(&bound.local_addr().unwrap().port()));
    }

    #[test]
    fn readiness_is_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for (mark, expected) in [(7, "HTTP/1.1 200 "), (0, "HTTP/1.1 503 ")] {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.write_all(b"GET /ready HTTP/1.1\r\n\r\n").unwrap();
            answer(listener.accept().unwrap().0, mark).unwrap();
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
