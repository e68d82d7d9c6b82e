//! `leno bench run`: a scenario from its file to its report.

use clap::Args as ClapArgs;
use leno_bench::mesh::{self, Choice};
use leno_bench::run::{self, Request};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// A scenario file, or the name of one in ./scenarios or beside this program: quick, buoyant-2021-small, …
    pub(crate) scenario: PathBuf,
    /// Meshes to measure: none,leno,envoy,haproxy,nginx,linkerd=/path/to/linkerd2-proxy [default: those of the file]
    #[arg(long, value_name = "LIST", value_parser = meshes)]
    pub(crate) mesh: Option<Meshes>,
    /// Directory for the result [default: results/TIME-NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Number of repetitions, instead of the file's
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) blocks: Option<u16>,
    /// Seed of order and arrivals, instead of the file's
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Multiply every time and every number of requests by this factor: 0.1 for a quick look
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(crate) quick: Option<f64>,
    /// Print the plan and its duration, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A whole `--mesh`; a type of its own, as a `Vec` would be a repeated flag to clap.
#[derive(Clone, Debug)]
pub(crate) struct Meshes(Vec<Choice>);

fn meshes(text: &str) -> Result<Meshes, String> {
    mesh::choices(text).map(Meshes).map_err(|mistakes| mistakes.join("; "))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (0.001..=100.0).contains(factor));
    factor.ok_or_else(|| "the value must be a number from 0.001 to 100".to_owned())
}

/// Runs the verb.
pub(crate) fn run(arguments: Run) -> anyhow::Result<ExitCode> {
    run::run(&Request {
        scenario: arguments.scenario,
        meshes: arguments.mesh.map(|meshes| meshes.0).unwrap_or_default(),
        out: arguments.out,
        blocks: arguments.blocks.map(usize::from),
        seed: arguments.seed,
        quick: arguments.quick,
        dry_run: arguments.dry_run,
        json: arguments.json,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    })
}
