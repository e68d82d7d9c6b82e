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
    /// Only requests are counted by route: connections and bytes are 0.
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
        let mut window = Window::default();
        for now in after {
            let Some(then) = before.iter().find(|then| then.is_of(now)) else { continue };
            let seconds = (now.at - then.at).as_secs_f64().max(0.001);
            let totals = |samples: &[Sample]| {
                exposition::totals(samples, "outbound", |sample| {
                    key(sample).as_ref() == Some(&wanted)
                })
            };
            window.add(&totals(&then.samples), &totals(&now.samples), seconds);
        }
        let (service, route, backend) = wanted;
        RouteFigures { service, route, backend, figures: window.figures() }
    };
    keys.into_iter().map(row).filter(|row| row.figures.requests_total > 0).collect()
}

/// Of series about requests.
fn key(sample: &Sample) -> Option<Key> {
    let is_request = sample.name == "request_total"
        || sample.name == "response_total"
        || sample.name == "response_latency_ms_bucket";
    if !is_request || sample.label("direction") != "outbound" {
        return None;
    }
    let named = |namespace: &str, name: &str| match (sample.label(namespace), sample.label(name)) {
        (_, "") => String::new(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    let route = match sample.label("route_kind") {
        "" | "default" => "default".to_owned(),
        _ => named("route_namespace", "route_name"),
    };
    Some((named("srv_namespace", "srv_name"), route, named("dst_namespace", "dst_service")))
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
    }
}
