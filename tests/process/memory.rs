//! Memory of real proxies: idle, per connection, and its slope under what made others grow.
//!
//! The bounds are those of the release build, and twice as wide for the everyday build,
//! whose code is larger. The figures are printed either way (`--no-capture`).

use crate::programs::web::{PORT, nginx};
use leno_tests::binaries;
use leno_tests::load::{Connections, Load};
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::proc;
use leno_tests::wait;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// KiB that both proxies of a call hold.
fn resident(mesh: &Mesh) -> [u64; 2] {
    ["client", "server"].map(|pod| {
        let proxy = mesh.pod(pod).proxy().expect("a proxy");
        proc::memory(proxy.pid()).expect("it runs").resident
    })
}

fn bound(release_kib: u64) -> u64 {
    if binaries::is_release() { release_kib } else { 2 * release_kib + 8 * 1024 }
}

fn mesh(name: &str) -> Mesh {
    let plan = Plan::new().pod("client").pod("server");
    plan.service("server", [PORT], &["server"]).start(name, Meshed::Yes)
}

fn address(mesh: &Mesh) -> SocketAddr {
    (mesh.service("server").addresses.v4, PORT).into()
}

/// Grown by at most so many KiB, both of them.
#[track_caller]
fn check_growth(what: &str, before: [u64; 2], after: [u64; 2], max_kib: u64) {
    let grown = [0, 1].map(|at| after[at].saturating_sub(before[at]));
    println!("{what}: client's proxy +{} KiB, server's +{} KiB", grown[0], grown[1]);
    assert!(
        grown.iter().all(|kib| *kib <= max_kib),
        "{what}: grew by {grown:?} KiB, from {before:?} to {after:?}; {max_kib} KiB are allowed"
    );
}

#[test]
fn idle() {
    let mesh = mesh("memory-idle");
    let idle = resident(&mesh);
    println!("idle: {idle:?} KiB");
    assert!(idle.iter().all(|kib| *kib <= bound(10 * 1024)), "idle: {idle:?} KiB");
}

/// 1,000 connections that have had one request each and are kept open.
#[test]
fn a_thousand_idle_connections() {
    const COUNT: u64 = 1000;
    const KIB_EACH_MAX: u64 = 8;
    let mesh = mesh("memory-connections");
    let _server = nginx(&mesh, "server", "location / { return 200 ok; }");
    let client = &mesh.pod("client").namespace;
    let address = address(&mesh);
    let open = |count| {
        let one = |_| {
            let mut kept = None;
            leno_tests::load::get(&mut kept, address, Connections::Kept).expect("a GET");
            kept.expect("kept open")
        };
        client.run(|| (0..count).map(one).collect::<Vec<TcpStream>>())
    };
    let warm = open(100);
    let before = resident(&mesh);
    let connections = open(COUNT);
    let after = resident(&mesh);
    let each = (after[0].saturating_sub(before[0])) as f64 / COUNT as f64;
    println!("per idle client connection: {each:.2} KiB");
    check_growth("1,000 idle connections", before, after, bound(KIB_EACH_MAX * COUNT));
    drop((warm, connections));
}

/// Long: 100,000 connections with one request each, ended by `Connection: close`.
#[test]
fn no_slope_over_short_connections() {
    let mesh = mesh("memory-short");
    let _server = nginx(&mesh, "server", "location / { return 200 ok; }");
    let client = &mesh.pod("client").namespace;
    let load = Load::start(client, address(&mesh), 8, Connections::Closed);
    load.wait_for_more(20_000, Duration::from_secs(120));
    let before = resident(&mesh);
    load.wait_for_more(100_000, Duration::from_secs(300));
    let after = resident(&mesh);
    load.stop_without_failure("short connections");
    check_growth("100,000 short connections", before, after, bound(1024));
}

/// Bodies of 256 KiB on connections that the client closes: what `linkerd2#14397` is about.
#[test]
fn no_slope_over_closed_connections_with_bodies() {
    const ROUNDS: usize = 400;
    let mesh = mesh("memory-bodies");
    let _server = nginx(&mesh, "server", "location / { root .; }");
    let address = address(&mesh);
    let round = |count: usize| {
        mesh.pod("client").namespace.run(|| {
            for _ in 0..count {
                let mut stream = TcpStream::connect(address).expect("connect");
                stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
                let ask = "GET /large.txt HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n";
                stream.write_all(ask.as_bytes()).expect("ask");
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).expect("an answer");
                assert!(answer.len() > 1 << 20, "{}", String::from_utf8_lossy(&answer[..200]));
            }
        });
    };
    round(ROUNDS / 4);
    let before = resident(&mesh);
    round(ROUNDS);
    check_growth("400 large bodies", before, resident(&mesh), bound(1024));
}

/// Clients that ask for much, read little, and go: again and again.
#[test]
fn no_slope_over_slow_readers() {
    const READERS: usize = 50;
    const BODY: usize = 16 << 20;
    let mesh = mesh("memory-slow");
    let server = &mesh.pod("server").namespace;
    let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))).expect("free");
    // Writes until it is refused; one thread per call, which ends with the call.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut request = [0; 1024];
                drop(stream.set_write_timeout(Some(wait::LIMIT)));
                drop(stream.read(&mut request));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
                drop(stream.write_all(head.as_bytes()));
                let piece = [b'x'; 64 << 10];
                let pieces = BODY / piece.len();
                drop((0..pieces).try_for_each(|_| stream.write_all(&piece)));
            });
        }
    });
    let address = address(&mesh);
    let round = || {
        let readers: Vec<TcpStream> = mesh.pod("client").namespace.run(|| {
            let one = |_| {
                let mut stream = TcpStream::connect(address).expect("connect");
                stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
                stream.write_all(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n").expect("ask");
                let mut some = [0; 1000];
                stream.read_exact(&mut some).expect("the beginning of the answer");
                stream
            };
            (0..READERS).map(one).collect()
        });
        let held = resident(&mesh);
        drop(readers);
        held
    };
    let idle = resident(&mesh);
    let held = round();
    // 50 readers of 16 MiB each: what is held are buffers, not bodies.
    check_growth("50 slow readers of 16 MiB", idle, held, bound(50 * 256));
    for _ in 0..5 {
        round();
    }
    let before = resident(&mesh);
    for _ in 0..20 {
        round();
    }
    check_growth("1,000 slow readers that went", before, resident(&mesh), bound(2 * 1024));
}
