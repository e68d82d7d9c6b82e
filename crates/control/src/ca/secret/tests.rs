//! What a Secret and a ConfigMap make, by a table.

use super::*;
use crate::ca::unix_seconds;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyUsagePurpose, RsaKeySize,
};
use std::collections::BTreeMap;
use std::time::SystemTime;
use time::OffsetDateTime;

const DAY: u64 = 24 * 60 * 60;

fn params(from: u64, to: u64) -> CertificateParams {
    let moment = |at: u64| OffsetDateTime::from_unix_timestamp(at.cast_signed()).unwrap();
    let mut params = CertificateParams::default();
    params.not_before = moment(from);
    params.not_after = moment(to);
    params
}

fn ca(from: u64, to: u64) -> CertificateParams {
    let mut params = params(from, to);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

struct Root(CertifiedIssuer<'static, KeyPair>);

impl Root {
    fn new(now: u64) -> Self {
        let params = ca(now - DAY, now + 900 * DAY);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, params: &CertificateParams, key: &KeyPair) -> String {
        params.signed_by(key, &self.0).unwrap().pem()
    }
}

fn secret(parts: &[(&str, &str)]) -> Secret {
    let data =
        parts.iter().map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
    Secret { data: Some(data.collect()), ..Secret::default() }
}

fn map(pem: &str) -> ConfigMap {
    let data = BTreeMap::from([(Mesh::TRUST_ANCHORS_KEY.to_owned(), pem.to_owned())]);
    ConfigMap { data: Some(data), ..ConfigMap::default() }
}

/// The key inside of PKCS #8: PKCS #1 of an RSA key, SEC 1 of an elliptic one.
fn inner(pkcs8: &[u8], label: &str) -> String {
    /// The content of the first element, and what follows it.
    fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
        let (length, head) = match bytes[1] {
            0x81 => (usize::from(bytes[2]), 3),
            0x82 => (usize::from(bytes[2]) << 8 | usize::from(bytes[3]), 4),
            short => (usize::from(short), 2),
        };
        bytes[head..].split_at(length)
    }
    let (_, rest) = element(element(pkcs8).0);
    let (_, rest) = element(rest);
    let text = STANDARD.encode(element(rest).0);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

#[test]
fn what_a_secret_makes() {
    let now = unix_seconds(SystemTime::now());
    let (root, other) = (Root::new(now), Root::new(now));
    let key = KeyPair::generate().unwrap();
    let good = root.sign(&ca(now - 60, now + 365 * DAY), &key);
    let pem = key.serialize_pem();
    let anchors = root.0.pem();
    #[track_caller]
    fn verdict(secret: Option<&Secret>, anchors: Option<&ConfigMap>, now: u64, expected: &str) {
        let shown = match authority(secret, anchors, &MeshNames::default(), now) {
            Ok(authority) => format!("good: {}", authority.serial()),
            Err(rejected) => format!("{}: {rejected}", rejected.reason()),
        };
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
        assert!(!shown.contains("PRIVATE"), "{shown}");
    }
    let check = |certificate: &str, key: &str, anchors: &str, expected: &str| {
        let secret = secret(&[(CERTIFICATE, certificate), (KEY, key), ("ca.crt", "not read")]);
        verdict(Some(&secret), Some(&map(anchors)), now, expected);
    };
    check(&good, &pem, &anchors, "good: ");
    // Two roots while one replaces the other; a chain with the root at its end, as cert-manager may write it.
    check(&good, &pem, &format!("{}{anchors}", other.0.pem()), "good: ");
    check(&format!("{good}{anchors}"), &pem, &anchors, "good: ");
    // Every form of key, and what openssl writes before it.
    let sec1 = inner(&key.serialize_der(), "EC PRIVATE KEY");
    check(&good, &sec1, &anchors, "good: ");
    let parameters =
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    check(&good, &format!("{parameters}{sec1}"), &anchors, "good: ");
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let of_rsa = root.sign(&ca(now - 60, now + DAY), &rsa);
    check(&of_rsa, &rsa.serialize_pem(), &anchors, "good: ");
    check(&of_rsa, &inner(&rsa.serialize_der(), "RSA PRIVATE KEY"), &anchors, "good: ");
    // What is wrong, and what it is called.
    check(&good, &KeyPair::generate().unwrap().serialize_pem(), &anchors, "other_key: ");
    check(&good, &pem, &other.0.pem(), "not_trusted: ");
    check(&root.sign(&ca(now - DAY, now - 5), &key), &pem, &anchors, "expired 5 seconds ago");
    check(&root.sign(&ca(now + 9, now + DAY), &key), &pem, &anchors, "not_yet_valid: ");
    let leaf = params(now - 60, now + DAY);
    check(&root.sign(&leaf, &key), &pem, &anchors, "not_authority: ");
    check(&good, "garbage", &anchors, "malformed: tls.key: there is no private key");
    check(&good, &good, &anchors, "malformed: tls.key: there is no private key");
    check("garbage", &pem, &anchors, "malformed: tls.crt: no certificate");
    check("", &pem, &anchors, "malformed: tls.crt: no certificate");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check(broken, &pem, &anchors, "malformed: tls.crt: ");
    check(&good, &pem, broken, "malformed: trust-anchors.pem: ");
    check(&good, &pem, "hello", "malformed: trust-anchors.pem: no certificate");
    check(&good, &pem, " \n", "no_anchors: ");
    // What is not there.
    let whole = secret(&[(CERTIFICATE, &good), (KEY, &pem)]);
    verdict(None, Some(&map(&anchors)), now, "no_secret: there is no Secret leno-identity-issuer");
    verdict(Some(&whole), None, now, "no_anchors: there is no ConfigMap leno-trust-anchors");
    verdict(Some(&whole), Some(&ConfigMap::default()), now, "no_anchors: ");
    verdict(Some(&Secret::default()), Some(&map(&anchors)), now, "tls.crt: it is missing");
    let half = secret(&[(CERTIFICATE, &good)]);
    verdict(Some(&half), Some(&map(&anchors)), now, "tls.key: it is missing");
    verdict(Some(&whole), Some(&map(&anchors)), now + 400 * DAY, "expired: ");
}
