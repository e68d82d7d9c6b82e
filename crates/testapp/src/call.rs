//! Calls to other services: the steps of a plan, carried out. Connections are kept in [`pool`].

pub(crate) mod pool;
pub(crate) mod udp;

use crate::grpc::frame::frame;
use crate::grpc::message::{CallReply, CallRequest};
use crate::grpc::status::{Code, Status};
use crate::http::body::{Body, filler};
use crate::node::{Node, Planned, pause};
use crate::plan::step::{Call, Protocol, Step, Target};
use futures_util::future::{LocalBoxFuture, join_all};
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use prost::Message;
use serde::Serialize;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What goes on with every call that a request makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Onward {
    pub(crate) headers: HeaderMap,
    pub(crate) deadline: Option<Instant>,
}

/// How a call went.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Called {
    pub(crate) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grpc: Option<Code>,
    /// Who answered, if it was a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<String>,
    /// What it said, if it was JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip)]
    pub(crate) optional: bool,
}

/// Headers that belong to a trace and go on with every call.
const TRACE_HEADERS: [&str; 12] = [
    "x-request-id",
    "traceparent",
    "tracestate",
    "baggage",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-flags",
    "x-ot-span-context",
    "grpc-trace-bin",
];

/// Applies when a call has no timeout of its own.
const CALL_MAX: Duration = Duration::from_secs(30);

impl Called {
    /// A failure that the caller answers for.
    pub(crate) fn is_fatal(&self) -> bool {
        self.failed() && !self.optional
    }

    /// No answer, or one that says that it failed.
    pub(crate) fn failed(&self) -> bool {
        self.error.is_some()
            || self.status.is_some_and(|status| status >= 400)
            || self.grpc.is_some_and(|code| code != Code::Ok)
    }

    /// In one word, for counting.
    pub(crate) fn kind(&self) -> String {
        match (&self.error, self.grpc, self.status) {
            (Some(error), None, _) => error.clone(),
            (_, Some(code), _) => code.name().to_string(),
            (None, None, Some(status)) => status.to_string(),
            (None, None, None) => "ok".to_string(),
        }
    }
}

impl Onward {
    /// Takes along what the plan and the conventions of tracing say.
    pub(crate) fn from(planned: &Planned, headers: &HeaderMap, deadline: Option<Instant>) -> Self {
        let mut onward = HeaderMap::new();
        let names =
            TRACE_HEADERS.into_iter().chain(planned.plan.propagate.iter().map(String::as_str));
        for name in names {
            if let (Ok(key), Some(value)) = (HeaderName::try_from(name), headers.get(name)) {
                onward.insert(key, value.clone());
            }
        }
        Self { headers: onward, deadline }
    }
}

/// Carries out steps one after the other; the first failure that is not optional ends them.
pub(crate) fn run<'a>(
    node: &'a Node,
    planned: &'a Planned,
    steps: &'a [Step],
    onward: &'a Onward,
) -> LocalBoxFuture<'a, Vec<Called>> {
    // Boxed, as parallel steps contain steps.
    Box::pin(async move {
        let mut called = Vec::new();
        for step in steps {
            match step {
                Step::Wait(wait) => pause(wait.draw(&planned.random)).await,
                Step::Parallel(steps) => {
                    let each = steps.iter().map(std::slice::from_ref);
                    let all = join_all(each.map(|step| run(node, planned, step, onward))).await;
                    called.extend(all.into_iter().flatten());
                }
                Step::Call(call) => {
                    for _ in 0..call.times {
                        called.push(one(&node.pool, call, onward).await);
                    }
                }
            }
            if called.iter().any(Called::is_fatal) {
                break;
            }
        }
        called
    })
}

/// One call, within its timeout and the caller's deadline.
pub(crate) async fn one(pool: &pool::Pool, call: &Call, onward: &Onward) -> Called {
    let own = Instant::now() + call.timeout.map_or(CALL_MAX, |timeout| timeout.0);
    let deadline = onward.deadline.map_or(own, |deadline| deadline.min(own));
    let going = async {
        match call.target.protocol {
            Protocol::Http1 | Protocol::Http2 => http(pool, call, onward).await,
            Protocol::Grpc => grpc(pool, call, onward, deadline).await,
            Protocol::Tcp => tcp(&call.target, call.body_bytes).await,
            Protocol::Udp => udp::call(&call.target, call.body_bytes).await,
        }
    };
    let result = match tokio::time::timeout_at(deadline, going).await {
        Ok(result) => result,
        Err(_) => Err("timeout".to_string()),
    };
    let called = result.unwrap_or_else(|error| Called { error: Some(error), ..Called::default() });
    Called { url: call.url.clone(), optional: call.optional, ..called }
}

async fn http(pool: &pool::Pool, call: &Call, onward: &Onward) -> Result<Called, String> {
    let target = &call.target;
    let body = match call.body_bytes {
        0 => Body::empty(),
        bytes => Body::fill(bytes),
    };
    let request = request(call, onward, &target.path, body)?;
    let fetched = pool.fetch(target, request).await?;
    Ok(Called {
        status: Some(fetched.status.as_u16()),
        worker: text(&fetched.headers, "x-worker"),
        answer: serde_json::from_slice(&fetched.body).ok(),
        ..Called::default()
    })
}

async fn grpc(
    pool: &pool::Pool,
    call: &Call,
    onward: &Onward,
    deadline: Instant,
) -> Result<Called, String> {
    let target = &call.target;
    let message = CallRequest { body: filler(call.body_bytes), ..CallRequest::default() };
    let mut request = request(call, onward, &target.path, Body::whole(frame(&message)))?;
    *request.method_mut() = http::Method::POST;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    // At most eight digits, says the specification.
    let left = HeaderValue::try_from(format!("{}m", left.min(99_999_999)));
    headers.insert("grpc-timeout", left.map_err(|error| error.to_string())?);
    let fetched = pool.fetch(target, request).await?;
    let status = Status::read(&fetched.trailers)
        .or_else(|| Status::read(&fetched.headers))
        .unwrap_or_else(|| Status::new(Code::from_http(fetched.status.as_u16()), "no grpc-status"));
    let reply = fetched.body.get(5..).and_then(|message| CallReply::decode(message).ok());
    let report = reply.as_ref().and_then(|reply| serde_json::from_str(&reply.report).ok());
    Ok(Called {
        grpc: Some(status.code),
        worker: text(&fetched.headers, "x-worker"),
        answer: report,
        error: (status.code != Code::Ok && !status.message.is_empty()).then_some(status.message),
        ..Called::default()
    })
}

/// Sends filler, closes our side, reads to the end.
async fn tcp(target: &Target, bytes: u64) -> Result<Called, String> {
    let mut stream =
        TcpStream::connect(&target.authority).await.map_err(|error| error.to_string())?;
    let (mut from, mut to) = stream.split();
    let send = async {
        let mut left = bytes;
        while left > 0 {
            let part = filler(left.min(65_536));
            to.write_all(&part).await?;
            left -= part.len() as u64;
        }
        to.shutdown().await
    };
    let receive = async {
        let mut buffer = vec![0; 16_384];
        let mut received = 0_u64;
        loop {
            match from.read(&mut buffer).await? {
                0 => return Ok(received),
                read => received += read as u64,
            }
        }
    };
    let both: Result<((), u64), std::io::Error> = tokio::try_join!(send, receive);
    let ((), received) = both.map_err(|error| error.to_string())?;
    Ok(Called { answer: Some(serde_json::json!({ "bytes": received })), ..Called::default() })
}

fn request(call: &Call, onward: &Onward, path: &str, body: Body) -> Result<Request<Body>, String> {
    let target = &call.target;
    // HTTP/2 takes scheme and authority from the URI, HTTP/1 the authority from `host`.
    let http1 = target.protocol == Protocol::Http1;
    let uri = if http1 { path.to_string() } else { format!("http://{}{path}", target.host) };
    let mut request = Request::builder().method(&call.method).uri(uri);
    if http1 {
        request = request.header(header::HOST, &target.host);
    }
    for (name, value) in &onward.headers {
        request = request.header(name, value);
    }
    for (name, value) in &call.headers {
        request = request.header(name, value);
    }
    request.body(body).map_err(|error| error.to_string())
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(ToString::to_string)
}
