//! What the control plane counts, and its text for Prometheus.

use crate::ca::keep::IssuerSeen;
use crate::source::kubernetes::figures::Figures;
use crate::webhook::metrics::InjectorSeen;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Reasons for which no certificate is given; `ca::Refused::reason` answers one of them.
const REFUSALS: [&str; 7] =
    ["token", "unavailable", "identity", "request", "key", "issuer_expired", "signing"];
/// Listeners, as metrics name them.
pub const DOORS: [&str; 3] = ["proxies", "webhook", "admin"];
/// Kinds of streams and calls.
pub const METHODS: [&str; 4] = ["outbound", "inbound", "destination", "profile"];

/// Why a listener closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// It had been idle longest when another one came to a full listener.
    Evicted,
    /// Its source address has as many as one may have.
    Source,
    /// The listener is full, and no connection is idle.
    Full,
    /// Its identity has as many as its pods need.
    Identity,
}

impl Turned {
    const ALL: [Self; 4] = [Self::Evicted, Self::Source, Self::Full, Self::Identity];

    /// The label of metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Source => "source",
            Self::Full => "full",
            Self::Identity => "identity",
        }
    }
}

/// Counters of one process.
#[derive(Debug, Default)]
pub struct Metrics {
    turned: [[AtomicU64; Turned::ALL.len()]; DOORS.len()],
    connections: AtomicI64,
    handshakes_failed: AtomicU64,
    streams: [AtomicI64; METHODS.len()],
    messages: [AtomicU64; METHODS.len()],
    certificates: AtomicU64,
    refusals: [AtomicU64; REFUSALS.len()],
    authority_errors: AtomicU64,
    /// The API server as the source.
    pub source: Arc<Figures>,
    /// The issuer of a cluster.
    pub issuer: IssuerSeen,
    /// The webhook.
    pub injector: InjectorSeen,
}

/// Something that is open until this is dropped.
#[derive(Debug)]
pub struct Open {
    metrics: Arc<Metrics>,
    gauge: fn(&Metrics, usize) -> &AtomicI64,
    at: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        (self.gauge)(&self.metrics, self.at).fetch_sub(1, Ordering::Relaxed);
    }
}

fn position(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or(0)
}

impl Metrics {
    /// A connection, until it is dropped.
    #[must_use]
    pub fn connection(self: &Arc<Self>) -> Open {
        self.open(|metrics, _| &metrics.connections, 0)
    }

    /// A stream of a method in [`METHODS`], until it is dropped.
    #[must_use]
    pub fn stream(self: &Arc<Self>, method: &str) -> Open {
        self.open(|metrics, at| &metrics.streams[at], position(&METHODS, method))
    }

    fn open(self: &Arc<Self>, gauge: fn(&Self, usize) -> &AtomicI64, at: usize) -> Open {
        gauge(self, at).fetch_add(1, Ordering::Relaxed);
        Open { metrics: self.clone(), gauge, at }
    }

    /// A message was sent on a stream.
    pub fn sent(&self, method: &str, messages: usize) {
        let counter = &self.messages[position(&METHODS, method)];
        counter.fetch_add(messages as u64, Ordering::Relaxed);
    }

    /// A listener in [`DOORS`] closed a connection.
    pub fn turned(&self, door: &str, why: Turned) {
        let counter = &self.turned[position(&DOORS, door)][why as usize];
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A TLS handshake failed.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// A certificate was given, or refused for a reason.
    pub fn certified(&self, refused: Option<&str>) {
        let counter = match refused {
            None => &self.certificates,
            Some(reason) => &self.refusals[position(&REFUSALS, reason)],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Root or issuer could not be loaded or renewed.
    pub fn authority_failed(&self) {
        self.authority_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Streams that are open.
    #[must_use]
    pub fn streams_open(&self) -> i64 {
        self.streams.iter().map(|gauge| gauge.load(Ordering::Relaxed)).sum()
    }
}

/// A family of the exposition that another file makes.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: &'static str,
    /// `gauge` or `counter`.
    pub kind: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Labels in braces, or nothing, and a value.
    pub samples: Vec<(String, String)>,
}

/// What the text needs beside the counters.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Version of the world.
    pub version: u64,
    pub problems: usize,
    pub pods: usize,
    pub services: usize,
    /// Last second of each certificate: `leaf`, `issuer`, `root`.
    pub expiries: Vec<(&'static str, u64)>,
}

fn build_info() -> String {
    let build = leno_runtime::version!();
    format!(
        "# HELP control_build_info Version and commit of the program; always 1.\n# TYPE control_build_info gauge\n\
         control_build_info{{version=\"{}\",commit=\"{}\"}} 1\n",
        build.version, build.commit
    )
}

/// The text exposition.
#[must_use]
pub fn render(metrics: &Metrics, seen: &Seen) -> String {
    let mut out = build_info();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, String)]| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let one = |value: String| vec![(String::new(), value)];
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
    let gauge = |gauge: &AtomicI64| gauge.load(Ordering::Relaxed).to_string();
    let by = |label: &str, value: &str| format!("{{{label}=\"{value}\"}}");
    family(
        "control_connections",
        "gauge",
        "Open connections of proxies.",
        &one(gauge(&metrics.connections)),
    );
    family(
        "control_handshakes_failed_total",
        "counter",
        "Failed TLS handshakes with proxies.",
        &one(count(&metrics.handshakes_failed)),
    );
    let streams = METHODS.iter().zip(&metrics.streams).map(|(m, g)| (by("method", m), gauge(g)));
    family(
        "control_streams",
        "gauge",
        "Open streams of proxies, by method.",
        &streams.collect::<Vec<_>>(),
    );
    let sent = METHODS.iter().zip(&metrics.messages).map(|(m, c)| (by("method", m), count(c)));
    family(
        "control_messages_total",
        "counter",
        "Messages sent on streams, by method.",
        &sent.collect::<Vec<_>>(),
    );
    family(
        "control_certificates_total",
        "counter",
        "Certificates issued to workloads.",
        &one(count(&metrics.certificates)),
    );
    let refused = REFUSALS.iter().zip(&metrics.refusals).map(|(r, c)| (by("reason", r), count(c)));
    family(
        "control_certificates_refused_total",
        "counter",
        "Rejected certificate requests, by reason.",
        &refused.collect::<Vec<_>>(),
    );
    family(
        "control_authority_errors_total",
        "counter",
        "Failures to load or renew the root or the issuer.",
        &one(count(&metrics.authority_errors)),
    );
    let families = metrics.issuer.families().into_iter().chain(metrics.injector.families());
    for made in families.chain([closed(metrics)]) {
        family(made.name, made.kind, made.help, &made.samples);
    }
    let expiries = seen.expiries.iter().map(|(link, at)| (by("link", link), at.to_string()));
    family(
        "control_certificate_expiry_timestamp_seconds",
        "gauge",
        "Expiry of each certificate of the chain, in seconds since 1970.",
        &expiries.collect::<Vec<_>>(),
    );
    family(
        "control_world_version",
        "gauge",
        "Number of the current state; it grows with each change.",
        &one(seen.version.to_string()),
    );
    family(
        "control_problems",
        "gauge",
        "Objects with problems; /problems lists them.",
        &one(seen.problems.to_string()),
    );
    let objects = [("Pod", seen.pods), ("Service", seen.services)];
    let objects = objects.map(|(kind, count)| (by("kind", kind), count.to_string()));
    family("control_objects", "gauge", "Objects in the current state, by kind.", &objects);
    for (name, kind, help, value) in process() {
        family(name, kind, help, &one(value));
    }
    metrics.source.render(&mut out);
    out
}

fn closed(metrics: &Metrics) -> Family {
    let of_door = |(door, counters): (&&str, &[AtomicU64; Turned::ALL.len()])| {
        let sample = |(why, counter): (&Turned, &AtomicU64)| {
            let labels = format!("{{listener=\"{door}\",reason=\"{}\"}}", why.as_str());
            (labels, counter.load(Ordering::Relaxed).to_string())
        };
        Turned::ALL.iter().zip(counters).map(sample).collect::<Vec<_>>()
    };
    Family {
        name: "control_connections_closed_total",
        kind: "counter",
        help: "Connections that a listener closed at its limits.",
        samples: DOORS.iter().zip(&metrics.turned).flat_map(of_door).collect(),
    }
}

/// The figures that Prometheus' clients give of a process; what cannot be read is left out.
fn process() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let mut figures = Vec::new();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    if let Some(kilobytes) = kilobytes("VmRSS:") {
        figures.push((
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory.",
            (kilobytes * 1024).to_string(),
        ));
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command's name may contain spaces; fields are counted behind its parenthesis.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    if let (Some(user), Some(system)) = (fields.get(11), fields.get(12)) {
        // USER_HZ is 100 on every Linux.
        let ticks = user.parse::<f64>().unwrap_or(0.0) + system.parse::<f64>().unwrap_or(0.0);
        figures.push((
            "process_cpu_seconds_total",
            "counter",
            "User and system CPU time in seconds.",
            format!("{:.2}", ticks / 100.0),
        ));
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        figures.push(("process_open_fds", "gauge", "Open files.", open.count().to_string()));
    }
    figures
}
