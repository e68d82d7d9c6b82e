//! Flags of the commands that ask the control plane one question.

use super::Format;
use super::home::ClusterFlags;
use clap::Args as ClapArgs;

/// A command with another meaning of a flag changes its help (`mut_arg`).
#[derive(Debug, ClapArgs)]
pub(crate) struct QuestionFlags {
    /// Namespace of names without one [default: in a cluster the namespace of the context, on one machine `default`]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}
