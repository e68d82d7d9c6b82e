//! How a load is read from a file. Pure.

use super::{Arrival, KeepAlive, Load, Mode, Point, Protocol, Rate, Requests, Target};
use crate::scenario::phases::{Phases, Warmup};
use crate::scenario::reader::{Fields, Node};
use std::time::Duration;

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
    /// The load that stands here; `client` and `phases` are what it falls back to. What could not be read is as if it were
    /// not there, and a name is empty: the rest of the load is looked at all the same.
    pub(crate) fn read(node: &Node<'_>, client: &str, phases: &Phases) -> Self {
        let fields = node.fields(FIELDS);
        let protocol = fields.get("protocol").and_then(|node| node.one_of(&Protocol::ALL));
        let keepalive = fields.get("keepalive").and_then(|node| keepalive(&node));
        let arrival = arrival(&fields);
        let rates = rates(&fields, arrival.as_ref());
        let connections = fields.get("connections").map_or(vec![1], |node| {
            node.some().iter().filter_map(|node| Some(node.count(1, 100_000)? as u32)).collect()
        });
        let modes = fields.get("mode").map_or(vec![Mode::Honest], |node| {
            node.some().iter().filter_map(|node| node.one_of(&Mode::ALL)).collect()
        });
        let headers = fields.get("headers").map(|node| headers(&node)).unwrap_or_default();
        let flag = |name| fields.get(name).and_then(|node| node.flag()).unwrap_or(true);
        let load = Self {
            name: fields.needed("name").and_then(|node| name(&node)).unwrap_or_default(),
            protocol: protocol.unwrap_or(Protocol::Http1),
            targets: fields.needed("target").map(|node| targets(&node)).unwrap_or_default(),
            method: fields.get("method").and_then(|n| method(&n)).unwrap_or_else(|| "GET".into()),
            headers,
            body_bytes: fields.get("body").and_then(|node| node.bytes()).unwrap_or(0),
            arrival: arrival.unwrap_or(Arrival::Closed),
            rates,
            connections,
            streams: fields.get("streams").and_then(|n| n.count(1, 10_000)).unwrap_or(1) as u32,
            keepalive: keepalive.unwrap_or(KeepAlive::Always),
            requests: fields.get("requests").map(|node| requests(&node)),
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
                measure: match fields.get("measure") {
                    Some(node) => node.duration().unwrap_or_default(),
                    None => phases.measure,
                },
                cooldown: phases.cooldown,
            },
            timeline: flag("timeline"),
        };
        if node.value().is_object() {
            load.check(&fields);
        }
        load
    }

    fn check(&self, fields: &Fields<'_>) {
        // What goes with a word that could not be read, nobody knows.
        if !fields.is_wrong_in("protocol") {
            self.check_protocol(fields);
        }
        if !fields.is_wrong_in("arrival") {
            self.check_modes(fields);
        }
        // A mistake there is what is to be mended.
        let unread = fields.is_wrong_below("phases") || fields.is_wrong_in("measure");
        if self.requests.is_none() && self.phases.measure.is_zero() && !unread {
            fields.wrong("measure or requests is required to end the load");
        }
        if self.request_wait_max.is_zero() {
            fields.wrong("timeout must be greater than 0");
        }
    }

    fn check_protocol(&self, fields: &Fields<'_>) {
        let many = matches!(self.protocol, Protocol::H2c | Protocol::Grpc | Protocol::GrpcStream);
        if self.streams > 1 && !many {
            fields.wrong(
                "streams: only h2c, grpc and grpc-stream support more than one on a connection",
            );
        }
        if self.keepalive != KeepAlive::Always
            && !matches!(self.protocol, Protocol::Http1 | Protocol::Tcp)
        {
            fields.wrong("keepalive: false is for http1 and tcp");
        }
    }

    fn check_modes(&self, fields: &Fields<'_>) {
        let open = !matches!(self.arrival, Arrival::Closed);
        for mode in &self.modes {
            match mode {
                Mode::Wrk2 if !open => fields.wrong("mode: wrk2 needs a rate"),
                Mode::OhaClosed if open => fields.wrong("mode: oha-closed has no rate"),
                _ => {}
            }
        }
    }
}

fn name(node: &Node<'_>) -> Option<String> {
    let name = node.text()?;
    if name.is_empty() {
        node.wrong("is empty");
    }
    Some(name)
}

fn targets(node: &Node<'_>) -> Vec<Target> {
    let read = |node: &Node<'_>| -> Option<Target> {
        if node.value().is_string() {
            return Some(Target { url: node.text()?, weight: 1 });
        }
        let fields = node.fields(&["url", "weight"]);
        let weight = fields.get("weight").and_then(|node| node.count(1, 1000)).unwrap_or(1);
        Some(Target { url: fields.needed("url")?.text()?, weight: weight as u32 })
    };
    node.some().iter().filter_map(read).collect()
}

/// A method as HTTP allows it: letters, digits and a few signs.
fn method(node: &Node<'_>) -> Option<String> {
    let text = node.text()?;
    if http::Method::from_bytes(text.as_bytes()).is_err() {
        node.wrong(format!("{text:?} is not an HTTP method"));
    }
    Some(text)
}

fn headers(node: &Node<'_>) -> Vec<String> {
    let entries = node.entries();
    entries.iter().filter_map(|(name, node)| Some(format!("{name}: {}", node.text()?))).collect()
}

fn arrival(fields: &Fields<'_>) -> Option<Arrival> {
    let kinds = ["closed", "uniform", "poisson", "burst", "steps", "ramp"].map(|kind| (kind, kind));
    // Before the word, which may be wrong.
    let points = fields.get("points").map(|node| points(&node)).unwrap_or_default();
    let kind = match fields.get("arrival") {
        Some(node) => node.one_of(&kinds)?,
        None if fields.get("rate").is_some() => "poisson",
        None => "closed",
    };
    let changing = matches!(kind, "steps" | "ramp");
    if changing && points.is_empty() && !fields.is_wrong_in("points") {
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
            check_rate(&node, rate);
            if points.last().is_some_and(|last| last.at >= at) {
                node.wrong("points must be in the order of their times, each later than the last");
            }
            points.push(Point { at, rate });
        }
    }
    points
}

/// `arrival` is none where it could not be read: what goes with it is not known then.
fn rates(fields: &Fields<'_>, arrival: Option<&Arrival>) -> Vec<Rate> {
    let Some(node) = fields.get("rate") else {
        if let Some(arrival) = arrival
            && matches!(arrival, Arrival::Uniform | Arrival::Poisson | Arrival::Burst)
        {
            fields.wrong(format!("arrival: {} needs a rate", arrival.name()));
        }
        return Vec::new();
    };
    if let Some(arrival) = arrival
        && matches!(arrival, Arrival::Closed | Arrival::Steps(_) | Arrival::Ramp(_))
    {
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
            check_rate(node, rate);
            return Some(Rate::Fixed(rate));
        }
        let fields = node.fields(&["share", "of", "load"]);
        let lowest = fields.get("of").map_or(Some(()), |node| node.one_of(&[("lowest", ())]));
        let share = fields.needed("share").and_then(|node| node.share());
        let load = fields.needed("load").and_then(|node| node.text());
        lowest?;
        Some(Rate::Share { share: share?, load: load? })
    };
    node.some().iter().filter_map(read).collect()
}

/// More than any machine makes: a slip of the fingers.
const RATE_MAX: f64 = 100_000_000.0;

fn check_rate(node: &Node<'_>, rate: f64) {
    if rate > RATE_MAX {
        node.wrong(format!("more than {RATE_MAX} requests per second"));
    }
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

fn requests(node: &Node<'_>) -> Requests {
    let fields = node.fields(&["count", "at_most"]);
    let count = fields.needed("count").and_then(|node| node.count(1, u64::MAX));
    let wait_max = fields.needed("at_most").and_then(|node| node.duration());
    Requests { count: count.unwrap_or(1), wait_max: wait_max.unwrap_or_default() }
}
