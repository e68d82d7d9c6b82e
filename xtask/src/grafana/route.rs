//! The routes of a Service, as its clients see them.

use super::panel::{Dashboard, Panel, Row, choice, latency, prometheus, rate, success};

const SERVICE: &str = "direction=\"outbound\",srv_kind=\"Service\",srv_namespace=~\"$namespace\",srv_name=~\"$service\",route_name=~\"$route\"";
const PARENT: &str = "parent_namespace=~\"$namespace\",parent_name=~\"$service\"";
const ROUTE: &str = "srv_name, route_kind, route_name";
const LEGEND: &str = "{{srv_name}} {{route_name}}";

pub(super) fn dashboard() -> Dashboard {
    let kind = "direction=\"outbound\",srv_kind=\"Service\"";
    let namespaces = format!("label_values(request_total{{{kind}}}, srv_namespace)");
    let services =
        format!("label_values(request_total{{{kind},srv_namespace=~\"$namespace\"}}, srv_name)");
    let routes = format!(
        "label_values(request_total{{{kind},srv_namespace=~\"$namespace\",srv_name=~\"$service\"}}, route_name)"
    );
    Dashboard {
        uid: "leno-route",
        title: "Leno / Route",
        variables: vec![
            prometheus(),
            choice("namespace", &namespaces, true),
            choice("service", &services, true),
            choice("route", &routes, true),
        ],
        rows: vec![routes_of_service(), retries()],
    }
}

fn routes_of_service() -> Row {
    let backend = "dst_service, dst_pod";
    Row {
        title: "Routes",
        panels: vec![
            Panel::table("Routes", "short")
                .query(success(ROUTE, SERVICE), "success")
                .query(rate(ROUTE, "request_total", SERVICE), "requests/s")
                .query(latency("0.5", ROUTE, SERVICE), "p50")
                .query(latency("0.99", ROUTE, SERVICE), "p99")
                .with_full_metrics(),
            Panel::graph("Success rate", "percentunit").query(success(ROUTE, SERVICE), LEGEND),
            Panel::graph("Requests per second", "reqps")
                .query(rate(ROUTE, "request_total", SERVICE), LEGEND),
            Panel::graph("Latency p99", "ms")
                .query(latency("0.99", ROUTE, SERVICE), LEGEND)
                .with_full_metrics(),
            Panel::graph("Requests per second by endpoint", "reqps")
                .query(rate(backend, "request_total", SERVICE), "{{dst_service}} {{dst_pod}}"),
            Panel::graph("Latency p99 by endpoint", "ms")
                .query(latency("0.99", backend, SERVICE), "{{dst_service}} {{dst_pod}}")
                .with_full_metrics(),
            Panel::graph("Responses by status", "reqps")
                .query(rate("status_code", "response_total", SERVICE), "{{status_code}}"),
        ],
    }
}

fn retries() -> Row {
    Row {
        title: "Retries and answers without an endpoint",
        panels: vec![
            Panel::graph("Retries by reason", "reqps")
                .query(rate("reason", "http_retries_total", ""), "{{reason}}"),
            Panel::graph("Failed requests that were not sent again", "reqps")
                .query(rate("reason", "http_retries_denied_total", ""), "{{reason}}"),
            Panel::graph("Answered by clients' proxies", "reqps").query(
                rate("parent_name, error", "outbound_http_errors_total", PARENT),
                "{{parent_name}}: {{error}}",
            ),
        ],
    }
}
