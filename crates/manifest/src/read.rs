//! One document to a value.

use crate::document::{Document, documents, is_blank};
use serde_json::Value;
use std::fmt;

/// Values in one document: a list of 10,000 workloads, each with its proxy, and more. What aliases stand for is limited besides.
const NODES_MAX: usize = 5_000_000;

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The line of the text, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {} of the document)", self.message, self.line)
    }
}

impl std::error::Error for Unreadable {}

/// The value of a document. JSON is YAML.
///
/// # Errors
/// The document is not valid YAML, or too large.
pub fn read(text: &str) -> Result<Value, Unreadable> {
    let limits = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_events: 3 * NODES_MAX },
    };
    serde_saphyr::from_str_with_options(text, limits).map_err(|error| {
        let (line, column) =
            error.location().map_or((1, 1), |at| (at.line() as usize, at.column() as usize));
        let text = error.without_snippet().to_string();
        let message = plain(text.lines().next().unwrap_or_default());
        Unreadable { line: line.max(1), column: column.max(1), message }
    })
}

/// Without the place, which has fields of its own, and without advice to programmers.
fn plain(text: &str) -> String {
    let text = text.rfind(" at line ").map_or(text, |at| &text[..at]);
    if text.starts_with("multiple YAML documents") {
        return "a second document begins here; a file has one".to_owned();
    }
    let text = text.split(", set DuplicateKeyPolicy").next().unwrap_or_default();
    text.replace("duplicate mapping key", "the field appears twice")
}

/// Each document of a file with its value, or why it has none. Blank documents are left out.
pub fn read_all(file: &str) -> impl Iterator<Item = (Document<'_>, Result<Value, Unreadable>)> {
    let documents = documents(file).into_iter().filter(|document| !is_blank(document.text));
    documents.map(|document| (document, read(document.text)))
}
