//! Accepting connections, and how many of them a thread may have open. What a connection is for, the caller's handler says.

use crate::ending::Ending;
use crate::telemetry::Direction;
use crate::thread::ThreadContext;
use leno_runtime::drain::Guard;
use leno_runtime::tasks;
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Connections that wait for us to accept them.
const BACKLOG: i32 = 4096;

/// Connections that one thread may have open in one direction.
#[derive(Debug)]
pub struct Places {
    direction: Direction,
    open: Cell<usize>,
    max: usize,
}

/// One connection's place, held for as long as it is open. The drain waits for it.
pub struct Place {
    places: Rc<Places>,
    _guard: Guard,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open.set(self.places.open.get() - 1);
    }
}

impl Places {
    /// The places of the calling thread.
    #[must_use]
    pub fn new(thread: &ThreadContext, direction: Direction) -> Rc<Self> {
        let max = thread.limits.connections_max / thread.config.workers.max(1);
        Rc::new(Self { direction, open: Cell::new(0), max })
    }

    /// A place for one more connection; where there is none, that is counted.
    pub fn take(self: &Rc<Self>, thread: &ThreadContext) -> Option<Place> {
        if self.open.get() >= self.max {
            thread.recorder.ended(self.direction, Ending::ConnectionLimit);
            return None;
        }
        self.open.set(self.open.get() + 1);
        Some(Place { places: self.clone(), _guard: thread.drain.guard() })
    }
}

/// Accepts until the drain starts, and spawns what `serve` makes of each connection.
pub async fn accept<F>(
    thread: Rc<ThreadContext>,
    listener: TcpListener,
    places: Rc<Places>,
    (name, serve): (&'static str, impl Fn(TcpStream, Place) -> F),
) where
    F: Future<Output = ()> + 'static,
{
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    // Out of descriptors or memory: waiting lets connections end; nothing else helps.
                    tracing::warn!(%error, direction = places.direction.as_str(), "cannot accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = thread.drain.started() => return,
        };
        let Some(place) = places.take(&thread) else { continue };
        // Small writes are whole messages here: waiting for more would only delay them.
        if socket.set_nodelay(true).is_ok() {
            tasks::spawn_local(name, serve(socket, place));
        }
    }
}

/// Listens; an unspecified IPv6 address takes IPv4 too, and stands for IPv4 alone on a machine without IPv6.
///
/// # Errors
/// The port is taken, or not ours to take.
pub fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    bind_exactly(address, shared).or_else(|error| match address.ip() {
        IpAddr::V6(ip)
            if ip.is_unspecified() && error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT) =>
        {
            let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
            bind_exactly(any, shared)
        }
        _ => Err(error),
    })
}

fn bind_exactly(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}
