//! The text of one manifest to objects and problems; pure.
//!
//! Each document is read alone, so that a mistake in one does not take the others with it.

use super::{Key, Object, Origin, Problem, Sourced, published_kind};
use crate::limit::{NAME_BYTES_MAX, PROBLEM_LINES_MAX, PROBLEMS_MAX};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use leno_manifest::typed::{self, Mistake};
use leno_manifest::{Unreadable, read_all};
use serde::Deserialize;
use serde_json::Value;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// What one manifest says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Objects in the file's order.
    pub objects: Vec<Sourced<Object>>,
    /// Mistakes, unknown fields and what is not used.
    pub problems: Vec<Problem>,
    /// A document could not be read: objects of this file's last good state stay until it can.
    pub broken: bool,
}

impl Manifest {
    /// Gives faults the time when their file was written, from which their time to live counts.
    pub fn written_at(&mut self, time: Timestamp) {
        for object in &mut self.objects {
            if let Object::Fault(fault) = Arc::make_mut(&mut object.object) {
                let metadata = &mut Arc::make_mut(fault).metadata;
                metadata.creation_timestamp.get_or_insert(Time(time));
            }
        }
    }
}

/// The fields that identify a document's kind.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Header {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

/// One document while it is read.
struct Reading<'a> {
    document: leno_manifest::Document<'a>,
    file: &'a Arc<Path>,
    number: usize,
    /// How many lines were looked for.
    lines: Cell<usize>,
}

/// Reads a manifest of any number of YAML documents; JSON is YAML.
#[must_use]
pub fn parse(file: &Arc<Path>, text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    for (number, (document, value)) in read_all(text).enumerate() {
        Reading { document, file, number: number + 1, lines: Cell::new(0) }
            .read(value, &mut manifest);
    }
    manifest
}

impl Reading<'_> {
    fn origin(&self, line: usize) -> Origin {
        let (file, text) = (self.file.clone(), self.document.text.into());
        Origin::File { file, document: self.number, line: line as u64, text }
    }

    fn read(&self, value: Result<Value, Unreadable>, manifest: &mut Manifest) {
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                manifest.broken = true;
                return manifest.problems.push(self.not_yaml(&error));
            }
        };
        if value["kind"] != "List" {
            return self.object(&value, None, manifest);
        }
        match value.get("items").map(Value::as_array) {
            None => {}
            Some(Some(items)) => {
                let items = items.iter().enumerate();
                items.for_each(|(number, item)| self.object(item, Some(number), manifest));
            }
            Some(None) => {
                manifest.broken = true;
                manifest.problems.push(self.problem("List", "items", "not a list"));
            }
        }
    }

    /// The whole document, or an item of its list.
    fn object(&self, value: &Value, item: Option<usize>, manifest: &mut Manifest) {
        let within = |field: &str| match (item, field) {
            (None, field) => field.to_owned(),
            (Some(number), "") => format!("items.{number}"),
            (Some(number), field) => format!("items.{number}.{field}"),
        };
        if !value.is_object() {
            manifest.broken = true;
            return manifest.problems.push(self.problem("document", &within(""), NO_OBJECT));
        }
        let header = match typed::read::<Header>(value).object {
            Ok(header) => header,
            Err(Mistake { field, message }) => {
                manifest.broken = true;
                return manifest.problems.push(self.problem("document", &within(&field), message));
            }
        };
        let key = match key_of(&header) {
            Ok(Some(key)) => key,
            Ok(None) => return manifest.problems.push(self.not_used(&header)),
            Err((field, message)) => {
                manifest.broken = true;
                let kind = header.kind.as_deref().unwrap_or("document");
                let object = if item.is_some() { "List" } else { kind };
                return manifest.problems.push(self.problem(object, &within(field), message));
            }
        };
        let (checked, unknown) = Object::check(key.kind, value);
        match checked.and_then(|()| Object::read_value(key.kind, value)) {
            Ok(object) => manifest.objects.push(Sourced {
                key: key.clone(),
                origin: self.origin(self.document.first_line),
                object: Arc::new(object),
            }),
            Err(Mistake { field, message }) => {
                manifest.broken = true;
                let problem = self.problem(&key.to_string(), &within(&field), message);
                manifest.problems.push(problem);
            }
        }
        // Unknown fields of routes are reported later, where their effect is known.
        let told_here = !matches!(published_kind(key.kind), "HTTPRoute" | "GRPCRoute");
        // The types of the Gateway API do not read these two fields themselves.
        let is_told = |field: &&String| told_here && *field != "apiVersion" && *field != "kind";
        for field in unknown.iter().filter(is_told).take(PROBLEMS_MAX) {
            let problem = self.problem(&key.to_string(), &within(field), UNKNOWN_FIELD);
            manifest.problems.push(problem);
        }
    }

    fn not_used(&self, header: &Header) -> Problem {
        let kind = header.kind.as_deref().unwrap_or_default();
        let version = header.api_version.as_deref().unwrap_or_default();
        let name = header.metadata.name.as_deref().unwrap_or_default();
        self.problem(&format!("{kind} {name}"), "kind", format!("{version} {kind} {NOT_USED}"))
    }

    fn not_yaml(&self, wrong: &Unreadable) -> Problem {
        Problem {
            object: "document".to_owned(),
            origin: self.origin(self.document.first_line + wrong.line - 1).to_string(),
            field: String::new(),
            message: wrong.message.clone(),
            elsewhere: false,
            is_note: false,
        }
    }

    /// About a dotted field. Its line is looked for, unless the document has many problems.
    fn problem(&self, object: &str, field: &str, message: impl Into<String>) -> Problem {
        let before = self.lines.replace(self.lines.get() + 1);
        let line = match before < PROBLEM_LINES_MAX {
            true => self.document.line_of(field),
            false => self.document.first_line,
        };
        Problem {
            object: object.to_owned(),
            origin: self.origin(line).to_string(),
            field: readable(field),
            message: message.into(),
            elsewhere: false,
            is_note: false,
        }
    }
}

const TOO_LONG: &str = "longer than 253 bytes";
const NO_OBJECT: &str = "not an object";
/// How every message about a field begins that its type does not have.
pub(crate) const UNKNOWN: &str = "unknown field";
pub(crate) const UNKNOWN_FIELD: &str = "unknown field; it has no effect";
/// Part of the message about a kind that is not used; reported once per kind and file.
pub(crate) const NOT_USED: &str = "is not used by the mesh";

/// `spec.rules.0.matches` as `spec.rules[0].matches`.
pub(crate) fn readable(dotted: &str) -> String {
    let mut out = String::new();
    for part in dotted.split('.').filter(|part| !part.is_empty()) {
        if part.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str(&format!("[{part}]"));
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(part);
        }
    }
    out
}

/// The key of an object that is used, `None` for a kind that is not, or which field is wrong.
fn key_of(header: &Header) -> Result<Option<Key>, (&'static str, &'static str)> {
    let kind = header.kind.as_deref().filter(|kind| !kind.is_empty());
    let kind = kind.ok_or(("kind", "missing; this is not a Kubernetes object"))?;
    let version = header.api_version.as_deref().ok_or(("apiVersion", "missing"))?;
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let known = Object::KINDS.iter().find(|(known, known_group, versions, _)| {
        published_kind(known) == kind && *known_group == group && versions.contains(&version)
    });
    let Some((kind, _, _, namespaced)) = known else { return Ok(None) };
    let name = header.metadata.name.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or(("metadata.name", "missing"))?;
    let namespace = header.metadata.namespace.as_deref().filter(|name| !name.is_empty());
    let namespace = if *namespaced { namespace.unwrap_or("default") } else { "" };
    if name.len() > NAME_BYTES_MAX {
        return Err(("metadata.name", TOO_LONG));
    }
    if namespace.len() > NAME_BYTES_MAX {
        return Err(("metadata.namespace", TOO_LONG));
    }
    Ok(Some(Key { kind, namespace: namespace.into(), name: name.into() }))
}

#[cfg(test)]
mod tests;
