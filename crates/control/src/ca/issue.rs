//! Workload, request and time to a certificate; pure.
//!
//! Nothing of the request is copied but the public key: names, usages and life are ours to say.

use super::attest::Attested;
use super::{Authority, Refused};
use crate::world::MeshNames;
use crate::world::pod::identity;
use leno_model::workload::PeerIdentity;
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use std::time::Duration;
use time::OffsetDateTime;

/// A certificate begins this long ago, for peers whose clock is behind.
const CLOCK_SKEW_SECONDS: u64 = 60;
/// The longest common name that X.509 allows.
const COMMON_NAME_BYTES_MAX: usize = 64;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The DNS-like name or the SPIFFE ID.
    pub identity: &'a str,
    /// PKCS #10, DER or PEM.
    pub csr: &'a [u8],
}

/// A certificate, and what leads from it to the roots.
#[derive(Clone, Debug)]
pub struct Issued {
    /// For the request's key.
    pub leaf: CertificateDer<'static>,
    /// The issuer first.
    pub intermediates: Vec<CertificateDer<'static>>,
    /// Its last second, in Unix time.
    pub not_after: u64,
}

/// A certificate for the attested workload, if the request asks for that and nothing else.
///
/// # Errors
/// Whatever [`Refused`] names.
pub fn issue(
    authority: &Authority,
    names: &MeshNames,
    who: &Attested,
    request: Request<'_>,
    now: u64,
    life: Duration,
    serial: [u8; 16],
) -> Result<Issued, Refused> {
    let identity = identity(names, &who.namespace, &who.service_account).map_err(Refused::Token)?;
    let ours = [identity.name.as_str(), identity.server_name.as_str()];
    let other = |asked: &str| Refused::Identity {
        token: identity.name.to_string(),
        asked: asked.chars().take(256).collect(),
    };
    if !ours.contains(&request.identity) {
        return Err(other(request.identity));
    }
    let csr = read(request.csr)?;
    if csr.params.subject_alt_names.is_empty() {
        return Err(Refused::Request("it has no subject alternative name".to_owned()));
    }
    for name in &csr.params.subject_alt_names {
        let named = match name {
            SanType::URI(uri) if uri.as_str() == ours[0] => continue,
            SanType::DnsName(dns) if dns.as_str() == ours[1] => continue,
            SanType::URI(text) | SanType::DnsName(text) | SanType::Rfc822Name(text) => {
                text.as_str().to_owned()
            }
            SanType::IpAddress(ip) => ip.to_string(),
            _ => "a name of another kind".to_owned(),
        };
        return Err(other(&named));
    }
    if csr.params.is_ca != IsCa::NoCa && csr.params.is_ca != IsCa::ExplicitNoCa {
        return Err(Refused::Request("it asks for a CA certificate".to_owned()));
    }
    sign(authority, &identity, &csr.public_key, now, life, serial)
}

/// A certificate with both names for a key.
pub(super) fn sign(
    authority: &Authority,
    identity: &PeerIdentity,
    key: &impl PublicKeyData,
    now: u64,
    life: Duration,
    serial: [u8; 16],
) -> Result<Issued, Refused> {
    let signing = |error: &dyn std::fmt::Display| Refused::Signing(error.to_string());
    if now > authority.validity.not_after {
        return Err(Refused::IssuerExpired(now - authority.validity.not_after));
    }
    // Not beyond the issuer: a leaf that outlives it would look valid and be refused.
    let not_after = now.saturating_add(life.as_secs()).min(authority.validity.not_after);
    let not_before = now.saturating_sub(CLOCK_SKEW_SECONDS).max(authority.validity.not_before);
    let ia5 = |text: &str| text.try_into().map_err(|error: rcgen::Error| signing(&error));
    let mut leaf = CertificateParams::default();
    leaf.not_before = moment(not_before)?;
    leaf.not_after = moment(not_after)?;
    leaf.serial_number = Some(SerialNumber::from_slice(&positive(serial)));
    leaf.distinguished_name = DistinguishedName::new();
    if identity.server_name.as_str().len() <= COMMON_NAME_BYTES_MAX {
        leaf.distinguished_name.push(DnType::CommonName, identity.server_name.as_str());
    }
    leaf.subject_alt_names = vec![
        SanType::URI(ia5(identity.name.as_str())?),
        SanType::DnsName(ia5(identity.server_name.as_str())?),
    ];
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    leaf.use_authority_key_identifier_extension = true;
    let certificate = leaf.signed_by(key, &authority.issuer).map_err(|error| signing(&error))?;
    Ok(Issued {
        leaf: certificate.der().clone(),
        intermediates: authority.chain.clone(),
        not_after,
    })
}

/// Reads the request and verifies that it was signed with its own key.
fn read(csr: &[u8]) -> Result<CertificateSigningRequestParams, Refused> {
    let wrong = |error: &dyn std::fmt::Display| Refused::Request(error.to_string());
    // The proto says PEM, linkerd's proxies send DER: both are taken.
    let der = if csr.starts_with(b"-----BEGIN") {
        CertificateSigningRequestDer::from_pem_slice(csr).map_err(|error| wrong(&error))?
    } else {
        CertificateSigningRequestDer::from(csr)
    };
    let csr = CertificateSigningRequestParams::from_der(&der).map_err(|error| wrong(&error))?;
    // The request names the algorithm of the signature; the length of the key shows whether the key has the same one.
    let key = &csr.public_key;
    let certified = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, 65),
        (&rcgen::PKCS_ECDSA_P384_SHA384, 97),
        (&rcgen::PKCS_ED25519, 32),
    ];
    let is_certified = certified
        .iter()
        .any(|(algorithm, bytes)| key.algorithm() == *algorithm && key.der_bytes().len() == *bytes);
    if is_certified { Ok(csr) } else { Err(Refused::Key) }
}

pub(crate) fn moment(seconds: u64) -> Result<OffsetDateTime, Refused> {
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .ok_or_else(|| Refused::Signing(format!("{seconds} is not a valid time")))
}

/// A serial number is positive and not zero (RFC 5280 §4.1.2.2).
pub(super) fn positive(mut serial: [u8; 16]) -> [u8; 16] {
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}
