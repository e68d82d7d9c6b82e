//! The one function that decides on a pod and makes its patch.

use crate::annotation::{self, LINKERD_INJECT, MESHED, WAS};
use crate::mesh::{self, HostNetwork, Mesh};
use crate::scope::{self, EXCLUDED, Marks, Namespace, Wish, Words};
use crate::{is_empty, names, pod};
use leno_manifest::patch::{Operation, escaped};
use serde_json::{Map, Value, json};

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It gets a proxy.
    Inject(Injected),
    /// It stays as it is, for this reason.
    Skip(String),
    /// Its namespace is in the mesh, and it is left outside for this reason; an Event says so.
    LeaveOut(String),
    /// It is wished into the mesh and cannot be in it, for these reasons.
    Refuse(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// Steps, from the pod's or template's root.
    pub patch: Vec<Operation>,
    /// What was left alone, in sentences.
    pub warnings: Vec<String>,
}

/// Decides on a pod, or on a template of pods: anything with `metadata` and `spec`.
///
/// `otherwise` holds where neither pod nor namespace says anything. The answer is the same for the same pod, whoever asks.
#[must_use]
pub fn inject(pod: &Value, namespace: &Namespace<'_>, otherwise: Wish, mesh: &Mesh) -> Outcome {
    let name = namespace.name;
    if EXCLUDED.contains(&name) || name == mesh.namespace {
        return Outcome::Skip(format!("namespace {name} is never part of the mesh"));
    }
    let marks = match Marks::of(pod.get("metadata")) {
        Ok(marks) => marks,
        Err(wrong) => return Outcome::Refuse(vec![wrong]),
    };
    if scope::is_static(pod.get("metadata")) {
        return Outcome::Skip("it is a static pod: its node runs it from a local file, which cannot be changed through the API".to_owned());
    }
    match scope::wish(&marks, &namespace.marks, otherwise, mesh.words) {
        Err(wrong) => return Outcome::Refuse(vec![wrong]),
        Ok(Wish::Disabled) => return Outcome::Skip("injection is not enabled".to_owned()),
        Ok(Wish::Enabled) => {}
    }
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    if mesh.host_network == HostNetwork::Skip
        && scope::is_on_host_network(spec)
        && !scope::is_injected(spec)
        && scope::wish(&marks, &Marks::default(), Wish::Disabled, mesh.words) == Ok(Wish::Disabled)
    {
        return Outcome::LeaveOut("it uses the node's network (hostNetwork)".to_owned());
    }
    // What was injected before may have been changed since, by hand or by another webhook.
    let whole = scope::is_whole(spec);
    let mut wrong = scope::obstacles(spec);
    if whole {
        // A copy for debugging has none: `kubectl debug --copy-to` takes annotations away. The control plane sees the containers.
        if let Some(word) = marks.annotations.get(MESHED).filter(|word| **word != "true") {
            wrong.push(format!("it has {}, and annotation {MESHED}: {word:?}", names::PROXY));
        }
    } else {
        for written in [MESHED, WAS] {
            if marks.annotations.contains_key(written) {
                wrong
                    .push(format!("only the injector may set the annotation {written}; remove it"));
            }
        }
    }
    let number_of = |name: &str| scope::port_named(spec, name);
    let settings = annotation::read(marks.annotations(), namespace.marks.annotations(), &number_of);
    match settings {
        Err(mistakes) => {
            wrong.extend(mistakes);
            Outcome::Refuse(wrong)
        }
        Ok(_) if !wrong.is_empty() => Outcome::Refuse(wrong),
        Ok(_) if whole => Outcome::Skip(format!("it already has {}", names::PROXY)),
        Ok(mut settings) => {
            settings.fill(&mesh.settings);
            let mut warnings = std::mem::take(&mut settings.warnings);
            warnings.extend(warn(spec, &marks, namespace, &settings, mesh.words));
            warnings.extend(mesh::unknown_name(spec, mesh));
            Outcome::Inject(Injected { patch: patch(pod, spec, &settings, mesh), warnings })
        }
    }
}

fn warn(
    spec: &Value,
    marks: &Marks<'_>,
    namespace: &Namespace<'_>,
    settings: &annotation::Settings,
    words: Words,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let ingress = |marks: &Marks<'_>| {
        words == Words::LinkerdsToo && marks.annotations.get(LINKERD_INJECT) == Some(&"ingress")
    };
    if ingress(marks) || ingress(&namespace.marks) {
        warnings.push(format!(
            "annotation {LINKERD_INJECT}: ingress is treated as enabled; Leno selects destinations by address, not by l5d-dst-override"
        ));
    }
    let drain = settings.get("shutdown-grace-period").and_then(|text| text.parse::<u64>().ok());
    let grace = pod::grace_seconds(spec);
    if let Some(drain) = drain.filter(|drain| *drain > grace) {
        warnings.push(format!(
            "shutdown-grace-period {drain} s is longer than the pod's terminationGracePeriodSeconds, {grace} s"
        ));
    }
    warnings
}

/// The steps. What is added to a list comes first in it, so that no number of the pod's own elements has to be known.
fn patch(
    pod: &Value,
    spec: &Value,
    settings: &annotation::Settings,
    mesh: &Mesh,
) -> Vec<Operation> {
    let mut steps = Vec::new();
    let mut was = Map::new();
    for (field, values) in
        [("initContainers", pod::containers(spec, settings, mesh)), ("volumes", pod::volumes(mesh))]
    {
        let path = format!("/spec/{field}");
        if prepare(&path, spec.get(field), &mut was) {
            steps.push(Operation::Add { path, value: values.into() });
            continue;
        }
        for (at, value) in values.into_iter().enumerate() {
            steps.push(Operation::Add { path: format!("{path}/{at}"), value });
        }
    }
    let metadata = pod.get("metadata");
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    let create_metadata = prepare("/metadata", metadata, &mut was);
    let create = create_metadata || prepare("/metadata/annotations", annotations, &mut was);
    let mut ours = Map::from_iter([(MESHED.to_owned(), json!("true"))]);
    if mesh.prometheus_annotations && !is_scraped(annotations) {
        let port = names::ADMIN_PORT.to_string();
        for (name, value) in [("scrape", "true"), ("port", &port), ("path", "/metrics")] {
            ours.insert(format!("{SCRAPE}{name}"), value.into());
        }
    }
    if !was.is_empty() {
        ours.insert(WAS.to_owned(), Value::Object(was).to_string().into());
    }
    if create_metadata {
        steps.push(Operation::Add {
            path: "/metadata".to_owned(),
            value: json!({"annotations": ours}),
        });
    } else if create {
        steps.push(Operation::Add { path: "/metadata/annotations".to_owned(), value: ours.into() });
    } else {
        let path = |key: &str| format!("/metadata/annotations/{}", escaped(key));
        steps.extend(
            ours.into_iter().map(|(key, value)| Operation::Add { path: path(&key), value }),
        );
    }
    steps
}

/// Annotations by which a usual scrape configuration of Prometheus finds a pod.
const SCRAPE: &str = "prometheus.io/";

/// Whether the application says itself where its metrics are. Prometheus reads one port of a pod by annotations, so the application's own is kept.
fn is_scraped(annotations: Option<&Value>) -> bool {
    let names = annotations.and_then(Value::as_object).into_iter().flat_map(Map::keys);
    names.into_iter().any(|name| name.starts_with(SCRAPE))
}

/// Whether a field has to be made. What it was is remembered where that was something: `null`, `[]`, `{}`.
fn prepare(path: &str, field: Option<&Value>, was: &mut Map<String, Value>) -> bool {
    match field {
        None => true,
        Some(field) if is_empty(field) => {
            was.insert(path.to_owned(), field.clone());
            true
        }
        Some(_) => false,
    }
}
