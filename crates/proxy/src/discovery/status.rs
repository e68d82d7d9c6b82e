//! Figures for metrics, and whether the control plane is there.

use crate::telemetry::text::{head, sample};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Figures of discovery. Read from any thread, written by the control runtime.
#[derive(Debug, Default)]
pub struct Status {
    /// Streams that the control plane has said something on.
    pub streams_open: AtomicUsize,
    /// Original destinations that are followed.
    pub outbound_entries: AtomicUsize,
    /// Destinations whose endpoints are followed.
    pub endpoints_entries: AtomicUsize,
    /// Inbound ports that are followed.
    pub inbound_entries: AtomicUsize,
    /// Messages that became state.
    pub updates: AtomicU64,
    /// Messages that could not be used; the state before them stayed.
    pub malformed: AtomicU64,
    /// Endpoints that were left out of a message that was used otherwise.
    pub endpoints_refused: AtomicU64,
    /// Routes that could not be read in a message that was used otherwise.
    pub routes_refused: AtomicU64,
    /// Streams that the control plane refused for a lasting reason.
    pub refusals: AtomicU64,
    /// Streams that broke or could not be opened.
    pub failures: AtomicU64,
    /// Streams that the control plane ended in order.
    pub ended: AtomicU64,
    /// States that were taken from the last snapshot.
    pub restored: AtomicU64,
    /// Asks that were not answered in time.
    pub timeouts: AtomicU64,
    /// Milliseconds since 1970; 0 while it is not reachable.
    reachable_since: AtomicU64,
    /// Never on the way of a request: read only where an ask was not answered.
    last_failure: Mutex<Option<Arc<str>>>,
}

/// Whether the control plane can be reached, as the streams show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachable {
    /// It is, since then.
    Since(SystemTime),
    /// It is not, or was never asked.
    No,
}

impl Status {
    /// Whether the control plane can be reached.
    #[must_use]
    pub fn reachable(&self) -> Reachable {
        match self.reachable_since.load(Relaxed) {
            0 => Reachable::No,
            milliseconds => Reachable::Since(UNIX_EPOCH + Duration::from_millis(milliseconds)),
        }
    }

    /// What last went wrong, while the control plane is not reachable.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<str>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes its families.
    pub fn write(&self, text: &mut String) {
        head(
            text,
            "discovery_entries",
            "gauge",
            "Destinations and ports that the proxy watches, by topic.",
        );
        let entries = [
            ("topic=\"outbound\"", &self.outbound_entries),
            ("topic=\"endpoints\"", &self.endpoints_entries),
            ("topic=\"inbound\"", &self.inbound_entries),
        ];
        for (labels, count) in entries {
            sample(text, "discovery_entries", labels, count.load(Relaxed));
        }
        head(
            text,
            "discovery_streams",
            "gauge",
            "Open streams on which the control plane has sent a message.",
        );
        sample(text, "discovery_streams", "", self.streams_open.load(Relaxed));
        head(
            text,
            "discovery_updates_total",
            "counter",
            "Messages from the control plane that were applied.",
        );
        sample(text, "discovery_updates_total", "", self.updates.load(Relaxed));
        head(
            text,
            "discovery_ended_total",
            "counter",
            "Streams that the control plane closed without an error.",
        );
        sample(text, "discovery_ended_total", "", self.ended.load(Relaxed));
        head(
            text,
            "discovery_restored_total",
            "counter",
            "Entries of the last snapshot that were applied.",
        );
        sample(text, "discovery_restored_total", "", self.restored.load(Relaxed));
        head(text, "discovery_errors_total", "counter", "Errors of discovery, by kind.");
        let errors = [
            ("error=\"malformed\"", &self.malformed),
            ("error=\"endpoint\"", &self.endpoints_refused),
            ("error=\"route\"", &self.routes_refused),
            ("error=\"refused\"", &self.refusals),
            ("error=\"stream\"", &self.failures),
            ("error=\"timeout\"", &self.timeouts),
        ];
        for (labels, count) in errors {
            sample(text, "discovery_errors_total", labels, count.load(Relaxed));
        }
        let help = "Time since when the control plane answers, in seconds since 1970; 0 while it does not.";
        head(text, "discovery_reachable_since_seconds", "gauge", help);
        let seconds = self.reachable_since.load(Relaxed) / 1000;
        sample(text, "discovery_reachable_since_seconds", "", seconds);
    }

    pub(super) fn timed_out(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }

    /// A stream has said its first word.
    pub(super) fn stream_speaks(&self) {
        self.streams_open.fetch_add(1, Relaxed);
        if self.reachable_since.load(Relaxed) == 0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let milliseconds = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).max(1);
            self.reachable_since.store(milliseconds, Relaxed);
            *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
            tracing::info!("the control plane answers");
        }
    }

    /// A stream that had sent a message has ended.
    pub(super) fn stream_over(&self) {
        self.streams_open.fetch_sub(1, Relaxed);
    }

    /// A stream broke or could not be opened. Where none is left, the control plane counts as gone.
    pub(super) fn failed(&self, failure: &str) {
        self.failures.fetch_add(1, Relaxed);
        if self.streams_open.load(Relaxed) > 0 {
            return;
        }
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.into());
        if self.reachable_since.swap(0, Relaxed) != 0 {
            tracing::warn!(
                failure,
                "the control plane does not answer; the last configuration stays in use"
            );
        }
    }
}

/// Counts one, until it is dropped.
pub(super) struct Counted(Arc<Status>, fn(&Status) -> &AtomicUsize);

impl Counted {
    pub(super) fn new(status: Arc<Status>, figure: fn(&Status) -> &AtomicUsize) -> Self {
        figure(&status).fetch_add(1, Relaxed);
        Self(status, figure)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, Relaxed);
    }
}

/// A stream that has sent a message, until it is dropped.
pub(super) struct Speaking(Arc<Status>);

impl Speaking {
    pub(super) fn new(status: Arc<Status>) -> Self {
        status.stream_speaks();
        Self(status)
    }
}

impl Drop for Speaking {
    fn drop(&mut self) {
        self.0.stream_over();
    }
}
