//! The gRPC side: `leno.worker.v1.Worker` (proto/worker.proto), health, and every method that the plan names.
//!
//! A call that fails before it has said anything is answered with one block of headers (trailers-only), as servers do.
//! Streams are written by a task of their own, which ends when the peer goes away.

pub(crate) mod frame;
pub(crate) mod message;
pub(crate) mod metadata;
pub(crate) mod status;

use crate::call::{self, Called, Onward};
use crate::http::body::{Body, filler};
use crate::http::echo;
use crate::http::reply::{Abort, sign};
use crate::node::{Node, add, pause};
use crate::plan::{Fail, Outcome};
use bytes::Bytes;
use frame::{Messages, frame};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Frame;
use hyper::body::Incoming;
use leno_runtime::tasks;
use message::{CallReply, CallRequest, HealthReply};
use metadata::Sent;
use status::{Code, Status};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const CALL: &str = "/leno.worker.v1.Worker/Call";
const STREAM: &str = "/leno.worker.v1.Worker/Stream";
const SUM: &str = "/leno.worker.v1.Worker/Sum";
const CHAT: &str = "/leno.worker.v1.Worker/Chat";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Messages that wait for the peer's window.
const FRAMES_WAITING_MAX: usize = 4;

/// Why a call has no good answer.
enum Bad {
    /// A status; `true`: headers and trailers apart.
    Status(Status, bool),
    /// Nothing at all.
    Reset,
}

impl From<Status> for Bad {
    fn from(status: Status) -> Self {
        Self::Status(status, false)
    }
}

/// What a call knows before its first message.
struct Arrived {
    node: Rc<Node>,
    /// What the calls of the plan gave.
    called: Vec<Called>,
    /// What the plan's answer says as text.
    text: Option<String>,
    /// How many bytes the plan's answer has.
    bytes: Option<u64>,
    sent: Sent,
}

/// One call, start to finish.
pub(crate) async fn answer(
    node: Rc<Node>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Abort> {
    let sent = Sent::read(request.headers());
    let initial = sent.initial.clone();
    let answered = match sent.deadline {
        Some(deadline) => {
            match tokio::time::timeout_at(deadline, dispatch(&node, request, sent)).await {
                Ok(answered) => answered,
                Err(_) => Err(deadline_exceeded().into()),
            }
        }
        None => dispatch(&node, request, sent).await,
    };
    let body = match answered {
        Ok(body) => body,
        Err(Bad::Reset) => {
            add(&node.seen.failures, 1);
            return Err(Abort);
        }
        Err(Bad::Status(status, apart)) => {
            add(&node.seen.failures, 1);
            let mut trailers = HeaderMap::new();
            status.put(&mut trailers);
            let mut response = if apart {
                headers(Body::empty().with_trailers(trailers))
            } else {
                let mut response = headers(Body::empty());
                response.headers_mut().extend(trailers);
                response
            };
            sign(&node, response.headers_mut());
            return Ok(response);
        }
    };
    let mut response = headers(body);
    response.headers_mut().extend(initial);
    sign(&node, response.headers_mut());
    Ok(response)
}

fn headers(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    response
}

async fn dispatch(node: &Rc<Node>, request: Request<Incoming>, sent: Sent) -> Result<Body, Bad> {
    let path = request.uri().path().to_string();
    let (head, body) = request.into_parts();
    let mut messages = Messages::new(body);
    if path == HEALTH {
        let status = if node.ready.get() { 1 } else { 2 };
        let reply = frame(&HealthReply { status });
        return Ok(Body::whole(reply).with_trailers(ok(sent.trailing)));
    }
    let planned = node.planned();
    let decision = planned.plan.decide("POST", &path, &planned.random);
    if !decision.named && ![CALL, STREAM, SUM, CHAT].contains(&path.as_str()) {
        return Err(Status::new(Code::Unimplemented, format!("no method {path}")).into());
    }
    add(&node.seen.planned, 1);
    let _place = match &planned.places {
        None => None,
        Some(places) => match places.take().await {
            Some(place) => Some(place),
            None => {
                return Err(Status::new(Code::ResourceExhausted, "too many requests wait").into());
            }
        },
    };
    pause(decision.wait).await;
    let onward = Onward::from(&planned, &head.headers, sent.deadline);
    let called = call::run(node, &planned, decision.calls, &onward).await;
    if let Some(failed) = called.iter().find(|called| called.is_fatal()) {
        let message = format!("call to {}: {}", failed.url, failed.kind());
        return Err(Status::new(Code::Unavailable, message).into());
    }
    let answer = match decision.outcome {
        Outcome::Fail(fail) => return Err(bad(fail)),
        Outcome::Answer(answer) => answer,
    };
    let arrived = Arrived {
        node: Rc::clone(node),
        called,
        text: answer.text.clone(),
        bytes: answer.bytes,
        sent,
    };
    match path.as_str() {
        STREAM => stream(arrived, &mut messages).await,
        SUM => sum(arrived, &mut messages).await,
        CHAT => Ok(spawn(arrived, |arrived, peer| chat(arrived, messages, peer))),
        _ => unary(arrived, &mut messages).await,
    }
}

fn bad(fail: &Fail) -> Bad {
    if fail.reset {
        return Bad::Reset;
    }
    let code = fail.grpc.unwrap_or_else(|| Code::from_http(fail.status));
    Status::new(code, "failed, as the plan says").into()
}

async fn unary(arrived: Arrived, messages: &mut Messages) -> Result<Body, Bad> {
    let request: CallRequest = messages.only().await?;
    request.wait().await;
    if let Some(status) = request.status() {
        return Err(Bad::Status(status, request.headers_first));
    }
    let reply = CallReply { received: 1, ..arrived.reply(&request, 0) };
    Ok(Body::whole(frame(&reply)).with_trailers(ok(arrived.sent.trailing)))
}

async fn sum(arrived: Arrived, messages: &mut Messages) -> Result<Body, Bad> {
    let (mut sum, mut received) = (0_i64, 0);
    let mut last = CallRequest::default();
    while let Some(request) = messages.next::<CallRequest>().await? {
        received += 1;
        sum = sum.wrapping_add(request.number);
        request.wait().await;
        last = request;
        if let Some(status) = last.status() {
            return Err(Bad::Status(status, last.headers_first));
        }
    }
    let reply = CallReply { sum, received, ..arrived.reply(&last, 0) };
    Ok(Body::whole(frame(&reply)).with_trailers(ok(arrived.sent.trailing)))
}

async fn stream(arrived: Arrived, messages: &mut Messages) -> Result<Body, Bad> {
    let request: CallRequest = messages.only().await?;
    match request.status() {
        Some(status) if request.count == 0 => Err(Bad::Status(status, request.headers_first)),
        _ => Ok(spawn(arrived, |arrived, peer| count(arrived, request, peer))),
    }
}

/// The peer of a stream; an error of it means that nobody listens any more.
type Peer = mpsc::Sender<Frame<Bytes>>;
struct Gone;

/// Starts the task that writes a stream, and ends the stream with its status.
fn spawn<F, S>(arrived: Arrived, speak: S) -> Body
where
    S: FnOnce(Rc<Arrived>, Peer) -> F,
    F: Future<Output = Result<Status, Gone>> + 'static,
{
    let (peer, frames) = mpsc::channel(FRAMES_WAITING_MAX);
    let arrived = Rc::new(arrived);
    let speaking = speak(Rc::clone(&arrived), peer.clone());
    tasks::spawn_local("grpc stream", async move {
        let status = match arrived.sent.deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, speaking)
                .await
                .unwrap_or_else(|_| Ok(deadline_exceeded())),
            None => speaking.await,
        };
        if let Ok(status) = status {
            if status.code != Code::Ok {
                add(&arrived.node.seen.failures, 1);
            }
            let mut trailers = arrived.sent.trailing.clone();
            status.put(&mut trailers);
            // Nobody may be listening any more.
            let _gone = peer.send(Frame::trailers(trailers)).await;
        }
    });
    Body::sent(frames)
}

/// `count` messages at an interval, then the status.
async fn count(arrived: Rc<Arrived>, request: CallRequest, peer: Peer) -> Result<Status, Gone> {
    request.wait().await;
    let interval = Duration::from_micros(request.interval_microseconds);
    let began = Instant::now();
    for index in 0..request.count {
        if index > 0 && !interval.is_zero() {
            tokio::time::sleep_until(began + interval * index).await;
        }
        let reply = CallReply { received: 1, ..arrived.reply(&request, index) };
        peer.send(Frame::data(frame(&reply))).await.map_err(|_| Gone)?;
    }
    Ok(request.status().unwrap_or_else(fine))
}

/// An answer to each message as it arrives.
async fn chat(arrived: Rc<Arrived>, mut messages: Messages, peer: Peer) -> Result<Status, Gone> {
    let (mut sum, mut received) = (0_i64, 0_u64);
    loop {
        let next = tokio::select! {
            next = messages.next::<CallRequest>() => next,
            () = peer.closed() => return Err(Gone),
        };
        let request = match next {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(fine()),
            Err(status) => return Ok(status),
        };
        request.wait().await;
        if let Some(status) = request.status() {
            return Ok(status);
        }
        let index = u32::try_from(received).unwrap_or(u32::MAX);
        received += 1;
        sum = sum.wrapping_add(request.number);
        let reply = CallReply { sum, received, ..arrived.reply(&request, index) };
        peer.send(Frame::data(frame(&reply))).await.map_err(|_| Gone)?;
    }
}

impl CallRequest {
    async fn wait(&self) {
        pause(Duration::from_micros(self.wait_microseconds)).await;
    }

    /// The failure that is asked for.
    fn status(&self) -> Option<Status> {
        (self.code != 0).then(|| Status {
            code: Code::from_number(self.code),
            message: self.message.clone(),
            details: self.details.clone(),
        })
    }
}

impl Arrived {
    /// What the plan says, else what the request says.
    fn reply(&self, request: &CallRequest, index: u32) -> CallReply {
        let body = match (self.bytes, request.reply_bytes) {
            (_, bytes @ 1..) | (Some(bytes), 0) => filler(bytes),
            (None, 0) => request.body.clone(),
        };
        let first = index == 0;
        let report = if first && !self.called.is_empty() {
            echo::report(&self.node, &self.called)
        } else {
            String::new()
        };
        CallReply {
            text: self.text.clone().unwrap_or_else(|| request.text.clone()),
            body,
            worker: self.node.name.clone(),
            index,
            deadline_microseconds: self.sent.left_microseconds,
            metadata: if first { self.sent.metadata.clone() } else { Vec::new() },
            report,
            ..CallReply::default()
        }
    }
}

fn fine() -> Status {
    Status::new(Code::Ok, "")
}

fn deadline_exceeded() -> Status {
    Status::new(Code::DeadlineExceeded, "the caller's deadline has passed")
}

fn ok(mut trailers: HeaderMap) -> HeaderMap {
    fine().put(&mut trailers);
    trailers
}
