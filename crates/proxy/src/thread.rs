//! What every connection of one data-path thread needs. Threads share nothing but what discovery and identity publish, and the
//! counters in [`crate::shared`].
//!
//! Not here: what the control plane says of destinations and ports ([`crate::mesh`]).

use crate::capture;
use crate::config::{Config, Limits};
use crate::conn::handshakes::Handshakes;
use crate::record::Table;
use crate::request::observed::Spare;
use crate::shared::Shared;
use crate::telemetry::Recorder;
use crate::telemetry::observers::Observers;
use crate::telemetry::trace::tracer::Tracer;
use leno_runtime::drain::Drain;
use leno_runtime::random::Random;
use leno_tls::Credentials;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

pub struct ThreadContext {
    /// What is fixed for the life of the process.
    pub config: Arc<Config>,
    pub limits: Limits,
    /// Its limits on HTTP/1 messages.
    pub http1_limits: leno_http1::Limits,
    /// Its numbers.
    pub recorder: Recorder,
    /// What all threads count together.
    pub shared: Arc<Shared>,
    /// For balancing and jitter.
    pub random: Random,
    /// Says when to end.
    pub drain: Drain,
    /// What reached our application.
    pub record: Table,
    /// Who looks at single requests.
    pub observers: Observers,
    /// For the next requests that somebody looks at.
    pub spare: Spare,
    /// Handshakes of clients that are not finished.
    pub handshakes: Handshakes,
    credentials: RefCell<watch::Receiver<Option<Arc<Credentials>>>>,
    own_addresses: Vec<IpAddr>,
    swept_at: Cell<Instant>,
}

impl ThreadContext {
    /// The context of the calling thread.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        recorder: Recorder,
        credentials: watch::Receiver<Option<Arc<Credentials>>>,
        drain: Drain,
        (observers, shared): (Observers, Arc<Shared>),
    ) -> Self {
        let limits = config.limits.clone();
        crate::io::buffer::configure(limits.buffer_bytes);
        let http1_limits = leno_http1::Limits {
            head_bytes_max: limits.head_bytes_max,
            headers_max: limits.headers_max,
            ..leno_http1::Limits::DEFAULT
        };
        Self {
            record: Table::new(observers.record.clone()),
            observers,
            shared,
            limits,
            http1_limits,
            recorder,
            random: Random::from_entropy(),
            drain,
            spare: Spare::default(),
            handshakes: Handshakes::default(),
            credentials: RefCell::new(credentials),
            own_addresses: own_addresses(),
            swept_at: Cell::new(Instant::now()),
            config,
        }
    }

    /// When the last sweep was: the time to within a second, without a reading of the clock.
    #[must_use]
    pub fn swept_at(&self) -> Instant {
        self.swept_at.get()
    }

    /// A sweep begins.
    pub fn sweeps(&self, now: Instant) {
        self.swept_at.set(now);
        self.handshakes.sweep();
        self.record.sweep(now);
        self.observers.tracer.iter().for_each(Tracer::give);
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

    /// Whether a connection to this address would come back to our own outbound listener for ever.
    #[must_use]
    pub fn is_own_listener(&self, target: SocketAddr) -> bool {
        target.ip().is_loopback() && target.port() == self.config.capture.outbound_port
    }

    /// Whether this is an address of our own pod.
    #[must_use]
    pub fn is_own_address(&self, address: IpAddr) -> bool {
        self.own_addresses.contains(&address)
    }

    /// The same port on our pod's address of the other family; `None` for an address that is not our pod's.
    #[must_use]
    pub fn other_family(&self, address: SocketAddr) -> Option<SocketAddr> {
        let is_of_pod = |own: &IpAddr| match own {
            IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
            IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local(),
        };
        let ip = address.ip();
        if !self.is_own_address(ip) || !is_of_pod(&ip) {
            return None;
        }
        let mut others = self.own_addresses.iter().filter(|own| own.is_ipv4() != ip.is_ipv4());
        others.find(|own| is_of_pod(own)).map(|own| SocketAddr::new(*own, address.port()))
    }

    /// The port that other proxies send transport headers to.
    #[must_use]
    pub fn inbound_port(&self) -> u16 {
        self.config.capture.inbound_port
    }
}

/// A pod's addresses do not change while it lives.
fn own_addresses() -> Vec<IpAddr> {
    capture::apply::own_addresses().unwrap_or_else(|error| {
        tracing::warn!(%error, "the addresses of the pod cannot be read: calls of the pod to itself will fail");
        Vec::new()
    })
}
