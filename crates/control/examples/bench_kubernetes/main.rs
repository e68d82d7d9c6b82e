//! What a control plane costs on a large cluster, and how soon a change arrives: `cargo xtask bench-kubernetes`.
//!
//! - [`crowd`]: pods, Services and slices in an API server, made without kubelets, and taken away again.
//! - [`control`]: the real program, beside us, and a subscriber like a proxy.
//!
//! Prints what was measured beside what was promised, and fails where a promise is broken. The API server is
//! that of KUBECONFIG; everything is made in namespaces `leno-bench-…`.
#![forbid(unsafe_code)]

mod control;
mod crowd;

use anyhow::{Context, Result, anyhow, ensure};
use control::{Control, Subscriber, Way};
use crowd::Crowd;
use leno_runtime::tasks;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Promised: resident memory with everything known.
const MEMORY_MIB_MAX: u64 = 150;
/// Promised: from the program's start until it is ready.
const READY_MAX: Duration = Duration::from_secs(5);
/// Promised: from the request that changes an endpoint until a subscriber has it, 99 of 100 times.
const ARRIVAL_MAX: Duration = Duration::from_millis(100);
/// Changes that are measured.
const CHANGES: u32 = 300;
/// Subscribers whose process stands still.
const FROZEN: usize = 50;
/// Proxies that read, and what each of them watches.
const PROXIES: usize = 50;
const STREAMS_PER_PROXY: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let binary = PathBuf::from(words.next().context("where is leno-control?")?);
    let mut number =
        || -> Result<Option<usize>> { Ok(words.next().map(|word| word.parse()).transpose()?) };
    let services = number()?.unwrap_or(1_000);
    let pods_per_service = number()?.unwrap_or(10);
    let client = leno_kube::of_person(None, None).await?;
    let crowd = Crowd { client, services, pods_per_service };
    let outcome = Box::pin(measure(&crowd, binary)).await;
    eprintln!("taking everything away …");
    crowd.remove().await?;
    outcome
}

async fn measure(crowd: &Crowd, binary: PathBuf) -> Result<()> {
    let began = Instant::now();
    eprintln!("making {} pods and {} Services …", crowd.pods(), crowd.services);
    crowd.make().await?;
    eprintln!("made in {:.0?}", began.elapsed());

    let control = Control::start(binary, crowd).await?;
    println!("pods {}, Services {}", crowd.pods(), crowd.services);
    println!(
        "ready after          {:8.2} s    promised {:8.2} s",
        control.ready.as_secs_f64(),
        READY_MAX.as_secs_f64()
    );
    let settled = control.memory_mib("VmRSS:")?;
    let _frozen = Frozen::new(control.way.clone()).await?;
    let mut reading = Vec::new();
    for proxy in 0..PROXIES {
        let mut client = control.way.connect().await?;
        for stream in 0..STREAMS_PER_PROXY {
            let service = (proxy * STREAMS_PER_PROXY + stream) % crowd.services;
            let subscriber = Subscriber::new(&mut client, service).await?;
            reading.push(tasks::spawn_owned("subscriber", subscriber.read()));
        }
    }
    let mut subscriber = Subscriber::new(&mut control.way.connect().await?, 0).await?;
    subscriber.expect(crowd.pods_per_service).await?;
    let mut arrivals = Vec::new();
    for number in 0..CHANGES {
        let ready = number % 2 == 1;
        let expected = crowd.pods_per_service - usize::from(!ready);
        let sent = Instant::now();
        let (changed, arrived) = tokio::join!(crowd.set_ready(0, ready), async {
            subscriber.expect(expected).await.map(|()| sent.elapsed())
        });
        changed?;
        arrivals.push(arrived?);
    }
    arrivals.sort();
    let quantile = |share: f64| arrivals[((arrivals.len() - 1) as f64 * share).round() as usize];
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    println!("a change arrives p50 {:8.1} ms", ms(quantile(0.5)));
    println!(
        "                 p99 {:8.1} ms   promised {:8.1} ms",
        ms(quantile(0.99)),
        ms(ARRIVAL_MAX)
    );
    println!(
        "                 max {:8.1} ms   ({CHANGES} changes, {} other streams, {FROZEN} subscribers that stand still)",
        ms(quantile(1.0)),
        PROXIES * STREAMS_PER_PROXY
    );
    let (memory, peak) = (control.memory_mib("VmRSS:")?, control.memory_mib("VmHWM:")?);
    println!("memory when ready    {settled:8} MiB");
    println!("memory at the end    {memory:8} MiB  promised {MEMORY_MIB_MAX:8} MiB");
    println!("memory at most       {peak:8} MiB");
    crowd.remove_pods().await?;
    control.expect_no_pod().await?;
    println!("memory without pods  {:8} MiB", control.memory_mib("VmRSS:")?);
    ensure!(control.ready <= READY_MAX, "it was ready too late");
    ensure!(settled.max(memory) <= MEMORY_MIB_MAX, "it needs too much memory");
    ensure!(quantile(0.99) <= ARRIVAL_MAX, "changes arrive too late");
    Ok(())
}

/// Subscribers on a thread that does nothing once they have subscribed: not even their sockets are read.
struct Frozen {
    /// Dropped before the thread is waited for.
    thaw: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Frozen {
    async fn new(way: Arc<Way>) -> Result<Self> {
        let (stand_still, still) = oneshot::channel();
        let (thaw, thawed) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let subscribed = runtime.block_on(async {
                let mut subscribed = Vec::new();
                for _ in 0..FROZEN {
                    subscribed.push(Subscriber::new(&mut way.connect().await?, 0).await?);
                }
                Ok::<_, anyhow::Error>(subscribed)
            })?;
            let _ = stand_still.send(());
            let _ = thawed.recv();
            drop(subscribed);
            Ok(())
        });
        let mut frozen = Self { thaw: Some(thaw), thread: Some(thread) };
        if still.await.is_err() {
            frozen.end()?; // The thread says why.
        }
        Ok(frozen)
    }

    fn end(&mut self) -> Result<()> {
        self.thaw = None;
        let outcome = self.thread.take().map(JoinHandle::join);
        outcome.map_or(Ok(()), |outcome| outcome.map_err(|_| anyhow!("it panicked"))?)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
