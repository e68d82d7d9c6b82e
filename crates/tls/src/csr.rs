//! A private key that is in memory only, and the request for its certificate.

use crate::credential::CredentialError;
use leno_model::name::{DnsName, SpiffeId};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, SanType};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;

/// An ECDSA P-256 key: the cheapest signature that linkerd's proxies and every TLS library verify.
pub struct Key(KeyPair);

impl Key {
    /// A new key.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Self, CredentialError> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .map(Self)
            .map_err(|error| CredentialError::Key(error.to_string()))
    }

    /// A certificate request (PKCS #10, DER) for both names of a workload.
    ///
    /// # Errors
    /// A name cannot be written into it.
    pub fn request(
        &self,
        identity: &SpiffeId,
        dns_name: &DnsName,
    ) -> Result<Vec<u8>, CredentialError> {
        let wrong = |error: rcgen::Error| CredentialError::Request(error.to_string());
        let mut asked = CertificateParams::default();
        asked.distinguished_name = DistinguishedName::new(); // Empty: the SANs are the identity.
        asked.subject_alt_names = vec![
            SanType::URI(identity.as_str().try_into().map_err(wrong)?),
            SanType::DnsName(dns_name.as_str().try_into().map_err(wrong)?),
        ];
        let request = asked.serialize_request(&self.0).map_err(wrong)?;
        Ok(request.der().to_vec())
    }

    /// For [`Credential::from_parts`](crate::Credential::from_parts), and for nothing else.
    #[must_use]
    pub fn into_der(self) -> PrivateKeyDer<'static> {
        key(self.0.serialize_der())
    }

    /// PKCS #8, for a place that is memory and that only its own process reads.
    #[must_use]
    pub fn secret(&self) -> Vec<u8> {
        self.0.serialize_der()
    }
}

/// What [`Key::secret`] has given away, for [`Credential::from_parts`](crate::Credential::from_parts), which says whether it is one.
#[must_use]
pub fn key(secret: Vec<u8>) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(secret).into()
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}
