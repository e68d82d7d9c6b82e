//! CONNECT and Upgrade: after them the bytes are the application's own.

use super::{get, send, then_once_more};
use leno_tests::exchange::Case;
use leno_tests::script::Step::{self, *};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = web_sockets();
    cases.extend(other_upgrades());
    cases.extend(connects());
    cases
}

const WEB_SOCKET: &str = "GET /chat HTTP/1.1\r\nHost: server\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A masked text frame with "Hello" and an unmasked one, from RFC 6455 §5.7.
const MASKED: &[u8] = &[0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
const UNMASKED: &[u8] = &[0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];

fn bytes(bytes: &[u8]) -> Step {
    Send(bytes.to_vec())
}

fn web_sockets() -> Vec<Case> {
    let together = [SWITCHED.as_bytes(), UNMASKED].concat();
    vec![
        Case::new(
            "WebSocket: the server speaks first, in the same packet",
            vec![send(WEB_SOCKET), Head, Read(7), bytes(MASKED), Read(7), CloseWrite, End],
            vec![vec![Head, Send(together), Read(11), bytes(UNMASKED), End, Close]],
        ),
        Case::new(
            "WebSocket: frames in turn, then the server closes",
            vec![send(WEB_SOCKET), Head, Repeat(50, vec![bytes(MASKED), Read(7), Tell(1)]), End],
            vec![vec![
                Head,
                send(SWITCHED),
                Repeat(50, vec![Read(11), bytes(UNMASKED), Await(1)]),
                Close,
            ]],
        ),
        Case::new(
            "WebSocket: 4 MiB each way after the switch",
            vec![
                send(WEB_SOCKET),
                Head,
                SendPattern(4 << 20),
                ReadPattern(4 << 20),
                CloseWrite,
                End,
            ],
            vec![vec![
                Head,
                send(SWITCHED),
                ReadPattern(4 << 20),
                SendPattern(4 << 20),
                End,
                Close,
            ]],
        ),
        then_once_more(
            "WebSocket refused with 426",
            vec![send(WEB_SOCKET), Head, Read(2)],
            vec![
                Head,
                send(
                    "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: other/2\r\nContent-Length: 2\r\n\r\nno",
                ),
            ],
        ),
    ]
}

fn other_upgrades() -> Vec<Case> {
    let upgrade = |value: &str| {
        format!("GET / HTTP/1.1\r\nHost: server\r\nUpgrade: {value}\r\nConnection: upgrade\r\n\r\n")
    };
    let switched = "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: made-up/7\r\n\r\n";
    let h2c = "GET / HTTP/1.1\r\nHost: server\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n";
    vec![
        Case::new(
            "an Upgrade nobody has heard of",
            vec![send(&upgrade("made-up/7")), Head, send("ping"), Read(4), CloseWrite, End],
            vec![vec![Head, send(switched), Read(4), send("pong"), End, Close]],
        ),
        then_once_more(
            "an Upgrade that the server passes over",
            vec![send(&upgrade("a/1, b/2")), Head, Read(2)],
            vec![Head, send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")],
        ),
        then_once_more(
            "h2c offered and passed over",
            vec![send(h2c), Head, Read(2)],
            vec![Head, send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")],
        ),
        then_once_more(
            "Upgrade without Connection is no upgrade",
            vec![
                send("GET / HTTP/1.1\r\nHost: server\r\nUpgrade: websocket\r\n\r\n"),
                Head,
                Read(2),
            ],
            vec![Head, send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")],
        ),
    ]
}

fn connects() -> Vec<Case> {
    let connect = "CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\n";
    vec![
        Case::new(
            "CONNECT, then bytes both ways",
            vec![send(connect), Head, bytes(b"\x00\x01\xff"), Read(3), CloseWrite, End],
            vec![vec![
                Head,
                send("HTTP/1.1 200 Connection established\r\n\r\n"),
                Read(3),
                bytes(b"\xff\x00\r"),
                End,
                Close,
            ]],
        ),
        Case::new(
            "CONNECT, and the server speaks first",
            vec![send(connect), Head, Read(6), send("EHLO\r\n"), Read(4), End],
            vec![vec![Head, send("HTTP/1.1 200 OK\r\n\r\n220 x\n"), Read(6), send("250\n"), Close]],
        ),
        then_once_more(
            "CONNECT refused",
            vec![send(connect), Head, Read(2)],
            vec![Head, send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")],
        ),
        then_once_more(
            "a plain request first",
            vec![send(&get("/")), Head, Read(2)],
            vec![Head, send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")],
        ),
    ]
}
