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
    let mut connection = match builder.handshake(Rewound { ahead, stream: client }).await {
        Ok(connection) => connection,
        Err(error) => return ending_of(&error, Ending::MalformedRequest),
    };
    let mut streams = FuturesUnordered::new();
    let draining = thread.drain.started();
    tokio::pin!(draining);
    let mut is_leaving = false;
    let ending = loop {
        tokio::select! {
            biased;
            Some(ended) = streams.next(), if !streams.is_empty() => {
                if Ending::ends_connection(ended) && !is_leaving {
                    is_leaving = true;
                    connection.graceful_shutdown();
                }
            }
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => streams.push(request::serve(thread, side, request, respond)),
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
