//! Flags of `leno describe`.

use super::Format;
use super::home::ClusterFlags;
use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Describe {
    /// pod/web-1, deploy/web (one of its pods), svc/web, or route/split for an HTTPRoute or GRPCRoute on a Service
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) target: Vec<String>,
    /// Namespace of the object
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Output format: json, yaml, otherwise text
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}
