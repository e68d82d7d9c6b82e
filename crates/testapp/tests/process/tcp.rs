//! TCP ports.

use crate::support::App;
use std::io::{Read, Write};
use std::net::Shutdown;

#[test]
fn modes() {
    let plan = r#"tcp: {mode: sink, banner: "220 hi\r\n", bytes: 100000}"#;
    //    port        sent           answer
    check("tcp=0=echo", plan, "some bytes", "some bytes");
    check("tcp=0=banner", plan, "HELO", "220 hi\r\nHELO");
    check("tcp=0", plan, &"y".repeat(300_000), "300000\n");
    check("tcp=0=source", plan, "", &"x".repeat(100_000));
    check("tcp=0", "tcp: {wait: 20ms}", "after a wait", "after a wait");
}

/// Sends, closes our side, and reads to the end: half-close is part of every mode.
#[track_caller]
fn check(port: &str, plan: &str, sent: &str, expected: &str) {
    let worker = App::start(&[port], &["--plan-json", plan]);
    let mut stream = worker.connect("tcp");
    stream.write_all(sent.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, expected, "{port}");
}

#[test]
fn the_server_speaks_first() {
    let worker = App::start(&["tcp=0=banner"], &[]);
    let mut stream = worker.connect("tcp");
    let said = crate::support::read_until(&mut stream, "\r\n");
    assert_eq!(said, "220 leno-worker ready\r\n");
}
