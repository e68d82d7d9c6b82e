//! The client's side: the same decisions, and a peer that is known by name before the first byte.
//!
//! rustls verifies per configuration and resumes from a store in it, so there is one configuration per expected
//! peer: a session can never be resumed with somebody else.

use crate::anchors::Anchors;
use crate::credential::Credential;
use crate::refused::Refused;
use crate::verify::ServerVerifier;
use crate::{Alpn, BUFFER_BYTES_MAX, Connected, check_resumed, peer_name, provider};
use leno_model::name::DnsName;
use leno_model::workload::PeerIdentity;
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{ClientConfig, HandshakeKind, NamedGroup};
use rustls_pki_types::ServerName;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Tickets kept per peer, at about 1.5 KiB each. Each opens one connection, which brings the next.
pub const TICKETS_MAX: usize = 4;

/// The configuration towards the control plane before there is a certificate, by the system's clock.
#[must_use]
pub fn nameless(anchors: &Anchors, peer: &PeerIdentity, alpn: Alpn) -> Arc<ClientConfig> {
    config(None, anchors, peer, alpn, Arc::new(DefaultTimeProvider))
}

/// The configuration towards one peer. Without a credential no certificate is shown: that is how the first one is
/// asked for.
#[must_use]
pub fn config(
    credential: Option<&Credential>,
    anchors: &Anchors,
    peer: &PeerIdentity,
    alpn: Alpn,
    time: Arc<dyn TimeProvider>,
) -> Arc<ClientConfig> {
    let verifier = ServerVerifier { anchors: anchors.clone(), expected: peer.name.clone() };
    let builder = ClientConfig::builder_with_details(provider(), time)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3 suites")
        .dangerous() // The word is for verifiers that verify less; ours verifies a name that rustls cannot.
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match credential {
        Some(credential) => builder
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(credential.certified()))),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = Alpn::list(&[alpn]);
    config.resumption = Resumption::store(Arc::new(Tickets::default()));
    config.enable_early_data = false;
    Arc::new(config)
}

/// Makes the handshake with a server.
///
/// # Errors
/// Whatever [`Refused`] names. In TLS 1.3 a client is done before the server has looked at its certificate: a
/// refusal of *ours* arrives with the first read, where [`Refused::of`] finds it.
pub async fn connect<IO>(
    config: Arc<ClientConfig>,
    server_name: &DnsName,
    io: IO,
    wait_max: Duration,
) -> Result<Connected<TlsStream<IO>>, Refused>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let server_name = ServerName::try_from(server_name.as_str().to_owned())
        .map_err(|_| Refused::Handshake(format!("{server_name} is not a valid SNI name")))?;
    let time = config.time_provider.clone();
    let alpn_required = !config.alpn_protocols.is_empty();
    let handshake = TlsConnector::from(config).connect_with(server_name, io, |connection| {
        connection.set_buffer_limit(Some(BUFFER_BYTES_MAX));
    });
    let stream = tokio::time::timeout(wait_max, handshake)
        .await
        .map_err(|_| Refused::Timeout(wait_max))?
        .map_err(|error| Refused::of(&error))?;
    let connection = stream.get_ref().1;
    let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
    if resumed {
        check_resumed(connection, time.current_time())?;
    }
    let (peer, alpn) = (peer_name(connection), Alpn::of(connection.alpn_protocol()));
    if alpn_required && alpn == Alpn::None {
        return Err(Refused::ApplicationProtocol); // Our first bytes would mean nothing to it.
    }
    Ok(Connected { stream, peer, alpn, resumed })
}

/// The tickets of one peer. rustls' own store is made for many servers and keeps twice as many tickets of each.
#[derive(Debug, Default)]
struct Tickets(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    tickets: VecDeque<Tls13ClientSessionValue>,
    group: Option<NamedGroup>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tickets", self.tickets.len()) // They hold secrets.
    }
}

impl Tickets {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.lock().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut kept = self.lock();
        if kept.tickets.len() == TICKETS_MAX {
            kept.tickets.pop_front();
        }
        kept.tickets.push_back(ticket);
    }

    /// The newest: it is the one that the server most likely remembers. Each is used once (RFC 8446 appendix C.4).
    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().tickets.pop_back()
    }
}
