//! The model's answers as JSON. Pure; every field is named in `docs/cli.md`.

use leno_model::cors::OriginMatch;
use leno_model::fault::Abort;
use leno_model::name::Resource;
use leno_model::persistence::{Carrier, Persistence};
use leno_model::policy::{
    Authentication, Authorization, InboundPolicy, InboundProtocol, InboundRoute, RateLimit,
};
use leno_model::retry::{GrpcCodes, Retry};
use leno_model::route::{
    Backend, BackendKind, Distribution, Filter, HeaderChange, HostMatch, HttpRoute, HttpRoutes,
    HttpRule, OpaqueRoutes, OutboundPolicy, OutboundProtocol, PathMatch, RequestMatch, TextMatch,
};
use leno_model::workload::{Endpoint, Labels, ProtocolHint};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn endpoint(endpoint: &Endpoint) -> Value {
    let label = |wanted: &str| {
        let found = endpoint.labels.iter().find(|(name, _)| name.as_ref() == wanted);
        found.map(|(_, value)| value.as_ref()).unwrap_or_default()
    };
    // The label is the Service's namespace where there is one; the pod says its own.
    let pod = endpoint.resource.as_ref().filter(|resource| resource.kind() == "Pod");
    let identity = endpoint.identity.as_ref();
    json!({
        "namespace": pod.map_or_else(|| label("namespace"), Resource::namespace),
        "ip": endpoint.address.ip(),
        "port": endpoint.address.port(),
        "pod": pod.map(Resource::name),
        "service": label("service"),
        "identity": identity.map(|identity| identity.name.as_str()),
        "server_name": identity.map(|identity| identity.server_name.as_str()),
        "weight": endpoint.weight,
        "protocol": match endpoint.hint {
            ProtocolHint::Unknown => "unknown",
            ProtocolHint::Http2 => "http2-upgrade",
            ProtocolHint::Opaque => "opaque",
        },
        "opaque_transport_port": endpoint.opaque_transport_port,
        "labels": labels(&endpoint.labels),
    })
}

fn labels(labels: &Labels) -> Value {
    let pairs = labels.iter().map(|(name, value)| (name.to_string(), json!(value.as_ref())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// `pod/web`, `HTTPRoute/web`, `default/http`.
pub(super) fn resource(resource: &Resource) -> Value {
    match resource {
        Resource::Default(name) => json!({"kind": "default", "name": name.as_ref()}),
        Resource::Object { group, kind, namespace, name, section, port } => {
            let mut value = json!({
                "group": group.as_ref(),
                "kind": kind.as_ref(),
                "namespace": namespace.as_ref(),
                "name": name.as_ref(),
            });
            if !section.is_empty() {
                value["section"] = json!(section.as_ref());
            }
            if *port != 0 {
                value["port"] = json!(port);
            }
            value
        }
    }
}

pub(super) fn protocol(protocol: InboundProtocol) -> &'static str {
    match protocol {
        InboundProtocol::Detect { .. } => "detect",
        InboundProtocol::Opaque => "opaque",
        InboundProtocol::Tls => "tls",
        InboundProtocol::Http1 => "http/1",
        InboundProtocol::Http2 => "http/2",
        InboundProtocol::Grpc => "grpc",
    }
}

pub(super) fn inbound(policy: &InboundPolicy) -> Value {
    let timeout = match policy.protocol {
        InboundProtocol::Detect { timeout } => Some(timeout),
        _ => None,
    };
    json!({
        "direction": "inbound",
        "protocol": protocol(policy.protocol),
        "detect_timeout_seconds": seconds(timeout),
        "server": resource(&policy.server),
        "authorizations": policy.authorizations.iter().map(authorization).collect::<Vec<_>>(),
        "routes": policy.routes.iter().map(inbound_route).collect::<Vec<_>>(),
        "rate_limit": policy.rate_limit.as_deref().map(rate_limit),
    })
}

pub(super) fn rate_limit(limit: &RateLimit) -> Value {
    let overrides = limit.overrides.iter().map(|one| {
        let identities: Vec<&str> = one.identities.iter().map(AsRef::as_ref).collect();
        json!({"requests_per_second": one.requests_per_second, "identities": identities})
    });
    json!({
        "resource": resource(&limit.resource),
        "total": limit.total,
        "identity": limit.identity,
        "overrides": overrides.collect::<Vec<_>>(),
    })
}

fn inbound_route(route: &InboundRoute) -> Value {
    json!({
        "resource": resource(&route.resource),
        "matches": route.matches.iter().map(request_match).collect::<Vec<_>>(),
        "authorizations": route.authorizations.iter().map(authorization).collect::<Vec<_>>(),
    })
}

pub(super) fn authorization(authorization: &Authorization) -> Value {
    let networks = authorization.networks.iter().map(|network| {
        let except: Vec<String> = network.except.iter().map(ToString::to_string).collect();
        json!({"net": network.net.to_string(), "except": except})
    });
    let (authentication, identities, suffixes) = match &authorization.authentication {
        Authentication::Unauthenticated => ("none", Vec::new(), Vec::new()),
        Authentication::TlsUnauthenticated => ("tls", Vec::new(), Vec::new()),
        Authentication::TlsAuthenticated { identities, suffixes } => (
            "mutual-tls",
            identities.iter().map(ToString::to_string).collect(),
            // No labels: every name of the mesh.
            suffixes.iter().map(|suffix| format!("*.{}", suffix.0.join("."))).collect(),
        ),
    };
    let suffixes: Vec<String> =
        suffixes.into_iter().map(|text| text.trim_end_matches('.').to_owned()).collect();
    json!({
        "resource": resource(&authorization.resource),
        "networks": networks.collect::<Vec<_>>(),
        "authentication": authentication,
        "identities": identities,
        "identity_suffixes": suffixes,
    })
}

pub(super) fn outbound(policy: &OutboundPolicy) -> Value {
    let mut value = json!({"direction": "outbound", "parent": resource(&policy.parent)});
    let protocol = match &policy.protocol {
        OutboundProtocol::Detect { timeout, http1, http2, opaque } => {
            value["detect_timeout_seconds"] = seconds(Some(*timeout));
            value["http1"] = http(http1);
            value["http2"] = http(http2);
            value["opaque"] = opaque_routes(opaque);
            "detect"
        }
        OutboundProtocol::Http1(routes) => {
            value["http1"] = http(routes);
            "http/1"
        }
        OutboundProtocol::Http2(routes) => {
            value["http2"] = http(routes);
            "http/2"
        }
        OutboundProtocol::Grpc(routes) => {
            value["grpc"] = http(routes);
            "grpc"
        }
        OutboundProtocol::Opaque(routes) => {
            value["opaque"] = opaque_routes(routes);
            "opaque"
        }
        OutboundProtocol::Tls(routes) => {
            value["tls"] = opaque_routes(routes);
            "tls"
        }
    };
    value["protocol"] = json!(protocol);
    value
}

fn http(routes: &HttpRoutes) -> Value {
    routes.routes.iter().map(http_route).collect()
}

fn http_route(route: &HttpRoute) -> Value {
    json!({
        "resource": resource(&route.resource),
        "hosts": route.hosts.iter().map(host).collect::<Vec<_>>(),
        "rules": route.rules.iter().map(http_rule).collect::<Vec<_>>(),
    })
}

pub(super) fn http_rule(rule: &HttpRule) -> Value {
    json!({
        "matches": rule.matches.iter().map(request_match).collect::<Vec<_>>(),
        "filters": rule.filters.iter().map(filter).collect::<Vec<_>>(),
        "backends": distribution(&rule.backends),
        "request_timeout_seconds": seconds(rule.timeouts.request),
        "response_timeout_seconds": seconds(rule.timeouts.response),
        "idle_timeout_seconds": seconds(rule.timeouts.idle),
        "retry": rule.retry.as_deref().map(retry),
        "session_persistence": rule.persistence.iter().map(|one| persistence(one)).collect::<Vec<_>>(),
    })
}

/// Without the keys.
fn persistence(persistence: &Persistence) -> Value {
    json!({
        "backend": persistence.backend,
        "type": match persistence.carrier {
            Carrier::Header => "header",
            Carrier::Cookie { is_permanent: false } => "session cookie",
            Carrier::Cookie { is_permanent: true } => "permanent cookie",
        },
        "name": persistence.name.as_ref(),
        "absolute_timeout_seconds": seconds(persistence.absolute_timeout),
        "idle_timeout_seconds": seconds(persistence.idle_timeout),
    })
}

fn retry(retry: &Retry) -> Value {
    let statuses = retry.statuses.iter().map(|(from, to)| json!([from, to]));
    json!({
        "retries_max": retry.retries_max,
        "statuses": statuses.collect::<Vec<_>>(),
        "grpc": (0..GrpcCodes::COUNT).filter(|code| retry.grpc.contains(*code)).collect::<Vec<_>>(),
        "any_method": retry.any_method,
        "attempt_timeout_seconds": seconds(retry.attempt_timeout),
        "backoff_seconds": retry.backoff.as_secs_f64(),
    })
}

fn opaque_routes(routes: &OpaqueRoutes) -> Value {
    let routes = routes.routes.iter().map(|route| {
        json!({
            "resource": resource(&route.resource),
            "server_names": route.server_names.iter().map(host).collect::<Vec<_>>(),
            "rules": route.rules.iter()
                .map(|rule| json!({"backends": distribution(rule)}))
                .collect::<Vec<_>>(),
        })
    });
    routes.collect()
}

fn host(host: &HostMatch) -> String {
    match host {
        HostMatch::Exact(name) => name.to_string(),
        HostMatch::Suffix(labels) => format!("*.{}", labels.join(".")),
    }
}

fn request_match(wanted: &RequestMatch) -> Value {
    let text = |name: &Arc<str>, value: &TextMatch| match value {
        TextMatch::Exact(exact) => json!({"name": name.as_ref(), "exact": exact.as_ref()}),
        TextMatch::Regex(pattern) => json!({"name": name.as_ref(), "regex": pattern.as_str()}),
    };
    json!({
        "path": wanted.path.as_ref().map(|path| match path {
            PathMatch::Exact(path) => json!({"exact": path.as_ref()}),
            PathMatch::Prefix(path) => json!({"prefix": path.as_ref()}),
            PathMatch::Regex(pattern) => json!({"regex": pattern.as_str()}),
        }),
        "headers": wanted.headers.iter().map(|h| text(&h.name, &h.value)).collect::<Vec<_>>(),
        "query": wanted.query.iter().map(|q| text(&q.name, &q.value)).collect::<Vec<_>>(),
        "method": wanted.method.as_deref(),
    })
}

fn filter(filter: &Filter) -> Value {
    match filter {
        Filter::RequestHeaders(change) => json!({"request_headers": header_change(change)}),
        Filter::ResponseHeaders(change) => json!({"response_headers": header_change(change)}),
        Filter::Redirect(redirect) => json!({"redirect": {
            "scheme": redirect.scheme.as_deref(),
            "host": redirect.host.as_deref(),
            "path_full": redirect.path_full.as_deref(),
            "path_prefix": redirect.path_prefix.as_deref(),
            "port": redirect.port,
            "status": redirect.status,
        }}),
        Filter::Rewrite(rewrite) => json!({"rewrite": {
            "host": rewrite.host.as_deref(),
            "path_full": rewrite.path_full.as_deref(),
            "path_prefix": rewrite.path_prefix.as_deref(),
        }}),
        Filter::Mirror(mirror) => json!({"mirror": {
            "backend": backend(&mirror.backend),
            "numerator": mirror.numerator,
            "denominator": mirror.denominator,
        }}),
        Filter::Fault(fault) => json!({"fault": {
            "name": fault.name.as_ref(),
            "delay_millis": fault.delay.map(|(delay, _)| delay.as_millis()),
            "abort": fault.abort.map(|(abort, _)| match abort {
                Abort::Http(status) => json!({"http_status": status}),
                Abort::Grpc(code) => json!({"grpc_code": code}),
            }),
            "until_millis": fault.until.as_millis(),
        }}),
        Filter::Cors(cors) => json!({"cors": {
            "origins": cors.origins.iter().map(OriginMatch::as_str).collect::<Vec<_>>(),
            "methods": cors.methods.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
            "headers": cors.headers.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
            "exposed": cors.exposed.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
            "credentials": cors.credentials,
            "max_age_seconds": cors.max_age_seconds,
        }}),
        Filter::Fail(failure) => json!({"fail": {
            "status": failure.status,
            "message": failure.message.as_ref(),
            "numerator": failure.numerator,
            "denominator": failure.denominator,
        }}),
    }
}

fn header_change(change: &HeaderChange) -> Value {
    let pairs = |pairs: &[(Arc<str>, Arc<str>)]| -> Vec<Value> {
        let named = |(name, value): &(Arc<str>, Arc<str>)| json!({"name": name.as_ref(), "value": value.as_ref()});
        pairs.iter().map(named).collect()
    };
    let remove: Vec<&str> = change.remove.iter().map(AsRef::as_ref).collect();
    json!({"set": pairs(&change.set), "add": pairs(&change.add), "remove": remove})
}

/// `weight` is there where one is drawn by weight; without it, the first that is available.
fn distribution(distribution: &Distribution) -> Value {
    match distribution {
        Distribution::Empty => json!([]),
        Distribution::First(backends) => backends.iter().map(backend).collect(),
        Distribution::Random(backends) => backends
            .iter()
            .map(|(one, weight)| {
                let mut value = backend(one);
                value["weight"] = json!(weight);
                value
            })
            .collect(),
    }
}

fn backend(backend: &Backend) -> Value {
    let mut value = json!({
        "resource": resource(&backend.resource),
        "filters": backend.filters.iter().map(filter).collect::<Vec<_>>(),
    });
    match &backend.kind {
        BackendKind::Forward(one) => value["endpoint"] = endpoint(one),
        BackendKind::Balance(balance) => {
            value["destination"] = json!(balance.destination.as_ref());
            if let Some(budget) = balance.retry_budget {
                value["retry_budget"] = json!({
                    "percent": budget.percent,
                    "interval_seconds": budget.interval.as_secs_f64(),
                    "count": budget.count,
                    "count_interval_seconds": budget.count_interval.as_secs_f64(),
                });
            }
        }
        BackendKind::Broken => value["broken"] = json!(true),
    }
    value
}

fn seconds(duration: Option<Duration>) -> Value {
    duration.map_or(Value::Null, |duration| json!(duration.as_secs_f64()))
}
