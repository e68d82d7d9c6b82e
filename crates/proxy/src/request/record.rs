//! What became of a request: one record, which the metrics, the access log and the log read.

use crate::authorize::Connection;
use crate::balance::Slot;
use crate::ending::Ending;
use crate::refusal::Refusal;
use crate::request::retry::Answer;
use crate::telemetry::access_log::Line;
use crate::telemetry::{Direction, HttpSeries};
use crate::thread::ThreadContext;
use crate::upstream::Peer;
use leno_model::name::PeerName;
use std::net::SocketAddr;
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
    /// How often it was sent to an endpoint.
    pub attempts: u32,
    /// Why it was not sent once more, in a word.
    pub retry_denied: Option<&'static str>,
    /// The series of the endpoint that it was sent to last.
    series: Option<Rc<HttpSeries>>,
    /// Made only where the access log is on.
    description: Option<Box<Description>>,
}

/// What the access log says of a request. Texts of the client are bytes as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// As the client wrote it, in bytes.
    pub method: Vec<u8>,
    /// Target as received.
    pub path: Vec<u8>,
    /// `HTTP/1.1`.
    pub version: &'static str,
    /// The authority that the client named.
    pub host: Vec<u8>,
    /// Empty where the request has none; so is the referer.
    pub user_agent: Vec<u8>,
    pub referer: Vec<u8>,
    /// The endpoint that it was sent to last.
    pub endpoint: Option<SocketAddr>,
}

impl RequestRecord {
    /// A request begins.
    #[must_use]
    pub fn new(description: Option<Box<Description>>) -> Self {
        Self {
            begun: Instant::now(),
            head_at: None,
            status: 0,
            grpc: None,
            request_bytes: 0,
            response_bytes: 0,
            attempts: 0,
            retry_denied: None,
            series: None,
            description,
        }
    }

    /// The request is sent to this endpoint. It counts as a request of each endpoint that it is sent to, and as a response of
    /// the last one.
    pub fn sent_to(&mut self, slot: &Slot<Peer>, series: Rc<HttpSeries>) {
        if let Some(description) = &mut self.description {
            description.endpoint = Some(slot.endpoint.address);
        }
        self.attempts += 1;
        if !self.series.as_ref().is_some_and(|known| Rc::ptr_eq(known, &series)) {
            series.request();
            self.series = Some(series);
        }
    }

    /// The endpoint that it was sent to last has given a response that is not passed on: it counts there.
    pub fn rejected(&mut self, answer: &Answer, now: Instant) {
        if let Some(series) = self.series.take() {
            let latency = now.saturating_duration_since(self.begun);
            series.response(answer.status, answer.grpc, Ending::Complete, latency);
        }
    }

    /// The request has ended: it is counted and logged.
    pub fn ended(
        &self,
        thread: &ThreadContext,
        (direction, connection): (Direction, &Connection),
        why: &Refusal,
    ) {
        let ending = why.ending;
        match &self.series {
            Some(series) => {
                let head_at = self.head_at.unwrap_or_else(Instant::now);
                let latency = head_at.saturating_duration_since(self.begun);
                let status = if self.status == 0 { ending.shown().status } else { self.status };
                series.response(status, self.grpc, ending, latency);
            }
            None => {
                let service = connection.service.as_deref();
                thread.recorder.request_refused(direction, ending, service);
            }
        }
        if self.description.is_some() {
            self.write_line(thread, direction, connection, ending);
        }
        if ending != Ending::Complete {
            let client = connection.client;
            let peer = connection.peer_name().map_or("", PeerName::as_str);
            let text = if why.detail.is_empty() { ending.shown().text } else { &why.detail };
            // The level is data here, and tracing wants it constant.
            macro_rules! tell {
                ($level:ident) => {
                    tracing::$level!(
                        direction = direction.as_str(),
                        %client,
                        peer,
                        ending = ending.flag(),
                        status = self.status,
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

    fn write_line(
        &self,
        thread: &ThreadContext,
        direction: Direction,
        connection: &Connection,
        ending: Ending,
    ) {
        let (Some(log), Some(description)) = (&thread.access_log, &self.description) else {
            return;
        };
        let total = self.begun.elapsed();
        log.write(&Line {
            began: SystemTime::now() - total,
            direction,
            client: connection.client,
            client_id: connection.peer_name().map_or("", PeerName::as_str),
            target: description.endpoint,
            method: &description.method,
            path: &description.path,
            version: description.version,
            host: &description.host,
            user_agent: &description.user_agent,
            referer: &description.referer,
            status: self.status,
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            first_byte: self.head_at.map_or(total, |at| at.saturating_duration_since(self.begun)),
            total,
            attempts: self.attempts,
            retry_denied: self.retry_denied.unwrap_or_default(),
            ending,
        });
    }
}
