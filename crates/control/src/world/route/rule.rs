//! One rule: what of it is served, and what fails in the place of what is not.

use super::super::persistence::Wish as SessionWish;
use super::BackendRef;
use super::filter::{MirrorWish, Wish, Wished};
use super::{Compiled, Compiler, Rule, fail};
use leno_api::WireError;
use leno_model::limit::MATCHES_MAX;
use leno_model::pattern::Patterns;
use leno_model::persistence::Persistence;
use leno_model::route::{
    Backend, Distribution, Filter, HttpRoute, HttpRoutes, HttpRule, Mirror, OutboundPolicy,
    OutboundProtocol, PathMatch, RequestMatch, Timeouts,
};
use std::sync::Arc;

/// The reply to a request whose rule is not fully supported.
const CANNOT_BE_SERVED: &str = "the route has an unsupported filter or field";

impl<T> Compiler<'_, T> {
    /// A rule; `None` where none of its matches can be understood.
    pub(super) fn rule(&mut self, field: &str, rule: Rule<'_>) -> Option<HttpRule> {
        let matches_everything = rule.matches.is_empty();
        let mut matches = Vec::new();
        for (number, one) in rule.matches.into_iter().enumerate() {
            let wrong = self.route.object.wrong(&format!("{field}.matches[{number}]"));
            let wrong = wrong.map(|message| Err((String::new(), message.to_owned())));
            match wrong.unwrap_or(one) {
                Ok(_) if matches.len() == MATCHES_MAX => {
                    self.report(
                        format!("{field}.matches"),
                        format!("only the first {MATCHES_MAX} are used"),
                    );
                    break;
                }
                Ok(one) => matches.push(one),
                Err((part, message)) => {
                    let dot = if part.is_empty() { "" } else { "." };
                    self.report(
                        format!("{field}.matches[{number}]{dot}{part}"),
                        format!("{message}; it matches nothing"),
                    );
                    self.unsupported();
                }
            }
        }
        if matches.is_empty() && !matches_everything {
            return None;
        }
        for (part, message) in rule.left_out {
            self.report(format!("{field}.{part}"), message);
            self.unsupported();
        }
        let unread = self.route.object.wrong(field).map(str::to_owned);
        let mut broken = !rule.wrong.is_empty() || unread.is_some();
        if let Some(message) = unread {
            self.report(field, format!("{message}; the rule answers with a failure"));
        }
        for (part, message) in rule.wrong {
            self.report(
                format!("{field}.{part}"),
                format!("{message}; the rule answers with a failure"),
            );
        }
        let filters = self.filters(&format!("{field}.filters"), rule.filters);
        broken |= filters.is_none();
        if broken {
            self.unsupported();
        }
        let backends = self.backends(field, &rule.backends, rule.persistence.is_some());
        broken |= self.is_misplaced(field, &matches, filters.as_deref(), backends.as_ref());
        let redirects = filters.iter().flatten().any(|f| matches!(f, Filter::Redirect(_)));
        let (filters, backends) = match (filters, backends) {
            _ if broken => (vec![fail(self.kind, CANNOT_BE_SERVED)], Distribution::Empty),
            (Some(filters), _) if redirects => (filters, Distribution::Empty),
            (Some(mut filters), None) => {
                filters.push(fail(self.kind, "the route has no backend"));
                (filters, Distribution::Empty)
            }
            (filters, backends) => {
                (filters.unwrap_or_default(), backends.unwrap_or(Distribution::Empty))
            }
        };
        let persistence = self.persistence(field, rule.persistence.as_ref(), &backends);
        let (timeouts, retry) = (rule.timeouts, rule.retry);
        let rule = HttpRule { matches, filters, backends, timeouts, retry, persistence };
        let Err(wrong) = self.told(rule.clone()) else {
            self.findings.rules_good += usize::from(!broken);
            return Some(rule);
        };
        self.report(field, format!("{wrong}; the rule answers with a failure"));
        self.unsupported();
        self.failing(rule.matches)
    }

    /// How sessions persist: the rule's own field comes before policies of its backends.
    fn persistence(
        &self,
        field: &str,
        wish: Option<&SessionWish>,
        backends: &Distribution,
    ) -> Vec<Arc<Persistence>> {
        let key = &self.route.key;
        let scope = format!("{} {}/{} {field}", key.kind, key.namespace, key.name);
        match wish {
            Some(_) if matches!(backends, Distribution::Empty) => Vec::new(),
            Some(wish) => vec![Arc::new(wish.persistence(None, &scope))],
            None => self.world.backend_policies.persistence(backends, &scope),
        }
    }

    /// Reports filters that do not fit the rest of their rule.
    fn is_misplaced(
        &mut self,
        field: &str,
        matches: &[RequestMatch],
        filters: Option<&[Filter]>,
        backends: Option<&Distribution>,
    ) -> bool {
        let wrong = misplaced(matches, filters.unwrap_or_default(), backends);
        if let Some(wrong) = wrong {
            let message = format!("{wrong}; the rule answers with a failure");
            self.report(format!("{field}.filters"), message);
            self.unsupported();
        }
        wrong.is_some()
    }

    /// A rule that fails its requests, as far as its matches can be encoded for proxies.
    fn failing(&self, mut matches: Vec<RequestMatch>) -> Option<HttpRule> {
        let rule = |matches| HttpRule { matches, ..self.failing_all() };
        let matches_everything = matches.is_empty();
        matches.retain(|one| self.told(rule(vec![one.clone()])).is_ok());
        (matches_everything || !matches.is_empty()).then(|| rule(matches))
    }

    /// A rule that fails every request.
    pub(super) fn failing_all(&self) -> HttpRule {
        HttpRule {
            matches: Vec::new(),
            filters: vec![fail(self.kind, CANNOT_BE_SERVED)],
            backends: Distribution::Empty,
            timeouts: Timeouts::default(),
            retry: None,
            persistence: Vec::new(),
        }
    }

    /// Whether a rule can be encoded for proxies.
    fn told(&self, rule: HttpRule) -> Result<(), WireError> {
        let route = Compiled { resource: self.resource(), hosts: Vec::new(), rules: vec![rule] };
        told(route, self.patterns)
    }

    /// The mirror; `None` where it is reported as not there. The caller's requests do not need it.
    fn mirror(&mut self, field: &str, wish: &MirrorWish) -> Option<Filter> {
        let reference = BackendRef {
            group: wish.group.as_deref(),
            kind: wish.kind.as_deref(),
            namespace: wish.namespace.as_deref(),
            name: &wish.name,
            port: wish.port,
            weight: None,
            filters: Vec::new(),
        };
        let field = format!("{field}.requestMirror.backendRef");
        let backend = self.resolved(&field, &reference, "requests are not mirrored").ok()?;
        let MirrorWish { numerator, denominator, .. } = *wish;
        Some(Filter::Mirror(Arc::new(Mirror { backend, numerator, denominator })))
    }

    /// The fault; `None` where it is reported as not there. An author who deletes a fault wants it to end, so requests go on.
    fn fault(&mut self, field: &str, name: &str) -> Option<Filter> {
        let namespace = self.route.key.namespace.clone();
        let found = self.faults.get(&(namespace.clone(), name.into()));
        let (reason, what) = match found {
            Some(Some(fault)) => return Some(Filter::Fault(fault.clone())),
            Some(None) => ("InvalidFault", "is not valid"),
            None => ("FaultNotFound", "does not exist"),
        };
        let message = format!("Fault {namespace}/{name} {what}; it injects nothing");
        self.report(format!("{field}.extensionRef.name"), message);
        let why = self.reported();
        self.findings.unresolved.get_or_insert((reason, why));
        None
    }

    /// A filter whose reference is resolved; `None` where it is reported, and requests go on without it.
    fn filter(&mut self, field: &str, wished: Wished) -> Option<Filter> {
        match wished {
            Wished::Filter(filter) => Some(filter),
            Wished::Mirror(wish) => self.mirror(field, &wish),
            Wished::Fault(name) => self.fault(field, &name),
        }
    }

    /// The filters, `None` where one of them cannot be served.
    pub(super) fn filters(&mut self, field: &str, wishes: Vec<Wish>) -> Option<Vec<Filter>> {
        let mut filters = Some(Vec::new());
        for (number, wish) in wishes.into_iter().enumerate() {
            let wrong = self.route.object.wrong(&format!("{field}[{number}]"));
            match wrong.map_or(wish, |message| Err(message.to_owned())) {
                Ok(wished) => {
                    let filter = self.filter(&format!("{field}[{number}]"), wished);
                    filters.iter_mut().for_each(|filters| filters.extend(filter.clone()));
                }
                Err(message) => {
                    self.report(
                        format!("{field}[{number}]"),
                        format!("{message}; requests answer with a failure"),
                    );
                    filters = None;
                }
            }
        }
        filters
    }
}

/// What is wrong with filters beside the rest of their rule.
fn misplaced(
    matches: &[RequestMatch],
    filters: &[Filter],
    backends: Option<&Distribution>,
) -> Option<&'static str> {
    let of_backends = match backends {
        None | Some(Distribution::Empty) => Vec::new(),
        Some(Distribution::First(backends)) => backends.iter().collect(),
        Some(Distribution::Random(weighted)) => weighted.iter().map(|(one, _)| one).collect(),
    };
    let all = || filters.iter().chain(of_backends.iter().flat_map(|backend| &backend.filters));
    let redirects = all().any(|filter| matches!(filter, Filter::Redirect(_)));
    if redirects && all().any(|filter| matches!(filter, Filter::Rewrite(_))) {
        return Some("a rule with RequestRedirect and URLRewrite is not valid");
    }
    let is_prefix = |one: &RequestMatch| matches!(one.path, None | Some(PathMatch::Prefix(_)));
    let replaces_prefix = |filter: &Filter| match filter {
        Filter::Redirect(redirect) => redirect.path_prefix.is_some(),
        Filter::Rewrite(rewrite) => rewrite.path_prefix.is_some(),
        _ => false,
    };
    (all().any(replaces_prefix) && !matches.iter().all(is_prefix))
        .then_some("replacePrefixMatch needs a path of type PathPrefix in every match of the rule")
}

/// Whether a route can be encoded for proxies. A route that a proxy cannot read would make the whole policy of its Service unusable.
pub(super) fn told(route: Compiled, patterns: &Patterns) -> Result<(), WireError> {
    let parent = route.resource.clone();
    let protocol = OutboundProtocol::Http2(as_http(HttpRoutes { routes: vec![route] }));
    leno_api::outbound::check(&OutboundPolicy { parent, protocol, breaker: None }, patterns)
}

/// gRPC routes among HTTP routes: a failure is a status there, and 503 is what clients read as UNAVAILABLE.
pub(in crate::world) fn as_http(mut routes: HttpRoutes) -> HttpRoutes {
    let is_grpc = |route: &HttpRoute| route.resource.kind() == "GRPCRoute";
    for rule in routes.routes.iter_mut().filter(|r| is_grpc(r)).flat_map(|r| &mut r.rules) {
        let backends: &mut dyn Iterator<Item = &mut Backend> = match &mut rule.backends {
            Distribution::Empty => &mut std::iter::empty(),
            Distribution::First(backends) => &mut backends.iter_mut(),
            Distribution::Random(backends) => &mut backends.iter_mut().map(|(backend, _)| backend),
        };
        let filters = rule.filters.iter_mut().chain(backends.flat_map(|b| &mut b.filters));
        for filter in filters {
            if let Filter::Fail(failure) = filter {
                failure.status = 503;
            }
        }
    }
    routes
}
