//! What is measured, as a file says it: `scenarios/*.yaml` to plain values, and every mistake in the file at once.
//!
//! Pure: no socket, no clock. `docs/scenarios.md` is the description for people. What becomes of it is [`crate::run`].

pub mod load;
pub mod phases;
mod reader;
pub mod rules;
pub mod timeline;
pub mod topology;
pub mod units;

use leno_up::manifest::document::Document;
use load::{Load, Rate};
use phases::Phases;
use reader::{Fields, Mistakes, Node};
use rules::{Assertion, Discard, Published, Repeat, Validity};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use timeline::Entry;
use topology::Topology;

/// What every file begins with.
pub const API_VERSION: &str = "leno-bench/v1";

/// One scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its file's name, without the ending.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// Which studies it reproduces.
    pub sources: Vec<String>,
    /// What differs from the study, and why.
    pub notes: Vec<String>,
    /// What runs.
    pub topology: Topology,
    /// Meshes that are measured where the command line names none.
    pub meshes: Vec<String>,
    /// What is asked of it.
    pub loads: Vec<Load>,
    /// What is done to it.
    pub timeline: Vec<Entry>,
    /// Repetitions and order.
    pub repeat: Repeat,
    /// What may be left out.
    pub discard: Discard,
    /// What makes a repetition worthless.
    pub validity: Validity,
    /// What must hold.
    pub assertions: Vec<Assertion>,
    /// What was published.
    pub published: Published,
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The field, dotted; empty when it is about the whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: ", self.file.display(), self.line)?;
        if !self.field.is_empty() {
            write!(out, "{}: ", self.field)?;
        }
        write!(out, "{}", self.message)
    }
}

/// Reads a scenario's text. `file` is what mistakes name, and its stem must be the scenario's id.
///
/// # Errors
/// Every mistake in it.
pub fn parse(file: &Path, text: &str) -> Result<Scenario, Vec<Mistake>> {
    let mistake = |line, field: &str, message: String| Mistake {
        file: file.to_owned(),
        line,
        field: field.to_owned(),
        message,
    };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line() as usize);
        let message = error.without_snippet().to_string();
        vec![mistake(line, "", message.lines().next().unwrap_or_default().to_owned())]
    })?;
    let wrong = Mistakes::default();
    let scenario = read(&Node::root(&value, &wrong), file);
    let document = Document { text, first_line: 1 };
    let found = wrong.all();
    match scenario {
        Some(scenario) if found.is_empty() => Ok(scenario),
        _ => Err(found
            .into_iter()
            .map(|(field, message)| mistake(document.line_of(&field), &field, message))
            .collect()),
    }
}

fn read(root: &Node<'_>, file: &Path) -> Option<Scenario> {
    let fields = root.fields(&[
        "apiVersion",
        "kind",
        "metadata",
        "topology",
        "meshes",
        "phases",
        "loads",
        "timeline",
        "plan",
        "discard",
        "validity",
        "assert",
        "published",
    ]);
    fields.needed("apiVersion").and_then(|node| node.one_of(&[(API_VERSION, ())]));
    fields.needed("kind").and_then(|node| node.one_of(&[("Scenario", ())]));
    let about = fields.needed("metadata").map(|node| {
        let fields = node.fields(&["id", "title", "sources", "notes"]);
        let text = |name| fields.needed(name).and_then(|node| node.text()).unwrap_or_default();
        let texts = |name| fields.get(name).map(|n| topology::texts(&n)).unwrap_or_default();
        let id = text("id");
        if file.file_stem().is_some_and(|stem| stem.to_string_lossy() != id) {
            fields.wrong(format!("id: {id:?} is not the file's name"));
        }
        (id, text("title"), texts("sources"), texts("notes"))
    });
    let topology = fields.needed("topology").map(|node| Topology::read(&node));
    let phases = fields.get("phases").map(|node| Phases::read(&node)).unwrap_or_default();
    let client = topology.as_ref().map_or("client", |topology| topology.client.as_str());
    let loads = fields.needed("loads").map(|node| node.list()).unwrap_or_default();
    let loads: Vec<Load> =
        loads.iter().filter_map(|node| Load::read(node, client, &phases)).collect();
    let each = |name| fields.get(name).map(|node| node.list()).unwrap_or_default();
    let repeat = fields.get("plan").map(|node| Repeat::read(&node)).unwrap_or_default();
    let scenario = Scenario {
        topology: topology.unwrap_or_default(),
        meshes: fields.needed("meshes").map(|node| meshes(&node)).unwrap_or_default(),
        timeline: each("timeline").iter().filter_map(Entry::read).collect(),
        discard: fields
            .get("discard")
            .map(|node| Discard::read(&node, repeat.blocks))
            .unwrap_or_default(),
        validity: fields.get("validity").map(|node| Validity::read(&node)).unwrap_or_default(),
        assertions: each("assert").iter().filter_map(Assertion::read).collect(),
        published: fields.get("published").map(|n| Published::read(&n)).unwrap_or_default(),
        repeat,
        loads,
        id: String::new(),
        title: String::new(),
        sources: Vec::new(),
        notes: Vec::new(),
    };
    check(&scenario, &fields);
    let (id, title, sources, notes) = about?;
    Some(Scenario { id, title, sources, notes, ..scenario })
}

/// Names of meshes; which exist is for `mesh` to say, so that a file may name one that this machine lacks.
fn meshes(node: &Node<'_>) -> Vec<String> {
    let names = topology::texts(node);
    let known = ["none", "leno", "envoy", "haproxy", "nginx", "linkerd"];
    let mut seen = BTreeSet::new();
    for name in &names {
        if !known.contains(&name.as_str()) {
            node.wrong(format!("{name:?} is none of {}", known.join(", ")));
        }
        if !seen.insert(name) {
            node.wrong(format!("{name} is named twice"));
        }
    }
    names
}

/// What no single field can be blamed for.
fn check(scenario: &Scenario, fields: &Fields<'_>) {
    let mut earlier: BTreeSet<&str> = BTreeSet::new();
    for load in &scenario.loads {
        for rate in &load.rates {
            if let Rate::Share { load: of, share } = rate {
                if !earlier.contains(of.as_str()) {
                    fields.wrong(format!(
                        "loads: {}: rate: no earlier load is named {of}",
                        load.name
                    ));
                }
                if *share <= 0.0 || *share > 1.0 {
                    fields.wrong(format!(
                        "loads: {}: rate: share {share} is not within 0 and 1",
                        load.name
                    ));
                }
            }
        }
        if !earlier.insert(&load.name) {
            fields.wrong(format!("loads: {} is named twice", load.name));
        }
    }
    let named = scenario.assertions.iter().flat_map(|assertion| &assertion.loads);
    let figures = scenario.published.figures.iter().map(|figure| &figure.load);
    for name in named.chain(figures).filter(|name| !earlier.contains(name.as_str())) {
        fields.wrong(format!("no load is named {name}"));
    }
    if let Some(entry) = scenario.timeline.iter().find(|entry| {
        let loads = scenario.loads.iter().filter(|load| load.timeline && load.requests.is_none());
        loads.clone().count() > 0 && loads.clone().all(|load| entry.at > load.phases.measure)
    }) {
        fields.wrong(format!(
            "timeline: {} at {} is after the end of every load",
            entry.action.kind(),
            units::spoken(entry.at)
        ));
    }
}

#[cfg(test)]
mod tests;
