//! The connection of one HTTP/1 request: an idle one, a stream of a shared one, else a new one.

use super::mux::AGAIN_AFTER;
use crate::balance::Slot;
use crate::conn::dial::{self, HandshakeError};
use crate::io::Stream;
use crate::multiplex::Session;
use crate::refusal::Refusal;
use crate::request::codec::{Acquired, Place};
use crate::thread::ThreadContext;
use crate::upstream::{Peer, Prefer, Turn};
use leno_runtime::tasks;
use leno_tls::Refused;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A proxy that does not know how to share is asked again after this long: it may be another one by then.
const UNKNOWN_FOR: Duration = Duration::from_mins(10);

/// A connection to this endpoint; a fresh one where one has died with this request. `may_share`: the request is whole, and
/// no tunnel.
///
/// # Errors
/// The endpoint cannot be reached, or too many wait for it.
pub async fn acquire(
    place: Place<'_>,
    slot: &Rc<Slot<Peer>>,
    may_share: bool,
) -> Result<Acquired<Stream>, Refusal> {
    let Place { thread, direction, pool, fresh_only } = place;
    let prefer = prefer(thread, slot, may_share && !fresh_only);
    if prefer == Prefer::Shared {
        begin_sharing(thread, slot);
    }
    let reused = |upstream, at_once| Ok(Acquired { upstream, reused: true, at_once });
    if !fresh_only && let Some(stream) = slot.data.take(prefer).await {
        return reused(stream, true);
    }
    let _pending = pool.pending(thread)?;
    let _acquiring = slot.data.acquire();
    if prefer == Prefer::Shared {
        slot.data.shared.opened().await?;
        if let Some(stream) = slot.data.take(prefer).await {
            return reused(stream, false);
        }
    }
    let turn = match slot.data.turn((!fresh_only).then_some(prefer)).await {
        Turn::Idle(stream) => return reused(stream, false),
        Turn::Dial(turn) => turn,
    };
    let dialling = dial::connect(thread, direction, &slot.endpoint, dial::Carries::Http);
    let stream = Box::pin(dialling).await;
    drop(turn);
    let upstream = stream?;
    slot.connected();
    Ok(Acquired { upstream, reused: false, at_once: false })
}

/// In a crowd a shared connection is the better one; who is alone goes quicker in one of its own.
fn prefer(thread: &ThreadContext, slot: &Slot<Peer>, may_share: bool) -> Prefer {
    if !may_share || slot.endpoint.identity.is_none() || !slot.data.shared.is_of_use() {
        return Prefer::OnlyOwn;
    }
    let at_once = slot.outstanding() + slot.data.acquiring() + 1;
    if at_once >= thread.limits.shared_from_requests { Prefer::Shared } else { Prefer::Own }
}

/// Many requests are at this endpoint: a shared connection is opened, unless there is one.
fn begin_sharing(thread: &Rc<ThreadContext>, slot: &Rc<Slot<Peer>>) {
    if thread.drain.has_started() || !slot.data.shared.claim(thread.swept_at()) {
        return;
    }
    let (thread, slot) = (thread.clone(), slot.clone());
    tasks::spawn_local("shared connection", async move {
        let dialled = dial::shared(&thread, &slot.endpoint).await;
        let shared = &slot.data.shared;
        let now = Instant::now();
        let stream = match dialled {
            Ok(stream) => stream,
            Err(HandshakeError::Tls(Refused::ApplicationProtocol)) => {
                return shared.not_opened(now + UNKNOWN_FOR, None);
            }
            // Those who wait connect for themselves, and learn what is wrong, if it still is.
            Err(HandshakeError::Tls(_)) => return shared.not_opened(now + AGAIN_AFTER, None),
            Err(HandshakeError::Unreached(refusal)) => {
                return shared.not_opened(now + AGAIN_AFTER, Some(refusal));
            }
        };
        slot.connected();
        let session = Session::dialled();
        shared.holds(session.clone(), now);
        slot.data.tell_all();
        let drain = thread.drain.clone();
        // The endpoint may go, and the thread with it, while the session ends its streams.
        drop((slot, thread));
        if let Err(error) = session.run(stream, &drain, drop).await {
            tracing::debug!(%error, "a shared connection broke");
        }
    });
}
