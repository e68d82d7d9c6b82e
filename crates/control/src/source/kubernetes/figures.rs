//! What is counted of the source, by kind.

use super::WATCHED;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Counters of the source.
#[derive(Debug, Default)]
pub struct Figures {
    kinds: [OfKind; WATCHED.len()],
    lag_microseconds: AtomicU64,
    published_seconds: AtomicU64,
    published: AtomicU64,
    used: AtomicBool,
    leads: AtomicBool,
}

#[derive(Debug, Default)]
struct OfKind {
    objects: AtomicU64,
    restarts: AtomicU64,
    lists: AtomicU64,
    failures: AtomicU64,
    heard_seconds: AtomicU64,
}

impl Figures {
    fn of(&self, kind: &str) -> &OfKind {
        let at = WATCHED.iter().position(|(known, _)| *known == kind).unwrap_or(0);
        &self.kinds[at]
    }

    /// The source is an API server.
    pub fn used(&self) {
        self.used.store(true, Relaxed);
    }

    /// Whether this replica leads.
    pub fn leads(&self, leads: bool) {
        self.leads.store(leads, Relaxed);
    }

    /// A watch is taken up again.
    pub fn restarted(&self, kind: &str) {
        self.of(kind).restarts.fetch_add(1, Relaxed);
    }

    /// All objects of a kind were listed.
    pub fn listed(&self, kind: &str) {
        self.of(kind).lists.fetch_add(1, Relaxed);
    }

    /// A list or watch failed.
    pub fn failed(&self, kind: &str) {
        self.of(kind).failures.fetch_add(1, Relaxed);
    }

    /// The API server said something of a kind.
    pub fn heard(&self, kind: &str, now: SystemTime) {
        self.of(kind).heard_seconds.store(seconds(now), Relaxed);
    }

    pub(super) fn counted(&self, count: impl Fn(&str) -> usize) {
        for ((kind, _), figures) in WATCHED.iter().zip(&self.kinds) {
            figures.objects.store(count(kind) as u64, Relaxed);
        }
    }

    pub(super) fn published(&self, lag: Duration, now: SystemTime) {
        let microseconds = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        self.lag_microseconds.store(microseconds, Relaxed);
        self.published_seconds.store(seconds(now), Relaxed);
        self.published.fetch_add(1, Relaxed);
    }

    /// The text exposition; nothing where directories are the source.
    pub fn render(&self, out: &mut String) {
        if !self.used.load(Relaxed) {
            return;
        }
        let mut by_kind =
            |name: &str, kind: &str, help: &str, figure: fn(&OfKind) -> &AtomicU64| {
                let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
                for ((of, _), figures) in WATCHED.iter().zip(&self.kinds) {
                    let _ =
                        writeln!(out, "{name}{{kind=\"{of}\"}} {}", figure(figures).load(Relaxed));
                }
            };
        by_kind("control_source_objects", "gauge", "Objects from the API server, by kind.", |k| {
            &k.objects
        });
        by_kind(
            "control_source_watch_restarts_total",
            "counter",
            "Restarted watches, by kind.",
            |k| &k.restarts,
        );
        by_kind("control_source_lists_total", "counter", "Complete lists.", |k| &k.lists);
        by_kind(
            "control_source_failures_total",
            "counter",
            "Failed lists and watches, by kind.",
            |k| &k.failures,
        );
        by_kind(
            "control_source_heard_timestamp_seconds",
            "gauge",
            "Time of the last answer of the API server, by kind, in seconds since 1970.",
            |k| &k.heard_seconds,
        );
        let mut one = |name: &str, kind: &str, help: &str, value: String| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        one(
            "control_leader",
            "gauge",
            "1 if this replica is the leader, otherwise 0.",
            u8::from(self.leads.load(Relaxed)).to_string(),
        );
        one(
            "control_source_inventories_total",
            "counter",
            "Published inventories that differ from the one before.",
            self.published.load(Relaxed).to_string(),
        );
        one(
            "control_source_lag_seconds",
            "gauge",
            "Time from the first event of the last inventory until it was published.",
            format!("{:.6}", self.lag_microseconds.load(Relaxed) as f64 / 1e6),
        );
        one(
            "control_source_last_good_timestamp_seconds",
            "gauge",
            "Time when the last inventory was published, in seconds since 1970.",
            self.published_seconds.load(Relaxed).to_string(),
        );
    }
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
