//! gRPC routes: service and method are path matches in the model.

use super::backend::{backend, backend_message, is_penalizing};
use super::distribution::distribution;
use super::http::{failure_of_all, failure_of_broken, timeouts, timeouts_message};
use super::own::{Collected, Own, Spot};
use super::spared::{Spared, rest};
use super::{retry, some_rules};
use crate::matching::{self, FailureKind};
use crate::{WireError, parts};
use leno_model::limit::{BACKENDS_MAX, FILTERS_MAX, MATCHES_MAX};
use leno_model::pattern::Patterns;
use leno_model::route::{
    Backend, Distribution, Failure, Filter, HttpRoute, HttpRoutes, HttpRule, PathMatch,
    RequestMatch,
};
use linkerd2_proxy_api::{grpc_route, outbound as message};

distribution!(grpc_route);

/// gRPC's code UNAVAILABLE.
const UNAVAILABLE: u16 = 14;
/// A method of whatever service: this expression, then the escaped name.
const ANY_SERVICE: &str = "/[^/]+/";
/// Longer methods have no form as an expression.
const METHOD_BYTES_MAX: usize = 256;

pub(super) fn routes(
    messages: &[message::GrpcRoute],
    (own, spot): (&Own<'_>, Spot),
    patterns: &Patterns,
    spared: &mut Spared,
) -> Result<HttpRoutes, WireError> {
    let rule_of = |route, number, message: &message::grpc_route::Rule| {
        rule(message, (own, spot.route(route).rule(number)), patterns)
    };
    let route = |place, message: &message::GrpcRoute| {
        patterns.begin_route();
        some_rules(message.rules.len())?;
        Ok(HttpRoute {
            resource: parts::resource(message.metadata.as_ref(), "routes.metadata")?,
            hosts: matching::hosts(&message.hosts)?,
            rules: (message.rules.iter().enumerate())
                .map(|(number, message)| rule_of(place, number, message))
                .collect::<Result<_, _>>()?,
        })
    };
    let matches = |message: &message::grpc_route::Rule| {
        message.matches.iter().map(|one| rpc_match(one, patterns)).collect()
    };
    let rest_of = |place, message: &message::GrpcRoute, resource| {
        let rule = |number, message: &_| rule_of(place, number, message);
        rest(resource, &message.hosts, &message.rules, rule, matches, UNAVAILABLE)
    };
    let routes = spared.routes(messages, |message| message.metadata.as_ref(), route, rest_of)?;
    Ok(HttpRoutes { routes })
}

fn rule(
    message: &message::grpc_route::Rule,
    (own, spot): (&Own<'_>, Spot),
    patterns: &Patterns,
) -> Result<HttpRule, WireError> {
    parts::at_most(message.matches.len(), MATCHES_MAX, "routes.rules.matches")?;
    #[expect(deprecated, reason = "control planes from before `timeouts` say only this")]
    let old_timeout = message.request_timeout.as_ref();
    Ok(HttpRule {
        matches: message
            .matches
            .iter()
            .map(|one| rpc_match(one, patterns))
            .collect::<Result<_, _>>()?,
        filters: own.merge(spot, filters(&message.filters)?)?,
        backends: distribution(message.backends.as_ref(), |number, one| {
            let filters = own.merge(spot.backend(number), filters(&one.filters)?)?;
            backend(one.backend.as_ref(), filters).map(|backend| own.complete(backend))
        })?,
        timeouts: timeouts(message.timeouts.as_ref(), old_timeout)?,
        retry: retry::grpc(message.retry.as_ref())?,
        persistence: own.persistence(spot),
    })
}

pub(crate) fn rpc_match(
    message: &grpc_route::GrpcRouteMatch,
    patterns: &Patterns,
) -> Result<RequestMatch, WireError> {
    let path = match &message.rpc {
        None => None,
        Some(rpc) => rpc_path(&rpc.service, &rpc.method, patterns)?,
    };
    Ok(RequestMatch {
        path,
        headers: matching::header_matches(&message.headers, patterns)?,
        ..RequestMatch::default()
    })
}

/// A name in a gRPC path: identifiers and dots (protobuf's language specification), nothing that a path could misread.
fn is_rpc_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// The expression for a method of any service.
fn of_any_service(method: &str) -> String {
    format!("{ANY_SERVICE}{}", method.replace('.', "\\."))
}

fn rpc_path(
    service: &str,
    method: &str,
    patterns: &Patterns,
) -> Result<Option<PathMatch>, WireError> {
    for (name, field) in [(service, "rpc.service"), (method, "rpc.method")] {
        parts::text(name, field)?;
        if !is_rpc_name(name) {
            return Err(WireError::invalid(field, format_args!("{name:?} is not a gRPC name")));
        }
    }
    Ok(match (service, method) {
        ("", "") => None,
        (service, "") => Some(PathMatch::Prefix(format!("/{service}").into())),
        ("", method) => {
            parts::at_most(method.len(), METHOD_BYTES_MAX, "rpc.method")?;
            let text = of_any_service(method);
            Some(PathMatch::Regex(matching::pattern(&text, "rpc.method", patterns)?))
        }
        (service, method) => Some(PathMatch::Exact(format!("/{service}/{method}").into())),
    })
}

fn rpc_message(path: &PathMatch) -> Option<grpc_route::GrpcRpcMatch> {
    let rpc = |service: &str, method: &str| {
        (is_rpc_name(service) && is_rpc_name(method)).then(|| grpc_route::GrpcRpcMatch {
            service: service.to_owned(),
            method: method.to_owned(),
        })
    };
    match path {
        PathMatch::Exact(path) => {
            let (service, method) = path.strip_prefix('/')?.split_once('/')?;
            (!service.is_empty() && !method.is_empty()).then(|| rpc(service, method))?
        }
        PathMatch::Prefix(path) => {
            let service = path.strip_prefix('/')?;
            rpc(service.strip_suffix('/').unwrap_or(service), "")
        }
        PathMatch::Regex(pattern) => {
            let method = pattern.as_str().strip_prefix(ANY_SERVICE)?.replace("\\.", ".");
            // Only what `rpc_path` would write: any other expression is not a name.
            let is_one = !method.is_empty()
                && method.len() <= METHOD_BYTES_MAX
                && of_any_service(&method) == pattern.as_str();
            is_one.then(|| rpc("", &method))?
        }
    }
}

fn filters(messages: &[message::grpc_route::Filter]) -> Result<Vec<Filter>, WireError> {
    use message::grpc_route::filter::Kind;
    parts::at_most(messages.len(), FILTERS_MAX, "filters")?;
    let filter = |message: &message::grpc_route::Filter| match message
        .kind
        .as_ref()
        .ok_or(WireError::Missing("filters.kind"))?
    {
        Kind::FailureInjector(fail) => {
            matching::failure(fail.code, &fail.message, fail.ratio.as_ref(), FailureKind::GrpcCode)
        }
        Kind::RequestHeaderModifier(change) => matching::request_headers(change),
    };
    messages.iter().map(filter).collect()
}

fn filter_message(filter: &Filter) -> Result<Option<message::grpc_route::Filter>, WireError> {
    use message::grpc_route::filter::Kind;
    let unsupported = |what| Err(WireError::Unsupported { field: "grpc.filters", what });
    let kind = match filter {
        Filter::RequestHeaders(change) => {
            Kind::RequestHeaderModifier(matching::request_headers_message(change))
        }
        Filter::Fail(failure) => failure_message(failure),
        Filter::Rewrite(_) | Filter::Cors(_) | Filter::Mirror(_) | Filter::Fault(_) => {
            return Ok(None);
        }
        Filter::ResponseHeaders(_) => return unsupported("a response header modifier"),
        Filter::Redirect(_) => return unsupported("a redirect"),
    };
    Ok(Some(message::grpc_route::Filter { kind: Some(kind) }))
}

fn failure_message(failure: &Failure) -> message::grpc_route::filter::Kind {
    message::grpc_route::filter::Kind::FailureInjector(grpc_route::GrpcFailureInjector {
        code: u32::from(failure.status),
        message: failure.message.to_string(),
        ratio: matching::ratio_message(failure),
    })
}

fn route_backend_message(
    backend: &Backend,
    (own, spot): (&mut Collected, Spot),
) -> Result<message::grpc_route::RouteBackend, WireError> {
    let broken = failure_of_broken(backend, UNAVAILABLE);
    let filters = backend.filters.iter().chain(&broken);
    Ok(message::grpc_route::RouteBackend {
        backend: Some(backend_message(backend)),
        filters: own.split(spot, filters, filter_message, failing)?,
        ..Default::default()
    })
}

/// A filter that fails every request.
fn failing(message: &'static str) -> message::grpc_route::Filter {
    let kind = failure_message(&failure_of_all(UNAVAILABLE, message));
    message::grpc_route::Filter { kind: Some(kind) }
}

pub(crate) fn rpc_match_message(
    request: &RequestMatch,
) -> Result<grpc_route::GrpcRouteMatch, WireError> {
    let unsupported = |what| Err(WireError::Unsupported { field: "grpc.matches", what });
    if !request.query.is_empty() {
        return unsupported("a query parameter match");
    }
    if request.method.as_deref().is_some_and(|method| method != "POST") {
        return unsupported("an HTTP method match");
    }
    let rpc = match &request.path {
        None => None,
        Some(path) => match rpc_message(path) {
            Some(rpc) => Some(rpc),
            None => return unsupported("a path that is not /service/method"),
        },
    };
    Ok(grpc_route::GrpcRouteMatch {
        rpc,
        headers: matching::header_matches_message(&request.headers),
    })
}

pub(super) fn routes_message(
    routes: &HttpRoutes,
    own: &mut Collected,
    spot: Spot,
) -> Result<Vec<message::GrpcRoute>, WireError> {
    let mut rule = |rule: &HttpRule, spot: Spot| {
        own.rule(spot, rule);
        let backends = distribution_message(&rule.backends, |number, backend| {
            own.backend(backend);
            route_backend_message(backend, (own, spot.backend(number)))
        })?;
        let filters = own.split(spot, rule.filters.iter(), filter_message, failing)?;
        Ok(message::grpc_route::Rule {
            matches: rule.matches.iter().map(rpc_match_message).collect::<Result<_, _>>()?,
            filters,
            backends: Some(backends),
            timeouts: timeouts_message(&rule.timeouts),
            retry: retry::grpc_message(rule.retry.as_deref())?,
            ..Default::default()
        })
    };
    let mut route = |(number, route): (usize, &HttpRoute)| {
        let spot = spot.route(number);
        let rules = route.rules.iter().enumerate();
        Ok(message::GrpcRoute {
            metadata: Some(parts::resource_message(&route.resource)),
            hosts: matching::hosts_message(&route.hosts),
            rules: rules
                .map(|(number, one)| rule(one, spot.rule(number)))
                .collect::<Result<_, WireError>>()?,
        })
    };
    routes.routes.iter().enumerate().map(&mut route).collect()
}

pub(super) fn unserved(routes: &[message::GrpcRoute], unserved: &mut Vec<&'static str>) {
    use message::grpc_route::distribution::Kind;
    for rule in routes.iter().flat_map(|route| &route.rules) {
        unserved.extend(rule.allow_l5d_request_headers.then_some("l5d request headers"));
        let backends: Vec<_> =
            match rule.backends.as_ref().and_then(|backends| backends.kind.as_ref()) {
                Some(Kind::FirstAvailable(first)) => first.backends.iter().collect(),
                Some(Kind::RandomAvailable(random)) => random
                    .backends
                    .iter()
                    .filter_map(|weighted| weighted.backend.as_ref())
                    .collect(),
                Some(Kind::Empty(_)) | None => Vec::new(),
            };
        let penalty = backends.iter().any(|backend| is_penalizing(backend.backend.as_ref()));
        unserved.extend(penalty.then_some("balancing penalties"));
    }
}
