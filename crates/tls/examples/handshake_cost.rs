//! What a handshake costs, and what a connection holds while it is idle. Prints; asserts nothing.
//!
//! `cargo run --release -p leno-tls --example handshake_cost`
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a tool for developers: it may panic")]

use leno_model::workload::PeerIdentity;
use leno_testkit::ca::TestCa;
use leno_tls::{Alpn, Credentials, client, server};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WAIT_MAX: Duration = Duration::from_secs(20);
const ROUNDS: usize = 20;
const HANDSHAKES_PER_ROUND: usize = 20;
const IDLE_PAIRS: usize = 400;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let ca = TestCa::new("cluster.local");
    let peer = ca.peer("cart");
    let (web, cart) = (ca.credentials("web"), ca.credentials("cart"));

    // Both sides run on this thread, so a time is the sum of the two; the best round is the least disturbed one.
    let resumed = best_round(async || drop(pair(&web, &cart, &peer).await)).await;
    let full = best_round(async || {
        // Another snapshot remembers nothing.
        let stranger = Credentials::new(web.credential().clone(), ca.anchors(), server::MESH);
        drop(pair(&stranger, &cart, &peer).await);
    })
    .await;
    println!("full handshake, both sides:    {full:>5} µs");
    println!("resumed handshake, both sides: {resumed:>5} µs");

    let before = resident_bytes();
    let mut idle = Vec::with_capacity(IDLE_PAIRS);
    for _ in 0..IDLE_PAIRS {
        idle.push(tcp_pair(&web, &cart, &peer).await);
    }
    let held = resident_bytes().saturating_sub(before) / (2 * IDLE_PAIRS);
    println!("idle connection, one side:     {held:>5} bytes");
}

async fn best_round(handshake: impl AsyncFn()) -> u128 {
    handshake().await; // The first brings the ticket.
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..HANDSHAKES_PER_ROUND {
            handshake().await;
        }
        best = best.min(began.elapsed());
    }
    best.as_micros() / HANDSHAKES_PER_ROUND as u128
}

async fn pair(near: &Credentials, far: &Credentials, peer: &PeerIdentity) -> impl Sized + use<> {
    let (near_io, far_io) = tokio::io::duplex(64 * 1024);
    over(near, far, peer, near_io, far_io).await
}

async fn tcp_pair(
    near: &Credentials,
    far: &Credentials,
    peer: &PeerIdentity,
) -> impl Sized + use<> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near_io, far_io) = tokio::join!(TcpStream::connect(address), listener.accept());
    over(near, far, peer, near_io.unwrap(), far_io.unwrap().0).await
}

/// A handshake, and a byte back, which brings the ticket along.
async fn over<IO: AsyncRead + AsyncWrite + Unpin>(
    near: &Credentials,
    far: &Credentials,
    peer: &PeerIdentity,
    near_io: IO,
    far_io: IO,
) -> impl Sized + use<IO> {
    let config: Arc<_> = near.client(peer, Alpn::None);
    let (asked, served) = tokio::join!(
        async {
            let mut asked =
                client::connect(config, &peer.server_name, near_io, WAIT_MAX).await.unwrap();
            asked.stream.read_u8().await.unwrap();
            asked
        },
        async {
            let mut served = server::accept(far.server(), far_io, WAIT_MAX).await.unwrap();
            served.stream.write_all(b"!").await.unwrap();
            served.stream.flush().await.unwrap();
            served
        }
    );
    (asked, served)
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}
