//! What reached a workload: the record that proxies keep, with ids folded, so that it stays small. Pure.
//!
//! - `fold.rs`: paths without ids.
//! - `judge.rs`: what a policy makes of recorded traffic: [`judge`].

mod fold;
mod judge;

pub use fold::{Detail, REST, WILDCARD, fold};
pub use judge::{Judged, judge};

use crate::policy::{Network, PeerTls, private_networks};
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

/// Traffic of one kind that reached a port of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// How the client proved its identity.
    pub client: PeerTls,
    /// Where the client connected from. A wider network stands for each of its addresses.
    pub network: IpNet,
    /// The port of the workload.
    pub port: u16,
    /// `None` of a connection that is forwarded as bytes.
    pub request: Option<Request>,
    /// What the proxy did with it.
    pub outcome: Outcome,
    /// The rule that decided, in words; empty where none did.
    pub rule: Box<str>,
}

/// A workload: namespace, kind and name, as `shop`, `deployment`, `web`.
pub type Workload = (Arc<str>, Arc<str>, Arc<str>);

/// What was seen of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Whose proxies reported it.
    pub workload: Workload,
    /// Kinds of traffic, in order, each with its count.
    pub entries: Vec<(Entry, u64)>,
    /// Requests and connections that the record had no room for.
    pub lost: u64,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// Which version of HTTP.
    pub version: Version,
    /// [`WILDCARD`] stands for methods that HTTP does not define.
    pub method: Box<str>,
    /// The canonical path, folded ([`fold`]); empty where servers may read the path in two ways.
    pub path: Box<str>,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// Of 1.0 or 1.1.
    Http1,
    /// With gRPC.
    Http2,
}

/// What became of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// A rule admitted it.
    Allowed,
    /// Only the default policy `audit` admitted it.
    Audited,
    /// No rule admitted it.
    Denied,
    /// The port has routes, and none takes it.
    NoRoute,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Allowed, Self::Audited, Self::Denied, Self::NoRoute];

    /// One word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Audited => "audited",
            Self::Denied => "denied",
            Self::NoRoute => "no-route",
        }
    }

    /// Whether the application got it.
    #[must_use]
    pub fn passes(self) -> bool {
        matches!(self, Self::Allowed | Self::Audited)
    }
}

/// Methods that are recorded by name. Others come from clients, and could be any number.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"];

/// The name under which a method is recorded.
#[must_use]
pub fn method(text: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == text).unwrap_or(WILDCARD)
}

/// How exactly addresses are recorded. A proxy widens them when it has seen many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One address of its own.
    Address,
    /// 256 addresses, or a /64 of IPv6.
    Subnet,
    /// The private network that contains the address, or else its subnet.
    Private,
    /// Every address of the family.
    Family,
}

static PRIVATE: LazyLock<Vec<Network>> = LazyLock::new(private_networks);

/// The network under which an address is recorded.
#[must_use]
pub fn network(address: IpAddr, width: Width) -> IpNet {
    let address = address.to_canonical();
    let subnet = if address.is_ipv4() { 24 } else { 64 };
    let of_bits = |bits| IpNet::new(address, bits).map_or(IpNet::from(address), |net| net.trunc());
    let private = || PRIVATE.iter().map(|network| network.net).find(|net| net.contains(&address));
    match width {
        Width::Address => IpNet::from(address),
        Width::Subnet => of_bits(subnet),
        Width::Private => private().unwrap_or_else(|| of_bits(subnet)),
        Width::Family => of_bits(0),
    }
}

#[cfg(test)]
mod tests;
