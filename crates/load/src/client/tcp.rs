//! TCP echo: as many bytes back as were sent, and the same ones.

use crate::client::stream::Stream;
use crate::client::target::Target;
use crate::client::{Answer, Exchange, Failure};
use crate::clock;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// The most that is read at once.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The connection itself.
#[derive(Debug)]
pub struct Tcp {
    stream: Stream,
    target: Rc<Target>,
    buffer: Vec<u8>,
    /// Nothing of an earlier round is on its way.
    quiet: bool,
}

/// How far one round is.
#[derive(Default)]
struct Round {
    written: usize,
    flushed: bool,
    read: usize,
    first_byte: u64,
}

impl Tcp {
    /// On an open connection.
    pub(super) fn new(stream: Stream, target: &Rc<Target>) -> Self {
        // One byte more than is expected: a read that does not fill its buffer tells tokio that the socket is empty,
        // which saves the system call that would find out.
        let buffer_bytes = (target.body.len() + 1).min(BUFFER_BYTES_MAX);
        Self { stream, target: Rc::clone(target), buffer: vec![0; buffer_bytes], quiet: true }
    }

    /// Makes one request and waits for its whole answer.
    pub async fn exchange(&mut self) -> Exchange {
        self.quiet = false;
        let mut round = Round::default();
        let sent = clock::now();
        let done = poll_fn(|context| self.poll_round(&mut round, context)).await;
        self.quiet = done.is_ok();
        let bytes_in = round.read as u64;
        Exchange {
            sent,
            first_byte: round.first_byte,
            end: clock::now(),
            bytes_out: round.written as u64,
            result: done.map(|()| Answer { bytes_in, ..Answer::default() }),
        }
    }

    /// Writes and reads at the same time: a long round fills the buffers of both sides otherwise, and stands still.
    fn poll_round(
        &mut self,
        round: &mut Round,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        let writing = self.poll_writing(round, context).map_err(|error| Failure::of_io(&error));
        if let Poll::Ready(Err(failure)) = writing {
            return Poll::Ready(Err(failure));
        }
        ready!(self.poll_reading(round, context))?;
        writing
    }

    fn poll_writing(
        &mut self,
        round: &mut Round,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let body = &self.target.body;
        while round.written < body.len() {
            let stream = Pin::new(&mut self.stream);
            round.written += ready!(stream.poll_write(context, &body[round.written..]))?;
        }
        if !round.flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            round.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_reading(
        &mut self,
        round: &mut Round,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        let body = &self.target.body;
        while round.read < body.len() {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))
                .map_err(|error| Failure::of_io(&error))?;
            let piece = buffer.filled();
            if piece.is_empty() {
                return Poll::Ready(Err(Failure::Closed));
            }
            if round.read == 0 {
                round.first_byte = clock::now();
            }
            if body.get(round.read..round.read + piece.len()) != Some(piece) {
                return Poll::Ready(Err(Failure::Protocol));
            }
            round.read += piece.len();
        }
        Poll::Ready(Ok(()))
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.quiet && self.stream.is_quiet()
    }
}
