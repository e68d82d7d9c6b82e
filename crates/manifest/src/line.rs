//! On which line of a document a field stands.

/// How many lines of the text are before this dotted field; before the nearest parent that is found, where the text is written in a way that
/// this reading of indentation does not follow.
#[must_use]
pub fn line_of(text: &str, field: &str) -> usize {
    let lines: Vec<(usize, &str)> = text
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
    found
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
    fn lines_of_fields() {
        let text = "kind: Pod\nspec:\n  containers:\n  - name: a\n    env:\n      - name: X\n        value: y\n  # note\n  - name: b\n    image: i\nstatus: {}\n";
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
            assert_eq!(line_of(text, field) + 10, line, "{field}");
        }
    }
}
