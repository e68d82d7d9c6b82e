//! Everything that looks at requests: access log, taps and traces at single ones, the record at sums. Where nobody looks at single
//! requests, a request costs one relaxed load.

use super::access_log::AccessLog;
use super::request_summary::RequestSummary;
use super::shown_headers::Name;
use super::tap::Taps;
use super::trace::span::OwnSpan;
use super::trace::tracer::Tracer;
use crate::record::Batch;
use leno_model::name::SpiffeId;
use leno_runtime::random::Random;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::mpsc;

/// One per data thread; cheap to clone.
#[derive(Clone, Debug)]
pub struct Observers {
    /// The identity of the proxy's own pod.
    pub identity: SpiffeId,
    pub access_log: Option<AccessLog>,
    pub taps: Arc<Taps>,
    pub tracer: Option<Tracer>,
    /// Who takes the sums of the record.
    pub record: Option<mpsc::Sender<Batch>>,
}

impl Observers {
    /// Whether a request that begins now is looked at.
    #[must_use]
    pub fn look(&self) -> bool {
        self.access_log.is_some() || self.tracer.is_some() || self.taps.are_open()
    }

    /// Request headers that one of them wants.
    #[must_use]
    pub fn headers(&self) -> Cow<'_, [Name]> {
        let logged = self.access_log.as_ref().map_or(&[][..], AccessLog::headers);
        match self.taps.headers() {
            tapped if tapped.is_empty() => Cow::Borrowed(logged),
            tapped => Cow::Owned(logged.iter().cloned().chain(tapped).collect()),
        }
    }

    /// Shows a request that has ended to all of them. Answers whether its span is kept.
    pub fn ended(
        &self,
        summary: &RequestSummary<'_>,
        span: Option<&OwnSpan>,
        random: &Random,
    ) -> bool {
        if let Some(log) = &self.access_log {
            log.write(summary, random.unit());
        }
        if self.taps.are_open() {
            self.taps.offer(summary);
        }
        match (&self.tracer, span) {
            (Some(tracer), Some(span)) => tracer.ended(span, summary),
            _ => false,
        }
    }
}
