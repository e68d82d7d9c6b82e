//! HTTP/2 with prior knowledge: frames by the `h2` crate on both sides, direct and meshed.
//!
//! Compared are heads (pseudo-fields, fields in the order in which they are listed, values), bodies,
//! trailers, statuses and reset codes, as each side sees them. SETTINGS, PING, GOAWAY and windows belong to
//! each hop; the cases show that they work, not that they travel.

mod client;
mod server;

use leno_tests::compare::report;
use leno_tests::events::{Events, differences};
use leno_tests::mesh::{Meshed, Plan};
use std::net::SocketAddr;
use std::time::Duration;

/// A plain server.
const PORT: u16 = 8001;
/// The same, declared as HTTP/2.
const DECLARED_PORT: u16 = 8002;
/// A server with one stream at a time and small windows.
const NARROW_PORT: u16 = 8003;

/// A case that takes longer than this hangs.
const CASE_LIMIT: Duration = Duration::from_secs(30);

/// The addresses that cases choose from.
#[derive(Debug, Clone, Copy)]
struct Targets {
    service: SocketAddr,
    service_v6: SocketAddr,
    pod: SocketAddr,
    declared: SocketAddr,
    narrow: SocketAddr,
}

#[test]
fn table_is_sound() {
    let direct = run(Meshed::No);
    let failed: Vec<String> = direct
        .iter()
        .filter(|(_, lines)| lines.is_empty() || lines.iter().any(|line| line.contains("FAILED:")))
        .map(|(name, lines)| format!("{name}\n{lines:#?}"))
        .collect();
    report("http2", client::cases().len(), &failed);
}

#[test]
fn meshed_equals_direct() {
    let direct = run(Meshed::No);
    let meshed = run(Meshed::Yes);
    report("http2", client::cases().len(), &differences(&direct, &meshed));
}

#[test]
fn half_meshed_equals_direct() {
    let direct = run(Meshed::No);
    for half in Meshed::HALVES {
        println!("{half:?}");
        report("http2-half", client::cases().len(), &differences(&direct, &run(half)));
    }
}

/// Every case in one mesh: what the client saw, and under `name, server` what the server saw.
fn run(meshed: Meshed) -> Events {
    let mesh = Plan::new()
        .pod("client")
        .pod("server")
        .service("server", [PORT, DECLARED_PORT, NARROW_PORT], &["server"])
        .app_protocol(DECLARED_PORT, "kubernetes.io/h2c")
        .start("http2", meshed);
    let addresses = mesh.service("server").addresses;
    let targets = Targets {
        service: (addresses.v4, PORT).into(),
        service_v6: (addresses.v6, PORT).into(),
        pod: (mesh.pod("server").addresses.v4, PORT).into(),
        declared: (addresses.v4, DECLARED_PORT).into(),
        narrow: (addresses.v4, NARROW_PORT).into(),
    };
    let (listening, ready) = tokio::sync::oneshot::channel();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let (client, server) = (&mesh.pod("client").namespace, &mesh.pod("server").namespace);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| server.block_on(|| server::serve(listening, finished)));
        let mut events = client.block_on(|| async {
            ready.await.expect("the server listens");
            client::run(targets).await
        });
        drop(finish);
        let server_saw = server.join().expect("no panic");
        events.extend(server_saw.into_iter().map(|(name, lines)| (name + ", server", lines)));
        events
    })
}

/// Sums up a body: its length, and a number that changes with any byte or their order.
#[derive(Debug, Default)]
struct Digest {
    count: usize,
    sum: u64,
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        self.count += bytes.len();
        for byte in bytes {
            // FNV-1a, 64 bit.
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn line(&self) -> String {
        format!("body of {} bytes, {:x}", self.count, self.sum)
    }
}

/// A body of so many bytes, different for each seed.
fn body(count: usize, seed: usize) -> bytes::Bytes {
    (0..count).map(|at| ((at + seed) % 251) as u8).collect()
}

/// Fields in the order in which the map lists them.
fn fields(fields: &http::HeaderMap) -> String {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}={}", value.as_bytes().escape_ascii())
    };
    fields.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Sends all of it as the window allows.
async fn send_all(
    stream: &mut h2::SendStream<bytes::Bytes>,
    mut bytes: bytes::Bytes,
    end: bool,
) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len().min(64 * 1024));
        let room = match std::future::poll_fn(|context| stream.poll_capacity(context)).await {
            Some(room) => room?.min(bytes.len()),
            None => return Err(h2::Reason::CANCEL.into()),
        };
        let piece = bytes.split_to(room);
        stream.send_data(piece, end && bytes.is_empty())?;
    }
    Ok(())
}

/// Reads to the end: body, then trailers.
async fn read_all(
    stream: &mut h2::RecvStream,
) -> Result<(Digest, Option<http::HeaderMap>), (Digest, h2::Error)> {
    let mut digest = Digest::default();
    while let Some(data) = stream.data().await {
        match data {
            Ok(data) => {
                digest.add(&data);
                drop(stream.flow_control().release_capacity(data.len()));
            }
            Err(error) => return Err((digest, error)),
        }
    }
    match stream.trailers().await {
        Ok(trailers) => Ok((digest, trailers)),
        Err(error) => Err((digest, error)),
    }
}

/// An error as the other side meant it; how a lost connection shows is each hop's own.
fn ending(error: &h2::Error) -> String {
    match error.reason() {
        Some(reason) if error.is_reset() => format!("reset {}", u32::from(reason)),
        _ => "lost".to_owned(),
    }
}
