//! One direction of a stream's body: data under the flow control of both sides, then trailers.

use crate::request::mirror::copy::NotCopied;
use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

/// A body on its way.
pub struct Body {
    source: RecvStream,
    /// Received and not yet sent.
    chunk: Bytes,
    /// To be sent before anything is read: what an earlier attempt had sent.
    again: VecDeque<Bytes>,
    /// What was sent, for another attempt; `None` when it was too much or is no longer wanted.
    sent: Option<Vec<Bytes>>,
    replay_bytes_max: u64,
    /// It is remembered up to this size, though it is not sent again beyond `replay_bytes_max`.
    copied_bytes_max: u64,
    stage: Stage,
    /// What the head of a response says of its length.
    announced: Option<u64>,
    /// Bytes that were sent on.
    pub bytes: u64,
    /// The trailers, once they have come.
    pub trailers: Option<HeaderMap>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Data,
    Trailers,
    Done,
}

/// Which side broke it.
#[derive(Debug)]
pub enum Fault {
    /// Where the body comes from.
    Source(h2::Error),
    /// Where it goes.
    Target(Option<h2::Error>),
}

impl Body {
    /// A body of which nothing was read. `ended` when the head said that there is none.
    #[must_use]
    pub fn new(source: RecvStream, ended: bool) -> Self {
        let stage = if ended { Stage::Done } else { Stage::Data };
        Self {
            source,
            chunk: Bytes::new(),
            again: VecDeque::new(),
            sent: None,
            replay_bytes_max: 0,
            copied_bytes_max: 0,
            stage,
            announced: None,
            bytes: 0,
            trailers: None,
        }
    }

    /// Says that it is a response's, and how long its head says that it is. A server that has answered may reset with
    /// `NO_ERROR` to be spared the rest of the request (RFC 9113 §8.1). The reset can hide the end of the stream from
    /// us, so only an answer that is known to be whole is taken for one.
    #[must_use]
    pub fn of_response(mut self, announced: Option<u64>) -> Self {
        self.announced = announced;
        self
    }

    fn is_whole_answer(&self, error: &h2::Error) -> bool {
        error.is_reset()
            && error.reason() == Some(Reason::NO_ERROR)
            && self.announced == Some(self.bytes)
    }

    /// Remembers what is sent, up to so many bytes, so that it can be sent again.
    pub fn replayable(&mut self, bytes_max: u64) {
        self.sent = Some(Vec::new());
        self.replay_bytes_max = bytes_max;
    }

    /// Remembers it up to so many bytes, so that a mirror can have a copy.
    pub fn copied(&mut self, bytes_max: u64) {
        self.copied_bytes_max = bytes_max;
    }

    /// Whether everything that was sent is still at hand, and may be sent again.
    #[must_use]
    pub fn can_rewind(&self) -> bool {
        self.sent.is_some() && self.bytes <= self.replay_bytes_max
    }

    /// The same body from its beginning, where that is still at hand.
    pub fn rewind(&mut self) -> bool {
        if !self.can_rewind() {
            return false;
        }
        let Some(sent) = self.sent.replace(Vec::new()) else { return false };
        let unsent = std::mem::replace(&mut self.again, sent.into());
        if !self.chunk.is_empty() {
            self.again.push_back(std::mem::take(&mut self.chunk));
        }
        // An attempt after the first may have stopped before all of these were sent again.
        self.again.extend(unsent);
        if self.bytes > 0 || self.trailers.is_some() {
            self.stage = Stage::Data;
        }
        self.bytes = 0;
        true
    }

    /// All of it, as it was sent on.
    ///
    /// # Errors
    /// It was not sent to its end, or is too large.
    pub fn copy(&self) -> Result<Vec<Bytes>, NotCopied> {
        if !self.is_done() {
            return Err(NotCopied::Incomplete);
        }
        self.sent.clone().ok_or(NotCopied::TooLarge)
    }

    /// Whether all of it was sent on.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Sends it on to its end.
    pub fn poll(
        &mut self,
        target: &mut SendStream<Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        loop {
            match self.stage {
                Stage::Data => {
                    if !self.chunk.is_empty() {
                        ready!(self.poll_chunk(target, context))?;
                        continue;
                    }
                    if let Some(chunk) = self.again.pop_front() {
                        self.chunk = chunk;
                        continue;
                    }
                    match ready!(self.source.poll_data(context)) {
                        Some(Ok(chunk)) if chunk.is_empty() && !self.source.is_end_stream() => {}
                        Some(Ok(chunk)) if chunk.is_empty() => self.end(target)?,
                        Some(Ok(chunk)) => self.chunk = chunk,
                        Some(Err(error)) if self.is_whole_answer(&error) => self.end(target)?,
                        Some(Err(error)) => return Poll::Ready(Err(Fault::Source(error))),
                        None => self.stage = Stage::Trailers,
                    }
                }
                Stage::Trailers => match ready!(self.source.poll_trailers(context)) {
                    Ok(Some(trailers)) => {
                        self.trailers = Some(trailers.clone());
                        target
                            .send_trailers(trailers)
                            .map_err(|error| Fault::Target(Some(error)))?;
                        self.stage = Stage::Done;
                    }
                    Ok(None) => self.end(target)?,
                    Err(error) if self.is_whole_answer(&error) => self.end(target)?,
                    Err(error) => return Poll::Ready(Err(Fault::Source(error))),
                },
                Stage::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Sends as much of the chunk as the target takes, and lets the source send as much again.
    fn poll_chunk(
        &mut self,
        target: &mut SendStream<Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        target.reserve_capacity(self.chunk.len());
        let room = match target.capacity() {
            0 => match ready!(target.poll_capacity(context)) {
                Some(Ok(room)) => room,
                Some(Err(error)) => return Poll::Ready(Err(Fault::Target(Some(error)))),
                None => return Poll::Ready(Err(Fault::Target(None))),
            },
            room => room,
        };
        let part = self.chunk.split_to(room.min(self.chunk.len()));
        let count = part.len();
        self.remember(&part);
        let last = self.chunk.is_empty() && self.again.is_empty() && self.source.is_end_stream();
        target.send_data(part, last).map_err(|error| Fault::Target(Some(error)))?;
        self.bytes += count as u64;
        if last {
            self.stage = Stage::Done;
        }
        // An error means that the source was reset; reading on says so.
        let _reset = self.source.flow_control().release_capacity(count);
        Poll::Ready(Ok(()))
    }

    fn remember(&mut self, part: &Bytes) {
        if let Some(sent) = &mut self.sent {
            let kept_bytes_max = self.replay_bytes_max.max(self.copied_bytes_max);
            if self.bytes + part.len() as u64 > kept_bytes_max {
                self.sent = None;
            } else {
                sent.push(part.clone());
            }
        }
    }

    fn end(&mut self, target: &mut SendStream<Bytes>) -> Result<(), Fault> {
        self.stage = Stage::Done;
        target.send_data(Bytes::new(), true).map_err(|error| Fault::Target(Some(error)))
    }
}

/// The reason to pass on for an error of one side.
#[must_use]
pub fn reason(error: Option<&h2::Error>) -> Option<Reason> {
    error.filter(|error| error.is_reset()).and_then(h2::Error::reason)
}
