//! `leno bench selftest`: the instrument measures what is known.

use clap::Args as ClapArgs;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Selftest {}

/// Runs the verb.
pub(crate) fn run(_arguments: Selftest) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`leno bench selftest` is not built yet")
}
