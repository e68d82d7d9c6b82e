//! Which requests become spans, and how a span looks: names and attributes of OpenTelemetry's HTTP conventions. Pure.

use super::context::TraceContext;
use super::otlp::field::{self, span};
use super::otlp::{self, Kind, Value};
use crate::telemetry::Direction;
use crate::telemetry::request_summary::{Attempt, RequestSummary, object_name_parts};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;
/// Longer names of services and methods are not those of a program.
const RPC_BYTES_MAX: usize = 255;

/// What decides whether a span is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Share of traces that begin here, 0 to 1.
    pub rate: f64,
    /// The decision in the headers of a request holds.
    pub parent_based: bool,
    /// Requests that take this time or longer are kept in any case.
    pub slow: Duration,
}

/// The proxy's own span of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnSpan {
    /// What the request carries on.
    pub context: TraceContext,
    /// The span that asked; `None` where the trace begins here.
    pub parent: Option<u64>,
}

impl Sampling {
    /// The span of a request. `random` gives 64 bits at a time.
    pub fn begin(&self, incoming: Option<TraceContext>, random: impl Fn() -> u64) -> OwnSpan {
        let fresh = || random().max(1);
        let trace_id = incoming
            .map_or_else(|| u128::from(fresh()) << 64 | u128::from(fresh()), |of| of.trace_id);
        let decided = incoming.and_then(|of| of.sampled).filter(|_| self.parent_based);
        let sampled = decided.unwrap_or_else(|| self.draws(trace_id));
        let carried_by = incoming.map(|of| of.carried_by).unwrap_or_default();
        let context =
            TraceContext { trace_id, span_id: fresh(), sampled: Some(sampled), carried_by };
        OwnSpan { context, parent: incoming.map(|of| of.span_id) }
    }

    /// The same for a trace wherever it is asked, so that proxies with one rate agree.
    fn draws(&self, trace_id: u128) -> bool {
        let low = trace_id as u64 >> 11;
        (low as f64) / ((1_u64 << 53) as f64) < self.rate
    }

    /// Whether the span of a request that took so long is kept. Slow and notable requests always are: failed, denied and repeated
    /// ones.
    #[must_use]
    pub fn keeps(&self, span: &OwnSpan, is_notable: bool, total: Duration) -> bool {
        span.context.sampled == Some(true) || is_notable || total >= self.slow
    }
}

/// Writes the message for a collector.
pub fn write(into: &mut Vec<u8>, own: &OwnSpan, request: &RequestSummary<'_>) {
    let (method, rpc) = (known_method(request.method), rpc(request));
    let start = nanoseconds(request.began, Duration::ZERO);
    otlp::bytes(into, span::TRACE_ID, &own.context.trace_id.to_be_bytes());
    otlp::bytes(into, span::SPAN_ID, &own.context.span_id.to_be_bytes());
    if let Some(parent) = own.parent {
        otlp::bytes(into, span::PARENT_SPAN_ID, &parent.to_be_bytes());
    }
    let verb = method.unwrap_or("HTTP");
    match (rpc, request.route.map(object_name_parts)) {
        (Some((service, method)), _) => otlp::text(into, span::NAME, &[service, "/", method]),
        (None, Some([namespace, slash, name])) => {
            otlp::text(into, span::NAME, &[verb, " ", namespace, slash, name]);
        }
        (None, None) => otlp::text(into, span::NAME, &[verb]),
    }
    let kind = match request.direction {
        Direction::Inbound => Kind::Server,
        Direction::Outbound => Kind::Client,
    };
    otlp::number(into, span::KIND, kind as u64);
    otlp::fixed64(into, span::START, start);
    otlp::fixed64(into, span::END, start.saturating_add(whole(request.total)));
    attributes(into, request, method, rpc);
    if request.is_retried() {
        request.attempts.iter().for_each(|attempt| event(into, request.began, attempt));
    }
    if is_error(request) {
        let mut status = Vec::new();
        otlp::bytes(&mut status, field::status::MESSAGE, request.reason.as_bytes());
        otlp::number(&mut status, field::status::CODE, ERROR);
        otlp::bytes(into, span::STATUS, &status);
    }
    otlp::fixed32(into, span::FLAGS, u32::from(own.context.sampled == Some(true)));
}

/// Methods that the conventions know; of others, only an attribute has the text of the client.
fn known_method(method: &[u8]) -> Option<&'static str> {
    const KNOWN: [&str; 9] =
        ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
    KNOWN.into_iter().find(|known| known.as_bytes() == method)
}

/// Service and method of a gRPC call, `shop.v1.Cart` and `Add` of `/shop.v1.Cart/Add`.
fn rpc<'a>(request: &RequestSummary<'a>) -> Option<(&'a str, &'a str)> {
    request.grpc?;
    let path = request.path.strip_prefix(b"/").filter(|path| path.len() <= RPC_BYTES_MAX)?;
    let (service, method) = std::str::from_utf8(path).ok()?.split_once('/')?;
    let is_whole = !service.is_empty() && !method.is_empty() && !method.contains(['/', '?']);
    is_whole.then_some((service, method))
}

/// A client's span is an error for each 4xx too.
fn is_error(request: &RequestSummary<'_>) -> bool {
    let is_rejected = request.direction == Direction::Outbound && request.status >= 400;
    request.is_failure() || is_rejected
}

/// One attempt of a request that was sent again.
fn event(into: &mut Vec<u8>, began: SystemTime, attempt: &Attempt) {
    let mut event = Vec::new();
    otlp::fixed64(&mut event, field::event::TIME, nanoseconds(began, attempt.after));
    otlp::bytes(&mut event, field::event::NAME, b"attempt");
    let mut attributes = Attributes { into: &mut event, field: field::event::ATTRIBUTES };
    if let Some(address) = attempt.to {
        attributes.peer(address);
    }
    if attempt.status > 0 {
        attributes.number("http.response.status_code", attempt.status.into());
    }
    if !attempt.failure.is_empty() {
        attributes.text("error.type", &[attempt.failure]);
    }
    otlp::bytes(into, span::EVENTS, &event);
}

/// Writes attributes as a field of a message.
struct Attributes<'a> {
    into: &'a mut Vec<u8>,
    field: u8,
}

impl Attributes<'_> {
    fn text(&mut self, name: &str, parts: &[&str]) {
        otlp::attribute(self.into, self.field, name, Value::Text(parts));
    }

    fn number(&mut self, name: &str, number: i64) {
        otlp::attribute(self.into, self.field, name, Value::Number(number));
    }

    fn peer(&mut self, address: SocketAddr) {
        self.text("network.peer.address", &[&address.ip().to_canonical().to_string()]);
        self.number("network.peer.port", address.port().into());
    }

    /// `server.address`, and `server.port` where the client wrote one.
    fn server(&mut self, host: &[u8]) {
        let text = String::from_utf8_lossy(host);
        let port =
            text.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?)));
        let (name, port) = port.map_or((text.as_ref(), None), |(name, port)| (name, Some(port)));
        self.text("server.address", &[name.trim_matches(['[', ']'])]);
        if let Some(port) = port {
            self.number("server.port", port.into());
        }
    }
}

fn attributes(
    into: &mut Vec<u8>,
    request: &RequestSummary<'_>,
    method: Option<&str>,
    rpc: Option<(&str, &str)>,
) {
    let mut all = Attributes { into, field: span::ATTRIBUTES };
    all.text("http.request.method", &[method.unwrap_or("_OTHER")]);
    if method.is_none() {
        let original = String::from_utf8_lossy(request.method);
        all.text("http.request.method_original", &[&*original]);
    }
    if let Some((service, method)) = rpc {
        all.text("rpc.system", &["grpc"]);
        all.text("rpc.service", &[service]);
        all.text("rpc.method", &[method]);
    }
    let (host, path) = (request.host_alone(), String::from_utf8_lossy(request.path_alone()));
    all.text("url.path", &[&*path]);
    match request.direction {
        Direction::Inbound => all.text("url.scheme", &["http"]),
        Direction::Outbound => {
            all.text("url.full", &["http://", &*String::from_utf8_lossy(host), &*path]);
        }
    }
    all.server(host);
    if let Some((_, version)) = request.version.split_once('/') {
        all.text("network.protocol.version", &[version]);
    }
    if request.is_retried() {
        let again = request.attempts.len().saturating_sub(1);
        all.number("http.request.resend_count", again as i64);
    }
    if request.status > 0 {
        all.number("http.response.status_code", request.status.into());
    }
    if let Some(grpc) = request.grpc {
        all.number("rpc.grpc.status_code", grpc.into());
    }
    let peer = match request.direction {
        Direction::Inbound => Some(request.client),
        Direction::Outbound => request.endpoint.map(|endpoint| endpoint.address),
    };
    if let Some(peer) = peer {
        all.peer(peer);
    }
    if is_error(request) {
        match request.ending.is_complete() {
            true => all.text("error.type", &[&request.status.to_string()]),
            false => all.text("error.type", &[request.ending.flag()]),
        }
    }
    for (name, id) in [("leno.client.id", request.client_id), ("leno.server.id", request.server_id)]
    {
        if !id.is_empty() {
            all.text(name, &[id]);
        }
    }
    for (name, object) in [("leno.route", request.route), ("leno.service", request.service)] {
        if let Some(object) = object {
            all.text(name, &object_name_parts(object));
        }
    }
}

fn nanoseconds(time: SystemTime, after: Duration) -> u64 {
    whole(time.duration_since(UNIX_EPOCH).unwrap_or_default() + after)
}

fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Ending;
    use crate::telemetry::request_summary::tests::summary;
    use crate::telemetry::trace::otlp::messages::{KeyValue, Span, Status};
    use leno_model::name::Resource;
    use prost::Message as _;
    use std::cell::Cell;
    use std::sync::LazyLock;

    const HOUR: Duration = Duration::from_hours(1);

    fn own(incoming: Option<(u64, Option<bool>)>, sampling: Sampling) -> OwnSpan {
        let next = Cell::new(0);
        let random = || {
            next.set(next.get() + 1);
            next.get()
        };
        let incoming = incoming.map(|(span_id, sampled)| TraceContext {
            trace_id: u128::MAX,
            span_id,
            sampled,
            carried_by: super::super::context::CarriedBy::default(),
        });
        sampling.begin(incoming, random)
    }

    #[test]
    fn who_decides() {
        let check = |rate: f64, parent_based, incoming: Option<Option<bool>>, expected: bool| {
            let sampling = Sampling { rate, parent_based, slow: HOUR };
            let own = own(incoming.map(|sampled| (7, sampled)), sampling);
            assert_eq!(own.context.sampled, Some(expected), "{rate} {parent_based} {incoming:?}");
            assert_eq!(own.parent, incoming.map(|_| 7));
        };
        //    rate parent incoming          sampled
        check(1.0, true, None, true);
        check(0.0, true, None, false);
        check(0.0, true, Some(Some(true)), true);
        check(1.0, true, Some(Some(false)), false);
        check(0.5, true, Some(None), false);
        check(1.0, false, Some(Some(false)), true);
        check(0.0, false, Some(Some(true)), false);
    }

    #[test]
    fn what_is_kept_in_any_case() {
        let sampling = Sampling { rate: 0.0, parent_based: true, slow: Duration::from_millis(3) };
        let check = |request: &RequestSummary<'_>, expected: bool| {
            let is_notable = request.is_failure() || request.is_retried();
            let kept = sampling.keeps(&own(None, sampling), is_notable, request.total);
            assert_eq!(kept, expected, "{request:?}");
        };
        check(&summary(), false);
        check(&RequestSummary { total: Duration::from_millis(3), ..summary() }, true);
        check(&RequestSummary { status: 500, ..summary() }, true);
        check(&RequestSummary { status: 403, ending: Ending::PolicyDenied, ..summary() }, true);
        let refused = [Attempt { failure: "upstream_refused", ..Attempt::default() }];
        check(&RequestSummary { attempts: &refused, ..summary() }, true);
        let all = Sampling { rate: 1.0, ..sampling };
        assert!(all.keeps(&own(None, all), false, Duration::ZERO));
    }

    #[test]
    fn how_a_span_looks() {
        let sampling = Sampling { rate: 1.0, parent_based: true, slow: HOUR };
        let to = Some("10.0.0.1:80".parse().unwrap());
        let first = Attempt { to, failure: "response", status: 502, ..Attempt::default() };
        let two = [first, Attempt { to, ..Attempt::default() }];
        let failed = RequestSummary {
            status: 503,
            attempts: &two,
            host: b"api.shop:8080",
            ending: Ending::NoEndpoints,
            reason: "none",
            ..summary()
        };
        let mut written = Vec::new();
        write(&mut written, &own(Some((7, None)), sampling), &failed);
        let made = Span::decode(written.as_slice()).unwrap();
        assert_eq!((made.kind, made.name.as_str()), (Kind::Client as i32, "GET"));
        assert_eq!(made.parent_span_id, 7_u64.to_be_bytes());
        assert_eq!(made.end_time_unix_nano - made.start_time_unix_nano, 2_250_000);
        let told = |event: usize| made.events[event].attributes.clone();
        let peer = [
            KeyValue::text("network.peer.address", "10.0.0.1"),
            KeyValue::number("network.peer.port", 80),
        ];
        assert_eq!(told(1), peer);
        assert_eq!(told(0).len(), 4);
        assert!(told(0).contains(&KeyValue::number("http.response.status_code", 502)));
        assert_eq!(made.status, Some(Status { message: "none".into(), code: ERROR as i32 }));
        for expected in [
            KeyValue::text("url.path", "/a"),
            KeyValue::text("url.full", "http://api.shop:8080/a"),
            KeyValue::text("network.protocol.version", "1.1"),
            KeyValue::text("error.type", "no_endpoints"),
            KeyValue::text("leno.service", "shop/api"),
            KeyValue::text("server.address", "api.shop"),
            KeyValue::number("server.port", 8080),
            KeyValue::number("http.response.status_code", 503),
            KeyValue::number("http.request.resend_count", 1),
        ] {
            assert!(made.attributes.contains(&expected), "{expected:?}: {:?}", made.attributes);
        }
    }

    /// Name, attributes that are there, and those that are not.
    #[test]
    fn names_follow_the_conventions() {
        static ROUTE: LazyLock<Resource> = LazyLock::new(|| Resource::object("", "", "shop", "r"));
        let check = |request: &RequestSummary<'_>, name: &str, expected: &[(&str, &str)]| {
            let sampling = Sampling { rate: 1.0, parent_based: true, slow: HOUR };
            let mut written = Vec::new();
            write(&mut written, &own(None, sampling), request);
            let made = Span::decode(written.as_slice()).unwrap();
            assert_eq!(made.name, name);
            for (key, value) in expected {
                let pair = KeyValue::text(key, value);
                assert!(made.attributes.contains(&pair), "{pair:?}: {:?}", made.attributes);
            }
            made
        };
        let base = summary();
        let call = RequestSummary { method: b"POST", grpc: Some(0), path: b"/a.B/C", ..base };
        let inbound = RequestSummary { direction: Direction::Inbound, ..base };
        let peer = ("network.peer.address", "10.0.0.7");
        check(&base, "GET", &[("network.peer.address", "10.0.0.8"), ("url.full", "http://web/a")]);
        check(&inbound, "GET", &[peer, ("url.scheme", "http")]);
        check(&RequestSummary { route: Some(&ROUTE), ..base }, "GET shop/r", &[]);
        let called = [("rpc.system", "grpc"), ("rpc.service", "a.B"), ("rpc.method", "C")];
        check(&RequestSummary { route: Some(&ROUTE), ..call }, "a.B/C", &called);
        for path in [b"/a.B".as_slice(), b"/a.B/", b"//C", b"/a/b/C", b"/a.B/C?d", &[b'/'; 300]] {
            check(&RequestSummary { path, ..call }, "POST", &[]);
        }
        let other = [("http.request.method", "_OTHER"), ("http.request.method_original", "get")];
        check(&RequestSummary { method: b"get", ..base }, "HTTP", &other);
        let absent = RequestSummary { status: 404, ..base };
        let client = check(&absent, "GET", &[("error.type", "404")]);
        assert_eq!(client.status.map(|status| status.code), Some(ERROR as i32));
        let server = check(&RequestSummary { status: 404, ..inbound }, "GET", &[]);
        assert_eq!(server.status, None);
    }
}
