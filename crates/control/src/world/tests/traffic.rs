//! Timeouts and retries of routes and Services, as proxies get them.

use super::manifests::*;
use super::*;

const ON_WEB: &str = "{group: '', kind: Service, name: web}";

/// Timeouts and retries of the first rule of `web:80`, for HTTP/2 and gRPC.
fn shown(policy: &OutboundPolicy) -> String {
    let routes = match &policy.protocol {
        OutboundProtocol::Detect { http2, .. } => http2,
        OutboundProtocol::Http1(routes)
        | OutboundProtocol::Http2(routes)
        | OutboundProtocol::Grpc(routes) => routes,
        _ => panic!("bytes"),
    };
    let rule = &routes.routes[0].rules[0];
    let mut shown = Vec::new();
    let t = &rule.timeouts;
    for (name, timeout) in [("request", t.request), ("response", t.response), ("idle", t.idle)] {
        shown.extend(timeout.map(|timeout| format!("{name} {timeout:?}")));
    }
    if let Some(retry) = &rule.retry {
        let codes: Vec<_> = retry.grpc.iter().collect();
        let (max, statuses) = (retry.retries_max, &retry.statuses);
        shown.push(format!("retry {max} {statuses:?} {codes:?} {:?}", retry.backoff));
        shown.extend(retry.attempt_timeout.map(|timeout| format!("attempt {timeout:?}")));
        shown.extend(retry.any_method.then(|| "any method".to_owned()));
    }
    shown.join(", ")
}

/// `service` and `route` are annotations, `rule` is what the rule has besides its backend.
#[track_caller]
fn check_of(
    kind: &str,
    (service_says, route_says, rule): (&str, &str, &str),
    expected: &str,
    problems: &[&str],
) {
    let annotated = |object: String, says: &str| {
        object.replacen("{name: ", &format!("{{annotations: {{{says}}}, name: "), 1)
    };
    let comma = if rule.is_empty() { "" } else { ", " };
    let rule = format!("{{{rule}{comma}backendRefs: [{{name: web, port: 80}}]}}");
    let world = world(
        &[
            annotated(service("a", "web", "10.96.0.1", ""), service_says),
            annotated(route(kind, "a", "r", ON_WEB, &rule), route_says),
        ]
        .concat(),
    );
    check_problems(&world, problems);
    let policy = world.outbound(&address("10.96.0.1:80"), "a").unwrap();
    assert_eq!(shown(&policy), expected);
    show_policy(&policy);
}

#[track_caller]
fn check(says: (&str, &str, &str), expected: &str, problems: &[&str]) {
    check_of("HTTPRoute", says, expected, problems);
}

#[test]
fn timeouts_of_rules_routes_and_services() {
    check(("", "", "timeouts: {request: 500ms}"), "request 500ms", &[]);
    check(("", "", "timeouts: {request: 2s, backendRequest: 1s}"), "request 2s, response 1s", &[]);
    check(("", "", "timeouts: {request: 0s, backendRequest: 1s}"), "response 1s", &[]);
    check(("", "timeout.linkerd.io/request: 2s", ""), "request 2s", &[]);
    check(("", "timeout.linkerd.io/idle: 2s, timeout.leno.dev/idle: 3s", ""), "idle 3s", &[]);
    // As in linkerd, an annotation of the route comes before the field.
    check(("", "timeout.linkerd.io/request: 2s", "timeouts: {request: 1s}"), "request 2s", &[]);
    let service = "timeout.linkerd.io/request: 9s, timeout.linkerd.io/idle: 4s";
    check((service, "", ""), "request 9s, idle 4s", &[]);
    check((service, "timeout.leno.dev/response: 1s", ""), "response 1s", &[]);
    check((service, "", "timeouts: {request: 0s}"), "", &[]);
    check_of("GRPCRoute", ("", "timeout.leno.dev/request: 3s", ""), "request 3s", &[]);
}

#[test]
fn timeouts_that_are_not_valid() {
    check(
        ("", "timeout.linkerd.io/request: '5', timeout.linkerd.io/idle: 1s", ""),
        "idle 1s",
        &["HTTPRoute a/r: metadata.annotations[timeout.linkerd.io/request]: "],
    );
    check(
        ("timeout.leno.dev/idle: soon", "", ""),
        "",
        &["Service a/web: metadata.annotations[timeout.leno.dev/idle]: "],
    );
    check(
        ("", "", "timeouts: {request: 1s, backendRequest: 2s}"),
        "request 1s, response 2s",
        &[
            "HTTPRoute a/r: spec.rules[0].timeouts.backendRequest: 2s is longer than timeouts.request, which is 1s; the rule answers with a failure",
        ],
    );
}

#[test]
fn retries_of_rules_routes_and_services() {
    check(
        ("", "", "retry: {codes: [503], attempts: 2, backoff: 10ms}"),
        "retry 2 [(503, 503)] [] 10ms",
        &[],
    );
    let route = "retry.linkerd.io/http: '5xx', retry.linkerd.io/limit: '3', retry.linkerd.io/timeout: 300ms";
    check(("", route, ""), "retry 3 [(500, 599)] [] 25ms, attempt 300ms", &[]);
    check(
        (
            "",
            "retry.linkerd.io/timeout: 300ms, retry.leno.dev/methods: all",
            "retry: {codes: [500]}",
        ),
        "retry 1 [(500, 500)] [] 25ms, attempt 300ms, any method",
        &[],
    );
    let service = "retry.leno.dev/http: gateway-error, retry.leno.dev/grpc: 'unavailable,internal'";
    check((service, "", ""), "retry 1 [(502, 504)] [13, 14] 25ms", &[]);
    check((service, "retry.linkerd.io/limit: '0'", ""), "retry 0 [] [] 25ms", &[]);
    check_of("GRPCRoute", (service, "", ""), "retry 1 [] [13, 14] 25ms", &[]);
    check_of("GRPCRoute", ("", "retry.linkerd.io/grpc: cancelled", ""), "retry 1 [] [1] 25ms", &[]);
}

#[test]
fn retries_that_are_not_valid() {
    check(
        ("", "retry.linkerd.io/http: never", ""),
        "",
        &["HTTPRoute a/r: metadata.annotations[retry.linkerd.io/http]: \"never\" is not one of"],
    );
    check(
        ("", "retry.linkerd.io/grpc: internal", ""),
        "",
        &[
            "HTTPRoute a/r: metadata.annotations[retry.linkerd.io/grpc]: not valid on a route of this kind",
        ],
    );
    check(
        ("retry.leno.dev/http: '503', retry.leno.dev/limit: '11'", "", ""),
        "retry 1 [(503, 503)] [] 25ms",
        &[
            "Service a/web: metadata.annotations[retry.leno.dev/limit]: \"11\" is not a number from 0 to 10",
        ],
    );
    check(
        ("retry.leno.dev/http: '503', retry.leno.dev/methods: POST", "", ""),
        "retry 1 [(503, 503)] [] 25ms",
        &[
            "Service a/web: metadata.annotations[retry.leno.dev/methods]: \"POST\" is not one of all, idempotent",
        ],
    );
    check(
        ("", "", "retry: {attempts: 99}"),
        "",
        &["HTTPRoute a/r: spec.rules[0].retry.attempts: 99 is not a number from 0 to 10"],
    );
}
