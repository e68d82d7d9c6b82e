//! What linkerd's messages have no field for: field 1000 of `OutboundPolicy`, which linkerd's proxies skip as protobuf demands.
//!
//! The field lists filters by their place among the filters of a rule or of a backend. Where a proxy without the field would
//! do something wrong, a failure stands in linkerd's list at the same place, and this filter stands instead of the failure.

use super::backend::{backend, backend_message};
use super::budget::{self, Budgets, RetryBudgetMessage};
use super::fault::{self, FaultMessage};
use super::persistence::{self, PersistenceMessage, Persistences};
use crate::{WireError, matching, parts};
use leno_model::cors::{Cors, OriginMatch};
use leno_model::limit::FILTERS_MAX;
use leno_model::persistence::Persistence;
use leno_model::route::{Backend, Filter, HttpRule, Mirror, Rewrite};
use linkerd2_proxy_api::{meta, outbound as message};
use std::collections::HashMap;
use std::sync::Arc;

/// linkerd's `OutboundPolicy` with the field of Leno.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PolicyMessage {
    /// linkerd's.
    #[prost(message, optional, tag = "1")]
    pub protocol: Option<message::ProxyProtocol>,
    /// linkerd's.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<meta::Metadata>,
    /// Leno's own.
    #[prost(message, optional, tag = "1000")]
    pub own: Option<OwnMessage>,
}

impl From<message::OutboundPolicy> for PolicyMessage {
    fn from(message: message::OutboundPolicy) -> Self {
        Self { protocol: message.protocol, metadata: message.metadata, own: None }
    }
}

/// What linkerd's messages have no field for.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OwnMessage {
    /// Lists of filters.
    #[prost(message, repeated, tag = "1")]
    pub filters: Vec<FiltersMessage>,
    /// What linkerd's failure accrual has no field for.
    #[prost(message, optional, tag = "2")]
    pub breaker: Option<BreakerMessage>,
    /// Destinations with a retry budget of their own.
    #[prost(message, repeated, tag = "3")]
    pub budgets: Vec<RetryBudgetMessage>,
    /// Rules and backends with session persistence.
    #[prost(message, repeated, tag = "4")]
    pub persistence: Vec<PersistenceMessage>,
}

/// What a Service says about its endpoints.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BreakerMessage {
    /// No endpoint is ejected.
    #[prost(bool, tag = "1")]
    pub accrual_off: bool,
    /// Connections that are forwarded as bytes; 0 is unlimited, as below.
    #[prost(uint32, tag = "2")]
    pub connections_max: u32,
    /// Requests that wait for a connection.
    #[prost(uint32, tag = "3")]
    pub pending_max: u32,
    /// Requests from their head to the end of the response.
    #[prost(uint32, tag = "4")]
    pub requests_max: u32,
}

/// Filters of one rule or backend.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FiltersMessage {
    /// 2 for the HTTP/2 routes of a policy that detects, 1 otherwise.
    #[prost(uint32, tag = "1")]
    pub protocol: u32,
    /// Its place among the routes.
    #[prost(uint32, tag = "2")]
    pub route: u32,
    /// Its place among the rules.
    #[prost(uint32, tag = "3")]
    pub rule: u32,
    /// 0 for the rule itself, 1 for its first backend.
    #[prost(uint32, tag = "4")]
    pub backend: u32,
    /// By place.
    #[prost(message, repeated, tag = "5")]
    pub filters: Vec<FilterMessage>,
}

/// A filter and its place.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FilterMessage {
    /// Its place among all filters of the rule or backend.
    #[prost(uint32, tag = "1")]
    pub position: u32,
    /// It stands instead of linkerd's filter at this place.
    #[prost(bool, tag = "2")]
    pub instead: bool,
    /// The filter itself.
    #[prost(oneof = "Kind", tags = "3, 4, 5, 6")]
    pub kind: Option<Kind>,
}

/// Kinds of filters.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    /// Changes host or path of the request.
    #[prost(message, tag = "3")]
    Rewrite(RewriteMessage),
    /// Cross-origin requests.
    #[prost(message, tag = "4")]
    Cors(CorsMessage),
    /// Copies of requests.
    #[prost(message, boxed, tag = "5")]
    Mirror(Box<MirrorMessage>),
    /// A delay or a failure.
    #[prost(message, tag = "6")]
    Fault(FaultMessage),
}

/// Where copies of requests go.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MirrorMessage {
    /// In linkerd's words.
    #[prost(message, optional, tag = "1")]
    pub backend: Option<message::Backend>,
    /// So many of `denominator` requests.
    #[prost(uint32, tag = "2")]
    pub numerator: u32,
    /// At least 1.
    #[prost(uint32, tag = "3")]
    pub denominator: u32,
}

/// What other origins may do.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CorsMessage {
    /// As `OriginMatch` reads them.
    #[prost(string, repeated, tag = "1")]
    pub origins: Vec<String>,
    /// Tokens, or `*`.
    #[prost(string, repeated, tag = "2")]
    pub methods: Vec<String>,
    /// Request headers.
    #[prost(string, repeated, tag = "3")]
    pub headers: Vec<String>,
    /// Response headers that scripts may read.
    #[prost(string, repeated, tag = "4")]
    pub exposed: Vec<String>,
    /// Whether requests may carry credentials.
    #[prost(bool, tag = "5")]
    pub credentials: bool,
    /// How long the answer to a preflight request may be kept.
    #[prost(uint32, tag = "6")]
    pub max_age_seconds: u32,
}

/// Changes of a request's target; what is empty or absent stays.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RewriteMessage {
    /// For `Host` or `:authority`.
    #[prost(string, tag = "1")]
    pub host: String,
    /// The whole path.
    #[prost(string, optional, tag = "2")]
    pub path_full: Option<String>,
    /// The matched prefix.
    #[prost(string, optional, tag = "3")]
    pub path_prefix: Option<String>,
}

/// A rule or a backend of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    protocol: u32,
    route: u32,
    rule: u32,
    backend: u32,
}

impl Spot {
    /// The routes of a policy, or its HTTP/1 routes.
    pub(super) const ONE: Self = Self { protocol: 1, route: 0, rule: 0, backend: 0 };
    /// The HTTP/2 routes of a policy that detects.
    pub(super) const TWO: Self = Self { protocol: 2, ..Self::ONE };

    /// Protocol, route and rule.
    fn place(self) -> (u32, u32, u32) {
        (self.protocol, self.route, self.rule)
    }

    pub(super) fn route(self, number: usize) -> Self {
        Self { route: small(number), ..self }
    }

    pub(super) fn rule(self, number: usize) -> Self {
        Self { rule: small(number), ..self }
    }

    pub(super) fn backend(self, number: usize) -> Self {
        Self { backend: small(number).saturating_add(1), ..self }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The filters and persistence of a message by their place, and the budgets of its destinations.
#[derive(Default)]
pub(super) struct Own<'a> {
    filters: HashMap<Spot, &'a [FilterMessage]>,
    budgets: Budgets<'a>,
    persistence: Persistences,
}

impl<'a> Own<'a> {
    pub(super) fn of(message: Option<&'a OwnMessage>) -> Result<Self, WireError> {
        let lists = message.map(|own| own.filters.as_slice()).unwrap_or_default();
        let list = |list: &'a FiltersMessage| {
            let FiltersMessage { protocol, route, rule, backend, ref filters } = *list;
            (Spot { protocol, route, rule, backend }, filters.as_slice())
        };
        Ok(Self {
            filters: lists.iter().map(list).collect(),
            budgets: budget::read(message.map_or(&[], |own| &own.budgets))?,
            persistence: persistence::read(message.map_or(&[], |own| &own.persistence))?,
        })
    }

    /// What linkerd's words say of a backend, with its budget.
    pub(super) fn complete(&self, backend: Backend) -> Backend {
        budget::complete(&self.budgets, backend)
    }

    /// How sessions of a rule persist.
    pub(super) fn persistence(&self, rule: Spot) -> Vec<Arc<Persistence>> {
        self.persistence.get(&rule.place()).cloned().unwrap_or_default()
    }

    /// All filters of a rule or backend, whose filters in linkerd's words are `standard`.
    pub(super) fn merge(
        &self,
        spot: Spot,
        mut standard: Vec<Filter>,
    ) -> Result<Vec<Filter>, WireError> {
        for message in self.filters.get(&spot).copied().unwrap_or_default() {
            let position = message.position as usize;
            let places = if message.instead { standard.len() } else { standard.len() + 1 };
            if position >= places {
                let reason = format_args!("{position} is not one of {places} places");
                return Err(WireError::invalid("own.filters.position", reason));
            }
            let filter = read(message)?;
            if message.instead {
                standard[position] = filter;
            } else {
                standard.insert(position, filter);
            }
            parts::at_most(standard.len(), FILTERS_MAX, "filters")?;
        }
        Ok(standard)
    }
}

/// What linkerd's messages have no field for, as it is collected.
#[derive(Default)]
pub(super) struct Collected {
    filters: Vec<FiltersMessage>,
    budgets: Vec<RetryBudgetMessage>,
    persistence: Vec<PersistenceMessage>,
}

impl Collected {
    /// The filters of a rule or backend in linkerd's words. The others are collected. `standard` returns no filter where
    /// linkerd has none; `failure` makes the one that fails every request.
    pub(super) fn split<'f, M>(
        &mut self,
        spot: Spot,
        filters: impl Iterator<Item = &'f Filter>,
        standard: impl Fn(&Filter) -> Result<Option<M>, WireError>,
        failure: impl Fn(&'static str) -> M,
    ) -> Result<Vec<M>, WireError> {
        let (mut messages, mut own) = (Vec::new(), Vec::new());
        for (position, filter) in filters.enumerate() {
            if let Some(message) = standard(filter)? {
                messages.push(message);
                continue;
            }
            let Some((kind, without)) = written(filter) else { continue };
            messages.extend(without.map(&failure));
            let instead = without.is_some();
            own.push(FilterMessage { position: small(position), instead, kind: Some(kind) });
        }
        if !own.is_empty() {
            let Spot { protocol, route, rule, backend } = spot;
            self.filters.push(FiltersMessage { protocol, route, rule, backend, filters: own });
        }
        Ok(messages)
    }

    /// Notes what linkerd's words cannot say of a backend.
    pub(super) fn backend(&mut self, backend: &Backend) {
        budget::collect(&mut self.budgets, backend);
    }

    /// Notes how sessions of a rule persist.
    pub(super) fn rule(&mut self, spot: Spot, rule: &HttpRule) {
        persistence::collect(&mut self.persistence, spot.place(), rule);
    }

    pub(super) fn message(self, breaker: Option<BreakerMessage>) -> Option<OwnMessage> {
        let Self { filters, budgets, persistence } = self;
        let own = OwnMessage { filters, breaker, budgets, persistence };
        (own != OwnMessage::default()).then_some(own)
    }
}

/// The filter, and the failure that a proxy without it answers with, where its requests would go wrong without it.
fn written(filter: &Filter) -> Option<(Kind, Option<&'static str>)> {
    match filter {
        Filter::RequestHeaders(_)
        | Filter::ResponseHeaders(_)
        | Filter::Redirect(_)
        | Filter::Fail(_) => None,
        Filter::Rewrite(Rewrite { host, path_full, path_prefix }) => {
            let text = |part: &Option<Arc<str>>| part.as_ref().map(ToString::to_string);
            let rewrite = RewriteMessage {
                host: host.as_deref().unwrap_or_default().to_owned(),
                path_full: text(path_full),
                path_prefix: text(path_prefix),
            };
            Some((Kind::Rewrite(rewrite), Some("this proxy has no filter URLRewrite")))
        }
        Filter::Cors(cors) => {
            let texts = |texts: &[Arc<str>]| texts.iter().map(ToString::to_string).collect();
            let cors = CorsMessage {
                origins: cors.origins.iter().map(|origin| origin.as_str().to_owned()).collect(),
                methods: texts(&cors.methods),
                headers: texts(&cors.headers),
                exposed: texts(&cors.exposed),
                credentials: cors.credentials,
                max_age_seconds: cors.max_age_seconds,
            };
            Some((Kind::Cors(cors), Some("this proxy has no filter CORS")))
        }
        // Without a mirror the caller gets the same response.
        Filter::Mirror(mirror) => {
            let Mirror { backend, numerator, denominator } = mirror.as_ref();
            let (numerator, denominator) = (*numerator, *denominator);
            let backend = Some(backend_message(backend));
            let message = MirrorMessage { backend, numerator, denominator };
            Some((Kind::Mirror(Box::new(message)), None))
        }
        // Without a fault the caller gets a good response.
        Filter::Fault(fault) => Some((Kind::Fault(fault::written(fault)), None)),
    }
}

fn read(message: &FilterMessage) -> Result<Filter, WireError> {
    match message.kind.as_ref().ok_or(WireError::Missing("own.filters.kind"))? {
        Kind::Cors(message) => cors(message),
        Kind::Fault(message) => Ok(Filter::Fault(Arc::new(fault::read(message)?))),
        Kind::Mirror(message) => {
            let MirrorMessage { backend: target, numerator, denominator } = message.as_ref();
            let (numerator, denominator) = (*numerator, *denominator);
            if denominator == 0 || numerator > denominator {
                let reason = format_args!("{numerator} of {denominator} is not a valid fraction");
                return Err(WireError::invalid("mirror.numerator", reason));
            }
            let backend = backend(target.as_ref(), Vec::new())?;
            Ok(Filter::Mirror(Arc::new(Mirror { backend, numerator, denominator })))
        }
        Kind::Rewrite(RewriteMessage { host, path_full, path_prefix }) => {
            let path = |path: &Option<String>, field| {
                path.as_ref().map(|path| target_part(path, field)).transpose()
            };
            let host = (!host.is_empty()).then(|| target_part(host, "rewrite.host")).transpose()?;
            Ok(Filter::Rewrite(Rewrite {
                host,
                path_full: path(path_full, "rewrite.path_full")?,
                path_prefix: path(path_prefix, "rewrite.path_prefix")?,
            }))
        }
    }
}

fn cors(message: &CorsMessage) -> Result<Filter, WireError> {
    let CorsMessage { origins, methods, headers, exposed, credentials, max_age_seconds } = message;
    parts::at_most(origins.len(), FILTERS_MAX, "cors.origins")?;
    let origin = |origin: &String| {
        parts::some_text(origin, "cors.origins")?;
        OriginMatch::parse(origin).map_err(|wrong| WireError::invalid("cors.origins", wrong))
    };
    let names = |names: &[String], field| {
        parts::at_most(names.len(), FILTERS_MAX, field)?;
        names.iter().map(|name| matching::token(name, field)).collect::<Result<_, _>>()
    };
    Ok(Filter::Cors(Arc::new(Cors {
        origins: origins.iter().map(origin).collect::<Result<_, _>>()?,
        methods: names(methods, "cors.methods")?,
        headers: names(headers, "cors.headers")?,
        exposed: names(exposed, "cors.exposed")?,
        credentials: *credentials,
        max_age_seconds: *max_age_seconds,
    })))
}

/// A part of a target: it can neither end the request line nor begin a query.
fn target_part(text: &str, field: &'static str) -> Result<Arc<str>, WireError> {
    if let Some(wrong) = text.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '?' | '#')) {
        return Err(WireError::invalid(
            field,
            format_args!("{text:?} has the character {wrong:?}"),
        ));
    }
    parts::text(text, field)
}
