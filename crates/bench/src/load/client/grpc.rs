//! gRPC: unary calls, and bidirectional streams.

use crate::load::client::stream::Stream as Bytes;
use crate::load::client::target::Target;
use crate::load::client::{Exchange, Failure};
use crate::load::clock;
use std::rc::Rc;

/// Opens the connection and gives lanes that make one call after the other.
pub(super) async fn open(_stream: Bytes, _target: &Rc<Target>) -> Result<Vec<Unary>, Failure> {
    Err(Failure::Protocol)
}

/// Opens the connection and one bidirectional stream per lane.
pub(super) async fn open_streams(
    _stream: Bytes,
    _target: &Rc<Target>,
) -> Result<Vec<Stream>, Failure> {
    Err(Failure::Protocol)
}

/// One call after the other.
#[derive(Debug)]
pub struct Unary {}

impl Unary {
    /// Makes one request and waits for its whole answer.
    pub async fn exchange(&mut self) -> Exchange {
        let now = clock::now();
        let result = Err(Failure::Protocol);
        Exchange { sent: now, first_byte: 0, end: now, bytes_out: 0, result }
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        false
    }
}

/// One stream, one message each way at a time.
#[derive(Debug)]
pub struct Stream {}

impl Stream {
    /// Makes one request and waits for its whole answer.
    pub async fn exchange(&mut self) -> Exchange {
        let now = clock::now();
        let result = Err(Failure::Protocol);
        Exchange { sent: now, first_byte: 0, end: now, bytes_out: 0, result }
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        false
    }
}
