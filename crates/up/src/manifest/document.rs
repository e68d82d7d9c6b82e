//! The documents of a YAML file, and the line on which a field of one stands.

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
    /// The line of the file on which this dotted field stands; the nearest parent that is found
    /// where the document is written in a way that this reading of indentation does not follow.
    #[must_use]
    pub fn line_of(&self, field: &str) -> usize {
        let lines: Vec<(usize, &str)> = self
            .text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
            .collect();
        let mut found = lines.first().map_or(0, |(number, _)| *number);
        // The field is looked for among `lines[from..to]`, all of them part of its parent.
        let (mut from, mut to) = (0, lines.len());
        for part in field.split('.').filter(|part| !part.is_empty()) {
            let Some((start, end)) = child(&lines[from..to], part) else { break };
            (from, to) = (from + start, from + end);
            found = lines[from].0;
            // What follows on the same line (`- name: x`) still belongs to the list's item.
            if part.parse::<usize>().is_err() {
                from += 1;
            }
        }
        self.first_line + found
    }
}

/// Where the child called `part` begins and ends within its parent's lines.
fn child(lines: &[(usize, &str)], part: &str) -> Option<(usize, usize)> {
    let index = part.parse::<usize>().ok();
    let indents: Vec<usize> = lines
        .iter()
        .enumerate()
        .map(|(position, (_, line))| {
            // The first line of a list's item is indented by its dash.
            if index.is_none() && position == 0 { key_indent(line) } else { dash_indent(line) }
        })
        .collect();
    let level = *indents.iter().min()?;
    let starts = lines.iter().enumerate().filter(|(position, (_, line))| {
        indents[*position] == level
            && match index {
                Some(_) => line.trim_start().starts_with('-'),
                None => {
                    let key = line.trim_start().trim_start_matches("- ").trim_start();
                    let key = key.trim_start_matches(['"', '\'']);
                    key.strip_prefix(part)
                        .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).starts_with(':'))
                }
            }
    });
    let start = starts.map(|(position, _)| position).nth(index.unwrap_or(0))?;
    let dash_belongs = index.is_none();
    let end = (start + 1..lines.len())
        .find(|position| {
            let dash = lines[*position].1.trim_start().starts_with('-');
            // `key:` may be followed by a list at the same indentation.
            indents[*position] <= level && !(dash_belongs && dash && indents[*position] == level)
        })
        .unwrap_or(lines.len());
    Some((start, end))
}

fn dash_indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn key_indent(line: &str) -> usize {
    line.len() - line.trim_start().trim_start_matches('-').trim_start().len()
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

    #[test]
    fn lines_of_fields() {
        let text = "kind: Pod\nspec:\n  containers:\n  - name: a\n    env:\n      - name: X\n        value: y\n  # note\n  - name: b\n    image: i\nstatus: {}\n";
        let document = Document { text, first_line: 10 };
        for (field, line) in [
            ("kind", 10),
            ("spec", 11),
            ("spec.containers", 12),
            ("spec.containers.0", 13),
            ("spec.containers.0.name", 13),
            ("spec.containers.0.env.0.value", 16),
            ("spec.containers.1.image", 19),
            ("spec.containers.1.nothing", 18),
            ("status.phase", 20),
            ("", 10),
        ] {
            assert_eq!(document.line_of(field), line, "{field}");
        }
    }
}
