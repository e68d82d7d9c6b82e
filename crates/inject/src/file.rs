//! Files of manifests, as `leno inject` and `leno uninject` take them: text in; text, and a word on every object, out.

use crate::inject::{Injected, Outcome, inject};
use crate::mesh::Mesh;
use crate::scope::{Marks, Namespace, Wish};
use crate::uninject::uninject;
use crate::workload::{Place, item_kind, places};
use leno_manifest::patch::Operation;
use leno_manifest::{Document, documents, is_blank, read, read_all};
use serde_json::Value;
use std::collections::BTreeMap;

/// A file that was worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The file as it is now.
    pub text: String,
    /// A word on every object, in the file's order.
    pub reports: Vec<Report>,
}

/// A word on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `deployment "web"`; or the line of a document that cannot be read.
    pub object: String,
    /// What became of it.
    pub said: Said,
    /// What was left alone, in sentences.
    pub warnings: Vec<String>,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has a proxy now.
    Injected,
    /// It has none any more.
    Uninjected,
    /// It is as it was; for this reason, where there is one to tell.
    Skipped(Option<String>),
    /// It cannot be part of the mesh, or cannot be read; it is as it was.
    Refused(Vec<String>),
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { object, .. } = self;
        match &self.said {
            Said::Injected => write!(f, "{object} injected"),
            Said::Uninjected => write!(f, "{object} uninjected"),
            Said::Skipped(None) => write!(f, "{object} skipped"),
            Said::Skipped(Some(reason)) => write!(f, "{object} skipped: {reason}"),
            Said::Refused(reasons) => write!(f, "{object} refused: {}", reasons.join("; ")),
        }
    }
}

/// Namespaces that files describe, `metadata` by name: what is written there holds for what is in them.
pub type Namespaces = BTreeMap<String, Value>;

/// Adds the namespaces of a file to those of others.
pub fn add_namespaces(file: &str, namespaces: &mut Namespaces) {
    // What cannot be read is reported when it is worked on.
    for value in read_all(file).filter_map(|(_, value)| value.ok()) {
        let items = value.get("items").and_then(Value::as_array);
        let kind_of = |object: &'_ Value| object.get("kind")?.as_str().map(str::to_owned);
        let of_list = kind_of(&value).map(|kind| item_kind(&kind).to_owned());
        for object in items.map_or(std::slice::from_ref(&value), Vec::as_slice) {
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            let kind = kind_of(object).or_else(|| of_list.clone());
            let is_namespace = kind.as_deref() == Some("Namespace");
            if let Some(name) = name.filter(|_| is_namespace) {
                namespaces.insert(name.to_owned(), object["metadata"].clone());
            }
        }
    }
}

/// Gives every pod of a file its proxy, except where `disabled` is written on it or its namespace.
///
/// `namespace` is where objects are that name none.
#[must_use]
pub fn inject_file(file: &str, namespace: &str, namespaces: &Namespaces, mesh: &Mesh) -> Done {
    change(file, Some(BY_LABEL), |pod, place| {
        let name = if place.namespace.is_empty() { namespace } else { &place.namespace };
        let marks = match Marks::of(namespaces.get(name)) {
            Ok(marks) => marks,
            Err(wrong) => return (Vec::new(), Said::Refused(vec![wrong]), Vec::new()),
        };
        match inject(pod, &Namespace { name, marks }, Wish::Enabled, mesh) {
            Outcome::Inject(Injected { patch, warnings }) => (patch, Said::Injected, warnings),
            Outcome::Skip(reason) | Outcome::LeaveOut(reason) => {
                (Vec::new(), Said::Skipped(Some(reason)), Vec::new())
            }
            Outcome::Refuse(reasons) => (Vec::new(), Said::Refused(reasons), Vec::new()),
        }
    })
}

/// Takes every proxy out of a file.
#[must_use]
pub fn uninject_file(file: &str) -> Done {
    change(file, None, |pod, _| match uninject(pod) {
        Some(patch) => (patch, Said::Uninjected, Vec::new()),
        None => (Vec::new(), Said::Skipped(None), Vec::new()),
    })
}

/// What is said of an object whose kind we do not know, and which has a template of pods: an Argo Rollout, a Service of Knative.
const BY_LABEL: &str = "its kind is unknown; to give its pods a proxy in a cluster, set the label leno.dev/inject: enabled on their template or Namespace";

type Decided = (Vec<Operation>, Said, Vec<String>);

fn change(file: &str, unknown: Option<&str>, decide: impl Fn(&Value, &Place) -> Decided) -> Done {
    let mut done = Done::default();
    for document in documents(file) {
        done.text.push_str(document.separator);
        let changed = change_one(document, unknown, &decide, &mut done.reports);
        // A block cannot begin beside its separator.
        let is_block = changed.as_ref().is_some_and(|text| !text.starts_with(['{', '[']));
        if is_block && document.separator.contains("---") && !document.separator.ends_with('\n') {
            done.text.push('\n');
        }
        done.text.push_str(changed.as_deref().unwrap_or(document.text));
    }
    done
}

/// The document's new text, where it has one.
fn change_one(
    document: Document<'_>,
    unknown: Option<&str>,
    decide: &impl Fn(&Value, &Place) -> Decided,
    reports: &mut Vec<Report>,
) -> Option<String> {
    let Document { text, first_line, .. } = document;
    if is_blank(text) {
        return None;
    }
    let mut broken = |why: String| {
        let object = format!("the document on line {first_line}");
        reports.push(Report { object, said: Said::Refused(vec![why]), warnings: Vec::new() });
        None
    };
    let value = match read(text) {
        Ok(value) => value,
        Err(why) => return broken(why.to_string()),
    };
    let (mut patch, mut told) = (Vec::new(), Vec::new());
    for place in places(&value) {
        let pod = place.pointer.as_ref().map(|at| (at, value.pointer(at).unwrap_or(&Value::Null)));
        let (steps, said, warnings) = match pod {
            Some((at, pod)) => {
                let (steps, said, warnings) = decide(pod, &place);
                let steps: Vec<Operation> = steps.into_iter().map(|step| step.below(at)).collect();
                (steps, said, warnings)
            }
            None => {
                let why = unknown.filter(|_| place.looks_like_pods).map(str::to_owned);
                (Vec::new(), Said::Skipped(why), Vec::new())
            }
        };
        patch.extend(steps);
        told.push(Report { object: place.shown, said, warnings });
    }
    if patch.is_empty() {
        reports.extend(told);
        return None;
    }
    match leno_manifest::change(text, &patch) {
        Err(why) => broken(why),
        Ok(changed) => {
            if changed.rewritten
                && let Some(last) = told.last_mut()
            {
                last.warnings.push("the document was rewritten without its comments".to_owned());
            }
            reports.extend(told);
            Some(changed.text)
        }
    }
}
