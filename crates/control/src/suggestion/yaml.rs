//! Objects as a person would write them in YAML.

use std::fmt::Write as _;

/// A name of an object has at most so many bytes.
const NAME_BYTES_MAX: usize = 253;

/// The beginning of an object, up to its `spec`.
pub(crate) fn head(text: &mut String, version: &str, kind: &str, (namespace, name): (&str, &str)) {
    if !text.is_empty() {
        text.push_str("---\n");
    }
    let (name, namespace) = (scalar(name), scalar(namespace));
    let _ = writeln!(
        text,
        "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:"
    );
}

/// A name that is not too long.
pub(crate) fn cut(mut name: String) -> String {
    name.truncate(NAME_BYTES_MAX);
    name.trim_end_matches(['-', '.']).to_owned()
}

/// A text as it is where YAML reads it as a text, and quoted otherwise.
pub(crate) fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c));
    let lower = text.to_ascii_lowercase();
    let is_taken = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    match is_word && !is_taken.contains(&lower.as_str()) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
