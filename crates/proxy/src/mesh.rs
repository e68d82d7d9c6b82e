//! What one thread knows of the mesh: destinations that its application calls, their endpoints, and the ports of its
//! application. Each is asked for once, followed while it is used, and forgotten when it is not.
//!
//! - [`fail_open`]: what holds where the control plane has not said anything.

mod fail_open;
pub mod followed;

use crate::authorize::PortPolicy;
use crate::balance;
use crate::conn::local_listener::ListeningPorts;
use crate::conn::sniff::Learned;
use crate::discovery;
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::thread::ThreadContext;
use crate::upstream::{Backend, Family};
use foldhash::fast::RandomState;
use followed::Followed;
use hashbrown::HashMap;
use leno_model::name::Resource;
use leno_model::policy::InboundPolicy;
use leno_model::route::{self, BackendKind, OutboundPolicy};
use leno_model::workload::{Endpoint, EndpointSet};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// So long does the first one to ask for a service wait for its first endpoint: where a service has just come to be,
/// its endpoints are on their way. As long as linkerd queues before it fails fast.
const FIRST_ENDPOINT_MAX: Duration = Duration::from_secs(3);
/// Applications (address and port of our own pod) that one thread remembers.
const APPLICATIONS_MAX: usize = 256;

/// With more destinations than this, one that is not used is let go of sooner: a crawler or a scan of addresses must not
/// fill what discovery follows.
const DESTINATIONS_MANY: usize = 1_000;
/// So long is a destination kept then.
const DESTINATION_UNUSED_MAX: Duration = Duration::from_secs(5);
/// Ports that are asked about whether or not a program listens there. With more, only those of listening programs are: a
/// scan of ports costs no streams, and the answer is that of a port without a mesh.
const PORTS_ASKED_MAX: usize = 64;

type Map<K, V> = RefCell<HashMap<K, V, RandomState>>;

/// The mesh as one thread knows it.
pub struct Mesh {
    pub thread: Rc<ThreadContext>,
    discovery: discovery::Handle,
    destinations: Map<SocketAddr, Rc<Destination>>,
    backends: Map<(Arc<str>, Family), Rc<Backend>>,
    applications: Map<SocketAddr, Rc<Backend>>,
    ports: Map<u16, Rc<Port>>,
    /// Ports that discovery is asked about now.
    asking_ports: Cell<usize>,
    listening: ListeningPorts,
}

/// One that counts until it is dropped.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// An address that our application connects to.
pub struct Destination {
    policy: Followed<OutboundPolicy>,
    forwards: RefCell<Vec<Rc<Backend>>>,
    family: Family,
    /// The object that the policy belongs to: a Service, for example.
    pub parent: Rc<Resource>,
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
        let parent = Rc::new(policy.borrow().parent.clone());
        Self {
            parent,
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
    /// What holds there.
    pub policy: PortPolicy,
    /// Nobody has said what holds there; it holds until then (`fail: open`).
    guessed_until: Option<Instant>,
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
        let policy = PortPolicy::new(policy);
        Self { policy, guessed_until, number, learned: Learned::default() }
    }
}

impl Mesh {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(thread: Rc<ThreadContext>, discovery: discovery::Handle) -> Rc<Self> {
        Rc::new(Self {
            thread,
            discovery,
            destinations: Map::default(),
            backends: Map::default(),
            applications: Map::default(),
            ports: Map::default(),
            asking_ports: Cell::default(),
            listening: ListeningPorts::default(),
        })
    }

    /// Lets go of what is old or unused.
    pub fn sweep(&self, now: Instant) {
        self.thread.sweeps(now);
        if let Some(limiter) = &self.thread.shared.limiter {
            self.thread.recorder.concurrency_limit(limiter.limit());
        }
        let held = self.destinations.borrow().len() + self.backends.borrow().len();
        let unused_max = match held > DESTINATIONS_MANY {
            true => self.thread.limits.discovery_unused_max.min(DESTINATION_UNUSED_MAX),
            false => self.thread.limits.discovery_unused_max,
        };
        let unused = |used_at: Instant| now.saturating_duration_since(used_at) > unused_max;
        for backend in self.backends.borrow().values().chain(self.applications.borrow().values()) {
            backend.sweep(now, &self.thread.limits);
        }
        for port in self.ports.borrow().values() {
            port.policy.sweep();
        }
        for destination in self.destinations.borrow().values() {
            for backend in destination.forwards.borrow().iter() {
                backend.sweep(now, &self.thread.limits);
            }
        }
        self.destinations
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.policy.used_at()));
        self.backends
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.used_at()));
        self.applications
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.used_at()));
        self.ports
            .borrow_mut()
            .retain(|_, held| Rc::strong_count(held) > 1 || !unused(held.policy.used_at()));
    }

    /// What is known about an address that our application connects to.
    ///
    /// # Errors
    /// The control plane has not said in time.
    pub async fn destination(&self, target: SocketAddr) -> Result<Rc<Destination>, Refusal> {
        let known = self.destinations.borrow().get(&target).cloned();
        let again = known.is_some();
        if let Some(known) = known.filter(|known| self.holds(known.guessed_until)) {
            known.policy.used(self.thread.swept_at());
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
        guessed_until.is_none_or(|until| self.thread.swept_at() < until)
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
                return Ok(destination.forward(&self.thread, &backend.resource, endpoint));
            }
        };
        let key = (balance.destination.clone(), destination.family);
        if let Some(known) = self.backends.borrow().get(&key) {
            known.follow(balance.retry_budget);
            return Ok(known.clone());
        }
        let made = Box::pin(self.discover(destination, &backend.resource, balance)).await?;
        let made = self.backends.borrow_mut().entry(key).or_insert(made).clone();
        made.follow(balance.retry_budget);
        Ok(made)
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
        // Without one in time, or when discovery ends, the request fails for lack of endpoints.
        let _first =
            tokio::time::timeout(FIRST_ENDPOINT_MAX, receiver.wait_for(come)).await.is_ok();
        let settings = balance::Settings {
            default_latency: balance.default_latency,
            decay: balance.decay,
            slow_start: self.thread.limits.slow_start,
            ..balance::Settings::default()
        };
        let gauge = self.thread.recorder.endpoints(&destination.policy().parent, resource);
        let family = destination.family;
        let of = (resource.clone(), self.thread.shared.counters(&balance.destination));
        Ok(Rc::new(Backend::discovered(of, family, settings, receiver, gauge)))
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
                let counters = self.thread.shared.counters(&format!("application {target}").into());
                Rc::new(Backend::fixed((name, counters), Arc::new(Endpoint::plain(target))))
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
            known.policy.used(self.thread.swept_at());
            return Ok(known);
        }
        let asked = self.ports.borrow().len() + self.asking_ports.get();
        if !again && asked >= PORTS_ASKED_MAX && !Box::pin(self.listening.contains(number)).await {
            return Err(Ending::UpstreamRefused.into());
        }
        let _asking = Counted::new(&self.asking_ports);
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
    fn forward(
        &self,
        thread: &ThreadContext,
        resource: &Resource,
        endpoint: &Arc<Endpoint>,
    ) -> Rc<Backend> {
        let mut forwards = self.forwards.borrow_mut();
        if let Some(known) = forwards.iter().find(|known| known.is_fixed_to(endpoint)) {
            return known.clone();
        }
        forwards.retain(|known| Rc::strong_count(known) > 1);
        let counters = thread.shared.counters(&endpoint.address.to_string().into());
        let made = Rc::new(Backend::fixed((resource.clone(), counters), endpoint.clone()));
        forwards.push(made.clone());
        made
    }
}

fn unavailable(error: discovery::Unavailable) -> Refusal {
    Refusal::because(Ending::DiscoveryUnavailable, error.to_string())
}
