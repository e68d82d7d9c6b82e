//! `leno bench sidecar`: what runs inside of a pod in the place of Leno's proxy.

use clap::Args as ClapArgs;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Sidecar {}

/// Runs the verb.
pub(crate) fn run(_arguments: Sidecar) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`leno bench sidecar` is not built yet")
}
