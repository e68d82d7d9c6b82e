//! What a data thread does for traces: begins a span with each request, and keeps it at the end where it is wanted.
//!
//! Spans go to the exporter in batches: to wake another thread costs more than to write a span.

use super::context::TraceContext;
use super::export::{Batch, Counts};
use super::otlp::{self, field};
use super::span::{OwnSpan, Sampling, write};
use crate::telemetry::request_summary::RequestSummary;
use leno_runtime::random::Random;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// Spans of one batch. The data thread gives away a smaller one each second.
const BATCH_MAX: u64 = 64;

/// Cheap to clone, one per data thread.
#[derive(Clone, Debug)]
pub struct Tracer {
    pub sampling: Sampling,
    queue: mpsc::Sender<Batch>,
    counts: Counts,
    /// Spans that no batch has taken yet.
    pending: RefCell<Batch>,
    /// A span that is being written.
    span: RefCell<Vec<u8>>,
}

impl Tracer {
    #[must_use]
    pub fn new(sampling: Sampling, queue: mpsc::Sender<Batch>, counts: Counts) -> Self {
        Self { sampling, queue, counts, pending: RefCell::default(), span: RefCell::default() }
    }

    /// The span of a request that begins.
    #[must_use]
    pub fn begin(&self, incoming: Option<TraceContext>, random: &Random) -> OwnSpan {
        self.sampling.begin(incoming, || random.next_u64())
    }

    /// A request has ended, and its span is kept.
    pub fn keep(&self, own: &OwnSpan, request: &RequestSummary<'_>) {
        let (mut span, mut pending) = (self.span.borrow_mut(), self.pending.borrow_mut());
        span.clear();
        write(&mut span, own, request);
        otlp::bytes(&mut pending.spans, field::scope_spans::SPANS, &span);
        pending.count += 1;
        let is_full = pending.count >= BATCH_MAX;
        drop(pending);
        if is_full {
            self.give();
        }
    }

    /// Gives the spans to the exporter. Where its queue is full, they are dropped and counted.
    pub fn give(&self) {
        let batch = self.pending.take();
        let count = batch.count;
        if count > 0 && self.queue.try_send(batch).is_err() {
            self.counts.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}
