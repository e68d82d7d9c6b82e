//! Every reason why a handshake fails: one word for metrics, one sentence for the operator.

use leno_model::name::{DnsName, PeerName, SpiffeId};
use rustls::{
    AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible,
};
use rustls_pki_types::UnixTime;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why a peer was refused, or refused us.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The chain does not end at one of our roots.
    #[error(
        "the peer's certificate does not lead to a trust anchor of this side; compare the trust anchors of both sides"
    )]
    UnknownIssuer,
    /// The certificate's life is over.
    #[error(
        "the peer's certificate expired at {not_after} (Unix time), and it is now {now}; check the peer's renewal and both clocks"
    )]
    Expired {
        /// Last second of its life, Unix time.
        not_after: u64,
        /// Our clock, Unix time.
        now: u64,
    },
    /// The certificate's life has not begun.
    #[error(
        "the peer's certificate is valid from {not_before} (Unix time), and it is now {now}; check both clocks"
    )]
    NotYetValid {
        /// First second of its life, Unix time.
        not_before: u64,
        /// Our clock, Unix time.
        now: u64,
    },
    /// The certificate is good, but of somebody else.
    #[error(
        "expected {expected}, but the peer is {presented}; discovery and the workload at that address disagree"
    )]
    WrongName {
        /// The expected name.
        expected: PeerName,
        /// The names in the certificate.
        presented: String,
    },
    /// The peer asks us for somebody else.
    #[error(
        "the peer expects {asked}, but this workload is {ours}; discovery and this workload disagree, or the peer belongs to another mesh"
    )]
    OtherAsked {
        /// The name in its SNI.
        asked: DnsName,
        /// Who we are.
        ours: SpiffeId,
    },
    /// The peer says that it is not the one we ask for.
    #[error(
        "the peer rejected the server name: the workload at that address is not the expected one, or belongs to another mesh"
    )]
    Other,
    /// The SPIFFE ID is of a trust domain that our roots do not vouch for.
    #[error("the peer {presented} is not in the trust domain {expected}")]
    ForeignTrustDomain {
        /// Our trust domain.
        expected: String,
        /// The peer's SPIFFE ID.
        presented: String,
    },
    /// The peer has shown no certificate where one is required.
    #[error("the peer sent no client certificate; it is not in the mesh")]
    NoCertificate,
    /// No name in the certificate is one of ours.
    #[error("the peer's certificate names neither a SPIFFE ID (URI SAN) nor a DNS name")]
    NoIdentity,
    /// More than one URI SAN: the SPIFFE X.509-SVID specification allows exactly one.
    #[error("the peer's certificate has more than one URI SAN, which is not valid for a SPIFFE ID")]
    ManyIdentities,
    /// A signature in the chain or in the handshake does not verify.
    #[error(
        "a signature of the peer is not valid: its certificate leads to another root with the same name, or data was changed on the way"
    )]
    BadSignature,
    /// The extended key usage does not allow this side of TLS.
    #[error(
        "the peer's certificate is not valid for this purpose; it needs the extended key usages serverAuth and clientAuth"
    )]
    UnsuitableKeyUsage,
    /// A certificate that is not a CA's has signed another.
    #[error("a certificate in the peer's chain signed another one but is not a CA certificate")]
    IssuerNotAuthority,
    /// The peer presents a CA's certificate as its own.
    #[error("the peer sent a CA certificate as its own")]
    AuthorityAsPeer,
    /// A path length or name constraint, or the depth of the chain.
    #[error("the peer's chain violates a constraint of its issuer (path length, names, depth)")]
    Constraint,
    /// Not a certificate that can be read.
    #[error("the peer's certificate cannot be read")]
    Malformed,
    /// An algorithm that we do not support, or none in common.
    #[error("no algorithm in common with the peer (cipher suite, key exchange or signature)")]
    Algorithm,
    /// The peer does not speak TLS 1.3.
    #[error("the peer does not support TLS 1.3")]
    ProtocolVersion,
    /// No application protocol in common.
    #[error("no application protocol (ALPN) in common with the peer")]
    ApplicationProtocol,
    /// The peer does not speak TLS at all.
    #[error("the peer did not answer with TLS; check that its proxy captures this port")]
    NotTls,
    /// The peer has refused us, with this alert.
    #[error(
        "the peer rejected the handshake with the alert {0:?}; check the peer's log and the certificate of this side"
    )]
    ByPeer(AlertDescription),
    /// The connection ended in the middle of the handshake.
    #[error("the peer closed the connection during the handshake")]
    Closed,
    /// The handshake took too long.
    #[error("the handshake did not finish within {0:?}")]
    Timeout(Duration),
    /// Reading or writing failed.
    #[error("the connection failed during the handshake: {0}")]
    Io(io::ErrorKind),
    /// The system's clock cannot be read, so no date can be checked.
    #[error("the system's clock cannot be read")]
    NoClock,
    /// Any other breach of the protocol.
    #[error("the handshake failed: {0}")]
    Handshake(String),
}

impl Refused {
    /// The reason behind an error of a TLS stream.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        if let Some(inner) = error.get_ref() {
            if let Some(refused) = inner.downcast_ref::<Self>() {
                return refused.clone();
            }
            if let Some(tls) = inner.downcast_ref::<Error>() {
                return Self::of_tls(tls);
            }
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            kind => Self::Io(kind),
        }
    }

    /// The reason behind an error of rustls.
    #[must_use]
    pub fn of_tls(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(certificate) => Self::of_certificate(certificate),
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::AlertReceived(AlertDescription::CloseNotify) => Self::Closed,
            Error::AlertReceived(AlertDescription::NoApplicationProtocol)
            | Error::NoApplicationProtocol => Self::ApplicationProtocol,
            Error::AlertReceived(AlertDescription::UnrecognisedName) => Self::Other,
            Error::AlertReceived(alert) => Self::ByPeer(*alert),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::NotTls,
            Error::FailedToGetCurrentTime => Self::NoClock,
            Error::PeerIncompatible(incompatible) => match incompatible {
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled => Self::ProtocolVersion,
                PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon
                | PeerIncompatible::NoCipherSuitesInCommon
                | PeerIncompatible::NoKxGroupsInCommon
                | PeerIncompatible::NoSignatureSchemesInCommon => Self::Algorithm,
                other => Self::Handshake(format!("{other:?}")),
            },
            other => Self::Handshake(other.to_string()),
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::BadEncoding | CertificateError::UnhandledCriticalExtension => {
                Self::Malformed
            }
            CertificateError::ExpiredContext { time, not_after } => {
                Self::Expired { not_after: not_after.as_secs(), now: time.as_secs() }
            }
            CertificateError::NotValidYetContext { time, not_before } => {
                Self::NotYetValid { not_before: not_before.as_secs(), now: time.as_secs() }
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::BadSignature => Self::BadSignature,
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
                Self::Algorithm
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::UnsuitableKeyUsage
            }
            CertificateError::Other(OtherError(inner)) => inner
                .downcast_ref::<Self>()
                .cloned()
                .unwrap_or_else(|| Self::Handshake(inner.to_string())),
            other => Self::Handshake(format!("{other:?}")),
        }
    }

    /// One word, for metrics: the set is small and fixed.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::UnknownIssuer => "unknown_issuer",
            Self::Expired { .. } => "expired",
            Self::NotYetValid { .. } => "not_yet_valid",
            Self::WrongName { .. } | Self::OtherAsked { .. } | Self::Other => "wrong_name",
            Self::ForeignTrustDomain { .. } => "foreign_trust_domain",
            Self::NoCertificate => "no_certificate",
            Self::NoIdentity => "no_identity",
            Self::ManyIdentities => "many_identities",
            Self::BadSignature => "bad_signature",
            Self::UnsuitableKeyUsage => "unsuitable_key_usage",
            Self::IssuerNotAuthority => "issuer_not_authority",
            Self::AuthorityAsPeer => "authority_as_peer",
            Self::Constraint => "constraint",
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::ProtocolVersion => "protocol_version",
            Self::ApplicationProtocol => "application_protocol",
            Self::NotTls => "not_tls",
            Self::ByPeer(_) => "by_peer",
            Self::Closed => "closed",
            Self::Timeout(_) => "timeout",
            Self::Io(_) => "io",
            Self::NoClock => "no_clock",
            Self::Handshake(_) => "handshake",
        }
    }
}

/// Towards rustls, which answers the peer with the alert that fits; the reason travels along.
impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        Self::InvalidCertificate(match refused {
            Refused::UnknownIssuer => CertificateError::UnknownIssuer,
            Refused::Expired { not_after, now } => {
                CertificateError::ExpiredContext { time: at(now), not_after: at(not_after) }
            }
            Refused::NotYetValid { not_before, now } => {
                CertificateError::NotValidYetContext { time: at(now), not_before: at(not_before) }
            }
            Refused::BadSignature => CertificateError::BadSignature,
            Refused::Malformed => CertificateError::BadEncoding,
            Refused::UnsuitableKeyUsage => CertificateError::InvalidPurpose,
            other => CertificateError::Other(OtherError(Arc::new(other))),
        })
    }
}
