//! `leno bench run`: a scenario from its file to its report.

use clap::Args as ClapArgs;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {}

/// Runs the verb.
pub(crate) fn run(_arguments: Run) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`leno bench run` is not built yet")
}
