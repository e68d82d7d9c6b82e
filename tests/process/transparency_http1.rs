//! HTTP/1: each case is exact bytes in and exact bytes out, direct and meshed.

mod bodies;
mod connections;
mod heads;
mod streams;
mod upgrades;

use leno_tests::compare::{check_direct, check_halves, check_same, check_shared};
use leno_tests::exchange::Case;
use leno_tests::script::Step;

/// Every case; the files are by subject.
fn cases() -> Vec<Case> {
    [heads::cases(), bodies::cases(), upgrades::cases(), connections::cases(), streams::cases()]
        .concat()
}

#[test]
fn table_is_sound() {
    check_direct("http1", &cases());
}

#[test]
fn meshed_equals_direct() {
    check_same("http1", &cases());
}

#[test]
fn shared_equals_direct() {
    check_shared("http1-shared", &cases());
}

#[test]
fn half_meshed_equals_direct() {
    check_halves("http1-half", &cases());
}

/// Long: 10,000 exchanges, twice.
#[test]
fn ten_thousand_requests_on_one_connection() {
    let request = send(&get("/many"));
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let client = vec![Step::Repeat(10_000, vec![request, Step::Head, Step::Read(2)])];
    let server = vec![vec![Step::Head, send(response)]; 10_000];
    check_same("http1-many", &[Case::new("ten thousand requests", client, server)]);
}

/// Long: 1 GiB each way, direct and meshed, and what it costs the proxies.
#[test]
fn a_gibibyte_in_bounded_memory() {
    bodies::gibibyte();
}

/// A thousand connections at once, each with a request before and after all are open.
#[test]
fn a_thousand_connections() {
    connections::thousand();
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: server\r\nAccept: */*\r\n\r\n")
}

/// A plain request and its answer, to show that the connection is still in step.
fn once_more() -> (Vec<Step>, Vec<Step>) {
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain";
    (vec![send(&get("/again")), Step::Head, Step::Read(5)], vec![Step::Head, send(response)])
}

/// A case that goes on with a plain request on the same client connection.
fn then_once_more(name: &'static str, mut client: Vec<Step>, server: Vec<Step>) -> Case {
    let (more_client, more_server) = once_more();
    client.extend(more_client);
    Case::new(name, client, vec![server, more_server])
}
