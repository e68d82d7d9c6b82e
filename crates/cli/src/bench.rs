//! `leno bench …`: one file per verb, each with its flags and what runs it. What they do is in crate `bench`.

pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod load;
mod on_cluster;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod selftest;
pub(crate) mod serve;
pub(crate) mod sidecar;

use clap::{Args as ClapArgs, Subcommand};

/// Exit code of a failed assertion.
#[allow(dead_code, reason = "`run` and `compare` use it once they are there")]
pub(crate) const EXIT_ASSERTION: u8 = 1;
#[allow(dead_code, reason = "every verb that measures uses it once it is there")]
/// Exit code of an invalid measurement.
pub(crate) const EXIT_INVALID: u8 = 2;
/// Exit code of wrong use, and of a machine that lacks something.
pub(crate) const EXIT_USAGE: u8 = 3;

/// Exit code after a signal.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

#[derive(Debug, ClapArgs)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) verb: BenchVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Send requests to a URL and print how long they took: HTTP/1.1, HTTP/2, gRPC, TCP
    Load(Box<load::Load>),
    /// Find the highest rate at which a URL meets the goals
    Search(Box<search::Search>),
    /// Check the load generator against known values
    Selftest(selftest::Selftest),
    /// Run a scenario: meshes, repetitions, events, assertions
    Run(run::Run),
    /// Examine whether a cluster is fit for a benchmark
    Doctor(doctor::Doctor),
    /// Print the changes between two results that are larger than their noise
    Compare(compare::Compare),
    /// Write the report of a result again
    Report(report::Report),
    /// Show finished and running results in a browser
    Serve(serve::Serve),
    /// Runs inside a pod instead of Leno's proxy
    #[command(hide = true)]
    Sidecar(sidecar::Sidecar),
}
