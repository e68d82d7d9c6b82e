//! Flags of `leno policy`.

use super::home::ClusterFlags;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(crate) struct AccessPolicy {
    #[command(subcommand)]
    pub(crate) verb: PolicyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// Print the least access policy that allows what reached the workloads of a namespace within the last hour
    Suggest(Suggest),
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

/// Formats of what has no rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeFormat {
    /// Manifests for kubectl and `leno up`
    #[default]
    Yaml,
    /// Manifests and notes as one JSON object
    Json,
}
