//! Secret and ConfigMap of a cluster to an authority, or the reason why not; pure.
//!
//! The Secret is in cert-manager's layout (`kubernetes.io/tls`: `tls.crt` with the issuer first, `tls.key` as PKCS #8, SEC 1 or PKCS #1).
//! Its `ca.crt` is not read: the roots that proxies trust are in one place, the ConfigMap.

use super::Authority;
use super::root::{Link, certificates_of};
use crate::world::MeshNames;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use leno_inject::Mesh;
use leno_runtime::hex;
use leno_tls::verify::{self, Side};
use leno_tls::{Anchors, CredentialError, Refused, UnixTime, serving, validity};
use rcgen::KeyPair;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use std::time::Duration;

/// The Secret with the issuer.
pub const ISSUER_SECRET: &str = "leno-identity-issuer";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Why there is no issuer in what the cluster has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error(
        "there is no Secret {ISSUER_SECRET}; create it with `leno install`, or with cert-manager"
    )]
    NoSecret,
    /// No ConfigMap, or nothing in it.
    #[error(
        "there is no ConfigMap {} with the key {}",
        Mesh::TRUST_ANCHORS,
        Mesh::TRUST_ANCHORS_KEY
    )]
    NoAnchors,
    /// A key of the Secret or ConfigMap is missing or cannot be read.
    #[error("{field}: {why}")]
    Malformed {
        /// Which.
        field: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The key is that of another certificate.
    #[error("{KEY} does not match {CERTIFICATE}")]
    OtherKey,
    /// The issuer's life is over.
    #[error("the issuer's certificate expired {0} seconds ago")]
    Expired(u64),
    /// The issuer's life has not begun.
    #[error("the issuer's certificate becomes valid only in {0} seconds; check the clocks")]
    NotYetValid(u64),
    /// It may not sign.
    #[error("{CERTIFICATE} is not a CA certificate")]
    NotAuthority,
    /// No anchor has signed it.
    #[error(
        "the issuer's certificate does not lead to a trust anchor of the ConfigMap {}",
        Mesh::TRUST_ANCHORS
    )]
    NotTrusted,
    /// Peers would refuse what it signs.
    #[error("peers would reject certificates of this issuer: {0}")]
    Refused(String),
}

impl Rejected {
    /// A word for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSecret => "no_secret",
            Self::NoAnchors => "no_anchors",
            Self::Malformed { .. } => "malformed",
            Self::OtherKey => "other_key",
            Self::Expired(_) => "expired",
            Self::NotYetValid(_) => "not_yet_valid",
            Self::NotAuthority => "not_authority",
            Self::NotTrusted => "not_trusted",
            Self::Refused(_) => "refused",
        }
    }
}

/// The authority that the cluster's objects make, if peers would accept what it signs at `now`.
///
/// # Errors
/// The first thing that is wrong.
pub fn authority(
    secret: Option<&Secret>,
    anchors: Option<&ConfigMap>,
    names: &MeshNames,
    now: u64,
) -> Result<Authority, Rejected> {
    let secret = secret.ok_or(Rejected::NoSecret)?;
    let anchors = anchors.and_then(|map| map.data.as_ref()?.get(Mesh::TRUST_ANCHORS_KEY));
    let anchors = anchors.filter(|pem| !pem.trim().is_empty()).ok_or(Rejected::NoAnchors)?;
    let malformed = |field: &'static str, why: &dyn std::fmt::Display| Rejected::Malformed {
        field,
        why: why.to_string(),
    };
    let text = |field: &'static str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(field));
        let bytes = bytes.ok_or_else(|| malformed(field, &"it is missing"))?;
        str::from_utf8(&bytes.0).map_err(|_| malformed(field, &"it is not PEM"))
    };
    let certificates = |field, pem: &str| {
        certificates_of(pem).map_err(|error| malformed(field, &format!("{error:#}")))
    };
    let chain = certificates(CERTIFICATE, text(CERTIFICATE)?)?;
    let roots = certificates(Mesh::TRUST_ANCHORS_KEY, anchors)?;
    // Skips what openssl writes before a key (`EC PARAMETERS`).
    let key = PrivateKeyDer::from_pem_slice(text(KEY)?.as_bytes())
        .map_err(|_| malformed(KEY, &"there is no private key in PEM"))?;
    let (first, rest) =
        chain.split_first().ok_or_else(|| malformed(CERTIFICATE, &"no certificate"))?;
    if validity::read(first).is_none() {
        return Err(malformed(CERTIFICATE, &"the certificate cannot be read"));
    }
    serving::check_key(first.clone(), key.clone_key()).map_err(|error| match error {
        CredentialError::OtherKey => Rejected::OtherKey,
        CredentialError::Key(_) => malformed(KEY, &"a key of an unsupported kind"),
        other => malformed(CERTIFICATE, &other),
    })?;
    let key =
        KeyPair::try_from(&key).map_err(|_| malformed(KEY, &"a key of an unsupported kind"))?;
    let link = Link::new(first.clone(), key)
        .map_err(|error| malformed(CERTIFICATE, &format!("{error:#}")))?;
    if now > link.validity.not_after {
        return Err(Rejected::Expired(now - link.validity.not_after));
    }
    if now < link.validity.not_before {
        return Err(Rejected::NotYetValid(link.validity.not_before - now));
    }
    let trusted = Anchors::from_der(roots.clone(), &names.trust_domain)
        .map_err(|error| malformed(Mesh::TRUST_ANCHORS_KEY, &error))?;
    let moment = UnixTime::since_unix_epoch(Duration::from_secs(now));
    // As a peer it would be refused for being a CA; this is looked at before whose it is.
    let as_peer = verify::chain(first, rest, &trusted, Side::Server, moment);
    if as_peer != Err(Refused::AuthorityAsPeer) {
        return Err(Rejected::NotAuthority);
    }
    let anchors = anchors.clone();
    Authority::checked(link, rest.to_vec(), roots, anchors, names, now).map_err(|error| {
        match error.downcast_ref::<CredentialError>() {
            // A root of the same name with another key: the issuer's own key was looked at above.
            Some(CredentialError::Refused(Refused::UnknownIssuer | Refused::BadSignature)) => {
                Rejected::NotTrusted
            }
            Some(other) => Rejected::Refused(other.to_string()),
            None => Rejected::Refused(error.root_cause().to_string()),
        }
    })
}

impl Authority {
    /// The serial number of the issuer's certificate: hexadecimal in lower case, without leading zeros.
    #[must_use]
    pub fn serial(&self) -> String {
        let serial = self.chain.first().and_then(|issuer| validity::serial(issuer));
        hex::lower(serial.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
