//! `leno bench load`: requests to one URL.

use clap::Args as ClapArgs;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Load {}

/// Runs the verb.
pub(crate) fn run(_arguments: Load) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`leno bench load` is not built yet")
}
