//! Where a request goes: routes of one service, and [`pick`].
//!
//! Precedence among matches is the Gateway API's (HTTPRoute, `matches`): exact path, then longest prefix, then
//! method, then most headers, then most query parameters, then the first in order.

use crate::breaker::Breaker;
use crate::cors::Cors;
use crate::fault::Fault;
use crate::name::Resource;
use crate::pattern::Pattern;
use crate::persistence::Persistence;
use crate::retry::{Retry, RetryBudget};
use crate::workload::Endpoint;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// How traffic to one original destination is treated.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboundPolicy {
    /// The Service (or default) it is for.
    pub parent: Resource,
    /// What is spoken, and where each kind goes.
    pub protocol: OutboundProtocol,
    /// What the Service says about endpoints that fail; `None` where it does not say anything.
    pub breaker: Option<Box<Breaker>>,
}

/// What is spoken to a destination.
#[derive(Clone, Debug, PartialEq)]
pub enum OutboundProtocol {
    /// Find out, for at most `timeout`.
    Detect {
        /// Limit on looking at the client's first bytes.
        timeout: Duration,
        /// HTTP/1 requests.
        http1: HttpRoutes,
        /// HTTP/2 requests, gRPC among them.
        http2: HttpRoutes,
        /// Everything else.
        opaque: OpaqueRoutes,
    },
    /// Declared HTTP/1.
    Http1(HttpRoutes),
    /// Declared HTTP/2.
    Http2(HttpRoutes),
    /// Declared gRPC.
    Grpc(HttpRoutes),
    /// Declared bytes.
    Opaque(OpaqueRoutes),
    /// The application's own TLS, carried as bytes.
    Tls(OpaqueRoutes),
}

/// Routes in order, most specific parent first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpRoutes {
    /// HTTPRoutes and GRPCRoutes.
    pub routes: Vec<HttpRoute>,
}

/// One HTTPRoute or GRPCRoute; a gRPC route's service and method are path matches here.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRoute {
    /// The object.
    pub resource: Resource,
    /// Hosts it is for; empty means all.
    pub hosts: Vec<HostMatch>,
    /// Rules in order.
    pub rules: Vec<HttpRule>,
}

/// Matches, and what then happens.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRule {
    /// Any one of these; empty matches everything.
    pub matches: Vec<RequestMatch>,
    /// What is done to the request or answered instead, in order.
    pub filters: Vec<Filter>,
    /// Where it goes.
    pub backends: Distribution,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// When it is sent again.
    pub retry: Option<Box<Retry>>,
    /// How sessions persist: over the whole rule, or for single backends. The first that fits counts.
    pub persistence: Vec<Arc<Persistence>>,
}

/// Limits on a request's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request's start to the response's end.
    pub request: Option<Duration>,
    /// Of one attempt: from the request's end to the response's end.
    pub response: Option<Duration>,
    /// Without a byte in either direction.
    pub idle: Option<Duration>,
}

/// A host that a route is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMatch {
    /// This host, in lower case.
    Exact(Arc<str>),
    /// Hosts with at least one label before these; labels from the right, e.g. `["com", "example"]`.
    Suffix(Vec<Arc<str>>),
}

/// All of these must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestMatch {
    /// On the canonical path.
    pub path: Option<PathMatch>,
    /// On headers.
    pub headers: Vec<HeaderMatch>,
    /// On query parameters.
    pub query: Vec<QueryMatch>,
    /// On the method, case-sensitive.
    pub method: Option<Arc<str>>,
}

/// On the canonical path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathMatch {
    /// The whole path.
    Exact(Arc<str>),
    /// Whole segments from the front.
    Prefix(Arc<str>),
    /// A regular expression on the whole path.
    Regex(Pattern),
}

/// On a text value.
#[derive(Clone, Debug, PartialEq)]
pub enum TextMatch {
    /// The whole value.
    Exact(Arc<str>),
    /// A regular expression on the whole value.
    Regex(Pattern),
}

/// On a header.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderMatch {
    /// Lower-case name.
    pub name: Arc<str>,
    /// On any one of its values.
    pub value: TextMatch,
}

/// On a query parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryMatch {
    /// Exact name.
    pub name: Arc<str>,
    /// On its first value.
    pub value: TextMatch,
}

/// What a rule does besides choosing a backend.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Changes request headers.
    RequestHeaders(HeaderChange),
    /// Changes response headers.
    ResponseHeaders(HeaderChange),
    /// Answers with a redirect.
    Redirect(Redirect),
    /// Answers with a failure, for a share of requests.
    Fail(Failure),
    /// Changes host or path of the request that goes on.
    Rewrite(Rewrite),
    /// Answers preflight requests, and allows origins to read responses.
    Cors(Arc<Cors>),
    /// Sends a copy of the request somewhere else.
    Mirror(Arc<Mirror>),
    /// Delays requests, or answers them with a failure, for a time.
    Fault(Arc<Fault>),
}

/// Header changes in Gateway API's order: set, add, remove. Names in lower case where they are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderChange {
    /// Replaces.
    pub set: Vec<(Arc<str>, Arc<str>)>,
    /// Appends.
    pub add: Vec<(Arc<str>, Arc<str>)>,
    /// Removes.
    pub remove: Vec<Arc<str>>,
}

/// A redirect's parts; what is absent stays as in the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirect {
    /// `http` or `https`.
    pub scheme: Option<Arc<str>>,
    /// Host.
    pub host: Option<Arc<str>>,
    /// Replaces the whole path.
    pub path_full: Option<Arc<str>>,
    /// Replaces the matched prefix.
    pub path_prefix: Option<Arc<str>>,
    /// Port.
    pub port: Option<u16>,
    /// Status, 302 by default.
    pub status: u16,
}

/// Changes of a request's target; what is absent stays as in the request. The query always stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Host, with a port where the application is to see one.
    pub host: Option<Arc<str>>,
    /// Replaces the whole path.
    pub path_full: Option<Arc<str>>,
    /// Replaces the matched prefix.
    pub path_prefix: Option<Arc<str>>,
}

/// Where copies of requests go.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// One that exists.
    pub backend: Backend,
    /// So many of `denominator` requests are copied.
    pub numerator: u32,
    /// At least 1.
    pub denominator: u32,
}

impl Mirror {
    /// Whether this request is among those that are copied; `random` is from 0 to 1.
    #[must_use]
    pub fn takes(&self, random: f64) -> bool {
        random * f64::from(self.denominator) < f64::from(self.numerator)
    }
}

/// An injected failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status, or gRPC code for a gRPC route.
    pub status: u16,
    /// Said to the client.
    pub message: Arc<str>,
    /// So many of `denominator`.
    pub numerator: u32,
    /// Of so many; 0 means every request.
    pub denominator: u32,
}

/// Where a rule's requests go.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Nowhere: the rule answers by itself, or is broken (500).
    Empty,
    /// The first backend that is available.
    First(Vec<Backend>),
    /// One at random by weight.
    Random(Vec<(Backend, u32)>),
}

/// A backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// The object.
    pub resource: Resource,
    /// How endpoints are found.
    pub kind: BackendKind,
    /// Filters of this backend alone.
    pub filters: Vec<Filter>,
}

/// How a backend's endpoints are found.
#[derive(Clone, Debug, PartialEq)]
pub enum BackendKind {
    /// One endpoint, given.
    Forward(Arc<Endpoint>),
    /// Endpoints from destination discovery, balanced.
    Balance(Balance),
    /// None: what the author referred to is not there or not allowed. Its share of requests is answered by its
    /// filters, or else with 500; its share of connections is refused.
    Broken,
}

/// Parameters of a balanced backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// What destination discovery is asked for, e.g. `reviews.default.svc.cluster.local:9080`.
    pub destination: Arc<str>,
    /// Latency assumed of an endpoint that has shown none.
    pub default_latency: Duration,
    /// How fast the moving average forgets.
    pub decay: Duration,
    /// How many retries it may get, where that is not the default.
    pub retry_budget: Option<RetryBudget>,
}

/// Routes of connections that are not HTTP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpaqueRoutes {
    /// In order; the first with a rule is used.
    pub routes: Vec<OpaqueRoute>,
}

/// One route of connections.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueRoute {
    /// The object.
    pub resource: Resource,
    /// Server names it is for (TLS routes); empty means all.
    pub server_names: Vec<HostMatch>,
    /// The rules' backends, in order.
    pub rules: Vec<Distribution>,
}

/// What [`pick`] reads of a request.
pub trait RequestView {
    /// Host in canonical form: lower case, no port.
    fn host(&self) -> &str;
    /// Canonical path, without query.
    fn path(&self) -> &str;
    /// Query without `?`, or empty.
    fn query(&self) -> &str;
    /// Method.
    fn method(&self) -> &str;
    /// Whether any value of the header (lower-case name) satisfies the predicate; values that are not UTF-8 do not.
    fn any_header(&self, name: &str, predicate: &mut dyn FnMut(&str) -> bool) -> bool;
}

/// What was chosen.
#[derive(Clone, Copy, Debug)]
pub struct Picked<'a> {
    /// The route.
    pub route: &'a HttpRoute,
    /// Its rule.
    pub rule: &'a HttpRule,
    /// Bytes of the path that a prefix match covered.
    pub prefix_bytes: usize,
}

/// How specific a match is; the greater wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Specificity {
    host: (bool, usize),
    path_exact: bool,
    path_bytes: usize,
    method: bool,
    headers: usize,
    query: usize,
}

/// The most specific rule that matches, or `None` (404).
#[must_use]
pub fn pick<'a>(routes: &'a HttpRoutes, request: &impl RequestView) -> Option<Picked<'a>> {
    let mut best: Option<(Specificity, Picked<'a>)> = None;
    for route in &routes.routes {
        let Some(host) = most_specific_host(&route.hosts, request.host()) else { continue };
        for rule in &route.rules {
            let specificity = if rule.matches.is_empty() {
                Some(Specificity { host, ..Specificity::default() })
            } else {
                rule.matches.iter().filter_map(|m| m.specificity(request, host)).max()
            };
            let Some(specificity) = specificity else { continue };
            if best.as_ref().is_none_or(|(so_far, _)| specificity > *so_far) {
                let prefix_bytes = specificity.path_bytes;
                best = Some((specificity, Picked { route, rule, prefix_bytes }));
            }
        }
    }
    best.map(|(_, picked)| picked)
}

/// The number of the most specific of several (hosts, matches) that takes the request, by the same precedence as [`pick`]. They may
/// come in any order.
pub(crate) fn most_specific<'a>(
    routes: impl Iterator<Item = (usize, (&'a [HostMatch], &'a [RequestMatch]))>,
    request: &impl RequestView,
) -> Option<usize> {
    let mut best: Option<(Specificity, Reverse<usize>)> = None;
    for (number, (hosts, matches)) in routes {
        let Some(host) = most_specific_host(hosts, request.host()) else { continue };
        let found = matches.iter().filter_map(|m| m.specificity(request, host)).max();
        let Some(found) = found else { continue };
        // Of equal ones the first.
        best = best.max(Some((found, Reverse(number))));
    }
    best.map(|(_, Reverse(number))| number)
}

fn most_specific_host(hosts: &[HostMatch], host: &str) -> Option<(bool, usize)> {
    if hosts.is_empty() {
        return Some((false, 0));
    }
    hosts.iter().filter_map(|m| m.specificity(host)).max()
}

impl HostMatch {
    /// Exactness and length, where the host matches.
    fn specificity(&self, host: &str) -> Option<(bool, usize)> {
        match self {
            Self::Exact(exact) => (exact.as_ref() == host).then_some((true, host.len())),
            Self::Suffix(reversed) => {
                let mut labels = host.rsplit('.');
                let all = reversed.iter().all(|label| labels.next() == Some(label));
                (all && labels.next().is_some())
                    .then(|| (false, 1 + reversed.iter().map(|label| label.len()).sum::<usize>()))
            }
        }
    }

    /// Whether the host (or server name) matches.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        self.specificity(host).is_some()
    }
}

impl RequestMatch {
    fn specificity(&self, request: &impl RequestView, host: (bool, usize)) -> Option<Specificity> {
        let (path_exact, path_bytes) = match &self.path {
            None => (false, 0),
            Some(path) => path.specificity(request.path())?,
        };
        let matched = self.method.as_ref().is_none_or(|method| method.as_ref() == request.method())
            && self.headers.iter().all(|header| {
                request.any_header(&header.name, &mut |value| header.value.matches(value))
            })
            && self.query.iter().all(|query| {
                query_value(request.query(), &query.name)
                    .is_some_and(|value| query.value.matches(value))
            });
        matched.then_some(Specificity {
            host,
            path_exact,
            path_bytes,
            method: self.method.is_some(),
            headers: self.headers.len(),
            query: self.query.len(),
        })
    }
}

impl PathMatch {
    /// Whether it takes a canonical path.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.specificity(path).is_some()
    }

    /// Exactness and matched bytes.
    fn specificity(&self, path: &str) -> Option<(bool, usize)> {
        match self {
            Self::Exact(exact) => (exact.as_ref() == path).then_some((true, path.len())),
            Self::Prefix(prefix) => {
                let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
                let rest = path.strip_prefix(prefix)?;
                (rest.is_empty() || rest.starts_with('/')).then_some((false, prefix.len()))
            }
            Self::Regex(pattern) => pattern.is_match(path).then_some((false, path.len())),
        }
    }
}

impl TextMatch {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => exact.as_ref() == text,
            Self::Regex(pattern) => pattern.is_match(text),
        }
    }
}

/// The first value of a query parameter, as written.
fn query_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

/// The canonical path with the first `prefix_bytes`, which a prefix match covered, replaced. The Gateway API's table for
/// `ReplacePrefixMatch`: a slash at the end of either prefix does not count, and a path is never empty.
#[must_use]
pub fn replace_prefix(path: &str, prefix_bytes: usize, replacement: &str) -> String {
    let rest = path.get(prefix_bytes..).unwrap_or_default();
    let replaced = format!("{}{rest}", replacement.trim_end_matches('/'));
    if replaced.starts_with('/') { replaced } else { format!("/{replaced}") }
}

/// One of the weighted backends, `random` uniform in 0.0..1.0; `None` where no weight is left.
#[must_use]
pub fn pick_weighted<T>(weighted: &[(T, u32)], random: f64) -> Option<&T> {
    let total: u64 = weighted.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut left = (random * total as f64) as u64;
    weighted.iter().find_map(|(backend, weight)| {
        let weight = u64::from(*weight);
        if left < weight {
            return Some(backend);
        }
        left -= weight;
        None
    })
}

#[cfg(test)]
mod tests;
