//! Every TLS decision of Leno, in one reviewable place: rustls with aws-lc, TLS 1.3 only, hybrid
//! post-quantum key exchange first, sessions resumed.
//!
//! - [`anchors`]: the roots that are trusted, and the trust domain they vouch for.
//! - [`credential`]: who we are ([`Credential`]) and the ready-made configurations ([`Credentials`]); a renewal
//!   makes a new snapshot, and what is open stays open.
//! - [`verify`]: a peer's certificate to its name, or the reason why not.
//! - [`refused`]: every reason why a handshake fails.
//! - [`server`], [`client`]: the two sides, same decisions.
//! - [`serving`]: the server's side for clients outside of the mesh.
//! - [`hello`]: is this connection TLS, and is it for us? Read from its first bytes.
//! - [`mac`]: keyed hashes, for the tokens of sessions.
//! - [`csr`]: a key that is in memory only, and the request for its certificate.
//!
//! What is *not* here: sockets, when a certificate is renewed (`proxy::identity`), who gets one (`control::ca`).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod anchors;
pub mod client;
pub mod credential;
pub mod csr;
pub mod hello;
pub mod mac;
pub mod refused;
pub mod server;
pub mod serving;
pub mod validity;
pub mod verify;

pub use anchors::Anchors;
pub use credential::{Credential, CredentialError, Credentials};
pub use refused::Refused;
pub use serving::Serving;
// So that who uses TLS need not depend on rustls, and cannot decide anything with it.
pub use rustls::{ClientConfig, ServerConfig};
pub use rustls_pki_types::{CertificateDer, UnixTime};

use leno_model::name::PeerName;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CommonState, SupportedCipherSuite};
use std::sync::{Arc, OnceLock};

/// How much plaintext and ciphertext one connection may hold back while its peer does not read: two full records.
/// A slow reader costs this much and no more.
pub const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// An application protocol, as agreed in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alpn {
    /// None is asked for: HTTP between proxies, found by its first bytes.
    None,
    /// linkerd's transport header, then opaque bytes.
    Transport,
    /// Many connections of HTTP inside of one.
    Multiplex,
    /// HTTP/2: the control plane.
    Http2,
}

impl Alpn {
    /// The name on the wire; empty for [`Alpn::None`].
    #[must_use]
    pub const fn wire(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Transport => b"transport.l5d.io/v1",
            Self::Multiplex => b"leno.multiplex/1",
            Self::Http2 => b"h2",
        }
    }

    /// What was agreed. A name that we never offer cannot have been agreed, so it reads as none.
    #[must_use]
    pub fn of(agreed: Option<&[u8]>) -> Self {
        match agreed {
            Some(name) if name == Self::Transport.wire() => Self::Transport,
            Some(name) if name == Self::Multiplex.wire() => Self::Multiplex,
            Some(name) if name == Self::Http2.wire() => Self::Http2,
            _ => Self::None,
        }
    }

    /// As rustls wants a list of them.
    fn list(offered: &[Self]) -> Vec<Vec<u8>> {
        offered
            .iter()
            .filter(|alpn| **alpn != Self::None)
            .map(|alpn| alpn.wire().to_vec())
            .collect()
    }
}

/// A handshake that succeeded.
#[derive(Debug)]
pub struct Connected<S> {
    /// The stream of plaintext.
    pub stream: S,
    /// The verified peer; `None` only where a server does not insist on a client certificate.
    pub peer: Option<PeerName>,
    /// The agreed application protocol.
    pub alpn: Alpn,
    /// Whether an earlier session was resumed, which saves both sides their signatures.
    pub resumed: bool,
}

/// The cryptography in use: TLS 1.3 suites only, X25519MLKEM768 first.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER
        .get_or_init(|| {
            let mut provider = aws_lc_rs::default_provider();
            provider.cipher_suites.retain(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
            Arc::new(provider)
        })
        .clone()
}

/// The name of the verified peer of a connection: its SPIFFE ID if it has one, else its first DNS name. Known after
/// a resumed handshake as well, since a session remembers the certificate.
#[must_use]
pub fn peer_name(connection: &CommonState) -> Option<PeerName> {
    verify::name(connection.peer_certificates()?.first()?).ok()
}

/// A full handshake checks the dates of the peer's chain; a resumed one does not, so we do it for the peer's leaf.
fn check_resumed(connection: &CommonState, now: Option<UnixTime>) -> Result<(), Refused> {
    let Some(leaf) = connection.peer_certificates().and_then(|chain| chain.first()) else {
        return Ok(());
    };
    let now = now.ok_or(Refused::NoClock)?;
    validity::read(leaf).ok_or(Refused::Malformed)?.check(now.as_secs())
}
