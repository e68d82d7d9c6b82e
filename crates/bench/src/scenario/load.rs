//! What is asked of the topology: who sends, where to, how often, over which connections. Pure. How a file says it: `read`.

mod read;

use crate::scenario::phases::Phases;
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

    /// Whether a URL that begins with this may be asked so.
    pub(crate) fn goes_with(self, scheme: &str) -> bool {
        match self {
            Self::Tcp => scheme == "tcp",
            Self::Grpc | Self::GrpcStream => matches!(scheme, "grpc" | "http"),
            Self::Http1 | Self::H2c => scheme == "http",
        }
    }

    /// Whether what a generator counts is what a proxy counts as a request. Of TCP a proxy sees connections, of streams
    /// their beginning, and neither sees rounds or messages.
    #[must_use]
    pub fn is_counted_by_proxies(self) -> bool {
        matches!(self, Self::Http1 | Self::H2c | Self::Grpc)
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

impl Rate {
    /// The rate, where it follows from no other load.
    #[must_use]
    pub fn fixed(&self) -> Option<f64> {
        match self {
            Self::Fixed(rate) => Some(*rate),
            Self::Share { .. } => None,
        }
    }
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

impl Load {
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

#[cfg(test)]
mod tests {
    use super::Protocol;

    #[test]
    fn rounds_and_messages_are_not_requests_to_a_proxy() {
        let counted = |(name, protocol): (&'static str, Protocol)| {
            protocol.is_counted_by_proxies().then_some(name)
        };
        let counted: Vec<&str> = Protocol::ALL.into_iter().filter_map(counted).collect();
        assert_eq!(counted, ["http1", "h2c", "grpc"]);
    }
}
