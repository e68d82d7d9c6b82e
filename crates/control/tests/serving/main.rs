//! Every service over real TLS on loopback: who may ask, what is answered, and how answers follow the world.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod client;
mod crowd;
mod doors;
mod frozen;
mod linkerd;
mod replicas;

use client::{Mesh, POD, SERVICES};
use leno_api::{applied, destination, inbound, outbound, record};
use leno_control::applied::answer::Answer;
use leno_model::name::WorkloadId;
use leno_model::policy::{InboundProtocol, PeerTls};
use leno_model::record::{Entry, Outcome};
use leno_model::route::OutboundProtocol;
use leno_model::workload::{EndpointSet, EndpointUpdate};
use linkerd2_proxy_api::destination::GetDestination;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::identity::identity_client::IdentityClient;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tonic::{Code, Streaming};

/// Nothing on loopback takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

async fn next<T>(stream: &mut Streaming<T>) -> Result<Option<T>, tonic::Status> {
    timeout(PATIENCE, stream.message()).await.expect("an answer in time")
}

fn workload(pod: &str) -> WorkloadId {
    WorkloadId { namespace: "shop".into(), pod: pod.into() }
}

fn get(path: &str) -> GetDestination {
    destination::request(path, "")
}

#[tokio::test]
async fn identity_needs_a_token_and_everything_else_a_certificate() {
    let mesh = Mesh::start(&[]).await;
    let mut identity = IdentityClient::new(mesh.channel(None).await);
    let certify = |token: &str, account: &str| mesh.certify_request(token, account);
    let token = mesh.token("web");
    let answer = identity.certify(certify(&token, "web")).await.unwrap().into_inner();
    assert_eq!(answer.intermediate_certificates.len(), 1);
    let life = leno_tls::validity::read(&answer.leaf_certificate).unwrap();
    assert_eq!(answer.valid_until.unwrap().seconds as u64, life.not_after);
    let refused = identity.certify(certify(&token, "admin")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = identity.certify(certify("nonsense", "web")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);

    let nobody = async || mesh.channel(None).await;
    let target = "10.96.0.1:80".parse().unwrap();
    let asked = outbound::request(&workload("web-1"), target);
    let code = OutboundPoliciesClient::new(nobody().await).get(asked).await.unwrap_err().code();
    assert_eq!(code, Code::Unauthenticated);
    let asked = inbound::request(&workload("web-1"), 80);
    let code = InboundServerPoliciesClient::new(nobody().await).watch_port(asked).await;
    assert_eq!(code.unwrap_err().code(), Code::Unauthenticated);
    let mut client = DestinationClient::new(nobody().await);
    let asked = get("web.shop.svc.cluster.local:80");
    assert_eq!(client.get(asked.clone()).await.unwrap_err().code(), Code::Unauthenticated);
    // linkerd's proxies connect before they have a certificate, and come back with one only when the connection has ended.
    let ended = async {
        while client.get(asked.clone()).await.unwrap_err().code() == Code::Unauthenticated {}
    };
    timeout(PATIENCE, ended).await.expect("no second question on a connection without certificate");
    mesh.stop().await;
}

/// A report about a pod from a workload, and what the record has then.
#[tokio::test]
async fn a_proxy_reports_for_its_own_workload_only() {
    let mesh = Mesh::start(&[POD]).await;
    let entry = Entry {
        client: PeerTls::None,
        network: "10.0.0.0/24".parse().unwrap(),
        port: 80,
        request: None,
        outcome: Outcome::Allowed,
        rule: "default all-unauthenticated".into(),
    };
    let report = async |account: Option<&str>, of: &WorkloadId| {
        let message = record::to_messages(of, [(entry.clone(), 2)], 0).remove(0);
        record::service::report(mesh.channel(account).await, message).await
    };
    let code = async |account, of: &WorkloadId| report(account, of).await.unwrap_err().code();
    assert_eq!(code(None, &workload("web-1")).await, Code::Unauthenticated);
    assert_eq!(code(Some("other"), &workload("web-1")).await, Code::PermissionDenied);
    assert_eq!(code(Some("web"), &workload("gone")).await, Code::NotFound);
    let elsewhere = WorkloadId { namespace: "bank".into(), pod: "web-1".into() };
    assert_eq!(code(Some("web"), &elsewhere).await, Code::PermissionDenied);
    assert_eq!(mesh.record.all(Instant::now()), []);
    let told = report(Some("web"), &workload("web-1")).await.unwrap();
    assert!(told.interval_seconds > 0);
    let seen = mesh.record.seen("shop", Instant::now());
    assert_eq!(seen[0].entries, [(entry.clone(), 2)]);
    assert_eq!(&*seen[0].workload.2, "web-1");
    mesh.stop().await;
}

/// The numbers of streams are for Leno's proxies; each identity acknowledges its own.
#[tokio::test]
async fn a_proxy_acknowledges_its_own_streams_only() {
    let mesh = Mesh::start(&[SERVICES, POD]).await;
    let channel = mesh.channel(Some("web")).await;
    let asked = || outbound::request(&workload("web-1"), "10.96.0.1:80".parse().unwrap());
    let mut client = OutboundPoliciesClient::new(channel.clone());
    let silent = client.watch(asked()).await.unwrap();
    assert_eq!(applied::stream(silent.metadata()), None);
    let response = client.watch(applied::acknowledged(asked())).await.unwrap();
    let stream = applied::stream(response.metadata()).unwrap();
    let mut messages = response.into_inner();
    next(&mut messages).await.unwrap().unwrap();

    let counts = || {
        let world = mesh.latest();
        let shown = Answer::new(&world, &mesh.applied, Instant::now()).shown();
        ["total", "applied", "silent"].map(|name| shown[name].as_u64().unwrap())
    };
    assert_eq!(counts(), [1, 0, 0]);
    let one = |messages| applied::Acknowledgement { stream, messages, is_rejected: false };
    let report = async |channel, messages: &[u64]| {
        let said: Vec<_> =
            messages.iter().map(|count| applied::to_message(&[one(*count)])).collect();
        applied::service::report(channel, futures_util::stream::iter(said)).await
    };
    let code = async |account, messages: &[u64]| {
        report(mesh.channel(account).await, messages).await.map(drop).map_err(|e| e.code())
    };
    assert_eq!(code(None, &[1]).await, Err(Code::Unauthenticated));
    assert_eq!(code(Some("other"), &[1]).await, Err(Code::PermissionDenied));
    assert_eq!(code(Some("web"), &[0]).await, Err(Code::InvalidArgument));
    assert_eq!(code(Some("web"), &vec![2; 1_000]).await, Err(Code::ResourceExhausted));
    assert_eq!(counts(), [1, 0, 0]);
    report(channel.clone(), &[1]).await.unwrap();
    assert_eq!(counts(), [1, 1, 0]);
    mesh.world(&[&SERVICES.replace("port: 80", "appProtocol: tcp, port: 80"), POD]);
    next(&mut messages).await.unwrap().unwrap();
    assert_eq!(counts(), [1, 0, 0]);
    report(channel, &[2]).await.unwrap();
    assert_eq!(counts(), [1, 1, 0]);
    drop(messages);
    // Only the stream that does not acknowledge is left.
    let left = async {
        while counts() != [0, 0, 1] {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, left).await.expect("the stream ends");
    mesh.stop().await;
}

#[tokio::test]
async fn destinations_follow_the_world_in_deltas() {
    let mesh = Mesh::start(&[SERVICES]).await;
    let mut client = DestinationClient::new(mesh.channel(Some("web")).await);
    let asked = get("web.shop.svc.cluster.local:80");
    let mut stream = client.get(asked.clone()).await.unwrap().into_inner();
    let mut set = EndpointSet::default();
    let mut step = async |stream: &mut Streaming<_>| {
        let message = next(stream).await.unwrap().unwrap();
        let update = destination::from_message(&message).unwrap().update;
        set = set.apply(update.clone());
        (update, set.endpoints.iter().map(|e| e.address.to_string()).collect::<Vec<_>>())
    };
    let (update, _) = step(&mut stream).await;
    assert_eq!(update, EndpointUpdate::None { exists: true });
    mesh.world(&[SERVICES, &POD.replace("web-1", "web-2").replace("10.1.0.1", "10.1.0.2")]);
    assert_eq!(step(&mut stream).await.1, ["10.1.0.2:8080"]);
    // A world that says the same sends nothing; the next message is the next change.
    mesh.world(&[
        SERVICES,
        &POD.replace("web-1", "web-2").replace("10.1.0.1", "10.1.0.2"),
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n",
    ]);
    mesh.world(&[SERVICES, POD]);
    assert_eq!(step(&mut stream).await.1, ["10.1.0.1:8080", "10.1.0.2:8080"]);
    let (update, left) = step(&mut stream).await;
    assert!(matches!(update, EndpointUpdate::Remove(_)), "{update:?}");
    assert_eq!(left, ["10.1.0.1:8080"]);
    // A stream that resumes begins with everything.
    drop(stream);
    let mut stream = client.get(asked).await.unwrap().into_inner();
    let message = next(&mut stream).await.unwrap().unwrap();
    let EndpointUpdate::Add(endpoints) = destination::from_message(&message).unwrap().update else {
        panic!("the whole set first");
    };
    let identity = endpoints[0].identity.as_ref().unwrap();
    assert_eq!(identity.name.as_str(), "spiffe://cluster.local/ns/shop/sa/web");
    assert_eq!(endpoints[0].opaque_transport_port, Some(4143));
    mesh.world(&[]);
    let gone = destination::from_message(&next(&mut stream).await.unwrap().unwrap()).unwrap();
    assert_eq!(gone.update, EndpointUpdate::None { exists: false });

    mesh.world(&[SERVICES, POD]);
    let mut profile = client.get_profile(get("10.96.0.1:80")).await.unwrap().into_inner();
    let first = next(&mut profile).await.unwrap().unwrap();
    assert_eq!(first.fully_qualified_name, "web.shop.svc.cluster.local");
    mesh.stop().await;
    assert!(next(&mut stream).await.unwrap().is_some()); // The endpoint that came back.
    // A drain ends streams with a word that means: ask again.
    assert_eq!(next(&mut stream).await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn outbound_policies_follow_the_world() {
    let mesh = Mesh::start(&[SERVICES, POD]).await;
    let mut client = OutboundPoliciesClient::new(mesh.channel(Some("web")).await);
    let asked = outbound::request(&workload("web-1"), "10.96.0.1:80".parse().unwrap());
    let once = client.get(asked.clone()).await.unwrap().into_inner();
    let mut stream = client.watch(asked).await.unwrap().into_inner();
    let first = next(&mut stream).await.unwrap().unwrap();
    assert_eq!(once, first);
    let policy = outbound::from_message(&first.into()).unwrap();
    assert!(matches!(policy.protocol, OutboundProtocol::Detect { .. }));
    mesh.world(&[&SERVICES.replace("port: 80", "appProtocol: tcp, port: 80"), POD]);
    let policy = outbound::from_message(&next(&mut stream).await.unwrap().unwrap().into()).unwrap();
    assert!(matches!(policy.protocol, OutboundProtocol::Opaque(_)));
    // The Service goes, and its rules on the nodes do later: who has been told of it is not told that its address is outside.
    mesh.world(&[POD]);
    let gone = outbound::request(&workload("web-1"), "10.96.0.1:80".parse().unwrap());
    let policy =
        outbound::from_message(&client.get(gone).await.unwrap().into_inner().into()).unwrap();
    assert_eq!(policy.parent.kind(), "default");
    mesh.world(&[SERVICES, POD]);
    let policy = outbound::from_message(&next(&mut stream).await.unwrap().unwrap().into()).unwrap();
    assert!(matches!(policy.protocol, OutboundProtocol::Detect { .. }));
    assert_eq!(policy.parent.kind(), "Service");
    let stranger = outbound::request(&workload("web-1"), "192.0.2.1:443".parse().unwrap());
    let policy =
        outbound::from_message(&client.get(stranger).await.unwrap().into_inner().into()).unwrap();
    assert_eq!((policy.parent.kind(), policy.parent.name()), ("default", "forward"));
    mesh.stop().await;
}

#[tokio::test]
async fn inbound_policies_are_for_the_workload_itself() {
    let mesh = Mesh::start(&[SERVICES]).await;
    let mut client = InboundServerPoliciesClient::new(mesh.channel(Some("web")).await);
    let asked = inbound::request(&workload("web-1"), 8080);
    assert_eq!(client.get_port(asked.clone()).await.unwrap_err().code(), Code::NotFound);
    // A proxy that is earlier than its pod's manifest waits for it.
    let mut stream = client.watch_port(asked.clone()).await.unwrap().into_inner();
    mesh.world(&[SERVICES, POD]);
    let policy = inbound::from_message(&next(&mut stream).await.unwrap().unwrap()).unwrap();
    assert_eq!(policy.server.name(), "all-unauthenticated");
    let closed = POD.replace(
        "annotations: {",
        "annotations: {leno.dev/default-inbound-policy: deny, leno.dev/opaque-ports: '8080', ",
    );
    mesh.world(&[SERVICES]); // Its pod is gone for a moment: what it has stays.
    mesh.world(&[SERVICES, &closed]);
    let policy = inbound::from_message(&next(&mut stream).await.unwrap().unwrap()).unwrap();
    assert_eq!((policy.server.name(), policy.protocol), ("deny", InboundProtocol::Opaque));
    // Another account of the namespace, and another namespace's workload.
    let mut other = InboundServerPoliciesClient::new(mesh.channel(Some("admin")).await);
    let refused = other.get_port(asked.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused:?}");
    let mut stream = other.watch_port(asked).await.unwrap().into_inner();
    assert_eq!(next(&mut stream).await.unwrap_err().code(), Code::PermissionDenied);
    let foreign = WorkloadId { namespace: "bank".into(), pod: "web-1".into() };
    let refused = client.get_port(inbound::request(&foreign, 80)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    mesh.stop().await;
}

#[tokio::test]
async fn a_slow_reader_gets_the_latest_world_and_holds_up_nobody() {
    let mesh = Mesh::start(&[SERVICES, POD]).await;
    let mut client = OutboundPoliciesClient::new(mesh.channel(Some("web")).await);
    let asked = outbound::request(&workload("web-1"), "10.96.0.1:80".parse().unwrap());
    let mut slow = client.watch(asked.clone()).await.unwrap().into_inner();
    let mut quick = client.watch(asked).await.unwrap().into_inner();
    next(&mut quick).await.unwrap();
    for round in 0..200 {
        let protocol = if round % 2 == 0 { "tcp" } else { "http" };
        let services = SERVICES.replace("port: 80", &format!("appProtocol: {protocol}, port: 80"));
        mesh.world(&[&services, POD]);
        tokio::task::yield_now().await;
    }
    mesh.world(&[&SERVICES.replace("port: 80", "appProtocol: h2c, port: 80"), POD]);
    for stream in [&mut quick, &mut slow] {
        // However many were skipped, the last one says what holds.
        loop {
            let message = next(stream).await.unwrap().unwrap();
            let policy = outbound::from_message(&message.into()).unwrap();
            if matches!(policy.protocol, OutboundProtocol::Http2(_)) {
                break;
            }
        }
    }
    mesh.stop().await;
}
