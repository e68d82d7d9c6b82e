//! What a data thread does for traces: begins a span with each request, and queues it at the end where it is kept.

use super::context::TraceContext;
use super::export::Counts;
use super::otlp::Span;
use super::span::{OwnSpan, Sampling, span};
use crate::telemetry::request_summary::RequestSummary;
use leno_runtime::random::Random;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// Cheap to clone, one per data thread.
#[derive(Clone, Debug)]
pub struct Tracer {
    sampling: Sampling,
    queue: mpsc::Sender<Span>,
    counts: Counts,
}

impl Tracer {
    #[must_use]
    pub fn new(sampling: Sampling, queue: mpsc::Sender<Span>, counts: Counts) -> Self {
        Self { sampling, queue, counts }
    }

    /// The span of a request that begins.
    #[must_use]
    pub fn begin(&self, incoming: Option<TraceContext>, random: &Random) -> OwnSpan {
        self.sampling.begin(incoming, || random.next_u64())
    }

    /// A request has ended. Answers whether its span is kept; where the queue is full, the span is dropped and counted.
    pub fn ended(&self, own: &OwnSpan, request: &RequestSummary<'_>) -> bool {
        if !self.sampling.keeps(own, request) {
            return false;
        }
        let is_queued = self.queue.try_send(span(own, request)).is_ok();
        if !is_queued {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_queued
    }
}
