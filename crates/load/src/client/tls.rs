//! TLS of the load engine's connections: who the server may be, and who we are.
//!
//! As everywhere in Leno: rustls with aws-lc, TLS 1.3, hybrid post-quantum key exchange first. What is *not* here: mesh
//! identities (crate `leno-tls`), because a load generator is an ordinary client that uses host names, and TLS 1.2 with
//! servers that have no 1.3. Sessions are not resumed, so that every connection of a run costs the server the same full handshake.

use crate::client::Failure;
use crate::client::stream::Stream;
use crate::plan::{self, Plan};
use crate::protocol::Protocol;
use anyhow::{Context as _, Result, anyhow, bail};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where systems keep the certificates that everybody trusts.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Everything that a handshake needs, read once.
#[derive(Clone)]
pub struct Connector {
    rustls: TlsConnector,
    name: ServerName<'static>,
    /// What must be agreed on; empty where nothing is asked for.
    alpn: &'static [u8],
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Connector {
    /// Reads the certificates that the plan names.
    ///
    /// # Errors
    /// A file is missing or is not what it should be; the message names the flag.
    pub fn new(plan: &Plan) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let builder = if plan.tls.insecure {
            let anybody = Arc::new(Anybody { provider });
            builder.dangerous().with_custom_certificate_verifier(anybody)
        } else {
            builder.with_root_certificates(roots(plan.tls.ca.as_deref())?)
        };
        let mut config = match credential(&plan.tls)? {
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .context("--cert and --key do not match")?,
            None => builder.with_no_client_auth(),
        };
        let alpn = alpn(plan.protocol);
        config.alpn_protocols = if alpn.is_empty() { Vec::new() } else { vec![alpn.to_vec()] };
        config.resumption = Resumption::disabled();
        Ok(Self { rustls: TlsConnector::from(Arc::new(config)), name: name(plan)?, alpn })
    }

    /// The same for another host: no file is read again.
    ///
    /// # Errors
    /// The host's name cannot be asked for.
    pub fn at(&self, plan: &Plan) -> Result<Self> {
        Ok(Self { name: name(plan)?, ..self.clone() })
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// `Failure::Tls`, or how the connection ended, and what was said of it.
    pub async fn connect(&self, stream: TcpStream) -> Result<Stream, (Failure, String)> {
        let shaken = self.rustls.connect(self.name.clone(), stream).await;
        let stream = shaken.map_err(|error| (Failure::of_io(&error), told(&error)))?;
        // Without ALPN the protocol is HTTP/1; HTTP/2 needs ALPN.
        if self.alpn == b"h2" && stream.get_ref().1.alpn_protocol() != Some(self.alpn) {
            return Err((Failure::Tls, "the server did not agree on HTTP/2 (ALPN h2)".to_owned()));
        }
        Ok(Stream::Tls(Box::new(stream)))
    }
}

/// What a person reads of it.
fn told(error: &io::Error) -> String {
    let text = error.to_string();
    // OpenSSL lets an authority's certificate be a server's where it is trusted by itself; rustls does not, and says so in its own words.
    match text.contains("CaUsedAsEndEntity") {
        true => format!(
            "{text}: the server sent a CA certificate as its own; use --insecure to accept it"
        ),
        false => text,
    }
}

fn name(plan: &Plan) -> Result<ServerName<'static>> {
    let host = plan.tls.server_name.as_ref().unwrap_or(&plan.url.host);
    ServerName::try_from(host.clone())
        .with_context(|| format!("{host:?} is not a valid name for a TLS handshake"))
}

/// Whether rustls is behind this error. In TLS 1.3 a server refuses a client's certificate after the handshake, so
/// that the refusal arrives with a read.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

const fn alpn(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Http1 => b"http/1.1",
        Protocol::Http2 | Protocol::GrpcUnary | Protocol::GrpcStream => b"h2",
        Protocol::Tcp => b"",
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let system = || SYSTEM_ROOTS.map(Path::new).into_iter().find(|file| file.exists());
    let Some(file) = ca.or_else(system) else {
        bail!("this machine has no trusted certificates: use --cacert or --insecure");
    };
    let (added, _) = store.add_parsable_certificates(certificates("--cacert", file)?);
    if added == 0 {
        bail!("--cacert {}: the file has no CA certificate", file.display());
    }
    Ok(store)
}

type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Without a file of its own, the key is looked for in the one of the chain.
fn credential(tls: &plan::Tls) -> Result<Option<Shown>> {
    let Some(file) = &tls.cert else {
        if tls.key.is_some() {
            bail!("--key without --cert");
        }
        return Ok(None);
    };
    let key = tls.key.as_ref().unwrap_or(file);
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| anyhow!("--key {}: {error}", key.display()))?;
    Ok(Some((certificates("--cert", file)?, private)))
}

fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| anyhow!("{flag} {}: {error}", file.display()))?;
    if found.is_empty() {
        bail!("{flag} {}: the file has no certificate", file.display());
    }
    Ok(found)
}

/// Accepts any certificate, if the server has its key.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
