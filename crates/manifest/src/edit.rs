//! A patch as edits of the text. What is added comes first in its map or list, where the place is always known.

use crate::node::{Content, Member, Node};
use crate::patch::{Operation, parts};
use crate::write;
use serde_json::Value;
use std::ops::Range;

/// A place in the text, and what is there from now on.
type Edit = (Range<usize>, String);

/// The changed text; `None` where the text is written in a way that this does not follow.
///
/// All places are those of the text as it was: a patch that adds several elements to one list does so from its front.
pub(crate) fn edit(text: &str, root: &Node, patch: &[Operation]) -> Option<String> {
    let mut edits = Vec::new();
    for step in patch {
        let path: Vec<String> = parts(step.path()).collect();
        let (last, parent) = path.split_last()?;
        let (key_start, node) = find(root, parent)?;
        edits.push(match (step, &node.content) {
            (Operation::Add { value, .. }, Content::Map(members)) => match node.member(last) {
                Some((_, member)) => set(text, node.flow, member, value)?,
                None => add_member(text, node, key_start, members, (last, value))?,
            },
            (Operation::Add { value, .. }, Content::List(items)) => {
                add_item(text, node, key_start?, items, value)?
            }
            (Operation::Replace { value, .. }, _) => {
                set(text, node.flow, node.member(last)?.1, value)?
            }
            (Operation::Remove { .. }, Content::Map(members)) => {
                let places = members.iter().map(|member| member.start..member.value.range.end);
                (
                    remove(text, node.flow, places.collect(), node.member(last)?.0, "")?,
                    String::new(),
                )
            }
            (Operation::Remove { .. }, Content::List(items)) => {
                let places = items.iter().map(|item| item.range.clone());
                (remove(text, node.flow, places.collect(), last.parse().ok()?, "-")?, String::new())
            }
            _ => return None,
        });
    }
    // Steps at one place keep their order.
    edits.sort_by_key(|(range, _)| range.start);
    let returns = text.contains("\r\n");
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, new) in edits {
        out.push_str(text.get(at..range.start)?);
        out.push_str(&if returns { new.replace('\n', "\r\n") } else { new });
        at = range.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

/// Where a collection is, and where the key before it begins. What is said once for several places is not edited.
fn find<'a>(root: &'a Node, path: &[String]) -> Option<(Option<usize>, &'a Node)> {
    let (mut key_start, mut node) = (None, root);
    for part in path {
        (key_start, node) = match &node.content {
            Content::Map(_) => {
                let (_, member) = node.member(part)?;
                (Some(member.start), &member.value)
            }
            Content::List(items) => (None, items.get(part.parse::<usize>().ok()?)?),
            Content::Scalar { .. } | Content::Alias => return None,
        };
        if node.shared {
            return None;
        }
    }
    Some((key_start, node))
}

fn line_start(text: &str, at: usize) -> Option<usize> {
    Some(text.get(..at)?.rfind('\n').map_or(0, |newline| newline + 1))
}

fn next_line(text: &str, at: usize) -> Option<usize> {
    Some(text.get(at..)?.find('\n').map_or(text.len(), |newline| at + newline + 1))
}

/// Where the first line of a block can be put: below its key, and above comments on what is there.
fn top(text: &str, key_start: Option<usize>, first: usize) -> Option<usize> {
    let line = line_start(text, first)?;
    match key_start {
        Some(key) if key < line => next_line(text, key),
        Some(_) => None,
        None => Some(line),
    }
}

fn add_member(
    text: &str,
    node: &Node,
    key_start: Option<usize>,
    members: &[Member],
    (key, value): (&str, &Value),
) -> Option<Edit> {
    let first = members.first()?.start;
    if node.flow {
        let key = write::line(&Value::from(key));
        return Some((first..first, format!("{key}: {}, ", write::line(value))));
    }
    let line = line_start(text, first)?;
    let (before, indent) = (text.get(line..first)?, text.get(line..first)?.chars().count());
    let member = write::member(key, value, indent);
    if before.bytes().all(|byte| byte == b' ') {
        let at = top(text, key_start, first)?;
        return Some((at..at, member));
    }
    // `- name: …`: ours takes the place behind the dash.
    Some((first..first, format!("{}{}", member.trim_start(), " ".repeat(indent))))
}

fn add_item(
    text: &str,
    node: &Node,
    key_start: usize,
    items: &[Node],
    value: &Value,
) -> Option<Edit> {
    let first = items.first()?.range.start;
    if node.flow {
        return Some((first..first, format!("{}, ", write::line(value))));
    }
    let line = line_start(text, first)?;
    let indent = text.get(line..first)?.find('-')?;
    let dash = text.get(line..first)?.trim();
    let at = top(text, Some(key_start), first)?;
    (dash == "-").then(|| (at..at, write::items(std::slice::from_ref(value), indent)))
}

/// Another value for a member, on its line.
fn set(text: &str, flow: bool, member: &Member, value: &Value) -> Option<Edit> {
    let rest = text.get(member.key_end..)?;
    let colon = member.key_end + rest.len() - rest.trim_start_matches(' ').len();
    let begin = text.get(colon..)?.starts_with(':').then_some(colon + 1)?;
    if member.value.shared {
        return None;
    }
    let end = member.value.range.end.max(begin);
    let end = begin + text.get(begin..end)?.trim_end().len();
    // In a block nothing is null; between braces it is so in YAML and not in JSON.
    let nothing = value.is_null() && !flow;
    let new = if nothing { String::new() } else { format!(" {}", write::line(value)) };
    Some((begin..end, new))
}

/// The place of one of a collection's parts, whole lines in a block. Before the part its line has only this `dash`.
fn remove(
    text: &str,
    flow: bool,
    places: Vec<Range<usize>>,
    at: usize,
    dash: &str,
) -> Option<Range<usize>> {
    let place = places.get(at)?.clone();
    if flow {
        return match places.get(at + 1) {
            Some(next) => Some(place.start..next.start),
            None => Some(places.get(at.checked_sub(1)?)?.end..place.end),
        };
    }
    let line = line_start(text, place.start)?;
    if text.get(line..place.start)?.trim() != dash {
        return None;
    }
    // A block ends where the next one begins, after blank lines and comments that are not its own.
    let end = line + text.get(line..place.end.max(place.start))?.trim_end().len();
    Some(line..next_line(text, end)?)
}
