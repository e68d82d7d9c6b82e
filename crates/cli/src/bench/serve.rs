//! `leno bench serve`: results in a browser.

use clap::Args as ClapArgs;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {}

/// Runs the verb.
pub(crate) fn run(_arguments: Serve) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`leno bench serve` is not built yet")
}
