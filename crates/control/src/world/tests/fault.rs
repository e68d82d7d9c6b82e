//! Faults, and routes that refer to them.

use super::manifests::route;
use super::routes::{ON_WEB, shop};
use super::*;

/// A Fault `a/f`, written at the beginning of 2026; `spec` in YAML's flow form.
fn fault(spec: &str) -> String {
    format!(
        "---
apiVersion: leno.dev/v1alpha1
kind: Fault
metadata: {{name: f, namespace: a, creationTimestamp: '2026-01-01T00:00:00Z'}}
spec: {{{spec}}}
"
    )
}

/// A rule with a filter that refers to a Fault.
fn on(name: &str) -> String {
    format!(
        "{{filters: [{{type: ExtensionRef, extensionRef: {{group: leno.dev, kind: Fault, name: {name}}}}}], backendRefs: [{{name: v1, port: 80}}]}}"
    )
}

/// What a route with this fault does, and the problems. Both kinds of routes do the same.
#[track_caller]
fn check(spec: &str, shown: &str, problems: &[&str]) {
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let world = shop(&[fault(spec), route(kind, "a", "r", ON_WEB, &on("f"))]);
        let invalid = format!(
            "{kind} a/r: spec.rules[0].filters[0].extensionRef.name: Fault a/f is not valid; it injects nothing"
        );
        let mut all: Vec<String> =
            problems.iter().map(|wrong| format!("Fault a/f: {wrong}")).collect();
        all.splice(0..0, (!problems.is_empty()).then_some(invalid));
        all.sort_by_key(|problem| !problem.starts_with("Fault"));
        check_problems(&world, &all.iter().map(String::as_str).collect::<Vec<_>>());
        let verdict = world.object_verdicts().next().unwrap();
        assert_eq!(verdict.accepted.holds, problems.is_empty());
        let shown = format!("r:  -> {shown}{}v1.a:80", if shown.is_empty() { "" } else { " " });
        check_outbound(&world, "10.96.0.1:80", "a", "detect", &[&shown]);
    }
}

#[test]
fn faults() {
    check(
        "delay: {duration: 300ms, percent: 10}, ttl: 10m",
        "fault a/f delay 300ms 10/100 until 1767226200s",
        &[],
    );
    check(
        "abort: {httpStatus: 503, fraction: {numerator: 1, denominator: 1000}}, until: '2026-01-01T00:01:00Z'",
        "fault a/f abort Http(503) 1/1000 until 1767225660s",
        &[],
    );
    // The earlier end counts.
    check(
        "abort: {grpcStatus: UNAVAILABLE}, until: '2026-01-01T00:01:00Z', ttl: 1h",
        "fault a/f abort Grpc(14) 100/100 until 1767225660s",
        &[],
    );
    check(
        "abort: {httpStatus: 500}, ttl: 1s, headers: [{name: X-Test, value: '1'}], clients: {identities: ['spiffe://cluster.local/ns/a/sa/web', '*.shop.serviceaccount.identity.leno.cluster.local']}",
        "fault a/f abort Http(500) 100/100 x-test=1 of spiffe://cluster.local/ns/a/sa/web web.a.serviceaccount.identity.leno.cluster.local *.shop.serviceaccount.identity.leno.cluster.local until 1767225601s",
        &[],
    );
}

#[test]
fn faults_that_are_refused() {
    let refused = |spec: &str, problem: &str| {
        let problem = format!("{problem}; the fault injects nothing");
        check(spec, "", &[&problem]);
    };
    refused("ttl: 1m", "spec: the fault has neither delay nor abort");
    refused(
        "abort: {httpStatus: 500}",
        "spec: the fault has neither ttl nor until: it must end by itself",
    );
    let delay = |duration: &str| format!("delay: {{duration: {duration}}}, ttl: 1m");
    let field = "spec.delay.duration";
    refused(&delay("61s"), &format!("{field}: 61s is not a delay of more than 0s and at most 1m"));
    refused(&delay("0s"), &format!("{field}: 0s is not a delay of more than 0s and at most 1m"));
    refused("delay: {}, ttl: 1m", &format!("{field}: missing"));
    let abort = |parts: &str| format!("abort: {{{parts}}}, ttl: 1m");
    refused(
        &abort("httpStatus: 200"),
        "spec.abort.httpStatus: 200 is not a status from 400 to 599",
    );
    refused(
        &abort("grpcStatus: Unavailable"),
        "spec.abort.grpcStatus: \"Unavailable\" is not the name of a gRPC code of a failure, such as UNAVAILABLE",
    );
    refused(&abort(""), "spec.abort: exactly one of httpStatus and grpcStatus is needed");
    refused(
        &abort("httpStatus: 500, percent: 101"),
        "spec.abort: 101 of 100 is not a share of requests",
    );
    let with = |more: &str| format!("abort: {{httpStatus: 500}}, ttl: 1m, {more}");
    refused(
        &with("clients: {identities: []}"),
        "spec.clients.identities: the list is empty; leave clients out for requests of every client",
    );
    refused(&with("headers: []"), "spec.headers: 0 is not a number of headers from 1 to 64");
    refused(
        &with("headers: [{name: 'a b', value: c}]"),
        "spec.headers[0].name: \"a b\" is not a header name",
    );
    refused(
        "abort: {httpStatus: 500}, ttl: 169h",
        "spec.ttl: the fault ends more than 7 days after it was created",
    );
    refused(
        "abort: {httpStatus: 500}, until: '2026-01-08T00:00:01Z'",
        "spec.until: the fault ends more than 7 days after it was created",
    );
}

#[test]
fn a_fault_that_is_not_there_injects_nothing() {
    let world = shop(&[route("HTTPRoute", "a", "r", ON_WEB, &on("gone"))]);
    let field = "spec.rules[0].filters[0].extensionRef.name";
    let problem =
        format!("HTTPRoute a/r: {field}: Fault a/gone does not exist; it injects nothing");
    check_problems(&world, &[&problem]);
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &["r:  -> v1.a:80"]);
    let resolved = &world.verdicts()[0].parents[0].resolved;
    assert_eq!((resolved.holds, resolved.reason), (false, "FaultNotFound"));
}
