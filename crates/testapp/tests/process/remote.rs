//! Reconfigure while running.

use crate::support::{App, PATIENCE};
use std::io::Write as _;
use std::time::Instant;

#[test]
fn a_new_plan_counts_from_the_next_request() {
    let worker = App::with_plan("on: {/: {answer: {text: old}}}");
    assert_eq!(worker.ask("http", "GET / HTTP/1.1", "").1, "old");
    let put = |plan: &str| worker.ask("admin", "PUT /plan HTTP/1.1", plan);
    let (head, _) = put(r#"{"on": {"/": {"answer": {"text": "new"}}}}"#);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(worker.ask("http", "GET / HTTP/1.1", "").1, "new");
    // A plan with mistakes changes nothing, and all of them are said.
    let (head, body) = put("on: {x: {fail: {ratio: 7}}}");
    assert!(head.starts_with("HTTP/1.1 422"), "{head}");
    assert!(body.contains("/begins*") && body.contains("ratio 7"), "{body}");
    assert_eq!(worker.ask("http", "GET / HTTP/1.1", "").1, "new");
    // What is shown can be put back.
    let (_, shown) = worker.ask("admin", "GET /plan HTTP/1.1", "");
    let (head, _) = put(&shown);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(worker.ask("admin", "GET /plan HTTP/1.1", "").1, shown);
}

#[test]
fn readiness_is_switched() {
    let worker = App::with_plan("");
    for (wanted, status) in [("false", "503"), ("true", "200")] {
        worker.ask("admin", "PUT /ready HTTP/1.1", wanted);
        assert_eq!(worker.ask("admin", "GET /ready HTTP/1.1", "").1, wanted);
        let (head, _) = worker.ask("http", "GET /ready HTTP/1.1", "");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert!(worker.ask("http", "GET /healthz HTTP/1.1", "").0.starts_with("HTTP/1.1 200"));
    }
    assert!(worker.ask("admin", "PUT /ready HTTP/1.1", "maybe").0.starts_with("HTTP/1.1 422"));
    assert!(worker.ask("admin", "GET /other HTTP/1.1", "").0.starts_with("HTTP/1.1 404"));
}

#[test]
fn counts() {
    let worker = App::with_plan("on: {/bad: {fail: {}}}");
    worker.ask("http", "GET / HTTP/1.1", "");
    worker.ask("http", "GET /bad HTTP/1.1", "");
    let (_, stats) = worker.ask("admin", "GET /stats HTTP/1.1", "");
    assert!(stats.contains(r#""requests":2,"failures":1"#), "{stats}");
    // A probe is a request that the plan does not answer.
    worker.ask("http", "GET /healthz HTTP/1.1", "");
    let (_, stats) = worker.ask("admin", "GET /stats HTTP/1.1", "");
    assert!(
        stats.contains(r#""requests":3"#) && stats.contains(r#""planned_requests":2"#),
        "{stats}"
    );
}

#[test]
fn a_full_queue_is_answered_at_once() {
    let plan = "concurrency: 1\nqueue: 0\non: {/slow: {wait: 20s}, /: {answer: {text: ok}}}";
    let worker = App::with_plan(plan);
    let mut slow = worker.connect("http");
    slow.write_all(b"GET /slow HTTP/1.1\r\nhost: w\r\n\r\n").unwrap();
    let until = Instant::now() + PATIENCE;
    while !worker.ask("admin", "GET /stats HTTP/1.1", "").1.contains(r#""planned_requests":1"#) {
        assert!(Instant::now() < until, "the slow request does not arrive");
    }
    let (head, body) = worker.ask("http", "GET / HTTP/1.1", "");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert_eq!(body, "too many requests wait\n");
    assert!(worker.ask("http", "GET /healthz HTTP/1.1", "").0.starts_with("HTTP/1.1 200"));
    let (head, body) = worker.ask("admin", "PUT /plan HTTP/1.1", "queue: 3");
    assert!(
        head.starts_with("HTTP/1.1 422") && body.contains("queue: needs concurrency"),
        "{body}"
    );
}

#[test]
fn crashes_on_command() {
    let mut worker = App::with_plan("");
    let mut stream = worker.connect("admin");
    stream.write_all(b"POST /crash HTTP/1.1\r\nhost: w\r\n\r\n").unwrap();
    assert_eq!(worker.wait().code(), Some(70));
}
