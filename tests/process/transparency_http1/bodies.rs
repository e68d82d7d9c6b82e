//! Bodies: every framing, every size around a buffer's, and one that no memory should hold.

use super::{get, send, then_once_more};
use leno_tests::compare::{FIRST_PORT, report};
use leno_tests::exchange::{Case, Place, run};
use leno_tests::mesh::{Meshed, Plan};
use leno_tests::proc;
use leno_tests::script::Step::{self, *};
use std::time::{Duration, Instant};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = lengths();
    cases.extend(chunked());
    cases.extend(without_body());
    cases.extend(interim());
    cases
}

/// The same body in both directions, by `Content-Length`.
fn both_ways(name: &'static str, count: u64) -> Case {
    let head = format!("POST /b HTTP/1.1\r\nHost: server\r\nContent-Length: {count}\r\n\r\n");
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n");
    let client = vec![send(&head), SendPattern(count), Head, ReadPattern(count)];
    then_once_more(name, client, vec![Head, ReadPattern(count), send(&answer), SendPattern(count)])
}

/// The same body in both directions, in chunks.
fn both_ways_chunked(name: &'static str, count: u64, size: usize) -> Case {
    let head = "POST /b HTTP/1.1\r\nHost: server\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let last = || send("0\r\n\r\n");
    let client = vec![send(head), SendChunks(count, size), last(), Head, ReadChunks(count)];
    let server = vec![Head, ReadChunks(count), send(answer), SendChunks(count, size), last()];
    then_once_more(name, client, server)
}

fn lengths() -> Vec<Case> {
    vec![
        both_ways("body of 0 bytes", 0),
        both_ways("body of 1 byte", 1),
        both_ways("body of 16,383 bytes", 16_383),
        both_ways("body of 16,384 bytes", 16_384),
        both_ways("body of 16,385 bytes", 16_385),
        both_ways("body of 65,536 bytes", 65_536),
        both_ways("body of 1 MiB", 1 << 20),
        then_once_more(
            "GET and DELETE may have a body",
            vec![
                send("GET /s HTTP/1.1\r\nHost: server\r\nContent-Length: 3\r\n\r\nabc"),
                Head,
                Read(2),
            ],
            vec![Head, Read(3), send(OK)],
        ),
        then_once_more(
            "length with leading zeros",
            vec![
                send("PUT /s HTTP/1.1\r\nHost: server\r\nContent-Length: 003\r\n\r\nabc"),
                Head,
                Read(2),
            ],
            vec![Head, Read(3), send("HTTP/1.1 200 OK\r\nContent-Length: 0002\r\n\r\nok")],
        ),
    ]
}

fn chunked() -> Vec<Case> {
    let odd = "3;name=value;q=\"a;b\"\r\nabc\r\n000A ; x\r\n0123456789\r\nb\r\nhello world\r\n0;last\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n";
    let post =
        "POST /c HTTP/1.1\r\nHost: server\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n";
    let end = || Until(b"x-sum: 2\r\n\r\n".to_vec());
    vec![
        then_once_more(
            "chunked request with extensions and trailers",
            vec![send(post), send(odd), Head, Read(2)],
            vec![Head, end(), send(OK)],
        ),
        then_once_more(
            "chunked response with extensions and trailers",
            vec![send(&get("/")), Head, end()],
            vec![Head, send(answer), send(odd)],
        ),
        then_once_more(
            "chunked, a byte at a time",
            vec![
                send(post),
                SendPieces(odd.as_bytes().to_vec(), 1, Duration::from_micros(200)),
                Head,
                end(),
            ],
            vec![
                Head,
                end(),
                send(answer),
                SendPieces(odd.as_bytes().to_vec(), 1, Duration::from_micros(200)),
            ],
        ),
        then_once_more(
            "chunked request without a body",
            vec![send(post), send("0\r\n\r\n"), Head, Read(2)],
            vec![Head, Until(b"0\r\n\r\n".to_vec()), send(OK)],
        ),
        both_ways_chunked("1 MiB in chunks of 1 KiB", 1 << 20, 1024),
        both_ways_chunked("64 KiB in chunks of 7 bytes", 64 << 10, 7),
        both_ways_chunked("1 MiB in one chunk", 1 << 20, 1 << 20),
        then_once_more(
            "transfer coding in upper case",
            vec![
                send("POST /c HTTP/1.1\r\nHost: server\r\nTRANSFER-ENCODING: Chunked\r\n\r\n"),
                send("2\r\nab\r\n0\r\n\r\n"),
                Head,
                Read(2),
            ],
            vec![Head, Until(b"0\r\n\r\n".to_vec()), send(OK)],
        ),
    ]
}

fn without_body() -> Vec<Case> {
    let bodiless = |name, request: &str, answer: &str| {
        then_once_more(name, vec![send(request), Head], vec![Head, send(answer)])
    };
    let head = "HEAD / HTTP/1.1\r\nHost: server\r\n\r\n";
    vec![
        bodiless("HEAD with a length", head, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"),
        bodiless(
            "HEAD with chunked",
            head,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        bodiless("HEAD with neither", head, "HTTP/1.1 200 OK\r\nETag: \"x\"\r\n\r\n"),
        bodiless("204", &get("/"), "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"),
        bodiless(
            "304 with a length",
            &get("/"),
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        ),
        bodiless("304 without one", &get("/"), "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
        bodiless("200 with length 0", &get("/"), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ]
}

fn interim() -> Vec<Case> {
    let expecting =
        "POST /e HTTP/1.1\r\nHost: server\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    let proceed = "HTTP/1.1 100 Continue\r\n\r\n";
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nlink: </b.css>\r\n\r\n";
    vec![
        then_once_more(
            "Expect: 100-continue, and it is continued",
            vec![send(expecting), Head, send("body"), Head, Read(2)],
            vec![Head, send(proceed), Read(4), send(OK)],
        ),
        then_once_more(
            "Expect: 100-continue, and a client that does not wait",
            vec![send(expecting), send("body"), Head, Head, Read(2)],
            vec![Head, send(proceed), Read(4), send(OK)],
        ),
        Case::new(
            "Expect: 100-continue, and a final answer instead",
            vec![send(expecting), Head, Read(2), End],
            vec![vec![
                Head,
                send("HTTP/1.1 417 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"),
                Close,
            ]],
        ),
        then_once_more(
            "103 Early Hints before the answer",
            vec![send(&get("/")), Head, Tell(1), Head, Read(2)],
            vec![Head, send(hints), Await(1), send(OK)],
        ),
        then_once_more(
            "several interim answers",
            vec![send(&get("/")), Head, Head, Head, Head, Read(2)],
            vec![
                Head,
                send("HTTP/1.1 102 Processing\r\n\r\n"),
                send(hints),
                send("HTTP/1.1 103 Early Hints\r\n\r\n"),
                send(OK),
            ],
        ),
        then_once_more(
            "100 Continue that nobody asked for",
            vec![send(&get("/")), Head, Head, Read(2)],
            vec![Head, send(proceed), send(OK)],
        ),
    ]
}

/// 1 GiB up, down, and down in chunks; the proxies may never hold more than a few buffers of it.
pub(super) fn gibibyte() {
    const COUNT: u64 = 1 << 30;
    const GROWTH_KIB_MAX: u64 = 8 * 1024;
    let post = format!("POST /up HTTP/1.1\r\nHost: server\r\nContent-Length: {COUNT}\r\n\r\n");
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {COUNT}\r\n\r\n");
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let table = [
        (
            "1 GiB up",
            vec![send(&post), SendPattern(COUNT), Head, Read(2)],
            vec![Head, ReadPattern(COUNT), send(OK)],
        ),
        (
            "1 GiB down",
            vec![send(&get("/down")), Head, ReadPattern(COUNT)],
            vec![Head, send(&answer), SendPattern(COUNT)],
        ),
        (
            "1 GiB down in chunks",
            vec![send(&get("/down")), Head, ReadChunks(COUNT)],
            vec![Head, send(chunks), SendChunks(COUNT, 64 << 10), send("0\r\n\r\n")],
        ),
    ];
    let plan = || {
        let ports = FIRST_PORT..FIRST_PORT + 3;
        Plan::new().pod("client").pod("server").service("server", ports, &["server"])
    };
    let mut wrong = Vec::new();
    for meshed in [Meshed::No, Meshed::Yes] {
        let mesh = plan().start("http1-gibibyte", meshed);
        for (port, (name, client, server)) in (FIRST_PORT..).zip(&table) {
            let limit = Duration::from_secs(60);
            let case: Vec<Step> = client.clone();
            let case = Case::new(name, case, vec![server.clone()]).limit(limit);
            let pids = ["client", "server"].map(|pod| mesh.pod(pod).proxy().map(|p| p.pid()));
            let memory = || pids.map(|pid| pid.and_then(|pid| proc::memory(pid).ok()));
            let before = memory();
            let began = Instant::now();
            let place = Place {
                client: &mesh.pod("client").namespace,
                server: &mesh.pod("server").namespace,
                address: (mesh.service("server").addresses.v4, port).into(),
                port,
            };
            let outcome = run(&case, place);
            let took = began.elapsed();
            if outcome.failed() {
                wrong.push(format!("{name}, {meshed:?}: {outcome:?}"));
            }
            let mut grown = Vec::new();
            for (before, after) in before.iter().zip(memory()) {
                let (Some(before), Some(after)) = (before, after) else { continue };
                grown.push(after.peak.saturating_sub(before.resident));
            }
            println!("{name}, {meshed:?}: {took:.1?}, proxies grew by at most {grown:?} KiB");
            if grown.iter().any(|kib| *kib > GROWTH_KIB_MAX) {
                wrong.push(format!("{name}: the proxies grew by {grown:?} KiB"));
            }
        }
    }
    report("http1-gibibyte", 2 * table.len(), &wrong);
}
