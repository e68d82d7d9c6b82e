//! Roots and issuers: made, or brought and looked at. Keys are random; everything else is a function of its arguments.
//!
//! Who gets a certificate from an issuer is `leno-control`'s to say. Here is only what has to be true before it is installed.

use leno_tls::validity::{self, Validity};
use leno_tls::{Anchors, Credential, UnixTime};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::time::Duration;
use time::OffsetDateTime;

const DAY_SECONDS: u64 = 24 * 60 * 60;
/// A root lives ten years.
pub const ROOT_LIFE_SECONDS: u64 = 10 * 365 * DAY_SECONDS;
/// An issuer lives a year.
pub const ISSUER_LIFE_SECONDS: u64 = 365 * DAY_SECONDS;
/// Certificates begin a minute ago, for nodes whose clock is behind.
const CLOCK_SKEW_SECONDS: u64 = 60;

/// How to replace a root without a restart and without a failed request, for hints and refusals.
pub const ROTATION: &str = "replace a root in this order: (1) leno upgrade --identity-trust-anchors-file FILE, with the old and the new root in FILE; (2) wait about two minutes until every proxy has both: leno check --proxy shows it; (3) leno upgrade --identity-issuer-certificate-file C --identity-issuer-key-file K, with an issuer of the new root; (4) wait one certificate lifetime (a day), until every certificate comes from the new issuer; (5) leno upgrade --force --identity-trust-anchors-file FILE, with only the new root";

/// A certificate with its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, then any between it and the root.
    pub certificate: String,
    /// PKCS #8.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM.
    pub anchors: String,
    /// Who signs.
    pub issuer: Pair,
    /// Who signed the issuer, where we made it.
    pub root: Option<Pair>,
}

/// Why an issuer is none. Each is one thing to put right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerError {
    #[error("the issuer's certificate cannot be read: {0}")]
    Certificate(String),
    #[error(
        "the issuer's key cannot be read: {0}; PEM of PKCS #8 is needed (openssl pkcs8 -topk8 -nocrypt)"
    )]
    Key(String),
    /// Another's key.
    #[error("the issuer's key does not belong to its certificate")]
    KeyMismatch,
    /// The roots cannot be read.
    #[error("{0}")]
    Anchors(String),
    /// The moment is not in its life.
    #[error("the issuer's certificate expired {0} seconds ago")]
    Expired(u64),
    /// The moment is not in its life.
    #[error("the issuer's certificate becomes valid only in {0} seconds")]
    NotYetValid(u64),
    /// Peers would refuse what it signs.
    #[error("the issuer is not signed by a trust anchor, or is not a CA: {0}")]
    Untrusted(String),
    /// The library's own mistake.
    #[error("signing failed: {0}")]
    Signing(String),
}

/// Root and issuer, made now (seconds of Unix time).
///
/// # Errors
/// The system has no randomness, or the moment is out of the calendar.
pub fn make(trust_domain: &str, now: u64) -> Result<Identity, IssuerError> {
    let begin = now.saturating_sub(CLOCK_SKEW_SECONDS);
    let params = authority(format!("root.leno.{trust_domain}"), 1, begin, now + ROOT_LIFE_SECONDS)?;
    let root_key = KeyPair::generate().map_err(signing)?;
    let root = CertifiedIssuer::self_signed(params, root_key).map_err(signing)?;
    let key = KeyPair::generate().map_err(signing)?;
    let params =
        authority(format!("identity.leno.{trust_domain}"), 0, begin, now + ISSUER_LIFE_SECONDS)?;
    let issuer = params.signed_by(&key, &root).map_err(signing)?;
    Ok(Identity {
        anchors: root.pem(),
        issuer: Pair { certificate: issuer.pem(), key: key.serialize_pem() },
        root: Some(Pair { certificate: root.pem(), key: root.key().serialize_pem() }),
    })
}

/// The next issuer of a root that was made here.
///
/// # Errors
/// The root cannot be used or has ended.
pub fn renew(root: &Pair, trust_domain: &str, now: u64) -> Result<Pair, IssuerError> {
    let life = lives(&root.certificate).first().copied();
    let life = life.ok_or_else(|| IssuerError::Certificate("the root's is none".to_owned()))?;
    dates(life, now)?;
    let key = KeyPair::from_pem(&root.key).map_err(|error| IssuerError::Key(error.to_string()))?;
    let root = Issuer::from_ca_cert_pem(&root.certificate, key).map_err(signing)?;
    let key = KeyPair::generate().map_err(signing)?;
    let begin = now.saturating_sub(CLOCK_SKEW_SECONDS).max(life.not_before);
    let end = (now + ISSUER_LIFE_SECONDS).min(life.not_after);
    let params = authority(format!("identity.leno.{trust_domain}"), 0, begin, end)?;
    let issuer = params.signed_by(&key, &root).map_err(signing)?;
    Ok(Pair { certificate: issuer.pem(), key: key.serialize_pem() })
}

fn signing(error: rcgen::Error) -> IssuerError {
    IssuerError::Signing(error.to_string())
}

fn moment(seconds: u64) -> Result<OffsetDateTime, IssuerError> {
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .ok_or_else(|| IssuerError::Signing(format!("{seconds} is not a valid time")))
}

fn authority(
    name: String,
    below: u8,
    not_before: u64,
    not_after: u64,
) -> Result<CertificateParams, IssuerError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = moment(not_before)?;
    params.not_after = moment(not_after)?;
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// An issuer's life, whether or not this is in it.
///
/// # Errors
/// Everything about the issuer that would make peers refuse what it signs, but for its dates: see [`dates`].
pub fn examine(issuer: &Pair, anchors: &str, trust_domain: &str) -> Result<Validity, IssuerError> {
    let chain = certificates(&issuer.certificate).map_err(IssuerError::Certificate)?;
    let (first, between) = chain
        .split_first()
        .ok_or_else(|| IssuerError::Certificate("there is no certificate in it".to_owned()))?;
    let life = validity::read(first)
        .ok_or_else(|| IssuerError::Certificate("its dates cannot be read".to_owned()))?;
    let key =
        KeyPair::from_pem(&issuer.key).map_err(|error| IssuerError::Key(error.to_string()))?;
    // A certificate holds its public key as exactly these bytes.
    let public = rcgen::PublicKeyData::subject_public_key_info(&key);
    if !first.windows(public.len()).any(|window| window == public) {
        return Err(IssuerError::KeyMismatch);
    }
    let anchors = Anchors::from_pem(anchors.as_bytes(), trust_domain)
        .map_err(|error| IssuerError::Anchors(error.to_string()))?;
    trial(first, between, key, &anchors, life)?;
    Ok(life)
}

/// Whether the moment is in the issuer's life.
///
/// # Errors
/// [`IssuerError::Expired`] or [`IssuerError::NotYetValid`].
pub fn dates(life: Validity, now: u64) -> Result<(), IssuerError> {
    if now > life.not_after {
        return Err(IssuerError::Expired(now - life.not_after));
    }
    if now < life.not_before {
        return Err(IssuerError::NotYetValid(life.not_before - now));
    }
    Ok(())
}

/// A certificate that has less than this is worth a warning: somebody renews it by hand, with holidays between.
pub(crate) const SOON_SECONDS: u64 = 60 * DAY_SECONDS;
/// A machine renews an issuer whose whole life is shorter than this, at a third of its life before the end.
const SHORT_SECONDS: u64 = 180 * DAY_SECONDS;
/// An issuer that `leno` was given is worth a warning from here on, however short its life: nothing in the cluster renews it.
const GIVEN_SOON_SECONDS: u64 = 7 * DAY_SECONDS;
/// An issuer that others make in the cluster is renewed long before: cert-manager begins at a third of its life before the end.
const EXTERNAL_SOON_SECONDS: u64 = 60 * 60;

/// How long an issuer still lives, where that is so short that somebody has to look at it. `is_external`: others make it.
#[must_use]
pub fn expires_soon(life: Validity, now: u64, is_external: bool) -> Option<u64> {
    let whole = life.not_after.saturating_sub(life.not_before);
    let least = if is_external { EXTERNAL_SOON_SECONDS } else { GIVEN_SOON_SECONDS };
    let soon = if whole < SHORT_SECONDS { whole / 3 } else { SOON_SECONDS };
    let left = life.not_after.saturating_sub(now);
    (left < soon.max(least)).then_some(left)
}

/// Signs a leaf and looks at it with a peer's eyes, in the middle of the issuer's life.
fn trial(
    issuer: &CertificateDer<'static>,
    between: &[CertificateDer<'static>],
    key: KeyPair,
    anchors: &Anchors,
    life: Validity,
) -> Result<(), IssuerError> {
    let certificate = |error: rcgen::Error| IssuerError::Certificate(error.to_string());
    let signer = Issuer::from_ca_cert_der(issuer, key).map_err(certificate)?;
    let name = format!("spiffe://{}/ns/leno/sa/leno-check", anchors.trust_domain());
    let mut leaf = CertificateParams::default();
    leaf.distinguished_name = DistinguishedName::new();
    leaf.not_before = moment(life.not_before)?;
    leaf.not_after = moment(life.not_after)?;
    leaf.subject_alt_names = vec![SanType::URI(name.as_str().try_into().map_err(signing)?)];
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf_key = KeyPair::generate().map_err(signing)?;
    let leaf = leaf.signed_by(&leaf_key, &signer).map_err(signing)?;
    let middle = life.not_before + life.not_after.saturating_sub(life.not_before) / 2;
    let chain = std::iter::once(issuer.clone()).chain(between.iter().cloned()).collect();
    let key = PrivatePkcs8KeyDer::from(leaf_key.serialize_der()).into();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(middle));
    Credential::from_parts(key, leaf.der().clone(), chain, anchors, at)
        .map_err(|error| IssuerError::Untrusted(error.to_string()))?;
    Ok(())
}

/// Certificates of a bundle.
///
/// # Errors
/// It is not PEM.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

/// Lives of the certificates of a bundle; those that cannot be read are left out.
#[must_use]
pub fn lives(pem: &str) -> Vec<Validity> {
    let all = certificates(pem).unwrap_or_default();
    all.iter().filter_map(|certificate| validity::read(certificate)).collect()
}

/// Whether every certificate of one bundle is in another.
#[must_use]
pub fn contains(all: &str, some: &str) -> bool {
    let (all, some) =
        (certificates(all).unwrap_or_default(), certificates(some).unwrap_or_default());
    some.iter().all(|one| all.contains(one))
}

/// Whether two bundles hold the same certificates, in whatever order and layout.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    let sorted = |pem: &str| {
        let mut all = certificates(pem).ok()?;
        all.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
        all.dedup();
        (!all.is_empty()).then_some(all)
    };
    sorted(a).is_some_and(|a| sorted(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn verdict(issuer: &Pair, anchors: &str, now: u64) -> String {
        match examine(issuer, anchors, "cluster.local").and_then(|life| dates(life, now)) {
            Ok(()) => "good".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn issuers() {
        let made = make("cluster.local", NOW).unwrap();
        let other = make("cluster.local", NOW).unwrap();
        let check = |issuer: &Pair, anchors: &str, now: u64, expected: &str| {
            let verdict = verdict(issuer, anchors, now);
            assert!(verdict.contains(expected), "{verdict}\nshould contain\n{expected}");
        };
        check(&made.issuer, &made.anchors, NOW, "good");
        check(&made.issuer, &format!("{}{}", other.anchors, made.anchors), NOW, "good");
        let after = NOW + ISSUER_LIFE_SECONDS + 5;
        check(&made.issuer, &made.anchors, after, "expired 5 seconds ago");
        check(&made.issuer, &made.anchors, NOW - 61, "valid only in 1 seconds");
        check(&made.issuer, &other.anchors, NOW, "not signed by a trust anchor");
        check(&made.issuer, "", NOW, "no certificate in the trust anchors");
        let swapped = Pair { key: other.issuer.key.clone(), ..made.issuer.clone() };
        check(&swapped, &made.anchors, NOW, "does not belong");
        let no_key = Pair { key: "x".into(), ..made.issuer.clone() };
        check(&no_key, &made.anchors, NOW, "PKCS #8 is needed");
        let nothing = Pair { certificate: "x".into(), ..made.issuer.clone() };
        check(&nothing, &made.anchors, NOW, "there is no certificate in it");
        let root = made.root.unwrap();
        let later = NOW + ISSUER_LIFE_SECONDS + 5;
        let renewed = renew(&root, "cluster.local", later).unwrap();
        check(&renewed, &made.anchors, later, "good");
        assert!(renew(&root, "cluster.local", NOW + ROOT_LIFE_SECONDS + 1).is_err());
        assert!(same(&root.certificate, &made.anchors));
        assert!(!same(&root.certificate, &other.anchors));
        assert!(!same("", ""));
        assert!(contains(&format!("{}{}", other.anchors, made.anchors), &made.anchors));
        assert!(!contains(&other.anchors, &made.anchors));
        assert_eq!(lives(&root.certificate)[0].not_after, NOW + ROOT_LIFE_SECONDS);
        assert!(!format!("{root:?}").contains("PRIVATE"));
    }

    #[test]
    fn an_issuer_with_little_life_left_is_worth_a_warning() {
        const HOUR: u64 = 60 * 60;
        let check = |life: u64, left: u64, external: bool, expected: bool| {
            let (not_before, not_after) = (NOW + left - life, NOW + left);
            let soon = expires_soon(Validity { not_before, not_after }, NOW, external);
            assert_eq!(
                soon,
                expected.then_some(left),
                "{left} s of {life} s, external: {external}"
            );
        };
        let year = ISSUER_LIFE_SECONDS;
        check(year, year, false, false);
        check(year, 61 * DAY_SECONDS, false, false);
        check(year, 59 * DAY_SECONDS, false, true);
        check(90 * DAY_SECONDS, 31 * DAY_SECONDS, false, false);
        check(90 * DAY_SECONDS, 29 * DAY_SECONDS, false, true);
        // Made a moment ago, and over before anybody renews it.
        check(300, 300, false, true);
        check(2 * DAY_SECONDS, 2 * DAY_SECONDS, false, true);
        // linkerd's example for cert-manager: 48 hours, renewed 25 hours before the end.
        check(48 * HOUR, 25 * HOUR, true, false);
        check(48 * HOUR, 15 * HOUR, true, true);
        check(300, 300, true, true);
    }

    #[test]
    fn a_leaf_is_no_issuer() {
        let made = make("cluster.local", NOW).unwrap();
        let key = KeyPair::generate().unwrap();
        let signer_key = KeyPair::from_pem(&made.issuer.key).unwrap();
        let signer = Issuer::from_ca_cert_pem(&made.issuer.certificate, signer_key).unwrap();
        let mut leaf = CertificateParams::default();
        leaf.not_before = moment(NOW).unwrap();
        leaf.not_after = moment(NOW + 60).unwrap();
        leaf.is_ca = IsCa::ExplicitNoCa;
        let leaf = leaf.signed_by(&key, &signer).unwrap();
        let chain = format!("{}{}", leaf.pem(), made.issuer.certificate);
        let pair = Pair { certificate: chain, key: key.serialize_pem() };
        let verdict = verdict(&pair, &made.anchors, NOW + 1);
        assert!(verdict.contains("not a CA"), "{verdict}");
    }
}
