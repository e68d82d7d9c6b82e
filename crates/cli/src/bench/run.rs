//! `leno bench run`: a scenario from its file to its report.

use super::on_cluster::BenchCluster;
use clap::Args as ClapArgs;
use leno_bench::cluster;
use leno_bench::run::{self, Request};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// A scenario file, or the name of one in ./scenarios or beside this program: quick, buoyant-2021-small, …
    pub(crate) scenario: PathBuf,
    /// Meshes to measure: none,leno,envoy,haproxy,nginx,linkerd=/path/to/linkerd2-proxy; on a cluster
    /// none,leno,linkerd,istio-sidecar,istio-ambient,istio-waypoint,cilium,kuma, a file, or `installed`
    /// [default: those of the file]
    #[arg(long, value_name = "LIST")]
    pub(crate) mesh: Option<String>,
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
    /// Print the plan and its duration, on a cluster also the manifests, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, and no line for each repetition
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) cluster: OnCluster,
}

/// Where on a cluster, and with what.
#[derive(Debug, ClapArgs)]
pub(crate) struct OnCluster {
    #[command(flatten)]
    pub(crate) flags: BenchCluster,
    /// Keep the namespaces
    #[arg(long, help_heading = "Cluster")]
    pub(crate) keep: bool,
}

impl OnCluster {
    /// Nothing where no cluster is meant.
    fn request(self) -> anyhow::Result<Option<cluster::Request>> {
        if self.flags.is_cluster() {
            return Ok(Some(self.flags.request(self.keep)));
        }
        anyhow::ensure!(
            !self.flags.are_details_given() && !self.keep,
            "--image, --generator-nodes, --server-nodes and --keep need --kubeconfig or --context"
        );
        Ok(None)
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (0.001..=100.0).contains(factor));
    factor.ok_or_else(|| "the value must be a number from 0.001 to 100".to_owned())
}

/// Runs the verb.
pub(crate) fn run(arguments: Run) -> anyhow::Result<ExitCode> {
    run::run(&Request {
        scenario: arguments.scenario,
        meshes: arguments.mesh,
        cluster: arguments.cluster.request()?,
        out: arguments.out,
        blocks: arguments.blocks.map(usize::from),
        seed: arguments.seed,
        quick: arguments.quick,
        dry_run: arguments.dry_run,
        json: arguments.json,
        quiet: arguments.quiet,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    })
}
