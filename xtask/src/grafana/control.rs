//! The control plane, its issuer and its webhook.

use super::panel::{Dashboard, Panel, Row, prometheus, rate};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "leno-control",
        title: "Leno / Control plane",
        variables: vec![prometheus()],
        rows: vec![proxies(), identity(), injection()],
    }
}

fn proxies() -> Row {
    Row {
        title: "Proxies and configuration",
        panels: vec![
            Panel::graph("Connections of proxies", "short")
                .query("sum by (pod) (control_connections)".to_owned(), "{{pod}}"),
            Panel::graph("Streams", "short")
                .query("sum by (method) (control_streams)".to_owned(), "{{method}}"),
            Panel::graph("Messages sent", "short")
                .query(rate("method", "control_messages_total", ""), "{{method}}"),
            Panel::graph("Objects", "short")
                .query("max by (kind) (control_objects)".to_owned(), "{{kind}}"),
            Panel::graph("Problems of objects", "short")
                .query("max(control_problems)".to_owned(), "problems"),
            Panel::graph("Connections closed at limits", "short").query(
                rate("listener, reason", "control_connections_closed_total", ""),
                "{{listener}}: {{reason}}",
            ),
        ],
    }
}

fn identity() -> Row {
    let expiry = "min by (link) (control_certificate_expiry_timestamp_seconds) - time()";
    Row {
        title: "Identity",
        panels: vec![
            Panel::graph("Certificates issued", "short")
                .query(rate("", "control_certificates_total", ""), "issued")
                .query(
                    rate("reason", "control_certificates_refused_total", ""),
                    "refused: {{reason}}",
                ),
            Panel::graph("Chain expires in", "s").query(expiry.to_owned(), "{{link}}"),
            Panel::graph("Failures", "short")
                .query(rate("", "control_authority_errors_total", ""), "authority")
                .query(rate("", "control_handshakes_failed_total", ""), "handshakes")
                .query("max by (reason) (leno_issuer_rejected)".to_owned(), "issuer: {{reason}}"),
        ],
    }
}

fn injection() -> Row {
    let expiry = "min(leno_injector_certificate_expiry_timestamp_seconds) - time()";
    Row {
        title: "Injection and cost",
        panels: vec![
            Panel::graph("Reviews by outcome", "short")
                .query(rate("outcome", "leno_injector_admissions_total", ""), "{{outcome}}"),
            Panel::graph("The webhook's certificate expires in", "s")
                .query(expiry.to_owned(), "left"),
            Panel::graph("Memory", "bytes").query(
                "process_resident_memory_bytes and on (namespace, pod, instance) control_build_info"
                    .to_owned(),
                "{{pod}}",
            ),
        ],
    }
}
