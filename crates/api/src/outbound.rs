//! How traffic to one original destination is routed: `outbound.OutboundPolicy` <-> [`OutboundPolicy`].
//!
//! A gRPC route's service and method are path matches in the model and become service and method again on the way out.
//! Queues are bounded by the proxy's own limits.
//!
//! A route that cannot be read stops no other: see [`received`].
//!
//! - `backend.rs`: backends and how endpoints are found.
//! - `breaker.rs`: endpoints that fail.
//! - `budget.rs`: how many retries destinations get.
//! - `distribution.rs`: the one shape that four kinds of routes share.
//! - `own.rs`: what linkerd's messages have no field for.
//! - `persistence.rs`: how sessions stay with an endpoint.
//! - `service.rs`: linkerd's service with the message of `own.rs`.
//! - `http.rs`, `grpc.rs`, `connection.rs`: routes of each kind.
//! - `retry.rs`: retries of both kinds of rules.
//! - `spared.rs`: what is kept of a route that cannot be read.

use crate::WireError;
use crate::parts;
use leno_model::limit::{RULES_MAX, SERVICE_PATTERNS_BYTES_MAX};
use leno_model::name::WorkloadId;
use leno_model::pattern::Patterns;
use leno_model::route::{OutboundPolicy, OutboundProtocol};
use linkerd2_proxy_api::outbound as message;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

pub use budget::RetryBudgetMessage;
pub use fault::{
    AbortMessage, ClientsMessage, DelayMessage, FaultMessage, HeaderMessage, ShareMessage,
};
pub use own::{
    BreakerMessage, CorsMessage, FilterMessage, FiltersMessage, Kind as FilterKind, MirrorMessage,
    OwnMessage, PolicyMessage, RewriteMessage,
};
use own::{Collected, Own, Spot};
pub use persistence::PersistenceMessage;
pub use spared::Refused;
use spared::Spared;

mod backend;
mod breaker;
mod budget;
mod connection;
mod distribution;
mod fault;
pub(crate) mod grpc;
mod http;
mod own;
mod persistence;
mod retry;
pub mod service;
mod spared;

/// What a proxy wants to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An original destination.
    Address(SocketAddr),
    /// A name and port, e.g. an HTTP authority.
    Authority(Arc<str>),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Authority(name) => name.fmt(f),
        }
    }
}

/// What a proxy asks for: the policy of an original destination, as seen from its workload.
#[must_use]
pub fn request(workload: &WorkloadId, target: SocketAddr) -> message::TrafficSpec {
    message::TrafficSpec {
        source_workload: workload.to_string(),
        target: Some(message::traffic_spec::Target::Addr(target.into())),
    }
}

/// Reads what a proxy asks for.
///
/// # Errors
/// The workload or the target is not one.
pub fn read_request(message: &message::TrafficSpec) -> Result<(WorkloadId, Target), WireError> {
    use message::traffic_spec::Target as Asked;
    let workload = WorkloadId::parse(&message.source_workload)
        .map_err(|error| WireError::invalid("source_workload", error))?;
    let target = match message.target.as_ref().ok_or(WireError::Missing("target"))? {
        Asked::Addr(address) => Target::Address(parts::address(Some(address), "target.addr")?),
        Asked::Authority(name) => Target::Authority(parts::some_text(name, "target.authority")?),
    };
    Ok((workload, target))
}

/// A policy, and the routes of the message that it changes or omits.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The policy.
    pub policy: OutboundPolicy,
    /// Routes that could not be read, with the reason.
    pub refused: Vec<Refused>,
}

/// Reads a policy of which every part is to be right.
///
/// # Errors
/// Names the field that is missing, malformed, too large or not supported.
pub fn from_message(message: &PolicyMessage) -> Result<OutboundPolicy, WireError> {
    whole(received(message)?)
}

fn whole(received: Received) -> Result<OutboundPolicy, WireError> {
    let Received { policy, refused } = received;
    refused.into_iter().next().map_or(Ok(policy), |refused| Err(refused.error))
}

/// Reads a policy, and its routes one by one. What a route that cannot be read would have decided is not left to others that may be
/// less strict: as many of its requests as can be told answer with a failure, its connections are refused.
///
/// # Errors
/// What is not in a route is missing, malformed or too large.
pub fn received(message: &PolicyMessage) -> Result<Received, WireError> {
    received_with(message, &Patterns::new("the Service", SERVICE_PATTERNS_BYTES_MAX))
}

fn received_with(message: &PolicyMessage, patterns: &Patterns) -> Result<Received, WireError> {
    use message::proxy_protocol::Kind;
    let mut spared = Spared::default();
    let own = &Own::of(message.own.as_ref())?;
    let protocol = message.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref());
    let protocol = protocol.ok_or(WireError::Missing("protocol.kind"))?;
    let breaker = breaker::read(breaker::accrual_of(protocol), message.own.as_ref())?;
    let protocol = match protocol {
        Kind::Detect(detect) => {
            let http1 = detect.http1.as_ref().ok_or(WireError::Missing("detect.http1"))?;
            let http2 = detect.http2.as_ref().ok_or(WireError::Missing("detect.http2"))?;
            let opaque = detect.opaque.as_ref().ok_or(WireError::Missing("detect.opaque"))?;
            OutboundProtocol::Detect {
                timeout: parts::duration(detect.timeout.as_ref(), "detect.timeout")?,
                http1: http::routes(&http1.routes, (own, Spot::ONE), patterns, &mut spared)?,
                http2: http::routes(&http2.routes, (own, Spot::TWO), patterns, &mut spared)?,
                opaque: connection::opaque_routes(&opaque.routes, &mut spared)?,
            }
        }
        Kind::Http1(http1) => OutboundProtocol::Http1(http::routes(
            &http1.routes,
            (own, Spot::ONE),
            patterns,
            &mut spared,
        )?),
        Kind::Http2(http2) => OutboundProtocol::Http2(http::routes(
            &http2.routes,
            (own, Spot::ONE),
            patterns,
            &mut spared,
        )?),
        Kind::Grpc(grpc) => OutboundProtocol::Grpc(grpc::routes(
            &grpc.routes,
            (own, Spot::ONE),
            patterns,
            &mut spared,
        )?),
        Kind::Opaque(opaque) => {
            OutboundProtocol::Opaque(connection::opaque_routes(&opaque.routes, &mut spared)?)
        }
        Kind::Tls(tls) => OutboundProtocol::Tls(connection::tls_routes(&tls.routes, &mut spared)?),
    };
    let parent = parts::resource(message.metadata.as_ref(), "metadata")?;
    Ok(Received { policy: OutboundPolicy { parent, protocol, breaker }, refused: spared.refused })
}

/// Whether the policy can be written, and read again where it goes. Its patterns are among those given.
///
/// # Errors
/// What keeps it from that.
pub fn check(policy: &OutboundPolicy, patterns: &Patterns) -> Result<(), WireError> {
    received_with(&to_message(policy)?, patterns).and_then(whole).map(drop)
}

/// Writes a policy.
///
/// # Errors
/// A route of declared gRPC has a match or filter that a gRPC route cannot say, or a route of connections has filters.
pub fn to_message(policy: &OutboundPolicy) -> Result<PolicyMessage, WireError> {
    use message::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
    let mut collected = Collected::default();
    let own = &mut collected;
    let failure_accrual = breaker::accrual_message(policy.breaker.as_deref());
    let http1 = |routes, own: &mut Collected| {
        let routes = http::routes_message(routes, own, Spot::ONE)?;
        Ok::<_, WireError>(Http1 { routes, failure_accrual })
    };
    let http2 = |routes, own: &mut Collected, spot| {
        let routes = http::routes_message(routes, own, spot)?;
        Ok::<_, WireError>(Http2 { routes, failure_accrual })
    };
    let kind = match &policy.protocol {
        OutboundProtocol::Detect { timeout, http1: one, http2: two, opaque } => {
            Kind::Detect(Detect {
                timeout: Some(parts::duration_message(*timeout)),
                opaque: Some(Opaque { routes: connection::opaque_routes_message(opaque)? }),
                http1: Some(http1(one, own)?),
                http2: Some(http2(two, own, Spot::TWO)?),
            })
        }
        OutboundProtocol::Http1(routes) => Kind::Http1(http1(routes, own)?),
        OutboundProtocol::Http2(routes) => Kind::Http2(http2(routes, own, Spot::ONE)?),
        OutboundProtocol::Grpc(routes) => Kind::Grpc(Grpc {
            routes: grpc::routes_message(routes, own, Spot::ONE)?,
            failure_accrual,
        }),
        OutboundProtocol::Opaque(routes) => {
            Kind::Opaque(Opaque { routes: connection::opaque_routes_message(routes)? })
        }
        OutboundProtocol::Tls(routes) => {
            Kind::Tls(Tls { routes: connection::tls_routes_message(routes)? })
        }
    };
    Ok(PolicyMessage {
        protocol: Some(message::ProxyProtocol { kind: Some(kind) }),
        metadata: Some(parts::resource_message(&policy.parent)),
        own: collected.message(breaker::own_message(policy.breaker.as_deref())),
    })
}

/// What the message asks for that is understood and not carried out.
#[must_use]
pub fn unserved(message: &PolicyMessage) -> Vec<&'static str> {
    use message::proxy_protocol::Kind;
    let mut unserved = Vec::new();
    match message.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref()) {
        Some(Kind::Detect(detect)) => {
            if let Some(http1) = &detect.http1 {
                http::unserved(&http1.routes, &mut unserved);
            }
            if let Some(http2) = &detect.http2 {
                http::unserved(&http2.routes, &mut unserved);
            }
        }
        Some(Kind::Http1(http1)) => http::unserved(&http1.routes, &mut unserved),
        Some(Kind::Http2(http2)) => http::unserved(&http2.routes, &mut unserved),
        Some(Kind::Grpc(grpc)) => grpc::unserved(&grpc.routes, &mut unserved),
        Some(Kind::Opaque(_) | Kind::Tls(_)) | None => {}
    }
    unserved.sort_unstable();
    unserved.dedup();
    unserved
}

/// A route has rules, and not too many.
fn some_rules(count: usize) -> Result<(), WireError> {
    if count == 0 {
        return Err(WireError::Missing("routes.rules"));
    }
    parts::at_most(count, RULES_MAX, "routes.rules")
}

#[cfg(test)]
mod tests;
