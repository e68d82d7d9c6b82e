//! What a proxy that is restarted in its pod goes on with while the control plane is away: what it knew, and who it is.
//!
//! Two files in the state directory: `discovery`, written anew a moment after something has changed, and `credential`,
//! which is kept only where the directory is memory, because a workload's key is never on a disk. Their format is
//! `leno_api::snapshot`. Nothing here runs on the data path, and nothing that goes wrong here ends the proxy: it is logged
//! and counted, and the proxy begins with nothing, as a new one does.
//!
//! - [`directory`]: files, written whole and read with suspicion.
//! - [`status`]: figures for metrics.

pub mod directory;
pub mod status;

use crate::config::Config;
use crate::discovery::{self, Known, Memory, Reachable};
use directory::{Directory, DirectoryError};
use leno_api::snapshot::{Certified, FileError, Owner, Snapshot, Writer, read};
pub use status::Status;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{sleep, timeout};

/// What is known of destinations and ports.
const DISCOVERY_FILE: &str = "discovery";
/// Key and chain.
const CREDENTIAL_FILE: &str = "credential";
/// What changes together is saved together, and a proxy that is killed has lost no more than this.
const SAVE_DELAY: Duration = Duration::from_secs(1);
/// Between two saves at least so many times as long as one took: a large state that changes all the time costs 2 % of a core.
const SAVE_PAUSE_FACTOR: u32 = 50;
/// Saved again although nothing has changed, so that the file's age says since when nobody knows better.
const REFRESH_INTERVAL: Duration = Duration::from_mins(10);
/// The usual life of a certificate. What is older was saved by a proxy that has long lost its own.
const AGE_MAX: Duration = Duration::from_hours(24);

/// Why something was not saved, or not taken.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The directory or a file in it.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// What is in the file.
    #[error("{0}: {1}")]
    File(&'static str, FileError),
    /// The file belongs to another pod.
    #[error("{0}: the snapshot belongs to {1}, and this proxy is {2}")]
    OtherOwner(&'static str, String, String),
    /// There is no credential in it.
    #[error("{0}: the snapshot has no credential")]
    NoCredential(&'static str),
}

/// The state directory, and whose files are in it.
#[derive(Debug)]
pub struct Store {
    directory: Directory,
    owner: Owner,
    status: Arc<Status>,
}

impl Store {
    /// The directory of this configuration, where it has one that can be used.
    #[must_use]
    pub fn open(config: &Config, status: Arc<Status>) -> Option<Arc<Self>> {
        let path = config.state_dir.as_ref()?;
        let owner = Owner {
            workload: config.workload.to_string(),
            uid: config.pod_uid.clone().unwrap_or_default(),
            identity: config.identity.to_string(),
        };
        match Self::at(path, owner, status.clone()) {
            Ok(store) => {
                let (memory, swapped) =
                    (store.directory.is_memory(), store.directory.may_be_swapped());
                let credential = if memory {
                    "the snapshot and the credential are stored for a restart"
                } else {
                    "the snapshot is stored for a restart; the credential is not, because the directory is on a disk"
                };
                tracing::info!(path = %path.display(), memory, swapped, "{credential}");
                Some(Arc::new(store))
            }
            Err(error) => {
                status.failed(&error);
                None
            }
        }
    }

    /// A directory of whichever kind.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn at(path: &Path, owner: Owner, status: Arc<Status>) -> Result<Self, SnapshotError> {
        Ok(Self { directory: Directory::open(path)?, owner, status })
    }

    /// What was known before, or nothing.
    #[must_use]
    pub fn load(&self) -> Memory {
        match self.take(DISCOVERY_FILE) {
            Ok(Some(snapshot)) => {
                let age = age(snapshot.saved_at);
                let memory = Memory::restored(snapshot);
                let states = memory.known().len();
                self.status.loaded.store(states as u64, Relaxed);
                let age_seconds = age.as_secs();
                if age > AGE_MAX {
                    tracing::warn!(
                        states,
                        age_seconds,
                        "the snapshot is older than the lifetime of a certificate; it is used while the control plane does not answer"
                    );
                } else {
                    tracing::info!(
                        states,
                        age_seconds,
                        "the snapshot was read; it is used while the control plane does not answer"
                    );
                }
                memory
            }
            Ok(None) => Memory::default(),
            Err(error) => {
                self.status.failed(&error);
                Memory::default()
            }
        }
    }

    /// Saves what is known, again and again as it changes.
    pub async fn keep(
        self: Arc<Self>,
        memory: Arc<Memory>,
        discovery: Arc<discovery::Status>,
        unused_max: Duration,
    ) {
        loop {
            let changed = timeout(REFRESH_INTERVAL, memory.changed()).await.is_ok();
            sleep(SAVE_DELAY).await;
            match discovery.reachable() {
                Reachable::Since(since) => {
                    if since.elapsed().is_ok_and(|reachable| reachable > unused_max) {
                        memory.prune();
                    }
                }
                // What is old stays as old as it is.
                Reachable::No if !changed => continue,
                Reachable::No => {}
            }
            let known = memory.known();
            if known.is_empty() && !changed {
                continue;
            }
            let (store, began) = (self.clone(), Instant::now());
            let saved = tokio::task::spawn_blocking(move || store.save(&known)).await;
            match saved {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.status.failed(&error),
                Err(error) => tracing::error!(%error, "saving a snapshot has panicked"),
            }
            sleep(began.elapsed() * SAVE_PAUSE_FACTOR).await;
        }
    }

    /// Writes the file of what is known.
    ///
    /// # Errors
    /// It cannot be written; the one before it stays.
    pub fn save(&self, known: &Known) -> Result<(), SnapshotError> {
        let now = unix_now();
        let mut writer = Writer::new(&self.owner, now);
        // In the order of what is worse to be without; endpoints are what can be large.
        known.inbound.iter().for_each(|(port, one)| writer.inbound(*port, &one.state));
        known.outbound.iter().for_each(|(target, one)| writer.outbound(*target, &one.state));
        known.endpoints.iter().for_each(|(name, one)| writer.endpoints(name, &one.state));
        let (bytes, left_out) = writer.finish();
        self.directory.write(DISCOVERY_FILE, &bytes)?;
        self.status.saved(now, bytes.len(), known.len(), left_out);
        Ok(())
    }

    /// Keeps key and chain, where the directory is memory.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn save_credential(&self, certified: &Certified) -> Result<(), SnapshotError> {
        if !self.directory.is_memory() {
            return Ok(());
        }
        let mut writer = Writer::new(&self.owner, unix_now());
        writer.certified(certified);
        Ok(self.directory.write(CREDENTIAL_FILE, &writer.finish().0)?)
    }

    /// Key and chain, and when they were given to us; unverified. Nothing is read from a disk, even if it is there.
    ///
    /// # Errors
    /// There is a file that cannot be used.
    pub fn load_credential(&self) -> Result<Option<(Certified, Duration)>, SnapshotError> {
        if !self.directory.is_memory() {
            return Ok(None);
        }
        let Some(snapshot) = self.take(CREDENTIAL_FILE)? else { return Ok(None) };
        let certified = snapshot.certified.ok_or(SnapshotError::NoCredential(CREDENTIAL_FILE))?;
        Ok(Some((certified, snapshot.saved_at)))
    }

    /// Figures for metrics.
    #[must_use]
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    fn take(&self, file: &'static str) -> Result<Option<Snapshot>, SnapshotError> {
        let Some(bytes) = self.directory.read(file, leno_api::snapshot::BYTES_MAX)? else {
            return Ok(None);
        };
        let snapshot = read(&bytes).map_err(|error| SnapshotError::File(file, error))?;
        if snapshot.owner != self.owner {
            let shown =
                |owner: &Owner| format!("{} {} {}", owner.workload, owner.uid, owner.identity);
            let (theirs, ours) = (shown(&snapshot.owner), shown(&self.owner));
            return Err(SnapshotError::OtherOwner(file, theirs, ours));
        }
        Ok(Some(snapshot))
    }
}

/// What was saved in the future was saved now, by another clock.
fn age(saved_at: Duration) -> Duration {
    unix_now().saturating_sub(saved_at)
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests;
