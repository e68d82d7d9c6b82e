//! `leno bench compare`: what changed between two results.

use clap::Args as ClapArgs;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Compare {}

/// Runs the verb.
pub(crate) fn run(_arguments: Compare) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`leno bench compare` is not built yet")
}
