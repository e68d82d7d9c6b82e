//! Manifests in few words.

pub(super) const SHOP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {leno.dev/default-inbound-policy: all-authenticated, leno.dev/opaque-ports: "6379"}}
"#;

/// A pod; `extra` goes into its metadata, e.g. `annotations: {…}`.
pub(super) fn pod(namespace: &str, name: &str, ip: &str, annotations: &str, ready: bool) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: web}}, annotations: {{{annotations}}}}}
spec: {{serviceAccountName: {name}-account, containers: [{{name: c, ports: [{{name: web, containerPort: 8080}}]}}]}}
status: {{podIP: \"{ip}\", conditions: [{{type: Ready, status: \"{}\"}}]}}
",
        if ready { "True" } else { "False" }
    )
}

pub(super) const MESHED: &str = "leno.dev/meshed: \"true\"";

/// A Service with one port `80 → web`; `more` goes into its port.
pub(super) fn service(namespace: &str, name: &str, ip: &str, more: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{clusterIP: \"{ip}\", selector: {{app: web}}, ports: [{{name: http, port: 80, targetPort: web{more}}}]}}
"
    )
}

/// A slice of a Service's port `http` at 8080; endpoints are `address pod-or-dash conditions`.
pub(super) fn slice(namespace: &str, service: &str, endpoints: &[(&str, &str, &str)]) -> String {
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|(ip, pod, conditions)| {
            let target = match *pod {
                "-" => String::new(),
                pod => format!(", targetRef: {{kind: Pod, name: {pod}}}"),
            };
            format!("{{addresses: [\"{ip}\"], conditions: {{{conditions}}}{target}}}")
        })
        .collect();
    format!(
        "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {service}-1, namespace: {namespace}, labels: {{kubernetes.io/service-name: {service}}}}}
addressType: IPv4
endpoints: [{}]
ports: [{{name: http, port: 8080, protocol: TCP}}]
",
        endpoints.join(", ")
    )
}

/// A route of either kind on Services; `parents` and `rules` in YAML's flow form.
pub(super) fn route(kind: &str, namespace: &str, name: &str, parents: &str, rules: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  parentRefs: [{parents}]
  rules: [{rules}]
"
    )
}
