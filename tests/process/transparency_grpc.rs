//! gRPC by an implementation nobody here wrote: Python's grpcio on both sides, direct and meshed.
//!
//! Needs Debian's `python3-grpcio`. Generic handlers, so there is no protoc and no generated code.

use leno_tests::compare::report;
use leno_tests::events::{Events, differences};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::program::{Program, Running};
use std::time::Duration;

/// The server's port, with nothing declared.
const PORT: u16 = 8001;
/// The same, declared as HTTP/2.
const DECLARED_PORT: u16 = 8002;
/// A port of the service at which nobody listens.
const CLOSED_PORT: u16 = 8003;

/// Debian's interpreter: others on this machine do not have grpcio.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn table_is_sound() {
    let direct = run(Meshed::No);
    let failed: Vec<String> = direct
        .iter()
        .filter(|(_, lines)| lines.is_empty() || lines.iter().any(|line| line.contains("FAILED:")))
        .map(|(name, lines)| format!("{name}\n{lines:#?}"))
        .collect();
    assert!(direct.len() > 60, "only {} cases ran", direct.len());
    report("grpc", direct.len(), &failed);
}

#[test]
fn meshed_equals_direct() {
    let direct = run(Meshed::No);
    let meshed = run(Meshed::Yes);
    report("grpc", direct.len(), &differences(&direct, &meshed));
}

#[test]
fn half_meshed_equals_direct() {
    let direct = run(Meshed::No);
    for half in Meshed::HALVES {
        println!("{half:?}");
        report("grpc-half", direct.len(), &differences(&direct, &run(half)));
    }
}

fn run(meshed: Meshed) -> Events {
    let mesh = Plan::new()
        .pod("client")
        .pod("server")
        .service("server", [PORT, DECLARED_PORT, CLOSED_PORT], &["server"])
        .app_protocol(DECLARED_PORT, "kubernetes.io/h2c")
        .start("grpc", meshed);
    let _server = start_server(&mesh);
    let address = mesh.service("server").addresses;
    let client = write(&mesh, "client.py", include_str!("transparency_grpc/client.py"));
    let output = Program::new(PYTHON)
        .args([client.as_str(), &address.v4.to_string(), &address.v6.to_string()])
        .args([PORT, DECLARED_PORT, CLOSED_PORT].map(|port| port.to_string()))
        .output(&mesh.pod("client").namespace, Duration::from_secs(90))
        .expect("the gRPC client runs to its end");
    match serde_json::from_slice(&output.stdout) {
        Ok(events) => events,
        Err(error) => panic!("the client said no table ({error}):\n{}", output.everything()),
    }
}

fn start_server(mesh: &Mesh) -> Running {
    let server = write(mesh, "server.py", include_str!("transparency_grpc/server.py"));
    let server = Program::new(PYTHON)
        .args([server, PORT.to_string(), DECLARED_PORT.to_string()])
        .start(&mesh.pod("server").namespace)
        .expect("a gRPC server");
    server
        .wait_for("listening", Duration::from_secs(20))
        .expect("python3 with grpcio (Debian: python3-grpcio)");
    server
}

fn write(mesh: &Mesh, name: &str, text: &str) -> String {
    let path = mesh.directory().join(name);
    std::fs::write(&path, text).expect("write a script");
    path.to_string_lossy().into_owned()
}
