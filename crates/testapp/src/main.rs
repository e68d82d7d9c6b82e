//! The service node of every example and scenario: it answers, waits, calls others and fails as its plan says.
//!
//! Read [`plan`] first (what a call does), then [`http`], [`grpc`], [`tcp`] and [`udp`] (how it is spoken), [`call`] (what goes out),
//! [`remote`] (how it is changed while running). One thread, as it shares its cores with what is measured.

#![forbid(unsafe_code)]

mod args;
mod call;
mod drive;
mod executor;
mod grpc;
mod http;
mod node;
mod places;
mod plan;
mod remote;
mod serve;
mod tcp;
mod udp;

use args::{Arguments, Verb};
use clap::Parser;
use leno_runtime::drain::Drained;
use leno_runtime::log;
use std::io::Write;
use std::process::ExitCode;
use tokio::runtime::{LocalOptions, LocalRuntime};

/// The configuration is wrong (EX_USAGE).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &error.to_string()),
    };
    let code = match arguments.verb {
        Some(Verb::Client(client)) => match runtime.block_on(drive::run(client)) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => fail(1, &format!("{error:#}")),
        },
        None => serve(&runtime, arguments.serve),
    };
    // A name that is still being looked up must not hold the process.
    runtime.shutdown_background();
    code
}

fn serve(runtime: &LocalRuntime, serve: args::Serve) -> ExitCode {
    if let Err(error) = log::start(&serve.log, log::Format::Plain) {
        return fail(EXIT_USAGE, &error);
    }
    let plan = match serve.plan.read() {
        Ok(plan) => plan,
        Err(wrong) => return fail(EXIT_USAGE, &wrong.join("\nleno-worker: plan: ")),
    };
    match runtime.block_on(serve::run(serve, plan)) {
        Ok(Drained::Complete) => ExitCode::SUCCESS,
        Ok(Drained::Cut(open)) => fail(1, &format!("{open} connections cut at the limit")),
        Err(error) => fail(1, &format!("{error:#}")),
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    // Whoever read our stderr may be gone; the exit code still tells.
    let _unheard = writeln!(std::io::stderr(), "leno-worker: {message}");
    ExitCode::from(code)
}
