//! TCP echo: as many bytes back as were sent.

use crate::load::client::stream::Stream;
use crate::load::client::target::Target;
use crate::load::client::{Exchange, Failure};
use crate::load::clock;
use std::rc::Rc;

/// The connection itself.
#[derive(Debug)]
pub struct Tcp {}

impl Tcp {
    /// On an open connection.
    pub(super) fn new(_stream: Stream, _target: &Rc<Target>) -> Self {
        Self {}
    }

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
