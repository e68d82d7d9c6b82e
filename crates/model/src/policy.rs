//! Inbound policy of one port: [`decide`] about a client, and [`decide_request`] about one request of a client.
//!
//! - [`DefaultPolicy`]: the policy of ports for which no `Server` says anything.

mod default;
mod index;
mod missing;
mod parameters;
mod rate;
mod within;

pub use default::{DefaultPolicy, every_network, private_networks, range};
pub use index::RouteIndex;
pub use rate::{RateLimit, RateOverride};

pub use crate::name::Suffix;
use crate::name::{PeerName, Resource};
use crate::route::{HostMatch, RequestMatch, RequestView, most_specific};
use crate::workload::Labels;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Everything the proxy must know about one inbound port.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundPolicy {
    /// How the port's bytes are read.
    pub protocol: InboundProtocol,
    /// Any one of these lets a client in; none means that nobody is.
    pub authorizations: Vec<Authorization>,
    /// Requests to which others are let in besides, as health probes.
    pub routes: Vec<InboundRoute>,
    /// A request that no route takes is answered with 404; otherwise the rules of the port decide about it.
    pub rejects_unrouted: bool,
    /// The server object (or default) that the policy belongs to.
    pub server: Resource,
    /// Labels of its metrics.
    pub labels: Labels,
    /// How many requests it serves, of clients that may send them. Boxed: few ports have one.
    pub rate_limit: Option<Box<RateLimit>>,
}

/// Requests that have authorizations of their own, over those of the port.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundRoute {
    /// The object that says so.
    pub resource: Resource,
    /// Hosts it is for; empty means all.
    pub hosts: Vec<HostMatch>,
    /// Any one of these.
    pub matches: Vec<RequestMatch>,
    /// Any one of these lets a client in.
    pub authorizations: Vec<Authorization>,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundProtocol {
    /// Find out, for at most this long, with the server dialled early.
    Detect {
        /// Limit on looking at the client's first bytes.
        timeout: Duration,
    },
    /// Bytes.
    Opaque,
    /// The application's own TLS: bytes.
    Tls,
    /// HTTP/1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// gRPC.
    Grpc,
}

/// One way to be let in.
#[derive(Clone, Debug, PartialEq)]
pub struct Authorization {
    /// Where the client must come from; empty means from nowhere.
    pub networks: Vec<Network>,
    /// Who it must be.
    pub authentication: Authentication,
    /// The object that says so.
    pub resource: Resource,
    /// Labels of its metrics.
    pub labels: Labels,
}

/// A range of addresses with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The range.
    pub net: IpNet,
    /// Ranges in it that are not meant.
    pub except: Vec<IpNet>,
}

/// Who a client must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Authentication {
    /// Anyone, plain text included.
    Unauthenticated,
    /// Anyone over TLS, with or without an identity.
    TlsUnauthenticated,
    /// A verified identity among these.
    TlsAuthenticated {
        /// These names.
        identities: Vec<Arc<str>>,
        /// DNS-like names that end so; an empty suffix means every identity.
        suffixes: Vec<Suffix>,
    },
}

/// How the client came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerTls {
    /// Plain text, or TLS that is not for us.
    None,
    /// Mutual TLS with us, with this verified name, where it has one.
    Established(Option<PeerName>),
}

/// What a policy decides about a client, and by which rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict<'a> {
    /// This rule lets the client in.
    Allow(&'a Authorization),
    /// Only the default policy `audit` lets the client in: without it, the client would be denied.
    Audit(&'a Authorization),
    /// No rule lets the client in.
    Deny(Denied),
}

impl<'a> Verdict<'a> {
    /// The rule that lets the client in.
    #[must_use]
    pub fn rule(&self) -> Option<&'a Authorization> {
        match self {
            Self::Allow(rule) | Self::Audit(rule) => Some(rule),
            Self::Deny(_) => None,
        }
    }
}

/// What a client lacks for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its address is in none of the rule's networks.
    Network,
    /// It does not use TLS of the mesh, with or without an identity.
    Tls,
    /// It has no identity.
    AnyIdentity,
    /// Its identity is not one of the rule's.
    ThisIdentity,
}

/// No rule lets this client in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{server} lets in no {client} from {address}")]
pub struct Denied {
    /// The server whose policy it is.
    pub server: String,
    /// Who asked.
    pub client: String,
    /// From where.
    pub address: IpAddr,
}

/// The verdict on a client: by the first authorization that lets it in.
#[must_use]
pub fn decide<'a>(policy: &'a InboundPolicy, address: IpAddr, peer: &PeerTls) -> Verdict<'a> {
    let address = address.to_canonical();
    by_first(&policy.authorizations, address, peer).unwrap_or_else(|| {
        Verdict::Deny(Denied {
            server: format!("{} {}", policy.server.kind(), policy.server.name()),
            client: match peer {
                PeerTls::None => "client without TLS identity".to_owned(),
                PeerTls::Established(None) => "TLS client without identity".to_owned(),
                PeerTls::Established(Some(name)) => name.to_string(),
            },
            address,
        })
    })
}

/// What a policy decides about one request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestVerdict<'a> {
    /// The port serves only requests that a route takes, and no route takes this one.
    NoRoute,
    /// By the rules of the port.
    ByPort(Verdict<'a>),
    /// The port does not let the client in, and a rule of this route does.
    ByRoute(&'a InboundRoute, &'a Authorization),
}

/// The verdict on one request: by the rules of the port first, then by those of the route that takes the request.
///
/// `is_ambiguous` means that the path can be read in two ways. No route takes such a request.
#[must_use]
pub fn decide_request<'a>(
    policy: &'a InboundPolicy,
    address: IpAddr,
    peer: &PeerTls,
    (request, is_ambiguous): (&impl RequestView, bool),
) -> RequestVerdict<'a> {
    let route = route_of(policy, request).filter(|_| !is_ambiguous);
    let by_port = decide(policy, address, peer);
    let is_allowed = matches!(by_port, Verdict::Allow(_));
    match decide_routed((policy, is_allowed), address, peer, route) {
        RoutedVerdict::NoRoute => RequestVerdict::NoRoute,
        RoutedVerdict::ByRoute(route, rule) => RequestVerdict::ByRoute(route, rule),
        RoutedVerdict::ByPort => RequestVerdict::ByPort(by_port),
    }
}

/// What [`decide_routed`] says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RoutedVerdict<'a> {
    /// The port serves only requests that a route takes, and no route takes this one.
    NoRoute,
    /// The verdict of the port on the client holds.
    ByPort,
    /// The port does not let the client in, and a rule of this route does.
    ByRoute(&'a InboundRoute, &'a Authorization),
}

/// [`decide_request`] where two things are known already: whether a rule of the port allows the client, and the route that takes the
/// request.
#[must_use]
pub fn decide_routed<'a>(
    (policy, is_allowed_by_port): (&'a InboundPolicy, bool),
    address: IpAddr,
    peer: &PeerTls,
    route: Option<&'a InboundRoute>,
) -> RoutedVerdict<'a> {
    let Some(route) = route else {
        return match policy.rejects_unrouted {
            true => RoutedVerdict::NoRoute,
            false => RoutedVerdict::ByPort,
        };
    };
    let admits = |rule: &&Authorization| rule.admits(address.to_canonical(), peer);
    match route.authorizations.iter().find(admits) {
        Some(rule) if !is_allowed_by_port => RoutedVerdict::ByRoute(route, rule),
        _ => RoutedVerdict::ByPort,
    }
}

/// The route that takes a request: the most specific one. No route takes a request with path parameters if a server that ignores them
/// reads a path of another route.
#[must_use]
pub fn route_of<'a>(
    policy: &'a InboundPolicy,
    request: &impl RequestView,
) -> Option<&'a InboundRoute> {
    let number = number_of(policy, request)?;
    let other = parameters::without(request);
    let is_same = other.is_none_or(|other| number_of(policy, &other) == Some(number));
    policy.routes.get(number).filter(|_| is_same)
}

fn number_of(policy: &InboundPolicy, request: &impl RequestView) -> Option<usize> {
    let routes = policy.routes.iter().map(|route| (route.hosts.as_slice(), &*route.matches));
    most_specific(routes.enumerate(), request)
}

/// Whether a route of this name lets the client in: asked of a request that it has let in, when the policy changes.
#[must_use]
pub fn route_admits(
    policy: &InboundPolicy,
    route: &Resource,
    address: IpAddr,
    peer: &PeerTls,
) -> bool {
    let address = address.to_canonical();
    let mut routes = policy.routes.iter().filter(|known| known.resource == *route);
    routes.any(|route| by_first(&route.authorizations, address, peer).is_some())
}

/// By the first rule that lets the client in; `audit` comes after all others.
fn by_first<'a>(
    rules: &'a [Authorization],
    address: IpAddr,
    peer: &PeerTls,
) -> Option<Verdict<'a>> {
    let admitting = || rules.iter().filter(|rule| rule.admits(address, peer));
    let allowing = admitting().find(|rule| !rule.is_audit()).map(Verdict::Allow);
    allowing.or_else(|| admitting().next().map(Verdict::Audit))
}

impl Authorization {
    /// Whether it is that of the default policy `audit`, as Linkerd names it.
    fn is_audit(&self) -> bool {
        matches!(&self.resource, Resource::Default(name) if name.as_ref() == "audit")
    }

    /// Everything that a client lacks for this rule; nothing where the rule admits it.
    pub fn lacks(&self, address: IpAddr, peer: &PeerTls) -> impl Iterator<Item = Lack> + use<> {
        let both = [self.lack_of_network(address.to_canonical()), self.lack_of_identity(peer)];
        both.into_iter().flatten()
    }

    fn admits(&self, address: IpAddr, peer: &PeerTls) -> bool {
        self.lack_of_network(address).is_none() && self.lack_of_identity(peer).is_none()
    }

    /// Whether it admits a client with this identity, from some address.
    pub(crate) fn admits_identity(&self, peer: &PeerTls) -> bool {
        self.lack_of_identity(peer).is_none()
    }

    fn lack_of_network(&self, address: IpAddr) -> Option<Lack> {
        let from_here = self.networks.iter().any(|network| {
            network.net.contains(&address)
                && !network.except.iter().any(|hole| hole.contains(&address))
        });
        (!from_here).then_some(Lack::Network)
    }

    fn lack_of_identity(&self, peer: &PeerTls) -> Option<Lack> {
        match (&self.authentication, peer) {
            (Authentication::Unauthenticated, _)
            | (Authentication::TlsUnauthenticated, PeerTls::Established(_)) => None,
            (Authentication::TlsUnauthenticated, PeerTls::None) => Some(Lack::Tls),
            (
                Authentication::TlsAuthenticated { identities, suffixes },
                PeerTls::Established(Some(name)),
            ) => {
                let is_named = identities.iter().any(|allowed| allowed.as_ref() == name.as_str())
                    || suffixes.iter().any(|suffix| suffix.matches(name));
                (!is_named).then_some(Lack::ThisIdentity)
            }
            (Authentication::TlsAuthenticated { .. }, _) => Some(Lack::AnyIdentity),
        }
    }
}

#[cfg(test)]
mod tests;
