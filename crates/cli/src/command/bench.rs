//! `leno bench …`: forwards to the verb, and turns its errors into the exit code that the bench promises.

use crate::bench::{
    BenchVerb, EXIT_USAGE, compare, doctor, load, report, run, search, selftest, serve, sidecar,
};
use crate::output;
use std::process::ExitCode;

/// Runs the verb. An error is wrong use or a machine that lacks something: everything that was measured is in a result.
pub(super) fn run(verb: BenchVerb) -> anyhow::Result<ExitCode> {
    let done = match verb {
        BenchVerb::Load(arguments) => load::run(&arguments),
        BenchVerb::Search(arguments) => search::run(&arguments),
        BenchVerb::Selftest(arguments) => selftest::run(arguments),
        BenchVerb::Run(arguments) => run::run(arguments),
        BenchVerb::Doctor(arguments) => doctor::run(arguments),
        BenchVerb::Compare(arguments) => compare::run(arguments),
        BenchVerb::Report(arguments) => report::run(arguments),
        BenchVerb::Serve(arguments) => serve::run(arguments),
        BenchVerb::Sidecar(arguments) => sidecar::run(arguments),
    };
    match done {
        Err(error) if !output::is_broken_pipe(&error) => {
            eprintln!("leno: {error:#}");
            Ok(ExitCode::from(EXIT_USAGE))
        }
        done => done,
    }
}
