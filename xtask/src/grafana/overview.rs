//! All workloads at a glance.

use super::panel::{Dashboard, Panel, Row, choice, latency, mutual_tls, prometheus, rate, success};

const WORKLOAD: &str =
    "/d/leno-workload?var-namespace=${__data.fields.namespace}&${__url_time_range}";
const ROUTE: &str = "/d/leno-route?var-namespace=${__data.fields.srv_namespace}&var-service=${__data.fields.srv_name}&${__url_time_range}";

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "leno-overview",
        title: "Leno / Overview",
        variables: vec![
            prometheus(),
            choice("namespace", "label_values(proxy_build_info, namespace)", true),
        ],
        rows: vec![golden(), workloads(), failures(), cost()],
    }
}

const INBOUND: &str = "direction=\"inbound\",namespace=~\"$namespace\"";
const OUTBOUND: &str = "direction=\"outbound\",namespace=~\"$namespace\"";
const HERE: &str = "namespace=~\"$namespace\"";

fn golden() -> Row {
    let pods = format!("count(count by (namespace, pod) (proxy_build_info{{{HERE}}}))");
    Row {
        title: "Requests to applications",
        panels: vec![
            Panel::stat("Success rate", "percentunit", success("", INBOUND)),
            Panel::stat("Requests per second", "reqps", rate("", "request_total", INBOUND)),
            Panel::stat("Latency p50", "ms", latency("0.5", "", INBOUND)),
            Panel::stat("Latency p99", "ms", latency("0.99", "", INBOUND)),
            Panel::stat("Requests with mutual TLS", "percentunit", mutual_tls("", INBOUND)),
            Panel::stat("Meshed pods", "short", pods),
            Panel::graph("Success rate by namespace", "percentunit")
                .query(success("namespace", INBOUND), "{{namespace}}"),
            Panel::graph("Requests per second by namespace", "reqps")
                .query(rate("namespace", "request_total", INBOUND), "{{namespace}}"),
            Panel::graph("Latency p99 by namespace", "ms")
                .query(latency("0.99", "namespace", INBOUND), "{{namespace}}"),
        ],
    }
}

fn workloads() -> Row {
    let by = "namespace, pod";
    let service = "srv_namespace, srv_name";
    let services = format!("srv_kind=\"Service\",{OUTBOUND}");
    Row {
        title: "Workloads",
        panels: vec![
            Panel::table("Pods, as servers", "short")
                .wide(12)
                .query(success(by, INBOUND), "success")
                .query(rate(by, "request_total", INBOUND), "requests/s")
                .query(latency("0.5", by, INBOUND), "p50")
                .query(latency("0.99", by, INBOUND), "p99")
                .link("Workload", WORKLOAD),
            Panel::table("Services, as clients see them", "short")
                .wide(12)
                .query(success(service, &services), "success")
                .query(rate(service, "request_total", &services), "requests/s")
                .query(latency("0.5", service, &services), "p50")
                .query(latency("0.99", service, &services), "p99")
                .with_full_metrics()
                .link("Routes", ROUTE),
        ],
    }
}

fn failures() -> Row {
    Row {
        title: "What the mesh refused",
        panels: vec![
            Panel::graph("Requests that proxies answered themselves", "reqps")
                .query(rate("error", "inbound_http_errors_total", HERE), "inbound: {{error}}")
                .query(rate("error", "outbound_http_errors_total", HERE), "outbound: {{error}}"),
            Panel::graph("Connections that ended with an error", "short")
                .query(rate("error", "inbound_tcp_errors_total", HERE), "inbound: {{error}}")
                .query(rate("error", "outbound_tcp_errors_total", HERE), "outbound: {{error}}"),
            Panel::graph("Denied by policy", "reqps")
                .query(
                    rate("namespace", "inbound_http_authz_deny_total", HERE),
                    "{{namespace}} requests",
                )
                .query(
                    rate("namespace", "inbound_tcp_authz_deny_total", HERE),
                    "{{namespace}} connections",
                ),
        ],
    }
}

fn cost() -> Row {
    let of_proxies = "and on (namespace, pod, instance) proxy_build_info";
    let cpu = format!(
        "sum by (namespace) (rate(process_cpu_seconds_total{{{HERE}}}[$__rate_interval]) {of_proxies})"
    );
    let memory =
        format!("sum by (namespace) (process_resident_memory_bytes{{{HERE}}} {of_proxies})");
    let each = format!("max(process_resident_memory_bytes{{{HERE}}} {of_proxies})");
    Row {
        title: "What proxies cost",
        panels: vec![
            Panel::graph("CPU cores", "short").query(cpu, "{{namespace}}"),
            Panel::graph("Memory", "bytes").query(memory, "{{namespace}}"),
            Panel::graph("Memory of the largest proxy", "bytes").query(each, "largest"),
        ],
    }
}
