//! Steady GETs from several clients, each counted and each failure kept.

use crate::namespace::Namespace;
use crate::script::find;
use crate::wait;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How clients treat their connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// One for many requests.
    Kept,
    /// One for each, ended by `Connection: close`.
    Closed,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    good: AtomicUsize,
    bodies: Mutex<BTreeMap<String, usize>>,
    failures: Mutex<Vec<String>>,
}

/// Clients at work; they stop when this is dropped.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts so many clients in the namespace.
    pub fn start(
        namespace: &Namespace,
        address: SocketAddr,
        clients: usize,
        connections: Connections,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        // The threads outlive this call, and so may not borrow the namespace: they are born inside.
        let born = Arc::clone(&shared);
        let threads = namespace.run(move || {
            let client = |_| {
                let shared = Arc::clone(&born);
                std::thread::spawn(move || work(&shared, address, connections))
            };
            (0..clients).map(client).collect()
        });
        Self { shared, threads }
    }

    /// How many GETs were answered with 200 so far.
    pub fn good(&self) -> usize {
        self.shared.good.load(Ordering::Acquire)
    }

    /// How many answers had this body so far.
    pub fn with_body(&self, body: &str) -> usize {
        let bodies = self.shared.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.get(body).copied().unwrap_or(0)
    }

    /// Waits until so many more are answered.
    ///
    /// # Panics
    /// When that takes longer than the limit; with the failures so far.
    #[track_caller]
    pub fn wait_for_more(&self, count: usize, limit: Duration) {
        let wanted = self.good() + count;
        let deadline = std::time::Instant::now() + limit;
        while self.good() < wanted {
            assert!(
                std::time::Instant::now() < deadline,
                "{} GETs of {count} were not answered within {limit:?}; failures: {:?}",
                wanted - self.good(),
                self.failures()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What went wrong so far.
    pub fn failures(&self) -> Vec<String> {
        self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the clients, after the answers they wait for.
    ///
    /// # Panics
    /// When any GET failed.
    #[track_caller]
    pub fn stop_without_failure(mut self, what: &str) {
        self.end();
        let failures = self.failures();
        println!("{what}: {} GETs, {} failed", self.good(), failures.len());
        assert!(
            failures.is_empty(),
            "{what}: {} of {} GETs failed: {:#?}",
            failures.len(),
            self.good() + failures.len(),
            &failures[..failures.len().min(10)]
        );
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

fn work(shared: &Shared, address: SocketAddr, connections: Connections) {
    let mut kept = None;
    while !shared.stop.load(Ordering::Acquire) {
        match get(&mut kept, address, connections) {
            Ok(body) => {
                shared.good.fetch_add(1, Ordering::AcqRel);
                let mut bodies = shared.bodies.lock().unwrap_or_else(PoisonError::into_inner);
                *bodies.entry(body).or_default() += 1;
            }
            Err(error) => {
                kept = None;
                let mut failures = shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push(format!("{error:#}"));
                drop(failures);
                // A server that is away for good must not make this loop hot.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// One GET; its body when the answer is 200.
///
/// # Errors
/// When there is no answer or another one.
pub fn get(
    kept: &mut Option<TcpStream>,
    address: SocketAddr,
    connections: Connections,
) -> Result<String> {
    let close = if connections == Connections::Closed { "Connection: close\r\n" } else { "" };
    let request = format!("GET /load HTTP/1.1\r\nHost: server\r\n{close}\r\n");
    let reused = kept.is_some();
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect_timeout(&address, wait::LIMIT).context("connect")?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            stream
        }
    };
    let outcome = exchange(&mut stream, request.as_bytes());
    let (head, body) = match outcome {
        // The end of an idle connection, noticed on use: every HTTP client tries again.
        Err(error) if reused && is_stale(&error) => return get(&mut None, address, connections),
        outcome => outcome?,
    };
    ensure!(head.starts_with("HTTP/1.1 200"), "{head}{body}");
    if connections == Connections::Kept && !head.to_lowercase().contains("connection: close") {
        *kept = Some(stream);
    }
    Ok(body)
}

/// Nothing of an answer has come: [`exchange`] says so with these errors only.
fn is_stale(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Stale>().is_some()
}

#[derive(Debug)]
struct Stale;

impl std::fmt::Display for Stale {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the connection ended before the answer")
    }
}

impl std::error::Error for Stale {}

/// One request, and its response: head and body.
///
/// # Errors
/// When there is no whole response.
pub fn exchange(stream: &mut TcpStream, request: &[u8]) -> Result<(String, String)> {
    use ErrorKind::{BrokenPipe, ConnectionReset};
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    match stream.write_all(request) {
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => bail!(Stale),
        written => written?,
    }
    loop {
        if let Some(at) = find(&answer, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&answer[..at + 4]).into_owned();
            let length = length(&head).with_context(|| format!("no length: {head}"))?;
            if answer.len() >= at + 4 + length {
                let body = String::from_utf8_lossy(&answer[at + 4..]).into_owned();
                return Ok((head, body));
            }
        }
        match stream.read(&mut piece) {
            Ok(0) if answer.is_empty() => bail!(Stale),
            Ok(0) => bail!("cut off after {:?}", String::from_utf8_lossy(&answer)),
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ConnectionReset && answer.is_empty() => bail!(Stale),
            Err(error) => bail!("{error} after {:?}", String::from_utf8_lossy(&answer)),
        }
    }
}

fn length(head: &str) -> Option<usize> {
    let head = head.to_lowercase();
    let line = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    line.trim().parse().ok()
}
