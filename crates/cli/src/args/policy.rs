//! Flags of `leno policy`.

use super::Problems;
use super::home::ClusterFlags;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
pub(crate) struct AccessPolicy {
    #[command(subcommand)]
    pub(crate) verb: PolicyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// Print the least access policy that allows what reached the workloads of a namespace within the last hour
    Suggest(Suggest),
    /// Run a policy against what reached workloads within the last hour, and show what would be denied; exit code 0 nothing that passed, 1 something, 2 no answer
    Simulate(Simulate),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Suggest {
    /// Namespace of the workloads [default: in a cluster the namespace of the context, on one machine `default`]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Set new Servers to audit: they log what no rule admits, and deny nothing
    #[arg(long)]
    pub(crate) audit: bool,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: TreeFormat,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Simulate {
    /// Manifests: files, directories of *.yaml, *.yml and *.json, or - for standard input. Their objects take the place of those with the same names
    #[arg(short = 'f', long = "file", required = true, value_name = "PATH", num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// Namespace of the workloads [default: all]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Problems,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

/// Formats of what has no rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeFormat {
    /// Manifests for kubectl and `leno up`
    #[default]
    Yaml,
    /// Manifests and notes as one JSON object
    Json,
}
