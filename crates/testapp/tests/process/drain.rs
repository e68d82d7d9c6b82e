//! SIGTERM.

use crate::support::{App, PATIENCE, read_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

#[test]
fn finishes_what_is_open_and_takes_nothing_new() {
    let mut worker = App::start(&["http=0"], &[]);
    let mut idle = worker.connect("http");
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: w\r\n\r\n").unwrap();
    read_until(&mut idle, "ok\n");
    let mut busy = worker.connect("http");
    let head = "POST / HTTP/1.1\r\nhost: w\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n";
    busy.write_all(head.as_bytes()).unwrap();
    // The request is being served once its body is asked for.
    assert_eq!(read_until(&mut busy, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    worker.terminate();
    let mut rest = Vec::new();
    assert_eq!(idle.read_to_end(&mut rest).unwrap(), 0, "an idle connection is closed at once");
    let began = Instant::now();
    while TcpStream::connect(worker.address("http")).is_ok() {
        assert!(began.elapsed() < PATIENCE, "still listening");
    }
    busy.write_all(b"done").unwrap();
    let mut answer = String::new();
    busy.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("{\"worker\":\"w\"}"), "{answer}");
    assert_eq!(worker.wait().code(), Some(0));
}

#[test]
fn the_limit_cuts() {
    let mut worker = App::start(&["tcp=0"], &["--drain-max=10ms"]);
    let mut open = worker.connect("tcp");
    open.write_all(b"a").unwrap();
    read_until(&mut open, "a");
    worker.terminate();
    assert_eq!(worker.wait().code(), Some(1));
}

#[test]
fn is_not_ready_while_it_waits() {
    let worker = App::start(&["http=0"], &["--shutdown-wait=1h"]);
    let mut stream = worker.connect("http");
    worker.terminate();
    let began = Instant::now();
    loop {
        stream.write_all(b"GET /ready HTTP/1.1\r\nhost: w\r\n\r\n").unwrap();
        let answer = read_until(&mut stream, "ready\n");
        if answer.starts_with("HTTP/1.1 503") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "still ready");
    }
    // New connections are still served.
    assert!(worker.ask("http", "GET /healthz HTTP/1.1", "").0.starts_with("HTTP/1.1 200"));
}
