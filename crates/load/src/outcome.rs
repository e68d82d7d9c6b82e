//! What one generator has seen, as `leno bench load --json` prints it and `leno bench run` reads it.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of [`Outcome`]'s JSON.
pub const SCHEMA: &str = "leno-bench/load/v1";

/// One finished load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// When the measured phase began, RFC 3339 in UTC.
    pub start: String,
    /// The same, in nanoseconds of the machine's monotonic clock: what other samples of the run are cut by.
    pub start_monotonic_ns: u64,
    /// How long the measured phase lasted, in seconds.
    pub duration_s: f64,
    /// URL, protocol, schedule and the other settings, as the engine understood them.
    pub settings: serde_json::Value,
    /// How many.
    pub counts: Counts,
    /// How long.
    pub hist: Histograms,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// What the generator itself cost.
    pub generator: Generator,
    /// What was said first of a kind of failure, where anything was: `connect` and `tls`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub first_errors: BTreeMap<String, String>,
    /// Why the figures may not be quoted; empty where they may.
    pub invalid_reasons: Vec<String>,
}

/// How many requests of the measured phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Counts {
    /// Due by the schedule (open), or started (closed).
    pub offered: u64,
    /// Sent.
    pub started: u64,
    /// Answered whole, whatever the status.
    pub completed: u64,
    /// Not sent, as too many were in flight already.
    pub shed: u64,
    /// Failed, by kind: `connect`, `tls`, `reset`, `closed`, `timeout`, `protocol`.
    pub errors: BTreeMap<String, u64>,
    /// Answered, by HTTP status; gRPC adds `grpc-N` for every status but 0.
    pub status: BTreeMap<String, u64>,
    /// Connections opened in the measured phase.
    pub connections: u64,
    /// Connections that were opened in the place of one that had ended.
    pub reconnects: u64,
    /// Bytes of bodies sent.
    pub bytes_out: u64,
    /// Bytes of bodies received.
    pub bytes_in: u64,
    /// The most requests in flight at once.
    pub in_flight_max: u64,
}

impl Counts {
    /// Adds everything that another generator has counted.
    pub fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.started += other.started;
        self.completed += other.completed;
        self.shed += other.shed;
        self.connections += other.connections;
        self.reconnects += other.reconnects;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        // They need not have been at the same moment: an upper bound.
        self.in_flight_max += other.in_flight_max;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        for (status, count) in &other.status {
            *self.status.entry(status.clone()).or_default() += count;
        }
    }
}

/// Latencies of the measured phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Histograms {
    /// From when the request was due (open) or sent (closed) to the end of its answer. The primary figure.
    pub response: Histogram,
    /// From the send to the end of the answer.
    pub service: Histogram,
    /// Opening a connection, TLS included.
    pub connect: Histogram,
    /// From the send to the first byte of the answer.
    pub ttfb: Histogram,
    /// From when the generator could have sent (due, and a connection free) to when it did: its own fault.
    pub lateness: Histogram,
}

impl Histograms {
    /// Adds everything that the other has seen.
    pub fn merge(&mut self, other: &Self) {
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.connect.merge(&other.connect);
        self.ttfb.merge(&other.ttfb);
        self.lateness.merge(&other.lateness);
    }
}

/// One second of the measured phase; latencies are those of requests that ended in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the phase began.
    pub at_s: u64,
    /// How many seconds it stands for: 1, and in a phase of more than an hour 2, 4, …
    #[serde(default = "one")]
    pub span_s: u64,
    /// Requests due.
    pub offered: u64,
    /// Requests answered.
    pub completed: u64,
    /// Requests failed, and answers of 500 and above.
    pub failed: u64,
    /// Of those, the ones that were answered: with 500 and above, or a gRPC status.
    #[serde(default)]
    pub failed_answers: u64,
    /// Response latencies.
    pub response: Histogram,
    /// Those of `failed_answers` among them; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Box<Histogram>>,
}

impl Default for Second {
    fn default() -> Self {
        Self {
            at_s: 0,
            span_s: one(),
            offered: 0,
            completed: 0,
            failed: 0,
            failed_answers: 0,
            response: Histogram::new(),
            refused: None,
        }
    }
}

impl Second {
    /// How much of a phase it covers, in seconds: the last one may be a short one.
    #[must_use]
    pub fn length_s(&self, phase_s: f64) -> f64 {
        let (span, left) = (self.span_s.max(1) as f64, phase_s - self.at_s as f64);
        // What came after the end is a second like any other.
        if left > 0.0 { span.min(left) } else { span }
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        self.span_s = self.span_s.max(other.span_s);
        self.offered += other.offered;
        self.completed += other.completed;
        self.failed += other.failed;
        self.failed_answers += other.failed_answers;
        self.response.merge(&other.response);
        if let Some(refused) = &other.refused {
            self.refused.get_or_insert_default().merge(refused);
        }
    }

    /// Response latencies of the answers that are not failures.
    #[must_use]
    pub fn accepted(&self) -> Histogram {
        match &self.refused {
            Some(refused) => self.response.without(refused),
            None => self.response.clone(),
        }
    }
}

const fn one() -> u64 {
    1
}

/// What the generator cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Generator {
    /// Threads that made requests.
    pub threads: usize,
    /// CPU seconds, user and system, of the measured phase.
    pub cpu_s: f64,
    /// CPU microseconds per request.
    pub cpu_us_per_req: f64,
    /// Share of the busiest thread's time that was CPU.
    pub busy_max: f64,
    /// The same with the time in which it waited for a core: near 1, it could not keep up.
    #[serde(default)]
    pub wanted_max: f64,
    /// The most memory resident, in MiB.
    pub rss_mib_max: f64,
}
