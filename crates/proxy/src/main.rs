//! `leno-proxy`: argv, then [`leno_proxy::app`]. No library reads the command line: there are four words to know.
#![forbid(unsafe_code)]

use leno_proxy::config::{self, Config, EXIT_CONFIGURATION, Raw};
use leno_proxy::{app, capture};
use leno_runtime::drain::Drained;
use leno_runtime::log;
use std::process::ExitCode;

const USAGE: &str = "usage: leno-proxy [--help | --version | capture print|apply|remove]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => run(),
        ["--version" | "-V"] => {
            println!("leno-proxy {}", leno_runtime::version!());
            ExitCode::SUCCESS
        }
        ["--help" | "-h"] => {
            println!("{USAGE}\n\nConfiguration, by environment:\n\n{}", config::help());
            ExitCode::SUCCESS
        }
        ["capture", verb @ ("print" | "apply" | "remove")] => capture(verb),
        _ => {
            eprintln!("leno-proxy: unknown arguments: {}\n{USAGE}", arguments.join(" "));
            ExitCode::from(EXIT_CONFIGURATION)
        }
    }
}

fn run() -> ExitCode {
    let config = match Config::parse(&Raw::from_environment()) {
        Ok(config) => config,
        Err(mistakes) => return mistaken(&mistakes),
    };
    let level = match log::start(&config.log, config.log_format) {
        Ok(level) => level,
        Err(mistake) => return mistaken(&[mistake]),
    };
    match app::run(config, level) {
        Ok(Drained::Complete) => ExitCode::SUCCESS,
        Ok(Drained::Cut(_)) => ExitCode::FAILURE,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn capture(verb: &str) -> ExitCode {
    if verb == "remove" {
        return done(capture::apply::remove());
    }
    let raw = Raw::from_environment();
    let settings = match config::capture_settings(&raw) {
        Ok(settings) => settings,
        Err(mistakes) => return mistaken(&mistakes),
    };
    if verb == "print" {
        print!("{}", capture::rules::ruleset(&settings));
        return ExitCode::SUCCESS;
    }
    done(capture::apply::refuse_host(&raw).and_then(|()| capture::apply::apply(&settings)))
}

fn done<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leno-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn mistaken(mistakes: &[String]) -> ExitCode {
    for mistake in mistakes {
        eprintln!("leno-proxy: {mistake}");
    }
    ExitCode::from(EXIT_CONFIGURATION)
}
