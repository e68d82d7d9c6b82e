//! One case: a client script against server scripts, run once.
//!
//! A server script is one *exchange* and not one connection: how many connections a mesh keeps to
//! the server, and how long, is its own business. An exchange begins with the first byte of a
//! request (or with the connection, where the server speaks first) on whatever connection.

use crate::namespace::Namespace;
use crate::script::{Seen, Side, Signals, Step};
use crate::wait;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The service's IPv4 address.
    Service,
    /// The service's IPv6 address.
    ServiceV6,
    /// The pod's own address.
    Pod,
}

/// One case of a table.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name in reports.
    pub name: &'static str,
    /// What the client does.
    pub client: Vec<Step>,
    /// What the server does, exchange by exchange.
    pub server: Vec<Vec<Step>>,
    /// Whether an exchange begins with the connection.
    pub server_first: bool,
    /// What the client connects to.
    pub to: To,
    /// What the service declares the port's protocol to be.
    pub protocol: Option<&'static str>,
    /// How long a single step may take.
    pub limit: Duration,
}

impl Case {
    /// A case in which the client speaks first, over IPv4.
    pub fn new(name: &'static str, client: Vec<Step>, server: Vec<Vec<Step>>) -> Self {
        let (to, protocol) = (To::Service, None);
        Self { name, client, server, server_first: false, to, protocol, limit: wait::LIMIT }
    }

    /// The server speaks as soon as it has a connection.
    #[must_use]
    pub fn server_first(mut self) -> Self {
        self.server_first = true;
        self
    }

    /// The client connects to another address than the service's IPv4.
    #[must_use]
    pub fn to(mut self, to: To) -> Self {
        self.to = to;
        self
    }

    /// The service declares the port's protocol.
    #[must_use]
    pub fn declared(mut self, protocol: &'static str) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// A single step may take this long.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

/// What both sides of a case saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The client's sights.
    pub client: Vec<Seen>,
    /// The server's, by exchange.
    pub server: Vec<Vec<Seen>>,
}

impl Outcome {
    /// Whether either side could not do a step.
    pub fn failed(&self) -> bool {
        let all = self.client.iter().chain(self.server.iter().flatten());
        all.into_iter().any(|seen| matches!(seen, Seen::Failed(_)))
    }
}

/// Where a case runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The client's namespace.
    pub client: &'a Namespace,
    /// The server's namespace.
    pub server: &'a Namespace,
    /// What the client connects to.
    pub address: SocketAddr,
    /// Where the server listens.
    pub port: u16,
}

struct Server<'a> {
    case: &'a Case,
    signals: &'a Signals,
    begun: AtomicUsize,
    done: AtomicBool,
    seen: Mutex<Vec<Vec<Seen>>>,
}

/// Runs a case.
///
/// # Panics
/// When the server cannot listen.
pub fn run(case: &Case, place: Place<'_>) -> Outcome {
    let signals = Signals::default();
    let listening = place.server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, place.port)));
    let listener = listening.expect("a port that only this case uses is free");
    let never = vec![Seen::Failed("never begun".to_owned())];
    let server = Server {
        case,
        signals: &signals,
        begun: AtomicUsize::new(0),
        done: AtomicBool::new(false),
        seen: Mutex::new(vec![never; case.server.len()]),
    };
    let client = std::thread::scope(|scope| {
        scope.spawn(|| server.accept(scope, &listener));
        let client = place
            .client
            .run(|| Side::client(place.address, &signals, case.limit).play(&case.client));
        server.done.store(true, Ordering::Release);
        client
    });
    Outcome { client, server: server.seen.into_inner().unwrap_or_else(PoisonError::into_inner) }
}

impl Server<'_> {
    fn accept<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>, listener: &TcpListener) {
        while self.readable(listener) {
            if let Ok((stream, _)) = listener.accept() {
                scope.spawn(|| self.serve(stream));
            }
        }
    }

    /// Waits for something to read; false when the client is through and nothing came.
    fn readable(&self, socket: &impl std::os::fd::AsFd) -> bool {
        loop {
            let mut watched = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            let done = self.done.load(Ordering::Acquire);
            if poll(&mut watched, PollTimeout::from(20_u8)).is_ok_and(|count| count > 0) {
                return true;
            }
            if done {
                return false;
            }
        }
    }

    fn serve(&self, stream: TcpStream) {
        let mut side = Side::server(stream, self.signals, self.case.limit);
        while let Some(stream) = side.stream().filter(|_| side.is_open()) {
            if !self.case.server_first && !side.has_surplus() {
                // A connection that ends without a byte is no exchange, whichever way it ends.
                if !self.readable(&stream.as_fd()) || !stream.peek(&mut [0]).is_ok_and(|n| n > 0) {
                    return;
                }
            }
            let number = self.begun.fetch_add(1, Ordering::AcqRel);
            let Some(steps) = self.case.server.get(number) else {
                let extra = side.play(&[Step::Drained]);
                self.note(|seen| {
                    seen.push([vec![Seen::Failed("too many".into())], extra].concat())
                });
                return;
            };
            let saw = side.play(steps);
            let failed = matches!(saw.last(), Some(Seen::Failed(_)));
            self.note(|seen| seen[number] = saw);
            if failed || self.case.server_first {
                return;
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut Vec<Vec<Seen>>)) {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
