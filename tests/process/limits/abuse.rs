//! Attacks of one stranger on the ports of an application, and a client of the mesh beside each that has no failed request.

use super::crowds::serving;
use leno_tests::mesh::Mesh;
use leno_tests::wait;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PORT: u16 = 8001;
/// Requests of the client beside each attack.
const REQUESTS: usize = 50;
const ALL_WITHIN: Duration = Duration::from_secs(60);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `:method GET`, `:scheme http`, `:path /`, `:authority a`.
const HEADERS: &[u8] = b"\x82\x86\x84\x41\x01a";

/// One frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Streams that are opened and reset at once (CVE-2023-44487).
fn rapid_reset() -> Vec<u8> {
    const CANCEL: &[u8] = &[0, 0, 0, 8];
    let stream = |number: u32| {
        let id = 2 * number + 1;
        [frame(1, 5, id, HEADERS), frame(3, 0, id, CANCEL)].concat()
    };
    [PREFACE.to_vec(), (0..5000).flat_map(stream).collect()].concat()
}

/// A head that never ends (CVE-2024-27316).
fn continuation_flood() -> Vec<u8> {
    // Literal fields without indexing: a name and a value of a byte each, as long as there is room.
    let fields = b"\0\x01x\x01y".repeat(200);
    let more = (0..5000).flat_map(|_| frame(9, 0, 1, &fields)).collect();
    [PREFACE.to_vec(), frame(1, 0, 1, HEADERS), more].concat()
}

fn giant_chunk() -> Vec<u8> {
    let head = b"POST / HTTP/1.1\r\nHost: server\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n";
    [head.as_slice(), &[b'x'; 1024]].concat()
}

/// Connects, sends, and sends the rest a byte at a time until it must stop. Connections that the proxy closes stay closed.
fn attack(
    mesh: &Mesh,
    (connections, bytes, drip): (usize, &[u8], &[u8]),
    until: &(dyn Fn() -> bool + Sync),
) {
    let address = SocketAddr::from((mesh.pod("server").addresses.v4, PORT));
    let open = |_| {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_write_timeout(Some(Duration::from_millis(100))).ok()?;
        // The proxy may close it first.
        drop(stream.write_all(bytes));
        Some(stream)
    };
    let mut crowd: Vec<TcpStream> = (0..connections).filter_map(open).collect();
    while !until() {
        for stream in &mut crowd {
            drop(stream.write_all(drip));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The status line of one request of the client through the mesh.
fn ask(mesh: &Mesh) -> std::io::Result<[u8; 12]> {
    let address = SocketAddr::from((mesh.service("server").addresses.v4, PORT));
    let mut stream = TcpStream::connect_timeout(&address, wait::LIMIT)?;
    stream.set_read_timeout(Some(wait::LIMIT))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(status)
}

#[test]
fn attacks_fail_no_request_beside_them() {
    let began = Instant::now();
    let mesh = serving("abuse", &[]);
    let check = |name: &str, connections: usize, bytes: &[u8], drip: &[u8]| {
        let done = std::sync::atomic::AtomicBool::new(false);
        let until = || done.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            let (stranger, client) =
                (&mesh.pod("stranger").namespace, &mesh.pod("client").namespace);
            scope.spawn(|| stranger.run(|| attack(&mesh, (connections, bytes, drip), &until)));
            let answers: Vec<_> = client.run(|| (0..REQUESTS).map(|_| ask(&mesh)).collect());
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            for (number, answer) in answers.into_iter().enumerate() {
                let status = answer.as_ref().map(|status| status.as_slice());
                assert_eq!(status.ok(), Some(&b"HTTP/1.1 200"[..]), "{name}, {number}: {answer:?}");
            }
        });
    };
    check("nothing", 0, b"", b"");
    check("an idle crowd", 2000, b"", b"");
    check("heads that drip", 2000, b"GET / HTTP/1.1\r\nX: ", b"x");
    check("half handshakes", 500, b"\x16\x03\x01\x02\0\x01", b"");
    check("giant chunks", 200, &giant_chunk(), b"x");
    check("rapid reset", 4, &rapid_reset(), b"");
    check("a head that never ends", 4, &continuation_flood(), b"");
    let proxy = mesh.pod("server").metrics();
    assert_eq!(proxy.sum("inbound_tcp_errors_total", &[("error", "spinning")]), 0.0);
    assert!(began.elapsed() < ALL_WITHIN, "{:?}", began.elapsed());
}
