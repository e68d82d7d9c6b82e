//! Requests shown to operators while they pass: `GET /tap` of the admin listener.
//!
//! A tap has a filter ([`filter`]), a rate and a bounded queue. Requests that exceed either are dropped and counted, and no
//! request waits. Taps are rare and short, so they share one lock, which is taken only while a tap is open.

pub mod filter;

use super::request_summary::RequestSummary;
use super::series::lock;
use super::shown_headers::{self, Name};
use bytes::Bytes;
use filter::Wanted;
use hyper::body::{Body, Frame};
use serde_json::json;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

/// Taps of one proxy at the same time.
pub const TAPS_MAX: usize = 16;
/// Lines that wait for one tap's connection.
const LINES_MAX: usize = 1024;
/// A tap that somebody forgot ends after this.
const LIFE_MAX: Duration = Duration::from_hours(1);
/// How often a stream reports requests that were dropped.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// All open taps of the process.
#[derive(Debug, Default)]
pub struct Taps {
    /// How many there are: the only thing that a request reads while nobody taps.
    open: AtomicUsize,
    /// How many of them want headers.
    with_headers: AtomicUsize,
    list: Mutex<List>,
    /// Requests that taps wanted and did not get, for as long as the process runs.
    dropped: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct List {
    taps: Vec<Tap>,
    next_id: u64,
}

#[derive(Debug)]
struct Tap {
    id: u64,
    wanted: Wanted,
    /// Start of the current second, and the lines in it.
    second: (Instant, u32),
    queue: mpsc::Sender<Bytes>,
    dropped: Arc<AtomicU64>,
}

impl Taps {
    /// Taps that count here what they drop.
    #[must_use]
    pub fn counted(dropped: Arc<AtomicU64>) -> Self {
        Self { dropped, ..Self::default() }
    }

    /// Whether somebody taps.
    #[must_use]
    pub fn are_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Opens a tap; `None` where [`TAPS_MAX`] are open.
    #[must_use]
    pub fn open(self: &Arc<Self>, wanted: Wanted) -> Option<TapStream> {
        let mut list = lock(&self.list);
        if list.taps.len() >= TAPS_MAX {
            return None;
        }
        let (queue, lines) = mpsc::channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let id = list.next_id;
        list.next_id += 1;
        let second = (Instant::now(), 0);
        list.taps.push(Tap { id, wanted, second, queue, dropped: dropped.clone() });
        self.count(&list);
        let mut report = tokio::time::interval(REPORT_INTERVAL);
        report.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ends = Instant::now() + LIFE_MAX;
        Some(TapStream { taps: self.clone(), id, lines, dropped, reported: 0, report, ends })
    }

    /// Gives a request that has ended to every tap that wants it.
    pub fn offer(&self, summary: &RequestSummary<'_>) {
        let mut line = None;
        let now = Instant::now();
        for tap in &mut lock(&self.list).taps {
            if !tap.wanted.matches(summary) {
                continue;
            }
            if !tap.has_room(now) {
                tap.dropped.fetch_add(1, Ordering::Relaxed);
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let line = match tap.wanted.headers.as_slice() {
                [] => line.get_or_insert_with(|| line_of(summary, &[])).clone(),
                wanted => line_of(summary, wanted),
            };
            if tap.queue.try_send(line).is_err() {
                tap.dropped.fetch_add(1, Ordering::Relaxed);
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn close(&self, id: u64) {
        let mut list = lock(&self.list);
        list.taps.retain(|tap| tap.id != id);
        self.count(&list);
    }

    fn count(&self, list: &List) {
        self.open.store(list.taps.len(), Ordering::Relaxed);
        let with_headers = list.taps.iter().filter(|tap| !tap.wanted.headers.is_empty()).count();
        self.with_headers.store(with_headers, Ordering::Relaxed);
    }

    /// Request headers that open taps want.
    #[must_use]
    pub fn headers(&self) -> Vec<Name> {
        if self.with_headers.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        lock(&self.list).taps.iter().flat_map(|tap| tap.wanted.headers.iter().cloned()).collect()
    }
}

impl Tap {
    /// Counts one line of this second, where one more may follow.
    fn has_room(&mut self, now: Instant) -> bool {
        let (since, lines) = &mut self.second;
        if now.saturating_duration_since(*since) >= Duration::from_secs(1) {
            (*since, *lines) = (now, 0);
        }
        *lines += 1;
        *lines <= self.wanted.rate_max
    }
}

/// One JSON object with its newline. Only these headers; and no query, which may hold secrets.
fn line_of(summary: &RequestSummary<'_>, headers: &[Name]) -> Bytes {
    let mut fields = summary.fields();
    fields.insert("path".to_owned(), json!(String::from_utf8_lossy(summary.path_alone())));
    if !headers.is_empty() {
        fields.insert("headers".to_owned(), shown_headers::json(summary.headers, headers));
    }
    let mut line = serde_json::Value::Object(fields).to_string();
    line.push('\n');
    line.into()
}

/// The body of the answer to `GET /tap`: lines of JSON until the client goes.
#[derive(Debug)]
pub struct TapStream {
    taps: Arc<Taps>,
    id: u64,
    lines: mpsc::Receiver<Bytes>,
    dropped: Arc<AtomicU64>,
    /// The part of `dropped` that the client has received.
    reported: u64,
    report: Interval,
    ends: Instant,
}

impl Body for TapStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while self.report.poll_tick(context).is_ready() {
            if Instant::now() >= self.ends {
                return Poll::Ready(None);
            }
            let dropped = self.dropped.load(Ordering::Relaxed);
            let more = dropped - self.reported;
            if more > 0 {
                self.reported = dropped;
                let line = format!("{}\n", json!({ "dropped": more }));
                return Poll::Ready(Some(Ok(Frame::data(line.into()))));
            }
        }
        self.lines.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

impl Drop for TapStream {
    fn drop(&mut self) {
        self.taps.close(self.id);
    }
}

#[cfg(test)]
mod tests;
