//! The webhook as an API server meets it: HTTPS, and a Namespace that is known, unknown or slow to be asked about.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use leno_control::metrics::Metrics;
use leno_control::source::Inventory;
use leno_control::webhook::admit::Admission;
use leno_control::webhook::certificate::{Made, authorities, read};
use leno_inject::Mesh;
use leno_runtime::drain::Drain;
use leno_runtime::tasks;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// An API server that knows one Namespace, or does not answer.
#[derive(Clone)]
struct Fake {
    label: Option<&'static str>,
    silent: bool,
}

impl tower_service::Service<Request<Body>> for Fake {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fake = self.clone();
        Box::pin(async move {
            if fake.silent {
                std::future::pending::<()>().await;
            }
            let (status, answer) = match (request.uri().path(), fake.label) {
                ("/api/v1/namespaces/shop", Some(label)) => (
                    StatusCode::OK,
                    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                        "metadata": {"name": "shop", "labels": {"leno.dev/inject": label}}}),
                ),
                _ => (
                    StatusCode::NOT_FOUND,
                    json!({"kind": "Status", "status": "Failure", "code": 404,
                        "reason": "NotFound", "message": "not found"}),
                ),
            };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok(Response::builder().status(status).body(answer).unwrap())
        })
    }
}

fn review(annotations: Value) -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "shop",
        "operation": "CREATE", "dryRun": true,
        // Made by a controller: a prefix of a name, and no namespace in it.
        "object": {"metadata": {"generateName": "web-", "annotations": annotations},
            "spec": {"containers": [{"name": "app"}]}},
    }})
    .to_string()
    .into_bytes()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_newer_than_what_we_know_is_asked_for() {
    let check = async |fake: Fake, annotations: Value, expected: &str| {
        // Nothing is known: the inventory is empty.
        let inventories = watch::channel(Arc::new(Inventory::default())).1;
        let metrics = Arc::new(Metrics::default());
        let client = Client::new(fake, "leno");
        let admission = Admission::new(client, inventories, Mesh::default(), metrics);
        let answer: Value =
            serde_json::from_slice(&admission.answer(&review(annotations)).await).unwrap();
        let response = &answer["response"];
        let shown = match (&response["allowed"], response.get("patch")) {
            (Value::Bool(true), Some(_)) => "patched".to_owned(),
            (Value::Bool(true), None) => "as it is".to_owned(),
            _ => format!("{}: {}", response["status"]["code"], response["status"]["message"]),
        };
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
        assert_eq!(response["uid"], "u");
    };
    let says = |label| Fake { label: Some(label), silent: false };
    check(says("enabled"), json!({}), "patched").await;
    check(says("disabled"), json!({}), "as it is").await;
    check(says("enable"), json!({}), "use enabled or disabled").await;
    let typo = json!({"config.leno.dev/opaque-portz": "25"});
    check(says("enabled"), typo, "did you mean config.leno.dev/opaque-ports").await;
    check(Fake { label: None, silent: false }, json!({}), "503: \"leno: Namespace shop: it does")
        .await;
    check(Fake { label: None, silent: true }, json!({}), "did not return it in time").await;
}

/// More connections than there were places once, half of them with a handshake.
#[tokio::test]
async fn an_idle_crowd_holds_up_no_review() {
    const NAME: &str = "leno-injector.leno.svc";
    let now = leno_control::ca::unix_seconds(SystemTime::now());
    let made = Made::new(NAME, now).unwrap();
    let bundle = made.bundle("", now);
    let serving = read(&made.secret("leno", &bundle), NAME, now).unwrap().serving;
    let fake = Fake { label: Some("enabled"), silent: false };
    let admission = Admission::new(
        Client::new(fake, "leno"),
        watch::channel(Arc::new(Inventory::default())).1,
        Mesh::default(),
        Arc::new(Metrics::default()),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let certificate = watch::channel(Some(serving)).1;
    let webhook = leno_control::webhook::serve(listener, certificate, admission, Drain::new());
    let _serving = tasks::spawn_owned("webhook", webhook);

    let mut roots = RootCertStore::empty();
    authorities(bundle.as_bytes()).into_iter().for_each(|root| roots.add(root).unwrap());
    let config =
        ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&tokio_rustls::rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let connect = async || {
        let stream = TcpStream::connect(address).await.unwrap();
        connector.connect(NAME.try_into().unwrap(), stream).await.unwrap()
    };
    let (mut silent, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..150 {
        silent.push(TcpStream::connect(address).await.unwrap());
        idle.push(connect().await);
    }
    let body = review(json!({}));
    let head = format!(
        "POST /inject HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = Vec::new();
    let asked = async {
        let mut stream = connect().await;
        stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        stream.read_to_end(&mut answer).await.unwrap();
    };
    // Less than the handshake's limit, after which the crowd is gone.
    tokio::time::timeout(Duration::from_secs(4), asked).await.expect("a review has its answer");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer));
}
