//! Manifests as people write them: YAML of any number of documents, or JSON, which is YAML.
//!
//! A change is made in the text itself, so that order, comments and everything that is not ours stay as they are. What comes out is
//! read again and has to say what the patch says; where that fails (a template behind an alias, say) the document is written
//! anew in its own order, without comments.

mod edit;
mod line;
mod node;
mod write;

use crate::patch::{Operation, apply};
pub use line::line_of;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

/// A piece of a file: a document, with what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// The line that begins it, `---`, or nothing.
    pub separator: &'a str,
    /// The rest.
    pub text: &'a str,
    /// The line of the file on which `text` begins, counted from 1.
    pub first_line: usize,
}

/// Cuts a file at its `---` lines, and between JSON objects that follow each other; separators and texts together are the file.
#[must_use]
pub fn documents(file: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    // Where the separator begins, where the text does, and on which line.
    let (mut cut, mut start, mut first_line, mut at) = (0, 0, 1, 0);
    for (number, line) in file.split_inclusive('\n').enumerate() {
        let end = at + line.len();
        let rest = line.strip_prefix("---");
        if let Some(rest) =
            rest.filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        {
            if at > 0 {
                found.push(Document {
                    separator: &file[cut..start],
                    text: &file[start..at],
                    first_line,
                });
            }
            // What follows on the line is a comment, or the document itself (`--- {a: 1}`).
            let comment = rest.trim_start();
            let text_is_here = !comment.is_empty() && !comment.starts_with('#');
            (cut, start) = (at, if text_is_here { at + 3 } else { end });
            first_line = if text_is_here { number + 1 } else { number + 2 };
        }
        at = end;
    }
    found.push(Document { separator: &file[cut..start], text: &file[start..], first_line });
    found.into_iter().flat_map(one_by_one).collect()
}

/// JSON objects without anything between them are no YAML, and yet `kubectl` takes them.
fn one_by_one(document: Document<'_>) -> Vec<Document<'_>> {
    let Document { text, first_line, .. } = document;
    if !text.trim_start().starts_with('{') {
        return vec![document];
    }
    let mut objects =
        serde_json::Deserializer::from_str(text).into_iter::<BTreeMap<String, IgnoredAny>>();
    let mut starts = vec![0];
    while let Some(object) = objects.next() {
        if object.is_err() {
            return vec![document];
        }
        let end = objects.byte_offset();
        starts.push(end + text[end..].len() - text[end..].trim_start().len());
    }
    let cuts = starts.windows(2).enumerate().map(|(number, cut)| Document {
        separator: if number == 0 { document.separator } else { "" },
        text: &text[cut[0]..cut[1]],
        first_line: first_line + text[..cut[0]].matches('\n').count(),
    });
    cuts.collect()
}

/// Whether nothing but comments, blank lines and marks are in a document.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| {
        line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "..."
    })
}

/// Values in one document: a list of 10,000 workloads, each with its proxy, and more. What aliases stand for is limited besides.
const NODES_MAX: usize = 5_000_000;

/// What a document says.
///
/// # Errors
/// It is not YAML, with the line of the document.
pub fn read(text: &str) -> Result<Value, String> {
    let limits = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_events: 3 * NODES_MAX },
    };
    serde_saphyr::from_str_with_options(text, limits).map_err(|error| {
        // The first line says it; the others draw it.
        error.to_string().lines().next().unwrap_or("no YAML").trim().to_owned()
    })
}

/// A changed document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its text.
    pub text: String,
    /// It had to be written anew: order is kept, comments are not.
    pub rewritten: bool,
}

/// Changes a document.
///
/// # Errors
/// It is not YAML, or the patch does not fit it.
pub fn change(text: &str, patch: &[Operation]) -> Result<Changed, String> {
    let mut after = read(text)?;
    apply(&mut after, patch).map_err(|error| error.to_string())?;
    // What was JSON is read as that by others.
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let was_json = is_json(text);
    let says_so =
        |text: &String| (!was_json || is_json(text)) && read(text).is_ok_and(|read| read == after);
    let node = node::parse(text);
    let edited = node.as_ref().and_then(|node| edit::edit(text, node, patch));
    if let Some(text) = edited.filter(says_so) {
        return Ok(Changed { text, rewritten: false });
    }
    let mut anew = write::document(&after, node.as_ref(), text);
    if was_json {
        anew = format!("{after:#}\n");
    } else if !says_so(&anew) {
        // With every scalar in quotes or plainly safe there is nothing left to misread.
        anew = write::document(&after, None, text);
    }
    if says_so(&anew) {
        Ok(Changed { text: anew, rewritten: true })
    } else {
        Err("it cannot be written as YAML".to_owned())
    }
}

#[cfg(test)]
mod tests;
