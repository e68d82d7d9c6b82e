//! The bodies that we send.

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

/// Content, and trailers behind it.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    trailers: Option<HeaderMap>,
}

#[derive(Debug)]
enum Content {
    /// Known at once; the length is announced.
    Whole(Bytes),
    /// So many filler bytes; the length is announced.
    Fill(u64),
    Paced(Box<Paced>),
    /// The request's own, and its first frame if that was taken off already.
    Mirror(Option<Frame<Bytes>>, Incoming),
    /// Frames that a task sends, trailers included.
    Sent(mpsc::Receiver<Frame<Bytes>>),
}

/// Filler bytes, so many at a time.
#[derive(Debug)]
struct Paced {
    left: u64,
    chunk_bytes: u64,
    interval: Duration,
    due: Option<Pin<Box<Sleep>>>,
}

/// A piece of filler, sent over and over without a copy.
static FILLER: [u8; 65_536] = [b'x'; 65_536];

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Content::Whole(bytes.into()).into()
    }

    pub(crate) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(crate) fn fill(bytes: u64) -> Self {
        Content::Fill(bytes).into()
    }

    pub(crate) fn paced(left: u64, chunk_bytes: u64, interval: Duration) -> Self {
        Content::Paced(Box::new(Paced { left, chunk_bytes, interval, due: None })).into()
    }

    pub(crate) fn mirror(first: Option<Frame<Bytes>>, body: Incoming) -> Self {
        Content::Mirror(first, body).into()
    }

    pub(crate) fn sent(frames: mpsc::Receiver<Frame<Bytes>>) -> Self {
        Content::Sent(frames).into()
    }

    pub(crate) fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.trailers = (!trailers.is_empty()).then_some(trailers);
        self
    }
}

impl From<Content> for Body {
    fn from(content: Content) -> Self {
        Self { content, trailers: None }
    }
}

/// So many filler bytes as one piece.
pub(crate) fn filler(bytes: u64) -> Bytes {
    match FILLER.get(..usize::try_from(bytes).unwrap_or(usize::MAX)) {
        Some(piece) => Bytes::from_static(piece),
        None => Bytes::from(vec![b'x'; usize::try_from(bytes).unwrap_or(usize::MAX)]),
    }
}

type Polled = Poll<Option<Result<Frame<Bytes>, Box<dyn Error + Send + Sync>>>>;

impl Content {
    fn poll(&mut self, context: &mut Context<'_>) -> Polled {
        match self {
            Self::Whole(bytes) if bytes.has_remaining() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            Self::Fill(left) if *left > 0 => {
                let part = (*left).min(FILLER.len() as u64);
                *left -= part;
                Poll::Ready(Some(Ok(Frame::data(filler(part)))))
            }
            Self::Whole(_) | Self::Fill(_) => Poll::Ready(None),
            Self::Paced(paced) => paced.poll(context),
            Self::Mirror(first, body) => match first.take() {
                Some(frame) => Poll::Ready(Some(Ok(frame))),
                None => {
                    Pin::new(body).poll_frame(context).map(|f| f.map(|f| f.map_err(Into::into)))
                }
            },
            Self::Sent(frames) => frames.poll_recv(context).map(|frame| frame.map(Ok)),
        }
    }
}

impl Paced {
    fn poll(&mut self, context: &mut Context<'_>) -> Polled {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if !self.interval.is_zero() {
            let due = self.due.get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::ZERO)));
            ready!(due.as_mut().poll(context));
            due.as_mut().reset(Instant::now() + self.interval);
        }
        let part = self.left.min(self.chunk_bytes);
        self.left -= part;
        Poll::Ready(Some(Ok(Frame::data(filler(part)))))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let frame = ready!(self.content.poll(context));
        Poll::Ready(match frame {
            Some(frame) => Some(frame),
            None => self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
        })
    }

    fn is_end_stream(&self) -> bool {
        let over = match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Fill(left) => *left == 0,
            Content::Mirror(first, body) => first.is_none() && body.is_end_stream(),
            Content::Paced(_) | Content::Sent(_) => false,
        };
        over && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            // Trailers need chunks on HTTP/1, so the length is not announced.
            _ if self.trailers.is_some() => SizeHint::default(),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Fill(left) => SizeHint::with_exact(*left),
            Content::Mirror(None, body) => body.size_hint(),
            Content::Mirror(Some(first), body) => {
                let taken = first.data_ref().map_or(0, |data| data.len() as u64);
                match body.size_hint().exact() {
                    Some(left) => SizeHint::with_exact(taken + left),
                    None => SizeHint::default(),
                }
            }
            Content::Paced(_) | Content::Sent(_) => SizeHint::default(),
        }
    }
}
