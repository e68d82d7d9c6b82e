//! Several replicas, each with the record of its own proxies: one answer holds all of them, and names those that are missing.

use super::client::{Mesh, POD, SERVICES, world};
use super::workload;
use leno_api::record;
use leno_api::replica::{ReadMessage, service};
use leno_control::admin::{self, Pages};
use leno_control::limit::REPLICA_WAIT_MAX;
use leno_control::metrics::Metrics;
use leno_control::source::layers::Layers;
use leno_control::source::parse::parse;
use leno_control::world::MeshNames;
use leno_model::name::PeerName;
use leno_model::policy::PeerTls;
use leno_model::record::{Entry, Outcome, Request, Version};
use leno_runtime::tasks;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tonic::Code;

/// A pod of the control plane.
fn control_pod(name: &str, ip: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: leno}}
spec: {{serviceAccountName: leno-control, containers: []}}
status: {{podIP: {ip}, conditions: [{{type: Ready, status: 'True'}}]}}
"
    )
}

/// A proxy of `web` reports that a client called.
async fn reports(mesh: &Mesh, client: &str) {
    let entry = Entry {
        client: PeerTls::Established(Some(PeerName::Spiffe(mesh.spiffe(client)))),
        network: "10.0.0.0/24".parse().unwrap(),
        port: 8080,
        request: Some(Request { version: Version::Http1, method: "GET".into(), path: "/".into() }),
        outcome: Outcome::Allowed,
        rule: "default all-unauthenticated".into(),
    };
    let message = record::to_messages(&workload("web-1"), [(entry, 3)], 0).remove(0);
    record::service::report(mesh.channel(Some("web")).await, message).await.unwrap();
}

/// What an operator gets from the admin listener of a replica.
async fn asked(mesh: &Mesh, texts: &[&str], path: &str) -> Value {
    let mut layers = Layers::default();
    layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), &texts.concat()));
    let pages = Pages {
        worlds: watch::channel(world(texts, 1)).1,
        inventories: watch::channel(Arc::new(layers.inventory())).1,
        names: MeshNames::default(),
        record: mesh.record.clone(),
        applied: mesh.applied.clone(),
        replicas: mesh.replicas.clone(),
        metrics: Arc::new(Metrics::default()),
        expiries: watch::channel(Vec::new()).1,
        webhook: false,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _serving = tasks::spawn_owned("admin", admin::serve(listener, pages));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn one_answer_holds_the_records_of_all_replicas() {
    let first = Mesh::start(&[]).await;
    let pods =
        [control_pod("leno-control-1", "127.0.0.1"), control_pod("leno-control-2", "127.0.0.2")];
    let texts = [SERVICES, POD, &pods[0], &pods[1]];
    first.world(&texts);
    let second = first.replica("127.0.0.2", &texts).await;
    reports(&first, "cart").await;
    reports(&second, "cart").await;
    reports(&second, "till").await;
    for mesh in [&first, &second] {
        let answer = asked(mesh, &texts, "/diagnostics/suggest?namespace=shop").await;
        let yaml = answer["yaml"].as_str().unwrap();
        assert!(yaml.contains("cart") && yaml.contains("till"), "{answer:#}");
        assert_eq!(answer["missing"], serde_json::json!([]), "{answer:#}");
        // Each asks itself too, as no pod has the name of its host, and counts that answer not again.
        for path in ["/diagnostics/record?namespace=shop", "/diagnostics/record"] {
            let record = asked(mesh, &texts, path).await;
            let traffic = record["workloads"][0]["traffic"].as_array().unwrap();
            let counts: Vec<_> = traffic.iter().map(|one| one["count"].as_u64().unwrap()).collect();
            assert_eq!(counts, [6, 3], "{record:#}");
        }
    }
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_replica_that_hangs_is_named_in_time() {
    let mesh = Mesh::start(&[]).await;
    // Neither of them is a control plane: one accepts nothing, and nobody listens at the other.
    let _hangs = TcpListener::bind(("127.0.0.2", mesh.address.port())).await.unwrap();
    let pods =
        [control_pod("leno-control-2", "127.0.0.2"), control_pod("leno-control-3", "127.0.0.3")];
    let texts = [SERVICES, POD, &pods[0], &pods[1]];
    mesh.world(&texts);
    reports(&mesh, "cart").await;
    let began = Instant::now();
    let answer = asked(&mesh, &texts, "/diagnostics/suggest?namespace=shop").await;
    let took = began.elapsed();
    assert!(took < REPLICA_WAIT_MAX + Duration::from_secs(1), "{took:?}");
    assert!(answer["yaml"].as_str().unwrap().contains("cart"), "{answer:#}");
    let missing = |at: usize, field: &str| answer["missing"][at][field].as_str().unwrap();
    assert_eq!(missing(0, "replica"), "leno-control-2");
    assert_eq!(missing(0, "reason"), "it did not answer within 2 s");
    assert_eq!(missing(1, "replica"), "leno-control-3");
    assert!(missing(1, "reason").starts_with("cannot connect to 127.0.0.3:"), "{answer:#}");
    mesh.stop().await;
}

/// A server that is not a replica gets no question, and a client that is not one no answer.
#[tokio::test]
async fn only_replicas_answer_and_are_answered() {
    let mesh = Mesh::start(&[]).await;
    let stranger = Mesh::start(&[]).await;
    let message = || ReadMessage { part: "record".into(), namespace: String::new() };
    let code = async |account: Option<&str>| {
        let answer = service::read(mesh.channel(account).await, message(), 1 << 20).await;
        answer.unwrap_err().code()
    };
    assert_eq!(code(None).await, Code::Unauthenticated);
    assert_eq!(code(Some("web")).await, Code::PermissionDenied);
    // Of another mesh.
    let other = stranger.replica("127.0.0.4", &[]).await;
    let pod = control_pod("leno-control-4", "127.0.0.4");
    let texts = [SERVICES, POD, &pod];
    let asking = mesh.asking(other.address.port(), &texts);
    let answers = asking.read(leno_control::replicas::Part::Record, None).await;
    let (pod, answer) = &answers[0];
    let why = answer.as_ref().unwrap_err().to_string();
    assert_eq!(&**pod, "leno-control-4");
    assert!(why.starts_with("the TLS handshake with 127.0.0.4:"), "{why}");
    for one in [mesh, stranger, other] {
        one.stop().await;
    }
}
