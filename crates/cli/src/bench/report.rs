//! `leno bench report`: the report of a result, again.

use clap::Args as ClapArgs;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Report {}

/// Runs the verb.
pub(crate) fn run(_arguments: Report) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`leno bench report` is not built yet")
}
