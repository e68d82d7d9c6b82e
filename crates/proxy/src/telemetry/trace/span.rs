//! Which requests become spans, and how a span looks: names and attributes of OpenTelemetry's HTTP conventions. Pure.

use super::context::TraceContext;
use super::otlp::{Event, KeyValue, Kind, Span, Status};
use crate::telemetry::Direction;
use crate::telemetry::request_summary::{Attempt, RequestSummary, object_name};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;

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

    /// Whether a request that has ended is kept: slow, failed, denied and repeated ones always are.
    #[must_use]
    pub fn keeps(&self, span: &OwnSpan, request: &RequestSummary<'_>) -> bool {
        span.context.sampled == Some(true)
            || request.is_failure()
            || request.is_retried()
            || request.total >= self.slow
    }
}

/// The message for a collector.
#[must_use]
pub fn span(own: &OwnSpan, request: &RequestSummary<'_>) -> Span {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let method = text(request.method);
    let route = request.route.map(object_name);
    let start = nanoseconds(request.began, Duration::ZERO);
    let event = |attempt: &Attempt| Event {
        time_unix_nano: nanoseconds(request.began, attempt.after),
        name: "attempt".to_owned(),
        attributes: of_attempt(attempt),
    };
    Span {
        trace_id: own.context.trace_id.to_be_bytes().to_vec(),
        span_id: own.context.span_id.to_be_bytes().to_vec(),
        parent_span_id: own.parent.map_or_else(Vec::new, |id| id.to_be_bytes().to_vec()),
        name: route.as_ref().map_or_else(|| method.clone(), |route| format!("{method} {route}")),
        kind: match request.direction {
            Direction::Inbound => Kind::Server,
            Direction::Outbound => Kind::Client,
        } as i32,
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(whole(request.total)),
        attributes: attributes(request, method, route),
        events: request.attempts.iter().filter(|_| request.is_retried()).map(event).collect(),
        status: request
            .is_failure()
            .then(|| Status { message: request.reason.to_owned(), code: ERROR }),
        flags: u32::from(own.context.sampled == Some(true)),
    }
}

fn of_attempt(attempt: &Attempt) -> Vec<KeyValue> {
    let mut all: Vec<KeyValue> = attempt.to.into_iter().flat_map(peer).collect();
    if attempt.status > 0 {
        all.push(KeyValue::number("http.response.status_code", i64::from(attempt.status)));
    }
    if !attempt.failure.is_empty() {
        all.push(KeyValue::text("error.type", attempt.failure));
    }
    all
}

fn peer(address: SocketAddr) -> [KeyValue; 2] {
    [
        KeyValue::text("network.peer.address", address.ip().to_canonical().to_string()),
        KeyValue::number("network.peer.port", i64::from(address.port())),
    ]
}

/// `server.address`, and `server.port` where the client wrote one.
fn server(host: &[u8]) -> impl Iterator<Item = KeyValue> {
    let text = String::from_utf8_lossy(host);
    let port =
        text.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?)));
    let (name, port) = port.map_or((text.as_ref(), None), |(name, port)| (name, Some(port)));
    let name = KeyValue::text("server.address", name.trim_matches(['[', ']']));
    let port = port.map(|port| KeyValue::number("server.port", i64::from(port)));
    [Some(name), port].into_iter().flatten()
}

fn attributes(
    request: &RequestSummary<'_>,
    method: String,
    route: Option<String>,
) -> Vec<KeyValue> {
    let mut all = vec![
        KeyValue::text("http.request.method", method),
        KeyValue::text("url.path", String::from_utf8_lossy(request.path_alone())),
        KeyValue::text("url.scheme", "http"),
    ];
    all.extend(server(request.host_alone()));
    if request.is_retried() {
        let again = request.attempts.len().saturating_sub(1);
        all.push(KeyValue::number("http.request.resend_count", again as i64));
    }
    if request.status > 0 {
        all.push(KeyValue::number("http.response.status_code", i64::from(request.status)));
    }
    if let Some(grpc) = request.grpc {
        all.push(KeyValue::number("rpc.grpc.status_code", i64::from(grpc)));
    }
    if let Some(endpoint) = request.endpoint {
        all.extend(peer(endpoint.address));
    }
    if request.is_failure() {
        let kind = match request.ending.is_complete() {
            true => request.status.to_string(),
            false => request.ending.flag().to_owned(),
        };
        all.push(KeyValue::text("error.type", kind));
    }
    let named = [("leno.client.id", request.client_id), ("leno.server.id", request.server_id)];
    let named = named.into_iter().filter(|(_, id)| !id.is_empty());
    all.extend(named.map(|(name, id)| KeyValue::text(name, id)));
    all.extend(route.map(|route| KeyValue::text("leno.route", route)));
    all.extend(request.service.map(|service| KeyValue::text("leno.service", object_name(service))));
    all
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
    use std::cell::Cell;

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
            assert_eq!(sampling.keeps(&own(None, sampling), request), expected, "{request:?}");
        };
        check(&summary(), false);
        check(&RequestSummary { total: Duration::from_millis(3), ..summary() }, true);
        check(&RequestSummary { status: 500, ..summary() }, true);
        check(&RequestSummary { status: 403, ending: Ending::PolicyDenied, ..summary() }, true);
        let refused = [Attempt { failure: "upstream_refused", ..Attempt::default() }];
        check(&RequestSummary { attempts: &refused, ..summary() }, true);
        let all = Sampling { rate: 1.0, ..sampling };
        assert!(all.keeps(&own(None, all), &summary()));
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
        let made = span(&own(Some((7, None)), sampling), &failed);
        assert_eq!((made.kind, made.name.as_str()), (Kind::Client as i32, "GET"));
        assert_eq!(made.parent_span_id, 7_u64.to_be_bytes());
        assert_eq!(made.end_time_unix_nano - made.start_time_unix_nano, 2_250_000);
        let told = |event: usize| made.events[event].attributes.clone();
        assert_eq!(told(1), peer("10.0.0.1:80".parse().unwrap()));
        assert_eq!(told(0).len(), 4);
        assert!(told(0).contains(&KeyValue::number("http.response.status_code", 502)));
        assert_eq!(made.status, Some(Status { message: "none".into(), code: ERROR }));
        for expected in [
            KeyValue::text("url.path", "/a"),
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
}
