//! Who may: the one place that decides about connections, about requests, and again about everything that is open when the
//! policy of its port changes.
//!
//! The rules themselves are pure: `leno_model::policy`.

use crate::ending::Ending;
use crate::mesh::followed::Followed;
use crate::record::{Caller, Scope};
use crate::refusal::Refusal;
use crate::request::local_reply::LocalReply;
use crate::request::view::View;
use crate::shared::denials::{self, Denial};
use crate::shared::rate::{Allowance, UsedUp};
use crate::telemetry::{AuthzLabels, Counter, HttpSeries, TlsLabel, Transport};
use crate::thread::ThreadContext;
use leno_model::name::{PeerName, Resource};
use leno_model::policy::{
    self, InboundPolicy, InboundRoute, PeerTls, RouteIndex, RoutedVerdict, Verdict,
};
use leno_model::record::Outcome;
use leno_model::route::{RequestMatch, RequestView as _};
use leno_runtime::denial::DenialId;
use std::cell::{Cell, OnceCell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Instant, SystemTime};
use tokio::sync::watch;

/// A client and what it wants to reach.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Where the client connected from.
    pub client: SocketAddr,
    /// The address that the client wants to reach.
    pub target: SocketAddr,
    /// How the client has proved its identity.
    pub peer: PeerTls,
    /// What the target is to the control plane: the Service that our application calls.
    pub service: Option<Rc<Resource>>,
}

impl Connection {
    fn caller(&self) -> Caller<'_> {
        Caller { address: self.client.ip(), peer: &self.peer, port: self.target.port() }
    }

    /// The client's verified name.
    #[must_use]
    pub fn peer_name(&self) -> Option<&PeerName> {
        match &self.peer {
            PeerTls::Established(name) => name.as_ref(),
            PeerTls::None => None,
        }
    }
}

/// A policy's verdict on one client, and the counter of such verdicts.
#[derive(Debug)]
pub struct Decided {
    /// The policy that decided.
    pub policy: Arc<InboundPolicy>,
    /// A rule of the port lets the client in, not only an audit.
    is_allowed: bool,
    /// Finds its routes where there are many.
    routes: Option<Rc<RouteIndex>>,
    /// The client, and what it wants to reach.
    about: (IpAddr, SocketAddr, PeerTls),
    /// What the policy says.
    pub verdict: Result<(), Refusal>,
    /// The numbers of the client's requests, once there was one.
    pub series: OnceCell<Rc<HttpSeries>>,
    /// Where the record counts the client.
    scope: OnceCell<Rc<Scope>>,
    /// The verdict does not hold for all requests: a route may take one that decides otherwise.
    pub by_request: bool,
    /// The last routes whose rules let the client in.
    by_routes: RefCell<[Option<Rc<ByRoute>>; LAST]>,
    /// How many requests the client may send, where the port limits that.
    allowance: Option<Box<Allowance>>,
    transport: Transport,
    generation: u64,
    counter: Rc<Counter>,
}

/// A route of a policy that lets a client in, and where that is counted.
#[derive(Debug)]
struct ByRoute {
    /// What tells the route from the others of its policy.
    matches: *const RequestMatch,
    route: Resource,
    counter: Rc<Counter>,
    scope: Option<Rc<Scope>>,
}

impl ByRoute {
    fn count(&self, thread: &ThreadContext, request: &View<'_>) {
        self.counter.add(1);
        if let Some(scope) = &self.scope {
            thread.record.request(scope, request);
        }
    }
}

impl Decided {
    /// What is known of a route of the policy that has let the client in before.
    fn let_in_by(&self, route: &InboundRoute) -> Option<Rc<ByRoute>> {
        let is_it = |known: &&Rc<ByRoute>| known.matches == route.matches.as_ptr();
        self.by_routes.borrow().iter().flatten().find(is_it).cloned()
    }

    fn is_about(&self, connection: &Connection) -> bool {
        let (client, target, peer) = &self.about;
        *client == connection.client.ip()
            && *target == connection.target
            && *peer == connection.peer
    }

    /// The route that takes a request. No route takes one whose path can be read in two ways.
    pub fn route_of(&self, request: &View<'_>) -> Option<&InboundRoute> {
        match &self.routes {
            _ if request.is_ambiguous() => None,
            Some(index) => index.route_of(&self.policy, request),
            None => policy::route_of(&self.policy, request),
        }
    }

    /// Counts the verdict.
    pub fn count(&self) {
        self.counter.add(1);
    }

    /// The record counts one request, by the rules of the port.
    pub fn record(&self, thread: &ThreadContext, connection: &Connection, request: &View<'_>) {
        if let Some(scope) = self.scope(thread, connection) {
            thread.record.request(scope, request);
        }
    }

    /// The record counts the connection, whose bytes are not read as requests.
    pub fn record_connection(&self, thread: &ThreadContext, connection: &Connection) {
        if let Some(scope) = self.scope(thread, connection) {
            thread.record.connection(scope);
        }
    }

    fn scope(&self, thread: &ThreadContext, connection: &Connection) -> Option<&Rc<Scope>> {
        if self.scope.get().is_none()
            && let Some(scope) = thread.record.scope_of(connection.caller(), &self.policy)
        {
            // Set once only: it was empty.
            let _set = self.scope.set(scope);
        }
        self.scope.get()
    }

    /// Takes one request of what the client may send.
    ///
    /// # Errors
    /// The reply to a request that is one too many.
    pub fn take(&self) -> Result<(), Box<LocalReply>> {
        let Some(allowance) = &self.allowance else { return Ok(()) };
        allowance.take(Instant::now()).map_err(|used_up| Box::new(too_many(used_up)))
    }
}

/// The policy of one port, and what is open under it.
pub struct PortPolicy {
    followed: Followed<InboundPolicy>,
    /// The policy that everything open was last compared with, and how many there were before it.
    applied: RefCell<Arc<InboundPolicy>>,
    generation: Cell<u64>,
    open: RefCell<Open>,
    /// The last verdicts: each stream of a peer's connection is a connection to this port.
    last: RefCell<[Option<Rc<Decided>>; LAST]>,
}

/// Clients whose verdict is found at once.
const LAST: usize = 8;
/// More routes of a port than that are found by an index.
const ROUTES_FEW_MAX: usize = 8;

/// Tasks to be woken when the policy changes; a place that is free names the next free one.
#[derive(Debug, Default)]
struct Open {
    places: Vec<Slot>,
    free: Option<usize>,
    taken: usize,
}

#[derive(Debug)]
enum Slot {
    Free(Option<usize>),
    Taken(Waker),
}

/// Places that are kept while nothing is open.
const PLACES_KEPT_MAX: usize = 64;

impl Open {
    fn insert(&mut self, waker: Waker) -> usize {
        self.taken += 1;
        match self.free {
            Some(place) => {
                if let Slot::Free(next) = self.places[place] {
                    self.free = next;
                }
                self.places[place] = Slot::Taken(waker);
                place
            }
            None => {
                self.places.push(Slot::Taken(waker));
                self.places.len() - 1
            }
        }
    }

    fn remove(&mut self, place: usize) {
        self.taken -= 1;
        self.places[place] = Slot::Free(self.free);
        self.free = Some(place);
        if self.taken == 0 && self.places.len() > PLACES_KEPT_MAX {
            *self = Self::default();
        }
    }
}

impl PortPolicy {
    /// Follows the policy of a port.
    #[must_use]
    pub fn new(policy: watch::Receiver<Arc<InboundPolicy>>) -> Self {
        let followed = Followed::new(policy);
        let applied = RefCell::new(followed.get());
        let (open, last) = (RefCell::default(), RefCell::default());
        Self { followed, applied, generation: Cell::new(0), open, last }
    }

    /// The policy as of now.
    #[must_use]
    pub fn get(&self) -> Arc<InboundPolicy> {
        self.followed.get()
    }

    /// It was asked for.
    pub fn used(&self, now: Instant) {
        self.followed.used(now);
    }

    /// When it was last asked for.
    #[must_use]
    pub fn used_at(&self) -> Instant {
        self.followed.used_at()
    }

    /// Where the policy has changed, wakes everything that is open under it. Each then decides about itself.
    pub fn sweep(&self) {
        let policy = self.get();
        if Arc::ptr_eq(&self.applied.borrow(), &policy) {
            return;
        }
        self.applied.replace(policy);
        self.generation.set(self.generation.get() + 1);
        // They hold the old policy.
        self.last.take();
        for place in &self.open.borrow().places {
            if let Slot::Taken(waker) = place {
                waker.wake_by_ref();
            }
        }
    }

    /// The verdict on a connection, or on its requests; `known` is the last one, which holds until the policy changes.
    pub fn decide(
        &self,
        thread: &ThreadContext,
        transport: Transport,
        connection: &Connection,
        known: &mut Option<Rc<Decided>>,
    ) -> Result<(), Refusal> {
        let policy = self.get();
        let holds = |decided: &&Rc<Decided>| {
            decided.transport == transport && Arc::ptr_eq(&decided.policy, &policy)
        };
        if known.as_ref().filter(holds).is_none() {
            let of_client = |decided: &&Rc<Decided>| holds(decided) && decided.is_about(connection);
            let last = self.last.borrow().iter().flatten().find(of_client).cloned();
            let decided = last.unwrap_or_else(|| {
                let decided = Rc::new(self.decide_anew(thread, policy, transport, connection));
                let mut last = self.last.borrow_mut();
                last.rotate_right(1);
                last[0] = Some(decided.clone());
                decided
            });
            *known = Some(decided);
        }
        let unknown = || Err(Ending::PolicyUnknown.into());
        known.as_ref().map_or_else(unknown, |decided| decided.verdict.clone())
    }

    fn decide_anew(
        &self,
        thread: &ThreadContext,
        policy: Arc<InboundPolicy>,
        transport: Transport,
        connection: &Connection,
    ) -> Decided {
        let Connection { client, target, peer, .. } = connection;
        let generation = self.generation.get();
        let (series, scope) = (OnceCell::new(), OnceCell::new());
        let verdict = policy::decide(&policy, client.ip(), peer);
        let labels = AuthzLabels {
            target: *target,
            tls: TlsLabel::from_client(peer),
            server: policy.server.clone(),
            route: None,
            authz: verdict.rule().map(|rule| rule.resource.clone()),
        };
        let allowed = verdict.rule().is_some();
        let is_allowed = matches!(verdict, Verdict::Allow(_));
        let is_final = is_allowed || policy.routes.is_empty();
        let by_request = transport == Transport::Http && (policy.rejects_unrouted || !is_final);
        let counter = thread.recorder.authz(transport, allowed, &labels);
        let verdict = match verdict {
            Verdict::Allow(_) => Ok(()),
            Verdict::Audit(_) => {
                let server = policy.server.name();
                tracing::info!(%client, %target, server, "audit: no rule lets this client in");
                Ok(())
            }
            Verdict::Deny(denied) => {
                let text = Ending::PolicyDenied.shown().text;
                Err(Refusal::because(Ending::PolicyDenied, format!("{text}: {denied}")))
            }
        };
        let allowance = self.allowance(thread, &policy, transport, connection);
        let routes =
            (by_request && policy.routes.len() > ROUTES_FEW_MAX).then(|| self.index_of(&policy));
        Decided {
            policy,
            is_allowed,
            routes,
            about: (client.ip(), *target, peer.clone()),
            transport,
            generation,
            verdict,
            counter,
            series,
            scope,
            by_request,
            by_routes: RefCell::default(),
            allowance,
        }
    }

    /// The index of the policy's routes, made once.
    fn index_of(&self, policy: &Arc<InboundPolicy>) -> Rc<RouteIndex> {
        let last = self.last.borrow();
        let of_policy = last.iter().flatten().filter(|of| Arc::ptr_eq(&of.policy, policy));
        let known = of_policy.filter_map(|of| of.routes.clone()).next();
        known.unwrap_or_else(|| Rc::new(RouteIndex::new(policy)))
    }

    fn allowance(
        &self,
        thread: &ThreadContext,
        policy: &InboundPolicy,
        transport: Transport,
        connection: &Connection,
    ) -> Option<Box<Allowance>> {
        let limit = policy.rate_limit.as_deref().filter(|_| transport == Transport::Http)?;
        let identity = connection.peer_name().map(PeerName::as_str);
        Some(Box::new(thread.shared.rates.allowance(connection.target.port(), limit, identity)))
    }

    /// Something that was let in, by this route where not by the port itself, is open from now on.
    #[must_use]
    pub fn open<'a>(
        &'a self,
        thread: &'a ThreadContext,
        decided: &Decided,
        (connection, route): (&'a Connection, Option<&'a Resource>),
    ) -> OpenGuard<'a> {
        OpenGuard {
            thread,
            policy: self,
            connection,
            route,
            transport: decided.transport,
            generation: decided.generation,
            place: None,
        }
    }
}

/// The verdict on one request where that of its client does not hold for all requests: the route that admits it, or nothing where
/// the rules of the port admit it.
///
/// # Errors
/// The request is denied, or no route takes it and the port serves only requests that one takes.
pub fn decide_request(
    thread: &ThreadContext,
    decided: &Decided,
    connection: &Connection,
    request: &View<'_>,
) -> Result<Option<Resource>, Refusal> {
    let Connection { client, target, peer, .. } = connection;
    let policy = &*decided.policy;
    let record = |outcome, rule| {
        if let Some(scope) = thread.record.scope(connection.caller(), outcome, rule) {
            thread.record.request(&scope, request);
        }
    };
    let by_port = (policy, decided.is_allowed);
    let route = decided.route_of(request);
    if let Some(known) = route.and_then(|route| decided.let_in_by(route)) {
        known.count(thread, request);
        return Ok(Some(known.route.clone()));
    }
    match policy::decide_routed(by_port, client.ip(), peer, route) {
        RoutedVerdict::NoRoute => {
            record(Outcome::NoRoute, None);
            let server = policy.server.name();
            let detail = format!("no route of Server {server} takes the request");
            Err(Refusal::because(Ending::NoRoute, detail))
        }
        RoutedVerdict::ByPort => {
            decided.count();
            decided.record(thread, connection, request);
            decided.verdict.clone().map(|()| None)
        }
        RoutedVerdict::ByRoute(route, rule) => {
            let labels = AuthzLabels {
                target: *target,
                tls: TlsLabel::from_client(peer),
                server: policy.server.clone(),
                route: Some(route.resource.clone()),
                authz: Some(rule.resource.clone()),
            };
            let caller = connection.caller();
            let by_route = Rc::new(ByRoute {
                matches: route.matches.as_ptr(),
                route: route.resource.clone(),
                counter: thread.recorder.authz(Transport::Http, true, &labels),
                scope: thread.record.scope(caller, Outcome::Allowed, Some(&rule.resource)),
            });
            by_route.count(thread, request);
            let mut last = decided.by_routes.borrow_mut();
            last.rotate_right(1);
            last[0] = Some(by_route);
            Ok(Some(route.resource.clone()))
        }
    }
}

/// The answer to one request too many, with the headers of the IETF's draft "RateLimit header fields for HTTP".
fn too_many(used_up: UsedUp) -> LocalReply {
    let UsedUp { limit, requests_per_second, wait } = used_up;
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let headers = vec![
        ("retry-after", seconds.max(1).to_string()),
        ("ratelimit-policy", format!("\"{limit}\";q={requests_per_second};w=1")),
        ("ratelimit", format!("\"{limit}\";r=0;t={}", seconds.max(1))),
    ];
    LocalReply { headers, ..Ending::RateLimited.into() }
}

/// Keeps a denial for `leno explain ID`, and gives the refusal its id. Other refusals stay as they are.
#[must_use]
pub fn noted(
    thread: &ThreadContext,
    decided: &Decided,
    connection: &Connection,
    request: Option<&View<'_>>,
    mut refusal: Refusal,
) -> Refusal {
    if !matches!(refusal.ending, Ending::PolicyDenied | Ending::NoRoute) {
        return refusal;
    }
    let policy = &decided.policy;
    let route = request.and_then(|request| decided.route_of(request));
    let number = thread.shared.denials.note(Denial {
        at: SystemTime::now(),
        client: connection.client,
        peer: connection.peer.clone(),
        target: connection.target,
        request: request.map(|of| (denials::method(of.method()), denials::path(of.path()))),
        ending: refusal.ending,
        server: policy.server.clone(),
        route: route.map(|route| route.resource.clone()),
        policy: Arc::downgrade(policy),
    });
    let workload = &thread.config.workload;
    refusal.denial = Some(DenialId::new(&workload.namespace, &workload.pod, number));
    refusal
}

/// Something that is open: it ends when the policy of its port changes and does not let it in any more.
pub struct OpenGuard<'a> {
    thread: &'a ThreadContext,
    policy: &'a PortPolicy,
    connection: &'a Connection,
    /// The route that let it in, where the port itself did not.
    route: Option<&'a Resource>,
    transport: Transport,
    /// Of the policy that let it in.
    generation: u64,
    place: Option<usize>,
}

impl OpenGuard<'_> {
    /// Why it must end now; if it need not, its task is woken when the policy changes.
    pub fn poll_denied(&mut self, context: &Context<'_>) -> Option<Refusal> {
        let generation = self.policy.generation.get();
        if generation != self.generation {
            self.generation = generation;
            let policy = self.policy.get();
            let Connection { client, peer, .. } = self.connection;
            let by_route = |route| policy::route_admits(&policy, route, client.ip(), peer);
            let by_route = self.route.is_some_and(by_route);
            let decided =
                self.policy.decide_anew(self.thread, policy, self.transport, self.connection);
            if let Err(refusal) = decided.verdict.clone()
                && !by_route
            {
                // Counted only now: that it was let in was counted when it came.
                decided.counter.add(1);
                return Some(noted(self.thread, &decided, self.connection, None, refusal));
            }
        }
        let mut open = self.policy.open.borrow_mut();
        match self.place {
            None => self.place = Some(open.insert(context.waker().clone())),
            Some(place) => match &mut open.places[place] {
                Slot::Taken(waker) if waker.will_wake(context.waker()) => {}
                slot => *slot = Slot::Taken(context.waker().clone()),
            },
        }
        None
    }
}

impl Drop for OpenGuard<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.policy.open.borrow_mut().remove(place);
        }
    }
}
