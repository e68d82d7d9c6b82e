//! `cargo xtask demo`: bookinfo through the mesh, and what passed through it.
//!
//! Everything it starts is a child of `leno up`, which is a child of ours: it ends with us, whatever ends us,
//! and the machine is compared with what it was before.
//!
//! [`town`] is what runs, [`figures`] what the proxies counted and cost, [`page`] what is printed.

mod figures;
mod page;
pub(crate) mod town;

use crate::command::{self, is_root};
use crate::setup;
use anyhow::{Context, Result, bail};
use figures::Figures;
use std::path::{Path, PathBuf};
use std::time::Instant;
use town::Town;

/// What is built: the programs that run, and this one, since other packages would be other features, and dependencies would be compiled twice.
/// The Makefile has the same list.
const PACKAGES: [&str; 5] = ["xtask", "leno-cli", "leno-control", "leno-proxy", "leno-testapp"];

/// Requests a second, each of which makes three or four hops.
const RATE: u32 = 200;
const SECONDS: u32 = 10;

/// Builds the programs, unless `make demo` has; runs, shows and removes it all.
pub(crate) fn run(profile: &str, built: bool) -> Result<()> {
    setup::demo()?;
    if !is_root() {
        bail!(
            "pods are network namespaces, and making those takes root. Run\n\n    sudo make demo\n"
        );
    }
    let target = command::target_directory()?;
    let directory = target.join(if profile == "dev" { "debug" } else { profile });
    if !built {
        let mut build = command::cargo(&["build", "--locked", "--profile", profile]);
        build.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        command::run(build.env("LENO_COMMIT", command::commit()))?;
    }

    let began = Instant::now();
    let town = Town::start(&directory.join("leno"), &place(&target.join("demo-state")))?;
    page::started(&town);
    let pods = town.pods()?;
    let before = Figures::read(&town, &pods)?;
    page::driving(RATE, SECONDS);
    let load = town.load(RATE, SECONDS)?;
    let after = Figures::read(&town, &pods)?;
    let traffic = after.since(&before);
    page::load(&load);
    page::hops(&traffic);
    page::costs(&traffic);
    let left = town.end().context("ending the mesh")?;
    page::ended(&left, began.elapsed());
    if !left.is_empty() {
        bail!("the machine is not what it was before");
    }
    if load.failed > 0 {
        bail!("{} of {} requests failed", load.failed, load.sent);
    }
    Ok(())
}

/// A directory that no other demo uses; those of demos that were killed are removed.
fn place(demos: &Path) -> PathBuf {
    for demo in std::fs::read_dir(demos).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(demo.file_name()).exists() {
            drop(std::fs::remove_dir_all(demo.path()));
        }
    }
    demos.join(std::process::id().to_string())
}
