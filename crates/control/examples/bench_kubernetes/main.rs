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

use anyhow::{Context, Result, ensure};
use control::Control;
use crowd::Crowd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Promised: resident memory with everything known.
const MEMORY_MIB_MAX: u64 = 150;
/// Promised: from the program's start until it is ready.
const READY_MAX: Duration = Duration::from_secs(5);
/// Promised: from the request that changes an endpoint until a subscriber has it, 99 of 100 times.
const ARRIVAL_MAX: Duration = Duration::from_millis(100);
/// Changes that are measured.
const CHANGES: u32 = 300;
/// Subscribers that never read.
const FROZEN: usize = 50;

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
    let mut frozen = Vec::new();
    for _ in 0..FROZEN {
        frozen.push(control.subscribe(0).await?);
    }
    let mut subscriber = control.subscribe(0).await?;
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
        "                 max {:8.1} ms   ({CHANGES} changes, {FROZEN} subscribers that do not read)",
        ms(quantile(1.0))
    );
    let (memory, peak) = (control.memory_mib("VmRSS:")?, control.memory_mib("VmHWM:")?);
    println!("memory when ready    {settled:8} MiB");
    println!("memory at the end    {memory:8} MiB  promised {MEMORY_MIB_MAX:8} MiB");
    println!("memory at most       {peak:8} MiB");
    ensure!(control.ready <= READY_MAX, "it was ready too late");
    ensure!(settled.max(memory) <= MEMORY_MIB_MAX, "it needs too much memory");
    ensure!(quantile(0.99) <= ARRIVAL_MAX, "changes arrive too late");
    Ok(())
}
