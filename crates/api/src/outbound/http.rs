//! HTTP routes.

use super::backend::{backend, backend_message, is_penalizing};
use super::distribution::distribution;
use super::own::{Collected, Own, Spot};
use super::spared::{Spared, rest};
use super::{retry, some_rules};
use crate::matching::{self, FailureKind};
use crate::{WireError, parts};
use leno_model::limit::{BACKENDS_MAX, FILTERS_MAX, MATCHES_MAX};
use leno_model::pattern::Patterns;
use leno_model::route::{
    Backend, BackendKind, Distribution, Failure, Filter, HttpRoute, HttpRoutes, HttpRule, Timeouts,
};
use linkerd2_proxy_api::{http_route, outbound as message};

distribution!(http_route);

pub(super) fn routes(
    messages: &[message::HttpRoute],
    (own, spot): (&Own<'_>, Spot),
    patterns: &Patterns,
    spared: &mut Spared,
) -> Result<HttpRoutes, WireError> {
    let rule_of = |route, number, message: &message::http_route::Rule| {
        rule(message, (own, spot.route(route).rule(number)), patterns)
    };
    let route = |place, message: &message::HttpRoute| {
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
    let matches = |message: &message::http_route::Rule| {
        message.matches.iter().map(|one| matching::request_match(one, patterns)).collect()
    };
    let rest_of = |place, message: &message::HttpRoute, resource| {
        let rule = |number, message: &_| rule_of(place, number, message);
        rest(resource, &message.hosts, &message.rules, rule, matches, 500)
    };
    let routes = spared.routes(messages, |message| message.metadata.as_ref(), route, rest_of)?;
    Ok(HttpRoutes { routes })
}

fn rule(
    message: &message::http_route::Rule,
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
            .map(|one| matching::request_match(one, patterns))
            .collect::<Result<_, _>>()?,
        filters: own.merge(spot, filters(&message.filters)?)?,
        backends: distribution(message.backends.as_ref(), |number, one| {
            let filters = own.merge(spot.backend(number), filters(&one.filters)?)?;
            backend(one.backend.as_ref(), filters).map(|backend| own.complete(backend))
        })?,
        timeouts: timeouts(message.timeouts.as_ref(), old_timeout)?,
        retry: retry::http(message.retry.as_ref())?,
        persistence: own.persistence(spot),
    })
}

/// The timeouts of a rule; `old_timeout` is what a response timeout was before there were three kinds.
pub(super) fn timeouts(
    message: Option<&http_route::Timeouts>,
    old_timeout: Option<&prost_types::Duration>,
) -> Result<Timeouts, WireError> {
    let Some(message) = message else {
        let response = parts::optional_duration(old_timeout, "rules.requestTimeout")?;
        return Ok(Timeouts { response, ..Timeouts::default() });
    };
    Ok(Timeouts {
        request: parts::optional_duration(message.request.as_ref(), "timeouts.request")?,
        response: parts::optional_duration(message.response.as_ref(), "timeouts.response")?,
        idle: parts::optional_duration(message.idle.as_ref(), "timeouts.idle")?,
    })
}

pub(super) fn timeouts_message(timeouts: &Timeouts) -> Option<http_route::Timeouts> {
    (*timeouts != Timeouts::default()).then(|| http_route::Timeouts {
        request: timeouts.request.map(parts::duration_message),
        response: timeouts.response.map(parts::duration_message),
        idle: timeouts.idle.map(parts::duration_message),
    })
}

fn filters(messages: &[message::http_route::Filter]) -> Result<Vec<Filter>, WireError> {
    use message::http_route::filter::Kind;
    parts::at_most(messages.len(), FILTERS_MAX, "filters")?;
    let filter = |message: &message::http_route::Filter| match message
        .kind
        .as_ref()
        .ok_or(WireError::Missing("filters.kind"))?
    {
        Kind::FailureInjector(fail) => matching::failure(
            fail.status,
            &fail.message,
            fail.ratio.as_ref(),
            FailureKind::HttpStatus,
        ),
        Kind::RequestHeaderModifier(change) => matching::request_headers(change),
        Kind::ResponseHeaderModifier(change) => matching::response_headers(change),
        Kind::Redirect(redirect) => matching::redirect(redirect),
    };
    messages.iter().map(filter).collect()
}

fn filter_message(filter: &Filter) -> Result<Option<message::http_route::Filter>, WireError> {
    use message::http_route::filter::Kind;
    let kind = match filter {
        Filter::RequestHeaders(change) => {
            Kind::RequestHeaderModifier(matching::request_headers_message(change))
        }
        Filter::ResponseHeaders(change) => {
            Kind::ResponseHeaderModifier(matching::response_headers_message(change))
        }
        Filter::Redirect(redirect) => Kind::Redirect(matching::redirect_message(redirect)),
        Filter::Fail(failure) => failure_message(failure),
        Filter::Rewrite(_) | Filter::Cors(_) | Filter::Mirror(_) | Filter::Fault(_) => {
            return Ok(None);
        }
    };
    Ok(Some(message::http_route::Filter { kind: Some(kind) }))
}

fn failure_message(failure: &Failure) -> message::http_route::filter::Kind {
    message::http_route::filter::Kind::FailureInjector(http_route::HttpFailureInjector {
        status: u32::from(failure.status),
        message: failure.message.to_string(),
        ratio: matching::ratio_message(failure),
    })
}

fn route_backend_message(
    backend: &Backend,
    (own, spot): (&mut Collected, Spot),
) -> Result<message::http_route::RouteBackend, WireError> {
    let broken = failure_of_broken(backend, 500);
    let filters = backend.filters.iter().chain(&broken);
    Ok(message::http_route::RouteBackend {
        backend: Some(backend_message(backend)),
        filters: own.split(spot, filters, filter_message, failing)?,
        ..Default::default()
    })
}

/// A filter that fails every request.
fn failing(message: &'static str) -> message::http_route::Filter {
    let kind = failure_message(&failure_of_all(500, message));
    message::http_route::Filter { kind: Some(kind) }
}

/// What a broken backend must be told to answer, where no filter of its own does: linkerd's proxy has no other word for it.
pub(super) fn failure_of_broken(backend: &Backend, status: u16) -> Option<Filter> {
    let answers = |filter: &Filter| matches!(filter, Filter::Fail(Failure { denominator: 0, .. }));
    let silent = !backend.filters.iter().any(answers) && backend.filters.len() < FILTERS_MAX;
    (backend.kind == BackendKind::Broken && silent)
        .then(|| Filter::Fail(failure_of_all(status, "the backend of the route does not exist")))
}

/// A failure of every request.
pub(super) fn failure_of_all(status: u16, message: &str) -> Failure {
    Failure { status, message: message.into(), numerator: 0, denominator: 0 }
}

pub(super) fn routes_message(
    routes: &HttpRoutes,
    own: &mut Collected,
    spot: Spot,
) -> Result<Vec<message::HttpRoute>, WireError> {
    let mut rule = |rule: &HttpRule, spot: Spot| {
        own.rule(spot, rule);
        let backends = distribution_message(&rule.backends, |number, backend| {
            own.backend(backend);
            route_backend_message(backend, (own, spot.backend(number)))
        })?;
        let filters = own.split(spot, rule.filters.iter(), filter_message, failing)?;
        Ok(message::http_route::Rule {
            matches: rule.matches.iter().map(matching::request_match_message).collect(),
            filters,
            backends: Some(backends),
            timeouts: timeouts_message(&rule.timeouts),
            retry: retry::http_message(rule.retry.as_deref()),
            ..Default::default()
        })
    };
    let mut route = |(number, route): (usize, &HttpRoute)| {
        let spot = spot.route(number);
        let rules = route.rules.iter().enumerate();
        Ok(message::HttpRoute {
            metadata: Some(parts::resource_message(&route.resource)),
            hosts: matching::hosts_message(&route.hosts),
            rules: rules
                .map(|(number, one)| rule(one, spot.rule(number)))
                .collect::<Result<_, WireError>>()?,
        })
    };
    routes.routes.iter().enumerate().map(&mut route).collect()
}

pub(super) fn unserved(routes: &[message::HttpRoute], unserved: &mut Vec<&'static str>) {
    use message::http_route::distribution::Kind;
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
