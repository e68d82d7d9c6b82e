//! What is asked of an API server, and how often, through a fake one.

use super::*;
use crate::replicas::Own;
use crate::source::kubernetes::tests::by_events;
use crate::world::MeshNames;
use http::{Request, Response};
use kube::client::Body;
use std::future::{Ready, ready};
use std::sync::Mutex;
use std::task::{Context as TaskContext, Poll};
use tokio::time::Instant;

/// An API server that answers as a function says, and remembers what it was asked and when.
#[derive(Clone)]
pub(crate) struct Fake {
    answer: fn(&str, &str) -> (u16, Value),
    asked: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Fake {
    pub(crate) fn new(answer: fn(&str, &str) -> (u16, Value)) -> Self {
        Self { answer, asked: Arc::default() }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "leno")
    }

    /// `METHOD version … name`, since the last time.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().drain(..).map(|(asked, _)| asked).collect()
    }
}

impl tower_service::Service<Request<Body>> for Fake {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let (status, answer) = (self.answer)(method, path);
        let short = path.trim_start_matches("/apis/gateway.networking.k8s.io/");
        let asked = format!("{method} {}", short.replace("/namespaces/a/httproutes", ""));
        self.asked.lock().unwrap().push((asked, Instant::now()));
        let body = Body::from(answer.to_string().into_bytes());
        ready(Ok(Response::builder().status(status).body(body).unwrap()))
    }
}

/// A writer of the only replica.
fn only_replica(server: &Fake) -> Writer {
    let own = Own::new(&MeshNames::default(), "me", "me").unwrap();
    let replicas = Replicas::new(own, watch::channel(Arc::default()).1, 1);
    Writer::new(server.client(), "me".to_owned(), (Applied::default(), replicas))
}

const UID: &str = "1";

/// A world with so many routes on Service `web`, which were made as `uid`.
fn world(routes: usize, uid: &str) -> World {
    let mut text = "---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: a}
spec: {ports: [{name: http, port: 80}]}
"
    .to_owned();
    for number in 0..routes {
        text += &format!(
            "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: r{number}, namespace: a, generation: 1, uid: '{uid}'}}
spec:
  parentRefs: [{{group: '', kind: Service, name: web}}]
  rules: [{{backendRefs: [{{name: web, port: 80}}]}}]
"
        );
    }
    World::build(&by_events(&text), &MeshNames::default(), 1)
}

/// A route as the API server has it, which has no status yet.
fn stored(uid: &str) -> (u16, Value) {
    let spec = json!({"parentRefs": [{"group": "", "kind": "Service", "name": "web"}]});
    let metadata = json!({"name": "r0", "generation": 1, "uid": uid, "resourceVersion": "7"});
    (200, json!({"metadata": metadata, "spec": spec}))
}

fn not_found() -> (u16, Value) {
    (404, json!({"kind": "Status", "code": 404, "message": "not found"}))
}

async fn check(writer: &mut Writer, server: &Fake, world: &World, done: bool, asked: &[&str]) {
    assert_eq!(writer.write(world).await, done);
    assert_eq!(server.asked(), asked);
}

/// A route that is made anew has no status, however alike its verdict is to the last one.
#[tokio::test(start_paused = true)]
async fn a_route_that_is_made_anew_is_written_anew() {
    let server = Fake::new(|_, _| stored(UID));
    let mut writer = only_replica(&server);
    let both = &["GET v1/r0", "PATCH v1/r0/status"];
    check(&mut writer, &server, &world(1, UID), true, both).await;
    check(&mut writer, &server, &world(1, UID), true, &[]).await;
    // Another one by now: what is there is not yet what was judged.
    check(&mut writer, &server, &world(1, "2"), true, &["GET v1/r0"]).await;
    check(&mut writer, &server, &world(1, UID), true, both).await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_has_only_an_older_version_is_written_to() {
    let server =
        Fake::new(|_, path| if path.contains("/v1beta1/") { stored(UID) } else { not_found() });
    let mut writer = only_replica(&server);
    let asked = &["GET v1/r0", "GET v1beta1/r0", "PATCH v1beta1/r0/status"];
    check(&mut writer, &server, &world(1, UID), true, asked).await;
    let server = Fake::new(|_, _| not_found());
    let mut writer = only_replica(&server);
    check(&mut writer, &server, &world(1, UID), true, &["GET v1/r0", "GET v1beta1/r0"]).await;
}

/// What fails is no faster than what succeeds.
#[tokio::test(start_paused = true)]
async fn writes_are_paced_also_where_they_fail() {
    let refusing = Fake::new(|method, _| match method {
        "GET" => stored(UID),
        _ => (403, json!({"kind": "Status", "code": 403, "message": "no"})),
    });
    for (server, done) in [(Fake::new(|_, _| stored(UID)), true), (refusing, false)] {
        let mut writer = only_replica(&server);
        let began = Instant::now();
        let routes = 2 * STATUS_WRITES_PER_SECOND_MAX as usize;
        assert_eq!(writer.write(&world(routes, UID)).await, done);
        assert_eq!(server.asked().len(), 2 * routes);
        assert!(began.elapsed() >= Duration::from_secs(2), "{done}: {:?}", began.elapsed());
    }
}
