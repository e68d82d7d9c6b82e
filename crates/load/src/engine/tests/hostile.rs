//! Servers that behave badly: each is counted as what it is, and no load hangs or dies of it.

use super::*;
use std::net::Shutdown;

/// Eight requests over two connections, of which none takes longer than a third of a second; what they were counted as.
#[track_caller]
fn check(each: fn(TcpStream), expected: &str) {
    check_at(serve(each), |_| (), expected);
}

#[track_caller]
fn check_at(address: SocketAddr, change: impl Fn(&mut Plan), expected: &str) {
    let mut plan = plan(address);
    (plan.connections, plan.count, plan.timeout) = (2, Some(8), Duration::from_millis(300));
    change(&mut plan);
    let counts = outcome(&plan).counts;
    let kinds = counts.status.iter().chain(&counts.errors);
    let seen: Vec<String> = kinds.map(|(kind, count)| format!("{kind} {count}")).collect();
    assert_eq!(seen.join(", "), expected, "{counts:?}");
}

/// Answers each request with these bytes.
fn say(mut stream: TcpStream, bytes: &[u8]) {
    while read_request(&mut stream) && stream.write_all(bytes).is_ok() {}
}

/// Answers one request with these bytes, and closes.
fn say_once(mut stream: TcpStream, bytes: &[u8]) {
    if read_request(&mut stream) {
        let _sent = stream.write_all(bytes);
        let _closed = stream.shutdown(Shutdown::Write);
        // What is still unread when a socket is closed would turn the end into a reset.
        let _rest = stream.read(&mut [0; 512]);
    }
}

#[test]
fn connections_that_end_too_early() {
    check(|stream| say_once(stream, b""), "closed 8");
    check(|stream| say_once(stream, b"HTTP/1.1 200 OK\r\ncontent-le"), "closed 8");
    check(
        |stream| say_once(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
        "closed 8",
    );
    check(
        |stream| say_once(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhal"),
        "closed 8",
    );
    let reset = |mut stream: TcpStream| {
        let _some = stream.read(&mut [0; 1]);
        // The rest of the request is unread: the kernel resets.
    };
    check(reset, "reset 8");
    // Read, and closed at once with the next request perhaps on its way: answered all the same.
    check(
        |stream| {
            say_once(stream, b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
        },
        "200 8",
    );
    check(|stream| say_once(stream, b"HTTP/1.0 200 OK\r\n\r\nuntil the end"), "200 8");
    check(|stream| say_once(stream, b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), "200 8");
}

/// A connection that is closed as soon as it is there is a failure of the request that it was opened for.
#[test]
fn connections_that_are_closed_at_once() {
    let mut plan = plan(serve(drop));
    (plan.connections, plan.count) = (2, Some(8));
    let counts = outcome(&plan).counts;
    assert_eq!((counts.completed, counts.errors.values().sum::<u64>()), (0, 8), "{counts:?}");
    // Those that are opened before the first request, and one for each request.
    assert!(counts.connections <= 2 + 8, "{counts:?}");
}

/// Connections that are accepted and then not spoken to are not waited for by somebody who has had enough.
#[test]
fn a_load_is_ended_while_its_connections_open() {
    let url = format!("https://{}/", serve(swallow)).parse().expect("a URL");
    let mut plan = Plan::new(url);
    (plan.tls.insecure, plan.timeout) = (true, Duration::from_secs(600));
    (plan.connections, plan.duration) = (4, Some(Duration::from_secs(600)));
    let mut phases = Vec::new();
    let outcome = run(&plan, |progress| {
        phases.push(progress.phase);
        ControlFlow::Break(())
    });
    let outcome = outcome.expect("the plan can be followed");
    assert_eq!(phases.first(), Some(&Phase::Connect));
    assert_eq!(outcome.counts, Counts::default());
    assert!(outcome.invalid_reasons.contains(&"ended early".to_owned()), "{outcome:?}");
}

/// What was said of a connection that could not be opened.
#[test]
fn the_first_error_of_a_kind_is_told() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let mut refused = plan(nobody.expect("a port that is free again"));
    refused.count = Some(3);
    let seen = outcome(&refused);
    assert_eq!(seen.counts.errors.get("connect"), Some(&3), "{:?}", seen.counts);
    assert!(seen.first_errors["connect"].contains("refused"), "{:?}", seen.first_errors);
}

#[test]
fn answers_that_are_none() {
    check(|stream| say(stream, b"SSH-2.0-OpenSSH_9.6\r\n"), "protocol 8");
    check(
        |stream| say(stream, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00"),
        "protocol 8",
    );
    check(|stream| say(stream, b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"), "protocol 8");
    check(
        |stream| {
            say(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab")
        },
        "protocol 8",
    );
    check(
        |stream| say(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
        "protocol 8",
    );
    check(|stream| say(stream, b"HTTP/1.1 999999 OK\r\n\r\n"), "protocol 8");
    let endless = |mut stream: TcpStream| {
        if read_request(&mut stream) && stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").is_ok() {
            while stream.write_all(&[b'a'; 64 * 1024]).is_ok() {}
        }
    };
    check(endless, "protocol 8");
    let many = |stream: TcpStream| {
        let fields = "x: y\r\n".repeat(10_000);
        say(stream, format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n").as_bytes());
    };
    check(many, "protocol 8");
}

#[test]
fn answers_that_are_odd_and_whole() {
    check(
        |stream| {
            say(stream, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        },
        "200 8",
    );
    check(
        |stream| {
            say(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nsum: 1\r\nother: 2\r\n\r\n")
        },
        "200 8",
    );
    // Nobody asked to switch: it is an answer, and the end of the connection for us.
    check(|stream| say(stream, b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"), "101 8");
    check(|stream| say(stream, b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"), "404 8");
    check(|stream| say(stream, b"HTTP/1.1 204 No Content\r\n\r\n"), "204 8");
    let large = |stream: TcpStream| {
        let field = "a".repeat(100_000);
        say(
            stream,
            format!("HTTP/1.1 200 OK\r\nx: {field}\r\ncontent-length: 2\r\n\r\nok").as_bytes(),
        );
    };
    check(large, "200 8");
}

#[test]
fn servers_that_take_their_time() {
    check(swallow, "timeout 8");
    let slow = |mut stream: TcpStream| {
        if read_request(&mut stream) {
            for byte in ANSWER.iter().cycle() {
                std::thread::sleep(Duration::from_millis(20));
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    };
    check(slow, "timeout 8");
    let endless = |mut stream: TcpStream| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        if read_request(&mut stream) && stream.write_all(head).is_ok() {
            while stream.write_all(b"1\r\nx\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    };
    check(endless, "timeout 8");
    // Connected by the kernel, and never accepted.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    check_at(silent.local_addr().expect("it is bound"), |_| (), "timeout 8");
    // A handshake that is never answered is a connection that does not come about.
    let tls = |plan: &mut Plan| {
        plan.url.scheme = crate::url::Scheme::Https;
        plan.tls.insecure = true;
        plan.count = Some(2);
    };
    check_at(silent.local_addr().expect("it is bound"), tls, "connect 2");
}

#[test]
fn more_connections_than_requests_and_addresses_of_both_kinds() {
    check_at(serve(answer_all), |plan| plan.connections = 50, "200 8");
    check_at(serve(answer_all), |plan| (plan.connections, plan.count) = (50, Some(1)), "200 1");
    let listener = TcpListener::bind("[::1]:0").expect("IPv6");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| {
            std::thread::spawn(move || answer_all(stream));
        })
    });
    check_at(address, |_| (), "200 8");
}
