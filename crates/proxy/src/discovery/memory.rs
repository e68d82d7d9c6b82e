//! What is known of everything that is followed, in one place: what the snapshot on disk is written from, and what a restarted
//! proxy begins with.
//!
//! States are shared with those who use them, so an entry costs a key and a pointer. Nothing here is asked by a request.

use super::topic::Topic;
use leno_api::snapshot::Snapshot;
use leno_model::policy::InboundPolicy;
use leno_model::route::OutboundPolicy;
use leno_model::workload::EndpointSet;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// States by what they are about.
pub(super) type Kept<K, T> = HashMap<K, Remembered<T>>;

/// A state, and who said it.
#[derive(Debug)]
pub struct Remembered<T> {
    pub state: Arc<T>,
    /// The control plane has said it to this process; otherwise it is from the last snapshot.
    pub live: bool,
}

impl<T> Clone for Remembered<T> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), live: self.live }
    }
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// How traffic to original destinations is treated.
    pub outbound: Kept<SocketAddr, OutboundPolicy>,
    /// Endpoints of destinations.
    pub endpoints: Kept<Arc<str>, EndpointSet>,
    /// Who may reach which port.
    pub inbound: Kept<u16, InboundPolicy>,
}

impl Known {
    /// How many states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outbound.len() + self.endpoints.len() + self.inbound.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is known, as it changes.
#[derive(Debug, Default)]
pub struct Memory {
    // Written by the control runtime alone, read when a snapshot is saved.
    known: Mutex<Known>,
    changed: Notify,
}

impl Memory {
    /// Of what the last snapshot says.
    #[must_use]
    pub fn restored(snapshot: Snapshot) -> Self {
        fn kept<K: Eq + std::hash::Hash, T>(states: Vec<(K, T)>) -> Kept<K, T> {
            let one = |(key, state)| (key, Remembered { state: Arc::new(state), live: false });
            states.into_iter().map(one).collect()
        }
        let known = Known {
            outbound: kept(snapshot.outbound),
            endpoints: kept(snapshot.endpoints),
            inbound: kept(snapshot.inbound),
        };
        Self { known: Mutex::new(known), changed: Notify::new() }
    }

    /// Everything, as of now.
    #[must_use]
    pub fn known(&self) -> Known {
        self.lock().clone()
    }

    /// Ready when something has changed since it was last ready.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Lets go of what the control plane has not said again although it could.
    pub fn prune(&self) {
        let mut known = self.lock();
        known.outbound.retain(|_, one| one.live);
        known.endpoints.retain(|_, one| one.live);
        known.inbound.retain(|_, one| one.live);
    }

    pub(super) fn recall<K: Topic>(&self, key: &K::Key) -> Option<Arc<K::State>> {
        K::kept(&mut self.lock()).get(key).map(|one| one.state.clone())
    }

    pub(super) fn learn<K: Topic>(&self, key: &K::Key, state: Arc<K::State>) {
        let mut known = self.lock();
        let kept = K::kept(&mut known);
        let same =
            kept.get(key).is_some_and(|before| before.live && Arc::ptr_eq(&before.state, &state));
        if !same {
            kept.insert(key.clone(), Remembered { state, live: true });
            self.changed.notify_one();
        }
    }

    /// Nobody uses it any more, and the control plane would say it again.
    pub(super) fn forget<K: Topic>(&self, key: &K::Key) {
        if K::kept(&mut self.lock()).remove(key).is_some() {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
