//! An authority of the test's own, with what servers and clients need of it.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An authority; its files are in a folder that ends with it.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "root");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("root");
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("file");
        Self { issuer, folder }
    }

    /// PEM file of the root.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// PEM files of a client's chain and key.
    pub(crate) fn client(&self) -> (PathBuf, PathBuf) {
        let key = key();
        let leaf = leaf(ExtendedKeyUsagePurpose::ClientAuth);
        let leaf = leaf.signed_by(&key, &self.issuer).expect("leaf");
        let write = |name: &str, text: String| {
            let file = self.folder.path().join(name);
            std::fs::write(&file, text).expect("file");
            file
        };
        (write("client.pem", leaf.pem()), write("client.key", key.serialize_pem()))
    }

    /// A server for `localhost` and 127.0.0.1 that may demand a certificate of this authority.
    pub(crate) fn server(&self, demands: bool, alpn: &[&str]) -> Arc<ServerConfig> {
        self.issued(demands, alpn, &TLS13)
    }

    /// A server that knows nothing newer than TLS 1.2.
    pub(crate) fn older(&self, alpn: &[&str]) -> Arc<ServerConfig> {
        self.issued(false, alpn, &TLS12)
    }

    fn issued(
        &self,
        demands: bool,
        alpn: &[&str],
        version: &'static SupportedProtocolVersion,
    ) -> Arc<ServerConfig> {
        let key = key();
        let leaf = leaf(ExtendedKeyUsagePurpose::ServerAuth);
        let leaf = leaf.signed_by(&key, &self.issuer).expect("leaf");
        self.serve(&leaf, &key, demands, alpn, version)
    }

    /// A server whose certificate was good until some years ago.
    pub(crate) fn expired(&self, alpn: &[&str]) -> Arc<ServerConfig> {
        let key = key();
        let mut leaf = leaf(ExtendedKeyUsagePurpose::ServerAuth);
        leaf.not_before = rcgen::date_time_ymd(2019, 1, 1);
        leaf.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let leaf = leaf.signed_by(&key, &self.issuer).expect("leaf");
        self.serve(&leaf, &key, false, alpn, &TLS13)
    }

    /// A server that vouches for itself.
    pub(crate) fn self_signed(&self, alpn: &[&str]) -> Arc<ServerConfig> {
        let key = key();
        let leaf = leaf(ExtendedKeyUsagePurpose::ServerAuth).self_signed(&key).expect("leaf");
        self.serve(&leaf, &key, false, alpn, &TLS13)
    }

    fn serve(
        &self,
        leaf: &Certificate,
        key: &KeyPair,
        demands: bool,
        alpn: &[&str],
        version: &'static SupportedProtocolVersion,
    ) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .expect("versions");
        let builder = if demands {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).expect("root");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let mut config =
            builder.with_single_cert(vec![leaf.der().clone()], key).expect("certificate");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A file with something that is no certificate.
    pub(crate) fn garbage(&self) -> PathBuf {
        let file = self.folder.path().join("garbage.pem");
        std::fs::write(&file, "hello").expect("file");
        file
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("key")
}

fn leaf(usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("names");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params
}
