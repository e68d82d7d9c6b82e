//! Entry point: arguments to exit code.
#![forbid(unsafe_code)]

use clap::{CommandFactory as _, FromArgMatches as _};
use leno_control::app;
use leno_control::args::{Args, Command};
use std::process::ExitCode;
use std::sync::LazyLock;

/// Here and not in the library, which would be compiled again for every commit.
static VERSION: LazyLock<String> = LazyLock::new(|| leno_runtime::version!().to_string());

fn main() -> ExitCode {
    let matches = Args::command().version(VERSION.as_str()).get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match args.command {
        Command::Run(run) => app::run(&run).map(|()| ExitCode::SUCCESS),
        Command::IssueToken(issue) => app::issue_token(&issue).map(|token| {
            println!("{token}");
            ExitCode::SUCCESS
        }),
        Command::Check(check) if check.output.is_some() => {
            let problems = app::check_json(&check);
            println!("{problems}");
            let is_well = problems.as_array().is_none_or(Vec::is_empty);
            Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
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
