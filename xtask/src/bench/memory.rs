//! What a pair of proxies holds in memory, and what the control plane costs while nothing happens.

use super::beds::{BODY_BYTES, Bed};
use anyhow::{Context as _, Result, ensure};
use leno_load::plan::Plan;
use leno_load::summary;
use leno_tests::proc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::thread::sleep;
use std::time::Duration;

/// Client connections kept idle, after as many as bring every pool and buffer to life.
const IDLE_CONNECTIONS: usize = 1000;
const WARM_CONNECTIONS: usize = 100;
/// Client connections under load.
const CONNECTIONS: usize = 32;
const LOAD: Duration = Duration::from_secs(5);
/// What starting up left behind is given back or not within this time.
const SETTLING: Duration = Duration::from_secs(1);
/// How long the control plane is watched while it has nothing to do.
const IDLE: Duration = Duration::from_secs(10);
/// An answer or a connection that takes longer is a failure.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// Enough for every answer of ours.
const ANSWER_BYTES_MAX: usize = 2048;

/// Memory of a pair: of each figure the larger one.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    /// MiB before any traffic.
    pub(super) idle: f64,
    /// MiB after five seconds of as many requests as 32 connections carry.
    pub(super) after_load: f64,
    /// KiB that a proxy grows by for one more idle client connection.
    pub(super) connection: f64,
}

/// Measures a bed that has had no traffic yet.
///
/// # Errors
/// When something does not work.
pub(super) fn of(bed: &Bed) -> Result<Memory> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    sleep(SETTLING);
    let idle = largest_mib(&bed.resident()?);
    saturate(bed)?;
    bed.check()?;
    sleep(SETTLING);
    let after_load = largest_mib(&bed.resident()?);
    let warm = open(bed, WARM_CONNECTIONS)?;
    let before = bed.resident()?;
    let connections = open(bed, IDLE_CONNECTIONS)?;
    let after = bed.resident()?;
    drop((warm, connections));
    let grown = before.iter().zip(&after).map(|(before, after)| after.saturating_sub(*before));
    let connection = grown.max().unwrap_or_default() as f64 / IDLE_CONNECTIONS as f64;
    Ok(Memory { idle, after_load, connection })
}

fn largest_mib(kib: &[u64]) -> f64 {
    kib.iter().copied().max().unwrap_or_default() as f64 / 1024.0
}

/// The control plane of two pods, with nothing to do.
pub(super) struct Control {
    /// MiB resident.
    pub(super) memory: f64,
    /// Thousandths of a core.
    pub(super) millicores: f64,
}

/// Watches the control plane of a bed that rests.
///
/// # Errors
/// When it is gone.
pub(super) fn control(bed: &Bed) -> Result<Control> {
    let pid = bed.control().context("this bed has no control plane")?;
    let used =
        || -> Result<Duration> { Ok(clock_getcpuclockid(Pid::from_raw(pid))?.now()?.into()) };
    let before = used()?;
    sleep(IDLE);
    let used = used()?.saturating_sub(before);
    Ok(Control {
        memory: proc::memory(pid)?.resident as f64 / 1024.0,
        millicores: used.as_secs_f64() / IDLE.as_secs_f64() * 1000.0,
    })
}

/// As many requests as the connections can carry.
fn saturate(bed: &Bed) -> Result<()> {
    let url = format!("http://{}/", bed.address()).parse().map_err(anyhow::Error::msg)?;
    let mut plan = Plan::new(url);
    (plan.connections, plan.duration) = (CONNECTIONS, Some(LOAD));
    let outcome = bed.client().run(|| leno_load::run(&plan, |_| ControlFlow::Continue(())))?;
    let counts = &outcome.counts;
    let is_good = counts.completed > 0
        && counts.errors.is_empty()
        && counts.status.keys().all(|status| status == "200");
    ensure!(is_good, "bed {} under load:\n{}", bed.name, summary::text(&outcome));
    Ok(())
}

/// Connections that have had one answer each and stay open.
fn open(bed: &Bed, count: usize) -> Result<Vec<TcpStream>> {
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
