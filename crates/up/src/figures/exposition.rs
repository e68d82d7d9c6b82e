//! Sums and percentiles of samples. Pure.

use leno_runtime::prometheus_text::Sample;
use std::collections::BTreeMap;

/// What a proxy has counted in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) requests: f64,
    pub(super) success: f64,
    pub(super) failure: f64,
    /// Of `failure`: requests that a limit refused.
    pub(super) shed: f64,
    /// Attempts after the first, of routes.
    pub(super) retries: f64,
    /// Requests that were not sent again because of the budget.
    pub(super) over_budget: f64,
    /// Endpoints that are ejected now.
    pub(super) ejected: f64,
    /// Requests at most so slow, by bound in microseconds so that bounds have an order.
    pub(super) latency: BTreeMap<u64, f64>,
    pub(super) tcp_open: f64,
    pub(super) tcp_opened: f64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
}

/// Reasons of requests that a limit refused.
const SHEDDING: [&str; 4] = [
    "overloaded",
    "circuit_breaker_requests",
    "circuit_breaker_pending",
    "circuit_breaker_connections",
];
pub(super) const RETRIES: &str = "outbound_http_route_retry_requests_total";
pub(super) const OVER_BUDGET: &str = "outbound_http_route_retry_overflow_total";
pub(super) const EJECTED: &str = "outbound_http_balancer_ejected_endpoints";

/// Sums over everything but the direction, of samples that are kept.
pub(super) fn totals(
    samples: &[Sample],
    direction: &str,
    keep: impl Fn(&Sample) -> bool,
) -> Totals {
    let mut totals = Totals::default();
    // Connections to the other side of the mesh, not those between the proxy and its own application.
    let far = if direction == "inbound" { "src" } else { "dst" };
    for sample in samples {
        let is = |label: &str, value: &str| sample.label(label) == value;
        let value = sample.value;
        // Requests that the proxy answered itself, without an endpoint.
        if is_refused(sample, direction) && keep(sample) {
            totals.requests += value;
            totals.failure += value;
            if SHEDDING.contains(&sample.label("error")) {
                totals.shed += value;
            }
        }
        if direction == "outbound" && keep(sample) {
            match sample.name.as_str() {
                RETRIES => totals.retries += value,
                OVER_BUDGET => totals.over_budget += value,
                EJECTED => totals.ejected += value,
                _ => {}
            }
        }
        if !is("direction", direction) || !keep(sample) {
            continue;
        }
        match sample.name.as_str() {
            "request_total" => totals.requests += value,
            "response_total" if is("classification", "failure") => totals.failure += value,
            "response_total" => totals.success += value,
            "response_latency_ms_bucket" => {
                let bound = sample.label("le").parse().unwrap_or(f64::INFINITY);
                // Infinity saturates.
                let bound = (bound * 1000.0) as u64;
                *totals.latency.entry(bound).or_default() += value;
            }
            "tcp_open_connections" if is("peer", far) => totals.tcp_open += value,
            "tcp_open_total" if is("peer", far) => totals.tcp_opened += value,
            "tcp_read_bytes_total" if is("peer", far) => totals.read_bytes += value,
            "tcp_write_bytes_total" if is("peer", far) => totals.write_bytes += value,
            _ => {}
        }
    }
    totals
}

/// Whether a sample counts requests that the proxy answered itself in this direction.
pub(super) fn is_refused(sample: &Sample, direction: &str) -> bool {
    sample.name.strip_suffix("_http_errors_total") == Some(direction)
}

/// A percentile in milliseconds from cumulative buckets, in a straight line through its bucket; the last finite bound where
/// it lies beyond.
pub(super) fn percentile(buckets: &BTreeMap<u64, f64>, share: f64) -> Option<f64> {
    let all = *buckets.values().next_back()?;
    if all <= 0.0 {
        return None;
    }
    let wanted = all * share;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= wanted {
            if *bound == u64::MAX {
                return Some(lower);
            }
            let upper = *bound as f64 / 1000.0;
            let inside = (count - below).max(f64::MIN_POSITIVE);
            return Some(lower + (upper - lower) * ((wanted - below) / inside));
        }
        if *bound != u64::MAX {
            lower = *bound as f64 / 1000.0;
        }
        below = *count;
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let buckets =
            BTreeMap::from([(1000, 50.0), (2000, 90.0), (10_000, 99.0), (u64::MAX, 100.0)]);
        for (share, expected) in [(0.25, 0.5), (0.5, 1.0), (0.9, 2.0), (0.945, 6.0), (0.999, 10.0)]
        {
            let found = percentile(&buckets, share).unwrap();
            assert!((found - expected).abs() < 1e-9, "{share}: {found}");
        }
        assert_eq!(percentile(&BTreeMap::new(), 0.5), None);
        assert_eq!(percentile(&BTreeMap::from([(1000, 0.0)]), 0.5), None);
    }
}
