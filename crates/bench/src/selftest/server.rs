//! Servers of which is known what they do: they say themselves how long they took.

use crate::selftest::STEPS;
use anyhow::Context as _;
use leno_load::clock;
use leno_load::histogram::Histogram;
use leno_runtime::{random::Random, tasks};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Bytes of a request at most.
const REQUEST_BYTES_MAX: usize = 4096;

/// What a server does.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    /// Answers at once.
    Instant,
    /// Takes one of [`STEPS`] for each answer, at random.
    Steps,
    /// Answers at once, but stands still for some time after the first request.
    Stall {
        /// From the first request on.
        after: Duration,
        /// So long.
        length: Duration,
    },
}

/// A server on this machine; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Seen>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    took: Mutex<Histogram>,
    stood: AtomicU64,
}

impl Server {
    /// Listens and answers, in a thread of its own.
    ///
    /// # Errors
    /// There is no port or no thread.
    pub fn start(behaviour: Behaviour) -> anyhow::Result<Self> {
        let seen = Arc::new(Seen::default());
        let (end, ended) = oneshot::channel();
        let (listening, address) = mpsc::sync_channel(1);
        let shared = Arc::clone(&seen);
        let named = std::thread::Builder::new().name("selftest-server".into());
        let thread = named.spawn(move || {
            // Without a runtime or a port the other side sees that nothing is sent.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let Ok(listener) = TcpListener::bind("127.0.0.1:0").await else { return };
                if let Ok(address) = listener.local_addr()
                    && listening.send(address).is_ok()
                {
                    tokio::select! {
                        () = serve(listener, behaviour, shared) => {}
                        _ = ended => {}
                    }
                }
            });
        });
        let thread = thread.context("a thread")?;
        let address = address.recv().context("a port on 127.0.0.1")?;
        Ok(Self { address, seen, end: Some(end), thread: Some(thread) })
    }

    /// How long it took for each answer, by its own clock: from the request's last byte to the answer's first.
    #[must_use]
    pub fn told(&self) -> Histogram {
        self.seen.took.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long it stood still, by its own clock.
    #[must_use]
    pub fn stood(&self) -> Duration {
        Duration::from_nanos(self.seen.stood.load(Ordering::Relaxed))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ended = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, behaviour: Behaviour, seen: Arc<Seen>) {
    let random = Rc::new(Random::seeded(1));
    let first = Rc::new(tokio::sync::Notify::new());
    if let Behaviour::Stall { after, length } = behaviour {
        let (first, seen) = (Rc::clone(&first), Arc::clone(&seen));
        tasks::spawn_local("stall", async move {
            first.notified().await;
            tokio::time::sleep(after).await;
            let began = clock::now();
            // All of the server stands still: it has one thread.
            std::thread::sleep(length);
            seen.stood.store(clock::now() - began, Ordering::Relaxed);
        });
    }
    while let Ok((stream, _)) = listener.accept().await {
        let (random, seen, first) = (Rc::clone(&random), Arc::clone(&seen), Rc::clone(&first));
        tasks::spawn_local("connection", async move {
            // The client going away is how every connection ends.
            let _ended = answer(stream, behaviour, &random, &seen, &first).await;
        });
    }
}

async fn answer(
    mut stream: TcpStream,
    behaviour: Behaviour,
    random: &Random,
    seen: &Seen,
    first: &tokio::sync::Notify,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let mut length = 0;
    loop {
        let read = stream.read(&mut request[length..]).await?;
        if read == 0 {
            return Ok(());
        }
        length += read;
        if !request[..length].ends_with(b"\r\n\r\n") {
            continue;
        }
        let began = clock::now();
        length = 0;
        match behaviour {
            Behaviour::Instant => {}
            Behaviour::Stall { .. } => first.notify_one(),
            Behaviour::Steps => tokio::time::sleep(step(random.unit())).await,
        }
        let took = clock::now() - began;
        seen.took.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        stream.write_all(ANSWER).await?;
    }
}

/// The latency of the known distribution at this share.
fn step(share: f64) -> Duration {
    let mut sum = 0.0;
    let found = STEPS.iter().find(|(weight, _)| {
        sum += weight;
        share < sum
    });
    Duration::from_millis(found.unwrap_or(&STEPS[0]).1)
}
