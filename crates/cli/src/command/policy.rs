//! `leno policy`: access policy from what the record has.

mod suggest;

use crate::args::{AccessPolicy, PolicyVerb};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(state_dir: Option<&Path>, wanted: &AccessPolicy) -> anyhow::Result<ExitCode> {
    match &wanted.verb {
        PolicyVerb::Suggest(wanted) => suggest::run(state_dir, wanted)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// `12 minutes`, of seconds.
fn minutes(seconds: u64) -> String {
    match seconds.div_ceil(60) {
        0 | 1 => "minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}
