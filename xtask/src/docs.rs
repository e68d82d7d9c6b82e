//! `cargo xtask docs`: the site, made of `docs/`, of the documents that it links to, and of pages that programs print.
//!
//! 1. [`links`] are checked. This needs no tool.
//! 2. [`printed`] makes the reference: a page for each verb, annotations, variables, errors. These pages are not stored, so they cannot be stale.
//! 3. [`stage`] copies all pages to one folder, and turns links between them.
//! 4. MkDocs makes the site, in an environment of its own below the build's directory (docs/decisions/0013-docs-site.md).

pub(crate) mod printed;
mod stage;
mod variables;

use crate::{command, links, prose, setup};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

const CONFIGURATION: &str = "docs/site/mkdocs.yml";
const REQUIREMENTS: &str = "docs/site/requirements.txt";

/// Builds the site.
///
/// # Errors
/// A link that leads nowhere, a program that is not built, or a failure of the tool.
pub(crate) fn run() -> Result<()> {
    links::check(&prose::files()?)?;
    let target = command::target_directory()?;
    let home = target.join("docs");
    let pages = printed::pages(&target.join("debug"))?;
    let staged = home.join("pages");
    if staged.exists() {
        fs::remove_dir_all(&staged)?;
    }
    stage::write(&staged, &pages)?;
    let configuration = fs::read_to_string(CONFIGURATION).context(CONFIGURATION)?;
    let there = |page: &str| staged.join(page).exists();
    fs::write(home.join("mkdocs.yml"), stage::navigation(&configuration, &pages, &there))?;
    let tool = tool(&target.join("mkdocs"))?;
    // The second line is a notice of the theme about a later version of the tool.
    command::step(
        Command::new(tool)
            .args(["build", "--strict", "--quiet", "--clean", "--config-file"])
            .arg(home.join("mkdocs.yml"))
            .env("NO_MKDOCS_2_WARNING", "1"),
    )?;
    eprintln!("\n{}", home.join("site/index.html").display());
    Ok(())
}

/// MkDocs, installed once for each list of versions.
fn tool(home: &Path) -> Result<std::path::PathBuf> {
    let wanted = fs::read_to_string(REQUIREMENTS).context(REQUIREMENTS)?;
    let mark = home.join("requirements.txt");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(home.join("bin/mkdocs"));
    }
    setup::environment(home, &["--requirement", REQUIREMENTS])?;
    fs::write(mark, wanted)?;
    Ok(home.join("bin/mkdocs"))
}
