//! What is noted about a request while somebody looks at it, and spare room for the next one.

use crate::request::route::RouteChoice;
use crate::telemetry::observers::Wanted;
use crate::telemetry::request_summary::Attempt;
use crate::telemetry::shown_headers::{self, Values};
use crate::telemetry::trace::context::TraceContext;
use crate::telemetry::trace::span::OwnSpan;
use leno_model::name::Resource;
use leno_model::workload::Endpoint;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a request says of itself to those that look at it. Texts of the client are bytes as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Method, target and the authority that the client named, one behind the other, and where the first two end.
    texts: Vec<u8>,
    ends: [usize; 2],
    /// `HTTP/1.1`.
    pub version: &'static str,
    /// Empty where the request has none, or where nobody wants it; so is the referer.
    pub user_agent: Vec<u8>,
    pub referer: Vec<u8>,
    /// Headers that somebody asked for by name.
    pub headers: Values,
}

impl Description {
    /// Describes a request with these texts: method, target, authority.
    pub fn set<'a>(
        &mut self,
        version: &'static str,
        texts: [&[u8]; 3],
        wanted: &Wanted<'_>,
        header: impl Fn(&str) -> Option<&'a [u8]>,
    ) {
        let of_agent = |name| match wanted.agent {
            true => header(name).unwrap_or_default().to_vec(),
            false => Vec::new(),
        };
        let [method, target, _] = texts;
        self.texts.clear();
        texts.iter().for_each(|text| self.texts.extend_from_slice(text));
        self.ends = [method.len(), method.len() + target.len()];
        self.version = version;
        (self.user_agent, self.referer) = (of_agent("user-agent"), of_agent("referer"));
        self.headers = shown_headers::values(&wanted.headers, header);
    }

    /// As the client wrote it.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        &self.texts[..self.ends[0]]
    }

    /// The target as received.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.texts[self.ends[0]..self.ends[1]]
    }

    /// The authority that the client named.
    #[must_use]
    pub fn host(&self) -> &[u8] {
        &self.texts[self.ends[1]..]
    }
}

/// What is noted about a request only while somebody looks: access log, tap or traces.
#[derive(Debug, Default)]
pub struct Observed {
    pub description: Description,
    /// Its trace, where a header names one.
    pub(super) trace: Option<TraceContext>,
    /// The proxy's own span, where tracing is on.
    pub span: Option<OwnSpan>,
    /// The route that it follows.
    pub(super) route: Option<RouteChoice>,
    /// The object that admits it to our application.
    pub(super) admitted_by: Option<Resource>,
    /// The endpoint that it was sent to last.
    pub(super) endpoint: Option<Arc<Endpoint>>,
    pub(super) attempts: SmallVec<[Attempt; 1]>,
    /// When the wait for the connection of an attempt began.
    pub(super) acquires_at: Option<Instant>,
    pub(super) queue: Duration,
    pub(super) connect: Duration,
}

impl Observed {
    /// Of a request with this trace; its description is not set.
    #[must_use]
    pub fn begin(spare: &Spare, trace: Option<TraceContext>, span: Option<OwnSpan>) -> Box<Self> {
        let mut observed = spare.0.borrow_mut().pop().unwrap_or_default();
        (observed.trace, observed.span) = (trace, span);
        observed
    }
}

/// What was noted about requests that have ended, for the next ones: two allocations less for each.
#[expect(clippy::vec_box, reason = "a record needs its box again")]
#[derive(Debug, Default)]
pub struct Spare(RefCell<Vec<Box<Observed>>>);

/// Spare ones of a thread, and the longest texts of one in bytes: 100 KiB together.
const SPARE_MAX: usize = 64;
const SPARE_TEXT_BYTES_MAX: usize = 1024;

impl Spare {
    /// Takes what is not needed any more.
    pub fn put(&self, mut observed: Box<Observed>) {
        let mut all = self.0.borrow_mut();
        if all.len() < SPARE_MAX && observed.description.texts.capacity() <= SPARE_TEXT_BYTES_MAX {
            let texts = std::mem::take(&mut observed.description.texts);
            *observed = Observed::default();
            observed.description.texts = texts;
            all.push(observed);
        }
    }
}
