//! What drives a bed: wrk where it is to be saturated, a schedule of our own where the rate is fixed.
//!
//! The schedule is open: a request is due at its time whatever the answers do, and its latency counts from then.
//! 32 threads have one connection each and take turns, evenly spaced; only a connection whose last answer is
//! still missing sends late, and that shows in its latency. The kernel wakes a sleeping thread some
//! 60 µs late: that is in every bed's latency alike, so the difference to `none` is what to read.

use super::CONNECTIONS;
use super::beds::{BODY_BYTES, Bed};
use anyhow::{Context as _, Result, ensure};
use leno_tests::program::Program;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An answer or a connection that takes longer is a failure.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// Enough for every answer of ours.
const ANSWER_BYTES_MAX: usize = 2048;

/// What was done.
pub(super) struct Driven {
    /// How many requests were answered with 200.
    pub(super) answers: usize,
    /// In how many seconds.
    pub(super) seconds: f64,
    /// p50 and p99 in microseconds.
    pub(super) latency: Option<[f64; 2]>,
}

/// As many requests as 32 connections can carry.
pub(super) fn saturate(bed: &Bed, span: Duration) -> Result<Driven> {
    let url = format!("http://{}/", bed.address());
    let connections = format!("-c{CONNECTIONS}");
    let span_argument = format!("-d{}s", span.as_secs());
    let said = Program::new("wrk")
        .args(["-t1", &connections, &span_argument, &url])
        .output(bed.client(), span + Duration::from_secs(10))
        .context("Debian: wrk")?
        .text();
    let wrong = said.contains("Non-2xx") || said.contains("Socket errors");
    ensure!(!wrong, "not every request to bed {} succeeded:\n{said}", bed.name);
    let line = said.lines().find_map(|line| line.split_once(" requests in "));
    let (answers, rest) = line.with_context(|| format!("wrk said no figure:\n{said}"))?;
    let seconds = rest.split_once("s,").context("wrk says how long it took")?.0;
    Ok(Driven {
        answers: answers.trim().parse()?,
        seconds: seconds.parse().with_context(|| said.clone())?,
        latency: None,
    })
}

/// Requests at a fixed rate over the bed's kept connections.
pub(super) fn pace(bed: &mut Bed, rate: u32, span: Duration) -> Result<Driven> {
    let interval = Duration::from_secs(1) / rate;
    let count = span.as_nanos() / interval.as_nanos();
    let connections = bed.connections.len();
    let began = Instant::now() + Duration::from_millis(10);
    let outcomes: Vec<Result<Vec<Duration>>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..)
            .zip(&mut bed.connections)
            .map(|(first, stream)| {
                let due = (first..count as u32).step_by(connections).map(|n| began + interval * n);
                scope.spawn(move || due.map(|due| get_at(stream, due)).collect())
            })
            .collect();
        let joined = clients.into_iter().map(|client| client.join());
        joined.map(|outcome| outcome.unwrap_or_else(|_| Ok(Vec::new()))).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut latencies = Vec::new();
    for outcome in outcomes {
        latencies.extend(outcome.with_context(|| format!("bed {} at {rate}/s", bed.name))?);
    }
    latencies.sort_unstable();
    let at = |quantile: f64| {
        let index = (latencies.len() as f64 * quantile) as usize;
        latencies.get(index).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
    };
    ensure!(latencies.len() as u128 == count, "only {} of {count} were sent", latencies.len());
    Ok(Driven { answers: latencies.len(), seconds, latency: Some([at(0.5), at(0.99)]) })
}

fn get_at(stream: &mut TcpStream, due: Instant) -> Result<Duration> {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    get(stream)?;
    Ok(due.elapsed())
}

/// Connections that have had one answer each and stay open.
pub(super) fn open(bed: &Bed, count: usize) -> Result<Vec<TcpStream>> {
    let address = bed.address();
    let opened: Result<Vec<TcpStream>> =
        bed.client().run(|| (0..count).map(|_| open_one(address)).collect());
    opened.with_context(|| format!("{count} connections in bed {}", bed.name))
}

fn open_one(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_WAIT_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
    get(&mut stream)?;
    Ok(stream)
}

fn get(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n")?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    let mut have = 0;
    loop {
        let count = stream.read(&mut answer[have..])?;
        have += count;
        let seen = &answer[..have];
        if let Some(head) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            ensure!(seen.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(seen));
            if have >= head + 4 + BODY_BYTES {
                return Ok(());
            }
        }
        ensure!(count > 0, "an answer ended after {:?}", String::from_utf8_lossy(&answer[..have]));
    }
}
