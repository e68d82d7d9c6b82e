//! How long a connection takes until the server's first word is heard.

use leno_tests::compare::FIRST_PORT;
use leno_tests::mesh::{Meshed, Plan};
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Enough for a p99, and few enough for a second.
const CONNECTIONS: usize = 200;

/// The most that the mesh may add.
const ADDED_MAX: Duration = Duration::from_millis(50);

/// A busy machine holds up a few of the two hundred now and then; what the mesh adds it adds every time.
pub(super) fn server_first() {
    let kept = (0..3).any(|_| added() < ADDED_MAX);
    assert!(kept, "the mesh adds {ADDED_MAX:?} at p99 to a server that speaks first, three times");
}

/// What the mesh adds at p99.
fn added() -> Duration {
    let [direct, meshed] = [Meshed::No, Meshed::Yes].map(|meshed| {
        let plan = Plan::new().pod("client").pod("server");
        let mesh = plan.service("server", [FIRST_PORT], &["server"]).start("tcp-latency", meshed);
        let (client, server) = (&mesh.pod("client").namespace, &mesh.pod("server").namespace);
        let listener = server.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, FIRST_PORT)));
        let listener = listener.expect("nobody else is in this namespace");
        let address = (mesh.service("server").addresses.v4, FIRST_PORT);
        let mut took = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..CONNECTIONS {
                    let (mut stream, _) = listener.accept().expect("a connection");
                    drop(stream.write_all(b"220 ready\r\n"));
                }
            });
            client.run(|| (0..CONNECTIONS).map(|_| first_word(address)).collect::<Vec<_>>())
        });
        took.sort();
        took
    });
    let at = |sorted: &[Duration], share: usize| sorted[sorted.len() * share / 100];
    println!(
        "server first: p50 {:?} direct, {:?} meshed; p99 {:?} direct, {:?} meshed",
        at(&direct, 50),
        at(&meshed, 50),
        at(&direct, 99),
        at(&meshed, 99)
    );
    at(&meshed, 99).saturating_sub(at(&direct, 99))
}

fn first_word(address: (std::net::Ipv4Addr, u16)) -> Duration {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    let mut banner = [0; 11];
    stream.read_exact(&mut banner).expect("the banner within 10 s");
    let took = began.elapsed();
    assert_eq!(&banner, b"220 ready\r\n");
    took
}
