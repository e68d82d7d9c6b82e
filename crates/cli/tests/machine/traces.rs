//! Traces of a mesh on this machine: a collector that is named by its Service, and is in the mesh itself.

use crate::up::Mesh;

/// A pod that is asked, a pod whose probes succeed, and a collector that prints the paths of the spans that it took.
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
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: web
      command:
        - python3
        - -uc
        - |
          from http.server import BaseHTTPRequestHandler, HTTPServer
          class Web(BaseHTTPRequestHandler):
              def do_GET(self):
                  self.send_response(204)
                  self.end_headers()
          HTTPServer(("0.0.0.0", 8080), Web).serve_forever()
      # A probe that fails is traced: no request comes before the server listens.
      startupProbe:
        exec: {command: [python3, -c, "import socket; socket.create_connection(('127.0.0.1', 8080))"]}
        periodSeconds: 1
      readinessProbe: {httpGet: {path: /probed, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 8080, appProtocol: http}]}
---
apiVersion: v1
kind: Pod
metadata: {name: asker, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: asker
      command:
        - python3
        - -uc
        - |
          import time, urllib.request
          while True:
              try:
                  urllib.request.urlopen("http://web:8080/asked", timeout=5)
              except OSError as error:
                  print(error)
              time.sleep(1)
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
                  spans = self.rfile.read(length)
                  pod = "asker" if b"asker" in spans else "web"
                  for path in (b"/asked", b"/probed"):
                      if path in spans:
                          print(self.path, "took", path.decode(), "of", pod)
                  self.send_response(200)
                  self.end_headers()
          HTTPServer(("0.0.0.0", 4318), Taker).serve_forever()
"#;

/// The collector is named by its Service, and in the mesh itself. Probes that succeed are not traced.
#[test]
fn a_collector_is_named_by_its_service() {
    let mut mesh = Mesh::new(TRACED);
    mesh.arguments = &[];
    mesh.start();
    // The pod was probed before it was asked, and its proxy sends spans in their order.
    let logs = ["logs", "collector", "-n", "seen"];
    mesh.says(&logs, "/v1/traces took /asked of web");
    let output = mesh.leno().args(logs).output().expect("leno");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("/asked of asker") && !said.contains("/probed"), "{said}");
    mesh.says(
        &["diagnostics", "proxy-metrics", "web", "-n", "shop"],
        "trace_spans_dropped_total 0",
    );
    mesh.ends_without_a_trace();
}
