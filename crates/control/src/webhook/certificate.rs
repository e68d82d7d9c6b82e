//! The webhook's own CA and certificate, and the Secret that holds them; pure.
//!
//! A CA signs one certificate and its key is forgotten, so a renewal is a new CA: nobody can sign another one, and there is one life to look
//! after instead of two. The Secret's `ca.crt` holds the CAs that clients trust, the newest first: the one of `tls.crt`, and
//! the one before it until it expires.

use crate::ca::issue::moment;
use crate::ca::root::{certificates_of, random_serial, renewal_at};
use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leno_runtime::hex;
use leno_tls::{Serving, validity};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::time::Duration;

pub const SECRET: &str = "leno-injector-tls";
/// The Service in front of the webhook.
pub const SERVICE: &str = "leno-injector";
/// CA and certificate live so long; they are renewed at two thirds of it.
pub const LIFE_SECONDS: u64 = 90 * 24 * 60 * 60;
/// CAs that are trusted at once: the current one and the one before it.
const AUTHORITIES_MAX: usize = 2;
const CLOCK_SKEW_SECONDS: u64 = 60;

/// The name by which the API server asks for the webhook.
#[must_use]
pub fn server_name(namespace: &str) -> String {
    format!("{SERVICE}.{namespace}.svc")
}

/// A new CA's certificate, and what it signed.
#[derive(Clone)]
pub struct Made {
    authority: String,
    certificate: String,
    key: String,
}

impl Made {
    /// With new keys.
    ///
    /// # Errors
    /// The random number generator fails, or `now` is not a valid time.
    pub fn new(name: &str, now: u64) -> Result<Self> {
        let params = |common: String| -> Result<CertificateParams> {
            let mut params = CertificateParams::default();
            params.not_before = moment(now.saturating_sub(CLOCK_SKEW_SECONDS))?;
            params.not_after = moment(now + LIFE_SECONDS)?;
            params.serial_number = Some(SerialNumber::from_slice(&random_serial()?));
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, common);
            Ok(params)
        };
        // A name of its own, so that two CAs in one bundle are never taken for each other.
        let number = hex::lower(&random_serial()?[..4]);
        let mut authority = params(format!("leno-injector-ca-{number}"))?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut leaf = params(name.to_owned())?;
        leaf.subject_alt_names = vec![rcgen::SanType::DnsName(name.try_into()?)];
        leaf.is_ca = IsCa::ExplicitNoCa;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &authority)?.pem();
        Ok(Self { authority: authority.pem(), certificate, key: key.serialize_pem() })
    }

    /// The CAs that clients trust from now on: the new one, and of those before it the newest that lives.
    #[must_use]
    pub fn bundle(&self, before: &str, now: u64) -> String {
        let mut bundle = self.authority.clone();
        let before = format!("{}\n", before.replace('\r', ""));
        let old = pem_blocks(&before).filter(|block| {
            let validity = certificates_of(block).ok().and_then(|der| validity::read(&der[0]));
            validity.is_some_and(|validity| now <= validity.not_after)
                && block.trim() != self.authority.trim()
        });
        old.take(AUTHORITIES_MAX - 1).for_each(|block| bundle.push_str(block));
        bundle
    }

    /// What is applied as the Secret.
    #[must_use]
    pub fn secret(&self, namespace: &str, bundle: &str) -> Secret {
        let part = |key: &str, text: &str| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let labels = [
            label("app.kubernetes.io/name", "leno-control"),
            label("app.kubernetes.io/part-of", "leno"),
        ];
        let data = [
            part("ca.crt", bundle),
            part("tls.crt", &self.certificate),
            part("tls.key", &self.key),
        ];
        Secret {
            metadata: ObjectMeta {
                name: Some(SECRET.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(data.into()),
            ..Secret::default()
        }
    }
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made(…)") // The key is nobody's business.
    }
}

/// Each certificate of a bundle as its own text.
fn pem_blocks(bundle: &str) -> impl Iterator<Item = &str> {
    const END: &str = "-----END CERTIFICATE-----\n";
    bundle.split_inclusive(END).filter(|block| block.ends_with(END))
}

/// What a Secret gives.
#[derive(Clone, Debug)]
pub struct Read {
    pub serving: Serving,
    /// What clients trust: `ca.crt`.
    pub bundle: String,
    /// When it is renewed, Unix time.
    pub renewal_at: u64,
}

/// Reads the Secret, and checks that a client with its `ca.crt` accepts what it serves at `now`.
///
/// # Errors
/// What is wrong with it.
pub fn read(secret: &Secret, name: &str, now: u64) -> Result<Read> {
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        let bytes = bytes.with_context(|| format!("{key} is missing"))?;
        str::from_utf8(&bytes.0).with_context(|| format!("{key} is not PEM"))
    };
    let chain = certificates_of(text("tls.crt")?).context("tls.crt")?;
    let bundle = text("ca.crt")?;
    let roots = certificates_of(bundle).context("ca.crt")?;
    let key = PrivateKeyDer::from_pem_slice(text("tls.key")?.as_bytes());
    let key = key.map_err(|_| anyhow::anyhow!("tls.key: there is no private key in PEM"))?;
    let moment = UnixTime::since_unix_epoch(Duration::from_secs(now));
    let serving = Serving::new(chain, key, &roots, name, moment)?;
    let life = serving.validity();
    // A CA that ends before what it signed ends both.
    let ends = roots.iter().filter_map(|root| validity::read(root)).map(|root| root.not_after);
    ensure!(ends.max().is_some_and(|end| now <= end), "the CA has expired");
    Ok(Read { serving, bundle: bundle.to_owned(), renewal_at: renewal_at(life) })
}

/// The certificates of a bundle, to compare bundles by what they say.
#[must_use]
pub fn authorities(bundle: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "leno-injector.leno.svc";
    const NOW: u64 = 1_800_000_000;
    const DAY: u64 = 24 * 60 * 60;

    #[track_caller]
    fn check(secret: &Secret, name: &str, now: u64, expected: &str) {
        let shown = match read(secret, name, now) {
            Ok(read) => format!("good until {}", read.serving.validity().not_after - NOW),
            Err(error) => format!("{error:#}"),
        };
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
    }

    #[test]
    fn what_is_made_is_served() {
        let made = Made::new(NAME, NOW).unwrap();
        let secret = made.secret("leno", &made.bundle("", NOW));
        check(&secret, NAME, NOW, &format!("good until {}", 90 * DAY));
        check(&secret, NAME, NOW + 90 * DAY, "good until");
        check(&secret, NAME, NOW + 90 * DAY + 1, "expired");
        check(&secret, "leno-injector.other.svc", NOW, "would reject");
        let renewal = read(&secret, NAME, NOW).unwrap().renewal_at;
        assert!(renewal.abs_diff(NOW + 60 * DAY) < 120, "{renewal}");
        let with = |change: &dyn Fn(&mut Secret)| {
            let mut secret = secret.clone();
            change(&mut secret);
            secret
        };
        let put = |secret: &mut Secret, key: &str, text: &str| {
            let bytes = ByteString(text.as_bytes().to_vec());
            secret.data.as_mut().unwrap().insert(key.to_owned(), bytes);
        };
        let other = Made::new(NAME, NOW).unwrap();
        check(&with(&|s| put(s, "tls.key", &other.key)), NAME, NOW, "does not match");
        check(&with(&|s| put(s, "ca.crt", &other.authority)), NAME, NOW, "does not lead");
        check(&with(&|s| put(s, "tls.key", "x")), NAME, NOW, "tls.key: there is no private key");
        check(&with(&|s| put(s, "tls.crt", "x")), NAME, NOW, "tls.crt: no certificate");
        check(&with(&|s| put(s, "ca.crt", "")), NAME, NOW, "ca.crt: no certificate");
        check(&with(&|s| drop(s.data.take())), NAME, NOW, "tls.crt is missing");
        assert!(!format!("{made:?}").contains("KEY"));
    }

    #[test]
    fn a_renewal_trusts_the_one_before_until_it_expires() {
        let made: Vec<Made> = (0..3).map(|_| Made::new(NAME, NOW).unwrap()).collect();
        let first = made[0].bundle("", NOW);
        assert_eq!(first, made[0].authority);
        let second = made[1].bundle(&first, NOW);
        assert_eq!(second, format!("{}{}", made[1].authority, made[0].authority));
        // Two at most; written by others with other ends of lines; not itself again.
        assert_eq!(
            made[2].bundle(&second, NOW),
            format!("{}{}", made[2].authority, made[1].authority)
        );
        let windows = second.trim().replace('\n', "\r\n");
        assert_eq!(made[2].bundle(&windows, NOW).matches("BEGIN").count(), 2);
        assert_eq!(made[1].bundle(&second, NOW), second);
        assert_eq!(made[1].bundle(&first, NOW + 91 * DAY), made[1].authority);
        assert_eq!(made[1].bundle("garbage", NOW), made[1].authority);
    }
}
