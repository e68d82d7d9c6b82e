//! Routes of connections: opaque bytes, and the application's own TLS by server name.
//!
//! A filter on such a route only ever says that its traffic is forbidden or its reference broken: an empty distribution
//! for a rule, a broken backend for one backend.

use super::some_rules;
use super::spared::Spared;
use crate::{WireError, matching, parts};
use leno_model::limit::RULES_MAX;
use leno_model::name::Resource;
use leno_model::route::{Distribution, HostMatch, OpaqueRoute, OpaqueRoutes};
use linkerd2_proxy_api::outbound as message;

pub(super) fn opaque_routes(
    messages: &[message::OpaqueRoute],
    spared: &mut Spared,
) -> Result<OpaqueRoutes, WireError> {
    let route = |_, message: &message::OpaqueRoute| {
        some_rules(message.rules.len())?;
        Ok(OpaqueRoute {
            resource: parts::resource(message.metadata.as_ref(), "routes.metadata")?,
            server_names: Vec::new(),
            rules: message.rules.iter().map(opaque::rule).collect::<Result<_, _>>()?,
        })
    };
    let rest_of = |_, message: &message::OpaqueRoute, resource| {
        rest(resource, Vec::new(), &message.rules, opaque::rule)
    };
    let routes = spared.routes(messages, |message| message.metadata.as_ref(), route, rest_of)?;
    Ok(OpaqueRoutes { routes })
}

/// What is kept of a route of connections that cannot be read: its good rules, and refusals in the place of the others.
fn rest<M>(
    resource: Resource,
    server_names: Vec<HostMatch>,
    rules: &[M],
    rule: impl Fn(&M) -> Result<Distribution, WireError>,
) -> Option<OpaqueRoute> {
    let refusing = |message: &M| rule(message).unwrap_or(Distribution::Empty);
    let rules: Vec<_> = rules.iter().take(RULES_MAX).map(refusing).collect();
    (!rules.is_empty()).then_some(OpaqueRoute { resource, server_names, rules })
}

pub(super) fn opaque_routes_message(
    routes: &OpaqueRoutes,
) -> Result<Vec<message::OpaqueRoute>, WireError> {
    let route = |route: &OpaqueRoute| {
        if !route.server_names.is_empty() {
            let what = "a server name on a route without TLS";
            return Err(WireError::Unsupported { field: "opaque.routes", what });
        }
        Ok(message::OpaqueRoute {
            metadata: Some(parts::resource_message(&route.resource)),
            rules: route.rules.iter().map(opaque::rule_message).collect::<Result<_, _>>()?,
        })
    };
    routes.routes.iter().map(route).collect()
}

pub(super) fn tls_routes(
    messages: &[message::TlsRoute],
    spared: &mut Spared,
) -> Result<OpaqueRoutes, WireError> {
    let route = |_, message: &message::TlsRoute| {
        some_rules(message.rules.len())?;
        Ok(OpaqueRoute {
            resource: parts::resource(message.metadata.as_ref(), "routes.metadata")?,
            server_names: matching::server_names(&message.snis)?,
            rules: message.rules.iter().map(tls::rule).collect::<Result<_, _>>()?,
        })
    };
    let rest_of = |_, message: &message::TlsRoute, resource| {
        let server_names = matching::server_names(&message.snis).ok()?;
        rest(resource, server_names, &message.rules, tls::rule)
    };
    let routes = spared.routes(messages, |message| message.metadata.as_ref(), route, rest_of)?;
    Ok(OpaqueRoutes { routes })
}

pub(super) fn tls_routes_message(
    routes: &OpaqueRoutes,
) -> Result<Vec<message::TlsRoute>, WireError> {
    let route = |route: &OpaqueRoute| {
        Ok(message::TlsRoute {
            metadata: Some(parts::resource_message(&route.resource)),
            snis: matching::server_names_message(&route.server_names),
            rules: route.rules.iter().map(tls::rule_message).collect::<Result<_, _>>()?,
        })
    };
    routes.routes.iter().map(route).collect()
}

/// Rules of both kinds are alike in everything but their types.
macro_rules! connection_rules {
    ($kind:ident, $module:ident) => {
        mod $kind {
            use super::super::backend::{backend, backend_message};
            use super::super::distribution::distribution;
            use super::{Distribution, WireError, message, parts};
            use leno_model::limit::{BACKENDS_MAX, FILTERS_MAX};
            use leno_model::route::{Backend, BackendKind};
            use linkerd2_proxy_api::opaque_route::Invalid;
            use message::$module::filter::Kind;
            use message::$module::{Filter, RouteBackend, Rule};

            distribution!($module);

            /// Whether there is a filter: every kind of filter refuses.
            fn refuses(filters: &[Filter]) -> Result<bool, WireError> {
                parts::at_most(filters.len(), FILTERS_MAX, "filters")?;
                if filters.iter().any(|filter| filter.kind.is_none()) {
                    return Err(WireError::Missing("filters.kind"));
                }
                Ok(!filters.is_empty())
            }

            pub(super) fn rule(message: &Rule) -> Result<Distribution, WireError> {
                if refuses(&message.filters)? {
                    return Ok(Distribution::Empty);
                }
                distribution(message.backends.as_ref(), |_, backend| route_backend(backend))
            }

            pub(super) fn rule_message(rule: &Distribution) -> Result<Rule, WireError> {
                let backends = distribution_message(rule, |_, one| route_backend_message(one))?;
                Ok(Rule { backends: Some(backends), filters: Vec::new() })
            }

            fn route_backend(message: &RouteBackend) -> Result<Backend, WireError> {
                let mut backend = backend(message.backend.as_ref(), Vec::new())?;
                if refuses(&message.filters)? {
                    backend.kind = BackendKind::Broken;
                }
                Ok(backend)
            }

            fn route_backend_message(backend: &Backend) -> Result<RouteBackend, WireError> {
                let broken = backend.kind == BackendKind::Broken;
                if !broken && !backend.filters.is_empty() {
                    let what = "a filter on a TCP or TLS route";
                    return Err(WireError::Unsupported { field: "backends.filters", what });
                }
                let invalid = || Filter {
                    kind: Some(Kind::Invalid(Invalid {
                        message: "the backend of the route does not exist".to_owned(),
                    })),
                };
                Ok(RouteBackend {
                    backend: Some(backend_message(backend)),
                    filters: broken.then(invalid).into_iter().collect(),
                })
            }
        }
    };
}

connection_rules!(opaque, opaque_route);
connection_rules!(tls, tls_route);
