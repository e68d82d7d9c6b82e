//! The series of a proxy, by the edges and workloads that they are about. Pure.
//!
//! A client's proxy knows the server's pod, so the client's side counts an edge. The server's side counts only clients whose proxy is
//! not read: a client without the mesh, or outside of the scope. Thus no request counts twice.

use super::rule::{RETRIES, Rule};
use super::sums::Totals;
use crate::home::Member;
use leno_runtime::prometheus_text::{self, Sample};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Kind of a workload that is known only by its SPIFFE ID.
const IDENTITY: &str = "identity";
/// Kind of clients without an identity, and of destinations that discovery does not know.
pub(super) const OUTSIDE: &str = "outside";
/// Kinds in the `dst_…` labels of endpoints.
const KINDS: [&str; 7] = [
    "deployment",
    "statefulset",
    "daemonset",
    "job",
    "cronjob",
    "replicaset",
    "replicationcontroller",
];
/// Families that are read; most lines of an exposition belong to others.
const FAMILIES: [&str; 13] = [
    "response_total",
    "response_latency_ms_bucket",
    "tcp_open_",
    "tcp_read_bytes_total",
    "tcp_write_bytes_total",
    "inbound_http_authz_",
    "inbound_tcp_authz_",
    "outbound_http_route_retry_",
    "outbound_http_balancer_ejections_total",
    "outbound_http_balancer_recoveries_total",
    "identity_trust_anchors_info",
    "control_identity_cert_expiration",
    "process_resident_memory_bytes",
];

/// A node of the graph: `namespace/kind/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Node {
    pub(super) fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }

    /// The workload of a pod; the pod itself where there is none.
    pub(super) fn of(member: &Member) -> Self {
        let (kind, name) = member.workload.split_once('/').unwrap_or(("pod", &member.name));
        Self::new(&member.namespace, kind, name)
    }

    pub(super) fn id(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.kind, self.name)
    }

    /// For people: `deployment shop/web`, `outside clients`.
    pub(super) fn shown(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }

    /// The opposite of [`Node::id`]. Names of Kubernetes have no slash.
    pub(super) fn parse(id: &str) -> Option<Self> {
        let mut parts = id.splitn(3, '/');
        Some(Self::new(parts.next()?, parts.next()?, parts.next()?))
    }
}

/// What sums are kept of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// Requests and connections from a client to a server.
    Edge(Node, Node),
    /// Everything that a workload served.
    Inbound(Node),
    /// What clients asked of a workload by way of a route.
    Route(Node, String),
    /// What clients asked of a workload by way of a Service.
    Service(Node, String),
    /// What a rule decided about a client of a server: `success` counts requests, `opened` connections.
    Rule(Node, Node, Rule),
    /// Retries from a client to a server by Service; `reasons` counts outcomes, as [`RETRIES`] names them. A Service's retries are
    /// those of each server behind it.
    Retries(Node, Node, String),
    /// Endpoints of a Service that a client ejected, and recoveries; `reasons` counts them.
    Ejections(Node, String),
}

/// What a proxy says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// In seconds since 1970.
    pub(super) certificate_expires: Option<f64>,
    pub(super) rss_bytes: Option<f64>,
    /// A hash of the roots that it trusts, in any order; 0 where it names none.
    pub(super) anchors: u64,
}

/// One proxy's counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) totals: HashMap<Key, Totals>,
    pub(super) facts: Facts,
}

/// Which pods there are, for the labels of series.
#[derive(Debug)]
pub(super) struct Pods<'a> {
    by_name: HashMap<(&'a str, &'a str), &'a Member>,
    /// The workload of an identity, where the identity has only one.
    by_identity: HashMap<&'a str, Option<Node>>,
    /// Identities of pods whose proxies are read.
    read: HashSet<&'a str>,
}

impl<'a> Pods<'a> {
    pub(super) fn of(members: &'a [Member]) -> Self {
        let mut by_identity: HashMap<&str, Option<Node>> = HashMap::new();
        for member in members.iter().filter(|member| !member.identity.is_empty()) {
            let node = Node::of(member);
            by_identity
                .entry(&member.identity)
                .and_modify(|known| {
                    if known.as_ref().is_some_and(|known| *known != node) {
                        *known = None;
                    }
                })
                .or_insert(Some(node));
        }
        let name = |member: &'a Member| ((&*member.namespace, &*member.name), member);
        let read = members.iter().filter(|member| member.answers);
        Self {
            by_name: members.iter().map(name).collect(),
            by_identity,
            read: read.map(|member| &*member.identity).collect(),
        }
    }

    /// Clients whose identity other workloads have too, and the nodes as which servers see them.
    pub(super) fn aliases(&self, members: &[Member]) -> HashMap<Node, Node> {
        let is_shared = |member: &&Member| {
            self.by_identity.get(member.identity.as_str()).is_some_and(Option::is_none)
        };
        let alias = |member: &Member| (Node::of(member), by_spiffe(&member.identity));
        members.iter().filter(is_shared).map(alias).collect()
    }

    pub(super) fn client(&self, identity: &str) -> Node {
        if identity.is_empty() {
            return Node::new("", OUTSIDE, "clients");
        }
        let known = self.by_identity.get(identity).cloned().flatten();
        known.unwrap_or_else(|| by_spiffe(identity))
    }

    fn server(&self, sample: &Sample) -> Node {
        let label = |name: &str| sample.label(name);
        let namespace = label("dst_namespace");
        if let Some(member) = self.by_name.get(&(namespace, label("dst_pod"))) {
            return Node::of(member);
        }
        for kind in KINDS {
            let name = label(&format!("dst_{kind}"));
            if !name.is_empty() {
                return Node::new(namespace, kind, name);
            }
        }
        match (label("dst_service"), label("srv_kind"), label("srv_name")) {
            ("", "Service", name) if !name.is_empty() => {
                Node::new(label("srv_namespace"), "service", name)
            }
            ("", _, _) => Node::new("", OUTSIDE, "destinations"),
            (service, _, _) => Node::new(namespace, "service", service),
        }
    }
}

/// By account where the identity has the usual form.
fn by_spiffe(identity: &str) -> Node {
    let path = identity.strip_prefix("spiffe://").and_then(|rest| rest.split_once("/ns/"));
    match path.and_then(|(_, rest)| rest.split_once("/sa/")) {
        Some((namespace, account)) => Node::new(namespace, IDENTITY, account),
        None => Node::new("", IDENTITY, identity),
    }
}

/// Reads the metrics of a pod.
pub(super) fn read(text: &str, own: &Node, pods: &Pods<'_>) -> Counters {
    let is_read = |line: &&str| FAMILIES.iter().any(|family| line.starts_with(family));
    let mut counters = Counters::default();
    let (mut servers, mut retries) = (HashMap::<_, BTreeSet<Node>>::new(), Vec::new());
    for sample in text.lines().filter(is_read).flat_map(prometheus_text::samples) {
        match sample.name.as_str() {
            "control_identity_cert_expiration_timestamp_seconds" => {
                counters.facts.certificate_expires = Some(sample.value);
            }
            "process_resident_memory_bytes" => counters.facts.rss_bytes = Some(sample.value),
            "identity_trust_anchors_info" => {
                let mut hasher = DefaultHasher::new();
                sample.label("fingerprint").hash(&mut hasher);
                counters.facts.anchors ^= hasher.finish();
            }
            name if name.contains("_authz_") => verdict(&mut counters, &sample, own, pods),
            name if name.starts_with("outbound_http_balancer_") => {
                let key = Key::Ejections(own.clone(), service(&sample, "backend"));
                let reason = match sample.label("reason") {
                    "" => "recovered",
                    reason => reason,
                };
                let reasons = &mut counters.totals.entry(key).or_default().reasons;
                *reasons.entry(reason.to_owned()).or_default() += sample.value;
            }
            name if let Some((_, outcome)) = RETRIES.iter().find(|(family, _)| *family == name) => {
                retries.push((service(&sample, "parent"), *outcome, sample.value));
            }
            name => {
                if name == "response_total" && sample.label("srv_kind") == "Service" {
                    let known = servers.entry(service(&sample, "srv")).or_default();
                    known.insert(pods.server(&sample));
                }
                for key in keys(&sample, own, pods) {
                    count(counters.totals.entry(key).or_default(), &sample);
                }
            }
        }
    }
    for (service, outcome, value) in retries {
        for server in servers.get(&service).into_iter().flatten() {
            let key = Key::Retries(own.clone(), server.clone(), service.clone());
            let reasons = &mut counters.totals.entry(key).or_default().reasons;
            *reasons.entry(outcome.to_owned()).or_default() += value;
        }
    }
    counters
}

/// `namespace/name` of the labels with this prefix.
fn service(sample: &Sample, prefix: &str) -> String {
    let label = |name: &str| sample.label(&format!("{prefix}_{name}")).to_owned();
    format!("{}/{}", label("namespace"), label("name"))
}

/// Requests and connections that policy let in or denied.
fn verdict(counters: &mut Counters, sample: &Sample, own: &Node, pods: &Pods<'_>) {
    let client = pods.client(sample.label("client_id"));
    let is_allowed = sample.name.ends_with("_allow_total");
    if !is_allowed {
        let key = Key::Edge(client.clone(), own.clone());
        counters.totals.entry(key).or_default().denied += sample.value;
    }
    let key = Key::Rule(client, own.clone(), Rule::of(sample, is_allowed));
    let totals = counters.totals.entry(key).or_default();
    if sample.name.starts_with("inbound_http_") {
        totals.success += sample.value;
    } else {
        totals.opened += sample.value;
    }
}

/// What the sample is counted for.
fn keys(sample: &Sample, own: &Node, pods: &Pods<'_>) -> Vec<Key> {
    let is_tcp = sample.name.starts_with("tcp_");
    match (sample.label("direction"), sample.label("peer")) {
        // The other side of each connection is the application on this pod.
        ("inbound", peer) if !is_tcp || peer == "src" => {
            let identity = sample.label("client_id");
            let mut keys = vec![Key::Inbound(own.clone())];
            if identity.is_empty() || !pods.read.contains(identity) {
                keys.push(Key::Edge(pods.client(identity), own.clone()));
            }
            keys
        }
        ("outbound", peer) if !is_tcp || peer == "dst" => {
            let server = pods.server(sample);
            let mut keys = vec![Key::Edge(own.clone(), server.clone())];
            if !is_tcp {
                keys.push(Key::Route(server.clone(), route(sample)));
            }
            if !sample.label("dst_service").is_empty() {
                let name =
                    format!("{}/{}", sample.label("dst_namespace"), sample.label("dst_service"));
                keys.push(Key::Service(server, name));
            }
            keys
        }
        _ => Vec::new(),
    }
}

/// `HTTPRoute shop/split`, or `default`.
fn route(sample: &Sample) -> String {
    let label = |name: &str| sample.label(name);
    match (label("route_kind"), label("route_namespace")) {
        ("" | "default", _) => "default".to_owned(),
        (kind, "") => format!("{kind} {}", label("route_name")),
        (kind, namespace) => format!("{kind} {namespace}/{}", label("route_name")),
    }
}

fn count(totals: &mut Totals, sample: &Sample) {
    let value = sample.value;
    let is_secured = sample.label("tls") == "true";
    let secured = |totals: &mut Totals| {
        if is_secured {
            totals.secured += value;
        } else {
            totals.plain += value;
        }
    };
    match sample.name.as_str() {
        "response_total" => {
            secured(totals);
            if sample.label("classification") == "failure" {
                totals.failure += value;
                *totals.reasons.entry(reason(sample)).or_default() += value;
            } else {
                totals.success += value;
            }
        }
        "response_latency_ms_bucket" => {
            let bound = sample.label("le").parse().unwrap_or(f64::INFINITY);
            // Infinity saturates.
            *totals.latency.entry((bound * 1000.0) as u32).or_default() += value;
        }
        "tcp_open_total" => {
            secured(totals);
            totals.opened += value;
        }
        "tcp_open_connections" if is_secured => totals.open.0 += value,
        "tcp_open_connections" => totals.open.1 += value,
        "tcp_read_bytes_total" => totals.read_bytes += value,
        "tcp_write_bytes_total" => totals.write_bytes += value,
        _ => {}
    }
}

/// The proxy's reason, or the status.
fn reason(sample: &Sample) -> String {
    let label = |name: &str| sample.label(name);
    match (label("error"), label("grpc_status"), label("status_code")) {
        ("", "", status) => format!("status {status}"),
        ("", grpc, _) => format!("gRPC status {grpc}"),
        (error, _, "") => error.to_owned(),
        (error, _, status) => format!("{error} ({status})"),
    }
}
