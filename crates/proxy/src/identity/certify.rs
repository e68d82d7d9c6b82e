//! One certification: a new key, a request with the workload's token, and an answer that is checked before use.

use super::IdentityConfig;
use crate::control_channel::{self, DialError};
use leno_api::snapshot::Certified;
use leno_model::name::SpiffeId;
use leno_tls::anchors::AnchorsError;
use leno_tls::csr::{self, Key};
use leno_tls::{
    Alpn, Anchors, CertificateDer, Credential, CredentialError, Credentials, UnixTime, client,
    server,
};
use linkerd2_proxy_api::identity::CertifyRequest;
use linkerd2_proxy_api::identity::identity_client::IdentityClient;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// A token is about 1 KiB.
const TOKEN_BYTES_MAX: usize = 64 * 1024;
/// An answer holds a chain of a few certificates of 1 KiB.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long the control plane may take to sign; connecting has limits of its own.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertifyError {
    /// The token or the trust anchors cannot be read.
    #[error("cannot read {0}: {1}")]
    File(PathBuf, io::Error),
    /// The trust anchors are none.
    #[error("{0}: {1}")]
    Anchors(PathBuf, AnchorsError),
    /// The control plane is not there, or not who it must be.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// HTTP/2 with the control plane.
    #[error("HTTP/2 with the control plane failed: {0}")]
    Http(#[from] tonic::transport::Error),
    /// The control plane's refusal.
    #[error("the control plane rejected the request ({:?}): {}", .0.code(), .0.message())]
    Refused(Box<tonic::Status>),
    /// No answer in time.
    #[error("the control plane did not answer within {ANSWER_WAIT_MAX:?}")]
    Timeout,
    /// The key cannot be made, or the answer is not a credential.
    #[error("the certificate is not usable: {0}")]
    Credential(#[from] CredentialError),
    /// The certificate is somebody else's.
    #[error("the control plane issued a certificate for {0}, but this workload is {1}")]
    OtherIdentity(SpiffeId, SpiffeId),
    /// Peers that know us by our DNS-like name would refuse us.
    #[error("the certificate does not contain the workload's DNS name")]
    NoDnsName,
}

impl CertifyError {
    /// One word, for the log.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::File(..) => "file",
            Self::Anchors(..) => "anchors",
            Self::Dial(DialError::Refused(_, refused)) => refused.as_str(),
            Self::Dial(_) => "connect",
            Self::Http(_) => "http",
            Self::Refused(_) => "refused",
            Self::Timeout => "timeout",
            Self::Credential(CredentialError::Refused(refused)) => refused.as_str(),
            Self::Credential(_) => "credential",
            Self::OtherIdentity(..) => "other_identity",
            Self::NoDnsName => "no_dns_name",
        }
    }
}

/// What a certification came to.
#[derive(Debug)]
pub struct Certification {
    /// For use.
    pub credentials: Arc<Credentials>,
    /// For the next start of the same pod's proxy.
    pub certified: Certified,
}

/// Asks the control plane, which these anchors must vouch for, for a certificate, without showing one: the token is the proof,
/// so that a proxy whose certificate expired is no worse off than a new one.
///
/// # Errors
/// Nothing of a failed certification is kept; the next makes a new key.
pub async fn certify(
    config: &IdentityConfig,
    anchors: Anchors,
) -> Result<Certification, CertifyError> {
    let token = read(&config.token_file, TOKEN_BYTES_MAX).await?;
    let key = Key::generate()?;
    let request = CertifyRequest {
        // The DNS-like form, as linkerd's proxies send it; the SPIFFE ID is in the request's SAN.
        identity: config.identity_dns.to_string(),
        token: token.trim_ascii().to_vec(),
        certificate_signing_request: key.request(&config.identity, &config.identity_dns)?,
    };
    let (leaf, intermediates) = ask(config, &anchors, request).await?;
    let certified = Certified {
        key: key.secret(),
        leaf: leaf.to_vec(),
        intermediates: intermediates.iter().map(|link| link.to_vec()).collect(),
    };
    let credentials = checked(config, anchors, certified.clone())?;
    Ok(Certification { credentials, certified })
}

/// The credential of the proxy that ran here before, if it is still one: the roots of now vouch for it, now.
///
/// # Errors
/// It is not, and why: expired, of another identity, of a root that is trusted no more.
pub fn restore(
    config: &IdentityConfig,
    anchors: Anchors,
    certified: Certified,
) -> Result<Arc<Credentials>, CertifyError> {
    checked(config, anchors, certified)
}

fn checked(
    config: &IdentityConfig,
    anchors: Anchors,
    certified: Certified,
) -> Result<Arc<Credentials>, CertifyError> {
    let Certified { key, leaf, intermediates } = certified;
    let intermediates = intermediates.into_iter().map(Into::into).collect();
    let (key, now) = (csr::key(key), UnixTime::now());
    let credential = Credential::from_parts(key, leaf.into(), intermediates, &anchors, now)?;
    if credential.identity() != &config.identity {
        return Err(CertifyError::OtherIdentity(
            credential.identity().clone(),
            config.identity.clone(),
        ));
    }
    if !credential.dns_names().contains(&config.identity_dns) {
        return Err(CertifyError::NoDnsName);
    }
    Ok(Credentials::new(credential, anchors, server::MESH))
}

async fn ask(
    config: &IdentityConfig,
    anchors: &Anchors,
    request: CertifyRequest,
) -> Result<(CertificateDer<'static>, Vec<CertificateDer<'static>>), CertifyError> {
    let peer = control_channel::peer(&config.control_identity);
    let tls = client::nameless(anchors, &peer, Alpn::Http2);
    let connection = control_channel::dial(&config.control_address, tls, &peer.server_name).await?;
    let asked = async {
        let channel = control_channel::once(&config.control_address, connection).await?;
        let mut client = IdentityClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        client.certify(request).await.map_err(|status| CertifyError::Refused(Box::new(status)))
    };
    let answer =
        timeout(ANSWER_WAIT_MAX, asked).await.map_err(|_| CertifyError::Timeout)??.into_inner();
    // `valid_until` is not read: the certificate itself says it, signed.
    let intermediates = answer.intermediate_certificates.into_iter().map(Into::into).collect();
    Ok((answer.leaf_certificate.into(), intermediates))
}

/// A whole file of bounded size.
pub(super) async fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, CertifyError> {
    let failed = |error| CertifyError::File(path.to_owned(), error);
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut content = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut content).await.map_err(failed)?;
    if content.len() > bytes_max {
        return Err(failed(io::Error::other(format!("it has more than {bytes_max} bytes"))));
    }
    Ok(content)
}
