//! What a data thread has counted: for each client, port and verdict the kinds of requests. A request of a kind that was seen already
//! allocates nothing, and one that is like one of the last few of its client costs some tens of instructions.

use super::Batch;
use crate::request::view::{Kind, View};
use hashbrown::HashTable;
use ipnet::IpNet;
use leno_model::name::Resource;
use leno_model::policy::{self, InboundPolicy, PeerTls, Verdict};
use leno_model::record::{Detail, Entry, Outcome, Request, Version, Width, fold, method, network};
use leno_model::route::RequestView as _;
use std::cell::{Cell, RefCell};
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A thread gives its sums away so often.
const BATCH_INTERVAL: Duration = Duration::from_secs(5);
/// Clients of one port with one verdict, and all kinds of requests, that a thread keeps.
const SCOPES_MAX: usize = 512;
const EDGES_MAX: usize = 2_000;
/// Paths of one client that are kept as they are, and those of which the first segment is kept.
const PATHS_MAX: usize = 100;
const PREFIXES_MAX: usize = 140;
/// Clients without identity: so many by address, by subnet and by private network.
const WIDTHS: [(Width, usize); 4] = [
    (Width::Address, 64),
    (Width::Subnet, 128),
    (Width::Private, 160),
    (Width::Family, usize::MAX),
];
/// What was not seen for so many batches is forgotten: an hour, or a minute where the table is half full.
const IDLE_BATCHES_MAX: u16 = 720;
const IDLE_BATCHES_MAX_IF_FULL: u16 = 12;
/// Requests of a client that are found at once.
const RECENT: usize = 8;
/// Connections whose scopes are found at once.
const LAST: usize = 4;
/// A longer path is looked up each time.
const RECENT_PATH_BYTES_MAX: usize = 256;

/// The table of one thread.
#[derive(Debug)]
pub struct Table {
    /// None where nobody takes the sums.
    outbox: Option<mpsc::Sender<Batch>>,
    hasher: foldhash::fast::RandomState,
    scopes: RefCell<HashTable<Rc<Scope>>>,
    /// Scopes of the last connections, as each request of a shared connection has a connection of its own.
    last: RefCell<[Option<Last>; LAST]>,
    /// Scopes of clients without identity.
    strangers: Cell<usize>,
    edges: Cell<usize>,
    lost: Cell<u64>,
    /// Reused.
    folded: RefCell<String>,
    given_at: Cell<Instant>,
}

/// Who reaches which port.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub address: IpAddr,
    pub peer: &'a PeerTls,
    /// Of our application.
    pub port: u16,
}

/// A client, the policy that decided about it, and where it is counted.
type Last = (Arc<InboundPolicy>, IpAddr, Rc<Scope>);

/// What one client did at one port, by one rule.
#[derive(Debug)]
pub struct Scope {
    hash: u64,
    client: PeerTls,
    network: IpNet,
    port: u16,
    outcome: Outcome,
    rule: Option<Resource>,
    connections: Cell<u64>,
    recent: RefCell<[Option<Rc<Edge>>; RECENT]>,
    edges: RefCell<HashTable<Rc<Edge>>>,
    idle: Cell<u16>,
}

/// Requests of one kind.
#[derive(Debug)]
struct Edge {
    hash: u64,
    request: Request,
    /// The last path of this kind, as received.
    raw: RefCell<Vec<u8>>,
    count: Cell<u64>,
    idle: Cell<u16>,
}

impl Edge {
    fn is_of(&self, version: Version, method: &[u8], raw: &[u8]) -> bool {
        *self.raw.borrow() == raw
            && self.request.method.as_bytes() == method
            && self.request.version == version
    }

    fn add(&self) {
        self.count.set(self.count.get() + 1);
    }
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(outbox: Option<mpsc::Sender<Batch>>) -> Self {
        Self {
            outbox,
            hasher: foldhash::fast::RandomState::default(),
            scopes: RefCell::default(),
            last: RefCell::default(),
            strangers: Cell::new(0),
            edges: Cell::new(0),
            lost: Cell::new(0),
            folded: RefCell::default(),
            given_at: Cell::new(Instant::now()),
        }
    }

    /// Where what a client does at a port is counted, by the rules of the port.
    #[must_use]
    pub fn scope_of(&self, caller: Caller<'_>, policy: &Arc<InboundPolicy>) -> Option<Rc<Scope>> {
        self.outbox.as_ref()?;
        let Caller { address, peer, port } = caller;
        let is_it = |(known, from, scope): &&Last| {
            Arc::ptr_eq(known, policy)
                && *from == address
                && scope.port == port
                && scope.client == *peer
        };
        if let Some((_, _, scope)) = self.last.borrow().iter().flatten().find(is_it) {
            return Some(scope.clone());
        }
        let verdict = policy::decide(policy, address, peer);
        let outcome = match verdict {
            Verdict::Allow(_) => Outcome::Allowed,
            Verdict::Audit(_) => Outcome::Audited,
            Verdict::Deny(_) => Outcome::Denied,
        };
        let scope = self.scope(caller, outcome, verdict.rule().map(|rule| &rule.resource))?;
        let mut last = self.last.borrow_mut();
        last.rotate_right(1);
        last[0] = Some((policy.clone(), address, scope.clone()));
        Some(scope)
    }

    /// Where what a client does at a port is counted by a rule; `None` where there is no room, or where nobody takes the sums.
    #[must_use]
    pub fn scope(
        &self,
        caller: Caller<'_>,
        outcome: Outcome,
        rule: Option<&Resource>,
    ) -> Option<Rc<Scope>> {
        self.outbox.as_ref()?;
        let Caller { address, peer: client, port } = caller;
        let has_identity = matches!(client, PeerTls::Established(Some(_)));
        let widths = if has_identity { &[(Width::Private, usize::MAX)][..] } else { &WIDTHS[..] };
        let mut scopes = self.scopes.borrow_mut();
        for (width, strangers_max) in widths {
            let network = network(address, *width);
            let hash = self.hasher.hash_one((client, network, port, outcome, rule));
            let is_it = |scope: &Rc<Scope>| {
                (scope.port, scope.outcome, scope.network) == (port, outcome, network)
                    && scope.client == *client
                    && scope.rule.as_ref() == rule
            };
            if let Some(known) = scopes.find(hash, is_it) {
                return Some(known.clone());
            }
            if self.strangers.get() >= *strangers_max {
                continue;
            }
            if scopes.len() >= SCOPES_MAX {
                break;
            }
            self.strangers.set(self.strangers.get() + usize::from(!has_identity));
            let scope = Rc::new(Scope {
                hash,
                client: client.clone(),
                network,
                port,
                outcome,
                rule: rule.cloned(),
                connections: Cell::new(0),
                recent: RefCell::default(),
                edges: RefCell::default(),
                idle: Cell::new(0),
            });
            return Some(scopes.insert_unique(hash, scope, |scope| scope.hash).get().clone());
        }
        self.lost.set(self.lost.get() + 1);
        None
    }

    /// Counts one request of a client.
    pub fn request(&self, scope: &Scope, request: &View<'_>) {
        let version = match request.kind() {
            Kind::Http1 => Version::Http1,
            Kind::Http2 => Version::Http2,
        };
        let (method, raw) = (request.raw_method(), request.raw_path());
        let place = place(raw);
        match &scope.recent.borrow()[place] {
            Some(edge) if edge.is_of(version, method, raw) => return edge.add(),
            _ => {}
        }
        self.request_anew(scope, request, (version, raw, place));
    }

    #[inline(never)]
    fn request_anew(
        &self,
        scope: &Scope,
        request: &View<'_>,
        (version, raw, place): (Version, &[u8], usize),
    ) {
        let method = method(request.method());
        let mut folded = self.folded.borrow_mut();
        let mut edges = scope.edges.borrow_mut();
        for (detail, edges_max) in
            [(Detail::Path, PATHS_MAX), (Detail::Prefix, PREFIXES_MAX), (Detail::None, EDGES_MAX)]
        {
            match request.is_ambiguous() {
                true => folded.clear(),
                false => fold(request.path(), detail, &mut folded),
            }
            let hash = self.hasher.hash_one((version, method, folded.as_str()));
            let is_it = |edge: &Rc<Edge>| {
                *edge.request.path == **folded
                    && *edge.request.method == *method
                    && edge.request.version == version
            };
            let known = edges.find(hash, is_it).cloned();
            let has_room = edges.len() < edges_max && self.edges.get() < EDGES_MAX;
            if known.is_none() && !has_room {
                continue;
            }
            let edge = known.unwrap_or_else(|| {
                self.edges.set(self.edges.get() + 1);
                let (method, path) = (method.into(), folded.as_str().into());
                let request = Request { version, method, path };
                let (raw, count, idle) = (RefCell::default(), Cell::new(0), Cell::new(0));
                let edge = Rc::new(Edge { hash, request, raw, count, idle });
                edges.insert_unique(hash, edge, |edge| edge.hash).get().clone()
            });
            edge.add();
            if raw.len() <= RECENT_PATH_BYTES_MAX {
                let mut kept = edge.raw.borrow_mut();
                kept.clear();
                kept.extend_from_slice(raw);
                drop(kept);
                scope.recent.borrow_mut()[place] = Some(edge);
            }
            return;
        }
        self.lost.set(self.lost.get() + 1);
    }

    /// Counts one connection that is forwarded as bytes, or that is denied before anything is known of it.
    pub fn connection(&self, scope: &Scope) {
        scope.connections.set(scope.connections.get() + 1);
    }

    /// Gives the sums away when it is time.
    pub fn sweep(&self, now: Instant) {
        let Some(outbox) = &self.outbox else { return };
        if now.saturating_duration_since(self.given_at.get()) < BATCH_INTERVAL {
            return;
        }
        // Sums that nobody takes now are in the next batch.
        let Ok(permit) = outbox.try_reserve() else { return };
        self.given_at.set(now);
        let batch = self.take();
        if !batch.entries.is_empty() || batch.lost > 0 {
            permit.send(batch);
        }
    }

    fn take(&self) -> Batch {
        let mut entries = Vec::new();
        // They hold policies that may be old.
        self.last.take();
        let mut scopes = self.scopes.borrow_mut();
        let idle_max = match self.edges.get() > EDGES_MAX / 2 || scopes.len() > SCOPES_MAX / 2 {
            true => IDLE_BATCHES_MAX_IF_FULL,
            false => IDLE_BATCHES_MAX,
        };
        let (mut strangers, mut edges) = (0, 0);
        scopes.retain(|scope| {
            scope.take(idle_max, &mut entries);
            let is_held = Rc::strong_count(scope) > 1;
            let stays = is_held || !scope.edges.borrow().is_empty() || scope.idle.get() <= idle_max;
            if stays {
                edges += scope.edges.borrow().len();
                let has_identity = matches!(scope.client, PeerTls::Established(Some(_)));
                strangers += usize::from(!has_identity);
            }
            stays
        });
        self.strangers.set(strangers);
        self.edges.set(edges);
        Batch { entries, lost: self.lost.take() }
    }
}

impl Scope {
    /// Takes what was counted, and forgets what has been idle for too long.
    fn take(&self, idle_max: u16, into: &mut Vec<(Entry, u64)>) {
        let connections = self.connections.take();
        if connections > 0 {
            into.push((self.entry(None), connections));
        }
        let before = self.edges.borrow().len();
        self.edges.borrow_mut().retain(|edge| {
            let count = edge.count.take();
            match count {
                0 => edge.idle.set(edge.idle.get().saturating_add(1)),
                _ => {
                    edge.idle.set(0);
                    into.push((self.entry(Some(&edge.request)), count));
                }
            }
            edge.idle.get() <= idle_max
        });
        if self.edges.borrow().len() < before {
            // Else what is forgotten would go on counting.
            self.recent.take();
        }
        self.idle.set(if connections == 0 { self.idle.get().saturating_add(1) } else { 0 });
    }

    fn entry(&self, request: Option<&Request>) -> Entry {
        Entry {
            client: self.client.clone(),
            network: self.network,
            port: self.port,
            request: request.cloned(),
            outcome: self.outcome,
            rule: self.rule.as_ref().map(words).unwrap_or_default(),
        }
    }
}

/// A rule in words: `authorizationpolicy shop/web`, `default audit`.
fn words(rule: &Resource) -> Box<str> {
    let (kind, namespace, name) = (rule.kind(), rule.namespace(), rule.name());
    let text = match namespace {
        "" => format!("{kind} {name}"),
        _ => format!("{kind} {namespace}/{name}"),
    };
    text[..text.floor_char_boundary(leno_api::record::RULE_BYTES_MAX)].into()
}

/// Where among the recent ones a path is. Paths that differ often differ in length or at the end.
fn place(raw: &[u8]) -> usize {
    let last = raw.last().copied().unwrap_or_default();
    let middle = raw.get(raw.len() / 2).copied().unwrap_or_default();
    (raw.len() ^ usize::from(last) ^ usize::from(middle >> 2)) % RECENT
}

#[cfg(test)]
mod tests;
