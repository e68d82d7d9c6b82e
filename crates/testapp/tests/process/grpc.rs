//! gRPC, by a client of our own: what matters are headers, trailers and where the stream ends.

use crate::message::{CallReply, CallRequest, HealthReply};
use crate::support::{App, PATIENCE};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use leno_runtime::tasks;
use prost::Message;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const WORKER: &str = "/leno.worker.v1.Worker/";

struct Client(http2::SendRequest<UnsyncBoxBody<Bytes, Infallible>>);

/// A call whose answer has begun.
struct Answer {
    headers: HeaderMap,
    body: Incoming,
    bytes: BytesMut,
    trailers: HeaderMap,
}

impl Client {
    async fn new(worker: &App) -> Self {
        let stream = tokio::net::TcpStream::connect(worker.address("grpc")).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tasks::spawn("client", async move {
            let _ended = connection.await;
        });
        Self(sender)
    }

    /// Begins a call; messages go in through the channel until it is dropped.
    async fn begin(
        &mut self,
        path: &str,
        metadata: &[(&str, &str)],
        messages: mpsc::Receiver<Bytes>,
    ) -> Result<Answer, hyper::Error> {
        let body = stream::unfold(messages, |mut messages| async {
            let message = messages.recv().await?;
            Some((Ok(Frame::data(message)), messages))
        });
        let mut request = Request::post(format!("http://w{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in metadata {
            request = request.header(*name, *value);
        }
        let request = request.body(StreamBody::new(body).boxed_unsync()).unwrap();
        let response = self.0.send_request(request).await?;
        assert_eq!(response.status(), 200);
        let (head, body) = response.into_parts();
        Ok(Answer {
            headers: head.headers,
            body,
            bytes: BytesMut::new(),
            trailers: HeaderMap::new(),
        })
    }

    /// A call with these messages and no more.
    async fn call(&mut self, path: &str, metadata: &[(&str, &str)], messages: &[Bytes]) -> Answer {
        let (sender, receiver) = mpsc::channel(messages.len().max(1));
        for message in messages {
            sender.send(message.clone()).await.unwrap();
        }
        drop(sender);
        self.begin(path, metadata, receiver).await.unwrap()
    }
}

impl Answer {
    async fn next<M: Message + Default>(&mut self) -> Option<M> {
        loop {
            if let Some(prefix) = self.bytes.first_chunk::<5>() {
                let length = u32::from_be_bytes(*prefix[1..].first_chunk().unwrap()) as usize;
                if self.bytes.len() >= 5 + length {
                    let message = self.bytes.split_to(5 + length).split_off(5);
                    return Some(M::decode(message).unwrap());
                }
            }
            match self.body.frame().await?.unwrap().into_data() {
                Ok(data) => self.bytes.extend_from_slice(&data),
                Err(frame) => self.trailers = frame.into_trailers().unwrap(),
            }
        }
    }

    async fn all(&mut self) -> Vec<CallReply> {
        let mut all = Vec::new();
        while let Some(reply) = self.next().await {
            all.push(reply);
        }
        assert!(self.bytes.is_empty());
        all
    }

    /// `grpc-status` and `grpc-message`, from where they are; `true`: from the headers, with nothing behind them.
    fn status(&self) -> (u32, &str, bool) {
        let only = self.headers.contains_key("grpc-status");
        let found = if only { &self.headers } else { &self.trailers };
        let text = |name| found.get(name).map_or("", |value| value.to_str().unwrap());
        (text("grpc-status").parse().unwrap(), text("grpc-message"), only)
    }
}

fn framed(request: &CallRequest) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(request.encoded_len()).unwrap());
    request.encode(&mut bytes).unwrap();
    bytes.freeze()
}

#[tokio::test]
async fn unary_answers_with_what_it_got() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    let request = CallRequest { text: "hi".into(), body: "abc".into(), ..CallRequest::default() };
    let metadata = [
        ("x-custom", "v"),
        ("y-bin", "AP8B"),
        ("grpc-timeout", "5S"),
        ("x-grpc-test-echo-initial", "first"),
        ("x-grpc-test-echo-trailing-bin", "q6ur"),
    ];
    let mut answer = client.call(&format!("{WORKER}Call"), &metadata, &[framed(&request)]).await;
    let reply = answer.all().await.pop().unwrap();
    assert_eq!(
        (reply.text.as_str(), &reply.body[..], reply.worker.as_str()),
        ("hi", &b"abc"[..], "w")
    );
    assert_eq!(reply.deadline_microseconds, 5_000_000);
    let seen: Vec<_> = reply.metadata.iter().map(|m| (m.name.as_str(), &m.value[..])).collect();
    assert!(
        seen.contains(&("x-custom", b"v")) && seen.contains(&("y-bin", &[0, 255, 1])),
        "{seen:?}"
    );
    assert_eq!(answer.headers["content-type"], "application/grpc");
    assert_eq!(answer.headers["x-worker"], "w");
    assert_eq!(answer.headers["x-grpc-test-echo-initial"], "first");
    assert_eq!(answer.trailers["x-grpc-test-echo-trailing-bin"], "q6ur");
    assert_eq!(answer.status(), (0, "", false));
}

#[tokio::test]
async fn every_status_in_every_kind_of_call() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    for code in 1..=16 {
        //                            kind      count  apart  trailers-only
        check_status(&mut client, code, "Call", 0, false, true).await;
        check_status(&mut client, code, "Call", 0, true, false).await;
        check_status(&mut client, code, "Stream", 0, false, true).await;
        check_status(&mut client, code, "Stream", 2, false, false).await;
        check_status(&mut client, code, "Sum", 0, false, true).await;
        check_status(&mut client, code, "Sum", 0, true, false).await;
        check_status(&mut client, code, "Chat", 0, false, false).await;
    }
}

async fn check_status(
    client: &mut Client,
    code: u32,
    kind: &str,
    count: u32,
    apart: bool,
    only: bool,
) {
    let request = CallRequest {
        code,
        count,
        headers_first: apart,
        message: "größer\n".into(),
        details: vec![1, 2, 3, 4].into(),
        ..CallRequest::default()
    };
    let mut answer = client.call(&format!("{WORKER}{kind}"), &[], &[framed(&request)]).await;
    let ends_with_headers = hyper::body::Body::is_end_stream(&answer.body);
    assert_eq!(answer.all().await.len(), count as usize, "{kind} {code}");
    assert_eq!(answer.status(), (code, "gr%C3%B6%C3%9Fer%0A", only), "{kind} {code}");
    let found = if only { &answer.headers } else { &answer.trailers };
    assert_eq!(found["grpc-status-details-bin"], "AQIDBA");
    assert_eq!(ends_with_headers, only, "{kind} {code}");
}

#[tokio::test]
async fn large_messages_both_ways() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    let body = Bytes::from(vec![7; 8 << 20]);
    let request = CallRequest { body: body.clone(), ..CallRequest::default() };
    let mut answer = client.call(&format!("{WORKER}Call"), &[], &[framed(&request)]).await;
    assert!(answer.all().await[0].body == body);
    let request = CallRequest { reply_bytes: 9 << 20, ..CallRequest::default() };
    let mut answer = client.call(&format!("{WORKER}Call"), &[], &[framed(&request)]).await;
    assert_eq!(answer.all().await[0].body.len(), 9 << 20);
}

#[tokio::test]
async fn a_stream_comes_at_its_interval() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    let request = CallRequest {
        count: 5,
        interval_microseconds: 10_000,
        text: "a".into(),
        ..CallRequest::default()
    };
    let began = Instant::now();
    let mut answer = client.call(&format!("{WORKER}Stream"), &[], &[framed(&request)]).await;
    let seen: Vec<_> =
        answer.all().await.into_iter().map(|reply| (reply.index, reply.text)).collect();
    assert_eq!(seen, (0..5).map(|index| (index, "a".to_string())).collect::<Vec<_>>());
    assert!(began.elapsed() >= Duration::from_millis(40));
    assert_eq!(answer.status(), (0, "", false));
}

#[tokio::test]
async fn client_streams_are_summed() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    let message = |number| framed(&CallRequest { number, ..CallRequest::default() });
    let messages = [message(1), message(-5), message(10)];
    let mut answer = client.call(&format!("{WORKER}Sum"), &[], &messages).await;
    let reply = answer.all().await.pop().unwrap();
    assert_eq!((reply.sum, reply.received), (6, 3));
    let mut answer = client.call(&format!("{WORKER}Sum"), &[], &[]).await;
    assert_eq!(answer.all().await[0].received, 0);
}

#[tokio::test]
async fn chats_message_by_message() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    let (sender, receiver) = mpsc::channel(1);
    let mut answer = client.begin(&format!("{WORKER}Chat"), &[], receiver).await.unwrap();
    for number in 1..=5 {
        // The next message is sent only when the last one was answered.
        let request = CallRequest { number, text: number.to_string(), ..CallRequest::default() };
        sender.send(framed(&request)).await.unwrap();
        let reply: CallReply = answer.next().await.unwrap();
        assert_eq!((reply.text, reply.sum), (number.to_string(), (1..=number).sum()));
    }
    drop(sender);
    assert_eq!(answer.all().await, []);
    assert_eq!(answer.status(), (0, "", false));
}

#[tokio::test]
async fn a_drain_lets_streams_finish() {
    let mut worker = App::start(&["grpc=0"], &[]);
    let mut client = Client::new(&worker).await;
    let (sender, receiver) = mpsc::channel(1);
    let mut answer = client.begin(&format!("{WORKER}Chat"), &[], receiver).await.unwrap();
    worker.terminate();
    let began = Instant::now();
    while tokio::net::TcpStream::connect(worker.address("grpc")).await.is_ok() {
        assert!(began.elapsed() < PATIENCE, "still listening");
    }
    sender.send(framed(&CallRequest::default())).await.unwrap();
    assert!(answer.next::<CallReply>().await.is_some());
    drop(sender);
    assert_eq!(answer.all().await, []);
    assert_eq!(answer.status().0, 0);
    // We keep our side open: it is the worker that leaves.
    assert_eq!(worker.wait().code(), Some(0));
}

#[tokio::test]
async fn deadlines_are_kept() {
    let worker = App::with_plan("on: {/p.S/Slow: {wait: 1h}}");
    let mut client = Client::new(&worker).await;
    let hour = 3_600_000_000;
    let slow = framed(&CallRequest { wait_microseconds: hour, ..CallRequest::default() });
    let paced =
        framed(&CallRequest { count: 2, interval_microseconds: hour, ..CallRequest::default() });
    for (path, message, replies) in [
        (format!("{WORKER}Call"), &slow, 0),
        (format!("{WORKER}Stream"), &slow, 0),
        (format!("{WORKER}Stream"), &paced, 1),
        (format!("{WORKER}Sum"), &slow, 0),
        (format!("{WORKER}Chat"), &slow, 0),
        ("/p.S/Slow".to_string(), &slow, 0),
    ] {
        let metadata = [("grpc-timeout", "50m")];
        let mut answer = client.call(&path, &metadata, std::slice::from_ref(message)).await;
        assert_eq!(answer.all().await.len(), replies, "{path}");
        assert_eq!(answer.status().0, 4, "{path}");
    }
}

#[tokio::test]
async fn the_plan_names_methods() {
    let plan = r"
on:
  /p.S/Bytes: {answer: {bytes: 100}}
  /p.S/Text: {answer: {text: named}}
  /p.S/Fail: {fail: {grpc: DATA_LOSS}}
  /p.S/Status: {fail: {status: 403}}
  /p.S/Reset: {fail: {reset: true}}
";
    let worker = App::with_plan(plan);
    let mut client = Client::new(&worker).await;
    let message = [framed(&CallRequest::default())];
    let mut answer = client.call("/p.S/Bytes", &[], &message).await;
    let reply = answer.all().await.pop().unwrap();
    assert_eq!((reply.text.as_str(), reply.body.len()), ("", 100));
    let mut answer = client.call("/p.S/Text", &[], &message).await;
    assert_eq!(answer.all().await[0].text, "named");
    for (path, status) in [("/p.S/Fail", 15), ("/p.S/Status", 7), ("/p.S/Other", 12)] {
        assert_eq!(client.call(path, &[], &message).await.status().0, status, "{path}");
    }
    let (_sender, receiver) = mpsc::channel(1);
    assert!(client.begin("/p.S/Reset", &[], receiver).await.is_err());
}

#[tokio::test]
async fn what_is_not_grpc_is_refused() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    let good = framed(&CallRequest::default());
    let cases: [(&[Bytes], u32); 5] = [
        (&[], 13),
        (&[good.clone(), good.clone()], 13),
        (&[Bytes::from_static(&[1, 0, 0, 0, 1, 0])], 12),
        (&[Bytes::from_static(&[0, 0, 0, 0, 9, 0])], 13),
        (&[Bytes::from_static(&[0, 0xFF, 0, 0, 0])], 8),
    ];
    for (messages, status) in cases {
        let answer = client.call(&format!("{WORKER}Call"), &[], messages).await;
        assert_eq!(answer.status().0, status, "{messages:?}");
    }
}

#[tokio::test]
async fn health_follows_readiness() {
    let worker = App::with_plan("");
    let mut client = Client::new(&worker).await;
    for (ready, status) in [("true", 1), ("false", 2)] {
        worker.ask("admin", "PUT /ready HTTP/1.1", ready);
        let empty = Bytes::from_static(&[0; 5]);
        let mut answer = client.call("/grpc.health.v1.Health/Check", &[], &[empty]).await;
        assert_eq!(answer.next::<HealthReply>().await.unwrap().status, status);
    }
}

/// Each field of worker.proto has its like in Rust, with the same type and number.
#[test]
fn messages_agree_with_the_published_file() {
    let proto = include_str!("../../proto/worker.proto");
    let rust = include_str!("../../src/grpc/message.rs");
    let mut fields = 0;
    for line in proto.lines().filter(|line| line.ends_with(';') && line.contains(" = ")) {
        let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
        let (kind, name, tag) = match words[..] {
            ["repeated", _, name, "=", tag] => ("message, repeated", name, tag),
            ["bytes", name, "=", tag] => ("bytes = \"bytes\"", name, tag),
            [kind, name, "=", tag] if kind != "syntax" => (kind, name, tag),
            _ => continue,
        };
        let field = format!("#[prost({kind}, tag = \"{tag}\")]\n    pub(crate) {name}: ");
        assert!(rust.contains(&field), "{line}");
        fields += 1;
    }
    // One more is of the health service.
    assert_eq!(fields + 1, rust.matches("    #[prost(").count());
}
