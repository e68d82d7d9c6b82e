//! Root and issuer: created on first start, loaded, renewed while running, or brought by the user.

use super::attest::Tokens;
use super::issue::{moment, positive};
use super::{Authority, issue};
use crate::world::pod::identity;
use crate::world::{CONTROL_ACCOUNT, MeshNames};
use anyhow::{Context, Result, bail, ensure};
use leno_runtime::file::{create_durably, write_durably};
use leno_tls::{Anchors, Credential, validity};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;
/// The root lives ten years.
pub const ROOT_LIFE_SECONDS: u64 = 10 * 365 * DAY;
/// An issuer lives a year and is renewed at two thirds of it.
pub const ISSUER_LIFE_SECONDS: u64 = 365 * DAY;
/// An issuer that a user brings must live at least this long.
pub const ISSUER_REMAINING_SECONDS_MIN: u64 = 60 * 60;
const CLOCK_SKEW_SECONDS: u64 = 60;

const ROOT_FILE: &str = "root.pem";
const ISSUER_FILE: &str = "issuer.pem";
const TOKEN_KEY_FILE: &str = "token-key.pem";
const ANCHORS_FILE: &str = "trust-anchors.pem";

/// The state directory: 0700, keys in it 0600.
#[derive(Clone, Debug)]
pub struct State(PathBuf);

/// Where a user's own issuer is.
#[derive(Clone, Debug)]
pub struct Brought {
    /// PEM: the issuer's certificate, then any between it and the root.
    pub certificate: PathBuf,
    /// PEM, PKCS #8.
    pub key: PathBuf,
    /// PEM bundle.
    pub anchors: PathBuf,
}

impl State {
    /// Opens or creates the directory.
    ///
    /// # Errors
    /// It cannot be created or is not a directory.
    pub fn open(path: &Path) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.with_context(|| format!("state directory {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Tokens with the key in the directory, made on first use.
    ///
    /// # Errors
    /// The key cannot be read or made.
    pub fn tokens(&self) -> Result<Tokens> {
        let pem =
            self.read_or_create(TOKEN_KEY_FILE, || Ok(KeyPair::generate()?.serialize_pem()))?;
        let key = KeyPair::from_pem(&pem).with_context(|| self.show(TOKEN_KEY_FILE))?;
        Tokens::new(&key).map_err(anyhow::Error::msg)
    }

    /// Our own root and issuer; made on first use, the issuer again when two thirds of its life are over.
    ///
    /// # Errors
    /// What is on disk is unusable. It is never replaced then: a new root would shut every proxy out.
    pub fn authority(&self, names: &MeshNames, now: u64) -> Result<Authority> {
        let domain = &names.trust_domain;
        let root = self.read_or_create(ROOT_FILE, || new_root(domain, now))?;
        let root = Link::read(&root).with_context(|| self.show(ROOT_FILE))?;
        ensure!(now <= root.validity.not_after, "{}: the root has expired", self.show(ROOT_FILE));
        let anchors_pem = root.certificate_pem.clone();
        self.replace(ANCHORS_FILE, 0o644, &anchors_pem)?;
        let root_der = root.certificate.clone();
        let issuer = root.issuer()?;
        let new = || new_issuer(&issuer, root.validity, domain, now);
        let mut pem = self.read_or_create(ISSUER_FILE, new)?;
        let link = Link::read(&pem).with_context(|| self.show(ISSUER_FILE))?;
        if now >= renewal_at(link.validity) {
            pem = new()?;
            self.replace(ISSUER_FILE, 0o600, &pem)?;
        }
        let link = Link::read(&pem).with_context(|| self.show(ISSUER_FILE))?;
        Authority::checked(link, Vec::new(), vec![root_der], anchors_pem, names, now)
            .with_context(|| self.show(ISSUER_FILE))
    }

    /// The user's issuer, checked; the roots are written where proxies look for them.
    ///
    /// # Errors
    /// The key does not match, the chain leads to no given root, it is not a CA, or it is about to expire.
    pub fn brought(&self, from: &Brought, names: &MeshNames, now: u64) -> Result<Authority> {
        let read =
            |path: &Path| fs::read_to_string(path).with_context(|| path.display().to_string());
        let (certificates, key) = (read(&from.certificate)?, read(&from.key)?);
        let anchors_pem = read(&from.anchors)?;
        let chain = certificates_of(&certificates)
            .with_context(|| from.certificate.display().to_string())?;
        let roots =
            certificates_of(&anchors_pem).with_context(|| from.anchors.display().to_string())?;
        let key = KeyPair::from_pem(&key).with_context(|| from.key.display().to_string())?;
        let (first, rest) = chain.split_first().context("no certificate")?;
        let link = Link::new(first.clone(), key)?;
        let left = link.validity.not_after.saturating_sub(now);
        ensure!(
            left >= ISSUER_REMAINING_SECONDS_MIN,
            "{}: the issuer expires in {left} seconds; at least {ISSUER_REMAINING_SECONDS_MIN} are required",
            from.certificate.display()
        );
        let authority = Authority::checked(link, rest.to_vec(), roots, anchors_pem, names, now)
            .with_context(|| from.certificate.display().to_string())?;
        self.replace(ANCHORS_FILE, 0o644, &authority.anchors_pem)?;
        Ok(authority)
    }

    fn show(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    /// What the file says; made by `new` where there is none. Of two processes that make it at once, one wins for both.
    fn read_or_create(&self, file: &str, new: impl Fn() -> Result<String>) -> Result<String> {
        let path = self.0.join(file);
        for _ in 0..2 {
            match fs::read_to_string(&path) {
                Ok(text) => return Ok(text),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).context(self.show(file)),
            }
            match create_durably(&path, new()?.as_bytes(), 0o600) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(error).context(self.show(file));
                }
                _ => {}
            }
        }
        bail!("{} changes while it is read", self.show(file))
    }

    fn replace(&self, file: &str, mode: u32, text: &str) -> Result<()> {
        if fs::read_to_string(self.0.join(file)).is_ok_and(|before| before == text) {
            return Ok(());
        }
        write_durably(&self.0.join(file), text.as_bytes(), mode).with_context(|| self.show(file))
    }
}

/// When a certificate is due for renewal: two thirds of its life.
#[must_use]
pub fn renewal_at(validity: validity::Validity) -> u64 {
    validity.not_before + (validity.not_after - validity.not_before) / 3 * 2
}

/// A certificate with its key.
pub(super) struct Link {
    key: KeyPair,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    pub(super) validity: validity::Validity,
}

impl Link {
    pub(super) fn new(certificate: CertificateDer<'static>, key: KeyPair) -> Result<Self> {
        let validity = validity::read(&certificate).context("the certificate cannot be read")?;
        Ok(Self { key, certificate, certificate_pem: String::new(), validity })
    }

    /// One file with key and certificate, so that the two can never be of different moments.
    fn read(pem: &str) -> Result<Self> {
        let certificate =
            CertificateDer::from_pem_slice(pem.as_bytes()).context("no certificate")?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).context("no key")?;
        let key = KeyPair::try_from(key.secret_pkcs8_der()).context("the key cannot be read")?;
        let mut link = Self::new(certificate, key)?;
        let begin = pem.find("-----BEGIN CERTIFICATE-----").context("no certificate")?;
        link.certificate_pem = pem[begin..].to_owned();
        Ok(link)
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>> {
        let key = KeyPair::try_from(self.key.serialized_der()).context("the key cannot be read")?;
        Issuer::from_ca_cert_der(&self.certificate, key).context("the certificate cannot be read")
    }
}

impl Authority {
    /// Signs our own leaf to see that peers will accept what the issuer signs: key, chain, CA flag and life.
    pub(super) fn checked(
        link: Link,
        intermediates: Vec<CertificateDer<'static>>,
        roots: Vec<CertificateDer<'static>>,
        anchors_pem: String,
        names: &MeshNames,
        now: u64,
    ) -> Result<Self> {
        let authority = Self {
            issuer: link.issuer()?,
            validity: link.validity,
            chain: std::iter::once(link.certificate).chain(intermediates).collect(),
            anchors: Anchors::from_der(roots, &names.trust_domain)?,
            anchors_pem,
        };
        let trial = authority.own_credential(names, now, Duration::from_secs(60));
        trial.context("peers would reject certificates of this issuer")?;
        Ok(authority)
    }

    /// The control plane's own credential, with a key that is never written.
    ///
    /// # Errors
    /// The issuer cannot sign it, or peers would refuse it.
    pub fn own_credential(
        &self,
        names: &MeshNames,
        now: u64,
        life: Duration,
    ) -> Result<Credential> {
        let who = identity(names, &names.control_namespace, CONTROL_ACCOUNT)
            .map_err(anyhow::Error::msg)?;
        let key = KeyPair::generate()?;
        let issued = issue::sign(self, &who, &key, now, life, random_serial()?)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        Ok(Credential::from_parts(key, issued.leaf, issued.intermediates, &self.anchors, now)?)
    }
}

/// A serial number that nobody can guess.
///
/// # Errors
/// The system has no randomness.
pub fn random_serial() -> Result<[u8; 16]> {
    let mut serial = [0; 16];
    let filled = leno_tls::provider().secure_random.fill(&mut serial);
    filled.map_err(|_| anyhow::anyhow!("the system's random number generator failed"))?;
    Ok(positive(serial))
}

pub(crate) fn certificates_of(pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.context("not PEM")?;
    ensure!(!certificates.is_empty(), "no certificate");
    Ok(certificates)
}

fn ca_params(
    name: String,
    constraint: u8,
    not_before: u64,
    not_after: u64,
) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(constraint));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = moment(not_before)?;
    params.not_after = moment(not_after)?;
    params.serial_number = Some(SerialNumber::from_slice(&random_serial()?));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn new_root(trust_domain: &str, now: u64) -> Result<String> {
    let begin = now.saturating_sub(CLOCK_SKEW_SECONDS);
    let params = ca_params(format!("root.leno.{trust_domain}"), 1, begin, now + ROOT_LIFE_SECONDS)?;
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    Ok(format!("{}{}", root.key().serialize_pem(), root.pem()))
}

fn new_issuer(
    root: &Issuer<'static, KeyPair>,
    root_validity: validity::Validity,
    trust_domain: &str,
    now: u64,
) -> Result<String> {
    let begin = now.saturating_sub(CLOCK_SKEW_SECONDS).max(root_validity.not_before);
    let end = (now + ISSUER_LIFE_SECONDS).min(root_validity.not_after);
    let key = KeyPair::generate()?;
    let params = ca_params(format!("identity.leno.{trust_domain}"), 0, begin, end)?;
    let certificate = params.signed_by(&key, root)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}
