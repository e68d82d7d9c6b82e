//! Endpoints of a destination: `destination.Update` <-> [`EndpointUpdate`].
//!
//! One endpoint that cannot be read is left out and reported, and the rest is taken: a malformed object never stalls
//! the others. It is never taken without its identity, which would mean plain text.

use crate::WireError;
use crate::parts;
use leno_model::limit::ENDPOINTS_MAX;
use leno_model::name::{DnsName, PeerName, SpiffeId};
use leno_model::workload::{Endpoint, EndpointUpdate, Labels, PeerIdentity, ProtocolHint};
use linkerd2_proxy_api::destination as message;
use std::collections::HashMap;
use std::net::SocketAddr;

/// An update, and what was left out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What changes.
    pub update: EndpointUpdate,
    /// Endpoints of the message that are not in the update, with the reason.
    pub refused: Vec<Refused>,
}

/// An endpoint that was left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{error}", .address.map(|address| format!("endpoint {address}: ")).unwrap_or_default())]
pub struct Refused {
    /// Its address, where that could be read.
    pub address: Option<SocketAddr>,
    /// What is wrong with it.
    pub error: WireError,
}

/// What a proxy asks for: the endpoints of `path`, e.g. `reviews.default.svc.cluster.local:9080`; `token` says who asks
/// (linkerd's form is the JSON of the workload).
#[must_use]
pub fn request(path: &str, token: &str) -> message::GetDestination {
    message::GetDestination {
        scheme: "k8s".to_owned(),
        path: path.to_owned(),
        context_token: token.to_owned(),
    }
}

/// Reads an update.
///
/// # Errors
/// There is nothing in it that can be used: no kind, too many endpoints, or each single one is malformed.
pub fn from_message(message: &message::Update) -> Result<Received, WireError> {
    let update = message.update.as_ref().ok_or(WireError::Missing("update"))?;
    match update {
        message::update::Update::Add(set) => {
            parts::at_most(set.addrs.len(), ENDPOINTS_MAX, "add.addrs")?;
            let read = set.addrs.iter().map(|endpoint| {
                endpoint_with(endpoint, &set.metric_labels).map_err(|error| Refused {
                    address: parts::address(endpoint.addr.as_ref(), "addr").ok(),
                    error,
                })
            });
            let (endpoints, refused) = sorted_out(read)?;
            Ok(Received { update: EndpointUpdate::Add(endpoints), refused })
        }
        message::update::Update::Remove(set) => {
            parts::at_most(set.addrs.len(), ENDPOINTS_MAX, "remove.addrs")?;
            let read = set.addrs.iter().map(|address| {
                parts::address(Some(address), "remove.addrs")
                    .map_err(|error| Refused { address: None, error })
            });
            let (addresses, refused) = sorted_out(read)?;
            Ok(Received { update: EndpointUpdate::Remove(addresses), refused })
        }
        message::update::Update::NoEndpoints(none) => Ok(Received {
            update: EndpointUpdate::None { exists: none.exists },
            refused: Vec::new(),
        }),
    }
}

/// The good and the refused; an error where there are only refused ones.
fn sorted_out<T>(
    read: impl Iterator<Item = Result<T, Refused>>,
) -> Result<(Vec<T>, Vec<Refused>), WireError> {
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for one in read {
        match one {
            Ok(one) => good.push(one),
            Err(one) => refused.push(one),
        }
    }
    match refused.first() {
        Some(first) if good.is_empty() => Err(first.error.clone()),
        _ => Ok((good, refused)),
    }
}

/// Writes an update.
#[must_use]
pub fn to_message(update: &EndpointUpdate) -> message::Update {
    let update = match update {
        EndpointUpdate::Add(endpoints) => message::update::Update::Add(message::WeightedAddrSet {
            addrs: endpoints.iter().map(endpoint_message).collect(),
            metric_labels: HashMap::new(),
        }),
        EndpointUpdate::Remove(addresses) => message::update::Update::Remove(message::AddrSet {
            addrs: addresses.iter().map(|address| (*address).into()).collect(),
        }),
        EndpointUpdate::None { exists } => {
            message::update::Update::NoEndpoints(message::NoEndpoints { exists: *exists })
        }
    };
    message::Update { update: Some(update) }
}

/// Reads one endpoint.
///
/// # Errors
/// Names the field that is wrong.
pub fn endpoint_from_message(message: &message::WeightedAddr) -> Result<Endpoint, WireError> {
    endpoint_with(message, &HashMap::new())
}

fn endpoint_with(
    message: &message::WeightedAddr,
    set_labels: &HashMap<String, String>,
) -> Result<Endpoint, WireError> {
    let (hint, opaque_transport_port) = match &message.protocol_hint {
        None => (ProtocolHint::Unknown, None),
        Some(hint) => {
            let port = hint.opaque_transport.as_ref().map(|transport| {
                parts::port(transport.inbound_port, "protocol_hint.opaque_transport.inbound_port")
            });
            let hint = match hint.protocol {
                None => ProtocolHint::Unknown,
                Some(message::protocol_hint::Protocol::H2(_)) => ProtocolHint::Http2,
                Some(message::protocol_hint::Protocol::Opaque(_)) => ProtocolHint::Opaque,
            };
            (hint, port.transpose()?)
        }
    };
    Ok(Endpoint {
        address: parts::address(message.addr.as_ref(), "addr")?,
        weight: message.weight,
        identity: message.tls_identity.as_ref().map(identity).transpose()?,
        hint,
        opaque_transport_port,
        labels: parts::labels(set_labels, &message.metric_labels, "metric_labels")?,
        resource: parts::optional_resource(message.resource_ref.as_ref(), "resource_ref")?,
    })
}

fn identity(message: &message::TlsIdentity) -> Result<PeerIdentity, WireError> {
    use message::tls_identity::Strategy;
    let dns =
        |text: &str, field| DnsName::parse(text).map_err(|error| WireError::invalid(field, error));
    let server_name = message
        .server_name
        .as_ref()
        .map(|name| dns(&name.name, "tls_identity.server_name"))
        .transpose()?;
    match message.strategy.as_ref().ok_or(WireError::Missing("tls_identity.strategy"))? {
        Strategy::DnsLikeIdentity(like) => {
            let name = dns(&like.name, "tls_identity.dns_like_identity")?;
            // Control planes from before `server_name` mean the identity itself.
            let server_name = server_name.unwrap_or_else(|| name.clone());
            Ok(PeerIdentity { name: PeerName::Dns(name), server_name })
        }
        Strategy::UriLikeIdentity(like) => {
            let name = SpiffeId::parse(&like.uri)
                .map_err(|error| WireError::invalid("tls_identity.uri_like_identity", error))?;
            let server_name = server_name.ok_or(WireError::Missing("tls_identity.server_name"))?;
            Ok(PeerIdentity { name: PeerName::Spiffe(name), server_name })
        }
    }
}

/// Writes one endpoint.
#[must_use]
pub fn endpoint_message(endpoint: &Endpoint) -> message::WeightedAddr {
    use message::protocol_hint::{H2, Opaque, OpaqueTransport, Protocol};
    let protocol = match endpoint.hint {
        ProtocolHint::Unknown => None,
        ProtocolHint::Http2 => Some(Protocol::H2(H2 {})),
        ProtocolHint::Opaque => Some(Protocol::Opaque(Opaque {})),
    };
    let opaque_transport = endpoint
        .opaque_transport_port
        .map(|port| OpaqueTransport { inbound_port: u32::from(port) });
    message::WeightedAddr {
        addr: Some(endpoint.address.into()),
        weight: endpoint.weight,
        metric_labels: parts::labels_message(&endpoint.labels),
        tls_identity: endpoint.identity.as_ref().map(identity_message),
        protocol_hint: (protocol.is_some() || opaque_transport.is_some())
            .then_some(message::ProtocolHint { protocol, opaque_transport }),
        authority_override: None,
        http2: None,
        resource_ref: endpoint.resource.as_ref().map(parts::resource_message),
    }
}

fn identity_message(identity: &PeerIdentity) -> message::TlsIdentity {
    use message::tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity};
    let strategy = match &identity.name {
        PeerName::Spiffe(id) => Strategy::UriLikeIdentity(UriLikeIdentity { uri: id.to_string() }),
        PeerName::Dns(name) => {
            Strategy::DnsLikeIdentity(DnsLikeIdentity { name: name.to_string() })
        }
    };
    message::TlsIdentity {
        strategy: Some(strategy),
        server_name: Some(DnsLikeIdentity { name: identity.server_name.to_string() }),
    }
}

/// What the message asks for that is understood and not carried out.
#[must_use]
pub fn unserved(message: &message::Update) -> Vec<&'static str> {
    let Some(message::update::Update::Add(set)) = &message.update else { return Vec::new() };
    let mut unserved = Vec::new();
    if set.addrs.iter().any(|endpoint| endpoint.authority_override.is_some()) {
        unserved.push("authority_override");
    }
    if set.addrs.iter().any(|endpoint| endpoint.http2.is_some()) {
        unserved.push("http2 client parameters");
    }
    unserved
}

/// Labels from pairs, sorted by name as everywhere.
#[must_use]
pub fn labels<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Labels {
    let sorted: std::collections::BTreeMap<&str, &str> = pairs.into_iter().collect();
    sorted.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests;
