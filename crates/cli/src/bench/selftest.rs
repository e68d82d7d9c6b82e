//! `leno bench selftest`: the instrument measures what is known.

use crate::bench::EXIT_INVALID;
use crate::output;
use clap::Args as ClapArgs;
use leno_bench::selftest::{self, Parameters};
use leno_runtime::progress::{Left, Progress};
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Selftest {
    /// No progress
    #[arg(long)]
    quiet: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Selftest) -> anyhow::Result<ExitCode> {
    let progress = Progress::start(arguments.quiet, "starting", Left::Unknown);
    let checks = selftest::run(&Parameters::default(), |part, left| {
        progress.set(format!("measuring: {part}"), Left::About(left));
    })?;
    drop(progress);
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|check| {
            let verdict = if check.pass { "pass" } else { "FAIL" };
            vec![verdict.into(), check.name.clone(), check.expected.clone(), check.seen.clone()]
        })
        .collect();
    output::print(&output::table(&["RESULT", "WHAT", "EXPECTED", "SEEN"], &rows))?;
    let pass = checks.iter().all(|check| check.pass);
    Ok(if pass { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INVALID) })
}
