//! What the page gets: sums of a window as JSON. Pure. `docs/dashboard.md` describes the answers.

use super::counters::{Key, Node};
use super::happenings::Happening;
use super::history::{History, Point};
use super::interned::Interned;
use super::policy::{self, RetryRow, RuleRow};
use super::sums::Sums;
use crate::home::Member;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Happenings of one answer; the newest.
const HAPPENINGS_SHOWN_MAX: usize = 300;

#[derive(Debug, Serialize)]
pub(super) struct Graph<'a> {
    home: &'static str,
    /// Time of the newest reading, in seconds since 1970.
    at: f64,
    window_seconds: u64,
    /// Part of the window that was observed.
    covered_seconds: f64,
    slot_seconds: u64,
    readings: u64,
    /// Why there is no newer reading.
    failed: Option<&'a str>,
    /// Keys that had no room.
    left_out: usize,
    /// Meshed pods that run, and those of them whose proxy answered.
    proxies: usize,
    proxies_read: usize,
    nodes: Vec<NodeRow>,
    edges: Vec<EdgeRow>,
    points: Vec<PointRow>,
    happenings: Vec<&'a Happening>,
}

#[derive(Debug, Serialize)]
struct NodeRow {
    id: String,
    namespace: String,
    kind: String,
    name: String,
    pods: usize,
    ready: usize,
    meshed: usize,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
struct EdgeRow {
    /// Positions in `nodes`.
    from: usize,
    to: usize,
    mutual_tls: Option<&'static str>,
    denied_per_second: f64,
    /// `allowed`, `audited`, `denied` or `mixed`; `None` where no proxy of the server decided in the window.
    policy: Option<&'static str>,
    #[serde(flatten)]
    figures: Figures,
}

/// Golden metrics of a window. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    requests_per_second: f64,
    success_rate: Option<f64>,
    p50_milliseconds: Option<f64>,
    p99_milliseconds: Option<f64>,
    connections_open: u64,
    bytes_per_second: f64,
}

#[derive(Debug, Serialize)]
struct PointRow {
    /// Begin of the slot, in seconds since 1970.
    at: u64,
    requests_per_second: f64,
    failures_per_second: f64,
    p50_milliseconds: Option<f64>,
    p99_milliseconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct NodeDetails<'a> {
    figures: Figures,
    p95_milliseconds: Option<f64>,
    read_bytes_per_second: f64,
    write_bytes_per_second: f64,
    pods: Vec<PodRow<'a>>,
    routes: Vec<Part>,
    services: Vec<Part>,
    /// Decisions about all clients.
    rules: Vec<RuleRow>,
    points: Vec<PointRow>,
}

#[derive(Debug, Serialize)]
struct PodRow<'a> {
    name: &'a str,
    ready: bool,
    meshed: bool,
    identity: &'a str,
    /// In seconds since 1970.
    certificate_expires: Option<f64>,
    rss_bytes: Option<f64>,
}

/// A route or a Service.
#[derive(Debug, Serialize)]
struct Part {
    name: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
pub(super) struct EdgeDetails {
    figures: Figures,
    p95_milliseconds: Option<f64>,
    mutual_tls: Option<&'static str>,
    requests: u64,
    failures: u64,
    denied: u64,
    connections_opened: u64,
    read_bytes_per_second: f64,
    write_bytes_per_second: f64,
    /// The most frequent first.
    reasons: Vec<(String, u64)>,
    rules: Vec<RuleRow>,
    /// The client's ServiceAccount has other workloads, whose requests are in `rules` too.
    is_account_shared: bool,
    retries: Vec<RetryRow>,
    points: Vec<PointRow>,
}

/// Three places are enough for people and keep large answers small.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { round(count as f64 / seconds) } else { 0.0 }
}

fn figures(sums: &Sums, open: u64, covered: f64, bounds: &BTreeSet<u32>) -> Figures {
    Figures {
        requests_per_second: rate(sums.ended(), covered),
        // Not rounded up to 1: one failure in a million is a failure.
        success_rate: sums.success_rate(),
        p50_milliseconds: sums.percentile(bounds, 0.5).map(round),
        p99_milliseconds: sums.percentile(bounds, 0.99).map(round),
        connections_open: open,
        bytes_per_second: rate(sums.read_bytes + sums.write_bytes, covered),
    }
}

/// `yes`, `no` or `mixed`; `None` where nothing was counted.
fn mutual_tls(sums: &Sums, open: (u64, u64)) -> Option<&'static str> {
    match (sums.secured + open.0 > 0, sums.plain + open.1 > 0) {
        (true, false) => Some("yes"),
        (true, true) => Some("mixed"),
        (false, true) => Some("no"),
        (false, false) => None,
    }
}

fn points(points: &[Point], bounds: &BTreeSet<u32>) -> Vec<PointRow> {
    let row = |point: &Point| PointRow {
        at: point.at,
        requests_per_second: rate(point.sums.ended(), point.covered),
        failures_per_second: rate(point.sums.failure, point.covered),
        p50_milliseconds: point.sums.percentile(bounds, 0.5).map(round),
        p99_milliseconds: point.sums.percentile(bounds, 0.99).map(round),
    };
    points.iter().map(row).collect()
}

/// The whole graph of a window.
pub(super) fn graph(history: &History, window_seconds: u64) -> Graph<'_> {
    let is_wanted = |key: &Key| matches!(key, Key::Edge(..) | Key::Inbound(_) | Key::Rule(..));
    let (covered, sums) = history.over(window_seconds, is_wanted);
    let edges = history.edges(&sums);
    let mut pods: BTreeMap<Node, Vec<&Member>> = BTreeMap::new();
    for member in history.members.iter().filter(|member| !member.ending) {
        pods.entry(Node::of(member)).or_default().push(member);
    }
    for (client, server) in edges.keys() {
        for end in [client, server] {
            if !pods.contains_key(*end) {
                pods.insert((*end).clone(), Vec::new());
            }
        }
    }
    let places: HashMap<&Node, usize> =
        pods.keys().enumerate().map(|(place, node)| (node, place)).collect();
    let shown = Shown { history, sums: &sums, covered };
    let (verdicts, aliases) = (policy::verdicts(&sums), history.aliases());
    let edge_rows = edges.iter().map(|((client, server), (sums, open))| {
        let seen = aliases.get(*client).unwrap_or(client);
        let policy = verdicts.get(&(seen, *server)).copied();
        EdgeRow { policy, ..shown.edge(places[client], places[server], *sums, *open) }
    });
    let edge_rows = edge_rows.collect();
    let all = history.series_of_edges(window_seconds);
    Graph {
        home: history.home,
        at: round(history.read_at),
        window_seconds,
        covered_seconds: round(covered),
        slot_seconds: history.slot_seconds(window_seconds),
        readings: history.readings,
        failed: history.failed.as_deref(),
        left_out: history.left_out,
        proxies: history.members.iter().filter(|member| member.answers).count(),
        proxies_read: history.proxies_read,
        nodes: pods.iter().map(|(node, own)| shown.node(node, own)).collect(),
        edges: edge_rows,
        points: points(&all, &history.bounds),
        happenings: happenings(history),
    }
}

/// The sums that an answer is made of.
struct Shown<'a> {
    history: &'a History,
    sums: &'a HashMap<Interned, Sums>,
    covered: f64,
}

impl Shown<'_> {
    fn figures(&self, key: &Key) -> Figures {
        let none = Sums::default();
        let key = self.history.find(key);
        let open = key.as_ref().and_then(|key| self.history.open.get(key));
        let open = open.copied().unwrap_or_default();
        let sums = key.as_ref().and_then(|key| self.sums.get(key)).unwrap_or(&none);
        figures(sums, open.0 + open.1, self.covered, &self.history.bounds)
    }

    fn node(&self, node: &Node, pods: &[&Member]) -> NodeRow {
        NodeRow {
            id: node.id(),
            namespace: node.namespace.clone(),
            kind: node.kind.clone(),
            name: node.name.clone(),
            pods: pods.len(),
            ready: pods.iter().filter(|pod| pod.ready).count(),
            meshed: pods.iter().filter(|pod| pod.meshed).count(),
            figures: self.figures(&Key::Inbound(node.clone())),
        }
    }

    fn edge(&self, from: usize, to: usize, sums: Option<&Sums>, open: (u64, u64)) -> EdgeRow {
        let none = Sums::default();
        let sums = sums.unwrap_or(&none);
        EdgeRow {
            from,
            to,
            mutual_tls: mutual_tls(sums, open),
            denied_per_second: rate(sums.denied, self.covered),
            policy: None,
            figures: figures(sums, open.0 + open.1, self.covered, &self.history.bounds),
        }
    }

    /// Routes or Services by name, the busiest first.
    fn parts<'a>(&self, keys: impl Iterator<Item = (&'a Key, &'a str)>) -> Vec<Part> {
        let mut parts: Vec<Part> = keys
            .map(|(key, name)| Part { name: name.to_owned(), figures: self.figures(key) })
            .collect();
        parts.sort_by(|a, b| {
            let busier = b.figures.requests_per_second.total_cmp(&a.figures.requests_per_second);
            busier.then_with(|| a.name.cmp(&b.name))
        });
        parts
    }
}

/// The newest of both sources, the oldest first.
fn happenings(history: &History) -> Vec<&Happening> {
    let mut all: Vec<&Happening> = history.happenings.iter().chain(&history.journal).collect();
    all.sort_by_key(|happening| happening.at);
    all.split_off(all.len().saturating_sub(HAPPENINGS_SHOWN_MAX))
}

/// Everything about one node; `None` where it is not in the graph.
pub(super) fn node<'a>(
    history: &'a History,
    node: &Node,
    window_seconds: u64,
) -> Option<NodeDetails<'a>> {
    let own = Key::Inbound(node.clone());
    let pods: Vec<PodRow<'_>> = (history.members.iter())
        .filter(|member| !member.ending && Node::of(member) == *node)
        .map(|member| pod(history, member))
        .collect();
    let is_about = |key: &Key| match key {
        Key::Edge(client, server) => client == node || server == node,
        Key::Rule(_, of, _) | Key::Inbound(of) | Key::Route(of, _) | Key::Service(of, _) => {
            of == node
        }
        Key::Retries(..) | Key::Ejections(..) => false,
    };
    let (covered, sums) = history.over(window_seconds, is_about);
    if pods.is_empty() && sums.is_empty() && !history.open.keys().any(|key| is_about(key)) {
        return None;
    }
    let shown = Shown { history, sums: &sums, covered };
    let routes = sums.keys().filter_map(|key| match &**key {
        Key::Route(of, name) if of == node => Some((&**key, name.as_str())),
        _ => None,
    });
    let services = sums.keys().filter_map(|key| match &**key {
        Key::Service(of, name) if of == node => Some((&**key, name.as_str())),
        _ => None,
    });
    let none = Sums::default();
    let known = history.find(&own);
    let all = known.and_then(|own| sums.get(&own)).unwrap_or(&none);
    Some(NodeDetails {
        figures: shown.figures(&own),
        p95_milliseconds: all.percentile(&history.bounds, 0.95).map(round),
        read_bytes_per_second: rate(all.read_bytes, covered),
        write_bytes_per_second: rate(all.write_bytes, covered),
        pods,
        routes: shown.parts(routes),
        services: shown.parts(services),
        rules: policy::rules(&sums, |_, server| server == node),
        points: points(&history.series(window_seconds, &own), &history.bounds),
    })
}

fn pod<'a>(history: &History, member: &'a Member) -> PodRow<'a> {
    let name = (member.namespace.clone(), member.name.clone());
    let facts = history.facts.get(&name).copied().unwrap_or_default();
    PodRow {
        name: &member.name,
        ready: member.ready,
        meshed: member.meshed,
        identity: &member.identity,
        certificate_expires: facts.certificate_expires,
        rss_bytes: facts.rss_bytes,
    }
}

/// Everything about one edge; `None` where it is not in the graph.
pub(super) fn edge(
    history: &History,
    from: Node,
    to: Node,
    window_seconds: u64,
) -> Option<EdgeDetails> {
    let aliases = history.aliases();
    let seen = aliases.get(&from).unwrap_or(&from);
    let is_wanted = |key: &Key| match key {
        Key::Edge(client, server) | Key::Retries(client, server, _) => {
            (client, server) == (&from, &to)
        }
        Key::Rule(client, server, _) => (client, server) == (seen, &to),
        _ => false,
    };
    let (covered, mut all) = history.over(window_seconds, is_wanted);
    let rules = policy::rules(&all, |_, _| true);
    let retries = policy::retries(&all, &from, &to);
    let is_account_shared = *seen != from;
    let key = Key::Edge(from, to);
    let known = history.find(&key)?;
    let open = history.open.get(&known).copied();
    let sums = all.remove(&known);
    if open.is_none() && sums.is_none() {
        return None;
    }
    let (sums, open) = (sums.unwrap_or_default(), open.unwrap_or_default());
    let mut reasons: Vec<(String, u64)> = sums.reasons.clone().into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(EdgeDetails {
        figures: figures(&sums, open.0 + open.1, covered, &history.bounds),
        p95_milliseconds: sums.percentile(&history.bounds, 0.95).map(round),
        mutual_tls: mutual_tls(&sums, open),
        requests: sums.ended(),
        failures: sums.failure,
        denied: sums.denied,
        connections_opened: sums.opened,
        read_bytes_per_second: rate(sums.read_bytes, covered),
        write_bytes_per_second: rate(sums.write_bytes, covered),
        reasons,
        rules,
        is_account_shared,
        retries,
        points: points(&history.series(window_seconds, &key), &history.bounds),
    })
}
