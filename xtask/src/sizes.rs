//! `cargo xtask sizes`: release binaries and dependency counts against `budgets.toml`, old beside new.

use crate::budgets::Budgets;
use crate::{command, fences};
use anyhow::{Context, Result, bail};
use std::fs;

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Builds, measures and prints; fails when something is over its budget.
pub(crate) fn run() -> Result<()> {
    let budgets = Budgets::read()?;
    let programs = budgets.section("program").context("budgets.toml has programs")?;
    eprintln!("building with all optimizations");
    command::run(&mut command::cargo(&["build", "--release"]))?;
    let directory = command::target_directory()?.join("release");
    let metadata = fences::metadata()?;
    let mut over = Vec::new();
    println!("{:<14} {:<14} {:>8} {:>8} {:>8}", "PROGRAM", "", "BEFORE", "NOW", "BUDGET");
    for (name, budget) in programs {
        let field = |field: &str| budgets.required(&format!("program.{name}"), field);
        let package = budget.get("package").and_then(toml::Value::as_str).unwrap_or(name);
        let bytes = fs::metadata(directory.join(name)).with_context(|| name.clone())?.len();
        let rows = [
            ("mebibytes", (bytes as f64 / MEBIBYTE * 100.0).round() / 100.0),
            ("dependencies", metadata.reached(package)?.len() as f64 - 1.0),
        ];
        for (what, now) in rows {
            let (before, budget) = (field(what)?, field(&format!("{what}_max"))?);
            println!("{name:<14} {what:<14} {before:>8} {now:>8} {budget:>8}");
            if now > budget {
                over.push(format!("{name}: {now} {what}, at most {budget}"));
            }
        }
    }
    if over.is_empty() {
        return Ok(());
    }
    bail!("over budget:\n{}", over.join("\n"))
}
