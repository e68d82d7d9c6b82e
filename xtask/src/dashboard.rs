//! `cargo xtask dashboard`: whether the committed bundle of the page of `leno dashboard` is what its sources give.
//!
//! Building `leno` needs no npm, because the bundle is in the repository. Without npm the check compares the digest of the sources with
//! the digest in the bundle. With npm it also checks types, builds the bundle again, compares it byte for byte, and tests the page.

use crate::command;
use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOME: &str = "dashboard";
const BUNDLE: &str = "dashboard/bundle";
/// File of the bundle with the digest of the sources.
const DIGEST: &str = "sources.sha256";
/// What the bundle is made of, besides `src/`.
const SOURCES: [&str; 3] = ["build.mjs", "package.json", "package-lock.json"];

/// Checks the bundle, or writes it.
pub(crate) fn run(write: bool) -> Result<()> {
    let has_npm = command::succeeds(Command::new("npm").arg("--version"));
    if write {
        ensure!(has_npm, "npm is missing: apt-get install npm");
        install()?;
        command::step(&mut npm(&["run", "--silent", "build"]))?;
        fs::write(Path::new(BUNDLE).join(DIGEST), digest()?)?;
        return Ok(());
    }
    let written = fs::read_to_string(Path::new(BUNDLE).join(DIGEST)).unwrap_or_default();
    if written != digest()? {
        bail!("{BUNDLE} is stale: cargo xtask dashboard write");
    }
    if !has_npm {
        eprintln!(
            "{BUNDLE} has the digest of its sources; npm is missing, so it is not built again"
        );
        return Ok(());
    }
    install()?;
    command::step(&mut npm(&["run", "--silent", "check"]))?;
    let again = command::target_directory()?.join(HOME);
    command::step(npm(&["run", "--silent", "build", "--"]).arg(&again))?;
    compare(&again)?;
    command::step(&mut npm(&["test", "--silent"]))
}

/// Exactly what the lock file names; no package runs a script.
fn install() -> Result<()> {
    command::step(&mut npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))
}

fn npm(words: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(words).current_dir(HOME);
    npm
}

/// Compares every built file with the committed one.
fn compare(again: &Path) -> Result<()> {
    for entry in fs::read_dir(again)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let committed = Path::new(BUNDLE).join(name);
        let same = fs::read(&committed).ok() == Some(fs::read(&path)?);
        ensure!(same, "{} is stale: cargo xtask dashboard write", committed.display());
    }
    eprintln!("{BUNDLE} is fresh");
    Ok(())
}

/// SHA-256 of names and contents, in the order of names.
fn digest() -> Result<String> {
    let mut files: Vec<PathBuf> = SOURCES.iter().map(|name| Path::new(HOME).join(name)).collect();
    for entry in fs::read_dir(Path::new(HOME).join("src"))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut all = Sha256::new();
    for path in files {
        let content = fs::read(&path).with_context(|| path.display().to_string())?;
        all.update(path.to_string_lossy().as_bytes());
        all.update(content.len().to_le_bytes());
        all.update(content);
    }
    let mut text = String::new();
    for byte in all.finalize() {
        write!(text, "{byte:02x}")?;
    }
    Ok(format!("{text}\n"))
}
