//! A certificate authority of the test's own, for good certificates and for bad ones.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use time::{Duration, OffsetDateTime};

/// What a certificate says. Good by default; each test makes one thing bad.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// DNS names.
    pub dns: Vec<String>,
    /// URIs, where a SPIFFE ID belongs.
    pub uris: Vec<String>,
    /// Mail addresses, where nothing of ours belongs.
    pub mails: Vec<String>,
    /// Valid from now on plus this.
    pub from: Duration,
    /// Valid until now plus this.
    pub until: Duration,
    /// What it may be used for.
    pub usages: Vec<ExtendedKeyUsagePurpose>,
}

impl Leaf {
    /// A certificate for a DNS name, valid for an hour.
    pub fn dns(name: &str) -> Self {
        Self {
            dns: vec![name.to_owned()],
            uris: Vec::new(),
            mails: Vec::new(),
            from: Duration::minutes(-5),
            until: Duration::hours(1),
            usages: vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// The certificate of a service account in the mesh: both of its names.
    pub fn workload(service_account: &str) -> Self {
        let uris = vec![format!("spiffe://cluster.local/ns/default/sa/{service_account}")];
        Self { uris, ..Self::dns(&dns_of(service_account)) }
    }
}

/// The DNS-like name of a service account's identity.
pub fn dns_of(service_account: &str) -> String {
    format!("{service_account}.default.serviceaccount.identity.leno.cluster.local")
}

/// A root that signs leaves itself.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// An issuer below a root that somebody else made, as certificate and key in PEM; it lives until then from now, which may be past.
///
/// # Errors
/// When root or key cannot be read.
pub fn issuer_below(
    root: &str,
    root_key: &str,
    until: Duration,
) -> anyhow::Result<(String, String)> {
    let root = Issuer::from_ca_cert_pem(root, KeyPair::from_pem(root_key)?)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "issuer of a test");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = OffsetDateTime::now_utc() - Duration::days(30);
    params.not_after = OffsetDateTime::now_utc() + until;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &root)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Issued {
    /// The leaf alone: the root is what the other side must know.
    pub chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

impl Authority {
    /// A new root.
    ///
    /// # Panics
    /// Never: keys and certificates of this form can always be made.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = OffsetDateTime::now_utc() - Duration::days(30);
        params.not_after = OffsetDateTime::now_utc() + Duration::days(30);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a root") }
    }

    /// Signs a leaf.
    ///
    /// # Panics
    /// When a name in it is not ASCII.
    pub fn issue(&self, leaf: &Leaf) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(leaf).signed_by(&key, &self.issuer).expect("a certificate");
        Issued { chain: vec![certificate.der().clone()], key }
    }

    /// The root in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The root's key in PEM.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a root");
        roots
    }

    /// A client that trusts this root and shows no certificate.
    pub fn client_config(&self) -> ClientConfig {
        ClientConfig::builder().with_root_certificates(self.roots()).with_no_client_auth()
    }

    /// A client that trusts this root and shows a certificate.
    ///
    /// # Panics
    /// When key and certificate do not belong together.
    pub fn client_config_with(&self, issued: Issued) -> ClientConfig {
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        let key = PrivateKeyDer::Pkcs8(issued.key.serialize_der().into());
        builder.with_client_auth_cert(issued.chain, key).expect("a key that fits")
    }
}

impl Issued {
    /// A certificate that nobody signed but its own key.
    ///
    /// # Panics
    /// When a name in it is not ASCII.
    pub fn self_signed(leaf: &Leaf) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(leaf).self_signed(&key).expect("a certificate");
        Self { chain: vec![certificate.der().clone()], key }
    }

    /// The same certificate with one bit of its signature changed.
    #[must_use]
    pub fn tampered(mut self) -> Self {
        let mut bytes = self.chain[0].to_vec();
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        self.chain[0] = bytes.into();
        self
    }

    /// The certificate in PEM.
    pub fn pem(&self) -> String {
        let base64 = encode(&self.chain[0]);
        let lines: Vec<&str> = base64
            .as_bytes()
            .chunks(64)
            .filter_map(|line| std::str::from_utf8(line).ok())
            .collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }

    /// Its key in PEM.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// A server that shows this certificate and asks for none.
    ///
    /// # Panics
    /// When key and certificate do not belong together.
    pub fn server_config(&self) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let chain = self.chain.clone();
        let builder = ServerConfig::builder().with_no_client_auth();
        builder.with_single_cert(chain, key).expect("a key that fits")
    }
}

fn params(leaf: &Leaf) -> CertificateParams {
    let mut params = CertificateParams::default();
    let ascii = |text: &String| text.as_str().try_into().expect("ASCII");
    let dns = leaf.dns.iter().map(|name| SanType::DnsName(ascii(name)));
    let uris = leaf.uris.iter().map(|uri| SanType::URI(ascii(uri)));
    let mails = leaf.mails.iter().map(|mail| SanType::Rfc822Name(ascii(mail)));
    params.subject_alt_names = dns.chain(uris).chain(mails).collect();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = leaf.usages.clone();
    params.not_before = OffsetDateTime::now_utc() + leaf.from;
    params.not_after = OffsetDateTime::now_utc() + leaf.until;
    params
}

/// Base64, RFC 4648 §4: PEM is the only place here that needs it.
fn encode(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let bits = a << 16 | b << 8 | c;
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}
