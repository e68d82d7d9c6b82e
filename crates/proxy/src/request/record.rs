//! What became of a request: one record, which the metrics, the access log and the log read.

use crate::authorize::Connection;
use crate::balance::Slot;
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::decision::Plan;
use crate::request::observed::Observed;
use crate::request::retry::Answer;
use crate::request::route::RouteChoice;
use crate::telemetry::histogram::Exemplar;
use crate::telemetry::request_summary::{self, Attempt, RequestSummary};
use crate::telemetry::trace::context::TraceContext;
use crate::telemetry::trace::span::OwnSpan;
use crate::telemetry::{Direction, HttpSeries};
use crate::thread::ThreadContext;
use crate::upstream::Peer;
use leno_model::name::PeerName;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

/// The record of one request, filled while it runs.
#[derive(Debug)]
pub struct RequestRecord {
    /// When its head had come.
    pub begun: Instant,
    /// When the response's head had come.
    pub head_at: Option<Instant>,
    /// Status sent to the client; 0 where none was.
    pub status: u16,
    /// `grpc-status` sent to the client.
    pub grpc: Option<u16>,
    /// Bytes of the request's body that were passed on.
    pub request_bytes: u64,
    /// Bytes of the response's body that were passed on.
    pub response_bytes: u64,
    /// Why it was not sent once more, in a word.
    pub retry_denied: Option<&'static str>,
    /// The series of the endpoint that it was sent to last.
    series: Option<Rc<HttpSeries>>,
    /// Made only while somebody looks.
    pub observed: Option<Box<Observed>>,
}

impl RequestRecord {
    /// A request begins.
    #[must_use]
    pub fn new(observed: Option<Box<Observed>>) -> Self {
        Self {
            begun: Instant::now(),
            head_at: None,
            status: 0,
            grpc: None,
            request_bytes: 0,
            response_bytes: 0,
            retry_denied: None,
            series: None,
            observed,
        }
    }

    /// The trace that the request carries on, where tracing is on.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        Some(&self.observed.as_ref()?.span.as_ref()?.context)
    }

    /// The request follows this plan.
    pub fn planned(&mut self, plan: &Plan) {
        if let Some(observed) = &mut self.observed {
            observed.route.clone_from(&plan.route);
            observed.admitted_by.clone_from(&plan.admitted_by);
        }
    }

    /// An attempt begins: it waits for a connection.
    pub fn acquires(&mut self) {
        if let Some(observed) = &mut self.observed {
            let now = Instant::now();
            if observed.acquires_at.is_none() {
                observed.queue = now.saturating_duration_since(self.begun);
            }
            observed.acquires_at = Some(now);
        }
    }

    /// The request is sent to this endpoint, `at_once` where it did not wait for a connection. It counts as a request of each endpoint
    /// that it is sent to, and as a response of the last one.
    pub fn sent_to(&mut self, slot: &Slot<Peer>, series: Rc<HttpSeries>, at_once: bool) {
        if let Some(observed) = &mut self.observed {
            observed.endpoint = Some(slot.endpoint.clone());
            let began = observed.acquires_at;
            let now = began.filter(|_| at_once).unwrap_or_else(Instant::now);
            let waited = began.map(|at| now.saturating_duration_since(at));
            observed.connect += waited.unwrap_or_default();
            let after = now.saturating_duration_since(self.begun);
            let to = Some(slot.endpoint.address);
            observed.attempts.push(Attempt { after, to, ..Attempt::default() });
        }
        if !self.series.as_ref().is_some_and(|known| Rc::ptr_eq(known, &series)) {
            series.request();
            self.series = Some(series);
        }
    }

    /// Another attempt follows, for this reason. Where no attempt was sent since the last one that failed, the proxy could connect
    /// to no endpoint.
    pub fn retried(&mut self, why: &'static str) {
        let Some(observed) = &mut self.observed else { return };
        match observed.attempts.last_mut().filter(|last| last.failure.is_empty()) {
            Some(last) => last.failure = why,
            None => {
                let after = self.begun.elapsed();
                observed.attempts.push(Attempt { after, failure: why, ..Attempt::default() });
            }
        }
    }

    /// The endpoint that it was sent to last has given a response that is not passed on: it counts there.
    pub fn rejected(&mut self, answer: &Answer, now: Instant) {
        if let Some(last) = self.observed.as_mut().and_then(|observed| observed.attempts.last_mut())
        {
            last.status = answer.status;
        }
        if let Some(series) = self.series.take() {
            let latency = now.saturating_duration_since(self.begun);
            series.response(answer.status, answer.grpc, Ending::Complete, latency);
        }
    }

    /// The request has ended: it is counted and logged.
    pub fn ended(
        &mut self,
        thread: &ThreadContext,
        (direction, connection): (Direction, &Connection),
        why: &Refusal,
    ) {
        let ending = why.ending;
        let head_at = self.head_at.unwrap_or_else(Instant::now);
        let latency = head_at.saturating_duration_since(self.begun);
        let status = if self.status == 0 { ending.shown().status } else { self.status };
        match &self.series {
            Some(series) => series.response(status, self.grpc, ending, latency),
            None => {
                let service = connection.service.as_deref();
                thread.recorder.request_refused(direction, ending, service);
            }
        }
        if let Some(observed) = self.observed.take() {
            let is_kept = self.show(&observed, thread, (direction, connection), why);
            if let (true, Some(series), Some(span)) = (is_kept, &self.series, observed.span) {
                let trace_id = span.context.trace_id;
                series.remember(status, Exemplar { trace_id, latency, at: SystemTime::now() });
            }
            thread.spare.put(observed);
        }
        if ending != Ending::Complete {
            let client = connection.client;
            let peer = connection.peer_name().map_or("", PeerName::as_str);
            let text = if why.detail.is_empty() { ending.shown().text } else { &why.detail };
            let denial = why.denial.map(|id| id.to_string());
            // The level is data here, and tracing wants it constant.
            macro_rules! tell {
                ($level:ident) => {
                    tracing::$level!(
                        direction = direction.as_str(),
                        %client,
                        peer,
                        ending = ending.flag(),
                        status = self.status,
                        denial = denial.as_deref(),
                        "request ended: {text}"
                    )
                };
            }
            // A request that the proxy answered itself is in no endpoint's numbers: its reason is here too.
            match ending.shown().level {
                _ if self.series.is_some() => tell!(debug),
                tracing::Level::ERROR | tracing::Level::WARN => tell!(warn),
                tracing::Level::INFO => tell!(info),
                _ => tell!(debug),
            }
        }
    }

    /// Shows the request to access log, taps and traces. Answers whether its span is kept.
    fn show(
        &self,
        observed: &Observed,
        thread: &ThreadContext,
        (direction, connection): (Direction, &Connection),
        why: &Refusal,
    ) -> bool {
        let (total, description) = (self.begun.elapsed(), &observed.description);
        let is_failure = request_summary::is_failure(self.status, self.grpc, why.ending);
        let is_retried = request_summary::is_retried(&observed.attempts);
        let is_notable = is_failure || is_retried;
        let is_kept = |span: &&OwnSpan| thread.observers.keeps(span, is_notable, total);
        let kept = observed.span.as_ref().filter(is_kept);
        if kept.is_none() && !thread.observers.look_at_all() {
            return false;
        }
        let endpoint = observed.endpoint.as_deref();
        let own = thread.observers.identity.as_str();
        let peer = connection.peer_name().map_or("", PeerName::as_str);
        let server = endpoint.and_then(|endpoint| endpoint.identity.as_ref());
        let server = server.map_or("", |identity| identity.name.as_str());
        let (client_id, server_id) = match direction {
            Direction::Inbound => (peer, own),
            Direction::Outbound => (own, server),
        };
        let is_complete = why.ending == Ending::Complete;
        let reason = if is_complete { String::new() } else { why.text() };
        let trace = observed.span.map(|span| span.context).or(observed.trace);
        let summary = RequestSummary {
            began: SystemTime::now() - total,
            direction,
            client: connection.client,
            client_id,
            server_id,
            endpoint,
            service: observed.route.as_ref().map(RouteChoice::parent),
            route: observed
                .route
                .as_ref()
                .map(RouteChoice::route)
                .or(observed.admitted_by.as_ref()),
            method: description.method(),
            path: description.path(),
            version: description.version,
            host: description.host(),
            user_agent: &description.user_agent,
            referer: &description.referer,
            headers: &description.headers,
            status: self.status,
            grpc: self.grpc,
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            attempts: &observed.attempts,
            retry_denied: self.retry_denied.unwrap_or_default(),
            queue: observed.queue,
            connect: observed.connect,
            first_byte: self.head_at.map_or(total, |at| at.saturating_duration_since(self.begun)),
            total,
            ending: why.ending,
            denial: why.denial,
            reason: &reason,
            trace_id: trace.map(|trace| trace.trace_id),
        };
        thread.observers.ended(&summary, kept, &thread.random);
        kept.is_some()
    }
}
