//! Tokens and what an API server says of them, through a fake one.

use super::*;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;

const NOW: u64 = 1_800_000_000;

/// A token with these claims changed, which nobody signed.
fn token_with(change: impl FnOnce(&mut Value)) -> String {
    let mut claims = json!({
        "aud": [AUDIENCE], "exp": NOW + 600, "iat": NOW, "nbf": NOW,
        "iss": "https://kubernetes.default.svc", "jti": "x",
        "kubernetes.io": {"namespace": "shop", "node": {"name": "n1", "uid": "1"},
            "pod": {"name": "web-1", "uid": "0f1e"}, "serviceaccount": {"name": "web", "uid": "6a7e"}},
        "sub": "system:serviceaccount:shop:web",
    });
    change(&mut claims);
    let part = |value: Value| {
        base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, value.to_string())
    };
    format!("{}.{}.c2lnbg", part(json!({"alg": "RS256", "kid": "a"})), part(claims))
}

fn token() -> String {
    token_with(|_| ())
}

/// An API server that has one answer, and remembers what it was asked.
#[derive(Clone)]
struct Fake {
    status: StatusCode,
    answer: String,
    /// Answers wait for this.
    held: Option<Arc<Notify>>,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Fake {
    fn new(status: StatusCode, answer: String) -> Self {
        Self { status, answer, held: None, asked: Arc::default() }
    }

    fn reviewer(&self) -> Reviewer {
        Reviewer::new(Client::new(self.clone(), "leno"))
    }
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
            assert_eq!(request.uri().path(), "/apis/authentication.k8s.io/v1/tokenreviews");
            assert_eq!(request.method(), http::Method::POST);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            fake.asked.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            if let Some(held) = &fake.held {
                held.notified().await;
            }
            let answer = Body::from(fake.answer.into_bytes());
            Ok(Response::builder().status(fake.status).body(answer).unwrap())
        })
    }
}

fn review(status: Value) -> String {
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "metadata": {}, "spec": {"token": "t"}, "status": status,
    })
    .to_string()
}

/// A good answer, changed at one place.
fn good(pointer: &str, value: Value) -> Value {
    let mut status = json!({
        "authenticated": true,
        "audiences": [AUDIENCE],
        "user": {
            "username": "system:serviceaccount:shop:web",
            "uid": "6a7e",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {POD_NAME: ["web-1"], POD_UID: ["0f1e"]},
        },
    });
    if let Some(place) = status.pointer_mut(pointer).filter(|_| !pointer.is_empty()) {
        *place = value;
    }
    status
}

fn shown(outcome: Result<Attested, Refused>) -> String {
    match outcome {
        Ok(who) => format!("{}/{}/{}", who.namespace, who.service_account, who.pod),
        Err(refused) => format!("{}: {refused}", refused.reason()),
    }
}

#[tokio::test]
async fn a_token_names_whom_the_api_server_says_or_nobody() {
    let check = async |status: Value, expected: &str| {
        let fake = Fake::new(StatusCode::CREATED, review(status));
        let shown = shown(fake.reviewer().attest(format!("{}\n", token()).as_bytes(), NOW).await);
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
        let asked = fake.asked.lock().unwrap().clone();
        let spec = json!({"audiences": [AUDIENCE], "token": token()});
        assert_eq!(asked.iter().map(|asked| &asked["spec"]).collect::<Vec<_>>(), [&spec]);
    };
    check(good("", json!(null)), "shop/web/web-1").await;
    check(good("/audiences", json!(["other", AUDIENCE])), "shop/web/web-1").await;
    check(good("/authenticated", json!(false)), "token: the token was rejected").await;
    check(json!({"error": "token has expired"}), "token: the token was rejected: token has exp")
        .await;
    check(json!({}), "the API server does not know it").await;
    // An API server that knows nothing of audiences says none; one for another service is worth nothing.
    check(good("/audiences", json!(null)), "its audience is not leno.dev/identity").await;
    check(good("/audiences", json!([])), "its audience is not").await;
    check(good("/audiences", json!(["https://kubernetes.default.svc"])), "its audience is not")
        .await;
    let name = "/user/username";
    check(good(name, json!("admin")), "does not belong to a ServiceAccount").await;
    check(good(name, json!("system:node:n1")), "does not belong to a ServiceAccount").await;
    check(good(name, json!("system:serviceaccount:shop")), "does not belong to a ServiceAccount")
        .await;
    check(good(name, json!("system:serviceaccount::web")), "does not belong to a ServiceAccount")
        .await;
    check(good(name, json!("system:serviceaccount:a:b:c")), "does not belong to a ServiceAccount")
        .await;
    check(good("/user", json!(null)), "does not belong to a ServiceAccount").await;
    // `kubectl create token` makes such ones.
    check(good("/user/extra", json!(null)), "not bound to a pod").await;
    check(good("/user/extra", json!({POD_UID: ["0f1e"]})), "pod-name is missing").await;
    check(good("/user/extra", json!({POD_NAME: ["web-1"]})), "pod-uid is missing").await;
    check(good("/user/extra", json!({POD_NAME: ["a", "b"], POD_UID: ["0f1e"]})), "pod-name is mi")
        .await;
    check(good("/user/extra", json!({POD_NAME: [""], POD_UID: ["0f1e"]})), "not bound").await;
}

#[tokio::test]
async fn who_cannot_be_asked_leaves_room_for_another_try() {
    let check = async |status: StatusCode, answer: &str, expected: &str| {
        let fake = Fake::new(status, answer.to_owned());
        let refused =
            fake.reviewer().attest(format!("{}\n", token()).as_bytes(), NOW).await.unwrap_err();
        assert_eq!(tonic::Status::from(&refused).code(), tonic::Code::Unavailable);
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(!refused.to_string().contains("c2lnbg"), "{refused}");
    };
    let forbidden = json!({"kind": "Status", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "tokenreviews is forbidden"});
    check(StatusCode::FORBIDDEN, &forbidden.to_string(), "it refused: tokenreviews is forb").await;
    check(StatusCode::INTERNAL_SERVER_ERROR, "oops", "").await;
    check(StatusCode::CREATED, &token(), "is not valid").await;
    let without = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "metadata": {}, "spec": {}});
    check(StatusCode::CREATED, &without.to_string(), "has no status").await;
}

#[tokio::test]
async fn what_is_no_token_is_not_asked_about() {
    let fake = Fake::new(StatusCode::CREATED, review(good("", json!(null))));
    let reviewer = fake.reviewer();
    let check = async |token: &[u8], expected: &str| {
        let shown = shown(reviewer.attest(token, NOW).await);
        assert!(shown.contains(expected), "{shown}\nshould contain\n{expected}");
    };
    check(b"", "not a service-account token").await;
    check(b"a.b", "not a service-account token").await;
    check(b"a.b.c.d", "not a service-account token").await;
    check(b"a..c", "not a service-account token").await;
    check(b"a.b c.d", "not a service-account token").await;
    check(b"a.b.\xff", "not text").await;
    check(&vec![b'a'; TOKEN_BYTES_MAX + 1], "too large").await;
    // In the shape of a token, and not one that this mesh takes.
    check(b"a.b.c", "bound to a pod").await;
    let claims = async |change: &dyn Fn(&mut Value), expected: &str| {
        check(token_with(change).as_bytes(), expected).await;
    };
    claims(&|c| c["aud"] = json!(["https://kubernetes.default.svc"]), "its audience is not").await;
    claims(&|c| c["exp"] = json!(NOW - 60), "it has expired").await;
    claims(&|c| c["nbf"] = json!(NOW + 60), "it is not valid yet").await;
    claims(&|c| drop(c["kubernetes.io"].take()), "bound to a pod").await;
    claims(&|c| drop(c["kubernetes.io"]["pod"].take()), "bound to a pod").await;
    claims(&|c| c["kubernetes.io"]["pod"]["name"] = json!(""), "bound to a pod").await;
    assert!(fake.asked.lock().unwrap().is_empty());
}

/// Time stands still but for the waits, so that the limits are what is seen.
#[tokio::test(start_paused = true)]
async fn a_slow_api_server_is_asked_a_bounded_number_of_times() {
    let mut fake = Fake::new(StatusCode::CREATED, review(good("", json!(null))));
    fake.held = Some(Arc::default());
    let reviewer = fake.reviewer();
    let asking = (0..=REVIEWS_WAITING_MAX).map(|_| {
        let reviewer = reviewer.clone();
        async move { shown(reviewer.attest(token().as_bytes(), NOW).await) }
    });
    let began = tokio::time::Instant::now();
    let shown = futures_util::future::join_all(asking).await;
    assert!(began.elapsed() < REVIEW_WAIT_MAX + Duration::from_secs(1));
    assert_eq!(fake.asked.lock().unwrap().len(), REVIEWS_MAX);
    let count = |part: &str| shown.iter().filter(|shown| shown.contains(part)).count();
    assert_eq!(count("unavailable: "), REVIEWS_WAITING_MAX + 1);
    assert_eq!((count("too many tokens wait"), count("in time")), (1, REVIEWS_WAITING_MAX));
    // A later review finds room again.
    fake.held.as_ref().unwrap().notify_one();
    assert_eq!(self::shown(reviewer.attest(token().as_bytes(), NOW).await), "shop/web/web-1");
}
