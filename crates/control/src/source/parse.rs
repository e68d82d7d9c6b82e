//! The text of one manifest to objects and problems; pure.
//!
//! Documents are cut apart before they are parsed, so that a mistake in one does not take the others with it.

use super::{Key, Object, Origin, Problem, Sourced};
use serde::Deserialize;
use serde_saphyr::Location;
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

/// As much of a document as tells what it is.
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

/// `items` of a `kind: List`; each is read again in its own type.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<serde_json::Value>,
}

/// One document while it is read.
struct Document<'a> {
    text: &'a str,
    file: &'a Arc<Path>,
    number: usize,
    line: u64,
}

/// Reads a manifest of any number of YAML documents; JSON is YAML.
#[must_use]
pub fn parse(file: &Arc<Path>, text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    for (number, (line, text)) in documents(text).into_iter().enumerate() {
        Document { text, file, number: number + 1, line }.read(&mut manifest);
    }
    manifest
}

/// Cuts at lines `---`; in valid YAML such a line at the first column is never inside a value.
fn documents(text: &str) -> Vec<(u64, &str)> {
    let mut found = Vec::new();
    let (mut begin, mut begin_line, mut at) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_cut = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_cut {
            found.push((begin_line, &text[begin..at]));
            // What follows `---` on its line (a comment, or the document itself) belongs to the new document.
            begin = at + 3;
            begin_line = number as u64 + 1;
        }
        at += line.len();
    }
    found.push((begin_line, &text[begin..]));
    found.retain(|(_, text)| !is_blank(text));
    found
}

/// Nothing but comments, white space and directives.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "..."
    })
}

impl Document<'_> {
    fn origin(&self, line: u64) -> Origin {
        Origin::File { file: self.file.clone(), document: self.number, line }
    }

    fn read(&self, manifest: &mut Manifest) {
        let header: Header = match serde_saphyr::from_str(self.text) {
            Ok(header) => header,
            Err(error) => {
                manifest.broken = true;
                manifest.problems.push(self.mistake("document", "", &error));
                return;
            }
        };
        if header.kind.as_deref() == Some("List") {
            return self.read_list(manifest);
        }
        let key = match key_of(&header) {
            Ok(Some(key)) => key,
            Ok(None) => return manifest.problems.push(self.not_used(&header)),
            Err((field, message)) => {
                manifest.broken = true;
                let kind = header.kind.as_deref().unwrap_or("document");
                return manifest.problems.push(self.problem(kind, field, message, None));
            }
        };
        let (mut field, mut unknown) = (String::new(), Vec::new());
        let read = serde_saphyr::with_deserializer_from_str(self.text, |deserializer| {
            check_object(key.kind, deserializer, &mut field, &mut unknown)
        });
        let read = read.and_then(|()| {
            serde_saphyr::with_deserializer_from_str(self.text, |deserializer| {
                Object::deserialize(key.kind, deserializer)
            })
        });
        match read {
            Ok(object) => manifest.objects.push(Sourced {
                key: key.clone(),
                origin: self.origin(self.line),
                object: Arc::new(object),
            }),
            Err(error) => {
                manifest.broken = true;
                manifest.problems.push(self.mistake(&key.to_string(), &field, &error));
            }
        }
        for field in unknown {
            let line = self.line_of(&field);
            let problem = self.problem(&key.to_string(), &field, UNKNOWN_FIELD, line);
            manifest.problems.push(problem);
        }
    }

    fn read_list(&self, manifest: &mut Manifest) {
        let list: List = match serde_saphyr::from_str(self.text) {
            Ok(list) => list,
            Err(error) => {
                manifest.broken = true;
                return manifest.problems.push(self.mistake("List", "items", &error));
            }
        };
        for (number, item) in list.items.into_iter().enumerate() {
            let within = |field: &str| match field {
                "" | "." => format!("items[{number}]"),
                field => format!("items[{number}].{field}"),
            };
            let header = Header::deserialize(&item).unwrap_or_default();
            let key = match key_of(&header) {
                Ok(Some(key)) => key,
                Ok(None) => {
                    manifest.problems.push(self.not_used(&header));
                    continue;
                }
                Err((field, message)) => {
                    manifest.broken = true;
                    manifest.problems.push(self.problem("List", &within(field), message, None));
                    continue;
                }
            };
            let (mut field, mut unknown) = (String::new(), Vec::new());
            let read = check_object(key.kind, &item, &mut field, &mut unknown);
            match read.and_then(|()| Object::deserialize(key.kind, &item)) {
                Ok(object) => manifest.objects.push(Sourced {
                    key: key.clone(),
                    origin: self.origin(self.line),
                    object: Arc::new(object),
                }),
                Err(error) => {
                    manifest.broken = true;
                    let (object, message) = (key.to_string(), error.to_string());
                    let problem = self.problem(&object, &within(&field), message, None);
                    manifest.problems.push(problem);
                }
            }
            for field in unknown {
                let problem = self.problem(&key.to_string(), &within(&field), UNKNOWN_FIELD, None);
                manifest.problems.push(problem);
            }
        }
    }

    fn not_used(&self, header: &Header) -> Problem {
        let kind = header.kind.as_deref().unwrap_or_default();
        let version = header.api_version.as_deref().unwrap_or_default();
        let name = header.metadata.name.as_deref().unwrap_or_default();
        self.problem(
            &format!("{kind} {name}"),
            "kind",
            format!("{version} {kind} {NOT_USED}"),
            None,
        )
    }

    fn mistake(&self, object: &str, field: &str, error: &serde_saphyr::Error) -> Problem {
        let error = error.without_snippet();
        // The library appends the place in words; ours is in `origin`, counted in the file and not in the document. Of several the first is
        // where it is wrong, the others are what that is part of.
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        let (message, place) = message.split_once(" at line ").unwrap_or((message, ""));
        let digits = place.split(|c: char| !c.is_ascii_digit()).next();
        let line = digits.and_then(|line| line.parse().ok());
        let line = line.or_else(|| error.location().map(|at: Location| at.line()));
        self.problem(object, if field == "." { "" } else { field }, message, line)
    }

    /// `line` counts from 1 within the document.
    fn problem(
        &self,
        object: &str,
        field: &str,
        message: impl Into<String>,
        line: Option<u64>,
    ) -> Problem {
        let line = line.map_or(self.line, |line| self.line + line.max(1) - 1);
        Problem {
            object: object.to_owned(),
            origin: self.origin(line).to_string(),
            field: field.to_owned(),
            message: message.into(),
        }
    }

    /// The line of an unknown field, where its last key occurs once in the document.
    fn line_of(&self, field: &str) -> Option<u64> {
        let key = field.rsplit('.').next()?;
        let mut lines = self.text.lines().zip(1..).filter(|(line, _)| {
            let line = line.trim_start().trim_start_matches("- ").trim_start_matches(['"', '\'']);
            line.strip_prefix(key).is_some_and(|rest| {
                rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':')
            })
        });
        let (_, line) = lines.next()?;
        lines.next().is_none().then_some(line)
    }
}

const UNKNOWN_FIELD: &str = "unknown field; it has no effect";
/// Part of the message about a kind that is not used; reported once per kind and file.
pub(super) const NOT_USED: &str = "is not used by the mesh";

/// Holds an object against its published type; `field` says where reading stopped, `unknown` what the type does not have.
fn check_object<'de, D: serde::Deserializer<'de>>(
    kind: &str,
    deserializer: D,
    field: &mut String,
    unknown: &mut Vec<String>,
) -> Result<(), D::Error> {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(deserializer, &mut track);
    let mut note = |path: serde_ignored::Path<'_>| match readable(&path.to_string()) {
        // Types of the Gateway API have them by derivation and do not read them.
        field if field == "apiVersion" || field == "kind" => {}
        field => unknown.push(field),
    };
    let checked = Object::check(kind, serde_ignored::Deserializer::new(tracked, &mut note));
    if checked.is_err() {
        *field = track.path().to_string();
    }
    checked
}

/// `spec.?.rules.0.matches` of serde_ignored as `spec.rules[0].matches`.
fn readable(path: &str) -> String {
    let mut out = String::new();
    for part in path.split('.').filter(|part| *part != "?") {
        if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
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
        *known == kind && *known_group == group && versions.contains(&version)
    });
    let Some((kind, _, _, namespaced)) = known else { return Ok(None) };
    let name = header.metadata.name.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or(("metadata.name", "missing"))?;
    let namespace = header.metadata.namespace.as_deref().filter(|name| !name.is_empty());
    let namespace = if *namespaced { namespace.unwrap_or("default") } else { "" };
    Ok(Some(Key { kind, namespace: namespace.into(), name: name.into() }))
}

#[cfg(test)]
mod tests;
