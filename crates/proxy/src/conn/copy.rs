//! Copies both ways until both sides have ended: half-close is carried through, a reset becomes a reset.

use crate::authorize::OpenGuard;
use crate::ending::Ending;
use crate::io::{Buffer, Stream};
use crate::refusal::Refusal;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

/// How many bytes went each way, and how it ended.
#[derive(Clone, Debug)]
pub struct Copied {
    /// From the client to the upstream.
    pub bytes_up: u64,
    /// From the upstream to the client.
    pub bytes_down: u64,
    /// Why it stopped.
    pub ending: Ending,
    /// The verdict, where the policy denied it while it was open.
    pub denied: Option<Refusal>,
}

/// One direction.
#[derive(Debug, Default)]
struct Half {
    buffer: Buffer,
    bytes: u64,
    /// Something was written since the last flush.
    unflushed: bool,
    /// The source has ended.
    ended: bool,
    /// The target's side was shut down.
    shut: bool,
}

/// Which side broke it.
enum Fault {
    Source,
    Target,
}

/// Copies until both directions have ended, one breaks, or the policy denies the connection (`open`). `up` and `down` are
/// bytes already read for each direction.
pub async fn copy(
    (client, up): (&mut Stream, Buffer),
    (upstream, down): (&mut Stream, Buffer),
    mut open: Option<OpenGuard<'_>>,
) -> Copied {
    let mut up = Half { bytes: up.len() as u64, buffer: up, ..Half::default() };
    let mut down = Half { bytes: down.len() as u64, buffer: down, ..Half::default() };
    let mut denied = None;
    let ending = poll_fn(|context| {
        if let Some(open) = &mut open {
            denied = open.poll_denied(context);
            if denied.is_some() {
                return Poll::Ready(Ending::PolicyDenied);
            }
        }
        let up_done = up.poll(client, upstream, context);
        let down_done = down.poll(upstream, client, context);
        let ending = match (up_done, down_done) {
            (Poll::Ready(Err(Fault::Source)), _) | (_, Poll::Ready(Err(Fault::Target))) => {
                Ending::ClientReset
            }
            (Poll::Ready(Err(Fault::Target)), _) | (_, Poll::Ready(Err(Fault::Source))) => {
                Ending::UpstreamReset
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Ending::Complete,
            _ => return Poll::Pending,
        };
        Poll::Ready(ending)
    })
    .await;
    if ending != Ending::Complete {
        client.reset_on_drop();
        upstream.reset_on_drop();
    }
    Copied { bytes_up: up.bytes, bytes_down: down.bytes, ending, denied }
}

impl Half {
    /// Ready when the source has ended and the target's side was shut down.
    fn poll(
        &mut self,
        source: &mut Stream,
        target: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        if self.shut {
            return Poll::Ready(Ok(()));
        }
        loop {
            if !self.buffer.is_empty() {
                ready!(self.buffer.poll_drain(target, context)).map_err(|_| Fault::Target)?;
                self.unflushed = true;
            }
            if self.ended {
                ready!(target.poll_shutdown(context)).map_err(|_| Fault::Target)?;
                self.shut = true;
                return Poll::Ready(Ok(()));
            }
            match self.buffer.poll_fill(source, context) {
                Poll::Ready(Ok(0)) => {
                    self.buffer.release_if_empty();
                    self.ended = true;
                }
                Poll::Ready(Ok(count)) => self.bytes += count as u64,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Fault::Source)),
                Poll::Pending => {
                    if self.unflushed {
                        ready!(target.poll_flush(context)).map_err(|_| Fault::Target)?;
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}
