//! What one part of a scenario says of another: loads of earlier loads, events of loads, assertions and published figures of
//! both, and all of them of what the manifests have. Pure; every mistake is said of the field that makes it.

use crate::load::url::Url;
use crate::mesh::Kind;
use crate::scenario::known::Known;
use crate::scenario::load::{Load, Rate};
use crate::scenario::phases::Phases;
use crate::scenario::reader::Node;
use crate::scenario::rules::{Assertion, Figure};
use crate::scenario::timeline::{Action, Entry, KINDS};
use crate::scenario::topology::Topology;
use crate::scenario::units;

/// Says what is wrong with the manifests, and with the names that the topology itself uses.
pub(super) fn topology(node: &Node<'_>, topology: &Topology, known: &Known) {
    for (field, message) in &known.mistakes {
        node.wrong_in(field, message);
    }
    for workload in topology.replicas.keys() {
        if let Some(message) = known.wrong_deployment(workload) {
            node.wrong_in(&format!("replicas.{workload}"), message);
        }
    }
    for (at, workload) in topology.unmeshed.iter().enumerate() {
        if let Some(message) = known.wrong_workload(workload) {
            node.wrong_in(&format!("unmeshed.{at}"), message);
        }
    }
}

/// All loads, each looked at beside those before it.
pub(super) fn loads(
    nodes: &[Node<'_>],
    topology: &Topology,
    phases: &Phases,
    known: Option<&Known>,
) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    for node in nodes {
        let Some(load) = Load::read(node, &topology.client, phases) else { continue };
        if loads.iter().any(|earlier| earlier.name == load.name) {
            node.wrong_in("name", format!("a load before it is named {}, too", load.name));
        }
        for rate in &load.rates {
            let Rate::Share { load: of, share } = rate else { continue };
            if !loads.iter().any(|earlier| earlier.name == *of) {
                node.wrong_in("rate.load", format!("no earlier load is named {of}"));
            }
            if *share <= 0.0 || *share > 1.0 {
                node.wrong_in("rate.share", format!("{share} is not within 0 and 1"));
            }
        }
        reach(node, &load, topology, known);
        loads.push(load);
    }
    loads
}

/// Who sends, and where to.
fn reach(node: &Node<'_>, load: &Load, topology: &Topology, known: Option<&Known>) {
    if let Some(message) = known.and_then(|known| known.wrong_workload(&load.client)) {
        node.wrong_in("client", message);
    }
    for target in &load.targets {
        let is_each = target.url.contains("{i}");
        if is_each && topology.instances.is_none() {
            node.wrong_in("target", "{i} is the number of an instance, and there are no instances");
            continue;
        }
        // That there is no scheme has been said already.
        let url = target.url.contains("://").then(|| target.url.replace("{i}", "0"));
        let wrong = match url.map(|url| url.parse::<Url>()) {
            None => None,
            Some(Err(message)) => Some(message),
            Some(Ok(url)) => known.and_then(|known| known.wrong_target(&load.client, &url)),
        };
        if let Some(message) = wrong {
            node.wrong_in("target", message);
        }
    }
}

/// All that is done meanwhile.
pub(super) fn timeline(nodes: &[Node<'_>], loads: &[Load], known: Option<&Known>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let disturbed: Vec<&Load> = loads
        .iter()
        .filter(|load| load.timeline && load.requests.is_none() && !load.phases.measure.is_zero())
        .collect();
    for node in nodes {
        let Some(entry) = Entry::read(node) else { continue };
        let late = |load: &&Load| entry.at > load.phases.measure;
        if !disturbed.is_empty() && disturbed.iter().all(late) {
            let at = units::spoken(entry.at);
            let kind = entry.action.kind();
            node.wrong(format!("{kind} at {at} is after the end of every load"));
        }
        if !loads.is_empty() && loads.iter().all(|load| !load.timeline) {
            node.wrong("every load has timeline: false, so this is never done");
        }
        let wrong = known.and_then(|known| match &entry.action {
            Action::RestartControl => None,
            Action::Set { workload, .. } => known.wrong_settable(workload),
            action => known.wrong_workload(action.workload()),
        });
        if let Some(message) = wrong {
            node.wrong_in(&format!("do.{}.workload", entry.action.kind()), message);
        }
        entries.push(entry);
    }
    entries
}

/// All that must hold.
pub(super) fn assertions(nodes: &[Node<'_>], loads: &[Load], timeline: &[Entry]) -> Vec<Assertion> {
    let mut assertions = Vec::new();
    for node in nodes {
        let Some(assertion) = Assertion::read(node) else { continue };
        for name in &assertion.loads {
            named(node, name, loads);
        }
        let mesh = |field: &str, name: &str| {
            if let Err(message) = name.parse::<Kind>() {
                node.wrong_in(field, message);
            }
        };
        assertion.meshes.iter().for_each(|name| mesh("mesh", name));
        assertion.versus.iter().for_each(|name| mesh("versus", name));
        if let Some((kind, _)) = &assertion.except {
            if !KINDS.contains(&kind.as_str()) {
                let kinds = KINDS.join(", ");
                node.wrong_in("except.after", format!("{kind:?} is none of {kinds}"));
            } else if !timeline.iter().any(|entry| entry.action.kind() == kind) {
                node.wrong_in("except.after", format!("nothing in the timeline is a {kind}"));
            }
        }
        assertions.push(assertion);
    }
    assertions
}

/// A published figure: there must be cells of ours that it can stand beside. Meshes of studies need not be ours.
pub(super) fn figure(node: &Node<'_>, figure: &Figure, loads: &[Load]) {
    let Some(load) = named(node, &figure.load, loads) else { return };
    // What could not be read there is what is to be mended.
    if node.is_wrong_below("loads") {
        return;
    }
    for (name, value) in &figure.params {
        let ours: Vec<f64> = match name.as_str() {
            "rate" => load.rates.iter().filter_map(Rate::fixed).collect(),
            _ => load.connections.iter().map(|count| f64::from(*count)).collect(),
        };
        if !ours.contains(value) {
            node.wrong_in(name, format!("the load {} has no {name} {value}", load.name));
        }
    }
}

fn named<'a>(node: &Node<'_>, name: &str, loads: &'a [Load]) -> Option<&'a Load> {
    let found = loads.iter().find(|load| load.name == name);
    // Where no load could be read, that is what is to be mended.
    if found.is_none() && !loads.is_empty() {
        let names: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
        node.wrong_in("load", format!("no load is named {name:?}; there are {}", names.join(", ")));
    }
    found
}
