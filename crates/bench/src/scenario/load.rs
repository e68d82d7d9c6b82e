//! What is asked of the topology: who sends, where to, how often, over which connections. Pure.

use crate::scenario::phases::{Phases, Warmup};
use crate::scenario::reader::{Fields, Node};
use serde::Serialize;
use std::time::Duration;

/// One kind of traffic. Lists in it are swept: each value is a cell of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its name within the scenario.
    pub name: String,
    /// How a request looks on the wire.
    pub protocol: Protocol,
    /// Where to, with how much of the traffic each.
    pub targets: Vec<Target>,
    /// HTTP method.
    pub method: String,
    /// `Name: value` of every request.
    pub headers: Vec<String>,
    /// Bytes of each request's body (or message).
    pub body_bytes: u64,
    /// When requests are made.
    pub arrival: Arrival,
    /// Requests per second of all generators together; empty in a closed loop and where `arrival` has points.
    pub rates: Vec<Rate>,
    /// Connections of all generators together.
    pub connections: Vec<u32>,
    /// Requests in flight on one connection; above 1 only where the protocol can.
    pub streams: u32,
    /// When a connection is used again.
    pub keepalive: KeepAlive,
    /// Ends the measured phase after so many requests; without it, phases say how long.
    pub requests: Option<Requests>,
    /// How the generator behaves.
    pub modes: Vec<Mode>,
    /// Workload whose pods send; every ready pod takes an equal share.
    pub client: String,
    /// How long one request may take.
    pub request_wait_max: Duration,
    /// Warm-up and measured phase.
    pub phases: Phases,
    /// Whether the timeline runs beside this load.
    pub timeline: bool,
}

/// When a connection is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// Always.
    Always,
    /// Never: a connection for each request.
    Never,
    /// Only in honest mode: the study's own generator connects anew each time.
    HonestOnly,
}

/// How a request looks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    H2c,
    /// gRPC, one message each way.
    Grpc,
    /// gRPC, messages back and forth on long streams.
    GrpcStream,
    /// Bytes out, the same bytes back.
    Tcp,
}

impl Protocol {
    const ALL: [(&'static str, Self); 5] = [
        ("http1", Self::Http1),
        ("h2c", Self::H2c),
        ("grpc", Self::Grpc),
        ("grpc-stream", Self::GrpcStream),
        ("tcp", Self::Tcp),
    ];

    /// The word for it in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }
}

/// One of the places that requests go to.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// `http://service:port/path`, as a program in the client's pod would write it.
    pub url: String,
    /// How much of the traffic, relative to the others.
    pub weight: u32,
}

/// When requests are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// The next one when the last was answered: measures capacity, not latency.
    Closed,
    /// At even distances.
    Uniform,
    /// At random distances, as independent users do.
    Poisson,
    /// All connections at the same instant.
    Burst,
    /// A rate that changes: seconds since the start and requests per second, constant up to the next point.
    Steps(Vec<Point>),
    /// The same, changing evenly between the points.
    Ramp(Vec<Point>),
}

impl Arrival {
    /// The word for it in files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Uniform => "uniform",
            Self::Poisson => "poisson",
            Self::Burst => "burst",
            Self::Steps(_) => "steps",
            Self::Ramp(_) => "ramp",
        }
    }
}

/// A rate from a moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Since the measured phase began.
    pub at: Duration,
    /// Requests per second.
    pub rate: f64,
}

/// Requests per second.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// This many.
    Fixed(f64),
    /// A share of what the slowest mesh reached under an earlier load.
    Share {
        /// Which share, 0 to 1.
        share: f64,
        /// The earlier load.
        load: String,
    },
}

/// A measured phase that is counted, not timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// How many, of all generators together.
    pub count: u64,
    /// The longest that it may take.
    pub wait_max: Duration,
}

/// How the generator behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Latency from when a request was due; nothing hidden.
    Honest,
    /// As wrk2: waits rounded up to milliseconds.
    Wrk2,
    /// As fortio: bursts, catching up, latency from the send.
    Fortio,
    /// As oha: closed loop, latency from the send.
    OhaClosed,
}

impl Mode {
    const ALL: [(&'static str, Self); 4] = [
        ("honest", Self::Honest),
        ("wrk2", Self::Wrk2),
        ("fortio", Self::Fortio),
        ("oha-closed", Self::OhaClosed),
    ];

    /// The word for it in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

const FIELDS: &[&str] = &[
    "name",
    "protocol",
    "target",
    "method",
    "headers",
    "body",
    "arrival",
    "points",
    "rate",
    "connections",
    "streams",
    "keepalive",
    "requests",
    "mode",
    "client",
    "timeout",
    "warmup",
    "measure",
    "timeline",
];

impl Load {
    /// The load that stands here; `client` and `phases` are what it falls back to.
    pub(crate) fn read(node: &Node<'_>, client: &str, phases: &Phases) -> Option<Self> {
        let fields = node.fields(FIELDS);
        let name = fields.needed("name").and_then(|node| node.text());
        let protocol =
            fields.get("protocol").map_or(Some(Protocol::Http1), |n| n.one_of(&Protocol::ALL));
        let targets = fields.needed("target").map(|node| targets(&node)).unwrap_or_default();
        let arrival = arrival(&fields).unwrap_or(Arrival::Closed);
        let rates = rates(&fields, &arrival);
        let connections = fields.get("connections").map_or(vec![1], |node| {
            node.list().iter().filter_map(|node| Some(node.count(1, 100_000)? as u32)).collect()
        });
        let modes = fields.get("mode").map_or(vec![Mode::Honest], |node| {
            node.list().iter().filter_map(|node| node.one_of(&Mode::ALL)).collect()
        });
        let headers = fields.get("headers").map(|node| headers(&node)).unwrap_or_default();
        let flag = |name| fields.get(name).and_then(|node| node.flag()).unwrap_or(true);
        let load = Self {
            name: name?,
            protocol: protocol?,
            targets,
            method: fields.get("method").and_then(|n| n.text()).unwrap_or_else(|| "GET".into()),
            headers,
            body_bytes: fields.get("body").and_then(|node| node.bytes()).unwrap_or(0),
            arrival,
            rates,
            connections,
            streams: fields.get("streams").and_then(|n| n.count(1, 10_000)).unwrap_or(1) as u32,
            keepalive: fields
                .get("keepalive")
                .map_or(Some(KeepAlive::Always), |n| keepalive(&n))?,
            requests: fields.get("requests").and_then(|node| requests(&node)),
            modes,
            client: fields
                .get("client")
                .and_then(|n| n.text())
                .unwrap_or_else(|| client.to_owned()),
            request_wait_max: fields
                .get("timeout")
                .and_then(|node| node.duration())
                .unwrap_or(Duration::from_secs(10)),
            phases: Phases {
                warmup: match fields.get("warmup") {
                    Some(node) => Warmup::read(&node).unwrap_or_default(),
                    None => phases.warmup.clone(),
                },
                measure: fields.get("measure").and_then(|n| n.duration()).unwrap_or(phases.measure),
                cooldown: phases.cooldown,
            },
            timeline: flag("timeline"),
        };
        load.check(&fields);
        Some(load)
    }

    fn check(&self, fields: &Fields<'_>) {
        let many = matches!(self.protocol, Protocol::H2c | Protocol::Grpc | Protocol::GrpcStream);
        if self.streams > 1 && !many {
            fields.wrong(
                "streams: only h2c, grpc and grpc-stream carry more than one on a connection",
            );
        }
        if self.keepalive != KeepAlive::Always
            && !matches!(self.protocol, Protocol::Http1 | Protocol::Tcp)
        {
            fields.wrong("keepalive: false is for http1 and tcp");
        }
        if self.requests.is_none() && self.phases.measure.is_zero() {
            fields.wrong("neither measure nor requests says when it ends");
        }
        let open = !matches!(self.arrival, Arrival::Closed);
        for mode in &self.modes {
            match mode {
                Mode::Wrk2 if !open => fields.wrong("mode: wrk2 needs a rate"),
                Mode::OhaClosed if open => fields.wrong("mode: oha-closed has no rate"),
                _ => {}
            }
        }
        for target in &self.targets {
            let scheme = target.url.split("://").next().unwrap_or_default();
            let fits = match self.protocol {
                Protocol::Tcp => scheme == "tcp",
                Protocol::Grpc | Protocol::GrpcStream => matches!(scheme, "grpc" | "http"),
                Protocol::Http1 | Protocol::H2c => scheme == "http",
            };
            if !fits {
                let name = self.protocol.name();
                fields.wrong(format!("target: {:?} does not go with protocol {name}", target.url));
            }
        }
    }

    /// Whether connections are used again in this mode.
    #[must_use]
    pub fn keeps_alive(&self, mode: Mode) -> bool {
        match self.keepalive {
            KeepAlive::Always => mode != Mode::OhaClosed,
            KeepAlive::Never => false,
            KeepAlive::HonestOnly => mode == Mode::Honest,
        }
    }

    /// Whether it makes the next request only when the last was answered.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.arrival == Arrival::Closed
    }
}

fn targets(node: &Node<'_>) -> Vec<Target> {
    let read = |node: &Node<'_>| -> Option<Target> {
        if node.value().is_string() {
            return Some(Target { url: node.text()?, weight: 1 });
        }
        let fields = node.fields(&["url", "weight"]);
        let weight = fields.get("weight").map_or(Some(1), |node| node.count(1, 1000));
        Some(Target { url: fields.needed("url")?.text()?, weight: weight? as u32 })
    };
    node.list().iter().filter_map(read).collect()
}

fn headers(node: &Node<'_>) -> Vec<String> {
    let entries = node.entries();
    entries.iter().filter_map(|(name, node)| Some(format!("{name}: {}", node.text()?))).collect()
}

fn arrival(fields: &Fields<'_>) -> Option<Arrival> {
    let kinds = ["closed", "uniform", "poisson", "burst", "steps", "ramp"].map(|kind| (kind, kind));
    let kind = match fields.get("arrival") {
        Some(node) => node.one_of(&kinds)?,
        None if fields.get("rate").is_some() => "poisson",
        None => "closed",
    };
    let points = match fields.get("points") {
        Some(node) => points(&node),
        None => Vec::new(),
    };
    let changing = matches!(kind, "steps" | "ramp");
    if changing && points.is_empty() {
        fields.wrong(format!("arrival: {kind} needs points, each [time, rate]"));
    }
    if !changing && fields.get("points").is_some() {
        fields.wrong(format!("points: arrival {kind} has none"));
    }
    Some(match kind {
        "closed" => Arrival::Closed,
        "uniform" => Arrival::Uniform,
        "burst" => Arrival::Burst,
        "steps" => Arrival::Steps(points),
        "ramp" => Arrival::Ramp(points),
        _ => Arrival::Poisson,
    })
}

fn points(node: &Node<'_>) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for node in node.list() {
        let pair = node.list();
        let [at, rate] = pair.as_slice() else {
            node.wrong("a point is [time, rate]");
            continue;
        };
        if let (Some(at), Some(rate)) = (at.duration(), rate.number()) {
            if points.last().is_some_and(|last| last.at >= at) {
                node.wrong("points must be in the order of their times, each later than the last");
            }
            points.push(Point { at, rate });
        }
    }
    points
}

fn rates(fields: &Fields<'_>, arrival: &Arrival) -> Vec<Rate> {
    let Some(node) = fields.get("rate") else {
        if matches!(arrival, Arrival::Uniform | Arrival::Poisson | Arrival::Burst) {
            fields.wrong(format!("arrival: {} needs a rate", arrival.name()));
        }
        return Vec::new();
    };
    if matches!(arrival, Arrival::Closed | Arrival::Steps(_) | Arrival::Ramp(_)) {
        node.wrong(format!("arrival {} has no rate", arrival.name()));
    }
    let read = |node: &Node<'_>| {
        if !node.value().is_object() {
            let rate = node.number()?;
            if rate == 0.0 {
                node.wrong(
                    "0 requests per second; arrival: closed is as many as there are answers",
                );
            }
            return Some(Rate::Fixed(rate));
        }
        let fields = node.fields(&["share", "of", "load"]);
        let lowest = fields.get("of").map_or(Some(()), |node| node.one_of(&[("lowest", ())]));
        let share = fields.needed("share").and_then(|node| node.share());
        let load = fields.needed("load").and_then(|node| node.text());
        lowest?;
        Some(Rate::Share { share: share?, load: load? })
    };
    node.list().iter().filter_map(read).collect()
}

/// `true`, `false` or `honest`.
fn keepalive(node: &Node<'_>) -> Option<KeepAlive> {
    match (node.value().as_bool(), node.value().as_str()) {
        (Some(true), _) => Some(KeepAlive::Always),
        (Some(false), _) => Some(KeepAlive::Never),
        (_, Some("honest")) => Some(KeepAlive::HonestOnly),
        _ => {
            node.wrong("true, false, or honest (only in honest mode)");
            None
        }
    }
}

fn requests(node: &Node<'_>) -> Option<Requests> {
    let fields = node.fields(&["count", "at_most"]);
    let count = fields.needed("count").and_then(|node| node.count(1, u64::MAX));
    let wait_max = fields.needed("at_most").and_then(|node| node.duration());
    Some(Requests { count: count?, wait_max: wait_max? })
}
