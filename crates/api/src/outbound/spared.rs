//! What is kept of routes that cannot be read.
//!
//! One of them must not take the others with it, and must not open what it closed: the requests that it is known to be for answer with
//! a failure, as those for a backend that is not there do. Which requests those are is not known where its hosts, or all matches of a
//! rule, are what cannot be read: only then it is left out.

use crate::{WireError, matching, parts};
use leno_model::limit::{MATCHES_MAX, ROUTES_MAX, RULES_MAX};
use leno_model::name::Resource;
use leno_model::route::{
    Distribution, Failure, Filter, HttpRoute, HttpRule, RequestMatch, Timeouts,
};
use linkerd2_proxy_api::{http_route, meta};

/// A route that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("route {route}: {error}")]
pub struct Refused {
    /// Namespace and name, as much of it as could be read.
    pub route: String,
    /// What is wrong with it.
    pub error: WireError,
}

/// The routes that could not be read so far.
#[derive(Default)]
pub(super) struct Spared {
    pub(super) refused: Vec<Refused>,
}

impl Spared {
    /// Reads routes one by one, each with its place; `rest` is what is kept of one that `read` refuses.
    pub(super) fn routes<M, R>(
        &mut self,
        messages: &[M],
        metadata: impl Fn(&M) -> Option<&meta::Metadata>,
        read: impl Fn(usize, &M) -> Result<R, WireError>,
        rest: impl Fn(usize, &M, Resource) -> Option<R>,
    ) -> Result<Vec<R>, WireError> {
        parts::at_most(messages.len(), ROUTES_MAX, "routes")?;
        let mut routes = Vec::with_capacity(messages.len());
        for (number, message) in messages.iter().enumerate() {
            match read(number, message) {
                Ok(route) => routes.push(route),
                Err(error) => {
                    let resource = parts::resource(metadata(message), "routes.metadata")
                        .unwrap_or_else(|_| Resource::default_named("unreadable"));
                    let route = format!("{}/{}", resource.namespace(), resource.name());
                    self.refused.push(Refused { route, error });
                    routes.extend(rest(number, message, resource));
                }
            }
        }
        Ok(routes)
    }
}

/// What is kept of a route of requests: its good rules, and failures for what the others match. `status` is HTTP's or gRPC's.
pub(super) fn rest<M>(
    resource: Resource,
    hosts: &[http_route::HostMatch],
    rules: &[M],
    rule: impl Fn(usize, &M) -> Result<HttpRule, WireError>,
    matches: impl Fn(&M) -> Vec<Result<RequestMatch, WireError>>,
    status: u16,
) -> Option<HttpRoute> {
    let hosts = matching::hosts(hosts).ok()?;
    let failing = |matches| HttpRule {
        matches,
        filters: vec![Filter::Fail(Failure {
            status,
            message: "the route is malformed".into(),
            numerator: 0,
            denominator: 0,
        })],
        backends: Distribution::Empty,
        timeouts: Timeouts::default(),
        retry: None,
        persistence: Vec::new(),
    };
    let failing_of = |message: &M| {
        let all = matches(message);
        // Of too many, those beyond the limit are not looked at, and might be for anything.
        if all.is_empty() || all.len() > MATCHES_MAX {
            return Some(failing(Vec::new()));
        }
        let known: Vec<_> = all.into_iter().flatten().collect();
        (!known.is_empty()).then(|| failing(known))
    };
    let rules: Vec<_> = if rules.len() > RULES_MAX {
        vec![failing(Vec::new())]
    } else {
        rules
            .iter()
            .enumerate()
            .filter_map(|(number, message)| {
                rule(number, message).ok().or_else(|| failing_of(message))
            })
            .collect()
    };
    (!rules.is_empty()).then_some(HttpRoute { resource, hosts, rules })
}
