//! One concrete type for every connection of the data path: plain TCP, TLS as server or as client, or one of many inside of
//! another.

use super::{Buffer, progress};
use crate::ending::Ending;
use crate::multiplex::MultiplexedStream;
use crate::telemetry::TcpSeries;
use leno_runtime::listen::Place;
use leno_runtime::sockets::Watched;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// A TCP connection, with the bytes that were read to find out what it carries.
#[derive(Debug)]
pub struct Tcp {
    // Before the stream: it ends first.
    _watched: Watched,
    stream: TcpStream,
    /// Its place in our listener, where a client opened it.
    place: Option<Rc<Place>>,
    /// Given out before anything more is read.
    prefix: Option<Box<Buffer>>,
    /// Counts its bytes, as they are on the wire.
    counted: Option<Counted>,
}

/// An open connection in the metrics; dropped, it is closed.
#[derive(Debug)]
pub struct Counted {
    series: Rc<TcpSeries>,
    /// How it ended; counted when it is dropped.
    ending: Cell<Ending>,
}

impl Counted {
    /// Counts the connection as open; its end is counted when this is dropped.
    #[must_use]
    pub fn open(series: Rc<TcpSeries>) -> Self {
        series.opened();
        Self { series, ending: Cell::new(Ending::Complete) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.series.closed(self.ending.get());
    }
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// Plain text.
    Plain(Tcp),
    /// TLS that we accepted.
    Accepted(Box<server::TlsStream<Tcp>>),
    /// TLS that we opened.
    Opened(Box<client::TlsStream<Tcp>>),
    /// One of many in a connection that is counted and closed as a whole.
    Multiplexed(MultiplexedStream),
}

impl Tcp {
    /// A connection of which nothing was read.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        let watched = Watched::new(&stream);
        Self { _watched: watched, stream, place: None, prefix: None, counted: None }
    }

    /// One that a listener accepted.
    #[must_use]
    pub fn accepted(stream: TcpStream, place: Place) -> Self {
        Self { place: Some(Rc::new(place)), ..Self::new(stream) }
    }

    /// Counts it from now on, until it is dropped.
    pub fn count(&mut self, series: Rc<TcpSeries>) {
        self.counted = Some(Counted::open(series));
    }

    /// Puts bytes back in front; called at most once, before any read.
    pub fn unread(&mut self, bytes: Buffer) {
        debug_assert!(self.prefix.is_none(), "bytes are put back once");
        if !bytes.is_empty() {
            self.prefix = Some(Box::new(bytes));
        }
    }

    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

impl Tcp {
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &written {
            progress::made(*count);
            if let Some(counted) = &self.counted {
                counted.series.wrote(*count as u64);
            }
        }
        written
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(prefix) = &mut this.prefix {
            let count = prefix.len().min(buffer.remaining());
            buffer.put_slice(&prefix.filled()[..count]);
            prefix.consume(count);
            if prefix.is_empty() {
                this.prefix = None;
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        progress::made(count);
        if let Some(counted) = &this.counted {
            counted.series.read(count as u64);
        }
        read
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.wrote(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl Stream {
    /// A plain connection of which nothing was read.
    #[must_use]
    pub fn plain(stream: TcpStream) -> Self {
        Self::Plain(Tcp::new(stream))
    }

    /// Reads into `bytes`, which is not empty; 0 is the end of the stream. TLS that ends without its closing alert is
    /// an error (`UnexpectedEof`): a cut must not look like an end.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(bytes);
        let read = match self {
            Self::Multiplexed(stream) => {
                return stream.poll_read(context, buffer.initialized_mut());
            }
            Self::Plain(tcp) => Pin::new(tcp).poll_read(context, &mut buffer),
            Self::Accepted(tls) => Pin::new(tls.as_mut()).poll_read(context, &mut buffer),
            Self::Opened(tls) => Pin::new(tls.as_mut()).poll_read(context, &mut buffer),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    /// Writes some of `bytes`; TLS may hold them back until [`Self::poll_flush`].
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match self {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Self::Accepted(tls) => Pin::new(tls.as_mut()).poll_write(context, bytes),
            Self::Opened(tls) => Pin::new(tls.as_mut()).poll_write(context, bytes),
            Self::Multiplexed(stream) => stream.poll_write(context, bytes),
        };
        match written {
            Poll::Ready(Ok(0)) if !bytes.is_empty() => {
                Poll::Ready(Err(io::ErrorKind::WriteZero.into()))
            }
            other => other,
        }
    }

    /// Sends what TLS holds back.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Multiplexed(stream) => stream.poll_flush(),
            Self::Accepted(tls) => Pin::new(tls.as_mut()).poll_flush(context),
            Self::Opened(tls) => Pin::new(tls.as_mut()).poll_flush(context),
        }
    }

    /// Says that nothing more will be written: FIN, under TLS after its closing alert.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = match self {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Self::Accepted(tls) => Pin::new(tls.as_mut()).poll_shutdown(context),
            Self::Opened(tls) => Pin::new(tls.as_mut()).poll_shutdown(context),
            Self::Multiplexed(stream) => {
                stream.shutdown();
                Poll::Ready(Ok(()))
            }
        };
        match shut {
            // The other side has already closed.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::NotConnected => {
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    /// Whether it may serve again, as far as we have a say: a stream only while more may be opened beside it.
    #[must_use]
    pub fn may_stay(&self) -> bool {
        match self {
            Self::Multiplexed(stream) => stream.may_stay(),
            _ => true,
        }
    }

    /// Whether it is one of many in another.
    #[must_use]
    pub fn is_multiplexed(&self) -> bool {
        matches!(self, Self::Multiplexed(_))
    }

    /// Counts it from now on, until it is dropped.
    pub fn count(&mut self, series: Rc<TcpSeries>) {
        match self {
            Self::Plain(tcp) => tcp.count(series),
            Self::Accepted(tls) => tls.get_mut().0.count(series),
            Self::Opened(tls) => tls.get_mut().0.count(series),
            // What is on the wire is counted, and that is the connection around it.
            Self::Multiplexed(_) => {}
        }
    }

    fn tcp(&self) -> Option<&Tcp> {
        match self {
            Self::Plain(tcp) => Some(tcp),
            Self::Accepted(tls) => Some(tls.get_ref().0),
            Self::Opened(tls) => Some(tls.get_ref().0),
            Self::Multiplexed(_) => None,
        }
    }

    /// Its place in our listener, where it is a client's own connection.
    #[must_use]
    pub fn place(&self) -> Option<&Rc<Place>> {
        self.tcp()?.place.as_ref()
    }

    /// Nothing is under way on it: it may be closed for a new one.
    pub fn mark_idle(&self, now: Instant) {
        if let Some(place) = self.place() {
            place.idle(now);
        }
    }

    /// Something is under way on it.
    pub fn mark_busy(&self) {
        if let Some(place) = self.place() {
            place.busy();
        }
    }

    /// Makes the coming drop a reset instead of an end: the other side must not take a cut for the end of the data.
    pub fn reset_on_drop(&self) {
        // A stream of another connection needs nothing: that is what its drop means.
        let Some(tcp) = self.tcp() else { return };
        if let Some(counted) = &tcp.counted {
            counted.ending.set(Ending::ClientReset);
        }
        // The socket may already be closed; then errors do not matter.
        let _gone =
            socket2::SockRef::from(tcp.socket()).set_linger(Some(std::time::Duration::ZERO));
    }

    /// Whether an idle connection can still be used: open, and with nothing unexpected to read.
    pub fn is_idle_alive(&mut self, context: &mut Context<'_>) -> bool {
        self.poll_read(context, &mut [0; 1]).is_pending()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(context, buffer),
            Self::Accepted(tls) => Pin::new(tls.as_mut()).poll_read(context, buffer),
            Self::Opened(tls) => Pin::new(tls.as_mut()).poll_read(context, buffer),
            Self::Multiplexed(stream) => stream
                .poll_read(context, buffer.initialize_unfilled())
                .map_ok(|count| buffer.advance(count)),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Stream::poll_write(self.get_mut(), context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(context, slices),
            Self::Accepted(tls) => Pin::new(tls.as_mut()).poll_write_vectored(context, slices),
            Self::Opened(tls) => Pin::new(tls.as_mut()).poll_write_vectored(context, slices),
            Self::Multiplexed(stream) => {
                let first = slices.iter().find(|slice| !slice.is_empty());
                stream.poll_write(context, first.map_or(&[], |slice| &**slice))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_flush(self.get_mut(), context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_shutdown(self.get_mut(), context)
    }
}
