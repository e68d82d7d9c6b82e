//! Who gets which certificate.
//!
//! - [`attest`]: a token to the workload that it names; and tokens made here.
//! - [`review`]: the same on Kubernetes, by the API server's word.
//! - [`copies`]: the trust anchors in the namespaces of a cluster.
//! - [`keep`]: the issuer and our own certificate, kept current.
//! - [`secret`]: what a cluster's Secret and ConfigMap make; pure.
//! - [`issue`]: workload, request and time to a certificate; pure.
//! - [`root`]: root and issuer on disk, created, loaded, renewed, or brought by the user.
//! - [`service`]: the gRPC service in front.
//!
//! The root's key is used only to sign issuers; leaves are signed by the issuer.

pub mod attest;
pub mod copies;
pub mod issue;
pub mod keep;
pub mod review;
pub mod root;
pub mod secret;
pub mod service;

use leno_tls::Anchors;
use leno_tls::mac::MacKey;
use leno_tls::validity::Validity;
use rcgen::{Issuer, KeyPair};
use rustls_pki_types::CertificateDer;
use std::time::{SystemTime, UNIX_EPOCH};
use tonic::{Code, Status};

/// An issuer that can sign, with the chain to its roots.
pub struct Authority {
    pub(crate) issuer: Issuer<'static, KeyPair>,
    /// The issuer's certificate, then any between it and the root.
    pub chain: Vec<CertificateDer<'static>>,
    /// The issuer's life.
    pub validity: Validity,
    /// The roots that proxies trust.
    pub anchors: Anchors,
    /// The same, as files have them.
    pub anchors_pem: String,
}

impl Authority {
    /// What the keys of session tokens are derived from. All replicas have the same issuer.
    pub(crate) fn session_secret(&self) -> [u8; 32] {
        MacKey::new(self.issuer.key().serialized_der()).mac(&[b"leno session persistence"])
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("validity", &self.validity).finish_non_exhaustive()
    }
}

/// Why no certificate is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The token proves nothing.
    #[error("the token was rejected: {0}")]
    Token(String),
    /// Nobody can say now whether the token is good.
    #[error("the API server cannot review the token now: {0}")]
    Unavailable(String),
    /// The token is another workload's.
    #[error("the token is for {token}, so a certificate for {asked:?} is rejected")]
    Identity {
        /// The workload that the token names.
        token: String,
        /// What was asked for.
        asked: String,
    },
    /// The request cannot be read, or was not signed with its own key.
    #[error("the certificate request was rejected: {0}")]
    Request(String),
    /// The key is of a kind that is not certified.
    #[error("the certificate request's key is not ECDSA P-256, ECDSA P-384 or Ed25519")]
    Key,
    /// The issuer cannot sign any more.
    #[error("the issuer's certificate expired {0} seconds ago")]
    IssuerExpired(u64),
    #[error("signing failed: {0}")]
    Signing(String),
}

impl Refused {
    /// A word for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Unavailable(_) => "unavailable",
            Self::Identity { .. } => "identity",
            Self::Request(_) => "request",
            Self::Key => "key",
            Self::IssuerExpired(_) => "issuer_expired",
            Self::Signing(_) => "signing",
        }
    }
}

impl From<&Refused> for Status {
    fn from(refused: &Refused) -> Self {
        let code = match refused {
            Refused::Token(_) => Code::Unauthenticated,
            Refused::Unavailable(_) => Code::Unavailable,
            Refused::Identity { .. } => Code::PermissionDenied,
            Refused::Request(_) | Refused::Key => Code::InvalidArgument,
            Refused::IssuerExpired(_) => Code::FailedPrecondition,
            Refused::Signing(_) => Code::Internal,
        };
        Self::new(code, refused.to_string())
    }
}

/// Seconds of Unix time; a clock before 1970 reads as 0 and finds every certificate not yet valid.
#[must_use]
pub fn unix_seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
