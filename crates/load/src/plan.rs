//! What is asked of the load engine. Pure data: nothing here opens, resolves or reads anything.

use crate::protocol::Protocol;
use crate::schedule::own::Manner;
use crate::schedule::{Rate, Schedule};
use crate::url::Url;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// TLS of the connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Take any certificate of the server.
    pub insecure: bool,
    /// PEM file of who may have signed the server's certificate; the machine's own authorities otherwise.
    pub ca: Option<PathBuf>,
    /// PEM file with our certificate chain.
    pub cert: Option<PathBuf>,
    /// PEM file with its key.
    pub key: Option<PathBuf>,
    /// The name to ask for and to verify; the URL's host otherwise.
    pub server_name: Option<String>,
}

/// Whose behaviour is reproduced, with its bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// One schedule for all connections, latency from when a request was due.
    #[default]
    Honest,
    /// Each connection has its own schedule, each wait is rounded up to the next millisecond, latency counts from when
    /// the request was due.
    Wrk2,
    /// [`Profile::Wrk2`] with Kinvolk's script of many addresses: each request goes to any of them, and its connection is
    /// opened anew where that is another host than the last one's.
    Wrk2Kinvolk,
    /// All connections fire at once, each catches up on its own, latency counts from the send.
    Fortio,
    /// Closed loop, a connection per request, a number of requests.
    OhaClosed,
}

impl Profile {
    const ALL: [Self; 5] =
        [Self::Honest, Self::Wrk2, Self::Wrk2Kinvolk, Self::Fortio, Self::OhaClosed];

    /// Whether each connection keeps a schedule of its own, and is late on purpose.
    #[must_use]
    pub const fn has_own_schedules(self) -> bool {
        matches!(self, Self::Wrk2 | Self::Wrk2Kinvolk | Self::Fortio)
    }

    /// Its name in JSON and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Wrk2 => "wrk2",
            Self::Wrk2Kinvolk => "wrk2-kinvolk",
            Self::Fortio => "fortio",
            Self::OhaClosed => "oha-closed",
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|profile| profile.name() == text);
        named.ok_or_else(|| {
            format!("{text:?} is not one of {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// The value of `authorization` for `user:password`.
#[must_use]
pub fn basic_authorization(user_and_password: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user_and_password))
}

/// One of several places that requests go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Where to.
    pub url: Url,
    /// How much of the traffic, relative to the others; at least 1.
    pub weight: u32,
}

/// What becomes of a connection whose next request goes to another host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostChange {
    /// It stays open: a place among the connections has one for each host that it has been to.
    #[default]
    Keep,
    /// It is closed, and one to the other host is opened in its place.
    Reconnect,
}

impl HostChange {
    /// Its name in JSON and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Reconnect => "reconnect",
        }
    }
}

impl FromStr for HostChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = [Self::Keep, Self::Reconnect].into_iter().find(|one| one.name() == text);
        named.ok_or_else(|| format!("{text:?} is not one of keep, reconnect"))
    }
}

/// Which of a name's addresses are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// One load.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where to; the first place where there are several.
    pub url: Url,
    /// All places, where there are several: each request goes to any of them, by weight, at random. Empty: `url` alone.
    pub urls: Vec<Choice>,
    /// What becomes of a connection whose next request goes to another host.
    pub host_change: HostChange,
    /// Which of a name's addresses are meant; absent: the resolver's first.
    pub family: Option<Family>,
    /// How.
    pub protocol: Protocol,
    /// TLS; used where the URL's scheme says so (`https`, `grpcs`, `tls`).
    pub tls: Tls,
    /// Concurrent connections, over all threads.
    pub connections: usize,
    /// Requests at once on each connection; more than one with HTTP/2 and gRPC only.
    pub streams: usize,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// A connection is replaced after so many requests, at least and at most, drawn anew for each; absent: never.
    pub connection_requests: Option<(u64, u64)>,
    /// Method, `GET` as a rule.
    pub method: String,
    /// Header fields in order; `host`, `content-length` and what the protocol needs are added where absent.
    pub headers: Vec<(String, String)>,
    /// Body of each request: the bytes of an HTTP body, of a gRPC message (without its frame), or of a TCP round (64
    /// where there are none).
    pub body: Vec<u8>,
    /// gRPC streams: messages on a stream before the next one is opened; absent: one stream for all.
    pub stream_messages: Option<u64>,
    /// How long an answer, or a connection, may take.
    pub timeout: Duration,
    /// When requests are due.
    pub schedule: Schedule,
    /// Requests of the measured phase, at most.
    pub count: Option<u64>,
    /// Length of the measured phase, at most.
    pub duration: Option<Duration>,
    /// Threads that make requests.
    pub threads: usize,
    /// Duration of the same load before the measurement; it is not part of the figures.
    pub warm_up: Duration,
    /// Open loop: requests due and not yet answered beyond which more are shed.
    pub max_in_flight: usize,
    /// Seed of random arrivals.
    pub seed: u64,
    /// Whose behaviour is reproduced.
    pub profile: Profile,
    /// What fortio's switches say about its schedule; looked at with [`Profile::Fortio`] only.
    pub manner: Manner,
    /// Open loop: how long before a request is due its thread stays awake for it. Costs CPU, and takes away most of the
    /// time that being woken takes.
    pub spin: Duration,
    /// Lateness (99.9th percentile) beyond which an open loop's figures may not be quoted; the larger of this and
    /// 5 % of the median response counts. Absent: not looked at.
    pub lateness_max: Option<Duration>,
    /// Labels to store in the result.
    pub labels: String,
}

impl Plan {
    /// A plan with the usual settings: 10 s of closed loop over 50 kept-alive connections.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            protocol: url.scheme.protocol(),
            url,
            urls: Vec::new(),
            host_change: HostChange::Keep,
            family: None,
            tls: Tls::default(),
            connections: 50,
            streams: 1,
            keep_alive: true,
            connection_requests: None,
            method: "GET".into(),
            headers: Vec::new(),
            body: Vec::new(),
            stream_messages: None,
            timeout: Duration::from_secs(10),
            schedule: Schedule::Closed,
            count: None,
            duration: Some(Duration::from_secs(10)),
            threads: 1,
            warm_up: Duration::ZERO,
            max_in_flight: 20_000,
            seed: 42,
            profile: Profile::Honest,
            manner: Manner::default(),
            spin: Duration::ZERO,
            lateness_max: Some(Duration::from_micros(100)),
            labels: String::new(),
        }
    }

    /// The same as JSON, for people and for the result: `Outcome.settings`.
    #[must_use]
    pub fn settings(&self) -> serde_json::Value {
        let points = |points: &[(f64, f64)]| serde_json::json!(points);
        let (arrival, rate) = match &self.schedule {
            Schedule::Closed => ("closed", serde_json::Value::Null),
            Schedule::Open { arrival, rate } => (
                arrival.name(),
                match rate {
                    Rate::Constant(rate) => serde_json::json!(rate),
                    Rate::Steps(steps) => serde_json::json!({ "steps": points(steps) }),
                    Rate::Ramp(ramp) => serde_json::json!({ "ramp": points(ramp) }),
                },
            ),
        };
        serde_json::json!({
            "url": self.url.to_string(),
            "urls": self.urls.len().max(1),
            "host_change": self.host_change.name(),
            "protocol": self.protocol.name(),
            "method": self.method,
            "headers": self.headers,
            "body_bytes": self.body.len(),
            "arrival": arrival,
            "rate": rate,
            "connections": self.connections,
            "streams": self.streams,
            "keep_alive": self.keep_alive,
            "connection_requests": self.connection_requests,
            "count": self.count,
            "duration_s": self.duration.map(|length| length.as_secs_f64()),
            "warm_up_s": self.warm_up.as_secs_f64(),
            "timeout_s": self.timeout.as_secs_f64(),
            "threads": self.threads,
            "max_in_flight": self.max_in_flight,
            "seed": self.seed,
            "spin_us": self.spin.as_micros() as u64,
            "profile": self.profile.name(),
            "labels": self.labels,
        })
    }
}
