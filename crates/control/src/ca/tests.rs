//! Who gets which certificate, by tables.

use super::attest::Attested;
use super::issue::{Request, issue};
use super::root::{Brought, State};
use super::*;
use crate::world::MeshNames;
use leno_tls::Credential;
use leno_tls::verify::{Side, chain};
use rcgen::{BasicConstraints, CertificateParams, IsCa, SanType};
use rustls_pki_types::{PrivatePkcs8KeyDer, UnixTime};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 24 * 60 * 60;
const SPIFFE: &str = "spiffe://cluster.local/ns/shop/sa/web";
const DNS: &str = "web.shop.serviceaccount.identity.leno.cluster.local";

fn names() -> MeshNames {
    MeshNames::default()
}

fn web() -> Attested {
    Attested { namespace: "shop".into(), service_account: "web".into(), pod: "web-1".into() }
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

fn authority(folder: &Path) -> Authority {
    State::open(&folder.join("state")).unwrap().authority(&names(), NOW).unwrap()
}

/// A request with these names, signed by this key; `change` makes it odd.
fn request(key: &KeyPair, change: impl Fn(&mut CertificateParams)) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.subject_alt_names =
        vec![SanType::URI(SPIFFE.try_into().unwrap()), SanType::DnsName(DNS.try_into().unwrap())];
    change(&mut params);
    params.serialize_request(key).unwrap().der().to_vec()
}

#[test]
fn a_token_certifies_its_workload_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path());
    let key = KeyPair::generate().unwrap();
    let verdict = |identity: &str, csr: &[u8]| {
        let asked = Request { identity, csr };
        issue(&authority, &names(), &web(), asked, NOW, Duration::from_secs(DAY), [7; 16])
            .map_or_else(|refused| refused.to_string(), |_| "certified".to_owned())
    };
    let check = |change: &dyn Fn(&mut CertificateParams), expected: &str| {
        let shown = verdict(DNS, &request(&key, change));
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
    };
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
    check(&|_| (), "certified");
    check(&|p| drop(p.subject_alt_names.pop()), "certified");
    check(&|p| p.subject_alt_names = vec![dns(DNS)], "certified");
    check(&|p| p.subject_alt_names.clear(), "no subject alternative name");
    let admin = "spiffe://cluster.local/ns/shop/sa/admin";
    check(&|p| p.subject_alt_names.push(uri(admin)), "is rejected");
    check(
        &|p| p.subject_alt_names = vec![uri(admin)],
        "for spiffe://cluster.local/ns/shop/sa/web, so",
    );
    check(&|p| p.subject_alt_names.push(dns("example.com")), "for \"example.com\" is rejected");
    check(
        &|p| p.subject_alt_names.push(dns("*.shop.serviceaccount.identity.leno.cluster.local")),
        "is rejected",
    );
    check(&|p| p.subject_alt_names.push(SanType::IpAddress([10, 0, 0, 1].into())), "10.0.0.1");
    check(&|p| p.subject_alt_names.push(SanType::Rfc822Name("a@b".try_into().unwrap())), "a@b");
    check(&|p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained), "CA certificate");

    let good = request(&key, |_| ());
    let check = |identity: &str, csr: &[u8], expected: &str| {
        let shown = verdict(identity, csr);
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
    };
    check(SPIFFE, &good, "certified");
    check(admin, &good, "is rejected");
    check("", &good, "is rejected");
    check("admin.shop.serviceaccount.identity.leno.cluster.local", &good, "is rejected");
    let pem = CertificateParams::default();
    let mut pem = pem;
    pem.subject_alt_names = vec![dns(DNS)];
    check(DNS, pem.serialize_request(&key).unwrap().pem().unwrap().as_bytes(), "certified");
    // Changed after it was signed, in the name and in the signature.
    let mut tampered = good.clone();
    let found = tampered.windows(4).position(|part| part == b"/web").unwrap();
    tampered[found + 1] = b'x';
    check(DNS, &tampered, "rejected");
    let mut tampered = good.clone();
    *tampered.last_mut().unwrap() ^= 1;
    check(DNS, &tampered, "rejected");
    check(DNS, &good[..good.len() - 1], "rejected");
    check(DNS, b"hello", "rejected");
    check(DNS, b"", "rejected");
    for (algorithm, expected) in [
        (&rcgen::PKCS_ECDSA_P384_SHA384, "certified"),
        (&rcgen::PKCS_ED25519, "certified"),
        (&rcgen::PKCS_ECDSA_P521_SHA512, "rejected"),
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        check(DNS, &request(&key, |_| ()), expected);
    }
}

#[test]
fn codes_of_refusals() {
    let check = |refused: Refused, code: Code, reason: &str| {
        assert_eq!((Status::from(&refused).code(), refused.reason()), (code, reason));
    };
    check(Refused::Token(String::new()), Code::Unauthenticated, "token");
    check(Refused::Unavailable(String::new()), Code::Unavailable, "unavailable");
    let (token, asked) = (String::new(), String::new());
    check(Refused::Identity { token, asked }, Code::PermissionDenied, "identity");
    check(Refused::Request(String::new()), Code::InvalidArgument, "request");
    check(Refused::Key, Code::InvalidArgument, "key");
    check(Refused::IssuerExpired(1), Code::FailedPrecondition, "issuer_expired");
}

#[test]
fn certificates_live_as_long_as_they_should_and_peers_accept_them() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path());
    let issued = |now: u64, life: u64| {
        let key = KeyPair::generate().unwrap();
        let csr = request(&key, |_| ());
        let asked = Request { identity: SPIFFE, csr: &csr };
        let life = Duration::from_secs(life);
        issue(&authority, &names(), &web(), asked, now, life, [0xff; 16]).map(|issued| {
            let validity = validity_of(&issued.leaf);
            assert_eq!(validity.not_after, issued.not_after);
            let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
            let accepted = Credential::from_parts(
                key,
                issued.leaf,
                issued.intermediates,
                &authority.anchors,
                at(now),
            );
            let accepted = accepted.unwrap();
            assert_eq!(accepted.identity().as_str(), SPIFFE);
            assert_eq!(accepted.dns_names()[0].as_str(), DNS);
            (validity.not_before, validity.not_after)
        })
    };
    assert_eq!(issued(NOW, DAY), Ok((NOW - 60, NOW + DAY)));
    assert_eq!(issued(NOW, 3), Ok((NOW - 60, NOW + 3)));
    // Not beyond the issuer.
    let end = NOW + 365 * DAY;
    assert_eq!(issued(end - 10, DAY), Ok((end - 70, end)));
    assert_eq!(issued(end + 5, DAY), Err(Refused::IssuerExpired(5)));
}

fn validity_of(certificate: &[u8]) -> Validity {
    leno_tls::validity::read(certificate).unwrap()
}

#[test]
fn root_and_issuer_are_made_once_with_safe_modes_and_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/state");
    let state = State::open(&path).unwrap();
    let first = state.authority(&names(), NOW).unwrap();
    let mode = |file: &str| fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("."), 0o700);
    state.tokens().unwrap();
    for key in ["root.pem", "issuer.pem", "token-key.pem"] {
        assert_eq!(mode(key), 0o600, "{key}");
    }
    assert_eq!(mode("trust-anchors.pem"), 0o644);
    let anchors = fs::read_to_string(path.join("trust-anchors.pem")).unwrap();
    assert!(!anchors.contains("PRIVATE KEY") && anchors == first.anchors_pem);
    assert_eq!(validity_of(&first.chain[0]).not_after, NOW + 365 * DAY);
    // Again: the same. At two thirds of its life: a new issuer under the same root, and the old leaf stays good.
    let again = state.authority(&names(), NOW + 200 * DAY).unwrap();
    assert_eq!(again.chain, first.chain);
    let renewed = state.authority(&names(), NOW + 250 * DAY).unwrap();
    assert!(renewed.chain != first.chain && renewed.anchors_pem == first.anchors_pem);
    let life = Duration::from_secs(100 * DAY);
    let old = first.own_credential(&names(), NOW + 200 * DAY, life).unwrap();
    let [leaf, issuer] = old.chain() else { panic!("a leaf and an issuer") };
    let accepted = chain(
        leaf,
        std::slice::from_ref(issuer),
        &renewed.anchors,
        Side::Client,
        at(NOW + 251 * DAY),
    );
    assert!(accepted.is_ok());
    // Two processes at once have one key.
    let other = folder.path().join("raced");
    let keys: Vec<_> = std::thread::scope(|scope| {
        let open = || State::open(&other).unwrap().authority(&names(), NOW).unwrap().anchors_pem;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
    // What is broken on disk is reported, and left as it is.
    fs::write(path.join("root.pem"), "garbage").unwrap();
    let error = format!("{:#}", state.authority(&names(), NOW).unwrap_err());
    assert!(error.contains("root.pem"), "{error}");
    assert_eq!(fs::read_to_string(path.join("root.pem")).unwrap(), "garbage");
}

#[test]
fn a_brought_issuer_is_checked() {
    use leno_testkit::ca::TestCa;
    let folder = tempfile::tempdir().unwrap();
    let state = State::open(&folder.path().join("state")).unwrap();
    let now = unix_seconds(SystemTime::now());
    let ours = State::open(&folder.path().join("ours")).unwrap();
    ours.authority(&names(), now).unwrap();
    let read = |file: &str| fs::read_to_string(folder.path().join("ours").join(file)).unwrap();
    let (issuer, anchors) = (read("issuer.pem"), read("trust-anchors.pem"));
    let (key, certificate) = issuer.split_at(issuer.find("-----BEGIN CERT").unwrap());
    let leaf = {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(Vec::new()).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let check = |certificate: &str, key: &str, anchors: &str, now: u64, expected: &str| {
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let from = Brought {
            certificate: file("issuer.crt", certificate),
            key: file("issuer.key", key),
            anchors: file("roots.pem", anchors),
        };
        let shown = match state.brought(&from, &names(), now) {
            Ok(_) => "good".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
    };
    check(certificate, key, &anchors, now, "good");
    check(certificate, &leaf.1, &anchors, now, "peers would reject");
    check(&leaf.0, &leaf.1, &anchors, now, "peers would reject");
    check(certificate, key, &TestCa::new("cluster.local").anchors_pem(), now, "peers would reject");
    check(certificate, key, &anchors, now + 365 * DAY - 60, "expires in");
    check("", key, &anchors, now, "no certificate");
    check(certificate, "", &anchors, now, "issuer.key");
    check(certificate, key, "", now, "no certificate");
}
