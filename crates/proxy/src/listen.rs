//! How connections come in, and which of them stay: the accept loop of `leno_runtime::listen` with the proxy's limits.
//!
//! Connections of our own application are all of one source, so no share holds for them. From outside, a source that has
//! shown no identity has a quarter. Idle connections are closed from 80 % of the limit on, and in any case when they are old.

use crate::conn::dial;
use crate::ending::Ending;
use crate::io::progress::{self, Guarded};
use crate::telemetry::Direction;
use crate::thread::ThreadContext;
use leno_runtime::listen::{self, Admission, Class, Limits, Notice, Place, Refused};
use leno_runtime::{memory, sockets, tasks};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// Connections that wait for us to accept them.
const BACKLOG: i32 = 4096;
/// So many connections must have gone since the most, before the heap is worth a look.
const EBB_MIN: usize = 500;
/// And it must have stayed so for this long: a flood comes in waves.
const EBB_AGE: Duration = Duration::from_secs(10);

/// Connections that one thread may have open in one direction.
pub struct Places {
    thread: Rc<ThreadContext>,
    direction: Direction,
    admission: Admission,
    tide: Cell<Tide>,
}

/// A connection that carries many: idle while it carries none.
pub struct Around {
    places: Rc<Places>,
    source: IpAddr,
    place: Option<Rc<Place>>,
    streams: Cell<usize>,
}

/// A stream within another connection, counted as a connection.
pub struct Inside {
    _place: Place,
    around: Rc<Around>,
}

/// Remembers how high the flood was.
#[derive(Clone, Copy, Debug, Default)]
struct Tide {
    most: usize,
    ebb_since: Option<Instant>,
}

impl Tide {
    /// Whether so many connections have gone that memory should be given back now. `most` is the highest number since the
    /// last call.
    fn turns(&mut self, most: usize, open: usize, now: Instant) -> bool {
        self.most = self.most.max(most);
        if self.most - open < EBB_MIN.max(self.most / 2) {
            self.ebb_since = None;
            return false;
        }
        let since = *self.ebb_since.get_or_insert(now);
        if now.saturating_duration_since(since) < EBB_AGE {
            return false;
        }
        *self = Self { most: open, ebb_since: None };
        true
    }
}

impl Around {
    /// The connection from this source with this place.
    #[must_use]
    pub fn new(places: &Rc<Places>, source: IpAddr, place: Option<&Rc<Place>>) -> Rc<Self> {
        let (places, place) = (places.clone(), place.cloned());
        Rc::new(Self { places, source, place, streams: Cell::new(0) })
    }

    /// Room for one more that came within it; it counts until it is dropped.
    #[must_use]
    pub fn enter(self: &Rc<Self>) -> Option<Inside> {
        let places = &self.places;
        let now = places.thread.swept_at();
        let Ok((place, evicted)) = places.admission.enter(self.source, Class::Trusted, now) else {
            places.noticed(&Notice::Refused(self.source, Refused::Full));
            return None;
        };
        if let Some(source) = evicted {
            places.noticed(&Notice::Evicted(source));
        }
        // It ends with the connection around it, not by itself.
        place.busy();
        self.streams.set(self.streams.get() + 1);
        self.place.iter().for_each(|place| place.busy());
        Some(Inside { _place: place, around: self.clone() })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let around = &self.around;
        around.streams.set(around.streams.get() - 1);
        if around.streams.get() == 0 {
            let now = around.places.thread.swept_at();
            around.place.iter().for_each(|place| place.idle(now));
        }
    }
}

impl Places {
    /// The places of the calling thread.
    #[must_use]
    pub fn new(thread: &Rc<ThreadContext>, direction: Direction) -> Rc<Self> {
        let max = thread.limits.connections_max / thread.config.workers.max(1);
        let limits = Limits::of(max).with_early_eviction();
        let limits = match direction {
            Direction::Inbound => limits,
            Direction::Outbound => Limits { source_max: max, strangers_max: max, ..limits },
        };
        let (admission, tide) = (Admission::new(limits), Cell::default());
        Rc::new(Self { thread: thread.clone(), direction, admission, tide })
    }

    /// Closes what has been idle for too long, and gives memory back after a flood.
    pub fn sweep(&self, now: Instant) {
        let idle_max = self.thread.limits.client_idle_max;
        if !idle_max.is_zero() && self.admission.sweep(now, idle_max) > 0 {
            tracing::debug!(
                direction = self.direction.as_str(),
                "old idle connections were closed"
            );
        }
        let mut tide = self.tide.get();
        if tide.turns(self.admission.take_most(), self.admission.open(), now) {
            memory::give_back();
        }
        self.tide.set(tide);
    }

    /// Our own application, loopback and health probes keep reserved places.
    fn class(&self, source: IpAddr) -> Class {
        let probes = &self.thread.config.probe_sources;
        let trusted = self.direction == Direction::Outbound
            || source.is_loopback()
            || probes.iter().any(|net| net.contains(&source));
        if trusted { Class::Trusted } else { Class::Stranger }
    }

    fn noticed(&self, notice: &Notice<'_>) {
        let direction = self.direction.as_str();
        let (source, ending) = match notice {
            // Out of descriptors or memory: waiting lets connections end; nothing else helps.
            Notice::Failed(error) => return tracing::warn!(%error, direction, "cannot accept"),
            Notice::Evicted(source) => (source, Ending::ConnectionEvicted),
            Notice::Refused(source, Refused::Source) => (source, Ending::SourceLimit),
            Notice::Refused(source, Refused::Full) => (source, Ending::ConnectionLimit),
        };
        let shown = ending.shown();
        self.thread.recorder.ended(self.direction, ending);
        tracing::info!(direction, %source, ending = shown.flag, "connection closed: {}", shown.text);
    }

    /// A connection's task was ended because it made no progress.
    fn spins(&self) {
        self.thread.recorder.ended(self.direction, Ending::Spinning);
        tracing::error!(
            direction = self.direction.as_str(),
            "{}: it was closed; this is a defect of the proxy",
            Ending::Spinning.shown().text
        );
    }
}

/// Looks after this thread's sockets and tasks; once for each sweep.
pub fn sweep_thread() {
    progress::tick();
    sockets::sweep();
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
    let class = |source| places.class(source);
    let notice = |notice: Notice<'_>| places.noticed(&notice);
    let spawn = |socket, _, place| {
        // The drain waits for it.
        let held = (places.clone(), thread.drain.guard());
        let serving = Guarded::new(serve(socket, place), held, |(places, _)| places.spins());
        tasks::spawn_local(name, serving).abort_handle()
    };
    tokio::select! {
        never = listen::run(listener, places.admission.clone(), class, notice, spawn) => match never {},
        () = thread.drain.started() => {}
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
    // Accepted connections inherit these options. Small writes are whole messages here: waiting for more would only delay.
    socket.set_tcp_nodelay(true)?;
    dial::keep_alive(&SockRef::from(&socket))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_after_a_flood_and_not_within_it() {
        let began = Instant::now();
        let mut tide = Tide::default();
        let mut check = |seconds: u64, (most, open): (usize, usize), expected: bool| {
            let turned = tide.turns(most, open, began + Duration::from_secs(seconds));
            assert_eq!(turned, expected, "{seconds}");
        };
        check(0, (100, 100), false);
        check(1, (2000, 2000), false);
        check(2, (2000, 900), false);
        check(5, (1500, 1500), false);
        check(6, (1500, 20), false);
        check(15, (30, 30), false);
        check(16, (30, 30), true);
        check(60, (30, 20), false);
        // A flood that comes and goes within a second.
        check(61, (900, 20), false);
        check(71, (20, 20), true);
        check(100, (20, 0), false);
    }
}
