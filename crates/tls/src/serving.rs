//! HTTPS for clients outside of the mesh: the API server, which calls the control plane's webhook and shows no certificate.
//!
//! TLS 1.3 like everywhere; [`crate::server::accept`] takes the handshake. No application protocol is agreed on, so HTTP/1 is spoken.

use crate::credential::{CredentialError, certified};
use crate::refused::Refused;
use crate::validity::{self, Validity};
use crate::{provider, verify};
use rustls::server::ServerSessionMemoryCache;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::DefaultTimeProvider;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::fmt;
use std::sync::Arc;

/// API servers are few, and each keeps one session.
const SESSIONS_MAX: usize = 32;

/// A certificate and key that such clients accept.
#[derive(Clone)]
pub struct Serving {
    config: Arc<ServerConfig>,
    validity: Validity,
}

impl Serving {
    /// Checks that the parts belong together and that a client with these `roots` who asks for `name` would accept them at `now`.
    ///
    /// # Errors
    /// The reason why it would not.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        roots: &[CertificateDer<'static>],
        name: &str,
        now: UnixTime,
    ) -> Result<Self, CredentialError> {
        let (leaf, intermediates) =
            chain.split_first().ok_or(CredentialError::Refused(Refused::NoCertificate))?;
        let validity = validity::read(leaf).ok_or(CredentialError::Unreadable(1))?;
        verify::for_name(leaf, intermediates, &trusted(roots)?, name, now)?;
        let certified = certified(chain, key)?;
        let mut config =
            ServerConfig::builder_with_details(provider(), Arc::new(DefaultTimeProvider))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .expect("the provider has TLS 1.3 suites")
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
        config.send_tls13_tickets = 1;
        config.max_early_data_size = 0; // Early data can be replayed.
        config.send_half_rtt_data = false;
        Ok(Self { config: Arc::new(config), validity })
    }

    /// For [`crate::server::accept`].
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// The life of the leaf.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("validity", &self.validity).finish_non_exhaustive()
    }
}

/// Whether a key is that of a certificate, which may be a CA's.
///
/// # Errors
/// [`CredentialError::Key`] or [`CredentialError::OtherKey`].
pub fn check_key(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<(), CredentialError> {
    certified(vec![certificate], key).map(drop)
}

fn trusted(roots: &[CertificateDer<'static>]) -> Result<RootCertStore, CredentialError> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(|_| CredentialError::Refused(Refused::Malformed))?;
    }
    Ok(store)
}
