//! `leno`, the operator's hand: parse, run, exit code.

#![forbid(unsafe_code)]

mod args;
mod command;
mod output;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The stages between `leno up` and a pod's programs are this program too; they come before anything else.
    let arguments: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    if let Some(code) = leno_up::stage::run(&arguments) {
        return code;
    }
    let args = args::Args::parse();
    match command::run(args) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leno: {error:#}");
            ExitCode::FAILURE
        }
    }
}
