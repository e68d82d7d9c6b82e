//! Lists and watches of an API server that says what a script tells it to.

use super::*;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Frame;
use leno_runtime::tasks;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::sync::Mutex;
use std::task::{Context, Poll};
use tower_service::Service;

/// What is answered, piece by piece, and how it ends.
struct Answer {
    status: u16,
    pieces: Vec<Bytes>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    /// As HTTP wants it.
    InOrder,
    /// The connection is gone.
    Broken,
    /// Nothing more comes.
    Never,
}

/// What is asked by the script's next request, and what it gets.
#[derive(Clone)]
struct ApiServer(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    /// Queries, in order.
    asked: Vec<String>,
}

impl ApiServer {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers = answers.into_iter().collect();
        Self(Arc::new(Mutex::new(Script { answers, asked: Vec::new() })))
    }

    fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }
}

impl Service<http::Request<Body>> for ApiServer {
    type Response = http::Response<UnsyncBoxBody<Bytes, io::Error>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut script = self.0.lock().unwrap();
        script.asked.push(request.uri().query().unwrap_or_default().to_owned());
        let silent = Answer { status: 200, pieces: Vec::new(), end: End::Never };
        let answer = script.answers.pop_front().unwrap_or(silent);
        let pieces = answer.pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
        let pieces = stream::iter(pieces);
        let body = match answer.end {
            End::InOrder => pieces.boxed(),
            End::Broken => {
                let broken = io::Error::new(io::ErrorKind::ConnectionReset, "reset");
                pieces.chain(stream::iter([Err(broken)])).boxed()
            }
            End::Never => pieces.chain(stream::pending()).boxed(),
        };
        let response = http::Response::builder().status(answer.status);
        ready(Ok(response.body(UnsyncBoxBody::new(StreamBody::new(body))).unwrap()))
    }
}

fn object(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version}})
}

fn whole(status: u16, value: &Value) -> Answer {
    Answer { status, pieces: vec![value.to_string().into()], end: End::InOrder }
}

fn list(version: &str, names: &[&str]) -> Answer {
    let items: Vec<_> = names.iter().map(|name| object(name, "1")).collect();
    whole(200, &json!({"metadata": {"resourceVersion": version}, "items": items}))
}

/// A watch with these lines: a name and its version, or a whole line.
fn watch(lines: &[Value], end: End) -> Answer {
    let pieces = lines.iter().map(|line| format!("{line}\n").into()).collect();
    Answer { status: 200, pieces, end }
}

fn added(name: &str, version: &str) -> Value {
    json!({"type": "ADDED", "object": object(name, version)})
}

fn watching(server: &ApiServer, out: mpsc::Sender<Event>) -> Watching {
    let client = Client::new(server.clone(), "default");
    Watching::new(client, ("Pod", "pods"), out, Arc::default())
}

/// What is heard, as `[a b]` for a list and `+a` for an object, and what was asked: `list`, or the version that a watch begins with.
async fn check(what: &str, answers: Vec<Answer>, heard: &str, asked: &str) {
    let server = ApiServer::new(answers);
    let (out, mut events) = mpsc::channel(16);
    let run = tasks::spawn("watching", watching(&server, out).run());
    let name = |read: &crate::source::kubernetes::read::Read| read.key.name.to_string();
    let mut told = Vec::new();
    for _ in heard.split_whitespace() {
        told.push(match events.recv().await.unwrap() {
            Event::Listed { objects, .. } => {
                let names: Vec<_> = objects.iter().map(name).collect();
                format!("[{}]", names.join(","))
            }
            Event::Applied(read) => format!("+{}", name(&read)),
            Event::Deleted(key) => format!("-{}", key.name),
        });
    }
    assert_eq!(told.join(" "), heard, "{what}");
    let wanted = asked.split_whitespace().count();
    // Time stands still here but for waits, so this is as long as the waits are.
    while server.asked().len() < wanted {
        sleep(Duration::from_millis(50)).await;
    }
    run.abort();
    let version = |query: &String| match query.split_once("resourceVersion=") {
        Some((_, version)) => version.to_owned(),
        None => "list".to_owned(),
    };
    let all: Vec<_> = server.asked().iter().map(version).collect();
    assert_eq!(all.join(" "), asked, "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_ended() {
    let gone = json!({"kind": "Status", "code": 410, "message": "too old resource version"});
    let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}});
    let first = || list("7", &["a"]);
    let with = |more: Vec<Answer>| std::iter::once(first()).chain(more).collect::<Vec<_>>();
    let lines = watch(&[added("b", "8")], End::InOrder);
    check("in order", with(vec![lines]), "[a] +b", "list 7 8").await;
    let lines = watch(&[added("b", "8"), bookmark], End::InOrder);
    check("after a bookmark", with(vec![lines]), "[a] +b", "list 7 9").await;
    let lines = watch(&[added("b", "8")], End::Broken);
    check("broken", with(vec![lines]), "[a] +b", "list 7 8").await;
    let lines = watch(&[added("b", "8")], End::Never);
    check("silent", with(vec![lines]), "[a] +b", "list 7 8").await;
    let failed = whole(500, &json!({"kind": "Status", "code": 500, "message": "etcd"}));
    check("failed", with(vec![failed]), "[a]", "list 7 7").await;
    // Pods are in every cluster: nothing that is known is forgotten because somebody says that there are none.
    let strange = || whole(404, &json!("404 page not found"));
    let (first, later) = (vec![strange(), strange(), strange()], added("b", "8"));
    let answers = first.into_iter().chain([watch(&[later], End::Never)]).collect();
    check("not the API server", with(answers), "[a] +b", "list 7 7 7 7").await;
    let (old, again) = (whole(410, &gone), list("20", &["c"]));
    check("forgotten", with(vec![old, again]), "[a] [c]", "list 7 list 20").await;
    let old = watch(&[added("b", "8"), json!({"type": "ERROR", "object": gone})], End::InOrder);
    let again = list("20", &["c"]);
    check("forgotten meanwhile", with(vec![old, again]), "[a] +b [c]", "list 7 list 20").await;
    let wrong = json!({"type": "ADDED", "object": {"metadata": {"name": 5}}});
    let lines = watch(&[wrong, added("b", "8")], End::InOrder);
    check("with a line that cannot be read", with(vec![lines]), "[a] +b", "list 7 8").await;
}

/// An API server with two objects, each as large as half of what is read at once: two of them in one page are too much.
#[derive(Clone)]
struct LargeObjects;

impl Service<http::Request<Body>> for LargeObjects {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let list = |names: &[&str], next: &str| {
            let items: Vec<_> = names.iter().map(|name| object(name, "1")).collect();
            json!({"metadata": {"resourceVersion": "7", "continue": next}, "items": items})
        };
        let (list, objects) = match query.split_once("&continue=") {
            Some(("limit=1", "")) => (list(&["a"], "b"), 1),
            Some(("limit=1", "b")) => (list(&["b"], ""), 1),
            _ => (list(&["a", "b"], ""), 2),
        };
        let mut text = list.to_string();
        let bytes = objects * (CLUSTER_BODY_BYTES_MAX / 2 + 1);
        text.push_str(&" ".repeat(bytes - text.len()));
        ready(Ok(http::Response::new(Body::from(Bytes::from(text)))))
    }
}

#[tokio::test]
async fn pages_become_smaller_until_they_can_be_read() {
    let (out, mut events) = mpsc::channel(1);
    let client = Client::new(LargeObjects, "default");
    let watching = Watching::new(client, ("Pod", "pods"), out, Arc::default());
    assert_eq!(watching.list().await.unwrap(), "7");
    let Some(Event::Listed { objects, .. }) = events.recv().await else { panic!("a list is told") };
    let names: Vec<_> = objects.iter().map(|object| object.key.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
}

/// A kind that the cluster does not have is an empty list, or nothing would ever be served. A built-in kind is in every cluster.
#[tokio::test(start_paused = true)]
async fn kinds_that_are_not_installed_are_empty() {
    for kind in crate::source::kubernetes::WATCHED {
        let missing = || whole(404, &json!("404 page not found"));
        let server = ApiServer::new((0..64).map(|_| missing()));
        let (out, mut events) = mpsc::channel(1);
        let client = Client::new(server, "default");
        let watching = Watching::new(client, kind, out, Arc::default());
        let run = tasks::spawn("watching", watching.run());
        let heard = tokio::time::timeout(Duration::from_secs(10), events.recv()).await;
        run.abort();
        let is_empty =
            matches!(heard, Ok(Some(Event::Listed { objects, .. })) if objects.is_empty());
        let built_in = ["Namespace", "ServiceAccount", "Pod", "Service", "EndpointSlice"];
        assert_eq!(is_empty, !built_in.contains(&kind.0), "{kind:?}");
    }
}
