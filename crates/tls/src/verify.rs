//! A peer's certificate to its verified name, or the reason why not.
//!
//! The chain must end at one of our roots now, for this side of TLS; the certificate must name exactly one identity,
//! of our trust domain; and where a certain peer is expected, it must be that one. Wildcards never match.

use crate::anchors::Anchors;
use crate::hello;
use crate::provider;
use crate::refused::Refused;
use leno_model::name::{DnsName, PeerName, SpiffeId};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

/// A peer's chain longer than this is refused before a signature is looked at.
pub const INTERMEDIATES_MAX: usize = 8;
/// How many names of a certificate an error shows.
const NAMES_SHOWN_MAX: usize = 4;

/// Which side of TLS the certificate speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The peer is the server.
    Server,
    /// The peer is the client.
    Client,
}

/// Verifies a chain and answers whose it is.
///
/// # Errors
/// The first misdeed found.
pub fn chain(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    anchors: &Anchors,
    side: Side,
    now: UnixTime,
) -> Result<PeerName, Refused> {
    if intermediates.len() > INTERMEDIATES_MAX {
        return Err(Refused::Constraint);
    }
    let certificate = EndEntityCert::try_from(leaf).map_err(|error| refused(&error))?;
    let usage = match side {
        Side::Server => KeyUsage::server_auth(),
        Side::Client => KeyUsage::client_auth(),
    };
    certificate
        .verify_for_usage(
            algorithms().all,
            &anchors.roots.roots,
            intermediates,
            now,
            usage,
            None,
            None,
        )
        .map_err(|error| refused(&error))?;
    let name = name_of(&certificate)?;
    let expected = anchors.trust_domain();
    let is_of_us = match &name {
        PeerName::Spiffe(id) => id.trust_domain() == expected,
        // With a root that issues for others too, any certificate for a web server has such a name.
        PeerName::Dns(dns) => {
            let mesh = dns.as_str().strip_suffix(expected);
            hello::is_identity(dns) && mesh.is_some_and(|mesh| mesh.ends_with('.'))
        }
    };
    if !is_of_us {
        return Err(Refused::ForeignTrustDomain {
            expected: expected.to_owned(),
            presented: name.as_str().to_owned(),
        });
    }
    Ok(name)
}

/// Verifies a chain for a client outside of the mesh, which knows a server by its DNS name or IP address.
pub(crate) fn for_name(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    name: &str,
    now: UnixTime,
) -> Result<(), Refused> {
    let certificate = EndEntityCert::try_from(leaf).map_err(|error| refused(&error))?;
    let usage = KeyUsage::server_auth();
    certificate
        .verify_for_usage(algorithms().all, &roots.roots, intermediates, now, usage, None, None)
        .map_err(|error| refused(&error))?;
    let name = ServerName::try_from(name).map_err(|_| Refused::NoIdentity)?;
    certificate
        .verify_is_valid_for_subject_name(&name)
        .map_err(|error| Refused::Handshake(error.to_string()))
}

/// The name in a certificate that was verified before: its SPIFFE ID, or its first DNS name if it has no URI at all.
///
/// # Errors
/// It names nobody, or more than one.
pub fn name(leaf: &CertificateDer<'_>) -> Result<PeerName, Refused> {
    name_of(&EndEntityCert::try_from(leaf).map_err(|error| refused(&error))?)
}

/// The DNS names of a certificate that was verified before.
#[must_use]
pub fn dns_names(leaf: &CertificateDer<'_>) -> Vec<DnsName> {
    EndEntityCert::try_from(leaf).map_or_else(
        |_| Vec::new(),
        |certificate| {
            certificate.valid_dns_names().filter_map(|name| DnsName::parse(name).ok()).collect()
        },
    )
}

fn name_of(certificate: &EndEntityCert<'_>) -> Result<PeerName, Refused> {
    let mut uris = certificate.valid_uri_names();
    match (uris.next(), uris.next()) {
        (Some(uri), None) => {
            SpiffeId::parse(uri).map(PeerName::Spiffe).map_err(|_| Refused::NoIdentity)
        }
        (Some(_), Some(_)) => Err(Refused::ManyIdentities),
        (None, _) => certificate
            .valid_dns_names()
            .find_map(|name| DnsName::parse(name).ok())
            .map(PeerName::Dns)
            .ok_or(Refused::NoIdentity),
    }
}

/// Whether a verified certificate is the expected peer's.
fn is(leaf: &CertificateDer<'_>, verified: &PeerName, expected: &PeerName) -> Result<(), Refused> {
    let certificate = EndEntityCert::try_from(leaf).map_err(|error| refused(&error))?;
    let same = match expected {
        PeerName::Spiffe(_) => verified == expected,
        PeerName::Dns(expected) => certificate
            .valid_dns_names()
            .any(|presented| presented.eq_ignore_ascii_case(expected.as_str())),
    };
    if same {
        return Ok(());
    }
    let presented: Vec<&str> = certificate
        .valid_uri_names()
        .chain(certificate.valid_dns_names())
        .take(NAMES_SHOWN_MAX)
        .collect();
    Err(Refused::WrongName { expected: expected.clone(), presented: presented.join(", ") })
}

fn refused(error: &webpki::Error) -> Refused {
    use webpki::Error as E;
    match error {
        E::UnknownIssuer => Refused::UnknownIssuer,
        E::CertExpired { time, not_after } => {
            Refused::Expired { not_after: not_after.as_secs(), now: time.as_secs() }
        }
        E::CertNotValidYet { time, not_before } => {
            Refused::NotYetValid { not_before: not_before.as_secs(), now: time.as_secs() }
        }
        E::InvalidSignatureForPublicKey => Refused::BadSignature,
        E::RequiredEkuNotFoundContext(_) | E::EmptyEkuExtension => Refused::UnsuitableKeyUsage,
        E::EndEntityUsedAsCa => Refused::IssuerNotAuthority,
        E::CaUsedAsEndEntity => Refused::AuthorityAsPeer,
        E::NameConstraintViolation
        | E::PathLenConstraintViolated
        | E::MaximumPathDepthExceeded
        | E::MaximumPathBuildCallsExceeded
        | E::MaximumSignatureChecksExceeded
        | E::MaximumNameConstraintComparisonsExceeded => Refused::Constraint,
        E::UnsupportedSignatureAlgorithmContext(_)
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => Refused::Algorithm,
        _ => Refused::Malformed,
    }
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    provider().signature_verification_algorithms
}

/// The part that both verifiers share: signatures of TLS 1.3 alone, by our algorithms. TLS 1.2 is refused with this error.
macro_rules! signatures_of_tls13 {
    ($tls12:expr) => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err($tls12.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signed, &algorithms())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            algorithms().supported_schemes()
        }
    };
}

/// rustls asks this about servers: it must be `expected`.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) anchors: Anchors,
    pub(crate) expected: PeerName,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>, // Only asks; `expected` decides.
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = chain(leaf, intermediates, &self.anchors, Side::Server, now)?;
        is(leaf, &verified, &self.expected)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures_of_tls13!(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig);
}

/// rustls asks this about clients: any member of the mesh, and policy decides the rest.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    pub(crate) anchors: Anchors,
    pub(crate) mandatory: bool,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    /// None: every client has one certificate and presents it, and the names of roots would be bytes per handshake.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        chain(leaf, intermediates, &self.anchors, Side::Client, now)?;
        Ok(ClientCertVerified::assertion())
    }

    signatures_of_tls13!(PeerIncompatible::Tls12NotOffered);
}
