//! gRPC over HTTP/2: unary calls, and bidirectional streams.
//!
//! Messages are opaque: what the plan gives is framed and sent as it is, what comes back is measured and not parsed.
//! [`ping`] makes a message that services with a field of bytes (`leno-worker`'s `Call` and `Chat` among them) understand.
//! How messages are cut out of frames is in [`frame`]; connections and streams are [`super::http2`]'s.

pub mod frame;

use crate::client::http2::{self, Link, Timing};
use crate::client::stream::Stream as Transport;
use crate::client::target::Target;
use crate::client::{Answer, Exchange, Failure};
use crate::clock;
use bytes::Bytes;
use frame::Messages;
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Response};
use std::future::poll_fn;
use std::rc::Rc;

pub use frame::{field, ping};

/// gRPC's status where none can be known.
const UNKNOWN: u16 = 2;

/// Opens the connection and gives lanes that make one call after the other.
pub(super) async fn open(stream: Transport, target: &Rc<Target>) -> Result<Vec<Unary>, Failure> {
    let message = frame::frame(&target.body);
    let links = http2::connect(stream, target).await?;
    Ok(links.into_iter().map(|link| Unary { link, message: message.clone() }).collect())
}

/// Opens the connection and gives one bidirectional stream per lane.
pub(super) async fn open_streams(
    stream: Transport,
    target: &Rc<Target>,
) -> Result<Vec<Stream>, Failure> {
    let message = frame::frame(&target.body);
    // Where a connection serves one request only, that one ends its stream too.
    let messages_max = if target.keep_alive { target.stream_messages } else { Some(1) };
    let links = http2::connect(stream, target).await?;
    let lane = |link| Stream { link, message: message.clone(), messages_max, call: None };
    Ok(links.into_iter().map(lane).collect())
}

/// One call after the other.
#[derive(Debug)]
pub struct Unary {
    pub(super) link: Link,
    message: Bytes,
}

impl Unary {
    /// Makes one call and waits for its whole answer, trailers included.
    pub async fn exchange(&mut self) -> Exchange {
        let mut timing = Timing::begin();
        let waiting = self.link.waiting(&timing);
        let result = self.attempt(&mut timing).await;
        waiting.over();
        timing.end(result)
    }

    async fn attempt(&mut self, timing: &mut Timing) -> Result<Answer, Failure> {
        let (response, mut send) = self.link.request(false, timing).await?;
        send.send_data(self.message.clone(), true).map_err(|error| self.link.failure(&error))?;
        timing.bytes_out = frame::message_bytes(&self.message);
        let response = response.await.map_err(|error| self.link.failure(&error))?;
        timing.first_byte = clock::now();
        let mut reading = Reading::new(response);
        while reading.piece(&self.link).await? {}
        let answer = reading.end(&self.link).await?;
        // A call that succeeded has exactly one message.
        if answer.grpc_status == 0 && reading.messages.whole() != 1 {
            return Err(Failure::Protocol);
        }
        Ok(answer)
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.link.is_open()
    }
}

/// One stream, one message each way at a time. After as many messages as the plan has for a stream, the next request
/// opens another: the last message closes our side, and its answer is whole when the stream's status has come.
#[derive(Debug)]
pub struct Stream {
    link: Link,
    message: Bytes,
    messages_max: Option<u64>,
    /// Taken for the time of an exchange: given up in the midst of one, the stream is reset and never used again.
    call: Option<Call>,
}

/// An open stream.
#[derive(Debug)]
struct Call {
    send: SendStream<Bytes>,
    /// Until the head of the answer is here.
    response: Option<ResponseFuture>,
    reading: Reading,
    sent: u64,
}

impl Stream {
    /// Sends one message and waits for the one that answers it.
    pub async fn exchange(&mut self) -> Exchange {
        let mut timing = Timing::begin();
        let waiting = self.link.waiting(&timing);
        let result = self.attempt(&mut timing).await;
        waiting.over();
        timing.end(result)
    }

    async fn attempt(&mut self, timing: &mut Timing) -> Result<Answer, Failure> {
        let mut call = match self.call.take() {
            Some(call) => call,
            None => {
                let (response, send) = self.link.request(false, timing).await?;
                Call { send, response: Some(response), reading: Reading::default(), sent: 0 }
            }
        };
        let last = self.messages_max.is_some_and(|max| call.sent + 1 >= max);
        let sent = call.send.send_data(self.message.clone(), last);
        sent.map_err(|error| self.link.failure(&error))?;
        timing.bytes_out = frame::message_bytes(&self.message);
        call.sent += 1;
        if let Some(response) = call.response.take() {
            let response = response.await.map_err(|error| self.link.failure(&error))?;
            timing.first_byte = clock::now();
            call.reading = Reading::new(response);
        }
        let (whole, bytes) = (call.reading.messages.whole(), call.reading.messages.bytes());
        while last || call.reading.messages.whole() == whole {
            if !call.reading.piece(&self.link).await? {
                return call.ended(&self.link, whole, bytes).await;
            }
            if timing.first_byte < timing.sent {
                timing.first_byte = clock::now();
            }
        }
        let answer = Answer {
            status: call.reading.status,
            grpc_status: 0,
            bytes_in: call.reading.messages.bytes() - bytes,
        };
        self.call = Some(call);
        Ok(answer)
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.link.is_open()
    }
}

impl Call {
    /// The server has closed its side. With status 0 it must have answered what was sent.
    async fn ended(mut self, link: &Link, whole: u64, bytes: u64) -> Result<Answer, Failure> {
        let answer = self.reading.end(link).await?;
        let answered = self.reading.messages.whole() > whole;
        if answer.grpc_status == 0 && !answered {
            return Err(Failure::Closed);
        }
        Ok(Answer { bytes_in: answer.bytes_in - bytes, ..answer })
    }
}

/// An answer as it comes.
#[derive(Debug, Default)]
struct Reading {
    status: u16,
    /// The status of an answer that is only a head.
    grpc_status: Option<u16>,
    body: Option<RecvStream>,
    messages: Messages,
}

impl Reading {
    fn new(response: Response<RecvStream>) -> Self {
        Self {
            status: response.status().as_u16(),
            grpc_status: grpc_status(response.headers()),
            body: Some(response.into_body()),
            messages: Messages::default(),
        }
    }

    /// Takes in what has come; false at the end of the messages.
    async fn piece(&mut self, link: &Link) -> Result<bool, Failure> {
        let Some(body) = &mut self.body else { return Ok(false) };
        let Some(piece) = poll_fn(|context| body.poll_data(context)).await else {
            return Ok(false);
        };
        let piece = piece.map_err(|error| link.failure(&error))?;
        // Only a stream that is over refuses it, and then there is nothing to give back.
        let _over = body.flow_control().release_capacity(piece.len());
        // An answer that is not gRPC may have any body.
        if self.status == 200 {
            self.messages.take(&piece).map_err(|_| Failure::Protocol)?;
        }
        Ok(true)
    }

    /// The answer with the status that its trailers say.
    async fn end(&mut self, link: &Link) -> Result<Answer, Failure> {
        let trailers = match &mut self.body {
            Some(body) => poll_fn(|context| body.poll_trailers(context)).await,
            None => Ok(None),
        };
        let trailers = trailers.map_err(|error| link.failure(&error))?;
        let said = trailers.as_ref().and_then(grpc_status).or(self.grpc_status);
        if !self.messages.is_between() {
            return Err(Failure::Protocol);
        }
        Ok(Answer {
            status: self.status,
            grpc_status: said.unwrap_or_else(|| of_http(self.status)),
            bytes_in: self.messages.bytes(),
        })
    }
}

fn grpc_status(fields: &HeaderMap) -> Option<u16> {
    let value = fields.get("grpc-status")?;
    Some(value.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(UNKNOWN))
}

/// What gRPC makes of an answer that does not say its status.
const fn of_http(status: u16) -> u16 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => UNKNOWN,
    }
}
