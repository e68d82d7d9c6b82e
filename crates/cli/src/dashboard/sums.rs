//! Counters of proxies, their growth, and percentiles of the growth. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// What one proxy has counted for one key since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) success: f64,
    pub(super) failure: f64,
    /// Responses and opened connections with mutual TLS.
    pub(super) secured: f64,
    /// Responses and opened connections without it.
    pub(super) plain: f64,
    pub(super) denied: f64,
    pub(super) opened: f64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
    /// Connections that are open now, with mutual TLS and without it.
    pub(super) open: (f64, f64),
    /// Responses at most so slow, by bound in microseconds; `u32::MAX` is infinity.
    pub(super) latency: BTreeMap<u32, f64>,
    pub(super) reasons: BTreeMap<String, f64>,
}

/// What was counted for one key in a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) success: u64,
    pub(super) failure: u64,
    pub(super) secured: u64,
    pub(super) plain: u64,
    pub(super) denied: u64,
    pub(super) opened: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    /// Responses of each bucket that has some, by upper bound in microseconds.
    pub(super) latency: BTreeMap<u32, u32>,
    /// Failed responses by reason.
    pub(super) reasons: BTreeMap<String, u64>,
}

/// A proxy that was restarted counts from zero.
fn grown(before: f64, now: f64) -> u64 {
    (if now >= before { now - before } else { now }) as u64
}

impl Sums {
    /// The growth from `before` to `now`.
    pub(super) fn between(before: &Totals, now: &Totals) -> Self {
        let mut latency = BTreeMap::new();
        let mut below = 0;
        for (bound, count) in &now.latency {
            let at_most = grown(before.latency.get(bound).copied().unwrap_or(0.0), *count);
            // Cumulative buckets become buckets of their own, most of which are empty.
            let own = at_most.saturating_sub(below);
            below = below.max(at_most);
            if own > 0 {
                latency.insert(*bound, u32::try_from(own).unwrap_or(u32::MAX));
            }
        }
        let reason = |(reason, count): (&String, &f64)| {
            let more = grown(before.reasons.get(reason).copied().unwrap_or(0.0), *count);
            (more > 0).then(|| (reason.clone(), more))
        };
        Self {
            success: grown(before.success, now.success),
            failure: grown(before.failure, now.failure),
            secured: grown(before.secured, now.secured),
            plain: grown(before.plain, now.plain),
            denied: grown(before.denied, now.denied),
            opened: grown(before.opened, now.opened),
            read_bytes: grown(before.read_bytes, now.read_bytes),
            write_bytes: grown(before.write_bytes, now.write_bytes),
            latency,
            reasons: now.reasons.iter().filter_map(reason).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.success += other.success;
        self.failure += other.failure;
        self.secured += other.secured;
        self.plain += other.plain;
        self.denied += other.denied;
        self.opened += other.opened;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        for (bound, count) in &other.latency {
            let sum = self.latency.entry(*bound).or_default();
            *sum = sum.saturating_add(*count);
        }
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
    }

    pub(super) fn ended(&self) -> u64 {
        self.success + self.failure
    }

    /// Share of responses that succeeded; `None` without responses.
    pub(super) fn success_rate(&self) -> Option<f64> {
        (self.ended() > 0).then(|| self.success as f64 / self.ended() as f64)
    }

    /// A percentile in milliseconds, in a straight line through its bucket; the last finite bound where the percentile lies beyond.
    /// `bounds` has all bounds in microseconds, also those of empty buckets.
    pub(super) fn percentile(&self, bounds: &BTreeSet<u32>, share: f64) -> Option<f64> {
        let all: u64 = self.latency.values().map(|count| u64::from(*count)).sum();
        let wanted = all as f64 * share;
        let mut below = 0.0;
        for (bound, count) in &self.latency {
            let count = f64::from(*count);
            if below + count >= wanted {
                let lower = bounds.range(..bound).next_back().copied().map_or(0.0, f64::from);
                if *bound == u32::MAX {
                    return Some(lower / 1000.0);
                }
                let upper = f64::from(*bound);
                return Some((lower + (upper - lower) * ((wanted - below) / count)) / 1000.0);
            }
            below += count;
        }
        None
    }
}
