//! The registry as Prometheus text (exposition format 0.0.4).

use super::detail::{Detail, Fold};
use super::histogram::{BOUNDS_MICROS, Exemplar, Sum};
use super::process;
use super::registry::{Entries, Entry, Registry, Snapshot};
use super::series::{Answer, ERRNOS, HttpBlock, TcpBlock, lock};
use super::text::{head, sample};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

/// Families of plain counters and gauges: name, type, help. A family that is not here is a bug that a test finds.
pub(super) const PLAIN: &[(&str, &str, &str)] = &[
    (
        "access_log_dropped_total",
        "counter",
        "Access log lines that were dropped because standard output was slow.",
    ),
    (
        "http_retries_denied_total",
        "counter",
        "Requests that failed and were not sent again though their route has retries or their connection was lost, by reason.",
    ),
    ("http_retries_total", "counter", "Retries of requests."),
    ("inbound_http_authz_allow_total", "counter", "Inbound requests that policy allowed."),
    ("inbound_http_authz_deny_total", "counter", "Inbound requests that policy denied."),
    (
        "inbound_http_concurrency_limit",
        "gauge",
        "Requests that the application gets at the same time; the others are shed.",
    ),
    (
        "inbound_http_errors_total",
        "counter",
        "Inbound requests that the proxy answered itself, without an endpoint, by reason.",
    ),
    ("inbound_tcp_authz_allow_total", "counter", "Inbound connections that policy allowed."),
    ("inbound_tcp_authz_deny_total", "counter", "Inbound connections that policy denied."),
    ("inbound_tcp_errors_total", "counter", "Inbound connections that ended with an error."),
    (
        "outbound_http_balancer_ejected_endpoints",
        "gauge",
        "Endpoints that get no requests because they fail.",
    ),
    (
        "outbound_http_balancer_ejections_total",
        "counter",
        "Endpoints that were ejected because they failed, by reason.",
    ),
    ("outbound_http_balancer_endpoints", "gauge", "Endpoints of a balancer, by state."),
    (
        "outbound_http_balancer_recoveries_total",
        "counter",
        "Ejected endpoints that answered a probing request.",
    ),
    (
        "outbound_http_errors_total",
        "counter",
        "Outbound requests that the proxy answered itself, without an endpoint, by reason.",
    ),
    (
        "outbound_http_faults_total",
        "counter",
        "Delays and failures that faults of routes injected into outbound requests.",
    ),
    (
        "outbound_http_mirror_copies_total",
        "counter",
        "Copies of requests for mirrors, by result. No other counter has them.",
    ),
    (
        "outbound_http_route_retry_limit_exceeded_total",
        "counter",
        "Failed requests that were not sent again because the route's number of retries was reached.",
    ),
    (
        "outbound_http_route_retry_overflow_total",
        "counter",
        "Failed requests that were not sent again because the destination's retry budget was used up.",
    ),
    ("outbound_http_route_retry_requests_total", "counter", "Retries that routes asked for."),
    (
        "outbound_http_route_retry_successes_total",
        "counter",
        "Retries that routes asked for and that got a response that was passed on.",
    ),
    ("outbound_tcp_errors_total", "counter", "Outbound connections that ended with an error."),
    (
        "tap_dropped_total",
        "counter",
        "Requests that a tap wanted and that were dropped: over its rate, or its connection was slow.",
    ),
    (
        "tcp_detect_timeouts_total",
        "counter",
        "Connections whose client sent no bytes before the protocol detection timeout.",
    ),
    ("tls_refused_total", "counter", "Failed mutual TLS handshakes."),
    (
        "trace_spans_dropped_total",
        "counter",
        "Spans that were dropped: the queue was full, or the collector did not take them.",
    ),
    ("trace_spans_exported_total", "counter", "Spans that the collector took."),
];

impl Registry {
    /// What the configuration says how much is shown.
    #[must_use]
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Everything that was counted, and the process's own figures.
    #[must_use]
    pub fn exposition(&self, detail: Detail) -> String {
        self.text(detail, false)
    }

    /// The same with an exemplar in each latency bucket that has one, as only OpenMetrics allows.
    #[must_use]
    pub fn exposition_with_exemplars(&self, detail: Detail) -> String {
        self.text(detail, true)
    }

    fn text(&self, detail: Detail, exemplars: bool) -> String {
        // Names and pointers under the lock, numbers and text without it: a data thread that needs a new series
        // waits for the first only.
        let (http, tcp, detect, plain) = {
            let mut families = lock(&self.families);
            let plain = families.counters();
            (families.http.snapshot(), families.tcp.snapshot(), families.detect.snapshot(), plain)
        };
        let mut text = String::with_capacity(16 * 1024);
        write_http(&mut text, &http, (detail, exemplars));
        write_tcp(&mut text, &shown(&tcp, detail, Fold::Connections));
        head(
            &mut text,
            "tcp_detect_latency_ms",
            "histogram",
            "Duration of protocol detection, in milliseconds.",
        );
        for (labels, blocks) in &detect.entries {
            let mut sum = Sum::default();
            blocks.iter().for_each(|block| sum.add(block));
            let buckets = if detail == Detail::Lean { Buckets::Last } else { Buckets::All };
            write_histogram(&mut text, "tcp_detect_latency_ms", labels, (&sum, buckets));
        }
        for (name, kind, help) in PLAIN {
            let snapshot = plain.iter().find(|(known, _)| known == name);
            let Some((_, snapshot)) = snapshot.filter(|(_, one)| !one.entries.is_empty()) else {
                continue;
            };
            head(&mut text, name, kind, help);
            let fold = Fold::of_family(name).filter(|_| detail == Detail::Lean);
            for (labels, value) in values(snapshot, *kind == "gauge", fold) {
                sample(&mut text, name, &labels, value);
            }
        }
        process::write(&mut text, self.started);
        text
    }
}

/// The label sets of a family, or their sums.
fn shown<B>(snapshot: &Snapshot<B>, detail: Detail, fold: Fold) -> Cow<'_, [Entry<B>]> {
    match detail {
        Detail::Lean => Cow::Owned(snapshot.folded(fold)),
        Detail::Full => Cow::Borrowed(snapshot.entries.as_slice()),
    }
}

/// Numbers of counters or gauges. Threads see the same gauge, and different label sets are different things.
fn values(
    snapshot: &Snapshot<AtomicU64>,
    is_gauge: bool,
    fold: Option<Fold>,
) -> Vec<(Arc<str>, u64)> {
    let load = |cell: &Arc<AtomicU64>| cell.load(Ordering::Relaxed);
    let sum = |entries: Entries<AtomicU64>| {
        let sums = entries.into_iter().map(|(text, cells)| (text, cells.iter().map(load).sum()));
        sums.collect()
    };
    match fold {
        Some(fold) if is_gauge => {
            let mut sums: BTreeMap<String, u64> = BTreeMap::new();
            for (text, cells) in &snapshot.entries {
                *sums.entry(fold.labels(text)).or_default() +=
                    cells.iter().map(load).max().unwrap_or(0);
            }
            sums.into_iter().map(|(text, value)| (text.into(), value)).collect()
        }
        Some(fold) => sum(snapshot.folded(fold)),
        None if is_gauge => {
            let greatest = |cells: &[Arc<AtomicU64>]| cells.iter().map(load).max().unwrap_or(0);
            let entries = snapshot.entries.iter();
            entries.map(|(text, cells)| (text.clone(), greatest(cells))).collect()
        }
        None => sum(snapshot.entries.clone()),
    }
}

/// What all threads counted for one label set.
#[derive(Default)]
struct HttpSum {
    requests: u64,
    answers: BTreeMap<Answer, u64>,
    latencies: BTreeMap<u16, Sum>,
}

impl HttpSum {
    fn add(&mut self, block: &HttpBlock) {
        self.requests += block.requests.load(Ordering::Relaxed);
        for answered in lock(&block.answers).iter() {
            *self.answers.entry(answered.answer).or_default() +=
                answered.count.load(Ordering::Relaxed);
        }
        for (status, histogram) in lock(&block.latencies).iter() {
            self.latencies.entry(*status).or_default().add(histogram);
        }
    }
}

fn sums(entries: &[Entry<HttpBlock>]) -> Vec<(&Arc<str>, HttpSum)> {
    let of = |blocks: &[Arc<HttpBlock>]| {
        let mut sum = HttpSum::default();
        blocks.iter().for_each(|block| sum.add(block));
        sum
    };
    entries.iter().map(|(labels, blocks)| (labels, of(blocks))).collect()
}

fn write_http(
    text: &mut String,
    snapshot: &Snapshot<HttpBlock>,
    (detail, exemplars): (Detail, bool),
) {
    let entries = shown(snapshot, detail, Fold::Requests);
    let sums = sums(&entries);
    head(text, "request_total", "counter", "Requests that started.");
    for (labels, sum) in &sums {
        sample(text, "request_total", labels, sum.requests);
    }
    head(text, "response_total", "counter", "Requests that ended, by status and classification.");
    let mut with_answer = String::new();
    for (labels, sum) in &sums {
        for (answer, count) in &sum.answers {
            with_answer.clear();
            write_answer(&mut with_answer, labels, *answer);
            sample(text, "response_total", &with_answer, count);
        }
    }
    head(
        text,
        "response_latency_ms",
        "histogram",
        "Time from the start of a request to the first byte of its response, in milliseconds.",
    );
    let buckets = if exemplars { Buckets::WithExemplars } else { Buckets::All };
    if detail == Detail::Lean {
        return write_folded_latency(text, snapshot, buckets);
    }
    for (labels, sum) in &sums {
        for (status, latency) in &sum.latencies {
            with_answer.clear();
            let _ = write!(with_answer, "{labels},status_code=\"{}\"", StatusText(*status));
            write_histogram(text, "response_latency_ms", &with_answer, (latency, buckets));
        }
    }
}

/// One histogram for each direction, of all statuses.
fn write_folded_latency(text: &mut String, snapshot: &Snapshot<HttpBlock>, buckets: Buckets) {
    for (labels, blocks) in snapshot.folded(Fold::Latency) {
        let mut sum = Sum::default();
        for block in blocks {
            lock(&block.latencies).iter().for_each(|(_, histogram)| sum.add(histogram));
        }
        write_histogram(text, "response_latency_ms", &labels, (&sum, buckets));
    }
}

fn write_answer(text: &mut String, labels: &str, answer: Answer) {
    let class = if answer.is_failure() { "failure" } else { "success" };
    let status = StatusText(answer.status);
    let _ = write!(text, "{labels},status_code=\"{status}\",classification=\"{class}\"");
    if let Some(code) = answer.grpc {
        let _ = write!(text, ",grpc_status=\"{code}\"");
    }
    if !answer.ending.is_complete() {
        let _ = write!(text, ",error=\"{}\"", answer.ending.flag());
    }
}

/// A status; 0 stands for those that are too many to tell apart.
struct StatusText(u16);

impl std::fmt::Display for StatusText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { f.write_str("other") } else { write!(f, "{}", self.0) }
    }
}

/// ` # {trace_id="…"} 2.5 1795251901.023`, or nothing.
struct Shown(Option<Exemplar>);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(Exemplar { trace_id, latency, at }) = self.0 else { return Ok(()) };
        let milliseconds = latency.as_micros() as f64 / 1000.0;
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        write!(f, " # {{trace_id=\"{trace_id:032x}\"}} {milliseconds} {at:.3}")
    }
}

/// What all threads counted for one label set.
#[derive(Default)]
struct TcpSum {
    opened: u64,
    closed: [u64; ERRNOS.len()],
    read: u64,
    written: u64,
}

fn write_tcp(text: &mut String, entries: &[Entry<TcpBlock>]) {
    let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
    let mut sums = Vec::with_capacity(entries.len());
    for (labels, blocks) in entries {
        let mut sum = TcpSum::default();
        for block in blocks {
            // Closed before opened: what closes in between must not make the gauge negative.
            for (sum, cell) in sum.closed.iter_mut().zip(&block.closed) {
                *sum += load(cell);
            }
            sum.opened += load(&block.opened);
            sum.read += load(&block.read);
            sum.written += load(&block.written);
        }
        sums.push((labels, sum));
    }
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&TcpSum) -> u64| {
        head(text, name, kind, help);
        for (labels, sum) in &sums {
            sample(text, name, labels, value(sum));
        }
    };
    family("tcp_open_total", "counter", "Connections that were opened.", &|sum| sum.opened);
    family(
        "tcp_open_connections",
        "gauge",
        "Connections that are open now. A connection that several requests share counts once.",
        &|sum| sum.opened.saturating_sub(sum.closed.iter().sum()),
    );
    family("tcp_read_bytes_total", "counter", "Bytes read from the peer.", &|sum| sum.read);
    family("tcp_write_bytes_total", "counter", "Bytes written to the peer.", &|sum| sum.written);
    head(text, "tcp_close_total", "counter", "Connections that were closed, by errno.");
    for (labels, sum) in &sums {
        for (errno, count) in ERRNOS.iter().zip(sum.closed).filter(|(_, count)| *count > 0) {
            sample(text, "tcp_close_total", &format!("{labels},errno=\"{errno}\""), count);
        }
    }
}

/// Buckets of a histogram that are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Buckets {
    /// Number and sum alone.
    Last,
    All,
    WithExemplars,
}

fn write_histogram(text: &mut String, name: &str, labels: &str, (sum, shown): (&Sum, Buckets)) {
    let mut below = 0;
    let exemplar =
        |bucket: usize| Shown(sum.exemplars[bucket].filter(|_| shown == Buckets::WithExemplars));
    let bounds = if shown == Buckets::Last { &[][..] } else { &BOUNDS_MICROS[..] };
    for (bucket, (bound, count)) in bounds.iter().zip(sum.buckets).enumerate() {
        below += count;
        let (bound, exemplar) = (*bound as f64 / 1000.0, exemplar(bucket));
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}{exemplar}");
    }
    let (count, exemplar) = (sum.count(), exemplar(BOUNDS_MICROS.len()));
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}{exemplar}");
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}", sum.sum_micros as f64 / 1000.0);
    let _ = writeln!(text, "{name}_count{{{labels}}} {}", sum.count());
}

#[cfg(test)]
mod tests;
