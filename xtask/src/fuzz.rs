//! `cargo xtask fuzz`: every fuzz target for a while, from the seeds that the tables of the tests give.

use crate::{command, setup};
use anyhow::{Result, bail};

/// Runs them all; the first finding ends it.
pub(crate) fn run(seconds: u32) -> Result<()> {
    if !command::succeeds(&mut rustup(&["run", "nightly", "rustc", "--version"])) {
        let nightly = ["toolchain", "install", "nightly", "--profile", "minimal"];
        command::step(&mut rustup(&nightly))?;
    }
    if !command::succeeds(&mut command::cargo(&["fuzz", "--version"])) {
        eprintln!("\ncargo-fuzz runs the targets and is missing; building it takes about a minute");
        setup::tool("cargo-fuzz", &[])?;
    }
    let seeds = ["run", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--example", "seeds"];
    command::step(&mut command::cargo(&seeds))?;
    let list = command::output(&mut rustup(&["run", "nightly", "cargo", "fuzz", "list"]))?;
    let limit = format!("-max_total_time={seconds}");
    let mut count = 0;
    for target in list.split_whitespace() {
        let words = ["run", "nightly", "cargo", "fuzz", "run", target, "--"];
        command::step(rustup(&words).args([&limit, "-verbosity=0", "-print_final_stats=1"]))?;
        count += 1;
    }
    if count == 0 {
        bail!("there are no fuzz targets");
    }
    eprintln!("\n{count} fuzz targets, {seconds} s each, no finding.");
    Ok(())
}

fn rustup(words: &[&str]) -> std::process::Command {
    command::as_owner("rustup", words)
}
