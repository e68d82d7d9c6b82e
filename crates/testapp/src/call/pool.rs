//! Client connections, kept while they are of use: HTTP/1 one request at a time, HTTP/2 one connection for all.

use crate::executor::LocalExecutor;
use crate::http::body::Body;
use crate::plan::step::{Protocol, Target};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioIo;
use leno_runtime::tasks;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The connections of one worker.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: RefCell<HashMap<String, Vec<Idle>>>,
    shared: RefCell<HashMap<String, http2::SendRequest<Body>>>,
    /// Otherwise every request has a connection of its own.
    keep: bool,
}

#[derive(Debug)]
struct Idle {
    since: Instant,
    sender: http1::SendRequest<Body>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    /// The beginning of it; the rest was read and dropped.
    pub(crate) body: Bytes,
}

/// As much of an answer as a report can use.
const BODY_BYTES_KEPT_MAX: usize = 256 * 1024;
const IDLE_MAX: usize = 256;
const IDLE_AGE_MAX: Duration = Duration::from_secs(30);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Flow-control windows that do not slow a large answer.
const WINDOW_BYTES: u32 = 1024 * 1024;

impl Pool {
    pub(crate) fn new(keep: bool) -> Self {
        Self { idle: RefCell::default(), shared: RefCell::default(), keep }
    }

    /// Sends and reads everything. A request that a reused connection did not take is sent again on a new one.
    pub(crate) async fn fetch(
        &self,
        target: &Target,
        request: Request<Body>,
    ) -> Result<Fetched, String> {
        match target.protocol {
            Protocol::Http1 => self.fetch_http1(target, request).await,
            Protocol::Http2 | Protocol::Grpc => self.fetch_http2(target, request).await,
            Protocol::Tcp | Protocol::Udp => Err("bytes are no requests".to_string()),
        }
    }

    async fn fetch_http1(
        &self,
        target: &Target,
        mut request: Request<Body>,
    ) -> Result<Fetched, String> {
        while let Some(mut sender) = self.take_idle(&target.authority) {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.finish_http1(target, sender, response).await,
                Err(error) => request = not_taken(error)?,
            }
        }
        let io = TokioIo::new(connect(&target.authority).await?);
        let (mut sender, connection) = http1::handshake(io).await.map_err(|e| why(&e))?;
        tasks::spawn_local("http1 call", async move {
            // The request reports what went wrong.
            let _ended = connection.await;
        });
        let response = sender.send_request(request).await.map_err(|e| why(&e))?;
        self.finish_http1(target, sender, response).await
    }

    async fn finish_http1(
        &self,
        target: &Target,
        sender: http1::SendRequest<Body>,
        response: Response<Incoming>,
    ) -> Result<Fetched, String> {
        let fetched = read(response).await?;
        if self.keep && !sender.is_closed() {
            let mut idle = self.idle.borrow_mut();
            let idle = idle.entry(target.authority.clone()).or_default();
            if idle.len() < IDLE_MAX {
                idle.push(Idle { since: Instant::now(), sender });
            }
        }
        Ok(fetched)
    }

    fn take_idle(&self, authority: &str) -> Option<http1::SendRequest<Body>> {
        let mut idle = self.idle.borrow_mut();
        let idle = idle.get_mut(authority)?;
        // The last one in is the freshest: when it is too old, all are.
        let last = idle.pop()?;
        if last.since.elapsed() < IDLE_AGE_MAX {
            return Some(last.sender);
        }
        idle.clear();
        None
    }

    async fn fetch_http2(
        &self,
        target: &Target,
        mut request: Request<Body>,
    ) -> Result<Fetched, String> {
        if let Some(mut sender) = self.shared(&target.authority) {
            match sender.try_send_request(request).await {
                Ok(response) => return read(response).await,
                Err(error) => request = not_taken(error)?,
            }
        }
        let io = TokioIo::new(connect(&target.authority).await?);
        let (new, connection) = http2::Builder::new(LocalExecutor)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(4 * WINDOW_BYTES)
            .handshake(io)
            .await
            .map_err(|e| why(&e))?;
        tasks::spawn_local("http2 call", async move {
            // The requests report what went wrong.
            let _ended = connection.await;
        });
        // While we connected, another request may have as well: its connection is the shared one then.
        let mut sender = self.shared(&target.authority).unwrap_or_else(|| {
            if self.keep {
                self.shared.borrow_mut().insert(target.authority.clone(), new.clone());
            }
            new
        });
        read(sender.send_request(request).await.map_err(|e| why(&e))?).await
    }

    fn shared(&self, authority: &str) -> Option<http2::SendRequest<Body>> {
        let sender = self.shared.borrow().get(authority)?.clone();
        (!sender.is_closed()).then_some(sender)
    }
}

async fn connect(authority: &str) -> Result<TcpStream, String> {
    let stream = match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(authority)).await {
        Ok(connected) => connected.map_err(|error| error.to_string())?,
        Err(_) => return Err("connect timeout".to_string()),
    };
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Gives the request back when not a byte of it was sent.
fn not_taken(mut error: TrySendError<Request<Body>>) -> Result<Request<Body>, String> {
    match error.take_message() {
        Some(request) => Ok(request),
        None => Err(why(error.error())),
    }
}

/// hyper's own words name its part, the source names the cause.
fn why(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

async fn read(response: Response<Incoming>) -> Result<Fetched, String> {
    let (head, mut incoming) = response.into_parts();
    let mut body = BytesMut::new();
    let mut trailers = HeaderMap::new();
    while let Some(frame) = incoming.frame().await {
        match frame.map_err(|error| why(&error))?.into_data() {
            Ok(data) => {
                let room = BODY_BYTES_KEPT_MAX.saturating_sub(body.len());
                body.extend_from_slice(&data[..data.len().min(room)]);
            }
            Err(frame) => {
                if let Ok(end) = frame.into_trailers() {
                    trailers = end;
                }
            }
        }
    }
    Ok(Fetched { status: head.status, headers: head.headers, trailers, body: body.freeze() })
}
