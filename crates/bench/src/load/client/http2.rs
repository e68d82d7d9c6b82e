//! HTTP/2: several lanes share one connection.

use crate::load::client::stream::Stream;
use crate::load::client::target::Target;
use crate::load::client::{Exchange, Failure};
use crate::load::clock;
use std::rc::Rc;

/// Opens the connection and gives its lanes.
pub(super) async fn open(_stream: Stream, _target: &Rc<Target>) -> Result<Vec<Http2>, Failure> {
    Err(Failure::Protocol)
}

/// One stream after the other of a connection.
#[derive(Debug)]
pub struct Http2 {}

impl Http2 {
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
