//! A recording of the heads as they came off the wire: hyper keeps neither the case nor the order of HTTP/1 header names,
//! and `/echo` must show both.
//!
//! [`Wire`] wraps the socket and writes what is read to its [`Tape`]. The service calls [`Tape::next_head`] once per request,
//! in order; bodies are skipped by their framing, so that the tape always begins with a head. HTTP/2 switches it off.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The socket of a connection that we serve.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    tape: Arc<Tape>,
}

/// Shared by the socket and the service; the lock is never contended, both live on one thread (hyper's upgrades want `Send`).
#[derive(Debug, Default)]
pub(crate) struct Tape {
    state: Mutex<State>,
    reset: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    now: Now,
}

#[derive(Debug, Default)]
enum Now {
    #[default]
    Head,
    Skip(u64),
    Chunks(Chunks),
    Off,
}

/// How the body behind a head is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    /// The connection is no longer HTTP after this head.
    Other,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> (Self, Arc<Tape>) {
        let tape = Arc::new(Tape::default());
        (Self { stream, tape: Arc::clone(&tape) }, tape)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.tape.reset.load(Ordering::Relaxed) {
            // Close with RST instead of FIN; if the socket is gone already, so is the peer.
            let _gone = self.stream.set_zero_linger();
        }
    }
}

impl Tape {
    /// The connection will end with a reset when it is dropped.
    pub(crate) fn reset_at_end(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    /// Takes the head of the request that is now being served.
    pub(crate) fn next_head(&self, framing: Framing) -> Vec<u8> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = head_end(&state.bytes);
        let rest = state.bytes.split_off(end);
        let head = std::mem::replace(&mut state.bytes, Vec::with_capacity(HEAD_BYTES_USUAL));
        state.now = match framing {
            Framing::Length(0) => Now::Head,
            Framing::Length(length) => Now::Skip(length),
            Framing::Chunked => Now::Chunks(Chunks::default()),
            Framing::Other => Now::Off,
        };
        state.record(&rest);
        head
    }

    fn record(&self, bytes: &[u8]) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).record(bytes);
    }
}

/// Most heads fit; a longer one grows the buffer.
const HEAD_BYTES_USUAL: usize = 512;

impl State {
    fn record(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (skipped, over) = match &mut self.now {
                Now::Off => return,
                Now::Head => {
                    self.bytes.extend_from_slice(bytes);
                    if self.bytes.starts_with(b"PRI * HTTP/2.0") {
                        *self = Self { bytes: Vec::new(), now: Now::Off };
                    }
                    return;
                }
                Now::Skip(left) => {
                    let part = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= part as u64;
                    (part, *left == 0)
                }
                Now::Chunks(chunks) => chunks.skip(bytes),
            };
            bytes = &bytes[skipped..];
            if over {
                self.now = Now::Head;
            }
        }
    }
}

/// Behind the first empty line that follows a line which is not empty.
fn head_end(bytes: &[u8]) -> usize {
    let mut line_is_empty = true;
    let mut begun = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if line_is_empty && begun => return at + 1,
            b'\n' => line_is_empty = true,
            b'\r' => {}
            _ => (line_is_empty, begun) = (false, true),
        }
    }
    bytes.len()
}

/// Where we are in a chunked body.
#[derive(Debug)]
enum Chunks {
    /// In the line with the size; `true` behind its digits.
    Size(u64, bool),
    /// In a chunk or the line end behind it.
    Data(u64),
    /// In the trailers; how long the line is so far.
    Trailers(usize),
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Size(0, false)
    }
}

impl Chunks {
    /// How many bytes belong to the body, and whether it is over.
    fn skip(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match self {
                Self::Data(left) => {
                    let part = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    *left -= part as u64;
                    at += part;
                    if *left == 0 {
                        *self = Self::default();
                    }
                    continue;
                }
                Self::Size(0, _) if *byte == b'\n' => *self = Self::Trailers(0),
                Self::Size(size, _) if *byte == b'\n' => *self = Self::Data(size.saturating_add(2)),
                Self::Size(size, behind) => match char::from(*byte).to_digit(16) {
                    Some(digit) if !*behind => *size = (*size << 4) | u64::from(digit),
                    _ => *behind = true,
                },
                Self::Trailers(0) if *byte == b'\n' => return (at + 1, true),
                Self::Trailers(length) => match byte {
                    b'\n' => *length = 0,
                    b'\r' => {}
                    _ => *length += 1,
                },
            }
            at += 1;
        }
        (at, false)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.tape.record(&buffer.filled()[before..]);
        }
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_head_however_the_bytes_arrive() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let put = "PUT / HTTP/1.1\r\ncontent-LENGTH: 5\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&[(get, "", Framing::Length(0)), (get, "", Framing::Length(0))]);
        check(&[(put, "a\r\n\r\n", Framing::Length(5)), (get, "", Framing::Length(0))]);
        let body = "5;a=1\r\nab\n\n5\r\nB \r\n0123456789a\r\n0\r\nx: y\r\n\r\n";
        check(&[(post, body, Framing::Chunked), (get, "", Framing::Length(0))]);
        check(&[(post, "0\r\n\r\n", Framing::Chunked), (put, "abcde", Framing::Length(5))]);
        check(&[("\r\nGET / HTTP/1.0\n\n", "", Framing::Length(0)), (get, "", Framing::Length(0))]);
    }

    #[track_caller]
    fn check(requests: &[(&str, &str, Framing)]) {
        let all: String = requests.iter().map(|(head, body, _)| format!("{head}{body}")).collect();
        for step in 1..=all.len() {
            let tape = Tape::default();
            let mut fed = 0;
            let mut due = 0;
            for (head, body, framing) in requests {
                // The service runs as soon as the head is complete, whatever came along with it.
                while fed < due + head.len() {
                    let next = (fed + step).min(all.len());
                    tape.record(&all.as_bytes()[fed..next]);
                    fed = next;
                }
                assert_eq!(String::from_utf8_lossy(&tape.next_head(*framing)), **head, "{step}");
                due += head.len() + body.len();
            }
        }
    }

    #[test]
    fn is_off_for_http2() {
        let tape = Tape::default();
        tape.record(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        tape.record(b"any frame");
        assert_eq!(tape.next_head(Framing::Other), b"");
    }
}
