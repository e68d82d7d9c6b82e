//! The comparison for what is not a byte script: named lists of lines, direct beside meshed.

use std::collections::BTreeMap;

/// What was seen, by case.
pub type Events = BTreeMap<String, Vec<String>>;

/// The cases in which both differ, each with both lists.
pub fn differences(direct: &Events, meshed: &Events) -> Vec<String> {
    let mut names: Vec<&String> = direct.keys().chain(meshed.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| direct.get(*name) != meshed.get(*name))
        .map(|name| {
            let show = |events: &Events| match events.get(name) {
                Some(lines) => lines.iter().map(|line| format!("    {}\n", short(line))).collect(),
                None => String::from("    did not run\n"),
            };
            format!("{name}\n  direct\n{}  meshed\n{}", show(direct), show(meshed))
        })
        .collect()
}

/// A line of a bearable length.
fn short(line: &str) -> String {
    line.chars().take(400).collect()
}
