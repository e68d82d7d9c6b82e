//! A slow server, and the times that routes allow.

use super::{GRPC_PORT, PYTHON, curl, route, site};
use leno_tests::mesh::Mesh;
use leno_tests::program::Program;
use leno_tests::wait;
use serde_json::json;
use std::time::Duration;

#[test]
fn slow_servers_are_given_up_in_time() {
    let (mesh, server) = site("calls-timeouts");
    route(&mesh, "HTTPRoute", &json!({}), json!({"timeouts": {"request": "500ms"}}));
    let slow = curl(&mesh, "/slow", &[]);
    slow.check(504, "l5d-proxy-error: no whole response within the request's timeout");
    slow.check_time(500);
    assert_eq!(server.count("GET /slow"), 1);
    // Part of the response has been passed on: it is cut, and not completed with something else.
    let stalled = curl(&mesh, "/stall", &[]);
    stalled.check(200, "piece");
    assert!(!stalled.text.contains("504"), "{stalled:?}");
    stalled.check_time(500);
    curl(&mesh, "/ok", &[]).check(200, "yes");
    // The connection outlives a request that was given up.
    let address = mesh.service("server").addresses.v4;
    let second = format!("http://{address}:{}/ok", super::PORT);
    let both = curl(&mesh, "/slow", &[&second]);
    assert!(both.text.contains("504 Gateway Timeout") && both.text.contains("yes"), "{both:?}");
    assert!(!both.text.contains("connection: close"), "{both:?}");
    let metrics = mesh.pod("client").metrics();
    let ended = |labels: &[(&str, &str)]| {
        let all = [labels, &[("direction", "outbound"), ("error", "request_timeout")]].concat();
        metrics.sum("response_total", &all)
    };
    assert_eq!(ended(&[("status_code", "504")]), 2.0, "{}", metrics.about("response_total"));
    assert_eq!(ended(&[("status_code", "200")]), 1.0, "{}", metrics.about("response_total"));
}

#[test]
fn timeouts_of_responses_and_of_silence() {
    let (mesh, _server) = site("calls-timeouts-more");
    let rule = json!({"timeouts": {"request": "5s", "backendRequest": "400ms"}});
    route(&mesh, "HTTPRoute", &json!({}), rule);
    let slow = curl(&mesh, "/slow", &[]);
    slow.check(504, "l5d-proxy-error: no whole response within the response's timeout");
    slow.check_time(400);
    let idle = json!({"timeout.linkerd.io/idle": "700ms"});
    route(&mesh, "HTTPRoute", &idle, json!({}));
    let slow = curl(&mesh, "/slow", &[]);
    slow.check(504, "l5d-proxy-error: no byte came in either direction within the idle timeout");
    slow.check_time(700);
    // Two seconds in all, and never 700 ms without a byte.
    curl(&mesh, "/drip/20", &[]).check(200, "....................");
    let stalled = curl(&mesh, "/stall", &[]);
    stalled.check(200, "piece");
    stalled.check_time(700);
    let off = json!({"timeout.leno.dev/request": "0s"});
    route(&mesh, "HTTPRoute", &off, json!({"timeouts": {"request": "1ms"}}));
    curl(&mesh, "/drip/3", &[]).check(200, "...");
}

/// Calls a method with a deadline of so many seconds; returns the code and the milliseconds that it took.
pub(super) fn call(mesh: &Mesh, method: &str, deadline: &str) -> (String, u64) {
    let client = write(mesh, "client.py", include_str!("client.py"));
    let address = format!("{}:{GRPC_PORT}", mesh.service("server").addresses.v4);
    let output = Program::new(PYTHON)
        .args([client.as_str(), &address, method, deadline])
        .output(&mesh.pod("client").namespace, wait::LIMIT)
        .expect("python3 with grpcio (Debian: python3-grpcio)")
        .text();
    let (code, millis) = output.trim().split_once(' ').unwrap_or_else(|| panic!("{output:?}"));
    (code.to_owned(), millis.parse().expect("milliseconds"))
}

/// gRPC servers in both pods.
pub(super) fn grpc_servers(mesh: &Mesh) -> Vec<leno_tests::program::Running> {
    let script = write(mesh, "server.py", include_str!("server.py"));
    let start = |pod: &str| {
        let server = Program::new(PYTHON)
            .args([script.as_str(), &GRPC_PORT.to_string()])
            .start(&mesh.pod(pod).namespace)
            .expect("a gRPC server");
        server.wait_for("listening", wait::LIMIT).expect("python3 with grpcio");
        server
    };
    ["one", "two"].map(start).into()
}

fn write(mesh: &Mesh, name: &str, text: &str) -> String {
    let path = mesh.directory().join(name);
    std::fs::write(&path, text).expect("write a script");
    path.to_string_lossy().into_owned()
}

#[test]
fn grpc_calls_end_with_deadline_exceeded() {
    let (mesh, _server) = site("calls-timeouts-grpc");
    let _servers = grpc_servers(&mesh);
    let says = json!({"timeout.leno.dev/request": "500ms"});
    route(&mesh, "GRPCRoute", &says, json!({}));
    let (code, millis) = wait::until("the route", Duration::from_secs(60), || {
        let (code, millis) = call(&mesh, "Slow", "3");
        (millis < 2500).then_some((code, millis))
    });
    assert_eq!(code, "DEADLINE_EXCEEDED");
    assert!((500..1500).contains(&millis), "{millis} ms");
    assert_eq!(call(&mesh, "Ok", "5").0, "OK");
    let metrics = mesh.pod("client").metrics();
    let ended = [("direction", "outbound"), ("grpc_status", "4"), ("error", "request_timeout")];
    assert!(metrics.sum("response_total", &ended) >= 1.0, "{}", metrics.about("response_total"));
}
