//! The connection of one request: an idle one, a stream of a shared one, else a new one.

use crate::balance::Slot;
use crate::http1::relay::Hop;
use crate::mesh::Worker;
use crate::request::attempts::Tried;
use crate::request::local_reply::Refusal;
use crate::upstream::{Backend, Peer, Pooled, Prefer, Turn};
use std::rc::Rc;

/// A connection to this endpoint; a fresh one where one has died with this request. `may_share`: the request is whole, and
/// no tunnel.
///
/// # Errors
/// The endpoint cannot be reached, or too many wait for it.
pub async fn acquire<H: Hop>(
    worker: &Worker,
    hop: &H,
    backend: &Backend,
    slot: &Rc<Slot<Peer>>,
    may_share: bool,
    tried: Tried,
) -> Result<Pooled, Refusal> {
    let fresh_only = tried.repeated;
    let prefer = prefer(worker, slot, may_share && !fresh_only);
    if prefer == Prefer::Shared {
        hop.crowd(slot);
    }
    if !fresh_only && let Some(stream) = slot.data.take(prefer).await {
        return Ok(Pooled { stream, reused: true, at_once: true });
    }
    let _pending = backend.pending(worker)?;
    let _acquiring = slot.data.acquire();
    if prefer == Prefer::Shared {
        slot.data.shared.opened().await?;
        if let Some(stream) = slot.data.take(prefer).await {
            return Ok(Pooled { stream, reused: true, at_once: false });
        }
    }
    let turn = match slot.data.turn((!fresh_only).then_some(prefer)).await {
        Turn::Idle(stream) => return Ok(Pooled { stream, reused: true, at_once: false }),
        Turn::Dial(turn) => turn,
    };
    let stream = Box::pin(hop.connect(slot)).await;
    drop(turn);
    let stream = stream?;
    slot.connected();
    Ok(Pooled { stream, reused: false, at_once: false })
}

/// In a crowd a shared connection is the better one; who is alone goes quicker in one of its own.
fn prefer(worker: &Worker, slot: &Slot<Peer>, may_share: bool) -> Prefer {
    if !may_share || slot.endpoint.identity.is_none() || !slot.data.shared.is_of_use() {
        return Prefer::OnlyOwn;
    }
    let at_once = slot.outstanding() + slot.data.acquiring() + 1;
    if at_once >= worker.limits.shared_from_requests { Prefer::Shared } else { Prefer::Own }
}
