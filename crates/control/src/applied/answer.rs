//! The proxies of one replica or of several, and what each of them waits for. Pure.

use super::{Applied, Row, Watched};
use crate::world::World;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Streams of one proxy that are named.
const WAITING_MAX: usize = 10;

/// What replicas know of their proxies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// In the order of namespace and pod.
    pub proxies: Vec<Proxy>,
}

/// A proxy with at least one stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proxy {
    pub namespace: String,
    pub pod: String,
    /// Kind and name, as `deployment/web`.
    pub workload: String,
    /// Linkerd's proxies do not.
    pub acknowledges: bool,
    /// Streams.
    pub watches: usize,
    /// Streams whose newest messages are not applied.
    pub behind: usize,
    /// Those that wait longest.
    pub waiting: Vec<Waiting>,
}

/// What a proxy has not applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// As `the policy of port 8080`.
    pub what: String,
    /// Messages.
    pub unacknowledged: u64,
    /// Since the oldest of them was sent.
    pub seconds: f64,
    /// The proxy has rejected a part of the newest one.
    pub rejected: bool,
}

impl Answer {
    /// What a replica knows, about the pods that exist.
    #[must_use]
    pub fn new(world: &World, applied: &Applied, now: Instant) -> Self {
        let mut proxies: BTreeMap<(String, String), Proxy> = BTreeMap::new();
        for row in applied.all() {
            let Some(pod) = pod_of(world, &row) else { continue };
            let (kind, name) = pod.workload();
            let key = (pod.id.namespace.to_string(), pod.id.pod.to_string());
            let (namespace, pod) = key.clone();
            let proxy = proxies.entry(key).or_insert_with(|| Proxy {
                namespace,
                pod,
                workload: format!("{kind}/{name}"),
                acknowledges: false,
                watches: 0,
                behind: 0,
                waiting: Vec::new(),
            });
            proxy.add(world, &row, now);
        }
        let mut answer = Self { proxies: proxies.into_values().collect() };
        answer.proxies.iter_mut().for_each(Proxy::order);
        answer
    }

    /// Adds what another replica knows. A proxy may have streams to several.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let mut proxies: BTreeMap<(String, String), Proxy> = BTreeMap::new();
        for one in self.proxies.into_iter().chain(other.proxies) {
            let key = (one.namespace.clone(), one.pod.clone());
            match proxies.get_mut(&key) {
                Some(known) => known.join(one),
                None => drop(proxies.insert(key, one)),
            }
        }
        Self { proxies: proxies.into_values().collect() }
    }

    /// Only the proxies of a namespace.
    #[must_use]
    pub fn of_namespace(mut self, namespace: &str) -> Self {
        self.proxies.retain(|one| one.namespace == namespace);
        self
    }

    /// `{"total", "applied", "silent", "proxies"}`, for operators. Silent proxies do not acknowledge, and are not in the total.
    #[must_use]
    pub fn shown(&self) -> Value {
        let total = self.proxies.iter().filter(|one| one.acknowledges).count();
        let applied = self.proxies.iter().filter(|one| one.acknowledges && one.behind == 0).count();
        let silent = self.proxies.len() - total;
        json!({"total": total, "applied": applied, "silent": silent, "proxies": self.proxies})
    }
}

impl Proxy {
    fn add(&mut self, world: &World, row: &Row, now: Instant) {
        self.watches += 1;
        self.acknowledges |= row.acknowledges;
        let progress = row.progress();
        let waits = progress.waits(world.version, now).filter(|_| row.acknowledges);
        if let Some(waits) = waits {
            self.behind += 1;
            self.waiting.push(Waiting {
                what: name_of(world, &row.watched),
                unacknowledged: progress.unacknowledged(),
                seconds: (waits.as_secs_f64() * 1_000.0).round() / 1_000.0,
                rejected: progress.is_rejected(),
            });
        }
    }

    fn join(&mut self, other: Self) {
        self.acknowledges |= other.acknowledges;
        self.watches += other.watches;
        self.behind += other.behind;
        self.waiting.extend(other.waiting);
        self.order();
    }

    fn order(&mut self) {
        let by_time = |a: &Waiting, b: &Waiting| {
            b.seconds.total_cmp(&a.seconds).then_with(|| a.what.cmp(&b.what))
        };
        self.waiting.sort_by(by_time);
        self.waiting.truncate(WAITING_MAX);
    }
}

/// The pod of a row, where it exists and has the identity with which the stream was opened.
pub(super) fn pod_of<'w>(world: &'w World, row: &Row) -> Option<&'w crate::world::pod::Pod> {
    let pod = world.pod(&row.workload)?;
    let (namespace, account) = row.member.as_service_account().ok()?;
    let is_own = namespace == &*pod.id.namespace && account == &*pod.service_account;
    is_own.then_some(pod.as_ref())
}

fn name_of(world: &World, watched: &Watched) -> String {
    let (what, target) = match watched {
        Watched::Inbound(port) => return format!("the policy of port {port}"),
        Watched::Outbound(target) => ("the routes of", target),
        Watched::Endpoints(target) => ("the endpoints of", target),
    };
    match world.service_port(target) {
        Some(((namespace, name), port)) => format!("{what} Service {namespace}/{name} port {port}"),
        None => format!("{what} {target}"),
    }
}
