//! Where requests go: a [`Backend`] balances over endpoints, each with a [`Peer`]: its idle connections and numbers.
//!
//! - [`ejections`]: what is counted and logged of endpoints that are ejected.
//! - [`acquire`]: where an HTTP/1 request gets its connection from.
//! - [`mux`]: the shared connection to one endpoint.
//!
//! Owned by one thread. A backend reads the newest endpoints when discovery has changed them, which costs one atomic
//! load per request.

pub mod acquire;
pub mod ejections;
pub mod idle;
pub mod mux;

use ejections::Ejections;
use idle::Idle;

use crate::balance::{Balancer, Outcome, Outstanding, Settings, Slot};
use crate::config::Limits;
use crate::ending::Ending;
use crate::io::Stream;
use crate::refusal::Refusal;
use crate::request::persistence::{EndpointHash, Session};
use crate::shared::Counters;
use crate::shared::in_flight::{InFlight, Permit};
use crate::telemetry::{EndpointsGauge, HttpSeries};
use crate::thread::ThreadContext;
use leno_model::breaker::{self, Accrual};
use leno_model::name::Resource;
use leno_model::retry::RetryBudget;
use leno_model::route::OutboundPolicy;
use leno_model::workload::{Endpoint, EndpointSet};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Series of one endpoint that are remembered; a new policy makes new ones.
const SERIES_KEPT_MAX: usize = 32;

/// Connections to one endpoint that one thread opens at the same time. The next requests wait for one of these, or
/// for a connection that comes free meanwhile: a thousand requests at once must not cost a thousand handshakes.
const DIALS_MAX: usize = 16;

/// Which of the connections that are there a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// A stream of a shared one, else an idle one.
    Shared,
    /// An idle one, else a stream of a shared one.
    Own,
    /// An idle one.
    OnlyOwn,
}

/// What a request without a connection may do.
pub enum Turn {
    /// Use this: it came free.
    Idle(Stream),
    /// Open one.
    Dial(Dialling),
}

/// The right to open a connection, held while it is opened.
pub struct Dialling(Rc<Dials>);

/// Connections that are being opened, and those who wait.
#[derive(Debug, Default)]
struct Dials {
    count: Cell<usize>,
    /// Requests that can use a stream of a shared connection, an idle connection or a turn.
    any: Queue,
    /// Requests that can use an idle connection or a turn. They wait apart from `any`: a request that is woken for
    /// something that it cannot use would have to wake another, and two of them would do so for ever.
    own: Queue,
    /// Requests that need a fresh connection.
    turn: Queue,
    /// Whether `own` comes before `any` the next time: neither starves the other.
    own_first: Cell<bool>,
}

/// Waiting requests. One is woken for each connection or slot that becomes free, so that no wake-up is wasted.
#[derive(Debug, Default)]
struct Queue {
    waiting: Cell<u32>,
    freed: tokio::sync::Notify,
}

impl Queue {
    async fn wait(&self) {
        let _waiting = Waiting::new(&self.waiting);
        self.freed.notified().await;
    }

    /// Wakes one; `false` where nobody waits.
    fn wake(&self) -> bool {
        let somebody = self.waiting.get() > 0;
        if somebody {
            self.freed.notify_one();
        }
        somebody
    }
}

/// Someone who waits.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Cell<u32>);

impl<'a> Waiting<'a> {
    fn new(count: &'a Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Dials {
    /// The queue of requests with this preference; those without one need a fresh connection.
    fn queue(&self, prefer: Option<Prefer>) -> &Queue {
        match prefer {
            Some(Prefer::Shared | Prefer::Own) => &self.any,
            Some(Prefer::OnlyOwn) => &self.own,
            None => &self.turn,
        }
    }

    /// A stream of a shared connection came free.
    fn shared_is_free(&self) {
        self.any.wake();
    }

    /// An idle connection came free; `false` where nobody waits for one.
    fn own_is_free(&self) -> bool {
        let own_first = !self.own_first.get();
        self.own_first.set(own_first);
        match own_first {
            true => self.own.wake() || self.any.wake(),
            false => self.any.wake() || self.own.wake(),
        }
    }

    fn turn_is_free(&self) {
        if !self.own_is_free() {
            self.turn.wake();
        }
    }
}

impl Drop for Dialling {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.turn_is_free();
    }
}

/// What the data path hangs on an endpoint.
#[derive(Default)]
pub struct Peer {
    dials: Rc<Dials>,
    /// Requests that have no connection yet.
    acquiring: Cell<u32>,
    idle: Idle,
    /// The shared HTTP/2 connection.
    pub http2: crate::http2::client::Shared,
    /// The connection that a crowd of HTTP/1 requests shares.
    pub shared: crate::upstream::mux::Shared,
    series: RefCell<Vec<Numbers>>,
    /// What tokens of sessions name it by.
    pub hash: EndpointHash,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("idle", &self.idle.len()).finish_non_exhaustive()
    }
}

/// Which numbers: one policy's route.
#[derive(Clone, Copy, Debug)]
pub struct SeriesKey<'a> {
    pub policy: Option<&'a Arc<OutboundPolicy>>,
    /// Index of the route in it.
    pub route: usize,
}

/// Numbers of one key. The policy is held, so that its address stays its own.
struct Numbers {
    policy: Option<Arc<OutboundPolicy>>,
    route: usize,
    series: Rc<HttpSeries>,
}

impl Numbers {
    fn are_of(&self, key: SeriesKey<'_>) -> bool {
        self.route == key.route
            && match (&self.policy, key.policy) {
                (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
                (None, None) => true,
                _ => false,
            }
    }
}

impl Peer {
    /// An idle connection that is still open, the most recently used first; or a stream of a shared one.
    pub async fn take(&self, prefer: Prefer) -> Option<Stream> {
        poll_fn(|context| {
            let taken = match prefer {
                Prefer::Shared => self.shared.take(context).or_else(|| self.idle.take(context)),
                Prefer::Own => self.idle.take(context).or_else(|| self.shared.take(context)),
                Prefer::OnlyOwn => self.idle.take(context),
            };
            Poll::Ready(taken)
        })
        .await
    }

    /// Requests that have no connection yet.
    #[must_use]
    pub fn acquiring(&self) -> u32 {
        self.acquiring.get()
    }

    /// A request needs a connection that is not there: it counts as [`Self::acquiring`] until the returned value is dropped.
    #[must_use = "it counts until this is dropped"]
    pub fn acquire(&self) -> Waiting<'_> {
        Waiting::new(&self.acquiring)
    }

    /// Wakes every request that can use a stream of a shared connection: there is room for all.
    pub fn tell_all(&self) {
        for _ in 0..self.dials.any.waiting.get() {
            self.dials.any.wake();
        }
    }

    /// Waits for a connection that comes free, or for the turn to open one; without a preference for the turn alone.
    pub async fn turn(&self, prefer: Option<Prefer>) -> Turn {
        let count = &self.dials.count;
        let got = loop {
            if count.get() < DIALS_MAX {
                count.set(count.get() + 1);
                break Turn::Dial(Dialling(self.dials.clone()));
            }
            self.dials.queue(prefer).wait().await;
            if let Some(prefer) = prefer
                && let Some(stream) = self.take(prefer).await
            {
                break Turn::Idle(stream);
            }
        };
        // Several may have come free together, and woken only one of the requests that wait.
        if count.get() < DIALS_MAX {
            self.dials.turn_is_free();
        } else if !self.idle.is_empty() {
            self.dials.own_is_free();
        } else if !self.shared.idle.is_empty() {
            self.dials.shared_is_free();
        }
        got
    }

    /// Keeps a connection for the next request.
    pub fn put(&self, stream: Stream, thread: &ThreadContext) {
        if stream.is_multiplexed() {
            self.shared.idle.put(stream, thread);
            self.dials.shared_is_free();
        } else {
            self.idle.put(stream, thread);
            self.dials.own_is_free();
        }
    }

    /// Closes idle connections that are old or that the other side has closed.
    pub fn sweep(&self, now: Instant, idle_max: Duration) {
        self.idle.sweep(now, idle_max);
        self.shared.sweep(now, idle_max);
    }

    /// The numbers for this key, made once.
    pub fn series(
        &self,
        key: SeriesKey<'_>,
        make: impl FnOnce() -> Rc<HttpSeries>,
    ) -> Rc<HttpSeries> {
        let mut kept = self.series.borrow_mut();
        if let Some(numbers) = kept.iter().find(|numbers| numbers.are_of(key)) {
            return numbers.series.clone();
        }
        if kept.len() >= SERIES_KEPT_MAX {
            kept.clear();
        }
        let series = make();
        let SeriesKey { policy, route } = key;
        kept.push(Numbers { policy: policy.cloned(), route, series: series.clone() });
        series
    }
}

/// Endpoints of one destination, balanced.
pub struct Backend {
    /// The object it is.
    pub resource: Resource,
    /// What all threads count of it.
    pub counters: Arc<Counters>,
    /// What its Service allows to be under way.
    limits: Cell<breaker::Limits>,
    /// How many retries it may get, where that is not the default.
    retry_budget: Cell<Option<RetryBudget>>,
    balancer: RefCell<Balancer<Peer>>,
    /// Endpoints of the other family that have no proxy: where nobody listens on the family that was called, the pod's other
    /// address is tried.
    others: RefCell<Balancer<Peer>>,
    endpoints: RefCell<Option<watch::Receiver<Arc<EndpointSet>>>>,
    exists: Cell<bool>,
    pending: Rc<Cell<usize>>,
    used_at: Cell<Instant>,
    gauge: Option<EndpointsGauge>,
    ejections: Ejections,
    /// Endpoints of this family are preferred.
    family: Option<Family>,
}

/// The family of the address that the application called: an IPv4 service address leads to IPv4 endpoints, as it does
/// without a mesh. Servers that listen on one family only are common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: SocketAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The endpoints of this family, where there are some and others too.
    fn part_of(self, set: &EndpointSet) -> Option<EndpointSet> {
        let matches = |endpoint: &&Arc<Endpoint>| Self::of(endpoint.address) == self;
        let count = set.endpoints.iter().filter(matches).count();
        (count > 0 && count < set.endpoints.len()).then(|| EndpointSet {
            endpoints: set.endpoints.iter().filter(matches).cloned().collect(),
            exists: set.exists,
        })
    }
}

impl Family {
    /// The endpoints of the other family that have no proxy. A proxy listens on both families.
    fn others_of(self, set: &EndpointSet) -> EndpointSet {
        let matches = |endpoint: &&Arc<Endpoint>| {
            Self::of(endpoint.address) != self && endpoint.identity.is_none()
        };
        EndpointSet { endpoints: set.endpoints.iter().filter(matches).cloned().collect(), ..*set }
    }
}

/// A request that waits for a connection.
#[derive(Debug)]
pub struct Pending {
    count: Rc<Cell<usize>>,
    _permit: Option<Permit>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
    }
}

/// One more, where a limit of the Service allows it.
fn enter(
    counted: &Arc<InFlight>,
    max: Option<NonZeroU32>,
    ending: Ending,
) -> Result<Option<Permit>, Refusal> {
    let Some(max) = max else { return Ok(None) };
    counted.enter(max.get()).map(Some).ok_or_else(|| ending.into())
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backend").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl Backend {
    /// Endpoints that discovery keeps current.
    #[must_use]
    pub fn discovered(
        (resource, counters): (Resource, Arc<Counters>),
        family: Family,
        settings: Settings,
        endpoints: watch::Receiver<Arc<EndpointSet>>,
        gauge: EndpointsGauge,
    ) -> Self {
        let mut endpoints = endpoints;
        let family = Some(family);
        let backend =
            Self { gauge: Some(gauge), family, ..Self::empty((resource, counters), settings) };
        let now = Instant::now();
        let set = endpoints.borrow_and_update().clone();
        backend.update(&set, now);
        backend.endpoints.replace(Some(endpoints));
        backend
    }

    /// One endpoint, for good.
    #[must_use]
    pub fn fixed((resource, counters): (Resource, Arc<Counters>), endpoint: Arc<Endpoint>) -> Self {
        let backend = Self::empty((resource, counters), Settings::default());
        backend.update(&EndpointSet { endpoints: vec![endpoint], exists: true }, Instant::now());
        backend
    }

    fn empty((resource, counters): (Resource, Arc<Counters>), settings: Settings) -> Self {
        Self {
            resource,
            counters,
            limits: Cell::default(),
            retry_budget: Cell::default(),
            balancer: RefCell::new(Balancer::new(settings)),
            others: RefCell::new(Balancer::new(settings)),
            endpoints: RefCell::new(None),
            exists: Cell::new(true),
            pending: Rc::default(),
            used_at: Cell::new(Instant::now()),
            gauge: None,
            ejections: Ejections::default(),
            family: None,
        }
    }

    fn update(&self, set: &EndpointSet, now: Instant) {
        self.exists.set(set.exists);
        let of_family = self.family.and_then(|family| family.part_of(set));
        let others = of_family.as_ref().and(self.family).map(|family| family.others_of(set));
        self.others.borrow_mut().update(&others.unwrap_or_default(), now, |_| Peer::default());
        self.balancer
            .borrow_mut()
            .update(of_family.as_ref().unwrap_or(set), now, |_| Peer::default());
    }

    /// The endpoint of the next request or connection.
    pub fn pick(
        &self,
        thread: &ThreadContext,
        now: Instant,
        avoid: Option<&Rc<Slot<Peer>>>,
    ) -> Option<Rc<Slot<Peer>>> {
        self.refresh(now);
        self.used_at.set(now);
        let refused = avoid.filter(|slot| slot.is_blocked(now));
        let other = refused.and_then(|slot| self.others.borrow().other_family(slot, now));
        other.or_else(|| self.balancer.borrow().pick(now, &thread.random, avoid))
    }

    /// The endpoint that the client's token names, where requests may go there.
    #[must_use]
    pub fn held(&self, session: &Session, now: Instant) -> Option<Rc<Slot<Peer>>> {
        if !session.is_held() {
            return None;
        }
        self.refresh(now);
        self.used_at.set(now);
        let is_it = |slot: &Slot<Peer>| session.is_with(&slot.endpoint, &slot.data.hash);
        self.balancer.borrow().held(now, is_it)
    }

    /// Counts a response in the health of its endpoint, and reports an ejection or a recovery.
    pub fn judge(
        &self,
        thread: &ThreadContext,
        request: &Outstanding<Peer>,
        accrual: &Accrual,
        (outcome, now): (Outcome, Instant),
    ) {
        let balancer = self.balancer.borrow();
        let Some(change) = balancer.judge(request, accrual, (outcome, now), &thread.random) else {
            return;
        };
        let endpoint = request.slot().endpoint.address;
        let ejected = balancer.ejected();
        self.ejections.tell(&thread.recorder, &self.resource, (endpoint, change), ejected, now);
        self.show(&balancer, now);
    }

    /// Sets the gauges.
    fn show(&self, balancer: &Balancer<Peer>, now: Instant) {
        if let Some(gauge) = &self.gauge {
            let (ready, passed_over) = balancer.states(now);
            gauge.set(ready, passed_over);
        }
        self.ejections.show(balancer.ejected());
    }

    fn refresh(&self, now: Instant) {
        let mut endpoints = self.endpoints.borrow_mut();
        let Some(receiver) = endpoints.as_mut() else { return };
        // An error means that discovery has ended: the last good state stays.
        if receiver.has_changed().unwrap_or(false) {
            let set = receiver.borrow_and_update().clone();
            self.update(&set, now);
        }
    }

    /// How many endpoints there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.balancer.borrow().len() + self.others.borrow().len()
    }

    /// Whether there are no endpoints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes the retry budget that all threads share, where the policy has another one than before.
    pub fn follow(&self, budget: Option<RetryBudget>) {
        if self.retry_budget.get() != budget {
            self.retry_budget.set(budget);
            self.counters.budget.change(budget.unwrap_or_default());
        }
    }

    /// A place among those that wait for a connection.
    ///
    /// # Errors
    /// `pending_requests_max`, or as many as the Service allows, are waiting.
    pub fn pending(&self, thread: &ThreadContext) -> Result<Pending, Refusal> {
        if self.pending.get() >= thread.limits.pending_requests_max {
            return Err(Ending::PendingLimit.into());
        }
        let max = self.limits.get().pending_max;
        let permit = enter(&self.counters.pending, max, Ending::CircuitBreakerPending)?;
        self.pending.set(self.pending.get() + 1);
        Ok(Pending { count: self.pending.clone(), _permit: permit })
    }

    /// A place among the requests that are under way, where the Service limits them.
    ///
    /// # Errors
    /// As many are under way as may be.
    pub fn admit(&self, limits: breaker::Limits) -> Result<Option<Permit>, Refusal> {
        self.limits.set(limits);
        enter(&self.counters.requests, limits.requests_max, Ending::CircuitBreakerRequests)
    }

    /// The same among connections that are forwarded as bytes.
    ///
    /// # Errors
    /// As many are open as may be.
    pub fn admit_connection(&self, limits: breaker::Limits) -> Result<Option<Permit>, Refusal> {
        let max = limits.connections_max;
        enter(&self.counters.connections, max, Ending::CircuitBreakerConnections)
    }

    /// Why nothing could be picked.
    #[must_use]
    pub fn no_endpoints(&self) -> Refusal {
        let ending = if self.exists.get() { Ending::NoEndpoints } else { Ending::NoSuchService };
        let Resource::Object { namespace, name, port, .. } = &self.resource else {
            return ending.into();
        };
        Refusal::because(ending, format!("{}: {name}.{namespace}:{port}", ending.shown().text))
    }

    /// Closes old idle connections; also takes in new endpoints, so that gone ones let go of theirs.
    pub fn sweep(&self, now: Instant, limits: &Limits) {
        self.refresh(now);
        let balancer = self.balancer.borrow();
        for slot in balancer.slots() {
            let idle_max = match slot.endpoint.identity {
                Some(_) => limits.pool_idle_age_max,
                None => limits.application_idle_age_max,
            };
            slot.data.sweep(now, idle_max);
        }
        self.show(&balancer, now);
    }

    /// Whether this is the fixed backend of an endpoint.
    #[must_use]
    pub fn is_fixed_to(&self, endpoint: &Arc<Endpoint>) -> bool {
        self.endpoints.borrow().is_none()
            && self.balancer.borrow().slots().next().is_some_and(|slot| slot.endpoint == *endpoint)
    }

    /// When something was last picked.
    #[must_use]
    pub fn used_at(&self) -> Instant {
        self.used_at.get()
    }
}
