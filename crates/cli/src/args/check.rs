//! Flags of `leno check`.

use super::home::ClusterFlags;
use clap::{Args as ClapArgs, ValueEnum};
use leno_runtime::duration;
use std::time::Duration;

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Findings {
    /// All checks
    #[default]
    Table,
    /// Only warnings and errors
    Short,
    /// JSON for programs; docs/cli.md describes it
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Check whether the mesh can be installed in the cluster
    #[arg(long)]
    pub(crate) pre: bool,
    /// Also check every proxy
    #[arg(long, conflicts_with = "pre")]
    pub(crate) proxy: bool,
    /// Only pods of this namespace
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Findings,
    /// Repeat checks that can still pass, for at most this time: 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    pub(crate) wait: Duration,
    /// No progress while checks are repeated
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Check what this machine needs for `leno up`, also if a cluster is configured
    #[arg(long, conflicts_with_all = ["pre", "proxy", "namespace", "kubeconfig", "context", "user"])]
    pub(crate) machine: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

impl Check {
    /// Whether a flag means a cluster.
    pub(crate) fn means_cluster(&self) -> bool {
        self.pre || self.proxy || self.namespace.is_some() || self.cluster.are_given()
    }
}
