//! Everything that is not HTTP: bytes, ends and silences, with no annotation on any port.

mod latency;
mod tls;

use leno_tests::compare::{check_direct, check_halves, check_same};
use leno_tests::exchange::{Case, To};
use leno_tests::script::Step::{self, *};
use leno_tests::wait;
use std::time::Duration;

fn cases() -> Vec<Case> {
    [client_first(), not_quite_http(), server_first(), ends(), silences(), addresses()].concat()
}

#[test]
fn table_is_sound() {
    check_direct("tcp", &cases());
}

#[test]
fn meshed_equals_direct() {
    check_same("tcp", &cases());
}

#[test]
fn half_meshed_equals_direct() {
    check_halves("tcp-half", &cases());
}

/// A server that speaks first is heard at once: at most 50 ms later at p99.
#[test]
fn server_first_is_not_held_up() {
    latency::server_first();
}

/// TLS that the application brings along goes through with its certificate, name and protocol.
#[test]
fn own_tls_passes_through() {
    tls::passes_through();
}

fn text(text: &str) -> Step {
    Send(text.as_bytes().to_vec())
}

fn until(marker: &str) -> Step {
    Until(marker.as_bytes().to_vec())
}

/// Sends these bytes; the server sees exactly them, answers, and both close.
fn opaque(name: &'static str, bytes: &[u8]) -> Case {
    let client = vec![Send(bytes.to_vec()), Read(6), CloseWrite, End];
    Case::new(name, client, vec![vec![Read(bytes.len()), text("answer"), End, Close]])
}

fn client_first() -> Vec<Case> {
    let every_byte: Vec<u8> = (0..=255).collect();
    vec![
        opaque("every byte there is", &every_byte),
        opaque("16 KiB of zeros", &[0; 16 * 1024]),
        opaque("a single byte", b"x"),
        opaque("a line feed", b"\n"),
        Case::new(
            "a byte at a time, both ways",
            vec![SendPieces(every_byte.clone(), 1, Duration::from_millis(1)), Read(256), End],
            vec![vec![Read(256), SendPieces(every_byte, 1, Duration::from_millis(1)), Close]],
        ),
        Case::new(
            "ping and pong, 200 times",
            vec![Repeat(200, vec![text("ping"), Read(4)]), CloseWrite, End],
            vec![vec![Repeat(200, vec![Read(4), text("pong")]), End, Close]],
        ),
        Case::new(
            "64 MiB up, then down",
            vec![text("\x01"), SendPattern(64 << 20), ReadPattern(64 << 20), End],
            vec![vec![Read(1), ReadPattern(64 << 20), SendPattern(64 << 20), Close]],
        ),
        Case::new(
            "a peer that reads slowly",
            vec![text("\x01"), SendPattern(8 << 20), Read(2), End],
            vec![vec![
                Read(1),
                ReadPatternSlowly(8 << 20, 16 << 10, Duration::from_millis(2)),
                text("ok"),
                Close,
            ]],
        ),
        opaque("declared opaque, HTTP inside", b"GET / HTTP/1.1\r\nbroken : field\r\n\r\n")
            .declared("linkerd.io/opaque"),
    ]
}

/// What begins like a protocol we read and is none, or is one of its relatives.
fn not_quite_http() -> Vec<Case> {
    vec![
        opaque("Redis, inline", b"PING\r\n"),
        opaque("Redis, RESP", b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
        opaque("memcached", b"get key\r\n"),
        opaque("memcached, set", b"set key 0 0 3\r\nabc\r\n"),
        opaque("NATS", b"CONNECT {\"verbose\":false}\r\nPING\r\n"),
        opaque("SMTP without waiting", b"HELO example.org\r\n"),
        opaque("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"),
        opaque("IRC", b"NICK x\r\nUSER x 0 * :x\r\n"),
        opaque("PostgreSQL, SSLRequest", b"\x00\x00\x00\x08\x04\xd2\x16\x2f"),
        opaque("Kafka", b"\x00\x00\x00\x12\x00\x12\x00\x03\x00\x00\x00\x01\x00\x06client\x00\x00"),
        opaque("MongoDB", b"\x3a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xd4\x07\x00\x00"),
        opaque("AMQP", b"AMQP\x00\x00\x09\x01"),
        opaque("MQTT", b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"),
        opaque("Cassandra", b"\x04\x00\x00\x00\x05\x00\x00\x00\x00"),
        opaque("PROXY protocol", b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\n\r\n"),
        opaque("HTTP/0.9", b"GET /\r\n"),
        opaque("RTSP", b"OPTIONS rtsp://x/ RTSP/1.0\r\nCSeq: 1\r\n\r\n"),
        opaque("SIP", b"REGISTER sip:x SIP/2.0\r\nCSeq: 1 REGISTER\r\n\r\n"),
        opaque("ICY", b"SOURCE /mount ICE/1.0\r\n\r\n"),
        opaque("an HTTP/2 preface that goes wrong", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
        // A proxy waits 10 s for the rest of it: patience of the same length would be a coin's toss.
        opaque("the beginning of a preface and no more", b"PRI * HT").limit(2 * wait::LIMIT),
        opaque("the beginning of a method and no more", b"GE"),
        opaque("a TLS record that is no hello", b"\x16\x03\x01\x00\x05hello"),
        opaque("the beginning of a TLS record and no more", b"\x16\x03"),
        opaque("SOCKS5", b"\x05\x01\x00"),
        opaque("a JSON line", b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n"),
        opaque("a very long first line", &[b'A'; 100_000]),
    ]
}

fn server_first() -> Vec<Case> {
    // A MySQL 8 greeting: protocol 10, version, thread 1, salt, capabilities.
    let greeting = b"\x4a\x00\x00\x00\x0a8.0.36\x00\x01\x00\x00\x00abcdefgh\x00\xff\xff\xff\x02\x00\xff\xdf\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00abcdefghijkl\x00mysql_native_password\x00".to_vec();
    let login = b"\x20\x00\x00\x01\x85\xa6\xff\x01\x00\x00\x00\x01\x21\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00root".to_vec();
    let (greets, logs) = (greeting.len(), login.len());
    vec![
        Case::new(
            "SMTP, a whole conversation",
            vec![
                until("220 mail\r\n"),
                text("EHLO c\r\n"),
                until("250 OK\r\n"),
                text("DATA\r\n"),
                until("354 go\r\n"),
                text("a\r\n.\r\n"),
                until("250 queued\r\n"),
                text("QUIT\r\n"),
                until("221 bye\r\n"),
                End,
            ],
            vec![vec![
                text("220 mail\r\n"),
                until("EHLO c\r\n"),
                text("250-SIZE\r\n250 OK\r\n"),
                until("DATA\r\n"),
                text("354 go\r\n"),
                until("\r\n.\r\n"),
                text("250 queued\r\n"),
                until("QUIT\r\n"),
                text("221 bye\r\n"),
                Close,
            ]],
        ),
        Case::new(
            "MySQL, greeting and login",
            vec![Read(greets), Send(login), Read(7), CloseWrite, End],
            vec![vec![Send(greeting), Read(logs), text("\x07\0\0\x02\0\0\0"), End, Close]],
        ),
        Case::new(
            "daytime: says its line and closes",
            vec![until("\r\n"), End],
            vec![vec![text("Sat Nov 21 2026\r\n"), Close]],
        ),
        Case::new(
            "a banner that looks like HTTP",
            vec![until("\r\n\r\n"), text("x"), Read(1), CloseWrite, End],
            vec![vec![text("HTTP/1.1 200 OK\r\n\r\n"), Read(1), text("y"), End, Close]],
        ),
        Case::new(
            "a long banner before the client's first byte",
            vec![ReadPattern(4 << 20), text("ok"), End],
            vec![vec![SendPattern(4 << 20), Read(2), Close]],
        ),
        Case::new(
            "both speak at once",
            vec![text("hello from the client\n"), until("server\n"), CloseWrite, End],
            vec![vec![text("hello from the server\n"), until("client\n"), End, Close]],
        ),
        Case::new(
            "the server thinks before its banner",
            vec![until("220\n"), text("x"), Read(1), End],
            vec![vec![
                Silence(Duration::from_millis(700)),
                text("220\n"),
                Read(1),
                text("y"),
                Close,
            ]],
        ),
    ]
    .into_iter()
    .map(Case::server_first)
    .collect()
}

fn ends() -> Vec<Case> {
    vec![
        Case::new(
            "the client ends its direction, and the answer comes after",
            vec![text("\x02all of it"), CloseWrite, ReadPattern(1 << 20), End],
            vec![vec![End, SendPattern(1 << 20), Close]],
        ),
        Case::new(
            "the server ends its direction, and the client goes on",
            vec![text("\x02a"), Read(1), End, SendPattern(1 << 20), CloseWrite, Await(1)],
            vec![vec![Read(2), text("b"), CloseWrite, ReadPattern(1 << 20), End, Tell(1), Close]],
        ),
        Case::new(
            "the client closes without a word",
            // The client stays until it is heard of: once it is through, nobody waits for a connection.
            vec![Close, Await(1)],
            vec![vec![End, Tell(1), Close]],
        )
        .server_first(),
        Case::new("the server closes without a word", vec![End], vec![vec![Close]]).server_first(),
        Case::new(
            "the server ends its direction without a word",
            vec![End, text("x"), CloseWrite, Await(1)],
            vec![vec![CloseWrite, Read(1), End, Tell(1), Close]],
        )
        .server_first(),
        Case::new(
            "the client resets",
            vec![text("\x02a"), Read(1), Reset, Await(1)],
            vec![vec![Read(2), text("b"), End, Tell(1)]],
        ),
        Case::new(
            "the server resets",
            vec![text("\x02a"), Read(1), Tell(1), End],
            vec![vec![Read(2), text("b"), Await(1), Reset]],
        ),
        Case::new(
            "the client resets while the server sends",
            vec![text("\x02a"), Read(1), Reset, Await(1)],
            vec![vec![Read(2), text("b"), SendUntilRefused, Tell(1)]],
        ),
    ]
}

fn silences() -> Vec<Case> {
    let long = Duration::from_secs(3);
    vec![
        Case::new(
            "a client that is silent first",
            vec![Silence(long), text("\x03late"), Read(2), CloseWrite, End],
            vec![vec![Read(5), text("ok"), End, Close]],
        ),
        Case::new(
            "a client that is silent first and then speaks HTTP",
            vec![Silence(long), text("GET / HTTP/1.1\r\nHost: server\r\n\r\n"), Head, Read(2)],
            vec![vec![Head, text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]],
        ),
        Case::new(
            "a client that is silent after its first byte",
            vec![text("\x03"), Silence(long), text("rest"), Read(2), CloseWrite, End],
            vec![vec![Read(5), text("ok"), End, Close]],
        ),
        Case::new(
            "a client that is silent after the first byte of a method",
            vec![
                text("G"),
                Silence(long),
                text("ET / HTTP/1.1\r\nHost: server\r\n\r\n"),
                Head,
                Read(2),
            ],
            vec![vec![Head, text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]],
        ),
        Case::new(
            "silence in the middle",
            vec![text("\x03a"), Read(1), Silence(long), text("b"), Read(1), CloseWrite, End],
            vec![vec![Read(2), text("c"), Read(1), text("d"), End, Close]],
        ),
    ]
}

fn addresses() -> Vec<Case> {
    let banner = || {
        Case::new(
            "server first, over IPv6",
            vec![until("220\n"), text("x"), Read(1), End],
            vec![vec![text("220\n"), Read(1), text("y"), Close]],
        )
        .server_first()
    };
    let half_close = || {
        Case::new(
            "half-close, over IPv6",
            vec![text("\x02all of it"), CloseWrite, ReadPattern(1 << 20), End],
            vec![vec![End, SendPattern(1 << 20), Close]],
        )
    };
    let named = |case: Case, name| Case { name, ..case };
    vec![
        opaque("client first, over IPv6", b"\x00\x01\x02").to(To::ServiceV6),
        banner().to(To::ServiceV6),
        half_close().to(To::ServiceV6),
        opaque("client first, to the pod's own address", b"\x00\x01\x02").to(To::Pod),
        named(banner(), "server first, to the pod's own address").to(To::Pod),
        named(half_close(), "half-close, to the pod's own address").to(To::Pod),
        opaque("client first, declared tcp", b"\x00\x01\x02").declared("tcp"),
        named(banner(), "server first, declared tcp").declared("tcp"),
        named(banner(), "server first, declared opaque").declared("linkerd.io/opaque"),
    ]
}
