//! The documents of a YAML file, and the line on which a field of one stands.

use leno_inject::text::line_of;

/// One document of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// Its text, without the separator.
    pub text: &'a str,
    /// The line of the file on which it begins, counted from 1.
    pub first_line: usize,
}

/// Splits at `---` lines.
#[must_use]
pub fn split(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut start, mut first_line, mut offset) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let end = offset + line.len();
        if line.trim_end() == "---" || line.starts_with("--- ") {
            documents.push(Document { text: &text[start..offset], first_line });
            start = end;
            first_line = number + 2;
        }
        offset = end;
    }
    documents.push(Document { text: &text[start..], first_line });
    documents
}

impl Document<'_> {
    /// The line of the file on which this dotted field stands, as [`line_of`] finds it.
    #[must_use]
    pub fn line_of(&self, field: &str) -> usize {
        self.first_line + line_of(self.text, field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_know_where_they_begin() {
        let found: Vec<(usize, &str)> = split("a: 1\n---\nb: 2\nc: 3\n--- # third\nd: 4")
            .iter()
            .map(|d| (d.first_line, d.text))
            .collect();
        assert_eq!(found, [(1, "a: 1\n"), (3, "b: 2\nc: 3\n"), (6, "d: 4")]);
    }
}
