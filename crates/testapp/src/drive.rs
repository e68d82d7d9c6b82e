//! A small load driver for demonstrations and traffic pods. Not the instrument: `leno bench` is.
//!
//! Requests are due at a steady rate whatever the answers do, as long as `--concurrency` allows; latency counts from when a
//! request was due, so that a stall of the service is not forgiven.

use crate::args::Client;
use crate::call::pool::Pool;
use crate::call::{self, Called, Onward};
use crate::plan::step::{Call, Protocol};
use anyhow::Result;
use hdrhistogram::Histogram;
use leno_runtime::{signal, tasks};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Microseconds; what is longer counts as this.
const LATENCY_MAX: u64 = 3_600_000_000;

/// One line of JSON.
#[derive(Debug, Serialize)]
struct Summary {
    sent: u64,
    ok: u64,
    failed: u64,
    seconds: f64,
    rate: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// Answers by status, failures by what went wrong.
    results: BTreeMap<String, u64>,
    /// Answers by who gave them.
    workers: BTreeMap<String, u64>,
}

struct Drive {
    calls: Vec<Call>,
    pool: Pool,
    onward: Onward,
    /// Between two requests; zero: as fast as they come.
    interval: Duration,
    count_max: u64,
    began: Instant,
    ends: Option<Instant>,
    next: Cell<u64>,
    stopped: Cell<bool>,
    /// Wakes those who wait for their request to be due.
    stop: Notify,
    seen: RefCell<Counted>,
}

struct Counted {
    latency: Histogram<u64>,
    ok: u64,
    failed: u64,
    results: BTreeMap<String, u64>,
    workers: BTreeMap<String, u64>,
}

/// Drives until time, count or SIGTERM says stop, and prints the summary. Answers whether all went well.
///
/// # Errors
/// The histogram cannot be made.
pub(crate) async fn run(client: Client) -> Result<bool> {
    let began = Instant::now();
    let drive = Rc::new(Drive {
        calls: calls(&client),
        pool: Pool::new(!client.no_keepalive),
        onward: Onward::default(),
        interval: if client.rate > 0.0 {
            Duration::from_secs_f64(1.0 / client.rate)
        } else {
            Duration::ZERO
        },
        count_max: client.requests.unwrap_or(u64::MAX),
        began,
        ends: client.duration.map(|span| began + span.0),
        next: Cell::new(0),
        stopped: Cell::new(false),
        stop: Notify::new(),
        seen: RefCell::new(Counted::new()?),
    });
    let senders: Vec<_> = (0..client.concurrency)
        .map(|_| tasks::spawn_local("sender", send(Rc::clone(&drive))))
        .collect();
    let reporter = client
        .report
        .map(|every| tasks::spawn_local("reporter", report(Rc::clone(&drive), every.0)));
    let done = async {
        for sender in senders {
            // A sender that panicked has been reported.
            let _ended = sender.await;
        }
    };
    tokio::pin!(done);
    tokio::select! {
        () = &mut done => {}
        _ = signal::terminate() => {
            drive.stopped.set(true);
            drive.stop.notify_waiters();
            // What was asked is counted, whatever becomes of it; each has its own timeout.
            done.await;
        }
    }
    if let Some(reporter) = reporter {
        reporter.abort();
    }
    println!("{}", drive.summary());
    // Whoever runs until told to stop does not ask for a verdict.
    Ok(drive.stopped.get() || drive.seen.borrow().failed == 0)
}

fn calls(client: &Client) -> Vec<Call> {
    let call = |(url, target): &(String, _)| {
        let mut call = Call {
            url: url.clone(),
            target: Clone::clone(target),
            method: client.method.clone(),
            headers: client.headers.iter().cloned().collect(),
            body_bytes: client.body_bytes,
            times: 1,
            timeout: Some(client.timeout),
            optional: false,
        };
        if client.grpc {
            call.target.protocol = Protocol::Grpc;
        }
        call
    };
    client.urls.iter().map(call).collect()
}

/// Takes the next request that is due, until there is none.
async fn send(drive: Rc<Drive>) {
    while let Some((index, due)) = drive.take() {
        let mut from = due;
        if due > Instant::now() {
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = drive.stop.notified() => {}
            }
            // Timers tick in milliseconds: that lateness is ours and not the answer's.
            from = Instant::now();
        }
        if drive.stopped.get() {
            return;
        }
        let call = &drive.calls[(index % drive.calls.len() as u64) as usize];
        let called = call::one(&drive.pool, call, &drive.onward).await;
        drive.seen.borrow_mut().add(&called, from.elapsed());
    }
}

async fn report(drive: Rc<Drive>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        println!("{}", drive.summary());
    }
}

impl Drive {
    fn take(&self) -> Option<(u64, Instant)> {
        let index = self.next.get();
        let due = if self.interval.is_zero() {
            Instant::now()
        } else {
            self.began + self.interval.mul_f64(index as f64)
        };
        let over = index >= self.count_max || self.ends.is_some_and(|ends| due >= ends);
        if over || self.stopped.get() {
            return None;
        }
        self.next.set(index + 1);
        Some((index, due))
    }

    fn summary(&self) -> String {
        let seen = self.seen.borrow();
        let seconds = self.began.elapsed().as_secs_f64();
        let milliseconds = |quantile| seen.latency.value_at_quantile(quantile) as f64 / 1000.0;
        let summary = Summary {
            sent: seen.ok + seen.failed,
            ok: seen.ok,
            failed: seen.failed,
            seconds: (seconds * 1000.0).round() / 1000.0,
            rate: ((seen.ok + seen.failed) as f64 / seconds * 10.0).round() / 10.0,
            p50_ms: milliseconds(0.5),
            p95_ms: milliseconds(0.95),
            p99_ms: milliseconds(0.99),
            max_ms: seen.latency.max() as f64 / 1000.0,
            results: seen.results.clone(),
            workers: seen.workers.clone(),
        };
        serde_json::to_string(&summary).unwrap_or_default()
    }
}

impl Counted {
    fn new() -> Result<Self> {
        Ok(Self {
            latency: Histogram::new_with_bounds(1, LATENCY_MAX, 3)?,
            ok: 0,
            failed: 0,
            results: BTreeMap::new(),
            workers: BTreeMap::new(),
        })
    }

    fn add(&mut self, called: &Called, latency: Duration) {
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(microseconds.min(LATENCY_MAX));
        if called.failed() {
            self.failed += 1;
        } else {
            self.ok += 1;
        }
        *self.results.entry(called.kind()).or_default() += 1;
        if let Some(worker) = &called.worker {
            *self.workers.entry(worker.clone()).or_default() += 1;
        }
    }
}
