//! `cargo xtask bench`: what was promised of Leno's data path, measured beside its peers, against `budgets.toml`.
//!
//! `leno bench` is the instrument, with its scenarios `quick`, `steady`, `large-bodies-small` and `tcp-small`; memory is measured in [`beds`]
//! of two pods. `bench-quick` is the short form: beside HAProxy alone, without the longer steady rates, bodies and TCP.
//!
//! [`rows`] is what was promised and whether it holds, [`results`] what `leno bench` left, [`memory`] what is measured here,
//! [`table`] what a person reads.

use crate::budgets::Budgets;
use crate::budgets::draft::Draft;
use crate::command;
use anyhow::{Context as _, Result, bail, ensure};
use memory::Memory;
use nix::sys::signal::{SigSet, Signal};
use results::Results;
use rows::{Measured, ROWS, Verdict};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use table::Line;

mod beds;
mod memory;
mod results;
mod rows;
mod table;

/// What `leno bench` ends with when assertions fail (which are ours to judge), and when a measurement is invalid.
const EXIT_ASSERTION: i32 = 1;
const EXIT_INVALID: i32 = 2;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What was asked for on the command line.
#[derive(Default)]
struct Request {
    /// Beside HAProxy alone, without the longer steady rates, bodies and TCP.
    short: bool,
    /// Takes the release binaries as they are.
    no_build: bool,
    /// Notes what is measured as the new figures.
    write: bool,
    /// For `leno bench run`: multiplies every time, for a look.
    quick: Option<String>,
}

impl Request {
    fn parse(verb: &str, words: &[&str]) -> Result<Self> {
        let mut request = Self { short: verb == "bench-quick", ..Self::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--no-build" => request.no_build = true,
                "--write" => request.write = true,
                "--quick" => {
                    let factor = words.next().context("--quick is followed by a factor, as 0.2")?;
                    request.quick = Some((*factor).to_owned());
                }
                word => bail!("{word}? cargo xtask {verb} [--write] [--no-build] [--quick FACTOR]"),
            }
        }
        // A look is no figure to be remembered.
        ensure!(!(request.write && request.quick.is_some()), "--write takes the whole measurement");
        Ok(request)
    }
}

/// Measures, prints and judges.
///
/// # Errors
/// When something that must be is not, could not be measured, or something did not work.
pub(crate) fn run(verb: &str, words: &[&str]) -> Result<()> {
    let request = Request::parse(verb, words)?;
    leno_tests::binaries::require_root()?;
    leave_on_interrupt()?;
    let release = command::target_directory()?.join("release");
    if !request.no_build {
        // The default members: all four programs.
        command::step(&mut command::cargo(&["build", "--locked", "--release"]))?;
    }
    leno_tests::binaries::use_profile(release.clone());
    let leno = release.join("leno");
    let meshes = meshes(&leno, request.short)?;
    let (all, memories) = measure(&request, &release, &meshes)?;
    let budgets = Budgets::read()?;
    let asked = ROWS.iter().filter(|row| row.is_asked(&meshes, request.short));
    let lines: Vec<Line> = asked
        .map(|row| Line { row, budget: row.budget(&budgets), measured: row.measured(&all) })
        .collect();
    println!("\n{}", table::promises(&lines));
    println!("{}", table::memory(&memories));
    if request.write {
        note(&lines)?;
    }
    verdict(&lines)
}

/// Those that are installed, and a line about each that is not.
fn meshes(leno: &Path, short: bool) -> Result<Vec<&'static str>> {
    let peers: &[&str] = if short { &["haproxy"] } else { &["envoy", "haproxy"] };
    let mut meshes = vec!["none", "leno"];
    for peer in peers {
        let mut look = Command::new(leno);
        look.args(["bench", "run", "scenarios/quick.yaml", "--dry-run", "--mesh", peer]);
        let said = command::output(&mut look)?;
        match said.lines().find(|line| line.starts_with("cannot be done")) {
            Some(missing) => eprintln!("left out: {missing}"),
            None => meshes.push(peer),
        }
    }
    Ok(meshes)
}

fn measure(
    request: &Request,
    release: &Path,
    meshes: &[&str],
) -> Result<(Measured, Vec<(&'static str, Memory)>)> {
    let mut all = Measured::default();
    let binary = std::fs::metadata(release.join("leno-proxy"))?;
    all.binary = Some(binary.len() as f64 / 1024.0 / 1024.0);
    let mut memories = Vec::new();
    eprintln!("\nmemory of leno and its control plane");
    let bed = beds::leno()?;
    all.control = Some(memory::control(&bed)?);
    let leno = memory::of(&bed)?;
    all.memory = Some(leno);
    memories.push(("leno", leno));
    drop(bed);
    if meshes.contains(&"haproxy") {
        eprintln!("memory of haproxy");
        memories.push(("haproxy", memory::of(&beds::haproxy()?)?));
    }
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let out = PathBuf::from(format!("results/bench-{began}"));
    let run =
        |scenario: &str, meshes: &[&str]| run_scenario(request, release, &out, scenario, meshes);
    all.quick = Some(run("quick", meshes)?);
    if !request.short {
        all.steady = Some(run("steady", meshes)?);
        let few: Vec<&str> = meshes.iter().copied().filter(|mesh| *mesh != "envoy").collect();
        all.bodies = Some(run("large-bodies-small", &few)?);
        all.tcp = Some(run("tcp-small", &few)?);
    }
    Ok((all, memories))
}

fn run_scenario(
    request: &Request,
    release: &Path,
    out: &Path,
    scenario: &str,
    meshes: &[&str],
) -> Result<Results> {
    let out = out.join(scenario);
    let mut bench = Command::new(release.join("leno"));
    bench.args([
        "bench",
        "run",
        &format!("scenarios/{scenario}.yaml"),
        "--mesh",
        &meshes.join(","),
    ]);
    bench.arg("--out").arg(&out);
    if let Some(factor) = &request.quick {
        bench.args(["--quick", factor]);
    }
    eprintln!("\n+ {}", command::shown(&bench));
    let status = bench.status().context("leno")?;
    ensure!(!INTERRUPTED.load(Ordering::Acquire), "interrupted");
    let has_results = matches!(status.code(), Some(0 | EXIT_ASSERTION | EXIT_INVALID));
    ensure!(has_results, "{} ended with {status}", command::shown(&bench));
    let results = Results::read(&out)?;
    for complaint in results.complaints() {
        eprintln!("{scenario}: {complaint}");
    }
    Ok(results)
}

/// Notes what was measured as the last figures.
fn note(lines: &[Line]) -> Result<()> {
    let mut draft = Draft::read()?;
    for Line { row, measured, .. } in lines {
        if let Some(measured) = measured {
            draft.set(row.section, row.last_key(), measured.value, row.digits)?;
        }
    }
    draft.save()
}

/// Fails when something that must be is not, or is not known.
fn verdict(lines: &[Line]) -> Result<()> {
    let those = |verdict| -> Vec<&str> {
        let lines = lines.iter().filter(|line| line.verdict() == verdict);
        lines.map(|line| line.row.what).collect()
    };
    let (missed, unknown) = (those(Verdict::Missed), those(Verdict::Unknown));
    ensure!(missed.is_empty(), "over budget: {}", missed.join("; "));
    ensure!(unknown.is_empty(), "could not be measured: {}", unknown.join("; "));
    println!("Everything is what it must be.");
    Ok(())
}

/// Ctrl-C ends the run in order, after `leno bench` has cleaned up behind itself; a second one at once. Of our own,
/// namespaces are anonymous, and programs die with this process.
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
