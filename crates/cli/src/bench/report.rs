//! `leno bench report`: the report of a result, again.

use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Report {
    /// The result's directory, or its `result.json`
    result: PathBuf,
}

/// Writes `report.html`, `report.md` and `summary.csv` beside the result, and names them.
pub(crate) fn run(arguments: Report) -> anyhow::Result<ExitCode> {
    for path in leno_bench::report::again(&arguments.result)? {
        crate::output::print(&format!("{}\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
