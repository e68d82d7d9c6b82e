//! HTTP/1.1: one write and one read per request as a rule, and nothing allocated.
//!
//! The request was built once (`Target`); what comes is read by [`response`]. All connections of a thread read into
//! the same buffer, so an idle one costs next to nothing and the buffer stays in the CPU's cache.

mod response;

use crate::client::stream::Stream;
use crate::client::target::Target;
use crate::client::{Answer, Exchange, Failure};
use crate::clock;
use response::Response;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that one read takes at most.
const READ_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES_MAX]);
}

/// The connection itself.
#[derive(Debug)]
pub struct Http1 {
    stream: Stream,
    /// What is asked for next.
    pub(super) target: Rc<Target>,
    response: Response,
    /// Bytes of the request that are with the kernel.
    written: usize,
    first_byte: u64,
    open: bool,
}

impl Http1 {
    /// On an open connection.
    pub(super) fn new(stream: Stream, target: &Rc<Target>) -> Self {
        let response = Response::new(target.method == "HEAD");
        let target = Rc::clone(target);
        Self { stream, target, response, written: 0, first_byte: 0, open: true }
    }

    /// Makes one request and waits for its whole answer.
    pub async fn exchange(&mut self) -> Exchange {
        self.response.start();
        (self.written, self.first_byte) = (0, 0);
        // Until the answer is whole the connection is of no use to another request.
        self.open = false;
        let sent = clock::now();
        let mut end = 0;
        let result = poll_fn(|context| self.poll(context, &mut end)).await;
        if result.is_ok() {
            self.open = self.target.keep_alive && self.response.keeps_open();
        } else {
            end = clock::now();
        }
        let bytes_out = self.target.body.len() as u64;
        Exchange { sent, first_byte: self.first_byte, end, bytes_out, result }
    }

    /// Whether another request can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open && self.stream.is_quiet()
    }

    /// Writes what is left to write and reads what there is to read: a server may answer before it has read all.
    fn poll(&mut self, context: &mut Context<'_>, end: &mut u64) -> Poll<Result<Answer, Failure>> {
        let refused = self.poll_write(context).err();
        BUFFER.with_borrow_mut(|buffer| {
            loop {
                let mut unread = ReadBuf::new(buffer);
                let stream = Pin::new(&mut self.stream);
                let read = match stream.poll_read(context, &mut unread) {
                    // It no longer takes our request, and has said nothing.
                    Poll::Pending if refused.is_some() => {
                        return Poll::Ready(Err(refused.unwrap_or(Failure::Reset)));
                    }
                    read => ready!(read),
                };
                if let Err(error) = read {
                    return Poll::Ready(Err(Failure::of_io(&error)));
                }
                let bytes = unread.filled();
                let now = clock::now();
                if self.first_byte == 0 && !bytes.is_empty() {
                    self.first_byte = now;
                }
                if self.response.feed(bytes)? {
                    *end = now;
                    return Poll::Ready(Ok(self.response.answer()));
                }
            }
        })
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        while self.written < self.target.http1.len() {
            let rest = &self.target.http1[self.written..];
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Err(Failure::Closed),
                Poll::Ready(Ok(length)) => self.written += length,
                Poll::Ready(Err(error)) => return Err(Failure::of_io(&error)),
                Poll::Pending => return Ok(()),
            }
        }
        // Nothing is held back in the clear; TLS hands on what the kernel did not take at once.
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Ready(Err(error)) => Err(Failure::of_io(&error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
