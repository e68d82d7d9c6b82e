//! Where everything stands in the text of a document.

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};
use std::ops::Range;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) content: Content,
    /// From its first byte to its last; a block ends with the last value in it.
    pub(crate) range: Range<usize>,
    /// In braces or brackets.
    pub(crate) flow: bool,
    /// Something elsewhere in the document is the same value.
    pub(crate) shared: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A text as it stands, on one line and without quotes, or anything else.
    Scalar {
        plain: bool,
    },
    /// What stands elsewhere.
    Alias,
    Map(Vec<Member>),
    List(Vec<Node>),
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) key: String,
    /// Where the key begins and ends, its quotes with it.
    pub(crate) start: usize,
    pub(crate) key_end: usize,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn member(&self, key: &str) -> Option<(usize, &Member)> {
        let Content::Map(members) = &self.content else { return None };
        members.iter().enumerate().find(|(_, member)| member.key == key)
    }
}

/// As deep as `serde_json` reads.
const DEPTH_MAX: usize = 128;

/// A collection that is still open.
struct Open {
    node: Node,
    /// Of a map: the key whose value comes next.
    key: Option<(String, Range<usize>)>,
}

/// The document's tree; `None` for what cannot be edited in place.
pub(crate) fn parse(text: &str) -> Option<Node> {
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for next in Parser::new_from_str(text) {
        let (event, span) = next.ok()?;
        let range = span.byte_range()?;
        let complete = match event {
            Event::Scalar(value, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let node = Node {
                    content: Content::Scalar { plain },
                    range,
                    flow: false,
                    shared: anchor != 0,
                };
                if let Some(top) = open.last_mut()
                    && matches!(top.node.content, Content::Map(_))
                    && top.key.is_none()
                {
                    top.key = Some((value.into_owned(), node.range));
                    continue;
                }
                node
            }
            Event::Alias(_) => Node { content: Content::Alias, range, flow: false, shared: true },
            Event::MappingStart(style, anchor, _) => {
                begin(&mut open, Content::Map(Vec::new()), range, style, anchor)?;
                continue;
            }
            Event::SequenceStart(style, anchor, _) => {
                begin(&mut open, Content::List(Vec::new()), range, style, anchor)?;
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                let mut node = open.pop()?.node;
                if node.flow {
                    node.range.end = range.end;
                }
                node
            }
            _ => continue,
        };
        match open.last_mut() {
            None => root = Some(complete),
            Some(top) => top.take(complete)?,
        }
    }
    root
}

fn begin(
    open: &mut Vec<Open>,
    content: Content,
    range: Range<usize>,
    style: StructureStyle,
    anchor: usize,
) -> Option<()> {
    // A key that is a collection is nothing that Kubernetes knows.
    let key_expected = open
        .last()
        .is_some_and(|top| matches!(top.node.content, Content::Map(_)) && top.key.is_none());
    if key_expected || open.len() >= DEPTH_MAX {
        return None;
    }
    let range = range.start..range.start;
    let node = Node { content, range, flow: style == StructureStyle::Flow, shared: anchor != 0 };
    open.push(Open { node, key: None });
    Some(())
}

impl Open {
    fn take(&mut self, value: Node) -> Option<()> {
        if !self.node.flow && !value.range.is_empty() {
            self.node.range.end = self.node.range.end.max(value.range.end);
        }
        match &mut self.node.content {
            Content::Map(members) => {
                let (key, range) = self.key.take()?;
                // An empty value may be said to stand far below its key.
                self.node.range.end = self.node.range.end.max(range.end);
                members.push(Member { key, start: range.start, key_end: range.end, value });
            }
            Content::List(items) => items.push(value),
            Content::Scalar { .. } | Content::Alias => return None,
        }
        Some(())
    }
}
