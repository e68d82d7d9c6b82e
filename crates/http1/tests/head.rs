//! What a head says, as a table.

use leno_http1::{
    BodyFraming, Exchange, Limits, Malformed, Method, Parse, RequestHead, ResponseHead, TargetForm,
    Upgrade, Version,
};

fn request(bytes: &[u8]) -> RequestHead {
    let mut head = RequestHead::new();
    assert_eq!(head.parse(bytes, &Limits::DEFAULT), Ok(Parse::Complete));
    head
}

#[test]
fn targets() {
    check_target("GET /a/b?c=d?e HTTP/1.1", TargetForm::Origin, "h", "/a/b", Some("c=d?e"));
    check_target("GET /? HTTP/1.1", TargetForm::Origin, "h", "/", Some(""));
    check_target("GET //x/y HTTP/1.1", TargetForm::Origin, "h", "//x/y", None);
    check_target("OPTIONS * HTTP/1.1", TargetForm::Asterisk, "h", "*", None);
    check_target("GET http://A:80/b?c HTTP/1.1", TargetForm::Absolute, "A:80", "/b", Some("c"));
    check_target("GET HTTPS://[::1] HTTP/1.1", TargetForm::Absolute, "[::1]", "", None);
    check_target("GET http://a?b HTTP/1.1", TargetForm::Absolute, "a", "", Some("b"));
    check_target("GET http://a#b HTTP/1.1", TargetForm::Absolute, "a", "#b", None);
    check_target("CONNECT a:443 HTTP/1.1", TargetForm::Authority, "a:443", "", None);
}

#[track_caller]
fn check_target(line: &str, form: TargetForm, authority: &str, path: &str, query: Option<&str>) {
    let text = format!("{line}\r\nHost: h\r\n\r\n");
    let bytes = text.as_bytes();
    let head = request(bytes);
    assert_eq!(head.target_form(), form);
    assert_eq!(head.authority(bytes), Some(authority.as_bytes()));
    assert_eq!(head.path(bytes), path.as_bytes());
    assert_eq!(head.query(bytes), query.map(str::as_bytes));
}

#[test]
fn persistence() {
    check_persistence("1.1", "", true);
    check_persistence("1.1", "Connection: close\r\n", false);
    check_persistence("1.1", "Connection: x, CLOSE\r\n", false);
    check_persistence("1.1", "Connection: keep-alive\r\nConnection: close\r\n", false);
    check_persistence("1.1", "Connection: closed\r\n", true);
    check_persistence("1.0", "", false);
    check_persistence("1.0", "Connection: Keep-Alive\r\n", true);
    check_persistence("1.0", "Connection: keep-alive, close\r\n", false);
    check_persistence("1.0", "Proxy-Connection: keep-alive\r\n", false);
}

#[track_caller]
fn check_persistence(version: &str, lines: &str, keep_alive: bool) {
    let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
    assert_eq!(request(text.as_bytes()).keep_alive(), keep_alive);
}

#[test]
fn upgrades() {
    check_upgrade("1.1", "Upgrade: WebSocket\r\nConnection: upgrade\r\n", Some(Upgrade::WebSocket));
    check_upgrade("1.1", "Upgrade: h2c\r\nConnection: upgrade\r\n", Some(Upgrade::H2c));
    check_upgrade("1.1", "Upgrade: websocket, H2C\r\nConnection: upgrade\r\n", Some(Upgrade::H2c));
    check_upgrade(
        "1.1",
        "Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: upgrade\r\n",
        Some(Upgrade::H2c),
    );
    check_upgrade("1.1", "Upgrade: TLS/1.0\r\nConnection: upgrade\r\n", Some(Upgrade::Other));
    check_upgrade("1.1", "Upgrade: websocket\r\n", None);
    check_upgrade("1.1", "Connection: upgrade\r\n", None);
    check_upgrade("1.0", "Upgrade: websocket\r\nConnection: upgrade\r\n", None);
}

#[track_caller]
fn check_upgrade(version: &str, lines: &str, upgrade: Option<Upgrade>) {
    let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
    assert_eq!(request(text.as_bytes()).upgrade(), upgrade);
}

#[test]
fn everything_else_a_request_says() {
    let bytes = b"\r\nBREW /p HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nConnection: x-A, , te\r\nX:  y \r\n\r\nmore";
    let head = request(bytes);
    assert_eq!(head.length(), bytes.len() - 4);
    assert_eq!(head.range(), 2..bytes.len() - 4);
    assert_eq!(head.method(), Method::Other);
    assert_eq!(head.method_bytes(bytes), b"BREW");
    assert_eq!(head.target(bytes), b"/p");
    assert_eq!(head.version(), Version::Http11);
    assert!(head.expect_continue());
    assert!(!head.is_connect());
    assert_eq!(head.header(bytes, "x"), Some(&b"y"[..]));
    assert_eq!(head.header(bytes, "z"), None);
    assert_eq!(head.header_count(), 4);
    let options: Vec<_> = head.connection_options(bytes).collect();
    assert_eq!(options, [&b"x-A"[..], b"te"]);
    let without_host = b"GET / HTTP/1.0\r\n\r\n";
    assert_eq!(request(without_host).authority(without_host), None);
    let empty_host = b"GET / HTTP/1.1\r\nHost:\r\n\r\n";
    assert_eq!(request(empty_host).authority(empty_host), None);
}

#[test]
fn responses() {
    let get = request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").exchange(true);
    let connect = request(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n").exchange(false);
    //             exchange  head                                              interim tunnel keep
    check_response(&get, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", (false, false, true));
    check_response(&get, "HTTP/1.1 200 OK\r\n", (false, false, false));
    check_response(&get, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n", (false, false, false));
    check_response(&get, "HTTP/1.1 204 x\r\nConnection: close\r\n", (false, false, false));
    check_response(&get, "HTTP/1.1 100 Continue\r\n", (true, false, true));
    check_response(&get, "HTTP/1.1 101 x\r\nUpgrade: y\r\n", (false, true, false));
    check_response(&connect, "HTTP/1.1 200 OK\r\n", (false, true, false));
    check_response(&connect, "HTTP/1.1 299 OK\r\n", (false, true, false));
    check_response(&connect, "HTTP/1.1 407 x\r\nContent-Length: 0\r\n", (false, false, true));
}

#[track_caller]
fn check_response(exchange: &Exchange, lines: &str, expected: (bool, bool, bool)) {
    let text = format!("{lines}\r\n");
    let mut head = ResponseHead::new();
    assert_eq!(head.parse(text.as_bytes(), &Limits::DEFAULT, exchange), Ok(Parse::Complete));
    assert_eq!((head.is_interim(), head.is_tunnel(), head.keep_alive()), expected);
    assert!(!head.is_tunnel() || head.framing() == BodyFraming::None);
}

#[test]
fn limits_count_to_the_byte() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\r\n";
    let check = |limits: Limits, verdict| {
        assert_eq!(RequestHead::new().parse(head, &limits), verdict);
    };
    let bytes = |head_bytes_max| Limits { head_bytes_max, ..Limits::DEFAULT };
    check(bytes(head.len()), Ok(Parse::Complete));
    check(bytes(head.len() - 1), Err(Malformed::HeadTooLarge));
    check(Limits { headers_max: 2, ..Limits::DEFAULT }, Ok(Parse::Complete));
    check(Limits { headers_max: 1, ..Limits::DEFAULT }, Err(Malformed::HeadersTooMany));
    // The limit counts against the head alone, not against what is behind it in the buffer.
    let long = [&head[..], &[b'x'; 100]].concat();
    assert_eq!(RequestHead::new().parse(&long, &bytes(head.len())), Ok(Parse::Complete));
}
