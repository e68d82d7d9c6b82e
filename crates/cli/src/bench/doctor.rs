//! `leno bench doctor`: whether a cluster is fit for a benchmark.

use crate::bench::EXIT_INVALID;
use crate::output;
use clap::Args as ClapArgs;
use leno_bench::cluster;
use leno_bench::cluster::doctor::{self, Verdict};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// Use this kubeconfig instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Image of generator and application [default: localhost/leno-bench:VERSION]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Nodes for load generators
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) generator_nodes: Vec<String>,
    /// Nodes for servers [default: all but those of generators]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) server_nodes: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Doctor) -> anyhow::Result<ExitCode> {
    let request = cluster::Request {
        kubeconfig: arguments.kubeconfig,
        context: arguments.context,
        image: arguments.image,
        generator_nodes: arguments.generator_nodes,
        server_nodes: arguments.server_nodes,
        keep: false,
    };
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
