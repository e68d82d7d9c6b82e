//! One HTTP/2 connection, its streams side by side; gRPC is carried by it.
//!
//! - [`request`]: one request as the engine sees it ([`crate::request::engine`])
//! - [`body`]: one direction of a stream's body, with its flow control and trailers
//! - [`client`]: the connections to an endpoint that streams share
//! - [`windows`]: how much a peer may send before we have passed it on

pub mod body;
pub mod client;
pub mod request;
pub mod windows;

use crate::ending::Ending;
use crate::io::{Buffer, Stream};
use crate::request::side::Side;
use crate::thread::ThreadContext;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use windows::{CONNECTION_WINDOW_BYTES, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES};

/// A client that resets this many streams early, and more than half of all, is sent away (CVE-2023-44487): its resets
/// are passed on, and could make a server end a connection that others share.
const EARLY_RESETS_MAX: u32 = 200;
/// A reset within this time is early. As coarse as the clock that is asked, [`ThreadContext::swept_at`].
const EARLY: Duration = Duration::from_secs(1);
/// How long requests of a client that has closed are still passed on.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// Serves a client's connection to its end; `ahead` is what was read of it already.
pub async fn serve<S: Side>(
    thread: &Rc<ThreadContext>,
    side: &S,
    client: Stream,
    ahead: Buffer,
) -> Ending {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(thread.limits.streams_max)
        .max_header_list_size(u32::try_from(thread.limits.head_bytes_max).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES);
    let place = client.place().cloned();
    let handshake = builder.handshake(Rewound { ahead, stream: client });
    let mut connection = match tokio::time::timeout(thread.limits.head_max, handshake).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return ending_of(&error, Ending::MalformedRequest),
        Err(_) => return Ending::HeadTimeout,
    };
    let mut streams = FuturesUnordered::new();
    let mut resets = Resets::default();
    let draining = thread.drain.started();
    tokio::pin!(draining);
    let mut is_leaving = false;
    let ending = loop {
        tokio::select! {
            biased;
            Some((ended, early)) = streams.next(), if !streams.is_empty() => {
                if Ending::ends_connection(ended) && !is_leaving {
                    is_leaving = true;
                    connection.graceful_shutdown();
                }
                if resets.are_too_many(early && ended == Ending::ClientReset) {
                    connection.abrupt_shutdown(h2::Reason::ENHANCE_YOUR_CALM);
                }
                if streams.is_empty() {
                    place.iter().for_each(|place| place.idle(thread.swept_at()));
                }
            }
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    place.iter().for_each(|place| place.busy());
                    streams.push(request::serve(thread, side, request, respond));
                }
                Some(Err(error)) => break ending_of(&error, Ending::ClientReset),
                None => break Ending::Complete,
            },
            () = &mut draining, if !is_leaving => {
                is_leaving = true;
                connection.graceful_shutdown();
            }
        }
    };
    // What the client has sent is still brought to where it goes, though nobody waits for an answer.
    let rest = async { while streams.next().await.is_some() {} };
    let _limit = tokio::time::timeout(FINISH_MAX, rest).await;
    ending
}

/// Streams that a client has reset soon after it had opened them.
#[derive(Debug, Default)]
struct Resets {
    early: u32,
    streams: u32,
}

impl Resets {
    /// One more stream has ended; whether the client resets too many.
    fn are_too_many(&mut self, early: bool) -> bool {
        self.streams += 1;
        self.early += u32::from(early);
        let too_many = self.early > EARLY_RESETS_MAX && self.early > self.streams / 2;
        if self.streams >= 8 * EARLY_RESETS_MAX {
            // What was long ago counts for less and less.
            (self.streams, self.early) = (self.streams / 2, self.early / 2);
        }
        too_many
    }
}

/// What the end of a connection means.
fn ending_of(error: &h2::Error, otherwise: Ending) -> Ending {
    match error.get_io().map(io::Error::kind) {
        Some(io::ErrorKind::UnexpectedEof) => Ending::ClientClosed,
        Some(_) => Ending::ClientReset,
        None if error.is_library() => Ending::MalformedRequest,
        None => otherwise,
    }
}

/// A stream with the bytes that were read to find out what it carries.
struct Rewound {
    ahead: Buffer,
    stream: Stream,
}

impl AsyncRead for Rewound {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ahead.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let count = this.ahead.len().min(buffer.remaining());
        buffer.put_slice(&this.ahead.filled()[..count]);
        this.ahead.consume(count);
        this.ahead.release_if_empty();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.get_mut().stream), context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.get_mut().stream), context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_resets_too_much() {
        // So many of each hundred streams are reset early.
        let check = |resets_each: u32, expected: bool| {
            let mut resets = Resets::default();
            let too_many =
                (0..10_000).any(|stream| resets.are_too_many(stream % 100 < resets_each));
            assert_eq!(too_many, expected, "{resets_each} of 100");
        };
        check(0, false);
        check(40, false);
        check(70, true);
        check(100, true);
    }
}
