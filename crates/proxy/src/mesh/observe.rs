//! What a thread counts and logs. Every ending is told once, here.

use super::Worker;
use crate::ending::Ending;
use crate::http1::relay::Ended;
use crate::request::local_reply::Refusal;
use crate::request::route::View;
use crate::telemetry::access_log::Record;
use crate::telemetry::{
    AuthzLabels, Counter, Direction, HttpLabels, HttpSeries, NoTls, PeerSide, TcpLabels, TcpSeries,
    TlsLabel, Transport,
};
use leno_model::name::{PeerName, Resource};
use leno_model::policy::{self, InboundPolicy, PeerTls};
use leno_model::workload::{Endpoint, Labels};
use leno_tls::Refused;
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// A policy's verdict on one client, and where such verdicts are counted.
#[derive(Debug)]
pub struct Decided {
    /// The policy that decided.
    pub policy: Arc<InboundPolicy>,
    /// On a connection or on a request.
    pub transport: Transport,
    /// What it says.
    pub verdict: Result<(), Refusal>,
    /// Absent for probes.
    pub counter: Option<Rc<Counter>>,
    /// The numbers of the client's requests, once there was one.
    pub series: OnceCell<Rc<HttpSeries>>,
}

impl Worker {
    /// Numbers of connections from clients. `peer` is the client over mutual TLS.
    pub fn client_series(
        &self,
        direction: Direction,
        target: SocketAddr,
        peer: Option<Option<&PeerName>>,
    ) -> Rc<TcpSeries> {
        let tls = match (direction, peer) {
            (Direction::Outbound, _) => TlsLabel::None(NoTls::Loopback),
            (Direction::Inbound, Some(name)) => TlsLabel::Mutual(name.cloned()),
            (Direction::Inbound, None) => TlsLabel::None(NoTls::NoTlsFromRemote),
        };
        self.recorder.tcp(&TcpLabels {
            direction,
            peer: PeerSide::Src,
            target,
            tls,
            endpoint_labels: Labels::default(),
            server: None,
        })
    }

    /// Numbers of requests to an endpoint.
    pub fn outbound_series(
        &self,
        endpoint: &Endpoint,
        parent: Option<&Resource>,
        route: Option<&Resource>,
    ) -> Rc<HttpSeries> {
        self.recorder.http(&HttpLabels {
            direction: Direction::Outbound,
            target: endpoint.address,
            tls: endpoint_tls(endpoint),
            endpoint_labels: endpoint.labels.clone(),
            server: parent.cloned(),
            route: route.cloned(),
            authz: None,
        })
    }

    /// Numbers of connections to an endpoint.
    pub fn endpoint_series(&self, direction: Direction, endpoint: &Endpoint) -> Rc<TcpSeries> {
        self.recorder.tcp(&TcpLabels {
            direction,
            peer: PeerSide::Dst,
            target: endpoint.address,
            tls: endpoint_tls(endpoint),
            endpoint_labels: endpoint.labels.clone(),
            server: None,
        })
    }

    /// Numbers of requests to our application.
    pub fn inbound_series(
        &self,
        policy: &InboundPolicy,
        target: SocketAddr,
        peer: &PeerTls,
    ) -> Rc<HttpSeries> {
        self.recorder.http(&HttpLabels {
            direction: Direction::Inbound,
            target,
            tls: peer_tls(peer),
            endpoint_labels: Labels::default(),
            server: Some(policy.server.clone()),
            route: None,
            authz: None,
        })
    }

    /// May this client (its address, where it goes, who it is)? A health probe of the node always may.
    pub fn decide(
        &self,
        policy: Arc<InboundPolicy>,
        transport: Transport,
        (client, target, peer): (SocketAddr, SocketAddr, &PeerTls),
    ) -> Decided {
        if self.config.probe_sources.iter().any(|net| net.contains(&client.ip())) {
            let series = OnceCell::new();
            return Decided { policy, transport, verdict: Ok(()), counter: None, series };
        }
        let verdict = policy::decide(&policy, client.ip(), peer);
        let labels = AuthzLabels {
            target,
            tls: peer_tls(peer),
            server: policy.server.clone(),
            route: None,
            authz: verdict.as_ref().ok().map(|rule| rule.resource.clone()),
        };
        let counter = self.recorder.authz(transport, verdict.is_ok(), &labels);
        let verdict = verdict.map(drop).map_err(|denied| {
            let text = Ending::PolicyDenied.shown().text;
            Refusal::because(Ending::PolicyDenied, format!("{text}: {denied}"))
        });
        Decided { policy, transport, verdict, counter: Some(counter), series: OnceCell::new() }
    }

    /// May this one request of a client that the port's own authorizations let not in? Health probes may.
    pub fn admits_request(
        &self,
        policy: &InboundPolicy,
        (client, target, peer): (SocketAddr, SocketAddr, &PeerTls),
        request: &View<'_>,
    ) -> bool {
        if policy.routes.is_empty() || request.is_ambiguous() {
            return false;
        }
        let Ok(rule) = policy::decide_request(policy, client.ip(), peer, request) else {
            return false;
        };
        let labels = AuthzLabels {
            target,
            tls: peer_tls(peer),
            server: policy.server.clone(),
            route: None,
            authz: Some(rule.resource.clone()),
        };
        self.recorder.authz(Transport::Http, true, &labels).add(1);
        true
    }

    /// Mutual TLS failed: reason in metric and log.
    pub fn tls_refused(&self, direction: Direction, address: SocketAddr, refused: &Refused) {
        self.recorder.tls_refused(direction, refused.as_str());
        tracing::warn!(
            direction = direction.as_str(),
            %address,
            reason = refused.as_str(),
            "mutual TLS refused: {refused}"
        );
    }

    /// A connection has ended.
    pub fn connection_ended(
        &self,
        direction: Direction,
        client: SocketAddr,
        target: SocketAddr,
        ended: &Refusal,
    ) {
        let shown = ended.ending.shown();
        self.recorder.ended(direction, ended.ending);
        // The level is data here, and tracing wants it constant: three levels are in use.
        macro_rules! tell {
            ($level:ident) => {
                tracing::$level!(
                    direction = direction.as_str(),
                    %client,
                    %target,
                    ending = shown.flag,
                    "connection ended: {}",
                    ended.text()
                )
            };
        }
        match shown.level {
            tracing::Level::ERROR => tell!(error),
            tracing::Level::WARN => tell!(warn),
            tracing::Level::INFO => tell!(info),
            _ => tell!(debug),
        }
    }

    /// A request has ended.
    pub fn request_ended(
        &self,
        direction: Direction,
        client: SocketAddr,
        peer: Option<&PeerName>,
        ended: &Ended<'_>,
    ) {
        if let (Some(log), Some(logged)) = (&self.access_log, ended.logged) {
            let now = Instant::now();
            let total = now.saturating_duration_since(ended.begun);
            log.write(&Record {
                began: SystemTime::now() - total,
                direction,
                client,
                client_id: peer.map_or("", PeerName::as_str),
                target: None,
                method: &logged.method,
                path: &logged.path,
                version: logged.version,
                host: &logged.host,
                user_agent: &logged.user_agent,
                referer: &logged.referer,
                status: ended.status,
                request_bytes: 0,
                response_bytes: ended.response_bytes,
                first_byte: ended
                    .head_at
                    .map_or(total, |at| at.saturating_duration_since(ended.begun)),
                total,
                ending: ended.ending,
            });
        }
        if !ended.counted {
            self.recorder.request_refused(direction, ended.ending);
        }
        if ended.ending != Ending::Complete {
            let peer = peer.map_or("", PeerName::as_str);
            let (flag, status) = (ended.ending.flag(), ended.status);
            let detail =
                if ended.detail.is_empty() { ended.ending.shown().text } else { ended.detail };
            tracing::debug!(
                direction = direction.as_str(),
                %client,
                peer,
                ending = flag,
                status,
                "request ended: {detail}"
            );
        }
    }
}

fn endpoint_tls(endpoint: &Endpoint) -> TlsLabel {
    match &endpoint.identity {
        Some(identity) => TlsLabel::Mutual(Some(identity.name.clone())),
        None => TlsLabel::None(NoTls::NotProvidedByServiceDiscovery),
    }
}

fn peer_tls(peer: &PeerTls) -> TlsLabel {
    match peer {
        PeerTls::Established(name) => TlsLabel::Mutual(name.clone()),
        PeerTls::None => TlsLabel::None(NoTls::NoTlsFromRemote),
    }
}
