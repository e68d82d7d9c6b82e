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
use std::time::Duration;
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

/// What observers want of a request besides method, target and host.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Headers by name.
    pub headers: Cow<'a, [Name]>,
    /// `user-agent` and `referer`.
    pub agent: bool,
}

impl Observers {
    /// Whether a request that begins now is looked at.
    #[must_use]
    pub fn look(&self) -> bool {
        self.access_log.is_some() || self.tracer.is_some() || self.taps.are_open()
    }

    /// Whether one of them looks at every request that ends, and not only at those whose span is kept.
    #[must_use]
    pub fn look_at_all(&self) -> bool {
        self.access_log.is_some() || self.taps.are_open()
    }

    /// What they want of a request besides method, target and host.
    #[must_use]
    pub fn wanted(&self) -> Wanted<'_> {
        let logged = self.access_log.as_ref().map_or(&[][..], AccessLog::headers);
        let headers = match self.taps.headers().as_slice() {
            [] => Cow::Borrowed(logged),
            tapped => Cow::Owned([logged, tapped].concat()),
        };
        Wanted { headers, agent: self.access_log.is_some() }
    }

    /// Whether the span of a request is kept that took so long; `is_notable` says whether it failed or was sent again.
    #[must_use]
    pub fn keeps(&self, span: &OwnSpan, is_notable: bool, total: Duration) -> bool {
        let keeps = |tracer: &Tracer| tracer.sampling.keeps(span, is_notable, total);
        self.tracer.as_ref().is_some_and(keeps)
    }

    /// Shows a request that has ended to all of them, with its span where that is kept.
    pub fn ended(&self, summary: &RequestSummary<'_>, kept: Option<&OwnSpan>, random: &Random) {
        if let Some(log) = &self.access_log {
            log.write(summary, random.unit());
        }
        if self.taps.are_open() {
            self.taps.offer(summary);
        }
        if let (Some(tracer), Some(span)) = (&self.tracer, kept) {
            tracer.keep(span, summary);
        }
    }
}
