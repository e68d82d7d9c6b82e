//! The HTTP connection manager of Envoy, as Istio 1.30 writes it: `grpc_stats`, `fault` and `cors` before the router on every listener, tracing
//! on with one request in a hundred sampled (and nobody to send spans to, as in a cluster without a collector), its retry policies, and the headers in
//! which sidecars tell each other about their workloads.
//!
//! What only Istio's own build of Envoy has is left out, which is in Envoy's favour: `istio.stats` (the metrics by source and destination), `istio.alpn`, and
//! the decoding of those headers by `istio.metadata_exchange`.
//! Sources: istio/istio, `pilot/pkg/networking/core/listener_builder.go` (`buildHTTPConnectionManager`), `tracing.go`, `route/retry/retry.go` and
//! `pilot/pkg/xds/filters/filters.go`.

use super::super::authority::Identity;
use super::super::place::Place;
use super::typed;
use base64::Engine;
use serde_json::{Value, json};

/// Headers with the metadata of the other sidecar's workload.
const PEER: [&str; 2] = ["x-envoy-peer-metadata-id", "x-envoy-peer-metadata"];

/// The network filter that serves HTTP of `direction` to `cluster`.
pub(super) fn connection_manager(place: &Place, direction: &str, cluster: &str) -> Value {
    let outbound = direction == "outbound";
    let mut config = json!({
        "stat_prefix": direction,
        "route_config": route_config(place, outbound, cluster),
        "http_filters": filters(),
        "tracing": tracing(),
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "stream_idle_timeout": "0s",
        "normalize_path": true,
        "server_name": "istio-envoy",
    });
    if outbound {
        config["server_header_transformation"] = "PASS_THROUGH".into();
    } else {
        config["forward_client_cert_details"] = "APPEND_FORWARD".into();
        config["set_current_client_cert_details"] =
            json!({"subject": true, "dns": true, "uri": true});
    }
    let name = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": typed(name, config)})
}

/// Of all filters that stand in every chain of Istio's, those that upstream's Envoy has.
fn filters() -> Value {
    let filter = |name: &str, message: &str, config: Value| {
        let message = format!("envoy.extensions.filters.http.{name}.v3.{message}");
        json!({"name": format!("envoy.filters.http.{name}"), "typed_config": typed(&message, config)})
    };
    let statistics = json!({"emit_filter_state": true, "stats_for_all_methods": false});
    json!([
        filter("grpc_stats", "FilterConfig", statistics),
        filter("fault", "HTTPFault", json!({})),
        filter("cors", "Cors", json!({})),
        filter("router", "Router", json!({})),
    ])
}

/// `EnableTracing` is Istio's default, at 1 %.
fn tracing() -> Value {
    let percent = |value: f64| json!({"value": value});
    json!({"client_sampling": percent(100.0), "random_sampling": percent(1.0), "overall_sampling": percent(100.0)})
}

fn route_config(place: &Place, outbound: bool, cluster: &str) -> Value {
    let told: Vec<Value> = PEER
        .iter()
        .zip([node(place), workload(&place.identity, &place.pod)])
        .map(|(name, value)| {
            json!({"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"})
        })
        .collect();
    let route = json!({
        "match": {"prefix": "/"},
        "decorator": {"operation": format!("{cluster}/*")},
        "route": {"cluster": cluster, "timeout": "0s", "retry_policy": retries(outbound)},
    });
    let mut config = json!({"name": cluster,
        "virtual_hosts": [{"name": cluster, "domains": ["*"], "routes": [route]}]});
    // The application sees none of it: what one sidecar adds, the other takes away.
    let (adds, removes) = match outbound {
        true => ("request_headers_to_add", "response_headers_to_remove"),
        false => ("response_headers_to_add", "request_headers_to_remove"),
    };
    config[adds] = told.into();
    config[removes] = json!(PEER);
    config
}

/// Istio's own policies where nobody has said another: what cannot have reached an application is tried again, elsewhere if there is one.
fn retries(outbound: bool) -> Value {
    if !outbound {
        return json!({"retry_on": "reset-before-request", "num_retries": 2});
    }
    let others = "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate";
    json!({
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled,reset-before-request",
        "num_retries": 2,
        "retry_host_predicate": [{"name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": typed(others, json!({}))}],
        "host_selection_retry_max_attempts": "5",
    })
}

fn node(place: &Place) -> String {
    let (address, namespace) = (place.address(), &place.identity.namespace);
    format!("sidecar~{address}~{}.{namespace}~{namespace}.svc.cluster.local", place.pod)
}

/// What `istio.metadata_exchange` says of a workload; its own encoding is a protobuf `Struct` of the same fields.
fn workload(identity: &Identity, pod: &str) -> String {
    let Identity { namespace, account } = identity;
    let fields = json!({
        "CLUSTER_ID": "Kubernetes", "NAME": pod, "NAMESPACE": namespace, "WORKLOAD_NAME": account,
        "OWNER": format!("kubernetes://apis/apps/v1/namespaces/{namespace}/deployments/{account}"),
        "LABELS": {"app": account, "service.istio.io/canonical-name": account, "service.istio.io/canonical-revision": "latest"},
    });
    base64::engine::general_purpose::STANDARD.encode(fields.to_string())
}
