//! The API server's JSON to objects; pure. Each object is read by itself, so that one that cannot be read stops no other.

use super::catalogue::Event;
use super::strip;
use crate::source::{Key, Object, Origin, parse};
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// An object that was read, or why it could not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What it is called.
    pub key: Key,
    /// Where it is, in which version.
    pub origin: Origin,
    /// The object without what nobody reads; else the field and what is wrong with it.
    pub object: Result<Object, (String, String)>,
}

/// The fields that identify an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
}

/// Which object it is, and in which version; `Err` where it has not even a name.
fn which(kind: &'static str, text: &str) -> Result<(Key, Origin), String> {
    let header: Header<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Metadata { name, namespace, resource_version } = header.metadata;
    if name.is_empty() {
        return Err("an object without a name".to_owned());
    }
    let (namespace, name): (Arc<str>, Arc<str>) = (namespace.into(), name.into());
    let version = resource_version.into();
    let origin = Origin::Cluster { namespace: namespace.clone(), name: name.clone(), version };
    Ok((Key { kind, namespace, name }, origin))
}

/// Reads one object; `Err` where it has not even a name.
///
/// # Errors
/// What is wrong.
pub fn object(kind: &'static str, text: &str) -> Result<Read, String> {
    let (key, origin) = which(kind, text)?;
    let object = Object::read(kind, text)
        .map(strip::strip)
        .map_err(|message| (wrong_field(kind, text), message));
    Ok(Read { key, origin, object })
}

/// Reads again, more slowly, to find the field where reading stops.
fn wrong_field(kind: &str, text: &str) -> String {
    let value = serde_json::from_str(text).unwrap_or_default();
    let read = Object::read_value(kind, &value);
    read.err().map_or_else(String::new, |mistake| parse::readable(&mistake.field))
}

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    pub objects: Vec<Read>,
    /// Objects that have no name.
    pub nameless: Vec<String>,
    /// What the list is as of.
    pub version: String,
    /// Where the next page begins, empty at the end.
    pub next: String,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow, default)]
    metadata: ListMetadata<'a>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMetadata<'a> {
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default, rename = "continue")]
    next: Cow<'a, str>,
}

/// Reads a page of a list.
///
/// # Errors
/// It is not a list.
pub fn page(kind: &'static str, body: &[u8]) -> Result<Page, String> {
    let list: List<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let (mut objects, mut nameless) = (Vec::new(), Vec::new());
    for item in list.items.into_iter().flatten() {
        match object(kind, item.get()) {
            Ok(read) => objects.push(read),
            Err(wrong) => nameless.push(wrong),
        }
    }
    let version = list.metadata.resource_version.into_owned();
    Ok(Page { objects, nameless, version, next: list.metadata.next.into_owned() })
}

/// Lines out of a body that comes in pieces; a long one comes in many, and no byte is looked at twice.
#[derive(Debug, Default)]
pub struct Lines {
    waiting: BytesMut,
    /// So many bytes of it have no end of a line.
    scanned: usize,
}

impl Lines {
    /// A piece of the body.
    pub fn add(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The next line that is complete, with its end.
    pub fn pop(&mut self) -> Option<Bytes> {
        let end = self.waiting[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.scanned = self.waiting.len();
            return None;
        };
        let line = self.waiting.split_to(self.scanned + end + 1);
        self.scanned = 0;
        Some(line.freeze())
    }

    /// Bytes of a line that is not complete.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// A line of a watch.
#[derive(Debug)]
pub enum Line {
    /// Something happened; the version from which to go on.
    Happened(Event, String),
    /// Nothing happened up to this version.
    Bookmark(String),
    /// The API server ends the watch: HTTP status and message.
    Error(u16, String),
}

#[derive(Deserialize)]
struct WatchLine<'a> {
    #[serde(borrow, rename = "type")]
    what: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The API server's words about a failure.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Failure {
    /// As HTTP has it.
    pub code: u16,
    /// For a person.
    pub message: String,
}

/// Reads a line of a watch.
///
/// # Errors
/// It is none; others may be.
pub fn line(kind: &'static str, text: &[u8]) -> Result<Line, String> {
    let line: WatchLine<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let body = line.object.get();
    match line.what.as_ref() {
        "ERROR" => {
            let failure: Failure = serde_json::from_str(body).unwrap_or_default();
            Ok(Line::Error(failure.code, failure.message))
        }
        "BOOKMARK" => {
            let header: Header<'_> = serde_json::from_str(body).map_err(|e| e.to_string())?;
            Ok(Line::Bookmark(header.metadata.resource_version.into_owned()))
        }
        "ADDED" | "MODIFIED" => {
            let read = object(kind, body)?;
            let version = version(&read.origin);
            Ok(Line::Happened(Event::Applied(read), version))
        }
        "DELETED" => {
            let (key, origin) = which(kind, body)?;
            Ok(Line::Happened(Event::Deleted(key), version(&origin)))
        }
        other => Err(format!("an event of type {other}")),
    }
}

fn version(origin: &Origin) -> String {
    match origin {
        Origin::Cluster { version, .. } => version.to_string(),
        Origin::File { .. } => String::new(),
    }
}
