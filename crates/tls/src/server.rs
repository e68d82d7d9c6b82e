//! The server's side: TLS 1.3, one certificate whatever the SNI says, clients known by theirs.

use crate::anchors::Anchors;
use crate::credential::Credential;
use crate::refused::Refused;
use crate::verify::ClientVerifier;
use crate::{Alpn, BUFFER_BYTES_MAX, Connected, check_resumed, peer_name, provider};
use rustls::server::ServerSessionMemoryCache;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::TimeProvider;
use rustls::{HandshakeKind, ServerConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Sessions that can be resumed, at about 1.5 KiB each (the client's chain is most of it). Past this number the
/// oldest is forgotten, and its client makes a full handshake.
pub const SESSIONS_MAX: usize = 512;

/// What is agreed with clients.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Whether a client without certificate is refused.
    pub client_certificate_required: bool,
    /// The application protocols that are understood.
    pub alpn: &'static [Alpn],
}

/// The data path: every client is a member of the mesh.
pub const MESH: Terms =
    Terms { client_certificate_required: true, alpn: &[Alpn::Transport, Alpn::Multiplex] };
/// The control plane: a proxy has no certificate when it asks for its first one.
pub const CONTROL: Terms = Terms { client_certificate_required: false, alpn: &[Alpn::Http2] };

/// The configuration. Sessions live in it, so new credentials begin with none: a session never outlives the
/// verification that it rests on.
#[must_use]
pub fn config(
    credential: &Credential,
    anchors: &Anchors,
    terms: Terms,
    time: Arc<dyn TimeProvider>,
) -> Arc<ServerConfig> {
    let verifier =
        ClientVerifier { anchors: anchors.clone(), mandatory: terms.client_certificate_required };
    let mut config = ServerConfig::builder_with_details(provider(), time)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3 suites")
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(credential.certified())));
    config.alpn_protocols = Alpn::list(terms.alpn);
    // Kept here and named by 32 bytes on the wire; a stateless ticket would carry the client's chain each time.
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    // One: a resumed handshake brings the next, and each costs its record and its place in the store.
    config.send_tls13_tickets = 1;
    config.max_early_data_size = 0; // Early data can be replayed.
    config.send_half_rtt_data = false;
    Arc::new(config)
}

/// Takes a client's handshake.
///
/// # Errors
/// Whatever [`Refused`] names.
pub async fn accept<IO>(
    config: Arc<ServerConfig>,
    io: IO,
    wait_max: Duration,
) -> Result<Connected<TlsStream<IO>>, Refused>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let time = config.time_provider.clone();
    let handshake = TlsAcceptor::from(config)
        .accept_with(io, |connection| connection.set_buffer_limit(Some(BUFFER_BYTES_MAX)));
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
    Ok(Connected { stream, peer, alpn, resumed })
}
