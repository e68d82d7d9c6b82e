//! The roots that are trusted, and the one trust domain they vouch for.

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fmt;
use std::sync::Arc;

/// More roots than this are a mistake: two are in use while one replaces the other.
pub const ANCHORS_MAX: usize = 64;

/// Why a bundle of trust anchors is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnchorsError {
    /// Not PEM.
    #[error("the trust anchors are not PEM: {0}")]
    Pem(String),
    /// A certificate in it cannot be read.
    #[error("trust anchor number {0} is not a certificate that can be read: {1}")]
    Certificate(usize, String),
    /// There is none in it.
    #[error("there is no certificate in the trust anchors")]
    Empty,
    /// There are more than [`ANCHORS_MAX`].
    #[error("there are more than {ANCHORS_MAX} trust anchors")]
    TooMany,
}

/// Trusted roots. Cheap to clone.
#[derive(Clone)]
pub struct Anchors {
    pub(crate) roots: Arc<RootCertStore>,
    trust_domain: Arc<str>,
}

impl Anchors {
    /// From a PEM bundle.
    ///
    /// # Errors
    /// The bundle is empty, or a certificate in it cannot be read: nothing is skipped in silence.
    pub fn from_pem(bundle: &[u8], trust_domain: &str) -> Result<Self, AnchorsError> {
        let certificates = CertificateDer::pem_slice_iter(bundle)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| AnchorsError::Pem(error.to_string()))?;
        Self::from_der(certificates, trust_domain)
    }

    /// From certificates.
    ///
    /// # Errors
    /// There is none, or one cannot be read.
    pub fn from_der(
        certificates: impl IntoIterator<Item = CertificateDer<'static>>,
        trust_domain: &str,
    ) -> Result<Self, AnchorsError> {
        let mut roots = RootCertStore::empty();
        for (number, certificate) in certificates.into_iter().enumerate() {
            if number == ANCHORS_MAX {
                return Err(AnchorsError::TooMany);
            }
            roots
                .add(certificate)
                .map_err(|error| AnchorsError::Certificate(number + 1, error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(AnchorsError::Empty);
        }
        Ok(Self { roots: Arc::new(roots), trust_domain: trust_domain.into() })
    }

    /// Whether these are the same roots for the same trust domain, as one bundle that was read once.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.roots, &other.roots)
            || (self.trust_domain == other.trust_domain && self.roots.roots == other.roots.roots)
    }

    /// The trust domain whose SPIFFE IDs these roots vouch for.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }
}

impl fmt::Debug for Anchors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Anchors({}, {} roots)", self.trust_domain, self.roots.len())
    }
}
