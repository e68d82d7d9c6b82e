//! The roots that are trusted, and the one trust domain they vouch for.

use crate::validity;
use leno_text::hex;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
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
    #[error("trust anchor number {0} is not a valid certificate: {1}")]
    Certificate(usize, String),
    /// There is none in it.
    #[error("there is no certificate in the trust anchors")]
    Empty,
    /// There are more than [`ANCHORS_MAX`].
    #[error("there are more than {ANCHORS_MAX} trust anchors")]
    TooMany,
}

/// By what an operator knows one root from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// SHA-256 of the certificate, hexadecimal, lower case, as `openssl x509 -fingerprint -sha256` has it without colons.
    pub fingerprint: String,
    /// Last second of its life, Unix time; 0 where it cannot be read, which rustls does not mind in a root.
    pub not_after: u64,
}

impl Root {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        // rustls lends us the hash of one of its suites: no library more for a few bytes.
        let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("it is of TLS 1.3, by its name");
        let hash = suite.common.hash_provider.hash(certificate);
        let fingerprint = hex::lower(hash.as_ref());
        let not_after = validity::read(certificate).map_or(0, |life| life.not_after);
        Self { fingerprint, not_after }
    }
}

/// Trusted roots. Cheap to clone.
#[derive(Clone)]
pub struct Anchors {
    pub(crate) roots: Arc<RootCertStore>,
    known: Arc<[Root]>,
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
        let mut known = Vec::new();
        for (number, certificate) in certificates.into_iter().enumerate() {
            if number == ANCHORS_MAX {
                return Err(AnchorsError::TooMany);
            }
            known.push(Root::of(&certificate));
            roots
                .add(certificate)
                .map_err(|error| AnchorsError::Certificate(number + 1, error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(AnchorsError::Empty);
        }
        Ok(Self { roots: Arc::new(roots), known: known.into(), trust_domain: trust_domain.into() })
    }

    /// Whether these are the same roots for the same trust domain, as one bundle that was read once. A root that was
    /// signed again, with another end, is another one.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.roots, &other.roots)
            || (self.trust_domain == other.trust_domain && self.known == other.known)
    }

    /// Which roots these are, in the order of the bundle.
    #[must_use]
    pub fn known(&self) -> &[Root] {
        &self.known
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_openssl() {
        // FIPS 180-2, appendix B.1.
        let root = Root::of(&CertificateDer::from(b"abc".to_vec()));
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((root.fingerprint.as_str(), root.not_after), (expected, 0));
    }
}
