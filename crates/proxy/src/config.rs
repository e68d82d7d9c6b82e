//! Configuration: environment → [`Raw`] → [`Config`], with every mistake reported at once.
//!
//! There is one table of variables: the calls on [`Reader`] in [`read`] and the functions it uses. Parsing, `--help`,
//! `/config` and the refusal of unknown names all come from it.

mod access_log;
mod reader;
pub mod tracing;

use crate::capture::rules::{PortRange, Settings as CaptureSettings};
use crate::control_address::ControlAddress;
use crate::shared::concurrency;
use crate::telemetry::access_log::Settings as AccessLog;
use crate::telemetry::detail::Detail;
use ipnet::IpNet;
use leno_model::name::{DnsName, SpiffeId, WorkloadId};
use leno_runtime::log::Format as LogFormat;
pub use reader::Raw;
use reader::Reader;
use std::path::PathBuf;
use std::time::Duration;

/// Exit code for mistakes in the configuration (EX_USAGE of sysexits.h).
pub const EXIT_CONFIGURATION: u8 = 64;

/// Everything that is fixed for the life of the process.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which pod we serve.
    pub workload: WorkloadId,
    /// That pod's UID, where there is one.
    pub pod_uid: Option<String>,
    pub identity: SpiffeId,
    /// The same as a DNS-like name: SNI that is for us.
    pub identity_dns: DnsName,
    /// Where the control plane is.
    pub control_address: ControlAddress,
    /// Who it must be.
    pub control_identity: SpiffeId,
    /// Roots of the mesh, PEM.
    pub trust_anchors_file: PathBuf,
    /// The workload's token; read again at every certification.
    pub token_file: PathBuf,
    /// Where the last snapshot is kept.
    pub state_dir: Option<PathBuf>,
    /// What happens to traffic of which nothing is known while the control plane is away.
    pub fail: Fail,
    /// Admin listener's port.
    pub admin_port: u16,
    /// Data-path threads.
    pub workers: usize,
    /// Requests that the application gets at the same time.
    pub concurrency_limit: concurrency::Setting,
    /// Requests of our application have no more time than the request that it serves, by their trace.
    pub inherits_deadlines: bool,
    /// What the kernel hands us, and the ports it hands it to.
    pub capture: CaptureSettings,
    /// The node's addresses: the admin port keeps places for its health probes. They open nothing by themselves.
    pub probe_sources: Vec<IpNet>,
    /// Level list of the log.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Access log on stdout, where it is on.
    pub access_log: Option<AccessLog>,
    /// Traces, where they are on.
    pub tracing: Option<tracing::Tracing>,
    /// What scrapers get that ask for nothing else.
    pub metrics: Detail,
    /// Everything that has a limit.
    pub limits: Limits,
    /// `/config`.
    described: serde_json::Value,
}

/// What happens to traffic of which nothing is known while the control plane is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fail {
    /// It is refused.
    #[default]
    Closed,
    /// It passes as if there were no mesh: plain text to where it was going, and everybody is let in.
    Open,
}

/// Limits, each with its unit in the type or in the name.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Open connections per direction.
    pub connections_max: usize,
    /// Bytes of a request's or response's head.
    pub head_bytes_max: usize,
    /// Fields of a head.
    pub headers_max: usize,
    /// Concurrent streams of one HTTP/2 connection.
    pub streams_max: u32,
    /// Requests that wait for one destination.
    pub pending_requests_max: usize,
    /// Idle connections to one endpoint, per thread.
    pub pool_idle_max: usize,
    /// From so many requests at once on at another proxy they share a connection; `u32::MAX` is never.
    pub shared_from_requests: u32,
    /// How long an idle connection to another proxy is kept.
    pub pool_idle_age_max: Duration,
    /// How long an idle plain connection to an application is kept.
    pub application_idle_age_max: Duration,
    /// Waiting for a server to accept a connection.
    pub connect_max: Duration,
    /// Waiting for a TLS handshake: half a millisecond of work on each side, but many may be under way at once.
    pub handshake_max: Duration,
    /// Waiting for the client's first bytes where the protocol is not declared.
    pub detect_max: Duration,
    /// Waiting for the first bytes on the inbound port itself, where only proxies connect, and for a transport header.
    pub first_byte_max: Duration,
    /// Waiting for the end of a request's head, from its first byte.
    pub head_max: Duration,
    /// An idle connection of a client is closed after this; zero is never.
    pub client_idle_max: Duration,
    /// Waiting for the control plane's first answer about a destination.
    pub discovery_wait_max: Duration,
    /// An unused destination is forgotten after this.
    pub discovery_unused_max: Duration,
    /// Finishing after SIGTERM.
    pub drain_max: Duration,
    /// Buffer for one direction of one connection.
    pub buffer_bytes: usize,
    /// Series of one metric family.
    pub series_max: usize,
    /// A series that does not change is dropped after this.
    pub series_idle_max: Duration,
    /// Lines of the access log that wait for stdout.
    pub access_log_lines_max: usize,
    /// Time in which a new endpoint gets its full share.
    pub slow_start: Duration,
}

impl Config {
    /// Reads everything.
    ///
    /// # Errors
    /// All mistakes, one line each.
    pub fn parse(raw: &Raw) -> Result<Self, Vec<String>> {
        let mut reader = Reader::new(raw);
        let config = read(&mut reader);
        let (described, wrong) = reader.finish();
        match config {
            Some(config) if wrong.is_empty() => Ok(Self { described, ..config }),
            _ => Err(wrong),
        }
    }

    /// Whether this port is one of the proxy's own.
    #[must_use]
    pub fn is_own_port(&self, port: u16) -> bool {
        [self.capture.inbound_port, self.capture.outbound_port, self.admin_port].contains(&port)
    }

    /// What is in force, for `/config`. It holds names of secret files, never secrets.
    #[must_use]
    pub fn describe(&self) -> &serde_json::Value {
        &self.described
    }
}

/// The settings of `leno-proxy capture`. It runs before there is an identity, so variables that only the proxy needs may be absent.
/// Mistakes in present variables are still reported.
///
/// # Errors
/// All mistakes, one line each.
pub fn capture_settings(raw: &Raw) -> Result<CaptureSettings, Vec<String>> {
    let mut reader = Reader::lenient(raw);
    let _ = read(&mut reader);
    let (_, wrong) = reader.finish();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut reader = Reader::lenient(raw);
    capture(&mut reader).ok_or_else(|| reader.finish().1)
}

/// The variables for `--help`.
#[must_use]
pub fn help() -> String {
    let raw = Raw::default();
    let mut reader = Reader::new(&raw);
    let _ = read(&mut reader);
    reader.help()
}

/// The table. Each call is one variable: name, default, meaning, parser.
fn read(reader: &mut Reader<'_>) -> Option<Config> {
    let workload = reader.required(
        "WORKLOAD",
        "namespace and name of the proxy's pod, as {\"ns\":\"default\",\"pod\":\"web-1\"}",
        |text| WorkloadId::parse(text).map_err(|error| error.to_string()),
    );
    let identity = reader.required(
        "IDENTITY",
        "SPIFFE ID of the workload, spiffe://<trust domain>/ns/<namespace>/sa/<service account>",
        spiffe,
    );
    let identity_dns = reader.derived(
        "IDENTITY_DNS",
        "<sa>.<ns>.serviceaccount.identity.leno.<trust domain>",
        "DNS name of the workload, for SNI and the DNS SAN",
        identity.as_ref().map(|id| id.to_dns_like("leno").map_err(|error| error.to_string())),
        |text| DnsName::parse(text).map_err(|error| error.to_string()),
    );
    let control_address = reader.required(
        "CONTROL_ADDRESS",
        "address of leno-control, IP:PORT or NAME:PORT; a name is resolved for every connection",
        ControlAddress::parse,
    );
    let control_identity = reader.derived(
        "CONTROL_IDENTITY",
        "spiffe://<trust domain>/ns/leno/sa/leno-control",
        "SPIFFE ID that leno-control must have",
        identity.as_ref().map(|id| {
            SpiffeId::service_account(id.trust_domain(), "leno", "leno-control")
                .map_err(|error| error.to_string())
        }),
        spiffe,
    );
    let (trust_anchors_file, token_file) = credentials(reader);
    let (state_dir, pod_uid, fail) = outage(reader);
    let capture = capture(reader);
    let workers = reader
        .with_default("WORKERS", "1", "threads that carry traffic", |text| number(text, 1, 256));
    let (concurrency_limit, inherits_deadlines) = requests(reader);
    let admin_port = reader.with_default("ADMIN_PORT", "4191", "port of the admin listener", port);
    let probe_sources = reader.with_default(
        "PROBE_SOURCES",
        "",
        "addresses and CIDRs of the node, for whose health probes the admin port keeps places",
        networks,
    );
    let (log, log_format) = logs(reader);
    let (access_log, tracing, metrics) = telemetry(reader);
    let limits = limits(reader);
    let config = Config {
        workload: workload?,
        pod_uid: pod_uid?,
        identity: identity?,
        identity_dns: identity_dns?,
        control_address: control_address?,
        control_identity: control_identity?,
        trust_anchors_file: trust_anchors_file?,
        token_file: token_file?,
        state_dir: state_dir?,
        fail: fail?,
        admin_port: admin_port?,
        workers: workers?,
        concurrency_limit: concurrency_limit?,
        inherits_deadlines: inherits_deadlines?,
        capture: capture?,
        probe_sources: probe_sources?,
        log: log?,
        log_format: log_format?,
        access_log: access_log?,
        tracing: tracing?,
        metrics: metrics?,
        limits: limits?,
        described: serde_json::Value::Null,
    };
    let ports = [config.capture.inbound_port, config.capture.outbound_port, config.admin_port];
    if ports[0] == ports[1] || ports[1] == ports[2] || ports[0] == ports[2] {
        reader.wrong("LENO_PROXY_INBOUND_PORT, LENO_PROXY_OUTBOUND_PORT and LENO_PROXY_ADMIN_PORT must be different".to_owned());
    }
    Some(config)
}

/// Files with what proves who somebody is.
fn credentials(reader: &mut Reader<'_>) -> (Option<PathBuf>, Option<PathBuf>) {
    let trust_anchors_file = reader.required(
        "TRUST_ANCHORS_FILE",
        "file with the root certificates of the mesh, PEM",
        path,
    );
    let token_file = reader.required(
        "TOKEN_FILE",
        "file with the workload's token; read again for every certificate request",
        path,
    );
    (trust_anchors_file, token_file)
}

/// What holds for requests of the application, and to it.
fn requests(reader: &mut Reader<'_>) -> (Option<concurrency::Setting>, Option<bool>) {
    let concurrency_limit = reader.with_default(
        "CONCURRENCY_LIMIT",
        "off",
        "requests that the application gets at the same time: off, a number, or auto (found by latency); the proxy answers the others with 503",
        str::parse,
    );
    let inherits_deadlines = reader.with_default(
        "INHERIT_DEADLINES",
        "true",
        "whether a request of the application has no more time than the request of the same trace that the application serves: true or false",
        |text| text.parse().map_err(|_| format!("{text:?} is not one of true, false")),
    );
    (concurrency_limit, inherits_deadlines)
}

/// What is logged, and how.
fn logs(reader: &mut Reader<'_>) -> (Option<String>, Option<LogFormat>) {
    let log = reader.with_default(
        "LOG",
        "info",
        "log level, `info` or `warn,leno_proxy::balance=debug`",
        |text| leno_runtime::log::parse(text).map(|_| text.to_owned()),
    );
    let log_format =
        reader.with_default("LOG_FORMAT", "plain", "format of log lines: plain or json", |text| {
            text.parse()
        });
    (log, log_format)
}

/// What others see of requests.
type Telemetry = (Option<Option<AccessLog>>, Option<Option<tracing::Tracing>>, Option<Detail>);

fn telemetry(reader: &mut Reader<'_>) -> Telemetry {
    let access_log = access_log::read(reader);
    let tracing = tracing::read(reader);
    let metrics = reader.with_default(
        "METRICS",
        "lean",
        "series on /metrics: lean (at most 300 with 20 peers) or full; /metrics?detail=full always has all",
        str::parse,
    );
    (access_log, tracing, metrics)
}

/// What holds while the control plane is away.
fn outage(
    reader: &mut Reader<'_>,
) -> (Option<Option<PathBuf>>, Option<Option<String>>, Option<Fail>) {
    let state_dir = reader.optional(
        "STATE_DIR",
        "directory of the snapshot, for a restart; the credential is stored there too if the directory is in memory (tmpfs)",
        path,
    );
    let pod_uid = reader.optional(
        "POD_UID",
        "UID of the pod; a snapshot of another pod with the same name is ignored",
        |text| {
            if text.is_empty() { Err("the UID is empty".to_owned()) } else { Ok(text.to_owned()) }
        },
    );
    let fail = reader.with_default(
        "FAIL",
        "closed",
        "traffic without configuration while the control plane is away: closed (reject it) or open (forward it as without a mesh: in plain text, and from every client)",
        |text| match text {
            "closed" => Ok(Fail::Closed),
            "open" => Ok(Fail::Open),
            _ => Err(format!("{text:?} is not one of closed, open")),
        },
    );
    (state_dir, pod_uid, fail)
}

/// What the kernel must know.
fn capture(reader: &mut Reader<'_>) -> Option<CaptureSettings> {
    let inbound_port =
        reader.with_default("INBOUND_PORT", "4143", "port of the inbound listener", port);
    let outbound_port =
        reader.with_default("OUTBOUND_PORT", "4140", "port of the outbound listener", port);
    let uid = reader.with_default(
        "UID",
        "2102",
        "user ID of the proxy, whose traffic is not captured",
        |text| number(text, 0_u32, u32::MAX - 1),
    );
    let skip_inbound_ports = reader.with_default(
        "SKIP_INBOUND_PORTS",
        "",
        "ports of the application that are not captured, `25,1000-2000`",
        port_ranges,
    );
    let skip_outbound_ports = reader.with_default(
        "SKIP_OUTBOUND_PORTS",
        "",
        "ports of other hosts; connections to them are not captured",
        port_ranges,
    );
    let skip_subnets = reader.with_default(
        "SKIP_SUBNETS",
        "",
        "CIDRs; connections to them are not captured",
        networks,
    );
    Some(CaptureSettings {
        inbound_port: inbound_port?,
        outbound_port: outbound_port?,
        uid: uid?,
        skip_inbound_ports: skip_inbound_ports?,
        skip_outbound_ports: skip_outbound_ports?,
        skip_subnets: skip_subnets?,
        admin_port: reader.peek("ADMIN_PORT", "4191", port)?,
    })
}

fn limits(reader: &mut Reader<'_>) -> Option<Limits> {
    let counts = counts(reader);
    // Who is alone goes quicker in a connection of its own.
    let shared_from = reader.with_default(
        "SHARED_FROM_REQUESTS",
        "2",
        "requests to the same other proxy share one connection when at least this number are in flight; 0 disables sharing",
        |text| number(text, 0, u32::MAX).map(|count| if count == 0 { u32::MAX } else { count }),
    );
    let short = timeouts(reader);
    let long = ages(reader);
    let [connections, head, headers, streams, pending, idle, buffer, series, lines] = counts;
    let [connect, detect, discovery_wait, handshake, first_byte] = short;
    let [
        unused,
        drain,
        pool_idle,
        application_idle,
        series_idle,
        slow_start,
        head_end,
        client_idle,
    ] = long;
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    Some(Limits {
        connections_max: size(connections?),
        head_bytes_max: size(head?),
        headers_max: size(headers?),
        streams_max: u32::try_from(streams?).unwrap_or(u32::MAX),
        pending_requests_max: size(pending?),
        pool_idle_max: size(idle?),
        shared_from_requests: shared_from?,
        pool_idle_age_max: pool_idle?,
        application_idle_age_max: application_idle?,
        connect_max: connect?,
        handshake_max: handshake?,
        first_byte_max: first_byte?,
        head_max: head_end?,
        client_idle_max: client_idle?,
        detect_max: detect?,
        discovery_wait_max: discovery_wait?,
        discovery_unused_max: unused?,
        drain_max: drain?,
        buffer_bytes: size(buffer?),
        series_max: size(series?),
        series_idle_max: series_idle?,
        access_log_lines_max: size(lines?),
        slow_start: slow_start?,
    })
}

/// Counts and sizes, in the order of [`limits`].
fn counts(reader: &mut Reader<'_>) -> [Option<u64>; 9] {
    let mut count = |name, default, meaning, max: u64| {
        reader.with_default(name, default, meaning, |text| number(text, 1, max))
    };
    [
        count(
            "CONNECTIONS_MAX",
            "20000",
            "limit of open connections per direction, at most a quarter of the limit of open files",
            10_000_000,
        ),
        count(
            "HEAD_BYTES_MAX",
            "65536",
            "limit of a request's or response's head, in bytes",
            16 << 20,
        ),
        count("HEADERS_MAX", "256", "limit of header fields in a head", 65_536),
        count("STREAMS_MAX", "1024", "limit of concurrent streams per HTTP/2 connection", 65_536),
        count(
            "PENDING_REQUESTS_MAX",
            "1024",
            "limit of requests that wait for one destination",
            1 << 20,
        ),
        count("POOL_IDLE_MAX", "64", "limit of idle connections per endpoint and thread", 65_536),
        count(
            "BUFFER_BYTES",
            "16384",
            "buffer size for one direction of a connection, in bytes",
            16 << 20,
        ),
        count(
            "SERIES_MAX",
            "2000",
            "limit of series per metric family; further ones are counted in one series",
            1 << 20,
        ),
        count(
            "ACCESS_LOG_LINES_MAX",
            "4096",
            "limit of access log lines that wait for standard output; further ones are dropped",
            1 << 20,
        ),
    ]
}

/// Timeouts, in the order of [`limits`].
fn timeouts(reader: &mut Reader<'_>) -> [Option<Duration>; 5] {
    let mut milliseconds = |name, default, meaning, max: u64| {
        reader.with_default(name, default, meaning, |text| {
            number(text, 1, max).map(Duration::from_millis)
        })
    };
    [
        milliseconds("CONNECT_MILLISECONDS", "1000", "timeout of connecting to a server", 600_000),
        milliseconds(
            "DETECT_MILLISECONDS",
            "10",
            "timeout of protocol detection: the wait for the client's first bytes on a port without a declared protocol",
            600_000,
        ),
        milliseconds(
            "DISCOVERY_WAIT_MILLISECONDS",
            "3000",
            "timeout of the control plane's first answer about a destination",
            600_000,
        ),
        milliseconds("HANDSHAKE_MILLISECONDS", "10000", "timeout of a TLS handshake", 600_000),
        milliseconds(
            "FIRST_BYTE_MILLISECONDS",
            "10000",
            "timeout of the first bytes on INBOUND_PORT itself, and of a transport header",
            600_000,
        ),
    ]
}

/// Longer times, in the order of [`limits`].
fn ages(reader: &mut Reader<'_>) -> [Option<Duration>; 8] {
    let mut seconds = |name, default, meaning, max: u64| {
        reader.with_default(name, default, meaning, |text| {
            number(text, 0, max).map(Duration::from_secs)
        })
    };
    [
        seconds(
            "DISCOVERY_UNUSED_SECONDS",
            "60",
            "time after which an unused destination is removed",
            86_400,
        ),
        seconds("DRAIN_SECONDS", "30", "time limit of the drain after SIGTERM", 86_400),
        seconds(
            "POOL_IDLE_SECONDS",
            "60",
            "time after which an idle connection to a proxy is closed",
            86_400,
        ),
        // Below the five seconds after which Node.js and Apache close, so that we are the first (mesh.md §3, item 7).
        seconds(
            "APPLICATION_IDLE_SECONDS",
            "4",
            "time after which an idle connection to an application is closed",
            86_400,
        ),
        seconds(
            "SERIES_IDLE_SECONDS",
            "600",
            "time after which an unchanged series is removed",
            86_400,
        ),
        seconds(
            "SLOW_START_SECONDS",
            "10",
            "time until a new endpoint gets its full share of requests; 0 gives it at once",
            3_600,
        ),
        seconds("HEAD_SECONDS", "30", "timeout of a request's head, from its first byte", 86_400),
        seconds(
            "CLIENT_IDLE_SECONDS",
            "3600",
            "time after which a client's HTTP connection without a request is closed; 0 is never",
            31_536_000,
        ),
    ]
}

fn spiffe(text: &str) -> Result<SpiffeId, String> {
    SpiffeId::parse(text).map_err(|error| error.to_string())
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("the path is empty".to_owned()) } else { Ok(text.into()) }
}

fn port(text: &str) -> Result<u16, String> {
    number(text, 1, u16::MAX)
}

fn number<N: std::str::FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    min: N,
    max: N,
) -> Result<N, String> {
    match text.parse::<N>() {
        Ok(number) if number >= min && number <= max => Ok(number),
        _ => Err(format!("{text:?} is not a number from {min} to {max}")),
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn port_ranges(text: &str) -> Result<Vec<PortRange>, String> {
    items(text).map(PortRange::parse).collect()
}

fn networks(text: &str) -> Result<Vec<IpNet>, String> {
    items(text)
        .map(|item| {
            item.parse::<IpNet>()
                .or_else(|_| item.parse::<std::net::IpAddr>().map(IpNet::from))
                .map_err(|_| format!("{item:?} is not an IP address or a CIDR"))
        })
        .collect()
}

#[cfg(test)]
mod tests;
