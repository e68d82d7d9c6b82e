//! `leno policy`: access policy from what the record has.

mod simulate;
mod suggest;

use crate::args::{AccessPolicy, PolicyVerb};
use crate::home::Home;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(state_dir: Option<&Path>, wanted: &AccessPolicy) -> anyhow::Result<ExitCode> {
    match &wanted.verb {
        PolicyVerb::Suggest(wanted) => {
            suggest::run(state_dir, wanted)?;
            Ok(ExitCode::SUCCESS)
        }
        PolicyVerb::Simulate(wanted) => Ok(simulate::run(state_dir, wanted)),
    }
}

/// Says that the record of one replica is a part of the whole.
fn warn_of_replicas(home: &Home) -> anyhow::Result<()> {
    let replicas = home.replicas()?;
    if replicas > 1 {
        eprintln!(
            "leno: the control plane has {replicas} replicas; this is the record of one of them, which lacks what other replicas received"
        );
    }
    Ok(())
}

/// `12 minutes`, of seconds.
fn minutes(seconds: u64) -> String {
    match seconds.div_ceil(60) {
        0 | 1 => "minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}
