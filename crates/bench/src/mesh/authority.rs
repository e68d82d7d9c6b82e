//! The certificate authority of a bed: made for it, gone with it. Peers without a control plane get their certificates here.
//!
//! Each sidecar signs its own leaf with the authority's key, which only root can read: the point is that the proxies
//! do the same work as in a mesh, not that this machine is safe from its own root.

use anyhow::{Context, Result};
use leno_runtime::file::write_atomically;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    SanType,
};
use std::path::Path;

/// The authority's certificate, PEM.
pub const CERTIFICATE: &str = "ca.pem";
/// The authority's key, PEM.
const KEY: &str = "ca.key";
/// A second name of every leaf, for proxies that can check only one name for several identities (nginx).
pub const ANYBODY: &str = "anybody.mesh.leno.cluster.local";

/// Who a pod is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub namespace: String,
    /// Service account.
    pub account: String,
}

impl Identity {
    /// `spiffe://cluster.local/ns/NAMESPACE/sa/ACCOUNT`, as Leno names it.
    #[must_use]
    pub fn spiffe(&self) -> String {
        format!("spiffe://cluster.local/ns/{}/sa/{}", self.namespace, self.account)
    }

    /// The same as a host name, for SNI and for proxies that check names.
    #[must_use]
    pub fn dns(&self) -> String {
        format!("{}.{}.serviceaccount.identity.leno.cluster.local", self.account, self.namespace)
    }
}

/// Key and chain of a leaf, PEM.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its key, PKCS #8.
    pub key: String,
    pub certificate: String,
}

/// Makes a new authority in the directory.
///
/// # Errors
/// The file system refuses.
pub fn create(directory: &Path) -> Result<()> {
    let params = authority();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let authority = CertifiedIssuer::self_signed(params, key)?;
    std::fs::create_dir_all(directory)?;
    write_atomically(&directory.join(KEY), authority.key().serialize_pem().as_bytes(), 0o600)?;
    write_atomically(&directory.join(CERTIFICATE), authority.pem().as_bytes(), 0o644)?;
    Ok(())
}

/// What the authority's certificate says; the same each time, so that its key is all that a leaf needs.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "leno bench");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// A certificate for this identity, with a new key.
///
/// # Errors
/// There is no authority in the directory.
pub fn issue(directory: &Path, identity: &Identity) -> Result<Leaf> {
    let path = directory.join(KEY);
    let key = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let issuer = Issuer::new(authority(), KeyPair::from_pem(&key)?);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "leno bench leaf");
    params.subject_alt_names = vec![
        SanType::URI(identity.spiffe().as_str().try_into()?),
        SanType::DnsName(identity.dns().as_str().try_into()?),
        SanType::DnsName(ANYBODY.try_into()?),
    ];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Leaf { key: key.serialize_pem(), certificate: certificate.pem() })
}

/// Key and certificate request of linkerd's proxy, DER, which its init program makes in a cluster.
///
/// # Errors
/// A name that no certificate can have.
pub fn request(dns: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut params = CertificateParams::new(vec![dns.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, dns);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let request = params.serialize_request(&key)?;
    Ok((key.serialize_der(), request.der().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn openssl(arguments: &[&str]) -> String {
        let output = Command::new("openssl").args(arguments).output().expect("openssl");
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    }

    #[test]
    fn leaves_that_others_accept() {
        let place = tempfile::tempdir().unwrap();
        create(place.path()).unwrap();
        let identity = Identity { namespace: "default".into(), account: "web".into() };
        let leaf = issue(place.path(), &identity).unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        std::fs::write(path("leaf.pem"), &leaf.certificate).unwrap();
        let dns = identity.dns();
        let said = openssl(&[
            "verify",
            "-x509_strict",
            "-purpose",
            "sslserver",
            "-verify_hostname",
            &dns,
            "-CAfile",
            &path(CERTIFICATE),
            &path("leaf.pem"),
        ]);
        assert!(said.contains("leaf.pem: OK"), "{said}");
        let said = openssl(&["x509", "-noout", "-ext", "subjectAltName", "-in", &path("leaf.pem")]);
        assert!(said.contains("URI:spiffe://cluster.local/ns/default/sa/web"), "{said}");
        let (_, request) = request(&dns).unwrap();
        std::fs::write(path("csr.der"), request).unwrap();
        let said = openssl(&[
            "req",
            "-inform",
            "DER",
            "-noout",
            "-verify",
            "-text",
            "-in",
            &path("csr.der"),
        ]);
        assert!(said.contains("verify OK") && said.contains(&format!("DNS:{dns}")), "{said}");
        let strangers = tempfile::tempdir().unwrap();
        assert!(issue(strangers.path(), &identity).is_err());
    }
}
