//! What becomes of each field of a route: nothing of what an author writes is ignored in silence.

use super::manifests::route;
use super::routes::{ON_WEB, shop};
use super::*;
use gateway_api::grpcroutes::GrpcRoute;
use gateway_api::httproutes::HttpRoute;
use kube::CustomResourceExt;
use serde_json::Value;
use std::collections::BTreeMap;

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Becomes {
    Served,
    /// The rule, or the backend's share of requests, fails; the author gets an Event.
    Refused,
    /// It says something to people and nothing to a proxy.
    Name,
}
use Becomes::{Name, Refused, Served};

const OF_ROUTE: &[(&str, Becomes, &[&str])] = &[
    ("hostnames", Served, &[]),
    ("parentRefs", Served, &["group", "kind", "name", "namespace", "port", "sectionName"]),
    ("rules.name", Name, &[]),
    ("rules.matches.headers", Served, &["name", "type", "value"]),
    ("rules.backendRefs", Served, &["group", "kind", "name", "namespace", "port", "weight"]),
];
const OF_HTTP: &[(&str, Becomes, &[&str])] = &[
    ("rules.matches.method", Served, &[]),
    ("rules.matches.path", Served, &["type", "value"]),
    ("rules.matches.queryParams", Served, &["name", "type", "value"]),
    ("rules.timeouts", Served, &["backendRequest", "request"]),
];
const OF_GRPC: &[(&str, Becomes, &[&str])] =
    &[("rules.matches.method", Served, &["method", "service", "type"])];
/// In `rules.filters` and in `rules.backendRefs.filters`.
const OF_FILTER: &[(&str, Becomes, &[&str])] = &[
    ("type", Served, &[]),
    // Of the kind Fault; others are refused.
    ("extensionRef", Served, &["group", "kind", "name"]),
    ("requestHeaderModifier.add", Served, &["name", "value"]),
    ("requestHeaderModifier.set", Served, &["name", "value"]),
    ("requestHeaderModifier.remove", Served, &[]),
    ("responseHeaderModifier.add", Served, &["name", "value"]),
    ("responseHeaderModifier.set", Served, &["name", "value"]),
    ("responseHeaderModifier.remove", Served, &[]),
    ("requestMirror.backendRef", Served, &["group", "kind", "name", "namespace", "port"]),
    ("requestMirror.fraction", Served, &["denominator", "numerator"]),
    ("requestMirror.percent", Served, &[]),
];
const OF_HTTP_FILTER: &[(&str, Becomes, &[&str])] = &[
    ("requestRedirect", Served, &["hostname", "port", "scheme", "statusCode"]),
    ("requestRedirect.path", Served, &["replaceFullPath", "replacePrefixMatch", "type"]),
    ("urlRewrite", Served, &["hostname"]),
    ("urlRewrite.path", Served, &["replaceFullPath", "replacePrefixMatch", "type"]),
    (
        "cors",
        Served,
        &[
            "allowCredentials",
            "allowHeaders",
            "allowMethods",
            "allowOrigins",
            "exposeHeaders",
            "maxAge",
        ],
    ),
];

/// Every field of the tables.
fn known(
    of_kind: &[&[(&str, Becomes, &[&str])]],
    of_filter: &[&[(&str, Becomes, &[&str])]],
) -> BTreeMap<String, Becomes> {
    let mut known = BTreeMap::new();
    let mut put = |under: &str, rows: &[(&str, Becomes, &[&str])]| {
        for (field, becomes, parts) in rows {
            let field = format!("{under}{field}");
            match parts {
                [] => drop(known.insert(field, *becomes)),
                parts => parts.iter().for_each(|part| {
                    known.insert(format!("{field}.{part}"), *becomes);
                }),
            }
        }
    };
    of_kind.iter().for_each(|rows| put("", rows));
    for under in ["rules.filters.", "rules.backendRefs.filters."] {
        of_filter.iter().for_each(|rows| put(under, rows));
    }
    known
}

/// Every field of a kind's `spec` that has a value.
fn published(kind: &str) -> Vec<String> {
    let definition = match kind {
        "HTTPRoute" => HttpRoute::crd(),
        _ => GrpcRoute::crd(),
    };
    let definition = serde_json::to_value(definition).unwrap();
    let spec =
        &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut fields = Vec::new();
    leaves(spec, "", &mut fields);
    fields.sort();
    fields
}

fn leaves(schema: &Value, path: &str, fields: &mut Vec<String>) {
    let schema = if schema["items"].is_object() { &schema["items"] } else { schema };
    match schema["properties"].as_object() {
        Some(parts) => parts.iter().for_each(|(name, part)| {
            let dot = if path.is_empty() { "" } else { "." };
            leaves(part, &format!("{path}{dot}{name}"), fields);
        }),
        None => fields.push(path.to_owned()),
    }
}

/// A Gateway API with another field needs a row here, and a decision.
#[test]
fn every_field_of_the_gateway_api_has_a_row() {
    let check = |kind, known: BTreeMap<String, Becomes>| {
        assert_eq!(published(kind), known.into_keys().collect::<Vec<_>>(), "{kind}");
    };
    check("HTTPRoute", known(&[OF_ROUTE, OF_HTTP], &[OF_FILTER, OF_HTTP_FILTER]));
    check("GRPCRoute", known(&[OF_ROUTE, OF_GRPC], &[OF_FILTER]));
}

/// What is refused fails, and an Event names the field.
#[test]
fn what_is_refused_fails_and_is_told() {
    let extension = "ExtensionRef, extensionRef: {group: example.com, kind: Unknown, name: x}";
    let filters = [("ExtensionRef", extension)];
    // gRPC as HTTP/2 carries it.
    for (kind, status) in [("HTTPRoute", 500), ("GRPCRoute", 503)] {
        let check = |rule: &str, problem: &str, rules: &str| {
            let world = shop(&[route(kind, "a", "r", ON_WEB, rule)]);
            check_problems(&world, &[&format!("{kind} a/r: spec.rules[0].{problem}")]);
            check_outbound(&world, "10.96.0.1:80", "a", "detect", &[rules]);
        };
        for (name, filter) in filters {
            let refused = |place: &str| format!("{place}[0]: the filter {name} is not supported");
            let filter = format!("filters: [{{type: {filter}}}]");
            check(
                &format!("{{{filter}, backendRefs: [{{name: v1, port: 80}}]}}"),
                &refused("filters"),
                &format!("r:  -> fail {status} nowhere"),
            );
            check(
                &format!("{{backendRefs: [{{name: v1, port: 80, {filter}}}]}}"),
                &refused("backendRefs[0].filters"),
                &format!("r:  -> broken fail {status}"),
            );
        }
    }
    let refused = known(&[OF_ROUTE, OF_HTTP], &[OF_FILTER, OF_HTTP_FILTER]);
    let refused = refused.into_iter().filter(|(_, becomes)| *becomes == Refused);
    let has_a_case = |field: String| field.contains("filters.extensionRef.");
    assert!(refused.map(|(field, _)| field).all(has_a_case));
}
