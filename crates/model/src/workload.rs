//! Endpoints: addresses of workloads, and what is known about each.

use crate::name::{DnsName, PeerName, Resource};
use std::net::SocketAddr;
use std::sync::Arc;

/// Metric labels in a fixed order: name and value.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// Address and identity of an endpoint's proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// What the certificate must say.
    pub name: PeerName,
    /// What is asked for in SNI.
    pub server_name: DnsName,
}

/// What the endpoint's proxy is known to accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtocolHint {
    /// Nothing is known: speak what the client spoke.
    #[default]
    Unknown,
    /// linkerd's HTTP/2 upgrade of HTTP/1 is possible.
    Http2,
    /// The port is opaque: bytes, never HTTP.
    Opaque,
}

/// One address that a service's traffic may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where the application listens.
    pub address: SocketAddr,
    /// Share of the traffic relative to the others; 0 takes none. linkerd's unit is 10,000 for "one".
    pub weight: u32,
    /// Mutual TLS with this peer; `None` means plain text, because discovery says it is unmeshed.
    pub identity: Option<PeerIdentity>,
    /// What its proxy accepts.
    pub hint: ProtocolHint,
    /// The port where its proxy takes opaque connections behind a transport header.
    pub opaque_transport_port: Option<u16>,
    /// `dst_*` labels of its metrics.
    pub labels: Labels,
    /// The object it is (a Pod); with the address it is the key of connection pools.
    pub resource: Option<Resource>,
}

impl Endpoint {
    /// An address of which no more is known: plain text, as much traffic as the next.
    #[must_use]
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            weight: 1,
            identity: None,
            hint: ProtocolHint::Unknown,
            opaque_transport_port: None,
            labels: Labels::default(),
            resource: None,
        }
    }
}

/// All endpoints of one destination, as of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSet {
    /// Sorted by address, each address once.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Whether the destination exists at all.
    pub exists: bool,
}

/// A change to an [`EndpointSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointUpdate {
    /// New or replaced endpoints.
    Add(Vec<Endpoint>),
    /// Endpoints that are gone.
    Remove(Vec<SocketAddr>),
    /// There are none; says whether the destination exists.
    None {
        /// Whether the destination exists.
        exists: bool,
    },
}

impl EndpointSet {
    /// The set after the change.
    #[must_use]
    pub fn apply(&self, update: EndpointUpdate) -> Self {
        let mut endpoints = self.endpoints.clone();
        let exists = match update {
            EndpointUpdate::Add(added) => {
                for endpoint in added {
                    match endpoints.binary_search_by_key(&endpoint.address, |e| e.address) {
                        Ok(at) => endpoints[at] = Arc::new(endpoint),
                        Err(at) => endpoints.insert(at, Arc::new(endpoint)),
                    }
                }
                true
            }
            EndpointUpdate::Remove(addresses) => {
                endpoints.retain(|endpoint| !addresses.contains(&endpoint.address));
                self.exists
            }
            EndpointUpdate::None { exists } => {
                endpoints.clear();
                exists
            }
        };
        Self { endpoints, exists }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(port: u16, weight: u32) -> Endpoint {
        Endpoint { weight, ..Endpoint::plain(([10, 0, 0, 1], port).into()) }
    }

    #[test]
    fn updates_add_replace_and_remove() {
        let show = |set: &EndpointSet| -> Vec<(u16, u32)> {
            set.endpoints.iter().map(|e| (e.address.port(), e.weight)).collect()
        };
        let set =
            EndpointSet::default().apply(EndpointUpdate::Add(vec![endpoint(2, 1), endpoint(1, 1)]));
        assert_eq!(show(&set), [(1, 1), (2, 1)]);
        let set = set.apply(EndpointUpdate::Add(vec![endpoint(2, 5)]));
        assert_eq!(show(&set), [(1, 1), (2, 5)]);
        let set = set.apply(EndpointUpdate::Remove(vec![([10, 0, 0, 1], 1).into()]));
        assert_eq!((show(&set), set.exists), (vec![(2, 5)], true));
        let set = set.apply(EndpointUpdate::None { exists: false });
        assert_eq!((show(&set), set.exists), (vec![], false));
    }
}
