//! One data-path thread: its listeners, and everything that its connections share. Nothing here is shared with
//! another thread but what discovery and identity publish.

use crate::config::{Config, Limits};
use crate::conn::sniff::Learned;
use crate::conn::{inbound, outbound};
use crate::discovery;
use crate::ending::Ending;
use crate::request::local_reply::Refusal;
use crate::telemetry::Recorder;
use crate::telemetry::access_log::AccessLog;
use crate::upstream::{Backend, Family};
use crate::{balance, capture};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use leno_model::name::Resource;
use leno_model::policy::InboundPolicy;
use leno_model::route::{self, BackendKind, OutboundPolicy};
use leno_model::workload::{Endpoint, EndpointSet};
use leno_runtime::drain::Drain;
use leno_runtime::random::Random;
use leno_runtime::tasks;
use leno_tls::Credentials;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

mod fail_open;
mod observe;
mod standing;

pub use observe::Decided;
pub use standing::Standing;
use standing::Stands;

/// So long does the first one to ask for a service wait for its first endpoint: where a service has just come to be,
/// its endpoints are on their way. As long as linkerd queues before it fails fast.
const FIRST_ENDPOINT_MAX: Duration = Duration::from_secs(3);
/// Idle connections and unused destinations are looked at so often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Metric series that are idle are looked for so often; it takes the lock of the registry.
const SERIES_SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Applications (address and port of our own pod) that one thread remembers.
const APPLICATIONS_MAX: usize = 256;

type Map<K, V> = RefCell<HashMap<K, V, RandomState>>;

/// The thread.
pub struct Worker {
    /// What is fixed for the life of the process.
    pub config: Arc<Config>,
    /// Its limits.
    pub limits: Limits,
    /// Its limits on HTTP/1 messages.
    pub http1_limits: leno_http1::Limits,
    /// Its numbers.
    pub recorder: Recorder,
    /// For balancing and jitter.
    pub random: Random,
    /// Says when to end.
    pub drain: Drain,
    /// Where requests are logged.
    pub access_log: Option<AccessLog>,
    discovery: discovery::Handle,
    credentials: RefCell<watch::Receiver<Option<Arc<Credentials>>>>,
    destinations: Map<SocketAddr, Rc<Destination>>,
    backends: Map<(Arc<str>, Family), Rc<Backend>>,
    applications: Map<SocketAddr, Rc<Backend>>,
    ports: Map<u16, Rc<Port>>,
    open: [Cell<usize>; 2],
    own_addresses: Vec<IpAddr>,
    swept_at: Cell<Instant>,
}

/// Sockets of one thread.
pub struct Listeners {
    /// From outside.
    pub inbound: Vec<TcpListener>,
    /// From our application.
    pub outbound: Vec<TcpListener>,
}

/// The newest value of something that discovery keeps current, read without a lock while it does not change.
struct Followed<T> {
    receiver: RefCell<watch::Receiver<Arc<T>>>,
    current: RefCell<Arc<T>>,
    used_at: Cell<Instant>,
}

impl<T> Followed<T> {
    fn new(mut receiver: watch::Receiver<Arc<T>>) -> Self {
        let current = receiver.borrow_and_update().clone();
        Self {
            receiver: RefCell::new(receiver),
            current: RefCell::new(current),
            used_at: Cell::new(Instant::now()),
        }
    }

    fn get(&self) -> Arc<T> {
        let mut receiver = self.receiver.borrow_mut();
        // An error means that discovery has ended: the last good state stays.
        if receiver.has_changed().unwrap_or(false) {
            self.current.replace(receiver.borrow_and_update().clone());
        }
        self.current.borrow().clone()
    }
}

/// An address that our application connects to.
pub struct Destination {
    policy: Followed<OutboundPolicy>,
    forwards: RefCell<Vec<Rc<Backend>>>,
    family: Family,
    /// Nobody has said what it is; it holds until then (`fail: open`).
    guessed_until: Option<Instant>,
    /// What was seen of its protocol.
    pub learned: Learned,
}

impl Destination {
    fn new(
        policy: watch::Receiver<Arc<OutboundPolicy>>,
        target: SocketAddr,
        guessed_until: Option<Instant>,
    ) -> Self {
        Self {
            policy: Followed::new(policy),
            forwards: RefCell::default(),
            family: Family::of(target),
            guessed_until,
            learned: Learned::default(),
        }
    }

    /// The policy as of now: take it once and use it to the end.
    #[must_use]
    pub fn policy(&self) -> Arc<OutboundPolicy> {
        self.policy.get()
    }
}

/// A port of our application.
pub struct Port {
    policy: Followed<InboundPolicy>,
    stands: Stands,
    /// Nobody has said what holds there; it holds until then (`fail: open`).
    guessed_until: Option<Instant>,
    /// Its number.
    pub number: u16,
    /// What was seen of its protocol.
    pub learned: Learned,
}

impl Port {
    fn new(
        policy: watch::Receiver<Arc<InboundPolicy>>,
        number: u16,
        guessed_until: Option<Instant>,
    ) -> Self {
        let policy = Followed::new(policy);
        let stands = Stands::new(policy.get());
        Self { policy, stands, guessed_until, number, learned: Learned::default() }
    }

    /// The policy as of now.
    #[must_use]
    pub fn policy(&self) -> Arc<InboundPolicy> {
        self.policy.get()
    }
}

impl Worker {
    /// A thread's state.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        recorder: Recorder,
        discovery: discovery::Handle,
        credentials: watch::Receiver<Option<Arc<Credentials>>>,
        drain: Drain,
        access_log: Option<AccessLog>,
    ) -> Rc<Self> {
        let limits = config.limits.clone();
        crate::io::buffer::configure(limits.buffer_bytes);
        let http1_limits = leno_http1::Limits {
            head_bytes_max: limits.head_bytes_max,
            headers_max: limits.headers_max,
            ..leno_http1::Limits::DEFAULT
        };
        Rc::new(Self {
            access_log,
            limits,
            http1_limits,
            recorder,
            random: Random::from_entropy(),
            drain,
            discovery,
            credentials: RefCell::new(credentials),
            destinations: Map::default(),
            backends: Map::default(),
            applications: Map::default(),
            ports: Map::default(),
            open: Default::default(),
            own_addresses: own_addresses(),
            swept_at: Cell::new(Instant::now()),
            config,
        })
    }

    /// Accepts until the drain starts; connections that are open go on in tasks of their own.
    pub async fn run(self: Rc<Self>, listeners: Listeners) {
        for listener in listeners.inbound {
            tasks::spawn_local("inbound", self.clone().accept(listener, Side::Inbound));
        }
        for listener in listeners.outbound {
            tasks::spawn_local("outbound", self.clone().accept(listener, Side::Outbound));
        }
        let sweeping = tasks::spawn_local("sweep", self.clone().sweep_now_and_then());
        // Polled whenever anything is: it must be cheap.
        self.drain.started().await;
        sweeping.abort();
    }

    async fn sweep_now_and_then(self: Rc<Self>) {
        let mut interval = tokio::time::interval(SWEEP_INTERVAL);
        let mut series_interval = tokio::time::interval(SERIES_SWEEP_INTERVAL);
        loop {
            tokio::select! {
                _ = interval.tick() => self.sweep(Instant::now()),
                _ = series_interval.tick() => self.recorder.sweep(Instant::now()),
            }
        }
    }

    async fn accept(self: Rc<Self>, listener: TcpListener, side: Side) {
        loop {
            let socket = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => socket,
                    Err(error) => {
                        // Out of descriptors or memory: waiting lets connections end; nothing else helps.
                        tracing::warn!(%error, ?side, "cannot accept");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                () = self.drain.started() => return,
            };
            if self.is_full(side) {
                continue;
            }
            // Small writes are whole messages here: waiting for more would only delay them.
            if socket.set_nodelay(true).is_err() {
                continue;
            }
            let open = &self.open[side as usize];
            open.set(open.get() + 1);
            // Two tasks, not one that chooses: each would have the room that the larger needs, for as long as it idles.
            match side {
                Side::Inbound => {
                    tasks::spawn_local("inbound connection", self.clone().serve_inbound(socket))
                }
                Side::Outbound => {
                    tasks::spawn_local("outbound connection", self.clone().serve_outbound(socket))
                }
            };
        }
    }

    async fn serve_inbound(self: Rc<Self>, socket: TcpStream) {
        let _held = (self.drain.guard(), Open(&self.open[Side::Inbound as usize]));
        inbound::serve(self.clone(), socket).await;
    }

    async fn serve_outbound(self: Rc<Self>, socket: TcpStream) {
        let _held = (self.drain.guard(), Open(&self.open[Side::Outbound as usize]));
        outbound::serve(self.clone(), socket).await;
    }

    /// Whether there is no room for another connection; then that is counted.
    fn is_full(&self, side: Side) -> bool {
        let open = self.open[side as usize].get();
        let full = open >= self.limits.connections_max / self.config.workers.max(1);
        if full {
            self.recorder.ended(side.direction(), Ending::ConnectionLimit);
        }
        full
    }

    /// Room for one more from outside that came within another connection; it counts as one until this is dropped.
    #[must_use]
    pub fn inbound_place(self: &Rc<Self>) -> Option<Place> {
        if self.is_full(Side::Inbound) {
            return None;
        }
        let open = &self.open[Side::Inbound as usize];
        open.set(open.get() + 1);
        Some(Place(self.clone()))
    }

    /// When the last sweep was: the time to within [`SWEEP_INTERVAL`], without asking the clock.
    #[must_use]
    pub fn swept_at(&self) -> Instant {
        self.swept_at.get()
    }

    /// Lets go of what is old or unused.
    fn sweep(&self, now: Instant) {
        self.swept_at.set(now);
        let unused = |used_at: Instant| {
            now.saturating_duration_since(used_at) > self.limits.discovery_unused_max
        };
        for backend in self.backends.borrow().values().chain(self.applications.borrow().values()) {
            backend.sweep(now, &self.limits);
        }
        for port in self.ports.borrow().values() {
            self.judge(port);
        }
        for destination in self.destinations.borrow().values() {
            for backend in destination.forwards.borrow().iter() {
                backend.sweep(now, &self.limits);
            }
        }
        self.destinations
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.policy.used_at.get()));
        self.backends
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.used_at()));
        self.applications
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.used_at()));
        self.ports
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.policy.used_at.get()));
    }

    /// The newest credentials; the listeners are not open before the first.
    ///
    /// # Panics
    /// Before the first credential, which is a fault of the wiring in `app.rs`.
    #[must_use]
    pub fn credentials(&self) -> Arc<Credentials> {
        self.credentials
            .borrow()
            .borrow()
            .clone()
            .expect("listeners open after the first credential")
    }

    /// Where our own listeners are, nothing may be sent: it would come back to us for ever.
    #[must_use]
    pub fn is_own_listener(&self, target: SocketAddr) -> bool {
        target.ip().is_loopback() && target.port() == self.config.capture.outbound_port
    }

    /// Whether this is an address of our own pod.
    #[must_use]
    pub fn is_own_address(&self, address: IpAddr) -> bool {
        self.own_addresses.contains(&address)
    }

    /// The port that other proxies send transport headers to.
    #[must_use]
    pub fn inbound_port(&self) -> u16 {
        self.config.capture.inbound_port
    }

    /// What is known about an address that our application connects to.
    ///
    /// # Errors
    /// The control plane has not said in time.
    pub async fn destination(&self, target: SocketAddr) -> Result<Rc<Destination>, Refusal> {
        let known = self.destinations.borrow().get(&target).cloned();
        let again = known.is_some();
        if let Some(known) = known.filter(|known| self.holds(known.guessed_until)) {
            known.policy.used_at.set(self.swept_at());
            return Ok(known);
        }
        let asked = Box::pin(self.ask_destination(target, again)).await.map_err(unavailable)?;
        let mut destinations = self.destinations.borrow_mut();
        // Another connection may have asked at the same time: both then use the first.
        let first = destinations.entry(target).or_insert_with(|| asked.clone());
        if !self.holds(first.guessed_until) {
            *first = asked;
        }
        Ok(first.clone())
    }

    /// Whether something that nobody has said may still be taken for so; what the control plane has said always is.
    fn holds(&self, guessed_until: Option<Instant>) -> bool {
        guessed_until.is_none_or(|until| self.swept_at() < until)
    }

    /// The endpoints of a backend.
    ///
    /// # Errors
    /// The control plane has not said in time.
    pub async fn backend(
        &self,
        destination: &Destination,
        backend: &route::Backend,
    ) -> Result<Rc<Backend>, Refusal> {
        let balance = match &backend.kind {
            BackendKind::Balance(balance) => balance,
            BackendKind::Broken => return Err(Ending::BackendInvalid.into()),
            BackendKind::Forward(endpoint) => {
                return Ok(destination.forward(&backend.resource, endpoint));
            }
        };
        let key = (balance.destination.clone(), destination.family);
        if let Some(known) = self.backends.borrow().get(&key) {
            return Ok(known.clone());
        }
        let made = Box::pin(self.discover(destination, &backend.resource, balance)).await?;
        Ok(self.backends.borrow_mut().entry(key).or_insert(made).clone())
    }

    /// A backend that is asked for the first time.
    async fn discover(
        &self,
        destination: &Destination,
        resource: &Resource,
        balance: &route::Balance,
    ) -> Result<Rc<Backend>, Refusal> {
        let mut receiver =
            self.discovery.endpoints(&balance.destination).await.map_err(unavailable)?;
        let come = |set: &Arc<EndpointSet>| !set.exists || !set.endpoints.is_empty();
        // Without one in time, or when discovery ends, the request hears that there is none.
        let _first =
            tokio::time::timeout(FIRST_ENDPOINT_MAX, receiver.wait_for(come)).await.is_ok();
        let settings = balance::Settings {
            default_latency: balance.default_latency,
            decay: balance.decay,
            slow_start: self.limits.slow_start,
            ..balance::Settings::default()
        };
        let gauge = self.recorder.endpoints(&destination.policy().parent, resource);
        let family = destination.family;
        Ok(Rc::new(Backend::discovered(resource.clone(), family, settings, receiver, gauge)))
    }

    /// Our own application at this address.
    pub fn application(&self, target: SocketAddr) -> Rc<Backend> {
        let mut applications = self.applications.borrow_mut();
        if applications.len() >= APPLICATIONS_MAX && !applications.contains_key(&target) {
            applications.retain(|_, held| Rc::strong_count(held) > 1);
        }
        applications
            .entry(target)
            .or_insert_with(|| {
                let name = Resource::default_named("application");
                Rc::new(Backend::fixed(name, Arc::new(Endpoint::plain(target))))
            })
            .clone()
    }

    /// What is known about a port of our application.
    ///
    /// # Errors
    /// The control plane has not said in time: closed until it has.
    pub async fn port(&self, number: u16) -> Result<Rc<Port>, Refusal> {
        let known = self.ports.borrow().get(&number).cloned();
        let again = known.is_some();
        if let Some(known) = known.filter(|known| self.holds(known.guessed_until)) {
            known.policy.used_at.set(self.swept_at());
            return Ok(known);
        }
        let asked = Box::pin(self.ask_port(number, again))
            .await
            .map_err(|error| Refusal::because(Ending::PolicyUnknown, error.to_string()))?;
        let mut ports = self.ports.borrow_mut();
        let first = ports.entry(number).or_insert_with(|| asked.clone());
        if !self.holds(first.guessed_until) {
            *first = asked;
        }
        Ok(first.clone())
    }
}

impl Destination {
    /// The one endpoint that the policy names, with its connections, as long as it names the same.
    fn forward(&self, resource: &Resource, endpoint: &Arc<Endpoint>) -> Rc<Backend> {
        let mut forwards = self.forwards.borrow_mut();
        if let Some(known) = forwards.iter().find(|known| known.is_fixed_to(endpoint)) {
            return known.clone();
        }
        forwards.retain(|known| Rc::strong_count(known) > 1);
        let made = Rc::new(Backend::fixed(resource.clone(), endpoint.clone()));
        forwards.push(made.clone());
        made
    }
}

/// A pod's addresses do not change while it lives.
fn own_addresses() -> Vec<IpAddr> {
    capture::apply::own_addresses().unwrap_or_else(|error| {
        tracing::warn!(%error, "the addresses of the pod cannot be read: calls of the pod to itself will fail");
        Vec::new()
    })
}

fn unavailable(error: discovery::Unavailable) -> Refusal {
    Refusal::because(Ending::DiscoveryUnavailable, error.to_string())
}

/// Which listener.
#[derive(Clone, Copy, Debug)]
enum Side {
    Inbound = 0,
    Outbound = 1,
}

impl Side {
    fn direction(self) -> crate::telemetry::Direction {
        match self {
            Self::Inbound => crate::telemetry::Direction::Inbound,
            Self::Outbound => crate::telemetry::Direction::Outbound,
        }
    }
}

/// A connection within another, counted as open.
pub struct Place(Rc<Worker>);

impl Drop for Place {
    fn drop(&mut self) {
        drop(Open(&self.0.open[Side::Inbound as usize]));
    }
}

struct Open<'a>(&'a Cell<usize>);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
