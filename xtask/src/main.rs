//! Everything that would be a shell script: `cargo xtask VERB`.
//!
//! - [`ci`]: every check and every test, as `make test` and the machine that guards `main` run them.
//! - [`chart`]: what `leno install` renders, beside what Helm renders.
//! - [`cluster`]: the mesh on a real Kubernetes, as `make test-cluster` runs it.
//! - [`conformance`]: the Gateway API's own suite on a cluster.
//! - [`grafana`]: dashboards for Grafana, from tables.
//! - [`dashboard`]: the page of `leno dashboard`, and whether its bundle is fresh.
//! - [`demo`]: bookinfo through the mesh, with what passed through and what it cost.
//! - [`setup`]: the Debian packages and cargo tools that those need, installed where missing.
//! - [`fences`]: what no crate may reach, licences, duplicates, import circles, the map.
//! - `bench`: what was promised of CPU, latency and memory, beside the peers, against `budgets.toml`.
//! - `instructions`: what a request costs a proxy, in instructions, against `budgets.toml`.
//! - [`sizes`]: binaries and dependency counts against `budgets.toml`.
//! - [`docs`]: the site of the documentation.
//! - [`links`]: links between documents.
//! - [`pages`]: documents that are printed by programs, and whether they are fresh.
//! - [`pictures`]: pictures of the dashboard for the documents.
//! - [`prose`]: plain words in comments, documents and texts for operators.
//! - [`images`]: container images, made without a container engine.
//! - [`release`]: what a version is published as.
//! - [`fuzz`]: every fuzz target for a while.
//!
//! [`command`] is how all of them run other programs, [`budgets`] how they read and write `budgets.toml`, [`rust`] how they read source.

#![forbid(unsafe_code)]

#[cfg(feature = "bench")]
mod bench;
mod budgets;
mod chart;
mod ci;
mod cluster;
mod command;
mod conformance;
mod dashboard;
mod demo;
mod docs;
mod fences;
mod fuzz;
mod grafana;
mod images;
#[cfg(feature = "bench")]
mod instructions;
mod links;
mod pages;
mod pictures;
mod prose;
mod release;
mod rust;
mod setup;
mod sizes;

use anyhow::{Result, bail};
use std::process::ExitCode;

const VERBS: &str = "\
cargo xtask ci            every check and every test
cargo xtask test-cluster  the mesh on a real Kubernetes: KUBECONFIG's, or one that is booted
cargo xtask chart         what leno install renders, beside what Helm renders
cargo xtask conformance   the Gateway API's own suite for meshes, on the same cluster
cargo xtask dashboard [write] the bundle of the page of leno dashboard: check and test it, or write it again
cargo xtask grafana [write] the dashboards for Grafana: check that they are fresh, or write them again
cargo xtask demo          bookinfo through the mesh (--dev: with the everyday build, at once)
cargo xtask setup [test]  install what the demo (the tests) needs and this machine lacks
cargo xtask fences        dependencies, licences, import circles, paths in ARCHITECTURE.md
cargo xtask prose         plain words and links of documents: no more findings than xtask/prose.toml allows (--list [PATH], --write)
cargo xtask docs          the site of docs/ in target/docs/site, with its links checked
cargo xtask sizes         release binaries and dependency counts against budgets.toml
cargo xtask pages [write] pages printed by programs: check them, or write them again
cargo xtask pictures      pictures of the dashboard in docs/images, made anew (as root)
cargo xtask release       archives, Debian package, images, SBOM and checksums in target/dist (--check-reproducible: twice)
cargo xtask images        container images as archives (--out DIR, --profile PROFILE, --libc glibc|musl)
cargo xtask fuzz [SECS]   every fuzz target, 30 s each unless said
cargo xtask instructions  instructions per request of each proxy (--annotate: where they are)
cargo xtask bench         what was promised, measured beside the peers, against budgets.toml
cargo xtask bench-kubernetes  the control plane with 10,000 pods in KUBECONFIG's API server, against what was promised
cargo xtask bench-quick   the same in short, beside HAProxy alone
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// These drive the whole-mesh tests' ground, which is much to compile for all other verbs.
#[cfg(not(feature = "bench"))]
fn measure(words: &[&str]) -> Result<()> {
    setup::test()?;
    let run = ["run", "--quiet", "--package", "xtask", "--features", "bench", "--"];
    command::run(&mut command::cargo_as_we_are(&[&run, words].concat()))
}

/// The release's program, driven by an example of its crate, which is built as `make test` builds things.
fn bench_kubernetes(words: &[&str]) -> Result<()> {
    let release = ["build", "--locked", "--release", "--bin", "leno-control"];
    command::step(&mut command::cargo(&release))?;
    let example = ["build", "--locked", "--workspace", "--all-features", "--example"];
    command::step(&mut command::cargo(&[&example[..], &["bench_kubernetes"]].concat()))?;
    let built = command::target_directory()?;
    let mut example = std::process::Command::new(built.join("debug/examples/bench_kubernetes"));
    command::step(example.arg(built.join("release/leno-control")).args(words))
}

fn run(words: &[&str]) -> Result<()> {
    // Relative paths everywhere below are relative to the project.
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))?;
    match words {
        ["ci"] => ci::run(),
        ["test-cluster", rest @ ..] => cluster::run(rest),
        ["chart"] => chart::run(),
        ["conformance", rest @ ..] => conformance::run(rest),
        ["dashboard"] => dashboard::run(false),
        ["dashboard", "write"] => dashboard::run(true),
        ["grafana"] => grafana::run(false),
        ["grafana", "write"] => grafana::run(true),
        ["demo"] => demo::run("demo", false),
        ["demo", "--built"] => demo::run("demo", true),
        ["demo", "--dev"] => demo::run("dev", false),
        ["setup"] => setup::demo(),
        ["setup", "test"] => setup::test(),
        #[cfg(feature = "bench")]
        [verb @ ("bench" | "bench-quick"), rest @ ..] => bench::run(verb, rest),
        #[cfg(feature = "bench")]
        ["instructions", rest @ ..] => instructions::run(rest),
        #[cfg(not(feature = "bench"))]
        ["bench" | "bench-quick" | "instructions", ..] => measure(words),
        ["bench-kubernetes", rest @ ..] => bench_kubernetes(rest),
        ["fences"] => fences::run(),
        ["prose", rest @ ..] => prose::run(rest),
        ["docs"] => docs::run(),
        ["sizes"] => sizes::run(),
        ["pictures"] => pictures::run(),
        ["pages"] => pages::run(false),
        ["pages", "write"] => pages::run(true),
        ["images", rest @ ..] => images::run(rest),
        ["release", rest @ ..] => release::run(rest),
        ["fuzz"] => fuzz::run(30),
        ["fuzz", seconds] => fuzz::run(seconds.parse()?),
        _ => bail!("what should be done?\n\n{VERBS}"),
    }
}
