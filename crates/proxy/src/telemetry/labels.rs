//! What a series is about. Names and values are linkerd's, so that dashboards port.

use leno_model::name::{PeerName, Resource};
use leno_model::policy::{InboundPolicy, PeerTls};
use leno_model::workload::{Endpoint, Labels};
use std::fmt::Write;
use std::net::SocketAddr;

/// From the mesh to our application, or from it to the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// To our application.
    Inbound,
    /// From our application.
    Outbound,
}

impl Direction {
    /// As in labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        }
    }
}

/// Which side of the proxy a connection is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerSide {
    /// The server that we connected to.
    Dst,
    /// The client that we accepted.
    Src,
}

/// What was authorized: a request, or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A request.
    Http,
    /// A connection.
    Tcp,
}

/// Why a connection is not mutual TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoTls {
    /// The endpoint is this pod itself.
    Loopback,
    /// The client sent plain text.
    NoTlsFromRemote,
    /// Discovery says that the endpoint is unmeshed.
    NotProvidedByServiceDiscovery,
}

/// How a connection is protected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TlsLabel {
    /// Mutual TLS with this peer; a client may have no identity.
    Mutual(Option<PeerName>),
    /// Plain text.
    None(NoTls),
    /// TLS between the applications, which we carry as bytes.
    Opaque,
}

impl TlsLabel {
    /// Of connections to an endpoint.
    #[must_use]
    pub fn to_endpoint(endpoint: &Endpoint) -> Self {
        match &endpoint.identity {
            Some(identity) => Self::Mutual(Some(identity.name.clone())),
            None => Self::None(NoTls::NotProvidedByServiceDiscovery),
        }
    }

    /// Of connections from a client.
    #[must_use]
    pub fn from_client(peer: &PeerTls) -> Self {
        match peer {
            PeerTls::Established(name) => Self::Mutual(name.clone()),
            PeerTls::None => Self::None(NoTls::NoTlsFromRemote),
        }
    }
}

/// Labels of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpLabels {
    pub direction: Direction,
    /// Where it goes: inbound the original destination, outbound the endpoint.
    pub target: SocketAddr,
    /// Inbound the client's connection, outbound the server's.
    pub tls: TlsLabel,
    /// `dst_*`, from discovery.
    pub endpoint_labels: Labels,
    /// `srv_*`, inbound.
    pub server: Option<Resource>,
    /// `route_*`.
    pub route: Option<Resource>,
    /// `authz_*`, inbound.
    pub authz: Option<Resource>,
}

/// Labels of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TcpLabels {
    pub direction: Direction,
    /// Side of the proxy.
    pub peer: PeerSide,
    /// Where it goes.
    pub target: SocketAddr,
    /// How it is protected.
    pub tls: TlsLabel,
    /// `dst_*`, from discovery.
    pub endpoint_labels: Labels,
    /// `srv_*`, inbound.
    pub server: Option<Resource>,
}

/// Labels of an inbound authorization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthzLabels {
    /// The original destination.
    pub target: SocketAddr,
    /// The client's connection.
    pub tls: TlsLabel,
    /// `srv_*`.
    pub server: Resource,
    /// `route_*`, of a request.
    pub route: Option<Resource>,
    /// `authz_*`; nothing when denied.
    pub authz: Option<Resource>,
}

impl HttpLabels {
    /// Requests to an endpoint.
    #[must_use]
    pub fn outbound(
        endpoint: &Endpoint,
        parent: Option<&Resource>,
        route: Option<&Resource>,
    ) -> Self {
        Self {
            direction: Direction::Outbound,
            target: endpoint.address,
            tls: TlsLabel::to_endpoint(endpoint),
            endpoint_labels: endpoint.labels.clone(),
            server: parent.cloned(),
            route: route.cloned(),
            authz: None,
        }
    }

    /// Requests to our application.
    #[must_use]
    pub fn inbound(policy: &InboundPolicy, target: SocketAddr, peer: &PeerTls) -> Self {
        Self {
            direction: Direction::Inbound,
            target,
            tls: TlsLabel::from_client(peer),
            endpoint_labels: Labels::default(),
            server: Some(policy.server.clone()),
            route: None,
            authz: None,
        }
    }

    /// As in the exposition, without braces.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = LabelText::new();
        text.put("direction", self.direction.as_str());
        text.target(self.target);
        text.tls(self.direction, &self.tls);
        text.resource("srv", self.server.as_ref());
        text.resource("route", self.route.as_ref());
        text.resource("authz", self.authz.as_ref());
        text.endpoint(&self.endpoint_labels);
        text.0
    }
}

impl TcpLabels {
    /// Connections that we accept.
    #[must_use]
    pub fn accepted(direction: Direction, target: SocketAddr, tls: TlsLabel) -> Self {
        Self {
            direction,
            peer: PeerSide::Src,
            target,
            tls,
            endpoint_labels: Labels::default(),
            server: None,
        }
    }

    /// Connections to an endpoint.
    #[must_use]
    pub fn opened(direction: Direction, endpoint: &Endpoint) -> Self {
        Self {
            direction,
            peer: PeerSide::Dst,
            target: endpoint.address,
            tls: TlsLabel::to_endpoint(endpoint),
            endpoint_labels: endpoint.labels.clone(),
            server: None,
        }
    }

    /// As in the exposition, without braces.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = LabelText::new();
        text.put("direction", self.direction.as_str());
        text.put("peer", if self.peer == PeerSide::Src { "src" } else { "dst" });
        text.target(self.target);
        text.tls(self.direction, &self.tls);
        text.resource("srv", self.server.as_ref());
        text.endpoint(&self.endpoint_labels);
        text.0
    }
}

impl AuthzLabels {
    /// As in the exposition, without braces.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = LabelText::new();
        text.target(self.target);
        text.tls(Direction::Inbound, &self.tls);
        text.resource("srv", Some(&self.server));
        text.resource("route", self.route.as_ref());
        text.resource("authz", self.authz.as_ref());
        text.0
    }
}

/// `name="value",…` as it grows.
#[derive(Debug, Default)]
pub struct LabelText(pub String);

impl LabelText {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label, its value escaped as the text format wants it.
    pub fn put(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(name);
        self.0.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        self.0.push('"');
    }

    /// `<prefix>_group`, `_kind`, `_namespace`, `_name` and, where there is one, `_port`.
    pub fn resource(&mut self, prefix: &str, resource: Option<&Resource>) {
        let Some(resource) = resource else { return };
        let (group, port) = match resource {
            Resource::Default(_) => ("", 0),
            Resource::Object { group, port, .. } => (group.as_ref(), *port),
        };
        self.put(&format!("{prefix}_group"), group);
        self.put(&format!("{prefix}_kind"), resource.kind());
        if !resource.namespace().is_empty() {
            self.put(&format!("{prefix}_namespace"), resource.namespace());
        }
        self.put(&format!("{prefix}_name"), resource.name());
        if port != 0 {
            self.put(&format!("{prefix}_port"), &port.to_string());
        }
    }

    fn target(&mut self, target: SocketAddr) {
        let (ip, port) = (target.ip().to_canonical(), target.port());
        self.put("target_addr", &SocketAddr::new(ip, port).to_string());
        self.put("target_ip", &ip.to_string());
        self.put("target_port", &port.to_string());
    }

    fn tls(&mut self, direction: Direction, tls: &TlsLabel) {
        let peer = match direction {
            Direction::Inbound => "client_id",
            Direction::Outbound => "server_id",
        };
        match tls {
            TlsLabel::Mutual(name) => {
                self.put("tls", "true");
                self.put(peer, name.as_ref().map_or("", PeerName::as_str));
            }
            TlsLabel::None(reason) => {
                self.put("tls", "no_identity");
                self.put(
                    "no_tls_reason",
                    match reason {
                        NoTls::Loopback => "loopback",
                        NoTls::NoTlsFromRemote => "no_tls_from_remote",
                        NoTls::NotProvidedByServiceDiscovery => "not_provided_by_service_discovery",
                    },
                );
            }
            TlsLabel::Opaque => self.put("tls", "opaque"),
        }
    }

    /// Labels of the control plane. linkerd sends `pod` and the proxy makes it `dst_pod`; ours sends `dst_pod`. A name
    /// that is none for Prometheus would make the whole scrape unreadable, so it is left out.
    fn endpoint(&mut self, labels: &Labels) {
        for (name, value) in labels.iter() {
            let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !valid || name.is_empty() {
                continue;
            }
            if name.starts_with("dst_") {
                self.put(name, value);
            } else {
                let mut prefixed = String::with_capacity(4 + name.len());
                let _ = write!(prefixed, "dst_{name}");
                self.put(&prefixed, value);
            }
        }
    }
}
