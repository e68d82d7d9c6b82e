//! What is measured, as a file says it: `scenarios/*.yaml` to plain values, and every mistake in the file at once.
//!
//! Pure: no socket, no clock. `docs/scenarios.md` is the description for people. What becomes of it is [`crate::run`].

pub mod known;
pub mod load;
pub mod phases;
pub(crate) mod reader;
pub mod rules;
pub mod timeline;
mod together;
pub mod topology;
pub mod units;
pub mod windows;

use crate::mesh::Kind;
use known::Known;
use leno_manifest::{Unreadable, line_of};
use load::Load;
use phases::Phases;
use reader::{Mistakes, Node};
use rules::{Assertion, Discard, Published, Repeat, Validity};
use std::fmt;
use std::path::{Path, PathBuf};
use timeline::Entry;
use topology::Topology;
use windows::Window;

/// What every file begins with.
pub const API_VERSION: &str = "leno-bench/v1";

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
    /// Parts of the measured phase that have figures of their own.
    pub windows: Vec<Window>,
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

impl Scenario {
    /// Whether results have figures of windows: where the file has some, or counts what reaches servers.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        !self.windows.is_empty() || !self.topology.counted.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1, if the file is not YAML.
    pub column: Option<usize>,
    /// The field, dotted; empty when it is about the whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file.display(), self.line)?;
        if let Some(column) = self.column {
            write!(out, ":{column}")?;
        }
        write!(out, ": ")?;
        if !self.field.is_empty() {
            write!(out, "{}: ", self.field)?;
        }
        write!(out, "{}", self.message)
    }
}

/// Reads a scenario's text. `file` is what mistakes name, and its stem must be the scenario's id.
///
/// # Errors
/// Every mistake in it, in the order of lines.
pub fn parse(file: &Path, text: &str) -> Result<Scenario, Vec<Mistake>> {
    parse_with(file, text, None)
}

/// What reads a topology's manifests.
pub type Look<'a> = &'a dyn Fn(&Topology) -> Known;

/// The same; with `look`, names of workloads and Services must be those of the manifests, too.
///
/// # Errors
/// Every mistake in it, in the order of lines.
pub fn parse_with(
    file: &Path,
    text: &str,
    look: Option<Look<'_>>,
) -> Result<Scenario, Vec<Mistake>> {
    let value = leno_manifest::read(text).map_err(|Unreadable { line, column, message }| {
        let field = String::new();
        vec![Mistake { file: file.to_owned(), line, column: Some(column), field, message }]
    })?;
    let wrong = Mistakes::default();
    let scenario = read(&Node::root(&value, &wrong), file, look);
    let found = wrong.all();
    match scenario {
        Some(scenario) if found.is_empty() => Ok(scenario),
        _ => Err(placed(file, text, found)),
    }
}

/// Fields of a file and what is wrong with them, as mistakes in the order of lines.
#[must_use]
pub fn placed(file: &Path, text: &str, found: Vec<(String, String)>) -> Vec<Mistake> {
    let place = |(field, message): (String, String)| Mistake {
        file: file.to_owned(),
        line: 1 + line_of(text, &field),
        column: None,
        field,
        message,
    };
    let mut mistakes: Vec<Mistake> = found.into_iter().map(place).collect();
    mistakes.sort_by_key(|mistake| mistake.line);
    mistakes
}

fn read(root: &Node<'_>, file: &Path, look: Option<Look<'_>>) -> Option<Scenario> {
    let fields = root.fields(&[
        "apiVersion",
        "kind",
        "metadata",
        "topology",
        "meshes",
        "phases",
        "loads",
        "timeline",
        "windows",
        "plan",
        "discard",
        "validity",
        "assert",
        "published",
    ]);
    fields.needed("apiVersion").and_then(|node| node.one_of(&[(API_VERSION, ())]));
    fields.needed("kind").and_then(|node| node.one_of(&[("Scenario", ())]));
    let metadata = fields.needed("metadata").map(|node| about(&node, file));
    let mut known = None;
    let topology = fields.needed("topology").map(|node| {
        let topology = Topology::read(&node);
        let found = look.map(|look| look(&topology));
        known = found.and_then(|found| together::topology(&node, &topology, found));
        topology
    });
    let topology = topology.unwrap_or_default();
    let known = known.as_ref();
    let phases = fields.get("phases").map(|node| Phases::read(&node)).unwrap_or_default();
    let loads = fields.needed("loads").map(|node| node.some()).unwrap_or_default();
    let loads = together::loads(&loads, &topology, &phases, known);
    let each = |name| fields.get(name).map(|node| node.list()).unwrap_or_default();
    let timeline = together::timeline(&each("timeline"), &loads, known);
    let windows = fields.get("windows").map(|node| together::windows(&node, &loads));
    let windows = windows.unwrap_or_default();
    let repeat = fields.get("plan").map(|node| Repeat::read(&node)).unwrap_or_default();
    let discard = fields.get("discard").map(|node| Discard::read(&node, repeat.blocks));
    let beside = |node: &Node<'_>, figure: &rules::Figure| together::figure(node, figure, &loads);
    let published = fields.get("published").map(|node| Published::read(&node, &beside));
    let meshes = fields.needed("meshes").map(|node| meshes(&node)).unwrap_or_default();
    let about = together::About {
        loads: &loads,
        timeline: &timeline,
        windows: &windows,
        topology: &topology,
    };
    let assertions = together::assertions(&each("assert"), &about);
    let validity = fields.get("validity").map(|node| Validity::read(&node)).unwrap_or_default();
    let (id, title, sources, notes) = metadata?;
    Some(Scenario {
        id,
        title,
        sources,
        notes,
        meshes,
        assertions,
        validity,
        discard: discard.unwrap_or_default(),
        published: published.unwrap_or_default(),
        topology,
        timeline,
        windows,
        repeat,
        loads,
    })
}

/// Id, title, sources and notes.
type About = (String, String, Vec<String>, Vec<String>);

fn about(node: &Node<'_>, file: &Path) -> About {
    let fields = node.fields(&["id", "title", "sources", "notes"]);
    let text = |name| fields.needed(name).and_then(|node| node.text()).unwrap_or_default();
    let texts = |name| fields.get(name).map(|n| topology::texts(&n)).unwrap_or_default();
    let id = text("id");
    if !id.is_empty() && file.file_stem().is_some_and(|stem| stem.to_string_lossy() != id) {
        node.wrong_in("id", format!("{id:?} is not the file's name"));
    }
    (id, text("title"), texts("sources"), texts("notes"))
}

/// Names of meshes; which exist is for `mesh` to say, so that a file may name one that this machine lacks.
fn meshes(node: &Node<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for node in node.some() {
        let Some(name) = node.text() else { continue };
        if let Err(message) = name.parse::<Kind>() {
            node.wrong(message);
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests;
