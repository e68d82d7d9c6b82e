//! Flags of `leno authz`.

use super::question::QuestionFlags;
use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(mut_arg("namespace", |flag| flag.help(
    "Namespace of a name without one [default: in a cluster the namespace of the context, on one machine `default`]"
)))]
pub(crate) struct Authz {
    /// deploy/NAME, sts/NAME, pod/NAME or the name of a pod; NAMESPACE/ may come before
    pub(crate) workload: String,
    #[command(flatten)]
    pub(crate) flags: QuestionFlags,
}
