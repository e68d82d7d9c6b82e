//! What becomes of a request: it is forwarded by a plan, or answered here. Pure.

use crate::request::attempts::AttemptPlan;
use crate::request::deadline;
use crate::request::filters::fault::Injected;
use crate::request::filters::rewrite::Target;
use crate::request::filters::{self, Changes, Here, headers};
use crate::request::local_reply::LocalReply;
use crate::request::persistence::Session;
use crate::request::route::{self, RouteChoice};
use crate::request::view::View;
use leno_model::breaker::{Accrual, Breaker, Limits};
use leno_model::name::Resource;
use leno_model::retry::Retry;
use leno_model::route::{Filter, HeaderChange, Mirror, OutboundPolicy, RequestView as _, Timeouts};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// linkerd's proxies set this header from the client's certificate, so an application may trust it: no client may send it.
pub const CLIENT_ID: &str = "l5d-client-id";

/// What a request to our application loses. The deadline is between proxies.
static TO_APPLICATION: LazyLock<HeaderChange> = LazyLock::new(|| HeaderChange {
    remove: vec![CLIENT_ID.into(), deadline::HEADER.into()],
    ..HeaderChange::default()
});

/// What the proxy does with a request, before any byte is sent upstream.
#[derive(Debug)]
pub enum Decision {
    /// To an endpoint.
    Forward(Plan),
    /// By the proxy itself; a redirect, for example.
    Answer(LocalReply),
}

/// How a request is forwarded.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The route that it follows; requests to our application follow none.
    pub route: Option<RouteChoice>,
    /// What may be tried again.
    pub attempts: AttemptPlan,
    /// The route of the port that lets this one request in, where the port itself does not let the client in.
    pub admitted_by: Option<Resource>,
    /// What filters change in this one request.
    pub changes: Option<Box<Changes>>,
}

impl Plan {
    /// A plan to our application.
    #[must_use]
    pub fn to_application(admitted_by: Option<Resource>) -> Self {
        Self { route: None, attempts: AttemptPlan::DEFAULT, admitted_by, changes: None }
    }

    /// `has_ours` says whether the request has the header [`CLIENT_ID`] or [`deadline::HEADER`], which few have.
    pub fn request_changes(&self, has_ours: bool) -> impl Iterator<Item = &HeaderChange> {
        let ours = (has_ours && self.route.is_none()).then(|| &*TO_APPLICATION);
        ours.into_iter().chain(headers::of_request(self.filters()))
    }

    pub fn response_changes(&self) -> impl Iterator<Item = &HeaderChange> {
        let own = self.changes.iter().map(|changes| &changes.response);
        headers::of_response(self.filters()).chain(own)
    }

    /// Mirrors that get a copy of the request.
    #[must_use]
    pub fn mirrors(&self) -> &[Arc<Mirror>] {
        self.changes.as_ref().map_or(&[], |changes| &changes.mirrors)
    }

    /// What faults do to the request before it is sent.
    #[must_use]
    pub fn injected(&self) -> Option<&Injected> {
        self.changes.as_ref()?.injected.as_ref()
    }

    /// The session that the request belongs to, where its rule has sessions.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.changes.as_ref()?.session.as_deref()
    }

    /// Where the request goes on to, if a filter changes that.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        self.changes.as_ref().map(|changes| &changes.target)
    }

    /// Whether its rule can limit the time of the request or of an attempt.
    #[must_use]
    pub fn limits_time(&self) -> bool {
        self.route.as_ref().is_some_and(RouteChoice::limits_time)
    }

    /// How long the request may take, by its rule.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        self.route.as_ref().map_or_else(Timeouts::default, |route| route.rule().timeouts)
    }

    /// When the request is sent again, by its rule.
    #[must_use]
    pub fn retry(&self) -> Option<&Retry> {
        self.route.as_ref()?.retry()
    }

    /// When endpoints that fail are ejected, by its Service.
    #[must_use]
    pub fn accrual(&self) -> &Accrual {
        self.breaker().map_or(&Accrual::Default, |breaker| &breaker.accrual)
    }

    /// How much may be under way, by its Service.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.breaker().map_or_else(Limits::default, |breaker| breaker.limits)
    }

    fn breaker(&self) -> Option<&Breaker> {
        self.route.as_ref()?.policy().breaker.as_deref()
    }

    /// How long an attempt may take to the response's head, where another may follow; `retries` were made so far.
    #[must_use]
    pub fn attempt_timeout(&self, retries: u8) -> Option<Duration> {
        let rule = self.retry()?;
        let may_follow = retries < rule.retries_max && self.attempts.after_timeout;
        rule.attempt_timeout.filter(|_| may_follow)
    }

    fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.route.iter().flat_map(RouteChoice::filters)
    }
}

/// Decides about a request of our application; `draw` returns random numbers from 0 to 1.
#[must_use]
pub fn outbound(
    policy: &Arc<OutboundPolicy>,
    request: &View<'_>,
    here: &Here<'_, impl Fn() -> Duration>,
    mut draw: impl FnMut() -> f64,
) -> Decision {
    let (choice, session) = match route::choose(policy, request, &here.now, draw()) {
        Ok(chosen) => chosen,
        Err(reply) => return Decision::Answer(reply),
    };
    let prefix_bytes = choice.prefix_bytes();
    let mut changes = filters::changes(choice.filters(), request, prefix_bytes, here, draw);
    if session.is_some() {
        changes.get_or_insert_default().session = session;
    }
    let attempts = attempts(&choice, request);
    Decision::Forward(Plan { changes, attempts, route: Some(choice), admitted_by: None })
}

/// The attempts that its rule allows for this request.
fn attempts(choice: &RouteChoice, request: &View<'_>) -> AttemptPlan {
    let Some(rule) = choice.retry() else { return AttemptPlan::DEFAULT };
    let idempotent = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    let is_idempotent = idempotent.contains(&request.method());
    let is_grpc = !rule.grpc.is_empty()
        && request.any_header("content-type", &mut |kind| kind.starts_with("application/grpc"));
    AttemptPlan::of_rule(rule, is_idempotent, is_grpc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    #[test]
    fn no_client_sets_the_header_of_its_identity() {
        let plan = Plan::to_application(None);
        assert_eq!(plan.request_changes(false).count(), 0);
        let lines = headers::Lines::of(plan.request_changes(true));
        assert_eq!(lines.remove.as_slice(), [CLIENT_ID, deadline::HEADER]);
        let mut fields = HeaderMap::new();
        fields.append("l5d-client-id", "admin".parse().unwrap());
        fields.append("l5d-client-id", "root".parse().unwrap());
        plan.request_changes(true).for_each(|change| headers::apply(change, &mut fields));
        assert!(fields.is_empty(), "{fields:?}");
    }
}
