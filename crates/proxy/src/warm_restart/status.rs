//! Figures of the snapshot, for metrics.

use super::SnapshotError;
use super::directory::DirectoryError;
use crate::telemetry::text::{head, sample};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Figures of the snapshot. Read from any thread, written by the control runtime.
#[derive(Debug, Default)]
pub struct Status {
    /// When what is known was last saved, Unix time; 0 before the first time.
    pub saved_unix_seconds: AtomicU64,
    /// Bytes of that file.
    pub saved_bytes: AtomicU64,
    pub saved_states: AtomicU64,
    /// States that did not fit into it.
    pub left_out: AtomicU64,
    /// States of the last snapshot that were there when this process began.
    pub loaded: AtomicU64,
    /// Files that could not be written, or the directory not opened.
    pub failures: AtomicU64,
    /// Snapshot files that were rejected.
    pub refused: AtomicU64,
}

impl Status {
    pub(super) fn saved(&self, at: Duration, bytes: usize, states: usize, left_out: usize) {
        self.saved_states.store((states - left_out) as u64, Relaxed);
        self.saved_unix_seconds.store(at.as_secs(), Relaxed);
        self.saved_bytes.store(bytes as u64, Relaxed);
        // Said once for each time that it becomes so, not each time that it is saved.
        if self.left_out.swap(left_out as u64, Relaxed) == 0 && left_out > 0 {
            tracing::warn!(
                left_out,
                bytes,
                "the snapshot is full; entries that did not fit are lost when the proxy restarts"
            );
        }
    }

    /// Counts and logs an error.
    pub fn failed(&self, error: &SnapshotError) {
        let refused = !matches!(error, SnapshotError::Directory(DirectoryError::Io(..)));
        if refused {
            self.refused.fetch_add(1, Relaxed);
            tracing::warn!(%error, "the snapshot in the state directory is not valid and was ignored");
        } else {
            self.failures.fetch_add(1, Relaxed);
            tracing::warn!(%error, "the state directory (LENO_PROXY_STATE_DIR) is not usable; the proxy starts without a snapshot after a restart");
        }
    }

    /// Writes its families.
    pub fn write(&self, text: &mut String) {
        let mut gauge = |name: &str, help: &str, value: &AtomicU64| {
            head(text, name, "gauge", help);
            sample(text, name, "", value.load(Relaxed));
        };
        gauge(
            "snapshot_saved_timestamp_seconds",
            "Time when the snapshot was last written, in seconds since 1970; 0 if never.",
            &self.saved_unix_seconds,
        );
        gauge("snapshot_bytes", "Size of the last snapshot.", &self.saved_bytes);
        gauge("snapshot_states", "Entries in the last snapshot.", &self.saved_states);
        gauge(
            "snapshot_left_out",
            "Entries that did not fit into the last snapshot.",
            &self.left_out,
        );
        gauge(
            "snapshot_loaded",
            "Entries that were read from the snapshot at start.",
            &self.loaded,
        );
        head(
            text,
            "snapshot_errors_total",
            "counter",
            "Snapshots that could not be written (failed) or were rejected when read (refused).",
        );
        let errors = [("error=\"failed\"", &self.failures), ("error=\"refused\"", &self.refused)];
        for (labels, count) in errors {
            sample(text, "snapshot_errors_total", labels, count.load(Relaxed));
        }
    }
}
