//! Streams: what arrives when, which is shown by handshakes and not by clocks.

use super::{get, send, then_once_more};
use leno_tests::exchange::Case;
use leno_tests::script::Step::*;
use std::time::Duration;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = events();
    cases.extend(slow());
    cases
}

/// Each event is sent only when the client has the one before: a proxy that waits for more stalls.
fn events() -> Vec<Case> {
    let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let event = b"data: x\n\n".to_vec();
    vec![
        Case::new(
            "events one by one, to the end of the connection",
            vec![send(&get("/")), Head, Repeat(30, vec![Until(b"\n\n".to_vec()), Tell(1)]), End],
            vec![vec![
                Head,
                send(stream),
                send("\r\n"),
                Repeat(30, vec![Send(event), Await(1)]),
                Close,
            ]],
        ),
        then_once_more(
            "events one by one, in chunks",
            vec![
                send(&get("/")),
                Head,
                Repeat(30, vec![Until(b"\n\n\r\n".to_vec()), Tell(1)]),
                Until(b"0\r\n\r\n".to_vec()),
            ],
            vec![
                Head,
                send(stream),
                send("Transfer-Encoding: chunked\r\n\r\n"),
                Repeat(30, vec![send("9\r\ndata: x\n\n\r\n"), Await(1)]),
                send("0\r\n\r\n"),
            ],
        ),
        then_once_more(
            "the head long before the body",
            vec![send(&get("/")), Head, Tell(1), Read(2)],
            vec![Head, send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), Await(1), send("ok")],
        ),
        then_once_more(
            "a request body that arrives as it is sent",
            vec![
                send("POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 30\r\n\r\n"),
                Await(1),
                Repeat(30, vec![send("x"), Await(2)]),
                Head,
                Read(2),
            ],
            vec![
                Head,
                Tell(1),
                Repeat(30, vec![Read(1), Tell(2)]),
                send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            ],
        ),
    ]
}

fn slow() -> Vec<Case> {
    let pause = Duration::from_millis(2);
    let head = get("/slow").into_bytes();
    let answer = b"HTTP/1.1 200 OK\r\nX-Slow: yes\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let large = "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: server\r\nContent-Length: 8388608\r\n\r\n";
    vec![
        then_once_more(
            "a head a byte at a time, both ways",
            vec![SendPieces(head.clone(), 1, pause), Head, Read(2)],
            vec![Head, SendPieces(answer, 1, pause)],
        ),
        then_once_more(
            "a client that pauses in its head",
            vec![
                send("GET / HTTP/1.1\r\nHost: ser"),
                Silence(Duration::from_millis(1500)),
                send("ver\r\n\r\n"),
                Head,
                Read(2),
            ],
            vec![Head, send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")],
        ),
        then_once_more(
            "a client that reads slowly",
            vec![send(&get("/")), Head, ReadPatternSlowly(8 << 20, 16 << 10, pause)],
            vec![Head, send(large), SendPattern(8 << 20)],
        ),
        then_once_more(
            "a server that reads slowly",
            vec![send(post), SendPattern(8 << 20), Head, Read(2)],
            vec![
                Head,
                ReadPatternSlowly(8 << 20, 16 << 10, pause),
                send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            ],
        ),
        then_once_more(
            "a server that thinks for two seconds",
            vec![send(&get("/")), Head, Read(2)],
            vec![
                Head,
                Silence(Duration::from_secs(2)),
                send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            ],
        ),
    ]
}
