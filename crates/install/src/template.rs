//! A small part of Go's templates: just what the chart in `deploy/leno` is written in, so that it can be rendered without Helm.
//!
//! - [`mod@lex`]: text and actions, and the words of an action.
//! - [`mod@parse`]: `if`, `else if`, `else`, `with`, `range`, `end`, pipelines.
//! - [`mod@run`]: values to text.
//! - [`mod@function`]: the functions, those of Helm's that are here.
//!
//! What is *not* here is refused by name: `include`, `define`, `template`, `lookup`, variables other than those of `range`, and every
//! function but those of [`function::NAMES`]. A template that is taken means what it means in Helm; `cargo xtask chart` renders with both
//! and compares. In one thing we are stricter: a value that is absent is never printed as nothing.

mod function;
mod lex;
mod parse;
mod run;

#[cfg(test)]
mod tests;

pub use function::{NAMES, to_yaml};

use parse::Node;
use serde_json::Value;
use std::collections::BTreeMap;

/// Why a template cannot be read or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct TemplateError {
    /// Name of the template.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: String,
}

/// A template that was read.
#[derive(Debug)]
pub struct Template {
    file: String,
    nodes: Vec<Node>,
}

/// Files that a template may ask for with `.Files.Get`, by their path in the chart.
pub type Files = BTreeMap<String, String>;

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The first thing in it that is not understood, with its line.
    pub fn read(file: &str, text: &str) -> Result<Self, TemplateError> {
        let placed = |(line, why)| TemplateError { file: file.to_owned(), line, why };
        let pieces = lex::pieces(text).map_err(placed)?;
        let nodes = parse::nodes(pieces).map_err(placed)?;
        Ok(Self { file: file.to_owned(), nodes })
    }

    /// Renders it; `root` is `.` and `$`.
    ///
    /// # Errors
    /// A value that is absent or of the wrong kind, or what `required` says.
    pub fn render(&self, root: &Value, files: &Files) -> Result<String, TemplateError> {
        run::render(&self.nodes, root, files).map_err(|(line, why)| TemplateError {
            file: self.file.clone(),
            line,
            why,
        })
    }
}
