//! Traces of a mesh on this machine: a collector that is named by its Service, and is in the mesh itself.

use crate::up::Mesh;

/// A pod whose probe makes spans, and a collector that says how many bytes it took.
const TRACED: &str = r#"
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  annotations:
    config.leno.dev/tracing-collector: http://collector.seen:4318
    config.leno.dev/tracing-sampling-rate: 100%
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: web
      command: [python3, -m, http.server, "8080"]
      readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Namespace
metadata: {name: seen}
---
apiVersion: v1
kind: Service
metadata: {name: collector, namespace: seen}
spec: {selector: {app: collector}, ports: [{port: 4318}]}
---
apiVersion: v1
kind: Pod
metadata: {name: collector, namespace: seen, labels: {app: collector}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: collector
      command:
        - python3
        - -uc
        - |
          from http.server import BaseHTTPRequestHandler, HTTPServer
          class Taker(BaseHTTPRequestHandler):
              def do_POST(self):
                  length = int(self.headers["content-length"])
                  print(self.path, "took", len(self.rfile.read(length)) > 100, flush=True)
                  self.send_response(200)
                  self.end_headers()
          HTTPServer(("0.0.0.0", 4318), Taker).serve_forever()
"#;

#[test]
fn a_collector_is_named_by_its_service() {
    let mut mesh = Mesh::new(TRACED);
    mesh.arguments = &[];
    mesh.start();
    mesh.says(&["logs", "collector", "-n", "seen"], "/v1/traces took True");
    mesh.says(
        &["diagnostics", "proxy-metrics", "web", "-n", "shop"],
        "trace_spans_dropped_total 0",
    );
    mesh.ends_without_a_trace();
}
