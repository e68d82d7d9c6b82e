//! A request that has ended, as access log, tap and traces see it.

use super::labels::Direction;
use super::shown_headers::Name;
use crate::ending::Ending;
use leno_model::name::Resource;
use leno_model::workload::{Endpoint, Labels};
use leno_runtime::denial::DenialId;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

/// `2026-11-21T09:05:01.023Z`
const TIME: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// One attempt of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// When it was sent, since the request began.
    pub after: Duration,
    /// Its endpoint; `None` where the proxy could connect to none.
    pub to: Option<SocketAddr>,
    /// Why another attempt followed, in a word; empty for the last attempt.
    pub failure: &'static str,
    /// Status of a response that was not passed on; 0 where there was none.
    pub status: u16,
}

/// What is known about a request that has ended. Texts of the client are bytes as received; empty is absent.
#[derive(Clone, Copy, Debug)]
pub struct RequestSummary<'a> {
    /// When the request began.
    pub began: SystemTime,
    pub direction: Direction,
    /// Where the client connected from.
    pub client: SocketAddr,
    /// The client's verified identity; for outbound requests that of the proxy's own pod.
    pub client_id: &'a str,
    /// The server's identity, where it has one.
    pub server_id: &'a str,
    /// The endpoint that the request was sent to last.
    pub endpoint: Option<&'a Endpoint>,
    /// The Service that the client asked for; outbound.
    pub service: Option<&'a Resource>,
    /// The route that the request followed.
    pub route: Option<&'a Resource>,
    pub method: &'a [u8],
    /// Path and query.
    pub path: &'a [u8],
    /// `HTTP/1.1`.
    pub version: &'a str,
    /// The host that the client named.
    pub host: &'a [u8],
    /// `user-agent`.
    pub user_agent: &'a [u8],
    /// `referer`.
    pub referer: &'a [u8],
    /// Request headers that somebody asked for by name.
    pub headers: &'a [(Name, Vec<u8>)],
    /// Status sent to the client; 0 where none was sent.
    pub status: u16,
    /// `grpc-status` sent to the client.
    pub grpc: Option<u16>,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the response's body.
    pub response_bytes: u64,
    pub attempts: &'a [Attempt],
    /// Why the request was not sent once more; empty where no retry was due.
    pub retry_denied: &'a str,
    /// Until the first attempt began: decision, discovery and the wait for a body that is kept.
    pub queue: Duration,
    /// All waiting for connections.
    pub connect: Duration,
    /// To the first byte of the response.
    pub first_byte: Duration,
    /// To the last.
    pub total: Duration,
    /// How the request ended.
    pub ending: Ending,
    /// Where the policy denied the request: the id of the record.
    pub denial: Option<DenialId>,
    /// What went wrong, as text; empty for a complete request.
    pub reason: &'a str,
    /// The trace that it belongs to, where there is one.
    pub trace_id: Option<u128>,
}

impl RequestSummary<'_> {
    /// Whether the request failed: the class of `response_total`, or an ending that is not complete.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        is_failure(self.status, self.grpc, self.ending)
    }

    /// How many attempts were sent to an endpoint.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.attempts.iter().filter(|attempt| attempt.to.is_some()).count()
    }

    /// Whether an attempt was followed by another.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        is_retried(self.attempts)
    }

    /// Labels of the endpoint; none where there is no endpoint.
    #[must_use]
    pub fn labels(&self) -> Option<&Labels> {
        self.endpoint.map(|endpoint| &endpoint.labels)
    }

    /// The path alone: a query may hold secrets, and so may the user in an absolute form.
    #[must_use]
    pub fn path_alone(&self) -> &[u8] {
        let end = self.path.iter().position(|byte| *byte == b'?').unwrap_or(self.path.len());
        let path = &self.path[..end];
        let is_slash = |byte: &u8| *byte == b'/';
        match path.windows(3).position(|window| window == b"://") {
            Some(scheme) if !path.starts_with(b"/") => {
                let after = &path[scheme + 3..];
                after.iter().position(is_slash).map_or(b"/", |at| &after[at..])
            }
            _ => path,
        }
    }

    /// The host without a user, which may hold a password.
    #[must_use]
    pub fn host_alone(&self) -> &[u8] {
        self.host.rsplit(|byte| *byte == b'@').next().unwrap_or_default()
    }

    /// A value of the endpoint's labels, with or without `dst_` before the name.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let is_it =
            |known: &str| known == name || known.strip_prefix("dst_").is_some_and(|k| k == name);
        let (_, value) = self.labels()?.iter().find(|(known, _)| is_it(known))?;
        Some(value)
    }

    /// The fields that access log and tap share; `docs/tap.md` describes them.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        let time = OffsetDateTime::from(self.began).format(TIME).unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let named = |resource: Option<&Resource>| resource.map(object_name).unwrap_or_default();
        let fields = json!({
            "timestamp": time,
            "direction": self.direction.as_str(),
            "client.addr": self.client.to_string(),
            "client.id": self.client_id,
            "server.id": self.server_id,
            "target.addr": self.endpoint.map(|to| to.address.to_string()).unwrap_or_default(),
            "target.pod": self.label("pod").unwrap_or_default(),
            "target.namespace": self.label("namespace").unwrap_or_default(),
            "service": named(self.service),
            "route": named(self.route),
            "method": text(self.method),
            "version": self.version,
            "host": text(self.host_alone()),
            "status": self.status,
            "grpc_status": self.grpc,
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "attempts": self.sent(),
            "retry_denied": self.retry_denied,
            "queue_ms": milliseconds(self.queue),
            "connect_ms": milliseconds(self.connect),
            "first_byte_ms": milliseconds(self.first_byte),
            "total_ms": milliseconds(self.total),
            "ending": self.ending.flag(),
            "denial": self.denial.map(|id| id.to_string()).unwrap_or_default(),
            "reason": self.reason,
            "trace_id": self.trace_id.map(|id| format!("{id:032x}")).unwrap_or_default(),
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

/// The rule of [`RequestSummary::is_failure`].
#[must_use]
pub fn is_failure(status: u16, grpc: Option<u16>, ending: Ending) -> bool {
    status >= 500 || grpc.is_some_and(super::series::is_grpc_failure) || ending != Ending::Complete
}

/// The rule of [`RequestSummary::is_retried`].
#[must_use]
pub fn is_retried(attempts: &[Attempt]) -> bool {
    attempts.iter().any(|attempt| !attempt.failure.is_empty())
}

/// `namespace/name`, or the name of an object that the control plane made up.
#[must_use]
pub fn object_name(resource: &Resource) -> String {
    object_name_parts(resource).concat()
}

/// The parts of [`object_name`].
#[must_use]
pub fn object_name_parts(resource: &Resource) -> [&str; 3] {
    match resource.namespace() {
        "" => ["", "", resource.name()],
        namespace => [namespace, "/", resource.name()],
    }
}

/// With three digits after the point.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::LazyLock;
    use std::time::UNIX_EPOCH;

    static ENDPOINT: LazyLock<Endpoint> = LazyLock::new(|| Endpoint {
        labels: [("namespace", "shop"), ("pod", "api-1"), ("dst_deployment", "api")]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
        ..Endpoint::plain("10.0.0.8:80".parse().expect("an address"))
    });
    static ONE: LazyLock<[Attempt; 1]> = LazyLock::new(|| {
        let after = Duration::from_micros(30);
        [Attempt { after, to: Some(ENDPOINT.address), ..Attempt::default() }]
    });
    static SERVICE: LazyLock<Resource> =
        LazyLock::new(|| Resource::object("", "Service", "shop", "api"));

    #[test]
    fn paths_and_hosts_have_no_secrets() {
        for (path, expected) in [
            ("/a?key=1", "/a"),
            ("/a://b?c", "/a://b"),
            ("http://user:word@web/a?key=1", "/a"),
            ("http://user:word@web", "/"),
            ("*", "*"),
        ] {
            let request = RequestSummary { path: path.as_bytes(), ..summary() };
            assert_eq!(request.path_alone(), expected.as_bytes(), "{path}");
        }
        let request = RequestSummary { host: b"user:word@web:80", ..summary() };
        assert_eq!(request.host_alone(), b"web:80");
    }

    /// A request of `web` to the Service `api`.
    pub(crate) fn summary() -> RequestSummary<'static> {
        RequestSummary {
            began: UNIX_EPOCH + Duration::from_millis(1_795_251_901_023),
            direction: Direction::Outbound,
            client: "[::ffff:10.0.0.7]:4000".parse().expect("an address"),
            client_id: "spiffe://cluster.local/ns/default/sa/web",
            server_id: "spiffe://cluster.local/ns/shop/sa/api",
            endpoint: Some(&ENDPOINT),
            service: Some(&SERVICE),
            route: None,
            method: b"GET",
            path: b"/a?b=\"c\"\n\xff",
            version: "HTTP/1.1",
            host: b"web",
            user_agent: b"curl/8",
            referer: b"",
            headers: &[],
            status: 200,
            grpc: None,
            request_bytes: 0,
            response_bytes: 12,
            attempts: ONE.as_slice(),
            retry_denied: "",
            queue: Duration::from_micros(10),
            connect: Duration::from_micros(20),
            first_byte: Duration::from_micros(1500),
            total: Duration::from_micros(2250),
            ending: Ending::Complete,
            denial: None,
            reason: "",
            trace_id: None,
        }
    }
}
