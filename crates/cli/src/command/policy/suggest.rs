//! `leno policy suggest`: the least policy that allows what was seen.

use super::{minutes, warn_of_missing};
use crate::args::{Suggest, TreeFormat};
use crate::command::diagnostics::encoded;
use crate::command::explain::{ask, list};
use crate::home::Home;
use crate::output;
use serde_json::Value;
use std::path::Path;

pub(super) fn run(state_dir: Option<&Path>, wanted: &Suggest) -> anyhow::Result<()> {
    let home = Home::find(state_dir, &wanted.cluster)?;
    let namespace = wanted.namespace.as_deref().unwrap_or_else(|| home.namespace());
    let audit = if wanted.audit { "&audit=true" } else { "" };
    let answer =
        ask(&home, &format!("/diagnostics/suggest?namespace={}{audit}", encoded(namespace)))?;
    warn_of_missing(&answer);
    if wanted.output == TreeFormat::Json {
        return Ok(output::print(&format!("{answer:#}\n"))?);
    }
    for note in list(&answer["notes"]).iter().filter_map(Value::as_str) {
        eprintln!("leno: {note}");
    }
    Ok(output::print(&text(&answer))?)
}

fn text(answer: &Value) -> String {
    let namespace = answer["namespace"].as_str().unwrap_or_default();
    let reach = minutes(answer["reach_seconds"].as_u64().unwrap_or_default());
    match answer["yaml"].as_str().unwrap_or_default() {
        "" if answer["workloads"] == 0 => format!(
            "# Nothing reached a workload of namespace {namespace} in the last {reach}, as far as their proxies report.\n"
        ),
        "" => format!(
            "# The policies of namespace {namespace} admit everything that was seen in the last {reach}: no object is needed.\n"
        ),
        yaml => format!(
            "# The least policy that allows what reached the workloads of namespace {namespace} in the last {reach}.\n\
             # It denies clients that were not seen in this time: try it first with leno policy suggest --audit.\n{yaml}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn the_policy_says_what_it_is_made_of() {
        let check = |workloads: usize, yaml: &str, expected: &str| {
            let answer = json!({"namespace": "shop", "reach_seconds": 700, "workloads": workloads, "yaml": yaml});
            let found = super::text(&answer);
            assert!(found.contains(expected) && found.contains("12 minutes"), "{found}");
        };
        check(0, "", "# Nothing reached");
        check(1, "", "no object is needed");
        check(1, "kind: Server\n", "\nkind: Server\n");
    }
}
