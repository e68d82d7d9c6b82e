//! Timeouts, retries and deadlines of routes, with real programs on both sides. Servers count what reaches them.

mod deadlines;
mod retries;
mod server;
mod timeouts;

use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::Program;
use leno_tests::wait;
use serde_json::{Value, json};
use server::Server;
use std::time::{Duration, Instant};

/// HTTP/1, of servers in this file.
const PORT: u16 = 8001;
/// gRPC, of Python's grpcio.
const GRPC_PORT: u16 = 8002;
const PYTHON: &str = "/usr/bin/python3";

/// What a client got.
#[derive(Debug)]
struct Got {
    status: u16,
    /// Headers and body, as curl shows them.
    text: String,
    took: Duration,
}

impl Got {
    #[track_caller]
    fn check(&self, status: u16, says: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.text.contains(says), "{self:?} should say {says:?}");
    }

    /// Between the timeout and a second more, which is for a busy machine.
    #[track_caller]
    fn check_time(&self, millis: u64) {
        let timeout = Duration::from_millis(millis);
        let bounds = timeout..timeout + Duration::from_secs(1);
        assert!(bounds.contains(&self.took), "{self:?} should take {timeout:?}");
    }
}

/// Two servers behind one Service.
fn site(name: &str) -> (Mesh, Server) {
    let plan = Plan::new().pod("client").pod("one").pod("two");
    let plan = plan.service("server", [PORT, GRPC_PORT], &["one", "two"]);
    let mesh = plan.app_protocol(GRPC_PORT, "grpc").start(name, Meshed::Yes);
    let server = Server::start(&mesh, &["one", "two"]);
    (mesh, server)
}

fn curl(mesh: &Mesh, path: &str, arguments: &[&str]) -> Got {
    let address = mesh.service("server").addresses.v4;
    let url = format!("http://{address}:{PORT}{path}");
    let began = Instant::now();
    let curl = Program::new("curl").args(["-s", "-i", "-m", "20", "-w", "\n%{http_code}"]);
    let client = &mesh.pod("client").namespace;
    let output = curl.args(arguments).args([&url]).outcome(client, wait::LIMIT).expect("curl");
    let took = began.elapsed();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.rsplit('\n').next().and_then(|last| last.parse().ok()).unwrap_or(0);
    Got { status, text, took }
}

/// Writes a route whose rules are these, and waits until the client's proxy has it.
fn route(mesh: &Mesh, kind: &str, annotations: &Value, mut rule: Value) {
    let mark = format!("{:x}", rule.to_string().len() * 7919 + annotations.to_string().len());
    rule["backendRefs"] =
        json!([{"name": "server", "port": if kind == "HTTPRoute" { PORT } else { GRPC_PORT }}]);
    if kind == "HTTPRoute" {
        rule["filters"] = json!([{"type": "ResponseHeaderModifier",
            "responseHeaderModifier": {"set": [{"name": "x-rule", "value": mark}]}}]);
    }
    let port = rule["backendRefs"][0]["port"].clone();
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": {"name": "r", "namespace": leno_tests::manifest::NAMESPACE, "annotations": annotations},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": "server", "port": port}],
            "rules": [rule],
        },
    });
    mesh.manifests().write(&route).expect("write the route");
    if kind == "HTTPRoute" {
        wait::until("the route", wait::LIMIT, || {
            curl(mesh, "/ok", &[]).text.contains(&format!("x-rule: {mark}")).then_some(())
        });
    }
}
