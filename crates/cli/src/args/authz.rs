//! Flags of `leno authz`.

use super::Format;
use super::home::ClusterFlags;
use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Authz {
    /// deploy/NAME, sts/NAME, pod/NAME or the name of a pod; NAMESPACE/ may come before
    pub(crate) workload: String,
    /// Namespace of a name without one [default: in a cluster the namespace of the context, on one machine `default`]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}
