//! The numbers behind one set of labels. Each block is written by the one thread that holds its series, with a plain
//! load and store; the scrape reads it from another. A scrape may see a request counted and its response not yet.

use super::block::Block;
use super::histogram::{Exemplar, Histogram, bump};
use crate::ending::{Ending, Fault};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Different answers (status, gRPC status, error) that one series tells apart: the server chooses them.
const ANSWERS_MAX: usize = 64;
/// gRPC codes that linkerd counts as failures: Unknown, DeadlineExceeded, Internal, Unavailable, DataLoss.
const GRPC_FAILURES: [u16; 5] = [2, 4, 13, 14, 15];
/// The values of `errno`; the place in this list is the place in [`TcpBlock::closed`].
pub(super) const ERRNOS: [&str; 5] =
    ["", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ETIMEDOUT"];

/// Whether linkerd counts this code as a failure.
pub(super) fn is_grpc_failure(code: u16) -> bool {
    GRPC_FAILURES.contains(&code)
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Answer {
    /// 0 stands for all that are too many to tell apart.
    pub(super) status: u16,
    pub(super) grpc: Option<u16>,
    pub(super) ending: Ending,
}

impl Answer {
    /// linkerd's classification, and a failure also where a good answer was cut short by other than the client.
    pub(super) fn is_failure(self) -> bool {
        let cut = self.ending.shown();
        self.status >= 500
            || self.grpc.is_some_and(is_grpc_failure)
            || (cut.status >= 500 && cut.fault != Fault::Peer)
    }
}

/// Shared side of an [`HttpSeries`].
#[derive(Debug, Default)]
pub struct HttpBlock {
    pub(super) requests: AtomicU64,
    pub(super) answers: Mutex<Vec<Arc<Answered>>>,
    pub(super) latencies: Mutex<Vec<(u16, Arc<Histogram>)>>,
}

/// How often there was one answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) count: AtomicU64,
    latency: Arc<Histogram>,
}

/// Requests and responses of one set of labels, on one thread.
pub struct HttpSeries {
    block: Arc<HttpBlock>,
    /// Few in practice, so that a look through them beats any hash.
    answers: RefCell<Vec<Arc<Answered>>>,
}

impl HttpSeries {
    pub(super) fn new(block: Arc<HttpBlock>) -> Rc<Self> {
        let answers = lock(&block.answers).clone();
        Rc::new(Self { block, answers: RefCell::new(answers) })
    }

    /// A request begins.
    pub fn request(&self) {
        bump(&self.block.requests, 1);
    }

    /// A request has ended; `latency` is the time to the first byte of the response.
    pub fn response(
        &self,
        status: u16,
        grpc_status: Option<u16>,
        ending: Ending,
        latency: Duration,
    ) {
        let answer = Answer { status, grpc: grpc_status, ending };
        let mut answers = self.answers.borrow_mut();
        let known = answers.iter().position(|known| known.answer == answer);
        let at = known.unwrap_or_else(|| self.block.add(&mut answers, answer));
        bump(&answers[at].count, 1);
        answers[at].latency.observe(latency);
    }

    /// A request that was counted as [`response`](Self::response) has a trace that is kept.
    pub fn remember(&self, status: u16, exemplar: Exemplar) {
        let latencies = lock(&self.block.latencies);
        let latency = latencies.iter().find(|(known, _)| *known == status);
        if let Some((_, histogram)) = latency {
            histogram.remember(exemplar);
        }
    }
}

impl HttpBlock {
    /// A place for an answer that was not seen before.
    #[cold]
    fn add(&self, answers: &mut Vec<Arc<Answered>>, answer: Answer) -> usize {
        let answer = if answers.len() < ANSWERS_MAX {
            answer
        } else {
            Answer { status: 0, grpc: None, ending: Ending::Complete }
        };
        if let Some(at) = answers.iter().position(|known| known.answer == answer) {
            return at;
        }
        let mut latencies = lock(&self.latencies);
        let latency = latencies.iter().find(|(status, _)| *status == answer.status);
        let latency = latency.map(|(_, histogram)| histogram.clone()).unwrap_or_else(|| {
            let histogram = Arc::new(Histogram::default());
            latencies.push((answer.status, histogram.clone()));
            histogram
        });
        let answered = Arc::new(Answered { answer, count: AtomicU64::new(0), latency });
        lock(&self.answers).push(answered.clone());
        answers.push(answered);
        answers.len() - 1
    }
}

impl Block for HttpBlock {
    fn absorb(&self, gone: &Self) {
        bump(&self.requests, gone.requests.load(Ordering::Relaxed));
        let mut answers = lock(&self.answers).clone();
        for answered in lock(&gone.answers).iter() {
            let known = answers.iter().position(|known| known.answer == answered.answer);
            let at = known.unwrap_or_else(|| self.add(&mut answers, answered.answer));
            bump(&answers[at].count, answered.count.load(Ordering::Relaxed));
        }
        let latencies = lock(&self.latencies);
        for (status, histogram) in lock(&gone.latencies).iter() {
            let same = latencies.iter().find(|(known, _)| known == status);
            if let Some((_, sum)) = same.or_else(|| latencies.iter().find(|(known, _)| *known == 0))
            {
                sum.absorb(histogram);
            }
        }
    }
}

/// Shared side of a [`TcpSeries`].
#[derive(Debug, Default)]
pub struct TcpBlock {
    pub(super) opened: AtomicU64,
    pub(super) closed: [AtomicU64; ERRNOS.len()],
    pub(super) read: AtomicU64,
    pub(super) written: AtomicU64,
}

impl Block for TcpBlock {
    fn absorb(&self, gone: &Self) {
        let Self { opened, closed, read, written } = self;
        let sums = [opened, read, written].into_iter().chain(closed);
        let cells = [&gone.opened, &gone.read, &gone.written].into_iter().chain(&gone.closed);
        sums.zip(cells).for_each(|(sum, cell)| bump(sum, cell.load(Ordering::Relaxed)));
    }
}

/// Connections of one set of labels, on one thread.
pub struct TcpSeries(Arc<TcpBlock>);

impl TcpSeries {
    pub(super) fn new(block: Arc<TcpBlock>) -> Rc<Self> {
        Rc::new(Self(block))
    }

    /// A connection is open.
    pub fn opened(&self) {
        bump(&self.0.opened, 1);
    }

    pub fn closed(&self, ending: Ending) {
        let errno = ending.shown().errno;
        let at = ERRNOS.iter().position(|known| *known == errno).unwrap_or(0);
        bump(&self.0.closed[at], 1);
    }

    /// Bytes came from the peer.
    pub fn read(&self, bytes: u64) {
        bump(&self.0.read, bytes);
    }

    /// Bytes went to the peer.
    pub fn wrote(&self, bytes: u64) {
        bump(&self.0.written, bytes);
    }
}

/// Retries that one route has asked for, on one thread.
#[derive(Debug)]
pub struct RetrySeries {
    /// Attempts after the first.
    pub requests: Rc<Counter>,
    /// Of those, attempts with a response that was passed on.
    pub successes: Rc<Counter>,
    /// Requests that needed one more than the route allows.
    pub limit_exceeded: Rc<Counter>,
    /// Requests for which the destination's budget had nothing left.
    pub overflow: Rc<Counter>,
}

/// One number that only grows, on one thread.
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(super) fn new(cell: Arc<AtomicU64>) -> Rc<Self> {
        Rc::new(Self(cell))
    }

    pub fn add(&self, by: u64) {
        bump(&self.0, by);
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Endpoints of one balancer; threads see the same ones, so the scrape takes the greatest and not the sum.
pub struct EndpointsGauge {
    pub(super) ready: Rc<Counter>,
    pub(super) pending: Rc<Counter>,
}

impl EndpointsGauge {
    /// So many take requests, so many are passed over.
    pub fn set(&self, ready: usize, pending: usize) {
        self.ready.set(ready as u64);
        self.pending.set(pending as u64);
    }
}

impl Drop for EndpointsGauge {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

/// Endpoints of one balancer that are ejected, on one thread.
#[derive(Debug)]
pub struct EjectionSeries {
    pub(super) now: Rc<Counter>,
    pub(super) consecutive_failures: Rc<Counter>,
    pub(super) success_rate: Rc<Counter>,
    pub(super) recoveries: Rc<Counter>,
}

impl EjectionSeries {
    /// An endpoint was ejected; `reason` is a word of [`crate::balance::Reason`].
    pub fn ejected(&self, reason: &str) {
        match reason {
            "success_rate" => self.success_rate.add(1),
            _ => self.consecutive_failures.add(1),
        }
    }

    /// An endpoint answers again.
    pub fn recovered(&self) {
        self.recoveries.add(1);
    }

    /// So many are ejected now.
    pub fn set(&self, ejected: usize) {
        self.now.set(ejected as u64);
    }
}

impl Drop for EjectionSeries {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Something whose number changes when it is used.
pub(super) trait Activity {
    fn activity(&self) -> u64;
}

impl Activity for HttpSeries {
    fn activity(&self) -> u64 {
        let answered = |known: &Arc<Answered>| known.count.load(Ordering::Relaxed);
        let answers: u64 = self.answers.borrow().iter().map(answered).sum();
        self.block.requests.load(Ordering::Relaxed).wrapping_add(answers)
    }
}

impl Activity for TcpSeries {
    fn activity(&self) -> u64 {
        let TcpBlock { opened, closed, read, written } = self.0.as_ref();
        let cells = [opened, read, written].into_iter().chain(closed);
        cells.fold(0, |sum, cell| sum.wrapping_add(cell.load(Ordering::Relaxed)))
    }
}

impl Activity for Counter {
    fn activity(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a cache keeps beside a series to know that it is idle.
pub(super) struct Watched<S> {
    pub(super) series: Rc<S>,
    pub(super) seen: Cell<(u64, std::time::Instant)>,
}

impl<S: Activity> Watched<S> {
    pub(super) fn new(series: Rc<S>, now: std::time::Instant) -> Self {
        let seen = Cell::new((series.activity(), now));
        Self { series, seen }
    }

    /// Nobody holds it, and it has not changed for so long.
    pub(super) fn is_idle(&self, now: std::time::Instant, limit: Duration) -> bool {
        let (activity, since) = self.seen.get();
        let current = self.series.activity();
        if current != activity {
            self.seen.set((current, now));
            return false;
        }
        Rc::strong_count(&self.series) == 1 && now.saturating_duration_since(since) >= limit
    }
}

/// A panic elsewhere must not stop the counting.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for HttpSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpSeries({})", self.activity())
    }
}

impl fmt::Debug for TcpSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpSeries({})", self.activity())
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counter({})", self.activity())
    }
}

impl fmt::Debug for EndpointsGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointsGauge({:?} ready, {:?} pending)", self.ready, self.pending)
    }
}
