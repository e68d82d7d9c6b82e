//! Who gets a certificate: the control plane that runs, asked with tokens that the API server has made, and nobody in between.

use crate::ground::kubectl::{self, Forward};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::{Worker, account};
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use h2::client::SendRequest;
use leno_model::name::{PeerName, SpiffeId};
use leno_model::workload::PeerIdentity;
use leno_tests::wait::{LIMIT, until};
use leno_tls::csr::Key;
use leno_tls::{Alpn, Anchors, Credential, UnixTime, client};
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use prost::Message as _;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

const TRUST_DOMAIN: &str = "cluster.local";
const CONTROL_PORT: u16 = 8086;
const METHOD: &str = "https://leno-control/io.linkerd.proxy.identity.Identity/Certify";
/// Before each message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
const OURS: &str = "--audience=leno.dev/identity";
const OTHER: &str = "--audience=leno.dev/other";
/// To the pod `web`.
const BOUND: [&str; 2] = ["--bound-object-kind=Pod", "--bound-object-name=web"];

#[test]
fn a_token_is_worth_its_own_pods_identity_and_nothing_else() {
    let place = Place::plain("leno-test-identity");
    let pod = Worker::new("web").pod("web", &place.name);
    place.apply(&[account("web"), account("admin"), pod.clone()]);
    let control = Control::reach();
    let good = token(&place, &[OURS, BOUND[0], BOUND[1]]);
    let other = token(&place, &[OTHER, BOUND[0], BOUND[1]]);
    let usual = token(&place, &BOUND);
    let unbound = token(&place, &[OURS]);
    let (web, admin) = (id(&place, "web"), id(&place, "admin"));
    //                    token    asks for  its request names
    let rows = [
        ("good", &good, &web, &web, "certified"),
        ("of another audience", &other, &web, &web, "16: the token was rejected"),
        ("for the API server", &usual, &web, &web, "16: the token was rejected"),
        (
            "bound to no pod",
            &unbound,
            &web,
            &web,
            "16: the token was rejected: it is not a service-account token that is bound",
        ),
        ("for another", &good, &admin, &admin, "7: the token is for spiffe://"),
        ("for another in the request", &good, &web, &admin, "7: the token is for spiffe://"),
        ("for another in its name", &good, &admin, &web, "7: the token is for spiffe://"),
        ("good again", &good, &web, &web, "certified"),
    ];
    for (case, token, asked, named, expected) in rows {
        control.check(case, token, asked, named, expected);
    }
    place.kubectl(&["delete", "pod", "web", "--wait"]).expect("deleted");
    let deleted = Instant::now();
    // API servers keep an answer for some seconds.
    until("a refusal of the token of a pod that is gone", READY_WAIT, || {
        sleep(Duration::from_millis(500));
        let said = control.certify(&good, &web, &web);
        assert!(said == "certified" || said.starts_with("16: the token was rejected"), "{said}");
        (said != "certified").then(|| println!("{:.1?} after its end: {said}", deleted.elapsed()))
    });
    place.apply(&[pod]);
    let next = token(&place, &[OURS, BOUND[0], BOUND[1]]);
    control.check("of the next pod of this name", &next, &web, &web, "certified");
    control.check("of the last", &good, &web, &web, "16: the token was rejected");
    nothing_of_them_is_written(&[&good, &other, &usual, &unbound, &next]);
}

fn token(place: &Place, flags: &[&str]) -> String {
    let words = [&["create", "token", "web"], flags].concat();
    place.kubectl(&words).expect("a token").trim().to_owned()
}

fn id(place: &Place, account: &str) -> SpiffeId {
    SpiffeId::service_account(TRUST_DOMAIN, &place.name, account).expect("an identity")
}

/// What was refused is in the log, and no token is.
fn nothing_of_them_is_written(tokens: &[&str]) {
    let words = ["-n", "leno", "logs", "deployment/leno-control", "--since=10m"];
    let log = kubectl::run(&words).expect("the control plane's log");
    assert!(log.contains("certificate request rejected: the token was rejected"), "{log}");
    for part in tokens.iter().flat_map(|token| token.split('.').skip(1)) {
        assert!(!log.contains(part), "a part of a token is in the log");
    }
}

/// The control plane's identity service, as a proxy without a certificate sees it.
struct Control {
    forward: Forward,
    runtime: Runtime,
    anchors: Anchors,
    peer: PeerIdentity,
}

impl Control {
    fn reach() -> Self {
        let words = ["-n", "leno", "get", "configmap/leno-trust-anchors", "-o", "json"];
        let map = kubectl::json(&words).expect("the roots");
        let pem = map["data"]["trust-anchors.pem"].as_str().expect("roots in PEM");
        let anchors = Anchors::from_pem(pem.as_bytes(), TRUST_DOMAIN).expect("roots");
        let name = SpiffeId::service_account(TRUST_DOMAIN, "leno", "leno-control");
        let name = name.expect("the control plane's identity");
        let server_name = name.to_dns_like("leno").expect("its other name");
        let peer = PeerIdentity { name: PeerName::Spiffe(name), server_name };
        let forward = kubectl::forward("leno", "deployment/leno-control", CONTROL_PORT);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a reactor");
        Self { forward: forward.expect("the control plane's port"), runtime, anchors, peer }
    }

    #[track_caller]
    fn check(&self, case: &str, token: &str, asked: &SpiffeId, named: &SpiffeId, expected: &str) {
        let said = self.certify(token, asked, named);
        println!("{case}: {said}");
        assert!(said.starts_with(expected), "{case}: {said}\nshould begin with\n{expected}");
    }

    /// `certified`, when there is a certificate and it says what it must; else the status and why.
    fn certify(&self, token: &str, asked: &SpiffeId, named: &SpiffeId) -> String {
        let dns = |id: &SpiffeId| id.to_dns_like("leno").expect("the other name");
        let key = Key::generate().expect("a key");
        let request = CertifyRequest {
            identity: dns(asked).to_string(),
            token: token.as_bytes().to_vec(),
            certificate_signing_request: key.request(named, &dns(named)).expect("a request"),
        };
        let answer = self.runtime.block_on(Box::pin(self.ask(&request))).expect("an answer");
        let answer = match answer {
            Ok(answer) => answer,
            Err(refusal) => return refusal,
        };
        let intermediates = answer.intermediate_certificates.into_iter().map(Into::into).collect();
        let leaf = answer.leaf_certificate.into();
        let (key, now) = (key.into_der(), UnixTime::now());
        let credential = Credential::from_parts(key, leaf, intermediates, &self.anchors, now);
        let credential = credential.expect("a certificate that the mesh's roots vouch for");
        assert_eq!(credential.identity(), asked);
        assert_eq!(credential.dns_names(), [dns(asked)]);
        "certified".to_owned()
    }

    /// On a connection of its own, without a certificate: the token is the proof.
    async fn ask(&self, request: &CertifyRequest) -> Result<Result<CertifyResponse, String>> {
        let stream = TcpStream::connect(self.forward.address).await?;
        let config = client::nameless(&self.anchors, &self.peer, Alpn::Http2);
        let name = &self.peer.server_name;
        let connected = client::connect(config, name, stream, LIMIT).await?;
        let (sender, connection) = h2::client::handshake(connected.stream).await?;
        tokio::select! {
            answer = tokio::time::timeout(LIMIT, call(sender, request)) => answer?,
            ended = connection => bail!("the connection has ended: {ended:?}"),
        }
    }
}

/// gRPC as it is on the wire: a message in, a message or a status out.
async fn call(
    sender: SendRequest<Bytes>,
    request: &CertifyRequest,
) -> Result<Result<CertifyResponse, String>> {
    let head = http::Request::post(METHOD).header("content-type", "application/grpc");
    let head = head.header("te", "trailers").body(())?;
    let (answer, mut body) = sender.ready().await?.send_request(head, false)?;
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len())?.to_be_bytes();
    body.send_data([&[0], &length[..], &message].concat().into(), true)?;
    let (head, mut body) = answer.await?.into_parts();
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        bytes.extend(part?);
    }
    // A refusal has nothing but a head.
    let end = body.trailers().await?.unwrap_or(head.headers);
    let field = |name: &str| end.get(name).and_then(|value| value.to_str().ok());
    match field("grpc-status").context("no status")? {
        "0" => Ok(Ok(CertifyResponse::decode(bytes.get(PREFIX_BYTES..).context("no message")?)?)),
        code => {
            let why = field("grpc-message").unwrap_or_default();
            Ok(Err(format!("{code}: {}", why.replace("%20", " ").replace("%22", "\""))))
        }
    }
}
