//! The documents of a file: the only place that cuts one apart.

use crate::line::line_of;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// A piece of a file: a document, with what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// The line that begins it, `---`, or nothing; the marker alone where the document is beside it. A byte order mark at the start of the file is part of it.
    pub separator: &'a str,
    /// The rest.
    pub text: &'a str,
    /// The line of the file on which `text` begins, counted from 1.
    pub first_line: usize,
}

impl Document<'_> {
    /// The line of the file on which this dotted field stands (`spec.ports.0`), or its nearest parent that is found.
    #[must_use]
    pub fn line_of(&self, field: &str) -> usize {
        self.first_line + line_of(self.text, field)
    }
}

/// Cuts a file where YAML begins a document (a line `---`, also with a document behind it) or ends one (`...`), and between JSON
/// objects that follow each other. Separators and texts together are the file, byte for byte.
///
/// In valid YAML such a line at the first column is never inside a value.
#[must_use]
pub fn documents(file: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    let mark = if file.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    // Where the separator begins, where the text does, and on which line.
    let (mut cut, mut start, mut first_line, mut at) = (0, mark, 1, mark);
    for (number, line) in file[mark..].split_inclusive('\n').enumerate() {
        let end = at + line.len();
        if let Some(rest) = marker(line, "---") {
            // Nothing stands before a separator that begins the file.
            if at > mark {
                let text = &file[start..at];
                found.push(Document { separator: &file[cut..start], text, first_line });
                cut = at;
            }
            // What follows on the line is a comment, or the document itself (`--- {a: 1}`), which begins after the white space: a
            // tab there would be indentation of the document's first line.
            let beside = rest.trim_start();
            let is_comment = beside.is_empty() || beside.starts_with('#');
            (start, first_line) =
                if is_comment { (end, number + 2) } else { (end - beside.len(), number + 1) };
        } else if marker(line, "...").is_some() && end < file.len() {
            let text = &file[start..end];
            found.push(Document { separator: &file[cut..start], text, first_line });
            (cut, start, first_line) = (end, end, number + 2);
        }
        at = end;
    }
    found.push(Document { separator: &file[cut..start], text: &file[start..], first_line });
    found.into_iter().flat_map(one_by_one).collect()
}

/// What follows a marker on its line.
fn marker<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(marker)?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])).then_some(rest)
}

/// JSON objects without anything between them are not valid YAML, but `kubectl` accepts them.
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
