//! Who may reach a port, and what is spoken there: `inbound.Server` <-> [`InboundPolicy`].
//!
//! A route's authorizations ([`InboundRoute`]) admit clients in addition to those of its server.
//! A list of routes without one that takes everything rejects requests that no route takes.
//! Filters are not implemented yet: [`unserved`] names them. gRPC's message has no rate limit.
//!
//! - `rate.rs`: rate limits.
//! - `routes.rs`: routes.

use crate::WireError;
use crate::parts;
use ipnet::IpNet;
use leno_model::limit::{AUTHORIZATIONS_MAX, CLIENTS_MAX, LABELS_MAX};
use leno_model::name::{PeerName, Resource, WorkloadId};
use leno_model::pattern::Patterns;
use leno_model::policy::{
    Authentication, Authorization, InboundPolicy, InboundProtocol, InboundRoute, Network, Suffix,
};
use leno_model::workload::Labels;
use linkerd2_proxy_api::inbound as message;
use std::collections::HashMap;
use std::sync::Arc;

mod rate;
mod routes;

/// What a proxy asks for: the policy of its workload's port.
#[must_use]
pub fn request(workload: &WorkloadId, port: u16) -> message::PortSpec {
    message::PortSpec { workload: workload.to_string(), port: u32::from(port) }
}

/// Reads what a proxy asks for.
///
/// # Errors
/// The workload or the port is not one.
pub fn read_request(message: &message::PortSpec) -> Result<(WorkloadId, u16), WireError> {
    let workload = WorkloadId::parse(&message.workload)
        .map_err(|error| WireError::invalid("workload", error))?;
    Ok((workload, parts::port(message.port, "port")?))
}

/// Reads a policy.
///
/// # Errors
/// Names the field that is missing, malformed or too large.
pub fn from_message(message: &message::Server) -> Result<InboundPolicy, WireError> {
    use message::proxy_protocol::Kind;
    let protocol = message.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref());
    let kind = protocol.ok_or(WireError::Missing("protocol.kind"))?;
    let protocol = match kind {
        Kind::Detect(detect) => InboundProtocol::Detect {
            timeout: parts::duration(detect.timeout.as_ref(), "protocol.detect.timeout")?,
        },
        Kind::Opaque(_) => InboundProtocol::Opaque,
        Kind::Tls(_) => InboundProtocol::Tls,
        Kind::Http1(_) => InboundProtocol::Http1,
        Kind::Http2(_) => InboundProtocol::Http2,
        Kind::Grpc(_) => InboundProtocol::Grpc,
    };
    parts::at_most(message.authorizations.len(), AUTHORIZATIONS_MAX, "authorizations")?;
    let (routes, rejects_unrouted) = routes::read(kind)?;
    let rate_limit = rate::read(match kind {
        Kind::Detect(detect) => detect.http_local_rate_limit.as_ref(),
        Kind::Http1(http) => http.local_rate_limit.as_ref(),
        Kind::Http2(http) => http.local_rate_limit.as_ref(),
        Kind::Opaque(_) | Kind::Tls(_) | Kind::Grpc(_) => None,
    })?;
    let (server, labels) = resource_in_labels(&message.labels, "labels")?;
    Ok(InboundPolicy {
        protocol,
        authorizations: message
            .authorizations
            .iter()
            .map(authorization)
            .collect::<Result<_, _>>()?,
        routes,
        rejects_unrouted,
        server: server.ok_or(WireError::Missing("labels.name"))?,
        labels,
        rate_limit,
    })
}

/// Labels name an object by `group`, `kind`, `name` (linkerd's way from before references), and `namespace` (ours);
/// the others are metric labels.
fn resource_in_labels(
    labels: &HashMap<String, String>,
    field: &'static str,
) -> Result<(Option<Resource>, Labels), WireError> {
    // Four of them name the object and do not count.
    let all = parts::labels_up_to(&HashMap::new(), labels, field, LABELS_MAX + 4)?;
    let value = |name: &str| {
        let found = all.iter().find(|(label, _)| label.as_ref() == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let (kind, name) = (value("kind"), value("name"));
    let resource = match kind.as_ref() {
        _ if name.is_empty() => None,
        "" | "default" => Some(Resource::Default(name)),
        _ => Some(Resource::Object {
            group: value("group"),
            kind,
            namespace: value("namespace"),
            name,
            section: Arc::default(),
            port: 0,
        }),
    };
    let names = |name: &str| matches!(name, "group" | "kind" | "name" | "namespace");
    let rest: Labels = all.iter().filter(|(name, _)| !names(name)).cloned().collect();
    parts::at_most(rest.len(), LABELS_MAX, field)?;
    Ok((resource, rest))
}

fn labels_with_resource(labels: &Labels, resource: &Resource) -> HashMap<String, String> {
    let group = match resource {
        Resource::Default(_) => "",
        Resource::Object { group, .. } => group,
    };
    let mut labels = parts::labels_message(labels);
    for (name, value) in [("group", group), ("kind", resource.kind()), ("name", resource.name())] {
        labels.insert(name.to_owned(), value.to_owned());
    }
    if !resource.namespace().is_empty() {
        labels.insert("namespace".to_owned(), resource.namespace().to_owned());
    }
    labels
}

fn authorization(message: &message::Authz) -> Result<Authorization, WireError> {
    parts::at_most(message.networks.len(), CLIENTS_MAX, "authorizations.networks")?;
    let (labelled, labels) = resource_in_labels(&message.labels, "authorizations.labels")?;
    let referred = parts::optional_resource(message.metadata.as_ref(), "authorizations.metadata")?;
    Ok(Authorization {
        networks: message.networks.iter().map(network).collect::<Result<_, _>>()?,
        authentication: authentication(message.authentication.as_ref())?,
        resource: referred.or(labelled).ok_or(WireError::Missing("authorizations.metadata"))?,
        labels,
    })
}

fn network(message: &message::Network) -> Result<Network, WireError> {
    parts::at_most(message.except.len(), CLIENTS_MAX, "authorizations.networks.except")?;
    let hole = |hole| parts::network(Some(hole), "authorizations.networks.except");
    Ok(Network {
        net: parts::network(message.net.as_ref(), "authorizations.networks.net")?,
        except: message.except.iter().map(hole).collect::<Result<Vec<IpNet>, _>>()?,
    })
}

fn authentication(message: Option<&message::Authn>) -> Result<Authentication, WireError> {
    use message::authn::{Permit, permit_mesh_tls::Clients};
    let permit = message.and_then(|authn| authn.permit.as_ref());
    match permit.ok_or(WireError::Missing("authorizations.authentication"))? {
        Permit::Unauthenticated(_) => Ok(Authentication::Unauthenticated),
        Permit::MeshTls(tls) => {
            match tls.clients.as_ref().ok_or(WireError::Missing("meshTLS.clients"))? {
                Clients::Unauthenticated(_) => Ok(Authentication::TlsUnauthenticated),
                Clients::Identities(clients) => identities(clients),
            }
        }
    }
}

fn identities(
    clients: &message::authn::permit_mesh_tls::PermitClientIdentities,
) -> Result<Authentication, WireError> {
    parts::at_most(clients.identities.len(), CLIENTS_MAX, "meshTLS.identities")?;
    parts::at_most(clients.suffixes.len(), CLIENTS_MAX, "meshTLS.suffixes")?;
    let identity = |identity: &message::Identity| {
        // Canonical, as the verified name will be that it is compared with.
        PeerName::parse(&identity.name)
            .map(|name| Arc::from(name.as_str()))
            .map_err(|error| WireError::invalid("meshTLS.identities", error))
    };
    let suffix = |suffix: &message::IdentitySuffix| {
        parts::at_most(suffix.parts.len(), 128, "meshTLS.suffixes.parts")?;
        // An empty part would be read as part of no name; "" alone must not turn into "everybody".
        let part =
            |part: &String| parts::some_text(&part.to_ascii_lowercase(), "meshTLS.suffixes.parts");
        suffix.parts.iter().map(part).collect::<Result<_, _>>().map(Suffix)
    };
    Ok(Authentication::TlsAuthenticated {
        identities: clients.identities.iter().map(identity).collect::<Result<_, _>>()?,
        suffixes: clients.suffixes.iter().map(suffix).collect::<Result<_, _>>()?,
    })
}

/// Writes a policy.
#[must_use]
pub fn to_message(policy: &InboundPolicy) -> message::Server {
    use message::proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque, Tls};
    let routes = || routes::http_message(&policy.routes, policy.rejects_unrouted);
    let local_rate_limit = rate::to_message(policy.rate_limit.as_deref());
    let kind = match policy.protocol {
        InboundProtocol::Detect { timeout } => Kind::Detect(Detect {
            timeout: Some(parts::duration_message(timeout)),
            http_routes: routes(),
            http_local_rate_limit: local_rate_limit,
        }),
        InboundProtocol::Opaque => Kind::Opaque(Opaque {}),
        InboundProtocol::Tls => Kind::Tls(Tls {}),
        InboundProtocol::Http1 => Kind::Http1(Http1 { routes: routes(), local_rate_limit }),
        InboundProtocol::Http2 => Kind::Http2(Http2 { routes: routes(), local_rate_limit }),
        InboundProtocol::Grpc => Kind::Grpc(Grpc {
            routes: routes::grpc_message(&policy.routes, policy.rejects_unrouted),
        }),
    };
    message::Server {
        protocol: Some(message::ProxyProtocol { kind: Some(kind) }),
        server_ips: Vec::new(),
        authorizations: policy.authorizations.iter().map(authorization_message).collect(),
        labels: labels_with_resource(&policy.labels, &policy.server),
    }
}

fn authorization_message(authorization: &Authorization) -> message::Authz {
    use message::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
    use message::authn::{Permit, PermitMeshTls, PermitUnauthenticated};
    let mesh_tls = |clients| Permit::MeshTls(PermitMeshTls { clients: Some(clients) });
    let permit = match &authorization.authentication {
        Authentication::Unauthenticated => Permit::Unauthenticated(PermitUnauthenticated {}),
        Authentication::TlsUnauthenticated => {
            mesh_tls(Clients::Unauthenticated(PermitUnauthenticated {}))
        }
        Authentication::TlsAuthenticated { identities, suffixes } => {
            let name = |name: &Arc<str>| message::Identity { name: name.to_string() };
            let suffix = |suffix: &Suffix| message::IdentitySuffix {
                parts: suffix.0.iter().map(ToString::to_string).collect(),
            };
            mesh_tls(Clients::Identities(PermitClientIdentities {
                identities: identities.iter().map(name).collect(),
                suffixes: suffixes.iter().map(suffix).collect(),
            }))
        }
    };
    let network = |network: &Network| message::Network {
        net: Some(network.net.into()),
        except: network.except.iter().map(|hole| (*hole).into()).collect(),
    };
    message::Authz {
        networks: authorization.networks.iter().map(network).collect(),
        authentication: Some(message::Authn { permit: Some(permit) }),
        labels: labels_with_resource(&authorization.labels, &authorization.resource),
        metadata: Some(parts::resource_message(&authorization.resource)),
    }
}

/// Whether a route can be encoded and read again. One that a proxy cannot read makes the whole policy of its port unusable.
///
/// # Errors
/// Names the field, or that gRPC routes cannot express a match.
pub fn check_route(
    route: &InboundRoute,
    is_grpc: bool,
    patterns: &Patterns,
) -> Result<(), WireError> {
    routes::check(route, is_grpc, patterns)
}

/// What the message asks for that is understood and not carried out.
#[must_use]
pub fn unserved(message: &message::Server) -> Vec<&'static str> {
    use message::proxy_protocol::Kind;
    let (http, grpc): (&[_], &[_]) =
        match message.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref()) {
            Some(Kind::Detect(detect)) => (&detect.http_routes, &[]),
            Some(Kind::Http1(http)) => (&http.routes, &[]),
            Some(Kind::Http2(http)) => (&http.routes, &[]),
            Some(Kind::Grpc(grpc)) => (&[], &grpc.routes),
            Some(Kind::Opaque(_) | Kind::Tls(_)) | None => (&[], &[]),
        };
    let filtered = http.iter().flat_map(|route| &route.rules).any(|rule| !rule.filters.is_empty())
        || grpc.iter().flat_map(|route| &route.rules).any(|rule| !rule.filters.is_empty());
    let found = [
        (filtered, "filters of inbound routes"),
        (!message.server_ips.is_empty(), "server addresses"),
    ];
    found.into_iter().filter_map(|(found, name)| found.then_some(name)).collect()
}

#[cfg(test)]
mod tests;
