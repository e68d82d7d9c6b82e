//! `cargo xtask bench-quick`: what a pair of proxies costs, in three minutes, beside a pair of HAProxys.
//!
//! Three beds of the same shape run side by side (client pod, node, server pod with nginx): without
//! proxies, with Leno, with HAProxy. They take turns, block by block, so that a busy minute of the machine
//! meets all of them; ratios are formed within a block, and their median and range are what to quote.
//!
//! This is a look, not the instrument: `leno bench` is. It prints and does not judge: the exit code is 0 over
//! budget too, and 1 when something did not work.
//!
//! [`beds`] is what runs, [`load`] what drives it, [`figures`] what is made of it.

use anyhow::{Context as _, Result, bail};
use beds::Bed;
use figures::{Block, Report};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod beds;
mod figures;
mod load;

/// How often every bed has its turn under each load.
const BLOCKS: usize = 5;
/// How long a turn is: 3 beds × 3 loads × 5 blocks × 3 s = 135 s.
const TURN: Duration = Duration::from_secs(3);
/// Client connections kept alive under load.
const CONNECTIONS: usize = 32;
/// Client connections kept idle, after as many as bring every pool and buffer to life.
const IDLE_CONNECTIONS: usize = 1000;
const WARM_CONNECTIONS: usize = 100;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Measures and prints. `--no-build` takes the release binaries as they are.
///
/// # Errors
/// When something did not work; being over budget is none.
pub(crate) fn run() -> Result<()> {
    leno_tests::binaries::require_root()?;
    leave_on_interrupt()?;
    // 1,100 connections in each bed, all ends of them on this machine.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this runs in target/<profile>")?;
    let release = target.join("release");
    if !std::env::args().any(|argument| argument == "--no-build") {
        build()?;
    }
    leno_tests::binaries::use_profile(release.clone());

    let mut report = Report::new(&release.join("leno-proxy"))?;
    let mut beds = [beds::direct()?, beds::leno()?, beds::haproxy()?];
    for bed in &mut beds {
        eprintln!("{}: idle, and {IDLE_CONNECTIONS} connections", bed.name);
        report.memory.push(memory(bed)?);
    }
    for bed in &mut beds {
        warm(bed)?;
    }
    let loads: [(&str, Option<u32>); 3] =
        [("saturated", None), ("at 2,000/s", Some(2000)), ("at 500/s", Some(500))];
    for number in 0..BLOCKS {
        for (name, rate) in loads {
            eprintln!("block {} of {BLOCKS}, {name}", number + 1);
            let mut turns = Vec::new();
            for at in 0..beds.len() {
                // Whoever comes first in one block comes last in another.
                let bed = (at + number) % beds.len();
                turns.push((bed, turn(&mut beds[bed], rate)?));
            }
            turns.sort_by_key(|(bed, _)| *bed);
            let turns = turns.into_iter().map(|(_, turn)| turn).collect();
            report.blocks.push(Block { load: name, turns });
        }
    }
    report.after_load = beds.iter().map(Bed::resident).collect::<Result<_>>()?;
    drop(beds);
    print!("{}", report.table(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../budgets.toml"))?);
    Ok(())
}

fn build() -> Result<()> {
    let words = ["build", "--release", "--package", "leno-proxy", "--package", "leno-control"];
    crate::command::run(&mut crate::command::cargo(&words)).context("the release build")
}

/// Memory of the pair, in KiB.
struct Memory {
    /// Of each proxy, before any traffic.
    idle: Vec<u64>,
    /// What each proxy grew by for one more idle client connection.
    each: Vec<f64>,
}

fn memory(bed: &Bed) -> Result<Memory> {
    // What starting up left behind is given back or not within this time.
    std::thread::sleep(Duration::from_secs(1));
    let idle = bed.resident()?;
    let warm = load::open(bed, WARM_CONNECTIONS)?;
    let before = bed.resident()?;
    let connections = load::open(bed, IDLE_CONNECTIONS)?;
    let after = bed.resident()?;
    drop((warm, connections));
    let grown = before.iter().zip(&after);
    let each =
        grown.map(|(before, after)| after.saturating_sub(*before) as f64 / IDLE_CONNECTIONS as f64);
    Ok(Memory { idle, each: each.collect() })
}

/// A second of load nobody counts, and proof that what is measured is what is meant.
fn warm(bed: &mut Bed) -> Result<()> {
    load::saturate(bed, Duration::from_secs(1))?;
    bed.connections = load::open(bed, CONNECTIONS)?;
    bed.check()
}

/// What one bed did in one turn.
struct Turn {
    /// Per request, in microseconds, of each proxy: the client's, then the server's.
    cpu: Vec<f64>,
    /// Answers per second.
    rate: f64,
    /// p50 and p99 in microseconds, from when a request was due; where the rate is fixed.
    latency: Option<[f64; 2]>,
}

fn turn(bed: &mut Bed, rate: Option<u32>) -> Result<Turn> {
    if INTERRUPTED.load(Ordering::Acquire) {
        bail!("interrupted");
    }
    let before = bed.cpu()?;
    let driven = match rate {
        None => load::saturate(bed, TURN)?,
        Some(rate) => load::pace(bed, rate, TURN)?,
    };
    let after = bed.cpu()?;
    let spent = before.iter().zip(&after).map(|(before, after)| after.saturating_sub(*before));
    let cpu = spent.map(|spent| spent.as_secs_f64() * 1e6 / driven.answers as f64);
    Ok(Turn {
        cpu: cpu.collect(),
        rate: driven.answers as f64 / driven.seconds,
        latency: driven.latency,
    })
}

/// Ctrl-C ends the run at the next turn, in order; a second one at once. Nothing but files would be
/// left either way: namespaces are anonymous, and programs die with this process.
fn leave_on_interrupt() -> Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            if INTERRUPTED.swap(true, Ordering::AcqRel) {
                std::process::exit(130);
            }
            eprintln!("interrupted: cleaning up");
        }
    });
    Ok(())
}
