//! A request of `leno tap` as one line. Pure.

use super::super::traffic::short as identity;
use crate::output;
use serde_json::Value;

/// Columns of an identity: most of them where the line is long, fewest where the path would have no room.
const IDENTITY_MAX: usize = 20;
const IDENTITY_MIN: usize = 8;
/// Columns before the path without both identities.
const OTHERS: usize = 41;

/// `12:00:01.234 out web → api  GET  200   1.2 ms /path  reason`, in at most so many columns.
pub(super) fn short(request: &Value, columns: Option<usize>) -> String {
    let text = |name: &str| text(request, name);
    // Two identities get six tenths of what is left, and the path the rest.
    let width = columns.map_or(IDENTITY_MAX, |columns| columns.saturating_sub(OTHERS) * 3 / 10);
    let width = width.clamp(IDENTITY_MIN, IDENTITY_MAX);
    let side = |name: &str| fitted(&or_dash(&identity(text(name))), width);
    let line = format!(
        "{} {:<3} {:<width$} {:<width$} {:<6} {:<4} {:>9} {}{}{}{}",
        time(text("timestamp")),
        if text("direction") == "inbound" { "in" } else { "out" },
        side("client.id"),
        side("server.id"),
        printable(text("method")),
        status(request),
        milliseconds(request, "total_ms"),
        printable(text("path")),
        attempts(request),
        reason(request),
        headers(request),
    );
    columns.map_or_else(|| line.clone(), |columns| output::cut_end(&line, columns))
}

/// The same with all that is known.
pub(super) fn wide(request: &Value) -> String {
    let text = |name: &str| or_dash(text(request, name));
    let number = |name: &str| number(request, name);
    let time = |name: &str| milliseconds(request, name);
    format!(
        "{} {} {} -> {} {} {} host={} status={} total={} queue={} connect={} first-byte={} \
         attempts={} retry-denied={} endpoint={} pod={} service={} route={} bytes={}/{} trace={}{}{}",
        text("timestamp"),
        text("direction"),
        text("client.id"),
        text("server.id"),
        printable(&text("method")),
        printable(&text("path")),
        printable(&text("host")),
        status(request),
        time("total_ms"),
        time("queue_ms"),
        time("connect_ms"),
        time("first_byte_ms"),
        number("attempts"),
        text("retry_denied"),
        text("target.addr"),
        text("target.pod"),
        text("service"),
        text("route"),
        number("request_bytes"),
        number("response_bytes"),
        text("trace_id"),
        reason(request),
        headers(request),
    )
}

fn text<'a>(request: &'a Value, name: &str) -> &'a str {
    request.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(request: &Value, name: &str) -> u64 {
    request.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// A client chooses these bytes, and a terminal obeys some of them.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `12:00:01.234` of `2026-11-21T12:00:01.234Z`.
fn time(timestamp: &str) -> &str {
    timestamp.get(11..23).unwrap_or(timestamp)
}

/// The status, and gRPC's behind it.
fn status(request: &Value) -> String {
    let status = number(request, "status");
    match request.get("grpc_status").and_then(Value::as_u64) {
        _ if status == 0 => "-".to_owned(),
        Some(grpc) if grpc > 0 => format!("{status}/{grpc}"),
        _ => status.to_string(),
    }
}

fn milliseconds(request: &Value, name: &str) -> String {
    let value = request.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    if value < 1000.0 { format!("{value:.1}ms") } else { format!("{:.2}s", value / 1000.0) }
}

/// `  2 attempts` of a request that was sent more than once.
fn attempts(request: &Value) -> String {
    match number(request, "attempts") {
        0 | 1 => String::new(),
        several => format!("  {several} attempts"),
    }
}

/// `  no_endpoints: the Service has no endpoint` of a request that is not complete.
fn reason(request: &Value) -> String {
    match (text(request, "ending"), text(request, "reason")) {
        ("complete" | "", _) => String::new(),
        (ending, "") => format!("  {ending}"),
        (ending, reason) => format!("  {ending}: {}", printable(reason)),
    }
}

/// `  x-tenant=a` for each header that was asked for and found.
fn headers(request: &Value) -> String {
    let found = request.get("headers").and_then(Value::as_object).into_iter().flatten();
    let shown = |(name, value): (&String, &Value)| {
        format!("  {name}={}", printable(value.as_str().unwrap_or_default()))
    };
    found.map(shown).collect()
}

/// `shop/web`, or without its namespace where the whole does not fit.
fn fitted(identity: &str, width: usize) -> String {
    let name = identity.rsplit('/').next().unwrap_or_default();
    let fits = identity.chars().count() <= width;
    output::cut(if fits { identity } else { name }, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines() {
        let request = json!({
            "timestamp": "2026-11-21T12:00:01.234Z", "direction": "outbound",
            "client.id": "spiffe://cluster.local/ns/shop/sa/web",
            "server.id": "spiffe://cluster.local/ns/shop/sa/api", "method": "GET", "path": "/a\u{1b}[2J",
            "status": 503, "grpc_status": null, "total_ms": 12.34, "queue_ms": 0.1, "connect_ms": 1.0,
            "first_byte_ms": 12.0, "attempts": 2, "retry_denied": "budget", "target.addr": "10.0.0.8:80", "target.pod": "api-1",
            "service": "shop/api", "route": "", "request_bytes": 1, "response_bytes": 2, "host": "api",
            "trace_id": "", "ending": "upstream_reset", "reason": "the server reset",
            "headers": {"x-tenant": "a\tb"}
        });
        let line = "12:00:01.234 out shop/web             shop/api             GET    503     12.3ms /a?[2J  \
                    2 attempts  upstream_reset: the server reset  x-tenant=a?b";
        assert_eq!(short(&request, None), line);
        let line =
            "12:00:01.234 out shop/web    shop/api    GET    503     12.3ms /a?[2J  2 attemp…";
        assert_eq!(short(&request, Some(80)), line);
        assert_eq!(short(&request, Some(20)), "12:00:01.234 out sh…");
        assert_eq!(fitted("default/bookinfo-productpage", 11), "bookinf…age");
        assert_eq!(fitted("default/web", 10), "web");
        assert_eq!(
            wide(&request),
            "2026-11-21T12:00:01.234Z outbound spiffe://cluster.local/ns/shop/sa/web -> \
             spiffe://cluster.local/ns/shop/sa/api GET /a?[2J host=api status=503 total=12.3ms queue=0.1ms \
             connect=1.0ms first-byte=12.0ms attempts=2 retry-denied=budget endpoint=10.0.0.8:80 pod=api-1 service=shop/api route=- \
             bytes=1/2 trace=-  upstream_reset: the server reset  x-tenant=a?b"
        );
        let grpc =
            json!({"status": 200, "grpc_status": 14, "total_ms": 2500.0, "ending": "complete"});
        assert!(short(&grpc, None).contains("200/14     2.50s"), "{}", short(&grpc, None));
    }
}
