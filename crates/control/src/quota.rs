//! What one identity may hold of the control plane: connections and streams, in proportion to its pods.
//!
//! Without these, one stolen certificate could open every connection with every stream, and the control plane would
//! run out of memory for all.

use crate::limit::{
    CONNECTIONS_PER_POD_MAX, CONNECTIONS_SPARE, STREAMS_PER_CONNECTION_MAX as STREAMS_PER_POD_MAX,
};
use leno_model::name::SpiffeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What each identity holds.
#[derive(Clone, Debug, Default)]
pub struct Quotas(Arc<Mutex<HashMap<SpiffeId, Held>>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    connections: usize,
    streams: usize,
}

/// What a quota is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Connection,
    Stream,
}

impl Kind {
    fn of(self, held: &mut Held) -> &mut usize {
        match self {
            Self::Connection => &mut held.connections,
            Self::Stream => &mut held.streams,
        }
    }

    /// The most that an identity with so many pods may hold. Pods that are just being made or that have just gone are
    /// not counted, and a connection whose other side has died is open for another minute: hence what is spare.
    fn max(self, pods: usize) -> usize {
        match self {
            Self::Connection => pods * CONNECTIONS_PER_POD_MAX + CONNECTIONS_SPARE,
            Self::Stream => (pods + 1) * STREAMS_PER_POD_MAX as usize,
        }
    }
}

/// A part of a quota, until it is dropped.
#[derive(Debug)]
pub struct Share {
    quotas: Quotas,
    id: SpiffeId,
    kind: Kind,
}

impl Quotas {
    /// One more connection of an identity with so many pods; `None` where it has as many as it may.
    #[must_use]
    pub fn connection(&self, id: &SpiffeId, pods: usize) -> Option<Share> {
        self.take(id, Kind::Connection, pods)
    }

    /// One more stream of it, on whichever of its connections.
    #[must_use]
    pub fn stream(&self, id: &SpiffeId, pods: usize) -> Option<Share> {
        self.take(id, Kind::Stream, pods)
    }

    fn take(&self, id: &SpiffeId, kind: Kind, pods: usize) -> Option<Share> {
        let mut all = self.all();
        let count = kind.of(all.entry(id.clone()).or_default());
        if *count >= kind.max(pods) {
            return None;
        }
        *count += 1;
        Some(Share { quotas: self.clone(), id: id.clone(), kind })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SpiffeId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut all = self.quotas.all();
        let Some(held) = all.get_mut(&self.id) else { return };
        let count = self.kind.of(held);
        *count = count.saturating_sub(1);
        if *held == Held::default() {
            all.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_as_much_as_its_pods_need_and_gives_it_back() {
        let quotas = Quotas::default();
        let id =
            |account: &str| SpiffeId::service_account("cluster.local", "shop", account).unwrap();
        let all = |account: &str, pods| {
            std::iter::from_fn(|| quotas.connection(&id(account), pods)).collect::<Vec<_>>()
        };
        let web = all("web", 2);
        assert_eq!(web.len(), 2 * CONNECTIONS_PER_POD_MAX + CONNECTIONS_SPARE);
        // Another identity has its own, and streams are counted apart.
        assert_eq!(all("other", 0).len(), CONNECTIONS_SPARE);
        let streams = || std::iter::from_fn(|| quotas.stream(&id("web"), 0));
        assert_eq!(streams().collect::<Vec<_>>().len(), STREAMS_PER_POD_MAX as usize);
        assert_eq!(all("web", 2).len(), 0);
        drop(web);
        assert_eq!(all("web", 0).len(), CONNECTIONS_SPARE);
        assert!(quotas.all().is_empty());
    }
}
