//! `leno bench selftest`: the instrument measures what is known.

use crate::bench::EXIT_INVALID;
use crate::output;
use clap::Args as ClapArgs;
use leno_bench::selftest::{self, Parameters};
use std::process::ExitCode;

#[derive(Debug, ClapArgs)]
pub(crate) struct Selftest {}

/// Runs the verb.
pub(crate) fn run(_arguments: Selftest) -> anyhow::Result<ExitCode> {
    let checks = selftest::run(&Parameters::default())?;
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
