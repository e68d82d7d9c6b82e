//! HTTP/1, byte for byte.

use crate::support::{App, read_until};
use std::io::{Read, Write};
use std::net::Shutdown;

const PLAN: &str = r"
on:
  /text: {answer: {text: hello, status: 201, headers: {x-a: b}}}
  /bytes: {answer: {bytes: 70000}}
  /chunks: {answer: {bytes: 5, chunk_bytes: 2, interval: 1ms, trailers: {x-sum: '5'}}}
  /fail: {fail: {status: 500}}
  /reset: {fail: {reset: true}}
  /wait: {wait: 30ms, answer: {text: waited}}
  POST /only-post: {answer: {text: post}}
  /nothing: {answer: {status: 204}}
";

#[test]
fn answers() {
    let worker = App::with_plan(PLAN);
    //             request                     first line             body
    check(&worker, "GET / HTTP/1.1", "HTTP/1.1 200 OK", "{\"worker\":\"w\"}");
    check(&worker, "GET /text HTTP/1.1", "HTTP/1.1 201 Created\r\nx-a: b", "hello");
    check(&worker, "HEAD /text HTTP/1.1", "HTTP/1.1 201 Created", "");
    check(&worker, "GET /text HTTP/1.0", "HTTP/1.0 201 Created", "hello");
    check(&worker, "GET /bytes HTTP/1.1", "HTTP/1.1 200 OK", &"x".repeat(70_000));
    check(&worker, "GET /fail HTTP/1.1", "HTTP/1.1 500", "failed, as the plan says\n");
    check(&worker, "GET /wait HTTP/1.1", "HTTP/1.1 200 OK", "waited");
    check(&worker, "POST /only-post HTTP/1.1", "HTTP/1.1 200 OK", "post");
    check(&worker, "GET /only-post HTTP/1.1", "HTTP/1.1 200 OK", "{\"worker\":\"w\"}");
    check(&worker, "GET /nothing HTTP/1.1", "HTTP/1.1 204 No Content", "");
    check(&worker, "GET /healthz HTTP/1.1", "HTTP/1.1 200 OK", "ok\n");
    check(&worker, "GET /ready HTTP/1.1", "HTTP/1.1 200 OK", "ready\n");
    let chunked = "2\r\nxx\r\n2\r\nxx\r\n1\r\nx\r\n0\r\nx-sum: 5\r\n\r\n";
    check(&worker, "GET /chunks HTTP/1.1\r\nte: trailers", "HTTP/1.1 200 OK", chunked);
}

#[track_caller]
fn check(worker: &App, request: &str, head: &str, body: &str) {
    let seen = worker.ask("http", request, "");
    assert!(seen.0.starts_with(head), "{request}: {}", seen.0);
    assert!(seen.0.contains("x-worker: w"), "{request}: {}", seen.0);
    assert_eq!(seen.1, body, "{request}");
}

#[test]
fn echo_shows_the_request_as_it_came() {
    let worker = App::with_plan("");
    let mut stream = worker.connect("http");
    // Pipelined behind a chunked body, so that the recorded heads must stay in step.
    let first = "POST /mirror HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n";
    let second = "POST /echo?q=1 HTTP/1.1\r\nhost: a\r\nX-One: 1\r\nx-TWO: 2\r\nx-one: 3\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    stream.write_all(format!("{first}{second}").as_bytes()).unwrap();
    let mirrored = read_until(&mut stream, "0\r\n\r\n");
    assert!(mirrored.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{mirrored}");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    let expected = r#"{"method":"POST","target":"/echo?q=1","version":"HTTP/1.1","headers":[["host","a"],["X-One","1"],["x-TWO","2"],["x-one","3"],["Content-Length","2"],["Connection","close"]],"body":"hi","body_bytes":2,"trailers":[]}"#;
    assert_eq!(rest.split_once("\r\n\r\n").unwrap().1, expected);
}

#[test]
fn echo_shows_trailers() {
    let worker = App::with_plan("");
    let mut stream = worker.connect("http");
    let request = "PUT /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n1\r\nz\r\n0\r\nX-End: 7\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(r#""body":"z","body_bytes":1,"trailers":[["x-end","7"]]"#), "{answer}");
}

#[test]
fn mirror_asks_for_a_body_that_waits_to_be_asked_for() {
    let worker = App::with_plan("");
    let mut stream = worker.connect("http");
    let head = "PUT /mirror HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 6\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_until(&mut stream, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    let head = read_until(&mut stream, "\r\n\r\nabc");
    assert!(head.contains("content-length: 6\r\n"), "{head}");
    stream.write_all(b"def").unwrap();
    assert_eq!(read_until(&mut stream, "def"), "def");
}

#[test]
fn resets_on_command() {
    let worker = App::with_plan(PLAN);
    let mut stream = worker.connect("http");
    stream.write_all(b"GET /reset HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(answer, b"");
}

#[test]
fn upgrades_and_tunnels_echo_bytes() {
    let worker = App::with_plan("");
    let asks = [
        ("GET /upgrade HTTP/1.1\r\nhost: a\r\nConnection: Upgrade\r\nUpgrade: loom\r\n\r\n", "101"),
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", "200"),
    ];
    for (request, status) in asks {
        let mut stream = worker.connect("http");
        // The first bytes of the new protocol come along with the head.
        stream.write_all(format!("{request}early ").as_bytes()).unwrap();
        let head = read_until(&mut stream, "\r\n\r\n");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        stream.write_all(b"late").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut echoed = String::new();
        stream.read_to_string(&mut echoed).unwrap();
        assert_eq!(echoed, "early late");
    }
}

#[test]
fn calls_others_and_reports_them() {
    let ratings = App::start(
        &["http=0", "tcp=0", "udp=0"],
        &["--plan-json", "on: {/bad: {fail: {}}, /slow: {wait: 1h}}"],
    );
    let (http, tcp) = (ratings.address("http"), ratings.address("tcp"));
    let udp = ratings.address("udp");
    let plan = format!(
        r#"
on:
  /tree:
    calls:
    - {{url: "http://{http}/"}}
    - parallel:
      - {{url: "h2c://{http}/x", times: 2}}
      - {{url: "grpc://{http}/leno.worker.v1.Worker/Call"}}
      - {{url: "tcp://{tcp}", body_bytes: 200000}}
      - {{url: "udp://{udp}", body_bytes: 20000}}
    - {{url: "http://{http}/bad", optional: true}}
  /fatal:
    calls: [{{url: "http://{http}/bad"}}, {{url: "http://{http}/"}}]
  /late:
    calls: [{{url: "http://{http}/slow", timeout: 10ms}}]
  /traced:
    calls: [{{url: "http://{http}/echo", headers: {{x-mine: "1"}}}}]
propagate: [end-user]
"#
    );
    let worker = App::with_plan(&plan);
    let tree = format!(
        r#"{{"worker":"w","calls":[{{"url":"http://{http}/","status":200,"worker":"w","answer":{{"worker":"w"}}}},{{"url":"h2c://{http}/x","status":200,"worker":"w","answer":{{"worker":"w"}}}},{{"url":"h2c://{http}/x","status":200,"worker":"w","answer":{{"worker":"w"}}}},{{"url":"grpc://{http}/leno.worker.v1.Worker/Call","grpc":"OK","worker":"w"}},{{"url":"tcp://{tcp}","answer":{{"bytes":200000}}}},{{"url":"udp://{udp}","answer":{{"bytes":20000}}}},{{"url":"http://{http}/bad","status":503,"worker":"w"}}]}}"#
    );
    check(&worker, "GET /tree HTTP/1.1", "HTTP/1.1 200 OK", &tree);
    // Once more, on the connections that were kept.
    check(&worker, "GET /tree HTTP/1.1", "HTTP/1.1 200 OK", &tree);
    let fatal = format!(
        r#"{{"worker":"w","calls":[{{"url":"http://{http}/bad","status":503,"worker":"w"}}]}}"#
    );
    check(&worker, "GET /fatal HTTP/1.1", "HTTP/1.1 502", &fatal);
    let late =
        format!(r#"{{"worker":"w","calls":[{{"url":"http://{http}/slow","error":"timeout"}}]}}"#);
    check(&worker, "GET /late HTTP/1.1", "HTTP/1.1 502", &late);
    let traced = "GET /traced HTTP/1.1\r\nX-Request-ID: id1\r\ntraceparent: t\r\nEnd-User: jason\r\nother: no";
    let (_, body) = worker.ask("http", traced, "");
    for wanted in [
        r#"["x-request-id","id1"]"#,
        r#"["traceparent","t"]"#,
        r#"["end-user","jason"]"#,
        r#"["x-mine","1"]"#,
    ] {
        assert!(body.contains(wanted), "{wanted} in {body}");
    }
    assert!(!body.contains("other"), "{body}");
}

#[test]
fn mistakes_end_the_start() {
    let start = |flags: &[&str]| {
        let command =
            std::process::Command::new(env!("CARGO_BIN_EXE_leno-worker")).args(flags).output();
        let output = command.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) =
        start(&["--http=0", "--plan-json", "on: {/: {fail: {ratio: 3, status: 9}}}"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("ratio 3") && said.contains("status 9"), "{said}");
    let (code, said) = start(&[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("nothing to listen on"), "{said}");
}
