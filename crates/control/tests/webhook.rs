//! The webhook as an API server meets it: HTTPS, and a Namespace that is known, unknown or slow to be asked about.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use leno_control::metrics::Metrics;
use leno_control::source::Inventory;
use leno_control::webhook::admit::Admission;
use leno_inject::Mesh;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;

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
