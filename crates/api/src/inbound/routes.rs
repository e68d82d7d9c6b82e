//! Routes of a port: `inbound.HttpRoute` and `inbound.GrpcRoute` <-> [`InboundRoute`], for the clients that they admit.

use super::{InboundRoute, authorization, authorization_message};
use crate::outbound::grpc;
use crate::{WireError, matching, parts};
use leno_model::limit::{
    AUTHORIZATIONS_MAX, MATCHES_MAX, ROUTES_MAX, RULES_MAX, SERVICE_PATTERNS_BYTES_MAX,
};
use leno_model::name::Resource;
use leno_model::pattern::Patterns;
use leno_model::route::RequestMatch;
use linkerd2_proxy_api::grpc_route::{GrpcRouteMatch, GrpcRpcMatch};
use linkerd2_proxy_api::http_route::{HostMatch, HttpRouteMatch, PathMatch, path_match};
use linkerd2_proxy_api::inbound as message;
use linkerd2_proxy_api::meta::{Metadata, metadata};

/// The routes of a protocol, and whether they reject a request that none of them takes.
pub(super) type Read = (Vec<InboundRoute>, bool);

/// Reads the routes of a protocol.
pub(super) fn read(kind: &message::proxy_protocol::Kind) -> Result<Read, WireError> {
    use message::proxy_protocol::Kind;
    let patterns = &Patterns::new("the port", SERVICE_PATTERNS_BYTES_MAX);
    match kind {
        Kind::Detect(detect) => read_http(&detect.http_routes, patterns),
        Kind::Http1(http) => read_http(&http.routes, patterns),
        Kind::Http2(http) => read_http(&http.routes, patterns),
        Kind::Grpc(grpc) => read_grpc(&grpc.routes, patterns),
        Kind::Opaque(_) | Kind::Tls(_) => Ok(Read::default()),
    }
}

fn read_http(messages: &[message::HttpRoute], patterns: &Patterns) -> Result<Read, WireError> {
    parts::at_most(messages.len(), ROUTES_MAX, "routes")?;
    let says_nothing = |route: &message::HttpRoute| {
        takes_all(route) && is_default(route.metadata.as_ref(), &route.authorizations)
    };
    let route = |route: &message::HttpRoute| {
        let rules = route.rules.iter().map(|rule| rule.matches.as_slice());
        patterns.begin_route();
        let matches = matches(rules, |one| matching::request_match(one, patterns))?;
        one(route.metadata.as_ref(), &route.hosts, matches, &route.authorizations)
    };
    let rejects_unrouted = !messages.is_empty() && !messages.iter().any(says_nothing);
    // Routes that neither admit nor reject say nothing.
    if !rejects_unrouted && messages.iter().all(|route| route.authorizations.is_empty()) {
        return Ok(Read::default());
    }
    let said = messages.iter().filter(|route| !says_nothing(route));
    Ok((some(said.map(route))?, rejects_unrouted))
}

fn read_grpc(messages: &[message::GrpcRoute], patterns: &Patterns) -> Result<Read, WireError> {
    parts::at_most(messages.len(), ROUTES_MAX, "routes")?;
    let says_nothing = |route: &message::GrpcRoute| {
        takes_all_rpc(route) && is_default(route.metadata.as_ref(), &route.authorizations)
    };
    let route = |route: &message::GrpcRoute| {
        let rules = route.rules.iter().map(|rule| rule.matches.as_slice());
        patterns.begin_route();
        let matches = matches(rules, |one| grpc::rpc_match(one, patterns))?;
        one(route.metadata.as_ref(), &route.hosts, matches, &route.authorizations)
    };
    let rejects_unrouted = !messages.is_empty() && !messages.iter().any(says_nothing);
    // Routes that neither admit nor reject say nothing.
    if !rejects_unrouted && messages.iter().all(|route| route.authorizations.is_empty()) {
        return Ok(Read::default());
    }
    let said = messages.iter().filter(|route| !says_nothing(route));
    Ok((some(said.map(route))?, rejects_unrouted))
}

/// Whether it belongs to no object and admits no client. A default route that takes everything has the effect of no route.
fn is_default(metadata: Option<&Metadata>, authorizations: &[message::Authz]) -> bool {
    let kind = metadata.and_then(|metadata| metadata.kind.as_ref());
    authorizations.is_empty() && !matches!(kind, Some(metadata::Kind::Resource(_)))
}

/// A route without a rule takes nothing.
fn some(
    routes: impl Iterator<Item = Result<InboundRoute, WireError>>,
) -> Result<Vec<InboundRoute>, WireError> {
    routes.filter(|route| !matches!(route, Ok(route) if route.matches.is_empty())).collect()
}

fn one(
    metadata: Option<&Metadata>,
    hosts: &[HostMatch],
    matches: Vec<RequestMatch>,
    authorizations: &[message::Authz],
) -> Result<InboundRoute, WireError> {
    parts::at_most(authorizations.len(), AUTHORIZATIONS_MAX, "routes.authorizations")?;
    Ok(InboundRoute {
        resource: parts::resource(metadata, "routes.metadata")?,
        hosts: matching::hosts(hosts)?,
        matches,
        authorizations: authorizations.iter().map(authorization).collect::<Result<_, _>>()?,
    })
}

/// Matches of all rules, which differ in nothing else here; a rule without one takes everything.
fn matches<'a, M: 'a>(
    rules: impl Iterator<Item = &'a [M]>,
    read: impl Fn(&M) -> Result<RequestMatch, WireError>,
) -> Result<Vec<RequestMatch>, WireError> {
    let mut all = Vec::new();
    for (number, rule) in rules.enumerate() {
        parts::at_most(number + 1, RULES_MAX, "routes.rules")?;
        parts::at_most(rule.len(), MATCHES_MAX, "routes.rules.matches")?;
        if rule.is_empty() {
            all.push(RequestMatch::default());
        }
        for one in rule {
            all.push(read(one)?);
        }
    }
    Ok(all)
}

/// Routes as messages. If a request that no route takes is not rejected, one more route takes it: a linkerd proxy answers it
/// with 404 otherwise. If it is rejected and there is no route, one more route takes nothing. The additional
/// route comes first, as in Linkerd's messages.
pub(super) fn http_message(
    routes: &[InboundRoute],
    rejects_unrouted: bool,
) -> Vec<message::HttpRoute> {
    let route = |route: &InboundRoute| message::HttpRoute {
        metadata: Some(parts::resource_message(&route.resource)),
        hosts: matching::hosts_message(&route.hosts),
        authorizations: route.authorizations.iter().map(authorization_message).collect(),
        rules: in_rules(route.matches.iter().map(matching::request_match_message))
            .map(|matches| message::http_route::Rule { matches, filters: Vec::new() })
            .collect(),
    };
    let all = HttpRouteMatch {
        path: Some(PathMatch { kind: Some(path_match::Kind::Prefix("/".to_owned())) }),
        ..HttpRouteMatch::default()
    };
    let rest = message::HttpRoute {
        metadata: Some(parts::resource_message(&Resource::default_named("default"))),
        hosts: Vec::new(),
        authorizations: Vec::new(),
        rules: match rejects_unrouted {
            false => vec![message::http_route::Rule { matches: vec![all], filters: Vec::new() }],
            true => Vec::new(),
        },
    };
    let rest = (!rejects_unrouted || routes.is_empty()).then_some(rest);
    rest.into_iter().chain(routes.iter().map(route)).collect()
}

/// The same for gRPC. What a gRPC route cannot say is left out, and lets nobody in.
pub(super) fn grpc_message(
    routes: &[InboundRoute],
    rejects_unrouted: bool,
) -> Vec<message::GrpcRoute> {
    let route = |route: &InboundRoute| message::GrpcRoute {
        metadata: Some(parts::resource_message(&route.resource)),
        hosts: matching::hosts_message(&route.hosts),
        authorizations: route.authorizations.iter().map(authorization_message).collect(),
        rules: in_rules(route.matches.iter().filter_map(|one| grpc::rpc_match_message(one).ok()))
            .map(|matches| message::grpc_route::Rule { matches, filters: Vec::new() })
            .collect(),
    };
    let all = GrpcRouteMatch { rpc: Some(GrpcRpcMatch::default()), headers: Vec::new() };
    let rest = message::GrpcRoute {
        metadata: Some(parts::resource_message(&Resource::default_named("default"))),
        hosts: Vec::new(),
        authorizations: Vec::new(),
        rules: match rejects_unrouted {
            false => vec![message::grpc_route::Rule { matches: vec![all], filters: Vec::new() }],
            true => Vec::new(),
        },
    };
    let rest = (!rejects_unrouted || routes.is_empty()).then_some(rest);
    rest.into_iter().chain(routes.iter().map(route)).collect()
}

/// See [`super::check_route`].
pub(super) fn check(
    route: &InboundRoute,
    is_grpc: bool,
    patterns: &Patterns,
) -> Result<(), WireError> {
    let one = std::slice::from_ref(route);
    let (read, _) = match is_grpc {
        true => read_grpc(&grpc_message(one, true), patterns)?,
        false => read_http(&http_message(one, true), patterns)?,
    };
    let is_whole = read.first().map_or(0, |read| read.matches.len()) == route.matches.len();
    let reason = "a match that a gRPC route cannot express";
    is_whole.then_some(()).ok_or_else(|| WireError::invalid("routes.rules.matches", reason))
}

/// Rules with at most the allowed number of matches. Without matches there is no rule, because an empty rule would match everything.
fn in_rules<M>(matches: impl Iterator<Item = M>) -> impl Iterator<Item = Vec<M>> {
    let mut matches = matches.peekable();
    std::iter::from_fn(move || {
        matches.peek().is_some().then(|| matches.by_ref().take(MATCHES_MAX).collect())
    })
}

/// Whether the route takes every request.
pub(super) fn takes_all(route: &message::HttpRoute) -> bool {
    let all = |rule: &message::http_route::Rule| {
        rule.matches.is_empty() || rule.matches.iter().any(match_takes_all)
    };
    route.hosts.is_empty() && route.rules.iter().any(all)
}

/// Whether the route takes every call.
pub(super) fn takes_all_rpc(route: &message::GrpcRoute) -> bool {
    // Linkerd's controller writes a call of any service and method as empty names.
    let all_calls = |rpc: &GrpcRpcMatch| rpc.service.is_empty() && rpc.method.is_empty();
    let any =
        |one: &GrpcRouteMatch| one.rpc.as_ref().is_none_or(all_calls) && one.headers.is_empty();
    let all =
        |rule: &message::grpc_route::Rule| rule.matches.is_empty() || rule.matches.iter().any(any);
    route.hosts.is_empty() && route.rules.iter().any(all)
}

fn match_takes_all(request: &HttpRouteMatch) -> bool {
    use path_match::Kind;
    let path = request.path.as_ref().and_then(|path| path.kind.as_ref());
    let any_path = path.is_none_or(|kind| matches!(kind, Kind::Prefix(prefix) if prefix == "/"));
    any_path
        && request.headers.is_empty()
        && request.query_params.is_empty()
        && request.method.is_none()
}
