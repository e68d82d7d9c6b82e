//! Traffic by route, as clients count it.

use super::{Figures, Reading, Window};
use crate::figures::exposition;
use leno_runtime::prometheus_text::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Requests of several pods that followed one route to one backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteFigures {
    /// `namespace/name` of the Service that clients asked for; empty for other destinations.
    pub service: String,
    /// `namespace/name` of the route, or `default`.
    pub route: String,
    /// `namespace/name` of the Service whose endpoints were used.
    pub backend: String,
    /// Only requests are counted by route: connections and bytes are 0. Retries, amplification and effective success are of the route
    /// with all its backends; ejected endpoints are of the backend.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Service, route, backend.
type Key = (String, String, String);

/// Outbound requests by route between two readings; a pod that was read only once is left out.
#[must_use]
pub fn routes(before: &[Reading], after: &[Reading]) -> Vec<RouteFigures> {
    let keys: BTreeSet<Key> =
        after.iter().flat_map(|reading| reading.samples.iter().filter_map(key)).collect();
    let row = |wanted: Key| {
        let is_of_backend = |sample: &Sample| {
            key(sample).as_ref() == Some(&wanted) || ejected(sample).as_ref() == Some(&wanted.2)
        };
        let is_of_route = |sample: &Sample| {
            route(sample).is_some_and(|(service, route)| service == wanted.0 && route == wanted.1)
        };
        let (backend, whole) =
            (window(before, after, is_of_backend), window(before, after, is_of_route));
        // Retries are counted by route, whatever the backend of an attempt.
        let figures = Figures {
            retries_per_second: whole.retries_per_second,
            effective_success_rate: whole.effective_success_rate,
            amplification: whole.amplification,
            over_budget_per_second: whole.over_budget_per_second,
            ..backend
        };
        let (service, route, backend) = wanted;
        RouteFigures { service, route, backend, figures }
    };
    keys.into_iter().map(row).filter(|row| row.figures.requests_total > 0).collect()
}

/// Traffic of the series that are kept, of all pods that were read twice.
fn window(before: &[Reading], after: &[Reading], keep: impl Fn(&Sample) -> bool) -> Figures {
    let mut window = Window::default();
    for now in after {
        let Some(then) = before.iter().find(|then| then.is_of(now)) else { continue };
        let seconds = (now.at - then.at).as_secs_f64().max(0.001);
        let totals = |samples: &[Sample]| exposition::totals(samples, "outbound", &keep);
        window.add(&totals(&then.samples), &totals(&now.samples), seconds);
    }
    window.figures()
}

/// The backend of a series about its ejected endpoints.
fn ejected(sample: &Sample) -> Option<String> {
    let is_it = sample.name == exposition::EJECTED;
    is_it.then(|| named(sample, "backend_namespace", "backend_name"))
}

/// Service and route of a series about requests or retries.
fn route(sample: &Sample) -> Option<(String, String)> {
    if [exposition::RETRIES, exposition::OVER_BUDGET].contains(&sample.name.as_str()) {
        return Some((named(sample, "parent_namespace", "parent_name"), route_name(sample)));
    }
    key(sample).map(|(service, route, _)| (service, route))
}

fn route_name(sample: &Sample) -> String {
    match sample.label("route_kind") {
        "" | "default" => "default".to_owned(),
        _ => named(sample, "route_namespace", "route_name"),
    }
}

/// `namespace/name` of two labels.
fn named(sample: &Sample, namespace: &str, name: &str) -> String {
    match (sample.label(namespace), sample.label(name)) {
        (_, "") => String::new(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// Of series about requests.
fn key(sample: &Sample) -> Option<Key> {
    let is_request = sample.name == "request_total"
        || sample.name == "response_total"
        || sample.name == "response_latency_ms_bucket";
    if !is_request || sample.label("direction") != "outbound" {
        return None;
    }
    let service = named(sample, "srv_namespace", "srv_name");
    let backend = named(sample, "dst_namespace", "dst_service");
    Some((service, route_name(sample), backend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Said;
    use std::time::{Duration, Instant};

    #[test]
    fn requests_by_route() {
        let labels = |route: &str, backend: &str| {
            format!(
                "direction=\"outbound\",srv_kind=\"Service\",srv_namespace=\"n\",srv_name=\"api\",{route},\
                 dst_namespace=\"n\",dst_service=\"{backend}\""
            )
        };
        let named = "route_kind=\"HTTPRoute\",route_namespace=\"n\",route_name=\"split\"";
        let (split, other) =
            (labels(named, "api-v2"), labels("route_kind=\"default\",route_name=\"http\"", "api"));
        let text = format!(
            "request_total{{{split}}} 8\nresponse_total{{{split},classification=\"success\"}} 6\n\
             response_total{{{split},classification=\"failure\"}} 2\n\
             response_latency_ms_bucket{{{split},le=\"10\"}} 8\nresponse_latency_ms_bucket{{{split},le=\"+Inf\"}} 8\n\
             request_total{{{other}}} 4\nresponse_total{{{other},classification=\"success\"}} 4\n\
             outbound_http_route_retry_requests_total{{parent_kind=\"Service\",parent_namespace=\"n\",parent_name=\"api\",{named}}} 2\n\
             outbound_http_route_retry_overflow_total{{parent_kind=\"Service\",parent_namespace=\"n\",parent_name=\"api\",{named}}} 4\n\
             outbound_http_balancer_ejected_endpoints{{backend_kind=\"Service\",backend_namespace=\"n\",backend_name=\"api-v2\"}} 1\n\
             request_total{{direction=\"inbound\"}} 9\n"
        );
        let began = Instant::now();
        let reading = |text: &str, at| {
            let (namespace, pod, text) = ("n".into(), "p".into(), text.into());
            Reading::new(Said { namespace, pod, identity: String::new(), text }, at)
        };
        let (before, after) = (reading("", began), reading(&text, began + Duration::from_secs(2)));
        let rows = routes(&[before], &[after]);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let Figures { requests_per_second, success_rate, p50_milliseconds, .. } =
                    row.figures;
                format!(
                    "{} {} {} {requests_per_second} {success_rate:?} {p50_milliseconds:?}",
                    row.service, row.route, row.backend
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "n/api default n/api 2 Some(1.0) None",
                "n/api n/split n/api-v2 4 Some(0.75) Some(5.0)"
            ]
        );
        let seen = |row: &RouteFigures| {
            let figures = &row.figures;
            (
                figures.retries_per_second,
                figures.effective_success_rate,
                figures.over_budget_per_second,
                figures.ejected_endpoints,
            )
        };
        assert_eq!(seen(&rows[0]), (0.0, Some(1.0), 0.0, 0));
        // Six of eight attempts succeeded, and two of the eight were retries.
        assert_eq!(seen(&rows[1]), (1.0, Some(1.0), 2.0, 1));
        assert_eq!(rows[1].figures.amplification, Some(8.0 / 6.0));
    }
}
