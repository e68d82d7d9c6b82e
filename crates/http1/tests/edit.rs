//! What goes onward for what came, as a table.

use leno_http1::edit::{
    FieldLineError, OriginTarget, write_request, write_request_to, write_response,
};
use leno_http1::{
    Edit, Exchange, FieldLine, Limits, Method, Parse, Persistence, RequestHead, ResponseHead,
    Version,
};

const KEEP: Edit<'_> =
    Edit { persistence: Persistence::Keep, upgrade: false, remove: &[], set: &[], append: &[] };
const CLOSE: Edit<'_> = Edit { persistence: Persistence::Close, ..KEEP };
const UPGRADE: Edit<'_> = Edit { upgrade: true, ..KEEP };

/// Lines are separated by `|` on both sides; the empty line at the end is understood.
#[track_caller]
fn request(edit: &Edit<'_>, came: &str, goes: &str) {
    let bytes = wire(came);
    let mut head = RequestHead::new();
    assert_eq!(head.parse(&bytes, &Limits::DEFAULT), Ok(Parse::Complete));
    let mut out = Vec::new();
    write_request(&head, &bytes, edit, &mut out);
    assert_eq!(shown(&out), goes);
}

#[track_caller]
fn response(edit: &Edit<'_>, came: &str, goes: &str) {
    let bytes = wire(came);
    let mut head = ResponseHead::new();
    let exchange = Exchange { method: Method::Get, version: Version::Http11, upgrade: true };
    assert_eq!(head.parse(&bytes, &Limits::DEFAULT, &exchange), Ok(Parse::Complete));
    let mut out = Vec::new();
    write_response(&head, &bytes, edit, &mut out);
    assert_eq!(shown(&out), goes);
}

fn wire(lines: &str) -> Vec<u8> {
    format!("{}\r\n\r\n", lines.replace('|', "\r\n")).into_bytes()
}

fn shown(out: &[u8]) -> String {
    let text = std::str::from_utf8(out).expect("text");
    text.strip_suffix("\r\n\r\n").expect("an empty line at the end").replace("\r\n", "|")
}

#[test]
fn nothing_to_do() {
    let plain = "GET /a?b HTTP/1.1|hOST: a|X-Case:  b\t|x-case:c";
    request(&KEEP, plain, plain);
    request(&KEEP, "|GET / HTTP/1.1|Host: a", "GET / HTTP/1.1|Host: a");
    let absolute = "GET http://a/b HTTP/1.1|Host: c";
    request(&KEEP, absolute, absolute);
    let kept = "GET / HTTP/1.1|Host: a|connection:  Keep-Alive |X: b";
    request(&KEEP, kept, kept);
    let framed =
        "POST / HTTP/1.1|Host: a|Trailer: X|Transfer-Encoding:chunked|Expect: 100-continue";
    request(&KEEP, framed, framed);
    response(&KEEP, "HTTP/1.1 200|X: b", "HTTP/1.1 200|X: b");
}

#[test]
fn persistence_of_requests() {
    let get = "GET / HTTP/1.1|Host: a|X: b";
    request(&CLOSE, get, "GET / HTTP/1.1|Host: a|X: b|Connection: close");
    let close = "GET / HTTP/1.1|Host: a|Connection: close|X: b";
    request(&KEEP, close, get);
    request(&CLOSE, close, close);
    let both = "GET / HTTP/1.1|Host: a|Connection: keep-alive, Close|X: b";
    request(&KEEP, both, get);
    request(&CLOSE, both, both);
    let kept = "GET / HTTP/1.1|Host: a|Connection: keep-alive|X: b";
    request(&CLOSE, kept, close);
}

#[test]
fn persistence_of_http10() {
    let get = "GET / HTTP/1.0|X: b";
    request(&CLOSE, get, get);
    request(&KEEP, get, "GET / HTTP/1.0|X: b|Connection: keep-alive");
    let kept = "GET / HTTP/1.0|Connection: Keep-Alive|X: b";
    request(&KEEP, kept, kept);
    request(&CLOSE, kept, get);
    let answer = "HTTP/1.0 200 OK|Connection: keep-alive|Content-Length: 0";
    response(&KEEP, answer, answer);
    response(&CLOSE, answer, "HTTP/1.0 200 OK|Content-Length: 0");
}

#[test]
fn headers_of_this_hop() {
    request(
        &KEEP,
        "GET / HTTP/1.1|Keep-Alive: 5|Host: a|Proxy-Connection: close|TE: gzip|X: b|Upgrade: x",
        "GET / HTTP/1.1|Host: a|X: b",
    );
    request(
        &KEEP,
        "GET / HTTP/1.1|Host: a|X-A: 1|Connection: x-a, X-B|X-B: 2|x-b: 3|X: b",
        "GET / HTTP/1.1|Host: a|X: b",
    );
    let trailers = "GET / HTTP/1.1|Host: a|Connection: TE|TE: trailers";
    request(&KEEP, trailers, trailers);
    let with_close = "GET / HTTP/1.1|Host: a|Connection: close, TE|TE: trailers";
    request(&KEEP, with_close, "GET / HTTP/1.1|Host: a|Connection: TE|TE: trailers");
    let gzip = "GET / HTTP/1.1|Host: a|Connection: TE|TE: gzip, trailers";
    request(&KEEP, gzip, "GET / HTTP/1.1|Host: a");
    // Proxy authentication is between the client and the application, which may be a proxy.
    let proxy = "GET / HTTP/1.1|Host: a|Proxy-Authorization: b";
    request(&KEEP, proxy, proxy);
}

#[test]
fn upgrades() {
    let asked = "GET / HTTP/1.1|Host: a|upgrade: WebSocket|connection: keep-alive, upgrade|X: b";
    request(&UPGRADE, asked, asked);
    request(&KEEP, asked, "GET / HTTP/1.1|Host: a|X: b");
    let h2c =
        "GET / HTTP/1.1|Host: a|Connection: Upgrade, HTTP2-Settings|Upgrade: h2c|HTTP2-Settings: A";
    request(&KEEP, h2c, "GET / HTTP/1.1|Host: a");
    request(&UPGRADE, h2c, "GET / HTTP/1.1|Host: a|Connection: upgrade|Upgrade: h2c");
    let old = "GET / HTTP/1.0|Connection: upgrade, keep-alive|Upgrade: x";
    request(&UPGRADE, old, "GET / HTTP/1.0|Connection: keep-alive");
    let switched = "HTTP/1.1 101 Switching Protocols|Upgrade: websocket|Connection: Upgrade|X: b";
    response(&KEEP, switched, switched);
    response(&CLOSE, switched, switched);
    let required =
        "HTTP/1.1 426 Upgrade Required|Connection: Upgrade|Upgrade: TLS/1.2|Content-Length: 0";
    response(&KEEP, required, required);
    response(
        &CLOSE,
        required,
        "HTTP/1.1 426 Upgrade Required|Connection: close, upgrade|Upgrade: TLS/1.2|Content-Length: 0",
    );
    response(
        &KEEP,
        "HTTP/1.1 200 OK|Upgrade: h2|Connection: Upgrade, Keep-Alive|Keep-Alive: timeout=5|Content-Length: 0",
        "HTTP/1.1 200 OK|Content-Length: 0",
    );
}

#[test]
fn responses_speak_for_the_clients_connection() {
    let closed = "HTTP/1.1 200 OK|Connection: close|Content-Length: 0";
    response(&CLOSE, closed, closed);
    response(&KEEP, closed, "HTTP/1.1 200 OK|Content-Length: 0");
    let plain = "HTTP/1.1 200 OK|Content-Length: 0";
    response(&KEEP, plain, plain);
    response(&CLOSE, plain, "HTTP/1.1 200 OK|Content-Length: 0|Connection: close");
    let until_close = "HTTP/1.1 200 OK|X: b";
    response(&CLOSE, until_close, until_close);
    let interim = "HTTP/1.1 100 Continue";
    response(&CLOSE, interim, interim);
}

#[test]
fn edits_of_the_caller() {
    let line = |name, value| FieldLine::new(name, value).unwrap();
    let set = [line("l5d-client-id", b"me")];
    let append = [line("X", b"c")];
    let edit = Edit { remove: &["l5d-foo"], set: &set, append: &append, ..KEEP };
    request(
        &edit,
        "GET / HTTP/1.1|L5d-Client-Id: you|Host: a|L5D-FOO: b|X: b|l5d-client-id: they",
        "GET / HTTP/1.1|Host: a|X: b|l5d-client-id: me|X: c",
    );
    // Framing stays even when it is named.
    let remove = Edit { remove: &["content-length", "transfer-encoding", "trailer"], ..KEEP };
    let framed = "POST / HTTP/1.1|Host: a|Content-Length: 5";
    request(&remove, framed, framed);
}

#[test]
fn lines_are_checked_when_they_are_made() {
    let check = |name, value: &[u8], error| assert_eq!(FieldLine::new(name, value).err(), error);
    check("x", b"", None);
    check("host", b"a", None);
    check("x", b"caf\xe9\t", None);
    check("", b"a", Some(FieldLineError::Name));
    check("x y", b"a", Some(FieldLineError::Name));
    check("x\r\n", b"a", Some(FieldLineError::Name));
    check("x", b"a\r\nb: c", Some(FieldLineError::Value));
    check("x", b"\0", Some(FieldLineError::Value));
    check("Content-Length", b"5", Some(FieldLineError::Reserved));
    check("transfer-encoding", b"chunked", Some(FieldLineError::Reserved));
    check("Connection", b"close", Some(FieldLineError::Reserved));
}

#[test]
fn another_target() {
    let bytes = wire("|POST http://a/b?c HTTP/1.1|Connection: close|Host: a|Content-Length: 1");
    let mut head = RequestHead::new();
    assert_eq!(head.parse(&bytes, &Limits::DEFAULT), Ok(Parse::Complete));
    let mut out = Vec::new();
    let target = OriginTarget::new(b"/d?e").unwrap();
    write_request_to((&head, &bytes), &KEEP, target, &mut out);
    assert_eq!(shown(&out), "POST /d?e HTTP/1.1|Host: a|Content-Length: 1");
    for wrong in ["", "d", "*", "/a b", "/a\r\n", "/a#b", "/\x7f"] {
        assert_eq!(OriginTarget::new(wrong.as_bytes()), None, "{wrong:?}");
    }
}
