//! The rule that a request follows, and the backend that it draws.

use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::filters;
use crate::request::local_reply::LocalReply;
use crate::request::persistence::{self, Session};
use crate::request::view::{Kind, View};
use leno_model::name::Resource;
use leno_model::retry::Retry;
use leno_model::route::{
    self, Distribution, Filter, HttpRoutes, HttpRule, OutboundPolicy, OutboundProtocol, Timeouts,
    pick, pick_weighted,
};
use std::sync::Arc;
use std::time::Duration;

/// The rule that a request follows, and the backend that it has drawn.
#[derive(Clone, Debug)]
pub struct RouteChoice {
    policy: Arc<OutboundPolicy>,
    kind: Kind,
    route: usize,
    rule: usize,
    backend: usize,
    prefix_bytes: usize,
    /// Most rules have neither: a request looks here in place of its rule.
    has_filters: bool,
    limits_time: bool,
}

/// The routes of a policy for requests of this kind.
#[must_use]
pub fn routes(policy: &OutboundPolicy, kind: Kind) -> Option<&HttpRoutes> {
    match (&policy.protocol, kind) {
        (OutboundProtocol::Detect { http1, .. }, Kind::Http1) => Some(http1),
        (OutboundProtocol::Detect { http2, .. }, Kind::Http2) => Some(http2),
        (
            OutboundProtocol::Http1(routes)
            | OutboundProtocol::Http2(routes)
            | OutboundProtocol::Grpc(routes),
            _,
        ) => Some(routes),
        (OutboundProtocol::Opaque(_) | OutboundProtocol::Tls(_), _) => None,
    }
}

/// Finds the rule, and draws a backend: that of the request's session, where it has one. `random` is from 0 to 1, `now` from the
/// beginning of 1970.
///
/// # Errors
/// The request is answered here: no rule matches, the path can be read in two ways where a rule looks at it, the rule answers
/// itself or is broken; or the destination is not HTTP any more.
pub fn choose(
    policy: &Arc<OutboundPolicy>,
    view: &View<'_>,
    now: impl Fn() -> Duration,
    random: f64,
) -> Result<(RouteChoice, Option<Box<Session>>), LocalReply> {
    let kind = view.kind();
    let routes = routes(policy, kind).ok_or(Ending::ProtocolChanged)?;
    let picked = pick(routes, view);
    if let Some(ambiguity) = view.ambiguity() {
        return Err(Refusal::because(Ending::MalformedRequest, ambiguity.as_str()).into());
    }
    let picked = picked.ok_or(Ending::NoRoute)?;
    let answered = |filters: &[Filter]| filters::answer(filters, view, picked.prefix_bytes, random);
    if let Some(reply) = answered(&picked.rule.filters) {
        return Err(reply);
    }
    let (backend, session) = if picked.rule.persistence.is_empty() {
        (draw(&picked.rule.backends, random), None)
    } else {
        persistence::begin(picked.rule, view, now(), || draw(&picked.rule.backends, random))
    };
    let backend = backend.ok_or(Ending::BackendInvalid)?;
    let route =
        routes.routes.iter().position(|route| std::ptr::eq(route, picked.route)).unwrap_or(0);
    let rule =
        picked.route.rules.iter().position(|rule| std::ptr::eq(rule, picked.rule)).unwrap_or(0);
    let backend_filters = &backend_at(&picked.rule.backends, backend).filters;
    if let Some(reply) = answered(backend_filters) {
        return Err(reply);
    }
    let choice = RouteChoice {
        policy: policy.clone(),
        kind,
        route,
        rule,
        backend,
        prefix_bytes: picked.prefix_bytes,
        has_filters: !(picked.rule.filters.is_empty() && backend_filters.is_empty()),
        limits_time: picked.rule.retry.is_some() || picked.rule.timeouts != Timeouts::default(),
    };
    Ok((choice, session))
}

fn backend_at(backends: &Distribution, index: usize) -> &route::Backend {
    match backends {
        Distribution::First(backends) => &backends[index],
        Distribution::Random(weighted) => &weighted[index].0,
        Distribution::Empty => unreachable!("a backend was drawn"),
    }
}

/// Index of the backend.
fn draw(backends: &Distribution, random: f64) -> Option<usize> {
    match backends {
        Distribution::Empty => None,
        Distribution::First(backends) => (!backends.is_empty()).then_some(0),
        Distribution::Random(weighted) if weighted.len() == 1 => (weighted[0].1 > 0).then_some(0),
        Distribution::Random(weighted) => {
            let drawn = pick_weighted(weighted, random)?;
            weighted.iter().position(|(backend, _)| std::ptr::eq(backend, drawn))
        }
    }
}

impl RouteChoice {
    /// The rule itself.
    #[must_use]
    pub fn rule(&self) -> &HttpRule {
        let routes =
            routes(&self.policy, self.kind).expect("the policy had routes when it was chosen");
        &routes.routes[self.route].rules[self.rule]
    }

    /// The route's object.
    #[must_use]
    pub fn route(&self) -> &Resource {
        let routes =
            routes(&self.policy, self.kind).expect("the policy had routes when it was chosen");
        &routes.routes[self.route].resource
    }

    /// The policy's object.
    #[must_use]
    pub fn parent(&self) -> &Resource {
        &self.policy.parent
    }

    /// The backend that was drawn.
    #[must_use]
    pub fn backend(&self) -> &route::Backend {
        backend_at(&self.rule().backends, self.backend)
    }

    /// Filters of the rule, then those of the backend.
    pub fn filters(&self) -> impl Iterator<Item = &Filter> {
        let own = self.has_filters.then(|| (&self.rule().filters, &self.backend().filters));
        own.into_iter().flat_map(|(rule, backend)| rule.iter().chain(backend))
    }

    /// Whether the rule can limit the time of the request or of an attempt, as retries do.
    #[must_use]
    pub fn limits_time(&self) -> bool {
        self.limits_time
    }

    /// When the request is sent again.
    #[must_use]
    pub fn retry(&self) -> Option<&Retry> {
        if self.limits_time { self.rule().retry.as_deref() } else { None }
    }

    /// Bytes of the path that a prefix match covered.
    #[must_use]
    pub fn prefix_bytes(&self) -> usize {
        self.prefix_bytes
    }

    /// Its place among the routes of the policy, of both protocols.
    #[must_use]
    pub fn index(&self) -> usize {
        self.route * 2 + usize::from(self.kind == Kind::Http2)
    }

    #[must_use]
    pub fn policy(&self) -> &Arc<OutboundPolicy> {
        &self.policy
    }
}
