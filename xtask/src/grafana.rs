//! `cargo xtask grafana`: the dashboards for Grafana in `deploy/leno/dashboards/`, from the tables in this directory.
//!
//! The files are committed, because the chart carries them. CI checks that they are what the tables give.

mod control;
mod overview;
mod panel;
mod route;
mod workload;

use anyhow::{Result, ensure};
use panel::Dashboard;
use std::fs;
use std::path::Path;

const HOME: &str = "deploy/leno/dashboards";

/// Checks the dashboards, or writes them.
pub(crate) fn run(write: bool) -> Result<()> {
    for dashboard in all() {
        let path = Path::new(HOME).join(format!("{}.json", dashboard.uid));
        let text = format!("{:#}\n", dashboard.json());
        if write {
            fs::write(&path, text)?;
            continue;
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        ensure!(committed == text, "{} is stale: cargo xtask grafana write", path.display());
    }
    Ok(())
}

fn all() -> [Dashboard; 4] {
    [overview::dashboard(), workload::dashboard(), route::dashboard(), control::dashboard()]
}

#[cfg(test)]
mod tests;
