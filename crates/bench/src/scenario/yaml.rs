//! What a YAML reader says of a text that is none, in a person's words: where, once, and without the reader's own options. Pure.

/// Line and column, both counted from 1, and what is wrong there.
#[must_use]
pub fn said(error: &serde_saphyr::Error) -> (usize, usize, String) {
    let location = error.location();
    let line = location.map_or(1, |location| location.line() as usize);
    let column = location.map_or(1, |location| location.column() as usize);
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    (line, column, plain(text))
}

/// Without the place, and without advice to programmers.
fn plain(text: &str) -> String {
    let text = match text.rfind(" at line ") {
        Some(at) => &text[..at],
        None => text,
    };
    if text.starts_with("multiple YAML documents") {
        return "a second document begins here; a file has one".to_owned();
    }
    let text = text.split(", set DuplicateKeyPolicy").next().unwrap_or_default();
    text.replace("duplicate mapping key", "the field appears twice")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[track_caller]
    fn check(text: &str, line: usize, column: usize, expected: &str) {
        let error = serde_saphyr::from_str::<Value>(text).expect_err("no YAML");
        assert_eq!(said(&error), (line, column, expected.to_owned()), "{text}");
    }

    #[test]
    fn each_mistake_has_its_place_once() {
        check("a: 1\nb: [1, 2\nc: 3\n", 3, 2, "illegal placement of ':' indicator");
        check("a: {b: 1, b: 2}\n", 1, 11, "the field appears twice: b");
        check("a: 1\n---\nb: 2\n", 3, 1, "a second document begins here; a file has one");
        check("a: *b\n", 1, 4, "alias references unknown anchor");
        check("a:\n\tb: 1\n", 2, 2, "tabs disallowed within this context (block indentation)");
    }
}
