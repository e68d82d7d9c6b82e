//! How one request is made. A connection is opened as one or more [`Lane`]s; a lane makes one request at a time.
//!
//! Concrete types and a `match`: no boxed future per request. Everything runs on one thread of the engine, inside a
//! `LocalSet`, so nothing here need be `Send`; a connection's own task (HTTP/2) is spawned with
//! `leno_runtime::tasks::spawn_local` and ends with its last lane. Timeouts are the engine's: it drops the future of
//! [`Lane::exchange`], after which only a lane that still says [`Lane::is_open`] is used again.

pub mod complaint;
pub mod grpc;
pub mod http1;
pub mod http2;
mod request;
pub mod stream;
pub mod target;
pub mod tcp;
pub mod tls;

use crate::protocol::Protocol;
use std::rc::Rc;
use stream::Stream;
use target::Target;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No TCP connection.
    Connect,
    /// The TLS handshake failed, or a certificate was refused.
    Tls,
    /// The connection (or the stream) was reset.
    Reset,
    /// The connection was closed before the answer was whole.
    Closed,
    /// Too slow.
    Timeout,
    /// The received bytes were not a valid answer.
    Protocol,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Connect, Self::Tls, Self::Reset, Self::Closed, Self::Timeout, Self::Protocol];

    /// Its name in `Counts.errors`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
        }
    }

    /// What an error of an established connection means.
    #[must_use]
    pub fn of_io(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Closed,
            std::io::ErrorKind::InvalidData if tls::is_refusal(error) => Self::Tls,
            std::io::ErrorKind::InvalidData => Self::Protocol,
            _ => Self::Reset,
        }
    }
}

/// A whole answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status; 0 with TCP.
    pub status: u16,
    /// gRPC status; 0 elsewhere.
    pub grpc_status: u16,
    /// Bytes of the answer's body (gRPC: of its messages).
    pub bytes_in: u64,
}

/// One request and what became of it. Times are of [`crate::clock::now`].
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// Just before the first byte was handed to the kernel (HTTP/2: to the connection).
    pub sent: u64,
    /// When the answer's first byte had been read; 0 where none came.
    pub first_byte: u64,
    /// When the answer's last byte had been read, or the request had failed.
    pub end: u64,
    /// Bytes of the request's body.
    pub bytes_out: u64,
    /// What came.
    pub result: Result<Answer, Failure>,
}

/// One place for one request at a time.
#[derive(Debug)]
pub enum Lane {
    /// The connection itself.
    Http1(http1::Http1),
    /// One stream after the other of a connection.
    Http2(http2::Http2),
    /// One call after the other on a connection.
    GrpcUnary(grpc::Unary),
    /// One stream, one message each way at a time.
    GrpcStream(grpc::Stream),
    /// The connection itself.
    Tcp(tcp::Tcp),
}

impl Lane {
    /// Says what is asked for next, of the same host. Rounds of bytes are all alike, and a stream is a call that has begun:
    /// these have one target.
    pub fn aim(&mut self, target: &Rc<Target>) {
        let aimed = match self {
            Self::Http1(lane) => &mut lane.target,
            Self::Http2(lane) => &mut lane.link.target,
            Self::GrpcUnary(lane) => &mut lane.link.target,
            Self::GrpcStream(_) | Self::Tcp(_) => return,
        };
        if !Rc::ptr_eq(aimed, target) {
            *aimed = Rc::clone(target);
        }
    }

    /// Makes one request and waits for its whole answer.
    pub async fn exchange(&mut self) -> Exchange {
        match self {
            Self::Http1(lane) => lane.exchange().await,
            Self::Http2(lane) => lane.exchange().await,
            Self::GrpcUnary(lane) => lane.exchange().await,
            Self::GrpcStream(lane) => lane.exchange().await,
            Self::Tcp(lane) => lane.exchange().await,
        }
    }

    /// Whether another request can be made: false after a failure that ended the connection, when the other side has
    /// said that it closes, and when a future of `exchange` was dropped in the midst of what cannot be resumed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Http1(lane) => lane.is_open(),
            Self::Http2(lane) => lane.is_open(),
            Self::GrpcUnary(lane) => lane.is_open(),
            Self::GrpcStream(lane) => lane.is_open(),
            Self::Tcp(lane) => lane.is_open(),
        }
    }
}

/// Opens one connection (TCP, then TLS, then what the protocol needs before the first request) and gives its lanes: at
/// least one, at most `target.streams`.
///
/// # Errors
/// What it failed at.
pub async fn open(target: &Rc<Target>) -> Result<Vec<Lane>, Failure> {
    let tcp = stream::connect(target.address).await;
    let tcp = tcp.map_err(|error| target.complaints.note(Failure::Connect, &error))?;
    let stream = match &target.tls {
        Some(tls) => {
            let shaken = tls.connect(tcp).await;
            shaken.map_err(|(failure, why)| target.complaints.note(failure, why))?
        }
        None => Stream::Plain(tcp),
    };
    Ok(match target.protocol {
        Protocol::Http1 => vec![Lane::Http1(http1::Http1::new(stream, target))],
        Protocol::Http2 => {
            http2::open(stream, target).await?.into_iter().map(Lane::Http2).collect()
        }
        Protocol::GrpcUnary => {
            grpc::open(stream, target).await?.into_iter().map(Lane::GrpcUnary).collect()
        }
        Protocol::GrpcStream => {
            grpc::open_streams(stream, target).await?.into_iter().map(Lane::GrpcStream).collect()
        }
        Protocol::Tcp => vec![Lane::Tcp(tcp::Tcp::new(stream, target))],
    })
}
