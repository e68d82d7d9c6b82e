//! Heads: names, order, case, values, sizes, methods, targets and status lines.

use super::{get, send, then_once_more};
use leno_tests::exchange::{Case, To};
use leno_tests::script::Step::{Head, Read};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = fields();
    cases.extend(sizes());
    cases.extend(request_lines());
    cases.extend(status_lines());
    cases
}

/// A request with this head, a small answer, and another request.
fn request(name: &'static str, head: &str) -> Case {
    request_bytes(name, head.as_bytes())
}

fn request_bytes(name: &'static str, head: &[u8]) -> Case {
    let client = vec![leno_tests::script::Step::Send(head.to_vec()), Head, Read(2)];
    then_once_more(name, client, vec![Head, send(OK)])
}

/// A plain request, an answer with this head and two bytes, and another request.
fn response(name: &'static str, head: &[u8]) -> Case {
    let answer = [head, b"ok"].concat();
    let client = vec![send(&get("/")), Head, Read(2)];
    then_once_more(name, client, vec![Head, leno_tests::script::Step::Send(answer)])
}

fn fields() -> Vec<Case> {
    vec![
        request(
            "request: order and case of field names",
            "GET / HTTP/1.1\r\nhOST: server\r\nX-b: 1\r\nx-A: 2\r\nACCEPT: */*\r\nx-B: 3\r\n\r\n",
        ),
        response(
            "response: order and case of field names",
            b"HTTP/1.1 200 OK\r\nx-z: 1\r\nX-A: 2\r\nCONTENT-length: 2\r\nETag: \"a\"\r\nx-Z: 3\r\n\r\n",
        ),
        request(
            "request: a field many times",
            "GET / HTTP/1.1\r\nHost: server\r\nCookie: a=1\r\nX: 1\r\nCookie: b=2\r\nX: 2, 3\r\nX:\r\n\r\n",
        ),
        response(
            "response: a field many times",
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nVary: a\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\nVary: b\r\n\r\n",
        ),
        request_bytes(
            "request: bytes above ASCII in a value",
            b"GET / HTTP/1.1\r\nHost: server\r\nX-Name: caf\xe9 \xff\x80 \xc3\xa9\r\n\r\n",
        ),
        response(
            "response: bytes above ASCII in a value",
            b"HTTP/1.1 200 OK\r\nX-Name: na\xefve \x80\xfe\r\nContent-Length: 2\r\n\r\n",
        ),
        request(
            "request: empty values and optional spaces",
            "GET / HTTP/1.1\r\nHost:server\r\nX-Empty:\r\nX-Space: \r\nX-Wide:  \t a  b \t \r\n\r\n",
        ),
        response(
            "response: empty values and optional spaces",
            b"HTTP/1.1 200 OK\r\nX-Empty:\r\nX-Space: \r\nX-Tab:\ta\tb\t\r\nContent-Length:2\r\n\r\n",
        ),
        request(
            "request: names of every token character",
            "GET / HTTP/1.1\r\nHost: server\r\n!#$%&'*+-.^_`|~09azAZ: v\r\n_under_score: 1\r\n\r\n",
        ),
        request(
            "request: fields other proxies claim",
            "GET / HTTP/1.1\r\nHost: server\r\nVia: 1.0 fred\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1\r\nX-Request-Id: 7\r\nTraceparent: 00-0-0-00\r\n\r\n",
        ),
        request(
            "request: fields that Connection names end at the hop",
            "GET / HTTP/1.1\r\nHost: server\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nX-Other: 2\r\nKeep-Alive: timeout=5\r\n\r\n",
        ),
    ]
}

fn sizes() -> Vec<Case> {
    let long = "v".repeat(60 * 1024);
    let many: String = (0..250).map(|n| format!("X-Field-{n}: value {n}\r\n")).collect();
    vec![
        request(
            "request: one field of 60 KiB",
            &format!("GET / HTTP/1.1\r\nHost: server\r\nX-Long: {long}\r\n\r\n"),
        ),
        response(
            "response: one field of 60 KiB",
            format!("HTTP/1.1 200 OK\r\nX-Long: {long}\r\nContent-Length: 2\r\n\r\n").as_bytes(),
        ),
        request("request: 250 fields", &format!("GET / HTTP/1.1\r\nHost: server\r\n{many}\r\n")),
        response(
            "response: 250 fields",
            format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 2\r\n\r\n").as_bytes(),
        ),
        request(
            "request: a target of 32 KiB",
            &format!("GET /{} HTTP/1.1\r\nHost: server\r\n\r\n", "p/".repeat(16 * 1024)),
        ),
    ]
}

fn request_lines() -> Vec<Case> {
    let mut cases = vec![
        request("absolute form", "GET http://server/a?b=c HTTP/1.1\r\nHost: server\r\n\r\n"),
        request("asterisk form", "OPTIONS * HTTP/1.1\r\nHost: server\r\n\r\n"),
        request(
            "target as it is written",
            "GET //a/./b/../c;p=1/%7e%2F%2f?x=[1]|{2}&&=%zz?y HTTP/1.1\r\nHost: server\r\n\r\n",
        ),
        request("Host with a port", "GET / HTTP/1.1\r\nHost: SERVER:8080\r\n\r\n"),
        request("Host of another name", "GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"),
        request("Host empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        request("to the pod's own address", "GET / HTTP/1.1\r\nHost: server\r\n\r\n").to(To::Pod),
        request("over IPv6", "GET / HTTP/1.1\r\nHost: [fd78::1]\r\n\r\n").to(To::ServiceV6),
        request("declared http", "GET / HTTP/1.1\r\nHost: server\r\n\r\n").declared("http"),
        request("declared tcp", "GET / HTTP/1.1\r\nHost: server\r\n\r\n").declared("tcp"),
    ];
    for (name, method) in [
        ("method PURGE", "PURGE"),
        ("method M-SEARCH", "M-SEARCH"),
        ("method in lower case", "get"),
        ("method of every token character", "!#$%&'*+-.^_`|~0aZ"),
        (
            "method of 100 letters",
            "ABCDEFGHIJKLMNOPQRSTABCDEFGHIJKLMNOPQRSTABCDEFGHIJKLMNOPQRSTABCDEFGHIJKLMNOPQRSTABCDEFGHIJKLMNOPQRST",
        ),
    ] {
        cases.push(request(name, &format!("{method} /x HTTP/1.1\r\nHost: server\r\n\r\n")));
    }
    cases
}

fn status_lines() -> Vec<Case> {
    vec![
        response("status with an empty reason", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n"),
        response(
            "status with a long reason",
            b"HTTP/1.1 200 Very  well, then\r\nContent-Length: 2\r\n\r\n",
        ),
        response("reason above ASCII", b"HTTP/1.1 404 Pas trouv\xe9\r\nContent-Length: 2\r\n\r\n"),
        response("status 299", b"HTTP/1.1 299 Odd\r\nContent-Length: 2\r\n\r\n"),
        response("status 599", b"HTTP/1.1 599 Odd\r\nContent-Length: 2\r\n\r\n"),
        response(
            "status 503 of the application",
            b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n",
        ),
    ]
}
