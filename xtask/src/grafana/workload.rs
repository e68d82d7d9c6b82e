//! Some pods: their requests, connections and proxies.

use super::panel::{
    Dashboard, Panel, Row, choice, direction, latency, mutual_tls, prometheus, rate, success,
};

const HERE: &str = "namespace=~\"$namespace\",pod=~\"$pod\"";
const SELECTED: &str = "direction=\"$direction\",namespace=~\"$namespace\",pod=~\"$pod\"";
const POD: &str = "namespace, pod";
const POD_LEGEND: &str = "{{namespace}}/{{pod}}";

pub(super) fn dashboard() -> Dashboard {
    let pods = "label_values(proxy_build_info{namespace=~\"$namespace\"}, pod)";
    Dashboard {
        uid: "leno-workload",
        title: "Leno / Workload",
        variables: vec![
            prometheus(),
            direction(),
            choice("namespace", "label_values(proxy_build_info, namespace)", true),
            choice("pod", pods, true),
        ],
        rows: vec![requests(), connections(), proxies()],
    }
}

fn requests() -> Row {
    let expiry =
        format!("min(control_identity_cert_expiration_timestamp_seconds{{{HERE}}} > 0) - time()");
    let open = format!("sum(tcp_open_connections{{{SELECTED}}})");
    Row {
        title: "Requests",
        panels: vec![
            Panel::stat("Success rate", "percentunit", success("", SELECTED)),
            Panel::stat("Requests per second", "reqps", rate("", "request_total", SELECTED)),
            Panel::stat("Latency p99", "ms", latency("0.99", "", SELECTED)),
            Panel::stat("Requests with mutual TLS", "percentunit", mutual_tls("", SELECTED)),
            Panel::stat("Open connections", "short", open),
            Panel::stat("First certificate to expire", "s", expiry),
            Panel::graph("Success rate by pod", "percentunit")
                .query(success(POD, SELECTED), POD_LEGEND),
            Panel::graph("Requests per second by pod", "reqps")
                .query(rate(POD, "request_total", SELECTED), POD_LEGEND),
            Panel::graph("Requests per second by peer", "reqps").query(
                rate("client_id, server_id", "request_total", SELECTED),
                "{{client_id}}{{server_id}}",
            ),
            Panel::graph("Latency p50", "ms").query(latency("0.5", POD, SELECTED), POD_LEGEND),
            Panel::graph("Latency p95", "ms").query(latency("0.95", POD, SELECTED), POD_LEGEND),
            Panel::graph("Latency p99", "ms").query(latency("0.99", POD, SELECTED), POD_LEGEND),
            Panel::graph("Responses by status", "reqps")
                .query(rate("status_code", "response_total", SELECTED), "{{status_code}}"),
            Panel::graph("Answered by the proxy itself", "reqps")
                .query(rate("error", "inbound_http_errors_total", HERE), "inbound: {{error}}")
                .query(rate("error", "outbound_http_errors_total", HERE), "outbound: {{error}}"),
            Panel::graph("Denied by policy", "reqps")
                .query(rate(POD, "inbound_http_authz_deny_total", HERE), POD_LEGEND)
                .query(rate(POD, "inbound_tcp_authz_deny_total", HERE), POD_LEGEND),
        ],
    }
}

fn connections() -> Row {
    Row {
        title: "TCP",
        panels: vec![
            Panel::graph("Open connections by pod", "short").query(
                format!("sum by (namespace, pod, peer) (tcp_open_connections{{{SELECTED}}})"),
                "{{namespace}}/{{pod}} {{peer}}",
            ),
            Panel::graph("Bytes read", "Bps")
                .query(rate(POD, "tcp_read_bytes_total", SELECTED), POD_LEGEND),
            Panel::graph("Bytes written", "Bps")
                .query(rate(POD, "tcp_write_bytes_total", SELECTED), POD_LEGEND),
            Panel::graph("Connections closed by errno", "short")
                .query(rate("errno", "tcp_close_total", SELECTED), "{{errno}}"),
            Panel::graph("Handshakes that failed", "short")
                .query(rate(POD, "tls_refused_total", HERE), POD_LEGEND),
            Panel::graph("Detection that timed out", "short")
                .query(rate(POD, "tcp_detect_timeouts_total", HERE), POD_LEGEND),
        ],
    }
}

fn proxies() -> Row {
    let of_proxies = "and on (namespace, pod, instance) proxy_build_info";
    let cpu = format!(
        "sum by (namespace, pod) (rate(process_cpu_seconds_total{{{HERE}}}[$__rate_interval]) {of_proxies})"
    );
    let memory = format!("process_resident_memory_bytes{{{HERE}}} {of_proxies}");
    let unreachable = format!("count(discovery_reachable_since_seconds{{{HERE}}} == 0)");
    Row {
        title: "The proxies",
        panels: vec![
            Panel::graph("CPU cores", "short").query(cpu, POD_LEGEND),
            Panel::graph("Memory", "bytes").query(memory, POD_LEGEND),
            Panel::graph("Proxies without a control plane", "short").query(unreachable, "proxies"),
        ],
    }
}
