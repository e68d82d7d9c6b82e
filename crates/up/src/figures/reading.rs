//! Rows from the metrics of proxies: traffic between two readings ([`between`], [`grouped`]) and the hops between workloads
//! ([`hops`]). Pure: the text may come from this machine or from a cluster.

pub mod routes;

use super::Said;
use super::exposition::{self, Totals};
use leno_runtime::prometheus_text::{self, Sample};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// What one proxy said at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Namespace of its pod.
    pub namespace: String,
    pub pod: String,
    /// SPIFFE ID of the pod.
    pub identity: String,
    /// When it said so.
    pub at: Instant,
    samples: Vec<Sample>,
}

impl Reading {
    /// Reads the text; lines that are not understood are left out.
    #[must_use]
    pub fn new(said: Said, at: Instant) -> Self {
        let samples = prometheus_text::samples(&said.text).collect();
        Self { namespace: said.namespace, pod: said.pod, identity: said.identity, at, samples }
    }

    /// The greatest value of a family; `None` where it is not there.
    #[must_use]
    pub fn greatest(&self, name: &str) -> Option<f64> {
        let values = self.samples.iter().filter(|sample| sample.name == name).map(|s| s.value);
        values.reduce(f64::max)
    }

    /// A label of the first series of a family.
    #[must_use]
    pub fn label(&self, name: &str, label: &str) -> Option<&str> {
        let sample = self.samples.iter().find(|sample| sample.name == name)?;
        sample.labels.get(label).map(String::as_str)
    }

    /// Namespace and name of every Service that the pod called.
    #[must_use]
    pub fn services(&self) -> Vec<(String, String)> {
        let called = self.samples.iter().filter_map(service_of);
        let mut services: Vec<_> =
            called.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())).collect();
        services.sort();
        services.dedup();
        services
    }

    fn is_of(&self, other: &Self) -> bool {
        self.pod == other.pod && self.namespace == other.namespace
    }
}

fn service_of(sample: &Sample) -> Option<(&str, &str)> {
    let label = |name: &str| sample.labels.get(name).map(String::as_str).filter(|l| !l.is_empty());
    if sample.name == exposition::EJECTED {
        let is_service = label("backend_kind")?.eq_ignore_ascii_case("service");
        return is_service.then_some((label("backend_namespace")?, label("backend_name")?));
    }
    let is_retried = [exposition::RETRIES, exposition::OVER_BUDGET].contains(&sample.name.as_str());
    if is_retried || exposition::is_refused(sample, "outbound") {
        let is_service = label("parent_kind")?.eq_ignore_ascii_case("service");
        return is_service.then_some((label("parent_namespace")?, label("parent_name")?));
    }
    Some((label("dst_namespace")?, label("dst_service")?))
}

/// Which traffic is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// What pods served.
    Inbound,
    /// What pods asked for.
    Outbound,
    /// What pods asked of this Service, by namespace and name.
    Service(String, String),
}

impl Of {
    fn totals(&self, samples: &[Sample]) -> Totals {
        match self {
            Self::Inbound => exposition::totals(samples, "inbound", |_| true),
            Self::Outbound => exposition::totals(samples, "outbound", |_| true),
            Self::Service(namespace, name) => exposition::totals(samples, "outbound", |sample| {
                service_of(sample) == Some((namespace.as_str(), name.as_str()))
            }),
        }
    }
}

/// Traffic over a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests ended in the window, per second.
    pub requests_per_second: f64,
    /// Share of them that succeeded, 0 to 1; `null` when there were none.
    pub success_rate: Option<f64>,
    /// Median latency, interpolated in its bucket.
    pub p50_milliseconds: Option<f64>,
    /// 95th percentile.
    pub p95_milliseconds: Option<f64>,
    /// 99th percentile.
    pub p99_milliseconds: Option<f64>,
    /// Connections open now: from clients for inbound, to endpoints for outbound.
    pub tcp_open: u64,
    /// Connections opened in the window, per second.
    pub tcp_opened_per_second: f64,
    /// Bytes read from those connections, per second.
    pub read_bytes_per_second: f64,
    /// Bytes written to them, per second.
    pub write_bytes_per_second: f64,
    /// Requests since the proxies started.
    pub requests_total: u64,
    /// Attempts after the first that routes asked for, per second; for outbound only. They are among the requests.
    pub retries_per_second: f64,
    /// Share of the requests without their retries that succeeded in the end, 0 to 1; `null` when there were none.
    pub effective_success_rate: Option<f64>,
    /// Requests with their retries, for each request; `null` when there were none.
    pub amplification: Option<f64>,
    /// Failed requests that were not sent again because the retry budget was used up, per second.
    pub over_budget_per_second: f64,
    /// Requests that a limit refused, per second.
    pub shed_per_second: f64,
    /// Endpoints that are ejected now, each counted by every proxy that ejected it.
    pub ejected_endpoints: u64,
}

/// Traffic of one pod in one direction over a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stat {
    pub namespace: String,
    pub pod: String,
    /// `inbound` or `outbound`.
    pub direction: String,
    /// What was seen.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Traffic between two identities since the start of a proxy, as this proxy counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// Namespace of the pod whose proxy says this.
    pub namespace: String,
    pub pod: String,
    /// `inbound`: the pod is the server; `outbound`: it is the client.
    pub direction: String,
    /// SPIFFE ID of the client; empty when it showed none.
    pub client: String,
    /// SPIFFE ID of the server; empty when it showed none.
    pub server: String,
    /// For outbound: `namespace/service`, where the destination is one.
    pub service: String,
    /// Whether both sides proved who they are.
    pub mutual_tls: bool,
    /// Requests that ended.
    pub requests: u64,
    /// Share of them that succeeded; `null` when there were none.
    pub success_rate: Option<f64>,
    /// Connections opened.
    pub connections: u64,
}

/// What several proxies saw in the same window.
#[derive(Clone, Debug, Default)]
struct Window {
    ended_per_second: f64,
    success: f64,
    ended: f64,
    /// Of the requests that ended in the window.
    latency: BTreeMap<u64, f64>,
    tcp_open: f64,
    tcp_opened_per_second: f64,
    read_bytes_per_second: f64,
    write_bytes_per_second: f64,
    requests: f64,
    retries: f64,
    retries_per_second: f64,
    over_budget_per_second: f64,
    shed_per_second: f64,
    ejected: f64,
}

impl Window {
    fn add(&mut self, then: &Totals, now: &Totals, seconds: f64) {
        // A proxy that was started again counts from zero.
        let grown = |then: f64, now: f64| if now >= then { now - then } else { now };
        let success = grown(then.success, now.success);
        let ended = success + grown(then.failure, now.failure);
        self.success += success;
        self.ended += ended;
        self.ended_per_second += ended / seconds;
        for (bound, count) in &now.latency {
            let before = then.latency.get(bound).copied().unwrap_or(0.0);
            *self.latency.entry(*bound).or_default() += grown(before, *count);
        }
        self.tcp_open += now.tcp_open.max(0.0);
        self.tcp_opened_per_second += grown(then.tcp_opened, now.tcp_opened) / seconds;
        self.read_bytes_per_second += grown(then.read_bytes, now.read_bytes) / seconds;
        self.write_bytes_per_second += grown(then.write_bytes, now.write_bytes) / seconds;
        self.requests += now.requests;
        let retries = grown(then.retries, now.retries);
        self.retries += retries;
        self.retries_per_second += retries / seconds;
        self.over_budget_per_second += grown(then.over_budget, now.over_budget) / seconds;
        self.shed_per_second += grown(then.shed, now.shed) / seconds;
        self.ejected += now.ejected.max(0.0);
    }

    fn figures(&self) -> Figures {
        let percentile = |share| exposition::percentile(&self.latency, share);
        // Retries that end after the window may be more than the attempts that ended in it.
        let first = if self.retries < self.ended { self.ended - self.retries } else { 0.0 };
        Figures {
            requests_per_second: self.ended_per_second,
            success_rate: (self.ended > 0.0).then(|| self.success / self.ended),
            p50_milliseconds: percentile(0.5),
            p95_milliseconds: percentile(0.95),
            p99_milliseconds: percentile(0.99),
            tcp_open: self.tcp_open as u64,
            tcp_opened_per_second: self.tcp_opened_per_second,
            read_bytes_per_second: self.read_bytes_per_second,
            write_bytes_per_second: self.write_bytes_per_second,
            requests_total: self.requests as u64,
            retries_per_second: self.retries_per_second,
            effective_success_rate: (first > 0.0).then(|| (self.success / first).min(1.0)),
            amplification: (first > 0.0).then(|| self.ended / first),
            over_budget_per_second: self.over_budget_per_second,
            shed_per_second: self.shed_per_second,
            ejected_endpoints: self.ejected as u64,
        }
    }
}

/// Traffic of every pod in both directions; one that was read only once is left out.
#[must_use]
pub fn between(before: &[Reading], after: &[Reading]) -> Vec<Stat> {
    let mut stats = Vec::new();
    for now in after {
        for (direction, of) in [("inbound", Of::Inbound), ("outbound", Of::Outbound)] {
            let Some(figures) = grouped(before, [now], &of) else { continue };
            stats.push(Stat {
                namespace: now.namespace.clone(),
                pod: now.pod.clone(),
                direction: direction.to_owned(),
                figures,
            });
        }
    }
    stats
}

/// Traffic of several pods as one; `None` where none of them was read twice.
pub fn grouped<'a>(
    before: &[Reading],
    after: impl IntoIterator<Item = &'a Reading>,
    of: &Of,
) -> Option<Figures> {
    let mut window = None;
    for now in after {
        let Some(then) = before.iter().find(|then| then.is_of(now)) else { continue };
        let seconds = (now.at - then.at).as_secs_f64().max(0.001);
        let (then, now) = (of.totals(&then.samples), of.totals(&now.samples));
        window.get_or_insert_with(Window::default).add(&then, &now, seconds);
    }
    window.map(|window| window.figures())
}

/// The hops between workloads, since the proxies started.
#[must_use]
pub fn hops(readings: &[Reading]) -> Vec<Hop> {
    readings.iter().flat_map(hops_of).collect()
}

/// What was counted of a hop.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    well: f64,
    badly: f64,
    opened: f64,
}

fn hops_of(reading: &Reading) -> Vec<Hop> {
    // By direction, peer, service and whether both are proven.
    let mut hops: BTreeMap<(String, String, String, bool), Counted> = BTreeMap::new();
    for sample in &reading.samples {
        if exposition::is_refused(sample, "outbound")
            && let Some((namespace, name)) = service_of(sample)
        {
            // No server has shown an identity.
            let service = format!("{namespace}/{name}");
            let key = ("outbound".to_owned(), String::new(), service, false);
            hops.entry(key).or_default().badly += sample.value;
        }
        let label = |name: &str| sample.labels.get(name).cloned().unwrap_or_default();
        if sample.name == "inbound_http_authz_deny_total" {
            let client = label("client_id");
            let key = ("inbound".to_owned(), client, String::new(), label("tls") == "true");
            hops.entry(key).or_default().badly += sample.value;
        }
        let direction = label("direction");
        let (peer, side, service) = match direction.as_str() {
            "inbound" => (label("client_id"), "src", String::new()),
            "outbound" => {
                let service = label("dst_service");
                let namespace = label("dst_namespace");
                let whole =
                    if service.is_empty() { service } else { format!("{namespace}/{service}") };
                (label("server_id"), "dst", whole)
            }
            _ => continue,
        };
        let key = (direction, peer, service, label("tls") == "true");
        let value = sample.value;
        match sample.name.as_str() {
            "response_total" if label("classification") == "failure" => {
                hops.entry(key).or_default().badly += value;
            }
            "response_total" => hops.entry(key).or_default().well += value,
            // The other side of each connection is the application on this pod.
            "tcp_open_total" if label("peer") == side => {
                hops.entry(key).or_default().opened += value;
            }
            _ => {}
        }
    }
    let rows = hops.into_iter().filter(|(_, seen)| seen.well + seen.badly + seen.opened > 0.0);
    rows.map(|((direction, peer, service, mutual_tls), seen)| {
        let own = reading.identity.clone();
        let (client, server) = if direction == "inbound" { (peer, own) } else { (own, peer) };
        let ended = seen.well + seen.badly;
        Hop {
            namespace: reading.namespace.clone(),
            pod: reading.pod.clone(),
            direction,
            client,
            server,
            service,
            mutual_tls,
            requests: ended as u64,
            success_rate: (ended > 0.0).then(|| seen.well / ended),
            connections: seen.opened as u64,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TEXT: &str = "# HELP response_total Requests that have ended.\n\
        response_total{direction=\"inbound\",client_id=\"spiffe://a\",tls=\"true\",classification=\"success\"} 9\n\
        response_total{direction=\"inbound\",client_id=\"spiffe://a\",tls=\"true\",classification=\"failure\"} 1\n\
        response_latency_ms_bucket{direction=\"inbound\",le=\"10\"} 5\n\
        response_latency_ms_bucket{direction=\"inbound\",le=\"20\"} 10\n\
        response_latency_ms_bucket{direction=\"inbound\",le=\"+Inf\"} 10\n\
        tcp_open_total{direction=\"inbound\",peer=\"src\",client_id=\"spiffe://a\",tls=\"true\"} 2\n\
        tcp_open_total{direction=\"inbound\",peer=\"dst\"} 7\n\
        tcp_open_connections{direction=\"inbound\",peer=\"src\"} 1\n\
        response_total{direction=\"outbound\",dst_service=\"db\",dst_namespace=\"n\",classification=\"success\"} 4\n\
        response_total{direction=\"outbound\",dst_service=\"x\",dst_namespace=\"n\",classification=\"success\"} 2\n\
        outbound_http_errors_total{error=\"no_endpoints\",parent_kind=\"Service\",parent_namespace=\"n\",parent_name=\"gone\"} 3\n\
        inbound_http_authz_deny_total{client_id=\"spiffe://b\",tls=\"true\"} 2\n\
        outbound_http_errors_total{error=\"discovery_unavailable\"} 1\n\
        outbound_http_errors_total{error=\"circuit_breaker_requests\"} 1\n\
        outbound_http_route_retry_requests_total{parent_kind=\"Service\",parent_namespace=\"n\",parent_name=\"db\"} 3\n\
        outbound_http_balancer_ejected_endpoints{backend_kind=\"Service\",backend_namespace=\"n\",backend_name=\"db\"} 1\n\
        proxy_build_info{version=\"1.2.3\"} 1\n";

    fn reading(pod: &str, text: &str, at: Instant) -> Reading {
        let said = Said {
            namespace: "n".into(),
            pod: pod.into(),
            identity: "spiffe://cluster.local/ns/n/sa/web".into(),
            text: text.into(),
        };
        Reading::new(said, at)
    }

    #[test]
    fn a_window() {
        let began = Instant::now();
        let then = began + Duration::from_secs(2);
        let empty = [reading("p", "", began)];
        let full = [reading("p", TEXT, then)];
        let seen = &between(&empty, &full)[0];
        assert_eq!((seen.pod.as_str(), seen.direction.as_str()), ("p", "inbound"));
        let figures = &seen.figures;
        assert_eq!(figures.requests_per_second, 5.0);
        assert_eq!(figures.success_rate, Some(0.9));
        assert_eq!(figures.p50_milliseconds, Some(10.0));
        assert_eq!(figures.p95_milliseconds, Some(19.0));
        assert_eq!((figures.tcp_open, figures.tcp_opened_per_second), (1, 1.0));
        let sent = &between(&empty, &full)[1].figures;
        assert_eq!((sent.retries_per_second, sent.shed_per_second), (1.5, 0.5));
        assert_eq!((sent.ejected_endpoints, sent.over_budget_per_second), (1, 0.0));
        // Six answered well, five refused; three of the eleven were retries.
        assert_eq!(
            (sent.effective_success_rate, sent.amplification),
            (Some(0.75), Some(11.0 / 8.0))
        );
        // Nothing in between: no rate, no latency.
        let before = [reading("p", TEXT, began)];
        let still = &between(&before, &full)[0].figures;
        assert_eq!(
            (still.requests_per_second, still.success_rate, still.p50_milliseconds),
            (0.0, None, None)
        );
        // Read once only.
        assert!(between(&[], &full).is_empty());
    }

    #[test]
    fn pods_as_one() {
        let began = Instant::now();
        let before = [reading("p", "", began), reading("q", "", began)];
        let later = began + Duration::from_secs(1);
        let after =
            [reading("p", TEXT, later), reading("q", TEXT, later), reading("new", TEXT, later)];
        let check = |of: Of, rate: f64, open: u64| {
            let figures = grouped(&before, &after, &of).unwrap();
            assert_eq!((figures.requests_per_second, figures.tcp_open), (rate, open), "{of:?}");
        };
        check(Of::Inbound, 20.0, 2);
        check(Of::Outbound, 22.0, 0);
        check(Of::Service("n".into(), "gone".into()), 6.0, 0);
        check(Of::Service("n".into(), "db".into()), 8.0, 0);
        check(Of::Service("other".into(), "db".into()), 0.0, 0);
        assert_eq!(grouped(&before, &after[2..], &Of::Inbound), None);
        let services = after[0].services();
        let called = ["db", "gone", "x"].map(|name| ("n".to_owned(), name.to_owned()));
        assert_eq!(services, called);
        assert_eq!(after[0].label("proxy_build_info", "version"), Some("1.2.3"));
        assert_eq!(after[0].greatest("response_latency_ms_bucket"), Some(10.0));
        assert_eq!(after[0].greatest("nothing"), None);
    }

    #[test]
    fn both_sides_of_a_hop() {
        let hops = hops(&[reading("p", TEXT, Instant::now())]);
        assert_eq!(hops.len(), 5, "{hops:?}");
        let denied = hops.iter().find(|hop| hop.client == "spiffe://b").unwrap();
        assert_eq!((denied.requests, denied.success_rate), (2, Some(0.0)));
        let gone = hops.iter().find(|hop| hop.service == "n/gone").unwrap();
        assert_eq!((gone.requests, gone.success_rate, gone.mutual_tls), (3, Some(0.0), false));
        assert_eq!(hops[0].client, "spiffe://a");
        assert_eq!(hops[0].server, "spiffe://cluster.local/ns/n/sa/web");
        assert_eq!((hops[0].requests, hops[0].connections, hops[0].mutual_tls), (10, 2, true));
        assert!(hops.iter().any(|hop| hop.service == "n/db"));
    }
}
