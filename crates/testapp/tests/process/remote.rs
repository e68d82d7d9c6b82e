//! Reconfigure while running.

use crate::support::App;

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
}

#[test]
fn crashes_on_command() {
    use std::io::Write;
    let mut worker = App::with_plan("");
    let mut stream = worker.connect("admin");
    stream.write_all(b"POST /crash HTTP/1.1\r\nhost: w\r\n\r\n").unwrap();
    assert_eq!(worker.wait().code(), Some(70));
}
