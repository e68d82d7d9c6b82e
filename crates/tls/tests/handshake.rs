//! Two sides over a pipe in memory: who is let in, who is refused, and why.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test: it may panic")]

use leno_model::name::{DnsName, PeerName};
use leno_model::workload::PeerIdentity;
use leno_testkit::ca::{Flaw, Parts, TestCa};
use leno_tls::{
    Alpn, Anchors, Connected, Credential, CredentialError, Credentials, Refused, client, hello,
    server,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{
    AlertDescription, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const WAIT_MAX: Duration = Duration::from_secs(20);

type ClientSide = Connected<tokio_rustls::client::TlsStream<DuplexStream>>;
type ServerSide = Connected<tokio_rustls::server::TlsStream<DuplexStream>>;

/// Both sides of one handshake. A client that believes in its success reads one byte more, as in TLS 1.3 only then
/// it learns that the server refused it (and gets its ticket when it did not).
async fn meet(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    name: &DnsName,
) -> (Result<ServerSide, Refused>, Result<ClientSide, Refused>) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let serve = async {
        let mut connected = server::accept(server, far, WAIT_MAX).await?;
        connected.stream.write_all(b"!").await.map_err(|error| Refused::of(&error))?;
        connected.stream.flush().await.map_err(|error| Refused::of(&error))?;
        Ok(connected)
    };
    let ask = async {
        let mut connected = client::connect(client, name, near, WAIT_MAX).await?;
        connected.stream.read_u8().await.map_err(|error| Refused::of(&error))?;
        Ok(connected)
    };
    tokio::join!(serve, ask)
}

async fn meet_well(
    server: &Credentials,
    client: &Credentials,
    peer: &PeerIdentity,
) -> (ServerSide, ClientSide) {
    let (served, asked) =
        meet(server.server(), client.client(peer, Alpn::None), &peer.server_name).await;
    (served.unwrap(), asked.unwrap())
}

#[tokio::test]
async fn each_side_knows_the_other() {
    let ca = TestCa::new("cluster.local");
    let (web, cart) = (ca.credentials("web"), ca.credentials("cart"));
    let (served, asked) = meet_well(&cart, &web, &ca.peer("cart")).await;
    assert_eq!(served.peer, Some(PeerName::Spiffe(ca.identity("web"))));
    assert_eq!(asked.peer, Some(PeerName::Spiffe(ca.identity("cart"))));
    assert_eq!((served.alpn, served.resumed), (Alpn::None, false));
    let connection = asked.stream.get_ref().1;
    assert_eq!(connection.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    let group = connection.negotiated_key_exchange_group().unwrap();
    assert_eq!(group.name(), rustls::NamedGroup::X25519MLKEM768);
}

/// The specification: what is wrong with a certificate, and what each side says about it.
#[tokio::test]
async fn bad_certificates_are_refused_by_both_sides() {
    let check = async |flaw: Flaw, expected: &str| {
        let ca = TestCa::new("cluster.local");
        let bad = ca.issue_flawed("web", flaw);
        let good = ca.credentials("cart");
        let peer = ca.peer("web");

        let (served, asked) =
            meet(careless_server(&bad), good.client(&peer, Alpn::None), &peer.server_name).await;
        let refused = asked.expect_err("the client lets it in");
        assert_eq!(refused.as_str(), expected, "as server: {flaw:?}: {refused}");
        assert!(matches!(served, Err(Refused::ByPeer(_))), "{flaw:?}: {served:?}");

        let peer = ca.peer("cart");
        let (served, asked) = meet(good.server(), careless_client(&bad), &peer.server_name).await;
        let refused = served.expect_err("the server lets it in");
        assert_eq!(refused.as_str(), expected, "as client: {flaw:?}: {refused}");
        assert!(matches!(asked, Err(Refused::ByPeer(_))), "{flaw:?}: {asked:?}");
    };
    for (flaw, expected) in SPECIFICATION {
        check(flaw, expected).await;
    }
    assert_eq!(SPECIFICATION.len(), Flaw::BAD.len(), "every flaw has its line");
}

const SPECIFICATION: [(Flaw, &str); 19] = [
    (Flaw::Expired, "expired"),
    (Flaw::NotYetValid, "not_yet_valid"),
    (Flaw::IssuerExpired, "expired"),
    (Flaw::NoName, "no_identity"),
    (Flaw::TwoUris, "many_identities"),
    (Flaw::NotSpiffe, "no_identity"),
    (Flaw::ForeignTrustDomain, "foreign_trust_domain"),
    (Flaw::OtherRoot, "unknown_issuer"),
    (Flaw::ImpostorRoot, "bad_signature"),
    (Flaw::SelfSigned, "unknown_issuer"),
    (Flaw::WrongUsage, "unsuitable_key_usage"),
    (Flaw::IssuerNotAuthority, "issuer_not_authority"),
    (Flaw::AuthorityAsPeer, "authority_as_peer"),
    (Flaw::PathTooLong, "constraint"),
    (Flaw::TamperedSignature, "bad_signature"),
    (Flaw::TamperedName, "bad_signature"),
    (Flaw::MissingIntermediate, "unknown_issuer"),
    (Flaw::OtherKey, "bad_signature"),
    (Flaw::Garbage, "malformed"),
];

#[tokio::test]
async fn a_client_accepts_only_whom_it_expects() {
    let ca = TestCa::new("cluster.local");
    let (web, cart) = (ca.credentials("web"), ca.credentials("cart"));
    let dns = |name: &str| PeerName::Dns(DnsName::parse(name).unwrap());
    let check = async |expected: PeerName, refused: Option<&str>| {
        let peer = PeerIdentity { name: expected, ..ca.peer("cart") };
        let client = web.client(&peer, Alpn::None);
        let (_, asked) = meet(cart.server(), client, &peer.server_name).await;
        assert_eq!(asked.err().map(|refused| refused.to_string()).as_deref(), refused);
    };
    let presented = "the peer is spiffe://cluster.local/ns/default/sa/cart, \
                     cart.default.serviceaccount.identity.leno.cluster.local; discovery and the workload at that address disagree";
    check(PeerName::Spiffe(ca.identity("cart")), None).await;
    check(dns("cart.default.serviceaccount.identity.leno.cluster.local"), None).await;
    check(
        PeerName::Spiffe(ca.identity("card")),
        Some(&format!("expected spiffe://cluster.local/ns/default/sa/card, but {presented}")),
    )
    .await;
    check(dns("cart"), Some(&format!("expected cart, but {presented}"))).await;
}

#[tokio::test]
async fn a_linkerd_proxy_is_known_by_its_dns_name() {
    let ca = TestCa::new("cluster.local");
    let good = ca.credentials("cart");
    let linkerd = ca.issue_flawed("web", Flaw::DnsOnly);
    let name = PeerName::Dns(ca.peer("web").server_name);
    let (served, _) =
        meet(good.server(), careless_client(&linkerd), &ca.peer("cart").server_name).await;
    assert_eq!(served.unwrap().peer.as_ref(), Some(&name));
    let peer = PeerIdentity { name: name.clone(), ..ca.peer("web") };
    let (_, asked) =
        meet(careless_server(&linkerd), good.client(&peer, Alpn::None), &peer.server_name).await;
    assert_eq!(asked.unwrap().peer, Some(name));
    // And it is not taken for the SPIFFE ID of the same name.
    let peer = ca.peer("web");
    let (_, asked) =
        meet(careless_server(&linkerd), good.client(&peer, Alpn::None), &peer.server_name).await;
    assert_eq!(asked.unwrap_err().as_str(), "wrong_name");
}

#[tokio::test]
async fn a_client_without_certificate() {
    let ca = TestCa::new("cluster.local");
    let peer = ca.peer("control");
    let check = async |terms, expected: Result<Option<PeerName>, Refused>| {
        let credentials = Credentials::new(ca.credential("control"), ca.anchors(), terms);
        let client = client::config(None, &ca.anchors(), &peer, Alpn::None, Arc::new(Clock::now()));
        let (served, _) = meet(credentials.server(), client, &peer.server_name).await;
        assert_eq!(served.map(|connected| connected.peer), expected);
    };
    check(server::MESH, Err(Refused::NoCertificate)).await;
    check(server::CONTROL, Ok(None)).await;
}

#[tokio::test]
async fn application_protocols() {
    let ca = TestCa::new("cluster.local");
    let web = ca.credentials("web");
    let peer = ca.peer("cart");
    let check = async |terms, asked, expected: Result<Alpn, Refused>| {
        let cart = Credentials::new(ca.credential("cart"), ca.anchors(), terms);
        let (served, _) = meet(cart.server(), web.client(&peer, asked), &peer.server_name).await;
        assert_eq!(served.map(|connected| connected.alpn), expected, "{terms:?} {asked:?}");
    };
    check(server::MESH, Alpn::None, Ok(Alpn::None)).await;
    check(server::MESH, Alpn::Transport, Ok(Alpn::Transport)).await;
    check(server::MESH, Alpn::Http2, Err(Refused::ApplicationProtocol)).await;
    check(server::CONTROL, Alpn::Http2, Ok(Alpn::Http2)).await;
    // A server that ignores ALPN would take the transport header for the application's bytes.
    let parts = ca.issue("cart");
    let client = web.client(&peer, Alpn::Transport);
    let (_, asked) = meet(careless_server(&parts), client, &peer.server_name).await;
    assert_eq!(asked.unwrap_err(), Refused::ApplicationProtocol);
}

#[tokio::test]
async fn sessions_resume_with_the_same_peer_and_end_with_the_credentials() {
    let ca = TestCa::new("cluster.local");
    let (web, cart) = (ca.credentials("web"), ca.credentials("cart"));
    let peer = ca.peer("cart");
    let both = |(served, asked): (ServerSide, ClientSide)| {
        assert_eq!(served.peer, Some(PeerName::Spiffe(ca.identity("web"))));
        assert_eq!(asked.peer, Some(PeerName::Spiffe(ca.identity("cart"))));
        assert_eq!(served.resumed, asked.resumed);
        served.resumed
    };
    assert!(!both(meet_well(&cart, &web, &peer).await));
    for _ in 0..5 {
        assert!(both(meet_well(&cart, &web, &peer).await), "each session brings the next ticket");
    }
    let renewed = ca.credentials("cart");
    assert!(!both(meet_well(&renewed, &web, &peer).await), "the server's renewal ends sessions");
    assert!(both(meet_well(&renewed, &web, &peer).await));
    let renewed_client = ca.credentials("web");
    assert!(!both(meet_well(&renewed, &renewed_client, &peer).await), "and so does the client's");
}

/// While one root replaces the other: a credential of the old one among both, then of the new one among the new one alone.
#[tokio::test]
async fn a_credential_among_other_roots() {
    let (old, new) = (TestCa::new("cluster.local"), TestCa::new("cluster.local"));
    let both =
        Anchors::from_pem((old.anchors_pem() + &new.anchors_pem()).as_bytes(), "cluster.local");
    let both = both.unwrap();
    assert_eq!(both.known(), [old.anchors().known(), new.anchors().known()].concat());

    let (web, cart) = (old.credentials("web"), old.credentials("cart"));
    meet_well(&cart, &web, &old.peer("cart")).await;
    let (web, cart) = (web.among(both.clone(), server::MESH), cart.among(both, server::MESH));
    let (web, cart) = (web.unwrap(), cart.unwrap());
    let (served, _) = meet_well(&cart, &web, &old.peer("cart")).await;
    assert!(!served.resumed, "a session rests on the roots by which it was made");

    // Somebody of the new root, who trusts both: each way.
    let late = Credentials::new(new.credential("late"), web.anchors().clone(), server::MESH);
    meet_well(&cart, &late, &old.peer("cart")).await;
    meet_well(&late, &web, &new.peer("late")).await;

    let without = |credentials: &Credentials, roots: &TestCa| {
        credentials.among(roots.anchors(), server::MESH).map(drop).unwrap_err()
    };
    let (old_left_out, new_left_out) = (without(&web, &new), without(&late, &old));
    // Roots of tests have one name, and other keys.
    assert_eq!(old_left_out, CredentialError::Refused(Refused::BadSignature));
    assert_eq!(new_left_out, CredentialError::Refused(Refused::BadSignature));
    late.among(new.anchors(), server::MESH).unwrap();
}

/// A server that is somebody else says so before it shows a certificate.
#[tokio::test]
async fn a_server_that_is_not_whom_one_asks_for() {
    let ca = TestCa::new("cluster.local");
    let peer = ca.peer("cart");
    let (near, mut far) = tokio::io::duplex(64 * 1024);
    let config = ca.credentials("web").client(&peer, Alpn::None);
    let turn_away = async {
        let mut words = vec![0; hello::HELLO_BYTES_MAX];
        let count = far.read(&mut words).await.unwrap();
        assert!(matches!(hello::sni(&words[..count]), hello::Hello::Sni(Some(_))));
        far.write_all(&hello::UNRECOGNIZED_NAME).await.unwrap();
        far.shutdown().await.unwrap();
    };
    let asking = client::connect(config, &peer.server_name, near, WAIT_MAX);
    let (asked, ()) = tokio::join!(asking, turn_away);
    let refused = asked.map(drop).unwrap_err();
    assert_eq!((&refused, refused.as_str()), (&Refused::Other, "wrong_name"));
}

#[tokio::test]
async fn a_session_does_not_outlive_the_certificate_of_either_peer() {
    let ca = TestCa::new("cluster.local");
    let peer = ca.peer("cart");
    let check = async |server_clock_moves: bool, client_clock_moves: bool| {
        let (near, far) = (Arc::new(Clock::now()), Arc::new(Clock::now()));
        let web = Credentials::at(ca.credential("web"), ca.anchors(), server::MESH, near.clone());
        let cart = Credentials::at(ca.credential("cart"), ca.anchors(), server::MESH, far.clone());
        meet_well(&cart, &web, &peer).await;
        // Leaves live for an hour, tickets of rustls for a day.
        let later = 2 * 3600;
        far.0.fetch_add(if server_clock_moves { later } else { 0 }, Ordering::Relaxed);
        near.0.fetch_add(if client_clock_moves { later } else { 0 }, Ordering::Relaxed);
        let (served, asked) =
            meet(cart.server(), web.client(&peer, Alpn::None), &peer.server_name).await;
        let refused = if server_clock_moves { served.err() } else { asked.err() };
        assert_eq!(refused.unwrap().as_str(), "expired");
    };
    check(true, false).await;
    check(false, true).await;
}

#[tokio::test]
async fn what_is_not_tls_1_3_is_refused() {
    let ca = TestCa::new("cluster.local");
    let config = ca.credentials("web").server();
    let check = async |bytes: &[u8], expected: &str| {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        near.write_all(bytes).await.unwrap();
        near.shutdown().await.unwrap();
        let refused = server::accept(config.clone(), far, WAIT_MAX).await.unwrap_err();
        assert_eq!(refused.as_str(), expected, "{refused}");
    };
    check(b"GET / HTTP/1.1\r\nhost: web\r\n\r\n", "not_tls").await;
    check(b"", "closed").await;
    check(&tls_1_2_hello()[..20], "closed").await;
    check(&tls_1_2_hello(), "protocol_version").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up() {
    let ca = TestCa::new("cluster.local");
    let (near, far) = tokio::io::duplex(64 * 1024);
    let refused = server::accept(ca.credentials("web").server(), far, WAIT_MAX).await.unwrap_err();
    assert_eq!(refused, Refused::Timeout(WAIT_MAX));
    let client = ca.credentials("web").client(&ca.peer("cart"), Alpn::None);
    let name = ca.peer("cart").server_name;
    let (_far, near_again) = tokio::io::duplex(64 * 1024);
    let refused = client::connect(client, &name, near_again, WAIT_MAX).await.unwrap_err();
    assert_eq!(refused, Refused::Timeout(WAIT_MAX));
    drop(near);
}

#[test]
fn credentials_are_checked_before_use() {
    let ca = TestCa::new("cluster.local");
    let credential = |flaw| {
        let mut parts = ca.issue_flawed("web", flaw);
        let leaf = parts.chain.remove(0);
        Credential::from_parts(parts.key, leaf, parts.chain, &ca.anchors(), UnixTime::now())
    };
    let good = credential(Flaw::None).unwrap();
    assert_eq!(good.identity(), &ca.identity("web"));
    assert_eq!(good.dns_names(), [ca.peer("web").server_name]);
    assert_eq!(good.links().len(), 2);
    let validity = good.validity();
    assert_eq!(validity.not_after - validity.not_before, 2 * 3600);
    assert!(validity.check(UnixTime::now().as_secs()).is_ok());
    for (flaw, expected) in SPECIFICATION {
        match credential(flaw).unwrap_err() {
            CredentialError::Refused(refused) => assert_eq!(refused.as_str(), expected),
            CredentialError::OtherKey => assert_eq!(flaw, Flaw::OtherKey),
            other => panic!("{flaw:?}: {other}"),
        }
    }
    assert_eq!(
        credential(Flaw::DnsOnly).unwrap_err(),
        CredentialError::NoSpiffeId(ca.peer("web").server_name)
    );
}

#[test]
fn client_configurations_are_kept_and_bounded() {
    let ca = TestCa::new("cluster.local");
    let web = ca.credentials("web");
    let at = |port: u16| web.client_at(&ca.peer("cart"), Alpn::None, ([10, 0, 0, 1], port).into());
    let first = at(1);
    assert!(Arc::ptr_eq(&first, &at(1)));
    assert!(!Arc::ptr_eq(&first, &at(2)));
    assert!(!Arc::ptr_eq(&first, &web.client(&ca.peer("cart"), Alpn::None)));
    for port in 0..=u16::try_from(2 * leno_tls::credential::CLIENTS_MAX).unwrap() {
        at(port);
    }
    assert!(Arc::ptr_eq(&first, &at(1)), "what is in use is not forgotten");
}

#[test]
fn no_key_is_printed() {
    let ca = TestCa::new("cluster.local");
    let key = leno_tls::csr::Key::generate().unwrap();
    assert_eq!(format!("{key:?}"), "Key(…)");
    let credentials = format!("{:?}", ca.credentials("web"));
    assert!(!credentials.contains("key"), "{credentials}");
}

#[test]
fn a_request_asks_for_both_names() {
    let ca = TestCa::new("cluster.local");
    let key = leno_tls::csr::Key::generate().unwrap();
    let peer = ca.peer("web");
    let request = key.request(&ca.identity("web"), &peer.server_name).unwrap();
    let mut chain = ca.sign(&request, Duration::from_secs(60));
    let leaf = chain.remove(0);
    let credential =
        Credential::from_parts(key.into_der(), leaf, chain, &ca.anchors(), UnixTime::now())
            .unwrap();
    assert_eq!(credential.identity(), &ca.identity("web"));
    assert_eq!(credential.dns_names(), [peer.server_name]);
}

/// A clock that a test moves.
#[derive(Debug)]
struct Clock(AtomicU64);

impl Clock {
    fn now() -> Self {
        Self(AtomicU64::new(UnixTime::now().as_secs()))
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// Shows whatever certificate it has, and asks for none.
fn careless_server(parts: &Parts) -> Arc<ServerConfig> {
    Arc::new(
        ServerConfig::builder_with_provider(leno_tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certified(parts))),
    )
}

/// Shows whatever certificate it has, and believes everything.
fn careless_client(parts: &Parts) -> Arc<ClientConfig> {
    Arc::new(
        ClientConfig::builder_with_provider(leno_tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Believer))
            .with_client_cert_resolver(Arc::new(certified(parts))),
    )
}

fn certified(parts: &Parts) -> SingleCertAndKey {
    let key = leno_tls::provider().key_provider.load_private_key(parts.key.clone_key()).unwrap();
    CertifiedKey::new(parts.chain.clone(), key).into()
}

#[derive(Debug)]
struct Believer;

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::AlertReceived(AlertDescription::ProtocolVersion))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        leno_tls::provider().signature_verification_algorithms.supported_schemes()
    }
}

/// As an old client would send it: one suite, two groups, no supported_versions.
fn tls_1_2_hello() -> Vec<u8> {
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 29][..], // supported_groups: x25519
        &[0, 13, 0, 4, 0, 2, 4, 3],      // signature_algorithms: ecdsa_secp256r1_sha256
        &[0, 11, 0, 2, 1, 0],            // ec_point_formats: uncompressed
        &[0, 23, 0, 0],                  // extended_master_secret
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]); // random
    body.push(0); // session
    body.extend([0, 2, 0xc0, 0x2b]); // ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    body.extend([1, 0]); // no compression
    body.extend([0, u8::try_from(extensions.len()).unwrap()]);
    body.extend(extensions);
    let length = u8::try_from(body.len()).unwrap();
    let mut hello = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    hello.extend(body);
    hello
}

/// A client outside of the mesh (the API server): it knows the server by name and shows no certificate.
#[tokio::test]
async fn a_webhook_is_served_to_who_trusts_its_root() {
    use leno_tls::Serving;
    use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::PrivatePkcs8KeyDer;
    const NAME: &str = "leno-injector.leno.svc";
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new([NAME.to_owned()]).unwrap().signed_by(&key, &root).unwrap();
    let der = |key: &KeyPair| PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let serving = |key: &KeyPair, roots: &[CertificateDer<'static>], name: &str| {
        Serving::new(vec![leaf.der().clone()], der(key), roots, name, UnixTime::now())
    };
    let roots = [root.der().clone()];
    let good = serving(&key, &roots, NAME).unwrap();
    let wrong = |outcome: Result<Serving, CredentialError>| outcome.unwrap_err().to_string();
    let stranger = KeyPair::generate().unwrap();
    assert!(wrong(serving(&stranger, &roots, NAME)).contains("does not match"));
    assert!(wrong(serving(&key, &[], NAME)).contains("does not lead"));
    assert!(wrong(serving(&key, &roots, "other.leno.svc")).contains("would reject"));

    let trusting = |roots: &[CertificateDer<'static>], versions| {
        let mut store = rustls::RootCertStore::empty();
        roots.iter().for_each(|root| store.add(root.clone()).unwrap());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(store)
            .with_no_client_auth();
        Arc::new(config)
    };
    let name = DnsName::parse(NAME).unwrap();
    let (tls13, tls12) = ([&rustls::version::TLS13], [&rustls::version::TLS12]);
    let (served, asked) = meet(good.config(), trusting(&roots, &tls13), &name).await;
    assert_eq!(served.unwrap().peer, None);
    asked.unwrap();
    let (served, _) = meet(good.config(), trusting(&roots, &tls12), &name).await;
    assert_eq!(served.unwrap_err(), Refused::ProtocolVersion);
    let (_, asked) = meet(good.config(), trusting(&[], &tls13), &name).await;
    assert!(asked.is_err());
}
