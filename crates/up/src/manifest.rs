//! Manifests: files to objects, and the report of what is refused or not used.
//!
//! YAML becomes a JSON value, the value becomes the published Kubernetes type; a field that this type does not know,
//! and a field that it knows but `leno up` does not act on, are both reported with file, line and field.
//! Not the place of defaults and meaning: that is [`crate::plan`].

pub mod control;
mod suggest;
pub mod supported;

use crate::label;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leno_manifest::typed::{self, Typed};
use leno_manifest::{Document, read_all};
use leno_runtime::regular_file;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Namespace and name.
pub type Key = (String, String);

/// Everything that was read, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Namespaces by name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Identities that pods run under.
    pub service_accounts: BTreeMap<Key, ServiceAccount>,
    /// Pods that stand alone.
    pub pods: BTreeMap<Key, Pod>,
    /// Replicated pods.
    pub deployments: BTreeMap<Key, Deployment>,
    /// Pods that run to completion.
    pub jobs: BTreeMap<Key, Job>,
    /// Names with virtual addresses.
    pub services: BTreeMap<Key, Service>,
    /// Values and files for containers.
    pub config_maps: BTreeMap<Key, ConfigMap>,
    /// The same, meant to be kept quiet.
    pub secrets: BTreeMap<Key, Secret>,
}

/// Something about a manifest that its author must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// The line, counted from 1; 0 when it is about the whole file.
    pub line: usize,
    /// `Deployment default/web`, or empty when the document is not understood at all.
    pub object: String,
    /// The field, dotted; empty when it is not about one field.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What follows from it.
    pub weight: Weight,
}

/// What follows from a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It was left out, which does no harm here; or it is experimental or deprecated.
    Note,
    /// It is served, and most likely not as its author wishes.
    Warning,
    /// The manifests cannot be run because of this.
    Error,
}

impl fmt::Display for Weight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(out, "{}:", self.line)?;
        }
        write!(out, " ")?;
        if !self.object.is_empty() {
            write!(out, "{}: ", self.object)?;
        }
        if !self.field.is_empty() {
            write!(out, "{}: ", self.field)?;
        }
        write!(out, "{}", self.message)
    }
}

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Which of the sources it is of.
    pub source: usize,
    pub file: PathBuf,
    /// What is in it.
    pub text: String,
}

/// Objects, and what there is to say about them.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What can be run.
    pub objects: Objects,
    /// What was refused or is not used.
    pub problems: Vec<Problem>,
    /// Every file that could be read.
    pub texts: Vec<Text>,
    /// Objects by kind and name, with the source, file and line of each.
    places: BTreeMap<String, (usize, PathBuf, usize)>,
    /// The source that is read now.
    source: usize,
}

impl Loaded {
    /// Whether anything was refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.problems.iter().any(|problem| problem.weight == Weight::Error)
    }

    /// The file and line of an object, such as `Pod default/web`.
    #[must_use]
    pub fn place(&self, object: &str) -> Option<(PathBuf, usize)> {
        self.places.get(object).map(|(_, file, line)| (file.clone(), *line))
    }

    /// Adds what the control plane says of the same files. What is known of a line already is not said twice.
    pub fn add(&mut self, found: Vec<Problem>) {
        for problem in found {
            let is_same = |known: &Problem| {
                known.file == problem.file
                    && known.line == problem.line
                    && (known.weight == Weight::Error || known.message == problem.message)
            };
            if !self.problems.iter().any(is_same) {
                self.problems.push(problem);
            }
        }
    }
}

/// Reads files and directories (`*.yaml`, `*.yml`, `*.json`, not recursive), in the order given and by name.
#[must_use]
pub fn read(sources: &[PathBuf]) -> Loaded {
    let mut loaded = Loaded::default();
    for (number, source) in sources.iter().enumerate() {
        loaded.source = number;
        match files(source) {
            Ok(files) if files.is_empty() => loaded
                .problems
                .push(unreadable(source, "no *.yaml, *.yml or *.json file in this directory")),
            Ok(files) => {
                for file in files {
                    match regular_file::read(&file) {
                        Ok(text) => {
                            read_text(&file, &text, &mut loaded);
                            loaded.texts.push(Text { source: number, file, text });
                        }
                        Err(error) => loaded.problems.push(unreadable(&file, &error.to_string())),
                    }
                }
            }
            Err(error) => loaded.problems.push(unreadable(source, &error.to_string())),
        }
    }
    if loaded.problems.iter().any(|problem| problem.message == IMAGE_NOTE) {
        keep_first_image_note(&mut loaded.problems);
    }
    loaded
}

/// Groups of routes and policies.
const CONTROL_PLANE_GROUPS: [&str; 6] = [
    "gateway.networking.k8s.io/",
    "gateway.networking.x-k8s.io/",
    "leno.dev/",
    "discovery.k8s.io/",
    "policy.leno.dev/",
    "policy.linkerd.io/",
];

const IMAGE_NOTE: &str =
    "images are ignored on one machine; `command` runs as a process (this note appears once)";

fn keep_first_image_note(problems: &mut Vec<Problem>) {
    let mut said = false;
    problems.retain(|problem| problem.message != IMAGE_NOTE || !std::mem::replace(&mut said, true));
}

fn unreadable(file: &Path, message: &str) -> Problem {
    Problem {
        file: file.to_owned(),
        line: 0,
        object: String::new(),
        field: String::new(),
        message: message.to_owned(),
        weight: Weight::Error,
    }
}

fn files(source: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(source)?.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(source)? {
        let path = entry?.path();
        let named = path.extension().and_then(|extension| extension.to_str());
        // A name that starts with a dot is an editor's or our own half-written file.
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if matches!(named, Some("yaml" | "yml" | "json")) && !hidden && !path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads one file's text; the pure part of [`read`].
pub fn read_text(file: &Path, text: &str, loaded: &mut Loaded) {
    for (document, value) in read_all(text) {
        let value = match value {
            Ok(value) => value,
            Err(wrong) => {
                let line = document.first_line + wrong.line - 1;
                loaded.problems.push(Problem { line, ..unreadable(file, &wrong.message) });
                continue;
            }
        };
        if value.is_null() {
            continue;
        }
        let items = match value.get("kind").and_then(Value::as_str) {
            Some("List") => value.get("items").and_then(Value::as_array).cloned(),
            _ => None,
        };
        for value in items.unwrap_or_else(|| vec![value]) {
            Reading { file, document: &document, object: String::new(), loaded }.object(&value);
        }
    }
}

/// One object on its way in.
struct Reading<'a> {
    file: &'a Path,
    document: &'a Document<'a>,
    object: String,
    loaded: &'a mut Loaded,
}

impl Reading<'_> {
    fn object(&mut self, value: &Value) {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let (group, kind) = (text("/apiVersion"), text("/kind"));
        let name = text("/metadata/name").to_owned();
        self.object = format!("{kind} {name}").trim().to_owned();
        if kind.is_empty() || group.is_empty() {
            return self.problem("", "every object needs apiVersion and kind", Weight::Error);
        }
        if name.is_empty() {
            return self.problem("metadata", "metadata.name is missing", Weight::Error);
        }
        let namespace = match text("/metadata/namespace") {
            "" => "default".to_owned(),
            given => given.to_owned(),
        };
        if kind != "Namespace" {
            self.object = format!("{kind} {namespace}/{name}");
        }
        for (field, wrong) in [
            ("metadata.name", label::wrong_name(&name)),
            ("metadata.namespace", label::wrong_label(&namespace)),
        ] {
            if let Some(wrong) = wrong {
                return self.problem(field, &wrong, Weight::Error);
            }
        }
        let key = (namespace, name.clone());
        match (group, kind) {
            ("v1", "Namespace") => {
                if let Some(object) = self.typed(value, supported::NAMED) {
                    self.loaded.objects.namespaces.insert(name, object);
                }
            }
            ("v1", "ServiceAccount") => {
                if let Some(object) = self.typed(value, supported::NAMED) {
                    self.loaded.objects.service_accounts.insert(key, object);
                }
            }
            ("v1", "Pod") => {
                if let Some(object) = self.typed::<Pod>(value, supported::POD) {
                    self.loaded.objects.pods.insert(key, object);
                }
            }
            ("apps/v1", "Deployment") => {
                if let Some(object) = self.typed::<Deployment>(value, supported::DEPLOYMENT) {
                    self.loaded.objects.deployments.insert(key, object);
                }
            }
            ("batch/v1", "Job") => {
                if let Some(object) = self.typed::<Job>(value, supported::JOB) {
                    self.loaded.objects.jobs.insert(key, object);
                }
            }
            ("v1", "Service") => {
                if let Some(object) = self.typed::<Service>(value, supported::SERVICE) {
                    self.loaded.objects.services.insert(key, object);
                }
            }
            ("v1", "ConfigMap") => {
                if let Some(object) = self.typed(value, supported::CONFIG) {
                    self.loaded.objects.config_maps.insert(key, object);
                }
            }
            ("v1", "Secret") => {
                if let Some(object) = self.typed(value, supported::CONFIG) {
                    self.loaded.objects.secrets.insert(key, object);
                }
            }
            // Routes and policies are the control plane's business, which reads the same files and reports on them.
            (group, _) if CONTROL_PLANE_GROUPS.iter().any(|theirs| group.starts_with(theirs)) => {}
            _ => {
                let meant = suggest::kind(kind);
                let message = format!("leno up does not support {kind} ({group}){meant}");
                self.problem("kind", &message, Weight::Error);
            }
        }
    }

    /// The published type, with every field that is unknown to it or unused by us reported.
    fn typed<T: DeserializeOwned>(&mut self, value: &Value, supported: &[&str]) -> Option<T> {
        self.note_duplicate();
        let Typed { object, unknown } = typed::read::<T>(value);
        for field in &unknown {
            let message = format!("unknown field{}", suggest::field(field, supported));
            self.problem(field, &message, Weight::Error);
        }
        for field in supported::unused(value, supported) {
            if !unknown.contains(&field) {
                self.problem(&field, "this field has no effect in leno up", Weight::Note);
            }
        }
        if let Some(field) = supported::first_image(value) {
            self.problem(&field, IMAGE_NOTE, Weight::Note);
        }
        object.map_err(|wrong| self.problem(&wrong.field, &wrong.message, Weight::Error)).ok()
    }

    /// An object of the same name in a later source replaces an earlier one; in the same source it is most likely a mistake.
    fn note_duplicate(&mut self) {
        let line = self.document.line_of("metadata.name");
        let place = (self.loaded.source, self.file.to_owned(), line);
        let before = self.loaded.places.insert(self.object.clone(), place);
        if let Some((source, file, line)) = before
            && source == self.loaded.source
        {
            let message =
                format!("the object is also in {}:{line}; the later one is used", file.display());
            self.problem("metadata.name", &message, Weight::Warning);
        }
    }

    fn problem(&mut self, field: &str, message: &str, weight: Weight) {
        self.loaded.problems.push(Problem {
            file: self.file.to_owned(),
            line: self.document.line_of(field),
            object: self.object.clone(),
            field: field.to_owned(),
            message: message.to_owned(),
            weight,
        });
    }
}

/// Namespace and name of an object; `default` where none is given.
#[must_use]
pub fn key(metadata: &ObjectMeta) -> Key {
    (
        metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        metadata.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut loaded = Loaded::default();
        read_text(Path::new("a.yaml"), text, &mut loaded);
        loaded
            .problems
            .iter()
            .map(|problem| {
                format!("{}{problem}", if problem.weight == Weight::Error { "! " } else { "" })
            })
            .collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(problems(text), expected, "{text}");
    }

    #[test]
    fn every_mistake_is_named() {
        check("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n", &[]);
        check("# nothing\n---\n---\n", &[]);
        let rule =
            "is not a valid name (a-z, 0-9, - and dots, with a letter or digit at both ends)";
        check(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a/../x\n",
            &[&format!("! a.yaml:4: Pod default/a/../x: metadata.name: \"a/../x\" {rule}")],
        );
        check(
            "apiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n",
            &["! a.yaml:2: Gadget default/a: kind: leno up does not support Gadget (v1)"],
        );
        check(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\n",
            &[],
        );
        for kind in ["XAuthorizationPolicy", "XBackendTrafficPolicy"] {
            let version = "gateway.networking.x-k8s.io/v1alpha1";
            check(&format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"), &[]);
        }
        check("kind: Pod\n", &["! a.yaml:1: Pod: every object needs apiVersion and kind"]);
        check(
            "apiVersion: v1\nkind: Pod\n",
            &["! a.yaml:1: Pod: metadata: metadata.name is missing"],
        );
        let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n    - name: c\n";
        check(
            &format!("{pod}      comand: [x]\n"),
            &[
                "! a.yaml:8: Pod default/a: spec.containers.0.comand: unknown field; did you mean command?",
            ],
        );
        check(
            &format!("{pod}      tty: true\n  dnsPolicy: None\n"),
            &[
                "a.yaml:8: Pod default/a: spec.containers.0.tty: this field has no effect in leno up",
                "a.yaml:9: Pod default/a: spec.dnsPolicy: this field has no effect in leno up",
            ],
        );
        check(
            &format!("---\n{pod}      ports:\n        - containerPort: many\n"),
            &[
                "! a.yaml:10: Pod default/a: spec.containers.0.ports.0.containerPort: invalid type: string \"many\", expected i32",
            ],
        );
    }

    #[test]
    fn a_document_beside_its_separator_is_read() {
        let [one, two, three, four] = ["one", "two", "three", "four"]
            .map(|name| format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
        let file = format!("\u{feff}{one}\n--- {two}\n---\t{three}\r\n...\r\n{four}\r\n");
        let mut loaded = Loaded::default();
        read_text(Path::new("a.yaml"), &file, &mut loaded);
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let names: Vec<&String> = loaded.objects.namespaces.keys().collect();
        assert_eq!(names, ["four", "one", "three", "two"]);
        check(
            &format!("--- {one}\n--- {{kind: Pod}}\n"),
            &["! a.yaml:2: Pod: every object needs apiVersion and kind"],
        );
    }

    #[test]
    fn an_object_that_is_there_twice_is_reported() {
        let one = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n";
        check(
            &format!("{one}---\n{one}"),
            &[
                "a.yaml:9: Namespace a: metadata.name: the object is also in a.yaml:4; the later one is used",
            ],
        );
    }

    #[test]
    fn malformed_yaml_names_its_line() {
        let found = problems("apiVersion: v1\nkind: Pod\nmetadata: {name: a\nspec: ]\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("! a.yaml:4: "), "{found:?}");
        let found = problems("a: 1\n---\nb: 1\nb: 2\n");
        assert!(found[1].starts_with("! a.yaml:4: "), "{found:?}");
    }
}
