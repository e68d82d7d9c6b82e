//! Takes out exactly what [`mod@crate::inject`] put in.

use crate::annotation::{MESHED, WAS};
use crate::is_empty;
use crate::names::{INIT, PROXY, VOLUMES};
use crate::scope::{is_whole, name_of};
use leno_manifest::patch::{Operation, escaped};
use serde_json::{Map, Value};

/// The patch that takes the proxy out of a pod or template of pods; `None` where there is nothing of ours. What was never injected may
/// have a volume or container that is called as one of ours, and keeps it.
#[must_use]
pub fn uninject(pod: &Value) -> Option<Vec<Operation>> {
    let mut steps = Vec::new();
    let annotations = pod.pointer("/metadata/annotations");
    let is_marked = |key: &str| annotations.is_some_and(|all| all.get(key).is_some());
    if !is_marked(MESHED) && !is_marked(WAS) && !is_whole(pod.get("spec").unwrap_or(&Value::Null)) {
        return None;
    }
    let was: Map<String, Value> = annotations
        .and_then(|annotations| annotations.get(WAS)?.as_str())
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let ours: [(&str, &[&str]); 2] = [("initContainers", &[INIT, PROXY]), ("volumes", &VOLUMES)];
    for (field, names) in ours {
        let path = format!("/spec/{field}");
        let items = pod.pointer(&path).and_then(Value::as_array);
        let items = items.map(Vec::as_slice).unwrap_or_default();
        let found = |item: &&Value| names.contains(&name_of(item));
        match items.iter().filter(found).count() {
            0 => {}
            all if all == items.len() => steps.push(emptied(path, &was)),
            // From the end, so that no number changes before it is used.
            _ => steps.extend(
                items
                    .iter()
                    .enumerate()
                    .rev()
                    .filter(|(_, item)| found(item))
                    .map(|(at, _)| Operation::Remove { path: format!("{path}/{at}") }),
            ),
        }
    }
    if let Some(annotations) = annotations.and_then(Value::as_object) {
        let found: Vec<&str> =
            [MESHED, WAS].into_iter().filter(|key| annotations.contains_key(*key)).collect();
        let path = "/metadata/annotations".to_owned();
        if found.is_empty() {
            // Nothing of ours.
        } else if found.len() < annotations.len() {
            let path = |key: &str| format!("{path}/{}", escaped(key));
            steps.extend(found.iter().map(|key| Operation::Remove { path: path(key) }));
        } else if pod["metadata"].as_object().is_some_and(|metadata| metadata.len() > 1)
            || was.contains_key(&path)
        {
            steps.push(emptied(path, &was));
        } else {
            steps.push(emptied("/metadata".to_owned(), &was));
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// A field that holds nothing any more: what it was before, or nothing at all.
fn emptied(path: String, was: &Map<String, Value>) -> Operation {
    match was.get(&path).filter(|was| is_empty(was)) {
        Some(value) => Operation::Replace { path, value: value.clone() },
        None => Operation::Remove { path },
    }
}
