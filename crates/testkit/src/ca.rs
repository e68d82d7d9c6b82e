//! A certificate authority for tests: root, intermediate, leaves; and every kind of bad certificate.

use leno_model::name::{DnsName, SpiffeId};
use leno_model::workload::PeerIdentity;
use leno_tls::{Anchors, Credential, Credentials, server};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// Its life ended a minute ago.
    Expired,
    /// Its life begins in an hour.
    NotYetValid,
    /// The intermediate expired, the leaf did not.
    IssuerExpired,
    /// It names nobody.
    NoName,
    /// Two URI SANs.
    TwoUris,
    /// One URI SAN, which is not a SPIFFE ID.
    NotSpiffe,
    /// A SPIFFE ID of another trust domain, signed by our CA.
    ForeignTrustDomain,
    /// Only a DNS name; not a flaw among linkerd's proxies.
    DnsOnly,
    /// Issued by a CA that nobody trusts.
    OtherRoot,
    /// Issued by a CA with the names of ours and other keys.
    ImpostorRoot,
    /// Signed by its own key.
    SelfSigned,
    /// Extended key usage is code signing.
    WrongUsage,
    /// Signed by a certificate that is not a CA's.
    IssuerNotAuthority,
    /// It is a CA's certificate.
    AuthorityAsPeer,
    /// Two CAs in a row where the first allows none below it.
    PathTooLong,
    /// A byte of its signature is changed.
    TamperedSignature,
    /// A letter of its name is changed after signing.
    TamperedName,
    /// The intermediate is not sent along.
    MissingIntermediate,
    /// The certificate is somebody else's: the key does not belong to it.
    OtherKey,
    /// Bytes that are no certificate.
    Garbage,
}

impl Flaw {
    /// All that peers must refuse.
    pub const BAD: [Self; 19] = [
        Self::Expired,
        Self::NotYetValid,
        Self::IssuerExpired,
        Self::NoName,
        Self::TwoUris,
        Self::NotSpiffe,
        Self::ForeignTrustDomain,
        Self::OtherRoot,
        Self::ImpostorRoot,
        Self::SelfSigned,
        Self::WrongUsage,
        Self::IssuerNotAuthority,
        Self::AuthorityAsPeer,
        Self::PathTooLong,
        Self::TamperedSignature,
        Self::TamperedName,
        Self::MissingIntermediate,
        Self::OtherKey,
        Self::Garbage,
    ];
}

/// Key and chain, unchecked.
#[derive(Debug)]
pub struct Parts {
    pub key: PrivateKeyDer<'static>,
    /// Leaf first.
    pub chain: Vec<CertificateDer<'static>>,
}

impl Clone for Parts {
    fn clone(&self) -> Self {
        Self { key: self.key.clone_key(), chain: self.chain.clone() }
    }
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A certificate authority whose root and intermediate live for a day around now.
#[derive(Debug)]
pub struct TestCa {
    trust_domain: String,
    root: Issuer,
    intermediate: Issuer,
}

const HOUR: Duration = Duration::from_secs(3600);

impl TestCa {
    /// A new root and intermediate.
    #[must_use]
    pub fn new(trust_domain: &str) -> Self {
        let root = CertifiedIssuer::self_signed(authority("root", None), key()).expect("root");
        let intermediate = CertifiedIssuer::signed_by(authority("issuer", Some(0)), key(), &root)
            .expect("intermediate");
        Self { trust_domain: trust_domain.to_owned(), root, intermediate }
    }

    /// The root, as others trust it.
    #[must_use]
    pub fn anchors(&self) -> Anchors {
        Anchors::from_der([self.root.der().clone()], &self.trust_domain).expect("anchors")
    }

    /// The root, as a file says it.
    #[must_use]
    pub fn anchors_pem(&self) -> String {
        self.root.pem()
    }

    /// The SPIFFE ID of a service account in namespace `default`.
    #[must_use]
    pub fn identity(&self, account: &str) -> SpiffeId {
        SpiffeId::service_account(&self.trust_domain, "default", account).expect("identity")
    }

    /// Whom to expect when that service account is reached.
    #[must_use]
    pub fn peer(&self, account: &str) -> PeerIdentity {
        let id = self.identity(account);
        let server_name = id.to_dns_like("leno").expect("DNS-like name");
        PeerIdentity { name: leno_model::name::PeerName::Spiffe(id), server_name }
    }

    /// Key and chain of a service account, good for an hour.
    #[must_use]
    pub fn issue(&self, account: &str) -> Parts {
        self.issue_flawed(account, Flaw::None)
    }

    /// A checked credential, good for an hour.
    #[must_use]
    pub fn credential(&self, account: &str) -> Credential {
        let mut parts = self.issue(account);
        let leaf = parts.chain.remove(0);
        Credential::from_parts(parts.key, leaf, parts.chain, &self.anchors(), UnixTime::now())
            .expect("credential")
    }

    /// All that TLS needs, on the terms of the data path.
    #[must_use]
    pub fn credentials(&self, account: &str) -> Arc<Credentials> {
        Credentials::new(self.credential(account), self.anchors(), server::MESH)
    }

    /// Answers a certificate request with leaf and intermediate, for this long.
    #[must_use]
    pub fn sign(&self, request: &[u8], lifetime: Duration) -> Vec<CertificateDer<'static>> {
        self.sign_named(request, lifetime, |asked| asked)
    }

    /// As [`TestCa::sign`], but in the name of this service account, whatever was asked for.
    #[must_use]
    pub fn sign_as(
        &self,
        account: &str,
        request: &[u8],
        lifetime: Duration,
    ) -> Vec<CertificateDer<'static>> {
        let id = self.identity(account);
        let dns = id.to_dns_like("leno").expect("DNS-like name");
        self.sign_named(request, lifetime, |_| names(&id, &dns, Flaw::None))
    }

    fn sign_named(
        &self,
        request: &[u8],
        lifetime: Duration,
        name: impl FnOnce(Vec<SanType>) -> Vec<SanType>,
    ) -> Vec<CertificateDer<'static>> {
        let mut asked =
            CertificateSigningRequestParams::from_der(&request.to_vec().into()).expect("request");
        let now = OffsetDateTime::now_utc();
        asked.params = leaf(name(std::mem::take(&mut asked.params.subject_alt_names)));
        asked.params.not_before = now - Duration::from_secs(20);
        asked.params.not_after = now + lifetime;
        let leaf = asked.signed_by(&self.intermediate).expect("leaf");
        vec![leaf.der().clone(), self.intermediate.der().clone()]
    }

    /// Key and chain of a service account, with something wrong.
    #[must_use]
    pub fn issue_flawed(&self, account: &str, flaw: Flaw) -> Parts {
        let id = self.identity(account);
        let dns = id.to_dns_like("leno").expect("DNS-like name");
        let mut asked = leaf(names(&id, &dns, flaw));
        let now = OffsetDateTime::now_utc();
        match flaw {
            Flaw::Expired => asked.not_after = now - Duration::from_secs(60),
            Flaw::NotYetValid => asked.not_before = now + HOUR,
            Flaw::WrongUsage => {
                asked.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
            }
            Flaw::AuthorityAsPeer => {
                asked.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                asked.key_usages.push(KeyUsagePurpose::KeyCertSign);
            }
            _ => {}
        }
        let own = key();
        let key = PrivatePkcs8KeyDer::from(own.serialize_der()).into();
        if flaw == Flaw::SelfSigned {
            let leaf = asked.self_signed(&own).expect("leaf");
            return Parts { key, chain: vec![leaf.der().clone()] };
        }
        let other;
        let issuer = match self.other_issuer(flaw) {
            Some(made) => {
                other = made;
                &other
            }
            None => &self.intermediate,
        };
        let signed = asked.signed_by(&own, issuer).expect("leaf");
        let mut chain = vec![tampered(signed.der(), account, flaw), issuer.der().clone()];
        let mut parts_key: PrivateKeyDer<'static> = key;
        match flaw {
            Flaw::PathTooLong => chain.push(self.intermediate.der().clone()),
            Flaw::MissingIntermediate => chain.truncate(1),
            Flaw::OtherKey => {
                parts_key = PrivatePkcs8KeyDer::from(self::key().serialize_der()).into()
            }
            _ => {}
        }
        Parts { key: parts_key, chain }
    }

    /// The issuer, where the flaw is there.
    fn other_issuer(&self, flaw: Flaw) -> Option<Issuer> {
        let now = OffsetDateTime::now_utc();
        let made = match flaw {
            Flaw::OtherRoot => CertifiedIssuer::self_signed(authority("stranger", None), key()),
            Flaw::ImpostorRoot => {
                let root = CertifiedIssuer::self_signed(authority("root", None), key()).ok()?;
                CertifiedIssuer::signed_by(authority("issuer", Some(0)), key(), &root)
            }
            Flaw::IssuerExpired => {
                let mut params = authority("old issuer", Some(0));
                params.not_after = now - Duration::from_secs(60);
                CertifiedIssuer::signed_by(params, key(), &self.root)
            }
            Flaw::IssuerNotAuthority => {
                let mut params = authority("not an issuer", None);
                params.is_ca = IsCa::ExplicitNoCa;
                CertifiedIssuer::signed_by(params, key(), &self.root)
            }
            Flaw::PathTooLong => {
                CertifiedIssuer::signed_by(authority("below", None), key(), &self.intermediate)
            }
            _ => return None,
        };
        Some(made.expect("issuer"))
    }
}

fn key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("key")
}

fn authority(name: &str, path_length: Option<u8>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(
        path_length.map_or(BasicConstraints::Unconstrained, BasicConstraints::Constrained),
    );
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = OffsetDateTime::now_utc() - 24 * HOUR;
    params.not_after = OffsetDateTime::now_utc() + 24 * HOUR;
    params
}

fn leaf(names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = names;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = OffsetDateTime::now_utc() - HOUR;
    params.not_after = OffsetDateTime::now_utc() + HOUR;
    params
}

fn names(id: &SpiffeId, dns: &DnsName, flaw: Flaw) -> Vec<SanType> {
    let uri = |text: &str| SanType::URI(text.try_into().expect("URI"));
    let dns = SanType::DnsName(dns.as_str().try_into().expect("DNS name"));
    let own = uri(id.as_str());
    match flaw {
        Flaw::NoName => Vec::new(),
        Flaw::DnsOnly => vec![dns],
        Flaw::TwoUris => vec![own, uri("spiffe://cluster.local/ns/default/sa/second"), dns],
        Flaw::NotSpiffe => vec![uri("https://cluster.local/ns/default/sa/web"), dns],
        Flaw::ForeignTrustDomain => vec![uri("spiffe://elsewhere/ns/default/sa/web"), dns],
        _ => vec![own, dns],
    }
}

fn tampered(leaf: &CertificateDer<'static>, account: &str, flaw: Flaw) -> CertificateDer<'static> {
    let mut bytes = leaf.to_vec();
    match flaw {
        // The last byte belongs to the second number of the ECDSA signature.
        Flaw::TamperedSignature => *bytes.last_mut().expect("a certificate has bytes") ^= 1,
        Flaw::TamperedName => {
            let name = format!("/sa/{account}");
            let at = bytes.windows(name.len()).position(|window| window == name.as_bytes());
            bytes[at.expect("the URI is in the certificate") + name.len() - 1] ^= 1;
        }
        Flaw::Garbage => bytes = vec![0x30, 0x03, 0x02, 0x01, 0x2a],
        _ => {}
    }
    bytes.into()
}
