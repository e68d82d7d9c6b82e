//! One request's way: [`View`] is what routing reads of it, [`Choice`] is what came out.

use crate::ending::Ending;
use crate::http1::relay::Lines;
use crate::request::local_reply::Refusal;
use crate::upstream::{Backend, SeriesKey};
use leno_http1::{FieldLine, canonical::Ambiguity};
use leno_http1::{RequestHead, canonical};
use leno_model::route::{
    self, Distribution, Filter, HeaderChange, HttpRoutes, HttpRule, OutboundPolicy,
    OutboundProtocol, Picked, RequestView, pick, pick_weighted,
};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

/// A request in canonical form, computed only as far as a rule looks.
pub struct View<'a> {
    source: Source<'a>,
    host: OnceCell<Cow<'a, str>>,
    path: OnceCell<Cow<'a, str>>,
    ambiguous: Cell<Option<Ambiguity>>,
}

enum Source<'a> {
    Http1(&'a RequestHead, &'a [u8]),
    Http2(&'a http::request::Parts),
}

impl<'a> View<'a> {
    /// Of an HTTP/1 head and the buffer that it was parsed from.
    #[must_use]
    pub fn http1(head: &'a RequestHead, bytes: &'a [u8]) -> Self {
        Self::new(Source::Http1(head, bytes))
    }

    /// Of an HTTP/2 request.
    #[must_use]
    pub fn http2(parts: &'a http::request::Parts) -> Self {
        Self::new(Source::Http2(parts))
    }

    fn new(source: Source<'a>) -> Self {
        Self { source, host: OnceCell::new(), path: OnceCell::new(), ambiguous: Cell::new(None) }
    }

    /// Whether the path can be read in two ways; then it is not what a rule thinks it is.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        let _read = self.path();
        self.ambiguous.get().is_some()
    }

    fn raw_authority(&self) -> &'a [u8] {
        match &self.source {
            Source::Http1(head, bytes) => head.authority(bytes).unwrap_or_default(),
            Source::Http2(parts) => parts
                .uri
                .authority()
                .map(|authority| authority.as_str().as_bytes())
                .or_else(|| parts.headers.get(http::header::HOST).map(http::HeaderValue::as_bytes))
                .unwrap_or_default(),
        }
    }
}

impl RequestView for View<'_> {
    fn host(&self) -> &str {
        self.host.get_or_init(|| {
            canonical::authority(self.raw_authority(), 80)
                .map_or(Cow::Borrowed(""), |authority| authority.host)
        })
    }

    fn path(&self) -> &str {
        self.path.get_or_init(|| {
            let raw = match &self.source {
                Source::Http1(head, bytes) => head.path(bytes),
                Source::Http2(parts) => parts.uri.path().as_bytes(),
            };
            let canonical = canonical::path(raw);
            self.ambiguous.set(canonical.ambiguous);
            canonical.path
        })
    }

    fn query(&self) -> &str {
        match &self.source {
            Source::Http1(head, bytes) => head
                .query(bytes)
                .and_then(|query| std::str::from_utf8(query).ok())
                .unwrap_or_default(),
            Source::Http2(parts) => parts.uri.query().unwrap_or_default(),
        }
    }

    fn method(&self) -> &str {
        match &self.source {
            Source::Http1(head, bytes) => {
                std::str::from_utf8(head.method_bytes(bytes)).unwrap_or_default()
            }
            Source::Http2(parts) => parts.method.as_str(),
        }
    }

    fn any_header(&self, name: &str, predicate: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut holds = |value: &[u8]| std::str::from_utf8(value).is_ok_and(&mut *predicate);
        match &self.source {
            Source::Http1(head, bytes) => head
                .headers(bytes)
                .any(|(known, value)| known.eq_ignore_ascii_case(name.as_bytes()) && holds(value)),
            Source::Http2(parts) => {
                parts.headers.get_all(name).iter().any(|value| holds(value.as_bytes()))
            }
        }
    }
}

/// Which of a policy's protocols a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// The rule that a request follows, and the backend that it names.
#[derive(Clone, Debug)]
pub struct Ruled {
    policy: Arc<OutboundPolicy>,
    kind: Kind,
    route: usize,
    rule: usize,
    backend: usize,
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The endpoints.
    pub backend: Rc<Backend>,
    /// The rule; the inbound side has none.
    pub ruled: Option<Ruled>,
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

/// Finds the rule, obeys its filters that answer by themselves, and draws a backend.
///
/// # Errors
/// No rule matches, the path can be read in two ways where a rule looks at it, the rule answers itself or is broken; or the
/// destination is not HTTP any more.
pub fn rule(
    policy: &Arc<OutboundPolicy>,
    kind: Kind,
    view: &View<'_>,
    random: f64,
) -> Result<Ruled, Refusal> {
    let routes = routes(policy, kind).ok_or(Ending::ProtocolChanged)?;
    let picked = pick(routes, view);
    if let Some(ambiguity) = view.ambiguous.get() {
        return Err(Refusal::because(Ending::MalformedRequest, ambiguity.as_str()));
    }
    let picked = picked.ok_or(Ending::NoRoute)?;
    for filter in &picked.rule.filters {
        answer_of(filter, &picked, view, random)?;
    }
    let backend = draw(&picked.rule.backends, random).ok_or(Ending::BackendInvalid)?;
    let route =
        routes.routes.iter().position(|route| std::ptr::eq(route, picked.route)).unwrap_or(0);
    let rule =
        picked.route.rules.iter().position(|rule| std::ptr::eq(rule, picked.rule)).unwrap_or(0);
    let ruled = Ruled { policy: policy.clone(), kind, route, rule, backend };
    for filter in &ruled.backend().filters {
        answer_of(filter, &picked, view, random)?;
    }
    Ok(ruled)
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

/// An error where the filter answers instead of forwarding.
fn answer_of(
    filter: &Filter,
    picked: &Picked<'_>,
    view: &View<'_>,
    random: f64,
) -> Result<(), Refusal> {
    match filter {
        Filter::Redirect(redirect) => {
            let host = redirect.host.as_deref().unwrap_or_else(|| view.host());
            let scheme = redirect.scheme.as_deref().unwrap_or("http");
            let port = redirect.port.or_else(|| {
                // The request's own port stays only where nothing that implies another was changed.
                let own = canonical::authority(view.raw_authority(), 80)
                    .and_then(|authority| authority.port);
                own.filter(|_| redirect.scheme.is_none())
            });
            let port = port.filter(|port| !matches!((scheme, port), ("http", 80) | ("https", 443)));
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            let path = match (&redirect.path_full, &redirect.path_prefix) {
                (Some(full), _) => full.to_string(),
                (None, Some(prefix)) => {
                    let rest = &view.path()[picked.prefix_bytes.min(view.path().len())..];
                    format!("{}{rest}", prefix.trim_end_matches('/'))
                }
                (None, None) => view.path().to_owned(),
            };
            let query =
                if view.query().is_empty() { String::new() } else { format!("?{}", view.query()) };
            Err(Refusal {
                status: Some(if redirect.status == 0 { 302 } else { redirect.status }),
                location: Some(format!("{scheme}://{host}{port}{path}{query}")),
                ..Ending::Complete.into()
            })
        }
        Filter::Fail(failure) => {
            let share = f64::from(failure.numerator) / f64::from(failure.denominator.max(1));
            if failure.denominator != 0 && random >= share {
                return Ok(());
            }
            Err(Refusal {
                status: Some(failure.status),
                ..Refusal::because(Ending::FailureInjected, failure.message.to_string())
            })
        }
        Filter::RequestHeaders(_) | Filter::ResponseHeaders(_) => Ok(()),
    }
}

impl Ruled {
    /// The rule itself.
    #[must_use]
    pub fn rule(&self) -> &HttpRule {
        let routes =
            routes(&self.policy, self.kind).expect("the policy had routes when it was ruled");
        &routes.routes[self.route].rules[self.rule]
    }

    /// The route's object.
    #[must_use]
    pub fn route(&self) -> &leno_model::name::Resource {
        let routes =
            routes(&self.policy, self.kind).expect("the policy had routes when it was ruled");
        &routes.routes[self.route].resource
    }

    /// The policy's object.
    #[must_use]
    pub fn parent(&self) -> &leno_model::name::Resource {
        &self.policy.parent
    }

    /// The backend that was drawn.
    #[must_use]
    pub fn backend(&self) -> &route::Backend {
        match &self.rule().backends {
            Distribution::First(backends) => &backends[self.backend],
            Distribution::Random(weighted) => &weighted[self.backend].0,
            Distribution::Empty => unreachable!("a backend was drawn"),
        }
    }

    fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.rule().filters.iter().chain(&self.backend().filters)
    }
}

impl Choice {
    /// Which numbers.
    #[must_use]
    pub fn series_key(&self) -> SeriesKey<'_> {
        let place = |ruled: &Ruled| ruled.route * 2 + usize::from(ruled.kind == Kind::Http2);
        SeriesKey {
            policy: self.ruled.as_ref().map(|ruled| &ruled.policy),
            route: self.ruled.as_ref().map_or(0, place),
        }
    }

    /// Header changes of the request.
    #[must_use]
    pub fn request_lines(&self) -> Lines<'_> {
        lines(self.changes().filter_map(|filter| match filter {
            Filter::RequestHeaders(change) => Some(change),
            _ => None,
        }))
    }

    /// Header changes of the response.
    #[must_use]
    pub fn response_lines(&self) -> Lines<'_> {
        lines(self.changes().filter_map(|filter| match filter {
            Filter::ResponseHeaders(change) => Some(change),
            _ => None,
        }))
    }

    /// Header changes, requests' and responses' alike.
    pub fn changes(&self) -> impl Iterator<Item = &Filter> {
        self.ruled.iter().flat_map(Ruled::filters)
    }
}

/// Lines that HTTP/1 may not carry (framing, hop-by-hop) are left out: the control plane has reported them.
fn lines<'a>(changes: impl Iterator<Item = &'a HeaderChange>) -> Lines<'a> {
    let mut lines = Lines::default();
    for change in changes {
        let line =
            |(name, value): &'a (Arc<str>, Arc<str>)| FieldLine::new(name, value.as_bytes()).ok();
        lines.set.extend(change.set.iter().filter_map(line));
        lines.append.extend(change.add.iter().filter_map(line));
        lines.remove.extend(change.remove.iter().map(AsRef::as_ref));
    }
    lines
}
