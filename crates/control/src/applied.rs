//! Which proxies have applied what was sent to them, as far as this replica has their streams. In memory only.
//!
//! - `stream.rs`: how far one stream is; pure.
//! - [`answer`]: the proxies and what each of them waits for; pure.
//! - [`objects`]: routes and policies, and which proxies have applied them.
//!
//! A proxy that acknowledges (Leno's) says so when it opens a stream; others (linkerd's) are counted apart. The table has one row for each
//! open stream, and an identity cannot open more streams than its quota allows.

pub mod answer;
pub mod objects;
mod stream;

use leno_api::applied::Acknowledgement;
use leno_api::outbound::Target;
use leno_model::name::{SpiffeId, WorkloadId};
use leno_runtime::random::Random;
use objects::Generations;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use stream::Progress;

/// The streams of all proxies; cheap to clone.
#[derive(Clone, Debug)]
pub struct Applied(Arc<Table>);

#[derive(Debug)]
struct Table {
    rows: Mutex<HashMap<u64, Arc<Row>>>,
    /// Since when objects are as they are.
    generations: Mutex<Generations>,
    /// The number of the next stream. It begins at random: a report that reaches another replica acknowledges nothing there.
    next: AtomicU64,
    /// Grows with everything that changes an answer.
    changes: AtomicU64,
}

/// What a stream is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The policy of a port of the proxy's own workload.
    Inbound(u16),
    /// How traffic to a destination is treated.
    Outbound(Target),
    /// The endpoints of a destination, or its profile.
    Endpoints(Target),
}

/// One stream.
#[derive(Debug)]
struct Row {
    /// Whose certificate the stream was opened with.
    member: SpiffeId,
    /// The pod, in the client's own words. Counted only where the pod has that identity.
    workload: WorkloadId,
    watched: Watched,
    acknowledges: bool,
    // Used by one thread, and never for long.
    progress: Mutex<Progress>,
}

/// A stream's row, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    applied: Applied,
    number: u64,
    row: Arc<Row>,
}

/// A stream that an identity may not acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stream {0} belongs to another identity")]
pub struct NotOwn(u64);

impl Default for Applied {
    fn default() -> Self {
        let (rows, changes) = (Mutex::default(), AtomicU64::new(0));
        let generations = Mutex::default();
        let next = AtomicU64::new(Random::from_entropy().next_u64());
        Self(Arc::new(Table { rows, generations, next, changes }))
    }
}

impl Applied {
    /// A new stream.
    #[must_use]
    pub fn watch(
        &self,
        member: &SpiffeId,
        workload: WorkloadId,
        watched: Watched,
        acknowledges: bool,
    ) -> Watch {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let progress = Mutex::default();
        let row = Row { member: member.clone(), workload, watched, acknowledges, progress };
        let row = Arc::new(row);
        self.rows().insert(number, row.clone());
        self.changed();
        Watch { applied: self.clone(), number, row }
    }

    /// Takes what a proxy says. Streams that are not known have just ended.
    ///
    /// # Errors
    /// A stream is another identity's.
    pub fn acknowledge(
        &self,
        member: &SpiffeId,
        said: &[Acknowledgement],
        now: Instant,
    ) -> Result<(), NotOwn> {
        for one in said {
            let Some(row) = self.rows().get(&one.stream).cloned() else { continue };
            if row.member != *member {
                return Err(NotOwn(one.stream));
            }
            row.progress().acknowledge(one.messages, one.is_rejected, now);
        }
        self.changed();
        Ok(())
    }

    /// How many streams acknowledge, and the oldest world that one of them has applied.
    #[must_use]
    pub fn oldest(&self) -> (usize, u64) {
        let rows = self.rows();
        let acknowledging = rows.values().filter(|row| row.acknowledges);
        let worlds = acknowledging.map(|row| row.progress().applied());
        worlds.fold((0, u64::MAX), |(count, oldest), world| (count + 1, oldest.min(world)))
    }

    /// A number that grows with everything that changes an answer.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    fn changed(&self) {
        self.0.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.0.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Row>> {
        self.rows().values().cloned().collect()
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<u64, Arc<Row>>> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// The number by which the proxy acknowledges; `None` for a proxy that does not.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.row.acknowledges.then_some(self.number)
    }

    /// The stream has looked at this version of the world, and sends so many messages of it.
    pub fn looked(&self, version: u64, messages: usize, now: Instant) {
        if self.row.acknowledges {
            self.row.progress().looked(version, messages as u64, now);
        }
        if messages > 0 {
            self.applied.changed();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.applied.rows().remove(&self.number);
        self.applied.changed();
    }
}

#[cfg(test)]
mod tests;
