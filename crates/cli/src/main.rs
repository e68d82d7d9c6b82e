//! `leno`, the operator's hand: parse, run, exit code.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod command;
mod dashboard;
mod home;
mod output;

use clap::FromArgMatches;
use nix::sys::signal::SigSet;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Signals that our parent has blocked would be blocked for us and for everything that we start: Ctrl-C would be waited for in vain.
    let _as_it_was = SigSet::all().thread_unblock();
    // The stages between `leno up` and a pod's programs are this program too; they come before anything else.
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments: Vec<String> =
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(code) = leno_up::stage::run(&arguments) {
        return code;
    }
    args::Color::of_words(words.iter().map(AsRef::as_ref)).apply();
    let spoken = match bench::load::familiar::translate(words) {
        Ok(spoken) => spoken,
        Err(error) => {
            eprintln!("leno: {error}");
            return ExitCode::from(bench::EXIT_USAGE);
        }
    };
    spoken.left_out.iter().for_each(|word| eprintln!("leno: {word}"));
    let matches = args::command().try_get_matches_from(args::without_arrows(spoken.words));
    let args = match matches.and_then(|matches| args::Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        // Of `leno bench`, 2 says that a measurement is invalid.
        Err(error)
            if error.use_stderr() && arguments.iter().skip(1).any(|word| word == "bench") =>
        {
            // Nothing can be done about a closed standard error.
            let _printed = error.print();
            return ExitCode::from(bench::EXIT_USAGE);
        }
        Err(error) => {
            // Nothing can be done about a closed standard error.
            let _printed = error.print();
            if let Some(tip) = args::tip(&arguments, error.kind()) {
                eprintln!("\n  tip: {tip}");
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
        }
    };
    match command::run(args) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("{}: {error:#}", output::failed("leno"));
            ExitCode::FAILURE
        }
    }
}
