//! Flags of `leno describe`.

use super::question::QuestionFlags;
use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(
    mut_arg("namespace", |flag| flag.help("Namespace of the object")),
    mut_arg("output", |flag| flag.help("Output format: json, yaml, otherwise text"))
)]
pub(crate) struct Describe {
    /// pod/web-1, deploy/web (one of its pods), svc/web, or route/split for an HTTPRoute or GRPCRoute on a Service
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) flags: QuestionFlags,
}
