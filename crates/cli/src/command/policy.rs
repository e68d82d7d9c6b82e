//! `leno policy`: access policy from what the record has.

mod simulate;
mod suggest;

use crate::args::{AccessPolicy, PolicyVerb};
use crate::command::explain::list;
use serde_json::Value;
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

/// Names replicas of the control plane whose record is missing in an answer.
pub(super) fn warn_of_missing(answer: &Value) {
    missing(answer).iter().for_each(|line| eprintln!("leno: {line}"));
}

fn missing(answer: &Value) -> Vec<String> {
    let of = |one: &Value| {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        format!("the record of {} is missing: {}", text("replica"), text("reason"))
    };
    list(&answer["missing"]).iter().map(of).collect()
}

/// `12 minutes`, of seconds.
fn minutes(seconds: u64) -> String {
    match seconds.div_ceil(60) {
        0 | 1 => "minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn replicas_that_do_not_answer_are_named() {
        let reason = "it did not answer within 2 s";
        let answer = json!({"missing": [{"replica": "leno-control-abc", "reason": reason}]});
        let expected = "the record of leno-control-abc is missing: it did not answer within 2 s";
        assert_eq!(super::missing(&answer), [expected]);
        assert!(super::missing(&json!({"missing": []})).is_empty());
    }
}
