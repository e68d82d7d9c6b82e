//! `leno bench sidecar`: what runs inside of a pod in the place of Leno's proxy.

use anyhow::Context;
use clap::Args as ClapArgs;
use leno_bench::mesh::sidecar::{self, Peer, Wanted};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Sidecar {
    /// Whose proxy: haproxy, nginx, envoy, linkerd; or `become`, which turns into the command as the proxy's user
    pub(crate) peer: String,
    /// The real proxy
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
    /// Where the certificate authority of the bed is
    #[arg(long, value_name = "DIR")]
    pub(crate) authority: Option<PathBuf>,
    /// What to become
    #[arg(last = true)]
    pub(crate) command: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Sidecar) -> anyhow::Result<ExitCode> {
    if arguments.peer == "become" {
        match sidecar::become_program(&arguments.command)? {}
    }
    let own = std::env::current_exe().context("this program's own path")?;
    let own = own.display().to_string();
    let wanted = Wanted {
        peer: arguments.peer.parse::<Peer>().map_err(anyhow::Error::msg)?,
        program: arguments.program.context("--program is missing: the program to run")?,
        authority: arguments.authority.unwrap_or_default(),
        become_command: [&own, "bench", "sidecar", "become", "--"].map(str::to_owned).to_vec(),
    };
    sidecar::run(&wanted)?;
    Ok(ExitCode::SUCCESS)
}
