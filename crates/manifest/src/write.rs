//! Values as YAML: blocks, two spaces, lists as far in as their key. What is written reads the same in YAML 1.1 and 1.2.

use crate::node::{Content, Node};
use serde_json::{Map, Value};

/// A whole document. Keys come as in `like`, where that has them.
pub(crate) fn document(value: &Value, like: Option<&Node>, text: &str) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => {
            map(&mut out, members, 0, like.map(|node| (node, text)));
        }
        Value::Array(items) if !items.is_empty() => {
            list(&mut out, items, 0, like.map(|node| (node, text)));
        }
        other => {
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
    out
}

/// A member of a block map, with the lines below it; every line begins with `indent` spaces.
pub(crate) fn member(key: &str, value: &Value, indent: usize) -> String {
    let mut out = String::new();
    one(&mut out, key, value, indent, None);
    out
}

/// Elements of a block list.
pub(crate) fn items(values: &[Value], indent: usize) -> String {
    let mut out = String::new();
    list(&mut out, values, indent, None);
    out
}

/// A value on one line.
pub(crate) fn line(value: &Value) -> String {
    // JSON is YAML; with a space after `:` and `,` it is so to every reader.
    value.to_string()
}

type Like<'a> = Option<(&'a Node, &'a str)>;

fn map(out: &mut String, members: &Map<String, Value>, indent: usize, like: Like<'_>) {
    let known: Vec<&str> = match like.map(|(node, _)| &node.content) {
        Some(Content::Map(members)) => members.iter().map(|member| member.key.as_str()).collect(),
        _ => Vec::new(),
    };
    // As people write them where nobody wrote it: what it is comes first.
    const FIRST: [&str; 2] = ["name", "image"];
    let mut order: Vec<&String> = members.keys().collect();
    order.sort_by_key(|key| {
        let place = |list: &[&str]| list.iter().position(|known| known == key);
        (place(&known).unwrap_or(known.len()), place(&FIRST).unwrap_or(FIRST.len()))
    });
    for key in order {
        let like = like.and_then(|(node, text)| Some((&node.member(key)?.1.value, text)));
        one(out, key, &members[key], indent, like);
    }
}

fn one(out: &mut String, key: &str, value: &Value, indent: usize, like: Like<'_>) {
    out.extend(std::iter::repeat_n(' ', indent));
    out.push_str(&text(key));
    out.push(':');
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            map(out, members, indent + 2, like);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            list(out, items, indent, like);
        }
        other => {
            out.push(' ');
            out.push_str(&as_written(other, like).unwrap_or_else(|| scalar(other)));
            out.push('\n');
        }
    }
}

fn list(out: &mut String, items: &[Value], indent: usize, like: Like<'_>) {
    let known = match like.map(|(node, _)| &node.content) {
        Some(Content::List(known)) => known.as_slice(),
        _ => &[],
    };
    for (at, item) in items.iter().enumerate() {
        // What was added or taken away is in front.
        let at = (at + known.len()).checked_sub(items.len());
        let like = at.and_then(|at| Some((known.get(at)?, like?.1)));
        let begin = out.len();
        match item {
            Value::Object(members) if !members.is_empty() => map(out, members, indent + 2, like),
            Value::Array(items) if !items.is_empty() => list(out, items, indent + 2, like),
            other => {
                out.extend(std::iter::repeat_n(' ', indent + 2));
                out.push_str(&as_written(other, like).unwrap_or_else(|| scalar(other)));
                out.push('\n');
            }
        }
        out.replace_range(begin + indent..begin + indent + 1, "-");
    }
}

/// A plain scalar keeps its letters: `yes` is a text to one reader and true to another, and that is for its author to say.
fn as_written(value: &Value, like: Like<'_>) -> Option<String> {
    let (node, text) = like?;
    let slice = text.get(node.range.clone())?;
    let plain = matches!(node.content, Content::Scalar { plain: true });
    let same = plain
        && !slice.is_empty()
        && !slice.contains('\n')
        && serde_saphyr::from_str::<Value>(slice).is_ok_and(|read| read == *value);
    same.then(|| slice.to_owned())
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(value) => text(value),
        other => other.to_string(),
    }
}

/// A text, in quotes unless every reader takes it for one without.
fn text(value: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let first = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let rest =
        value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/$():=@".contains(&byte));
    if first
        && rest
        && !value.ends_with(':')
        && !WORDS.contains(&value.to_ascii_lowercase().as_str())
    {
        value.to_owned()
    } else {
        Value::from(value).to_string()
    }
}
