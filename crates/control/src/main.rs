//! Entry point: arguments to exit code.
#![forbid(unsafe_code)]

use clap::Parser;
use leno_control::app;
use leno_control::args::{Args, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Run(run) => app::run(&run).map(|()| ExitCode::SUCCESS),
        Command::IssueToken(issue) => app::issue_token(&issue).map(|token| {
            println!("{token}");
            ExitCode::SUCCESS
        }),
        Command::Check(check) => {
            let problems = app::check(&check);
            problems.iter().for_each(|problem| println!("{problem}"));
            Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("leno-control: {error:#}");
        ExitCode::FAILURE
    })
}
