//! `leno bench doctor`: whether a cluster is fit for a benchmark.

use super::on_cluster::BenchCluster;
use crate::bench::EXIT_INVALID;
use crate::output;
use clap::Args as ClapArgs;
use leno_bench::cluster::doctor::{self, Verdict};
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) cluster: BenchCluster,
}

/// Runs the verb.
pub(crate) fn run(arguments: Doctor) -> anyhow::Result<ExitCode> {
    let request = arguments.cluster.request(false);
    let found = doctor::examine(&request, env!("CARGO_PKG_VERSION"))?;
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|one| {
            let verdict = match one.verdict {
                Verdict::Fit => "fit",
                Verdict::Doubt => "doubt",
                Verdict::Unfit => "UNFIT",
            };
            vec![verdict.to_owned(), one.what.clone(), one.seen.clone()]
        })
        .collect();
    output::print(&output::table(&["RESULT", "WHAT", "SEEN"], &rows))?;
    let is_unfit = found.iter().any(|one| one.verdict == Verdict::Unfit);
    Ok(if is_unfit { ExitCode::from(EXIT_INVALID) } else { ExitCode::SUCCESS })
}
