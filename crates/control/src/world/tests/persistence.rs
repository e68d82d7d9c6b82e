//! Session persistence of routes and Services, as proxies get it.

use super::manifests::route;
use super::routes::{ON_WEB, shop};
use super::*;
use leno_model::persistence::{Carrier, Persistence};
use std::time::Duration;

/// Rules of `web:80`, for HTTP/2 and gRPC: backend, type, name, timeouts in seconds, scope.
fn shown(world: &World) -> Vec<String> {
    let policy = world.outbound(&address("10.96.0.1:80"), "a").unwrap();
    show_policy(&policy);
    let routes = match &policy.protocol {
        OutboundProtocol::Detect { http2, .. } => http2,
        OutboundProtocol::Http2(routes) | OutboundProtocol::Grpc(routes) => routes,
        _ => panic!("no HTTP/2"),
    };
    let one = |persistence: &Persistence| {
        let backend = persistence.backend.map_or_else(|| "all".to_owned(), |n| n.to_string());
        let kind = match persistence.carrier {
            Carrier::Header => "header",
            Carrier::Cookie { is_permanent: false } => "cookie",
            Carrier::Cookie { is_permanent: true } => "permanent",
        };
        let seconds = |timeout: Option<Duration>| timeout.map_or(0, |timeout| timeout.as_secs());
        let times = (seconds(persistence.absolute_timeout), seconds(persistence.idle_timeout));
        let generated = persistence.name.starts_with("leno-session-");
        let name = if generated { "generated" } else { &*persistence.name };
        format!("{backend} {kind} {name} {times:?} {}", persistence.scope)
    };
    let rules = routes.routes.iter().flat_map(|route| &route.rules);
    rules.flat_map(|rule| &rule.persistence).map(|persistence| one(persistence)).collect()
}

#[track_caller]
fn check(objects: &[String], expected: &[&str], problems: &[&str]) {
    let world = shop(objects);
    check_problems(&world, problems);
    assert_eq!(shown(&world), expected);
}

fn rule(field: &str) -> String {
    format!("{{sessionPersistence: {field}, backendRefs: [{{name: v1, port: 80}}]}}")
}

fn policy(service: &str, field: &str) -> String {
    format!(
        "---
apiVersion: leno.dev/v1alpha1
kind: XBackendTrafficPolicy
metadata: {{name: {service}, namespace: a}}
spec:
  targetRefs: [{{group: '', kind: Service, name: {service}}}]
  sessionPersistence: {field}
"
    )
}

#[test]
fn rules() {
    let http = |rules: &str| [route("HTTPRoute", "a", "r", ON_WEB, rules)];
    check(&http(&rule("{}")), &["all cookie generated (0, 0) HTTPRoute a/r spec.rules[0]"], &[]);
    check(
        &http(&rule(
            "{type: Header, sessionName: X-Session, absoluteTimeout: 1h, idleTimeout: 5m}",
        )),
        &["all header x-session (3600, 300) HTTPRoute a/r spec.rules[0]"],
        &[],
    );
    check(
        &http(&rule("{absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}")),
        &["all permanent generated (3600, 0) HTTPRoute a/r spec.rules[0]"],
        &[],
    );
    // Rules have sessions of their own.
    check(
        &http(&format!("{}, {}", rule("{sessionName: s}"), rule("{sessionName: s}"))),
        &[
            "all cookie s (0, 0) HTTPRoute a/r spec.rules[0]",
            "all cookie s (0, 0) HTTPRoute a/r spec.rules[1]",
        ],
        &[],
    );
    check(
        &[route("GRPCRoute", "a", "r", ON_WEB, &rule("{type: Header, sessionName: s}"))],
        &["all header s (0, 0) GRPCRoute a/r spec.rules[0]"],
        &[],
    );
}

#[test]
fn a_rule_with_a_mistake_is_served_without_sessions() {
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let world = shop(&[route(kind, "a", "r", ON_WEB, &rule("{type: Later, idleTimeout: 0s}"))]);
        let at = format!("{kind} a/r: spec.rules[0].sessionPersistence.type: ");
        let why = "\"Later\" is not one of Cookie, Header; the rule is served without";
        check_problems(&world, &[&format!("{at}{why}")]);
        assert_eq!(shown(&world), Vec::<String>::new());
        let verdict = world.routes.verdicts.first().unwrap();
        assert!(format!("{verdict:?}").contains("sessionPersistence.type"), "{verdict:?}");
    }
}

#[test]
fn backends_without_weight_keep_their_sessions() {
    let backends = "backendRefs: [{name: v1, port: 80}, {name: v2, port: 80, weight: 0}]";
    let check = |field: &str, expected: &str| {
        let rule = format!("{{{field}{backends}}}");
        let world = shop(&[route("HTTPRoute", "a", "r", ON_WEB, &rule)]);
        check_problems(&world, &[]);
        check_outbound(&world, "10.96.0.1:80", "a", "detect", &[expected]);
    };
    check("", "r:  -> v1.a:80");
    check("sessionPersistence: {}, ", "r:  -> 1*v1.a:80 + 0*v2.a:80");
    let none = backends.replace("{name: v1, port: 80}, ", "");
    let rule = format!("{{sessionPersistence: {{}}, {none}}}");
    let world = shop(&[route("HTTPRoute", "a", "r", ON_WEB, &rule)]);
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &["r:  -> fail 500 nowhere"]);
    assert_eq!(shown(&world), Vec::<String>::new());
}

#[test]
fn policies_of_services() {
    let of_web = policy("web", "{sessionName: s}");
    check(std::slice::from_ref(&of_web), &["0 cookie s (0, 0) Service a/web"], &[]);
    let rule = "{backendRefs: [{name: v1, port: 80}, {name: v2, port: 80}]}";
    let split = route("HTTPRoute", "a", "r", ON_WEB, rule);
    let of_v2 = policy("v2", "{type: Header, sessionName: s}");
    check(
        &[split, of_v2.clone(), of_web],
        &["1 header s (0, 0) HTTPRoute a/r spec.rules[0] a/v2"],
        &[],
    );
    // The field of a rule comes first.
    let rule = "{sessionPersistence: {sessionName: mine}, backendRefs: [{name: v2, port: 80}]}";
    check(
        &[route("HTTPRoute", "a", "r", ON_WEB, rule), of_v2],
        &["all cookie mine (0, 0) HTTPRoute a/r spec.rules[0]"],
        &[],
    );
}
