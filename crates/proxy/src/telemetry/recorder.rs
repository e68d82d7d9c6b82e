//! One thread's counting. A series is looked up once per connection, endpoint or route and then held.

use super::histogram::Histogram;
use super::labels::{AuthzLabels, Direction, HttpLabels, LabelText, TcpLabels, Transport};
use super::registry::Registry;
use super::series::{
    Activity, Counter, EjectionSeries, EndpointsGauge, HttpSeries, RetrySeries, TcpSeries, Watched,
    lock,
};
use crate::ending::Ending;
use hashbrown::HashMap;
use leno_model::name::Resource;
use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Label of the series that stands for all that are too many.
const OVERFLOW: &str = "overflow=\"true\"";

/// Routes whose retries a thread remembers; beyond that it asks the registry again.
const ROUTES_MAX: usize = 64;

/// One per data thread.
pub struct Recorder {
    registry: Arc<Registry>,
    http: RefCell<Cache<HttpLabels, HttpSeries>>,
    tcp: RefCell<Cache<TcpLabels, TcpSeries>>,
    authz: RefCell<Cache<(Transport, bool, AuthzLabels), Counter>>,
    /// Requests that the proxy answered itself, by where they were going and why.
    refused: RefCell<Cache<(Resource, &'static str), Counter>>,
    /// Counters whose labels are words of ours: few, so found by looking through them.
    words: RefCell<Vec<(Words, Rc<Counter>)>>,
    /// Retries by parent and route; few in practice.
    retries: RefCell<Vec<(Resource, Resource, Rc<RetrySeries>)>>,
    detect: RefCell<[Option<Arc<Histogram>>; 2]>,
}

/// Family, direction, last label's value.
type Words = (&'static str, Direction, &'static str);

/// Series by label set; those beyond the limit share one per direction.
struct Cache<K, S> {
    known: HashMap<K, Watched<S>, foldhash::fast::RandomState>,
    overflow: [Option<Rc<S>>; 2],
}

impl<K: Hash + Eq, S: Activity> Cache<K, S> {
    fn new() -> Self {
        Self { known: HashMap::default(), overflow: [None, None] }
    }

    fn sweep(&mut self, now: Instant, limit: Duration) {
        self.known.retain(|_, watched| !watched.is_idle(now, limit));
        self.known.shrink_to(self.known.len() * 2);
    }
}

impl Recorder {
    /// One for the calling thread.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            http: RefCell::new(Cache::new()),
            tcp: RefCell::new(Cache::new()),
            authz: RefCell::new(Cache::new()),
            refused: RefCell::new(Cache::new()),
            words: RefCell::default(),
            retries: RefCell::default(),
            detect: RefCell::default(),
        }
    }

    /// The series of requests with these labels.
    #[must_use]
    pub fn http(&self, labels: &HttpLabels) -> Rc<HttpSeries> {
        let mut cache = self.http.borrow_mut();
        if let Some(watched) = cache.known.get(labels) {
            return watched.series.clone();
        }
        let family = &mut lock(&self.registry.families).http;
        if let Some(block) = family.register(&labels.text(), self.registry.series_max) {
            let series = HttpSeries::new(block);
            cache.known.insert(labels.clone(), Watched::new(series.clone(), Instant::now()));
            return series;
        }
        cache.overflow[labels.direction as usize]
            .get_or_insert_with(|| {
                HttpSeries::new(family.register_anyway(&overflow(labels.direction)))
            })
            .clone()
    }

    /// The series of connections with these labels.
    #[must_use]
    pub fn tcp(&self, labels: &TcpLabels) -> Rc<TcpSeries> {
        let mut cache = self.tcp.borrow_mut();
        if let Some(watched) = cache.known.get(labels) {
            return watched.series.clone();
        }
        let family = &mut lock(&self.registry.families).tcp;
        if let Some(block) = family.register(&labels.text(), self.registry.series_max) {
            let series = TcpSeries::new(block);
            cache.known.insert(labels.clone(), Watched::new(series.clone(), Instant::now()));
            return series;
        }
        cache.overflow[labels.direction as usize]
            .get_or_insert_with(|| {
                TcpSeries::new(family.register_anyway(&overflow(labels.direction)))
            })
            .clone()
    }

    /// The counter of inbound requests or connections that policy allowed or denied.
    #[must_use]
    pub fn authz(&self, transport: Transport, allowed: bool, labels: &AuthzLabels) -> Rc<Counter> {
        let name = match (transport, allowed) {
            (Transport::Http, true) => "inbound_http_authz_allow_total",
            (Transport::Http, false) => "inbound_http_authz_deny_total",
            (Transport::Tcp, true) => "inbound_tcp_authz_allow_total",
            (Transport::Tcp, false) => "inbound_tcp_authz_deny_total",
        };
        let mut cache = self.authz.borrow_mut();
        let key = (transport, allowed, labels.clone());
        if let Some(watched) = cache.known.get(&key) {
            return watched.series.clone();
        }
        let mut families = lock(&self.registry.families);
        let family = families.counter(name);
        let Some(cell) = family.register(&labels.text(), self.registry.series_max) else {
            // The four families may overflow each by itself, which one slot per direction cannot tell apart.
            drop(families);
            return self.word(name, Direction::Inbound, "overflow");
        };
        let series = Counter::new(cell);
        cache.known.insert(key, Watched::new(series.clone(), Instant::now()));
        series
    }

    /// Mutual TLS failed; `reason` is a word of ours.
    pub fn tls_refused(&self, direction: Direction, reason: &'static str) {
        self.word("tls_refused_total", direction, reason).add(1);
    }

    /// A connection has ended. Those that ran to their end are in `tcp_close_total` alone.
    pub fn ended(&self, direction: Direction, ending: Ending) {
        if ending.is_complete() {
            return;
        }
        let family = match direction {
            Direction::Inbound => "inbound_tcp_errors_total",
            Direction::Outbound => "outbound_tcp_errors_total",
        };
        self.word(family, direction, ending.flag()).add(1);
    }

    /// A request was answered by the proxy itself before it had an endpoint.
    pub fn request_refused(
        &self,
        direction: Direction,
        ending: Ending,
        service: Option<&Resource>,
    ) {
        let family = match direction {
            Direction::Inbound => "inbound_http_errors_total",
            Direction::Outbound => "outbound_http_errors_total",
        };
        let Some(service) = service else {
            return self.word(family, direction, ending.flag()).add(1);
        };
        let mut cache = self.refused.borrow_mut();
        let key = (service.clone(), ending.flag());
        if let Some(watched) = cache.known.get(&key) {
            return watched.series.add(1);
        }
        let mut text = LabelText::new();
        text.put("error", ending.flag());
        text.resource("parent", Some(service));
        let mut families = lock(&self.registry.families);
        let cells = families.counter(family);
        let Some(cell) = cells.register(&text.0, self.registry.series_max) else {
            drop(families);
            return self.word(family, direction, ending.flag()).add(1);
        };
        let series = Counter::new(cell);
        series.add(1);
        cache.known.insert(key, Watched::new(series, Instant::now()));
    }

    /// So many requests may our application have at the same time.
    pub fn concurrency_limit(&self, limit: u32) {
        self.word("inbound_http_concurrency_limit", Direction::Inbound, "").set(u64::from(limit));
    }

    /// A request was tried again; `reason` is a word of ours.
    pub fn retried(&self, direction: Direction, reason: &'static str) {
        self.word("http_retries_total", direction, reason).add(1);
    }

    /// A request that failed was not tried again; `reason` is a word of ours.
    pub fn retry_denied(&self, direction: Direction, reason: &'static str) {
        self.word("http_retries_denied_total", direction, reason).add(1);
    }

    /// The retries of a route. Asked for where there is one to be counted.
    #[must_use]
    pub fn route_retries(&self, parent: &Resource, route: &Resource) -> Rc<RetrySeries> {
        let mut known = self.retries.borrow_mut();
        if let Some((.., series)) = known.iter().find(|(p, r, _)| p == parent && r == route) {
            return series.clone();
        }
        let mut text = LabelText::new();
        text.resource("parent", Some(parent));
        text.resource("route", Some(route));
        let mut families = lock(&self.registry.families);
        let mut register = |name| {
            let family = families.counter(name);
            let cell = family.register(&text.0, self.registry.series_max);
            Counter::new(cell.unwrap_or_else(|| family.register_anyway(OVERFLOW)))
        };
        let series = Rc::new(RetrySeries {
            requests: register("outbound_http_route_retry_requests_total"),
            successes: register("outbound_http_route_retry_successes_total"),
            limit_exceeded: register("outbound_http_route_retry_limit_exceeded_total"),
            overflow: register("outbound_http_route_retry_overflow_total"),
        });
        if known.len() >= ROUTES_MAX {
            known.clear();
        }
        known.push((parent.clone(), route.clone(), series.clone()));
        series
    }

    /// A copy of a request was sent to a mirror, or was not; `result` is a word of ours.
    pub fn mirrored(&self, result: &'static str) {
        self.word("outbound_http_mirror_copies_total", Direction::Outbound, result).add(1);
    }

    /// A fault was injected; `fault` is a word of ours.
    pub fn injected(&self, fault: &'static str) {
        self.word("outbound_http_faults_total", Direction::Outbound, fault).add(1);
    }

    /// The protocol of a connection was looked for, for so long; `timed_out` where the client sent nothing in time.
    pub fn detected(&self, direction: Direction, latency: Duration, timed_out: bool) {
        let mut detect = self.detect.borrow_mut();
        let histogram = detect[direction as usize].get_or_insert_with(|| {
            lock(&self.registry.families).detect.register_anyway(&direction_label(direction))
        });
        histogram.observe(latency);
        if timed_out {
            self.word("tcp_detect_timeouts_total", direction, "").add(1);
        }
    }

    /// The gauge of a balancer's endpoints; zero again when it is dropped.
    #[must_use]
    pub fn endpoints(&self, parent: &Resource, backend: &Resource) -> EndpointsGauge {
        let mut families = lock(&self.registry.families);
        let family = families.counter("outbound_http_balancer_endpoints");
        let mut register = |state: &str| {
            let mut text = LabelText::new();
            text.put("endpoint_state", state);
            text.resource("parent", Some(parent));
            text.resource("backend", Some(backend));
            let cell = family.register(&text.0, self.registry.series_max);
            Counter::new(cell.unwrap_or_else(|| family.register_anyway(OVERFLOW)))
        };
        EndpointsGauge { ready: register("ready"), pending: register("pending") }
    }

    /// The ejections of a balancer. Asked for where there is one to be counted.
    #[must_use]
    pub fn ejections(&self, backend: &Resource) -> EjectionSeries {
        let mut families = lock(&self.registry.families);
        let mut register = |name, reason: Option<&str>| {
            let mut text = LabelText::new();
            text.resource("backend", Some(backend));
            reason.into_iter().for_each(|reason| text.put("reason", reason));
            let family = families.counter(name);
            let cell = family.register(&text.0, self.registry.series_max);
            Counter::new(cell.unwrap_or_else(|| family.register_anyway(OVERFLOW)))
        };
        let total = "outbound_http_balancer_ejections_total";
        EjectionSeries {
            now: register("outbound_http_balancer_ejected_endpoints", None),
            consecutive_failures: register(total, Some("consecutive_failures")),
            success_rate: register(total, Some("success_rate")),
            recoveries: register("outbound_http_balancer_recoveries_total", None),
        }
    }

    /// Lets go of series that are idle. Called by the thread about once a minute.
    pub fn sweep(&self, now: Instant) {
        let limit = self.registry.series_idle_max;
        self.http.borrow_mut().sweep(now, limit);
        self.tcp.borrow_mut().sweep(now, limit);
        self.authz.borrow_mut().sweep(now, limit);
        self.refused.borrow_mut().sweep(now, limit);
        lock(&self.registry.families).drop_released();
    }

    fn word(&self, family: &'static str, direction: Direction, word: &'static str) -> Rc<Counter> {
        let key = (family, direction, word);
        let mut words = self.words.borrow_mut();
        if let Some((_, counter)) = words.iter().find(|(known, _)| *known == key) {
            return counter.clone();
        }
        let labels = match (family, word) {
            (_, "overflow") => overflow(direction),
            (_, "") => direction_label(direction),
            (
                "inbound_tcp_errors_total"
                | "outbound_tcp_errors_total"
                | "inbound_http_errors_total"
                | "outbound_http_errors_total",
                error,
            ) => format!("error=\"{error}\""),
            ("outbound_http_faults_total", fault) => format!("fault=\"{fault}\""),
            ("outbound_http_mirror_copies_total", result) => format!("result=\"{result}\""),
            (_, reason) => format!("{},reason=\"{reason}\"", direction_label(direction)),
        };
        let mut families = lock(&self.registry.families);
        let counter = Counter::new(families.counter(family).register_anyway(&labels));
        words.push((key, counter.clone()));
        counter
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

fn direction_label(direction: Direction) -> String {
    format!("direction=\"{}\"", direction.as_str())
}

fn overflow(direction: Direction) -> String {
    format!("{},{OVERFLOW}", direction_label(direction))
}
