//! What one part of a scenario says of another: loads of earlier loads, events of loads, assertions and published figures of
//! both, and all of them of what the manifests have. Pure; every mistake is said of the field that makes it.

use crate::mesh::Kind;
use crate::scenario::known::Known;
use crate::scenario::load::{Load, Rate};
use crate::scenario::phases::Phases;
use crate::scenario::reader::Node;
use crate::scenario::rules::{Assertion, Figure};
use crate::scenario::timeline::{Action, Entry, KINDS};
use crate::scenario::topology::Topology;
use crate::scenario::units;
use crate::scenario::windows::{WHOLE, Window};
use leno_load::url::Url;

/// Says what is wrong with the manifests, and with the names that the topology itself uses. The names are given back, or none
/// where a mistake keeps some of them from being known: what was not read is not missing.
pub(super) fn topology(node: &Node<'_>, topology: &Topology, known: Known) -> Option<Known> {
    for (field, message) in &known.mistakes {
        node.wrong_in(field, message);
    }
    let is_bare = topology.manifests.is_empty() && topology.instances.is_none();
    if is_bare || node.is_wrong_in("manifests") || node.is_wrong_in("instances") {
        return None;
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
    for (at, workload) in topology.counted.iter().enumerate() {
        if let Some(message) = known.wrong_settable(workload) {
            node.wrong_in(&format!("counted.{at}"), message);
        }
    }
    Some(known)
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
        let load = Load::read(node, &topology.client, phases);
        if node.value().is_object() {
            earlier(node, &load, &loads);
            reach(node, &load, topology, known);
        }
        loads.push(load);
    }
    loads
}

/// What it says of the loads before it.
fn earlier(node: &Node<'_>, load: &Load, loads: &[Load]) {
    let is_named = |name: &str| loads.iter().any(|earlier| earlier.name == name);
    if !load.name.is_empty() && is_named(&load.name) {
        node.wrong_in("name", format!("a load before it is named {}, too", load.name));
    }
    for rate in &load.rates {
        let Rate::Share { load: of, share } = rate else { continue };
        if !is_named(of) && are_named(loads) {
            node.wrong_in("rate.load", format!("no earlier load is named {of}"));
        }
        if *share <= 0.0 || *share > 1.0 {
            node.wrong_in("rate.share", format!("{share} is not within 0 and 1"));
        }
    }
}

/// Whether each has a name; one that could not be read may be the one that is meant.
fn are_named(loads: &[Load]) -> bool {
    loads.iter().all(|load| !load.name.is_empty())
}

/// Who sends, and where to.
fn reach(node: &Node<'_>, load: &Load, topology: &Topology, known: Option<&Known>) {
    // Without the client it is not known either what it reaches.
    let is_usual = load.client == topology.client;
    let unread = node.is_wrong_in("client") || (is_usual && node.is_wrong_below("topology.client"));
    let known = known.filter(|_| !unread);
    if let Some(message) = known.and_then(|known| known.wrong_workload(&load.client)) {
        node.wrong_in("client", message);
    }
    for target in &load.targets {
        let is_lost = target.url.contains("{i}") && topology.instances.is_none();
        if is_lost && !node.is_wrong_below("topology.instances") {
            node.wrong_in("target", "{i} is the number of an instance, and there are no instances");
        }
        // A name with an unresolved number is not the name of a Service.
        reach_url(node, load, &target.url, known.filter(|_| !is_lost));
    }
}

/// A text that is not a URL gets only this message.
fn reach_url(node: &Node<'_>, load: &Load, text: &str, known: Option<&Known>) {
    let Some((scheme, _)) = text.split_once("://") else {
        let begin = "a URL begins with http://, grpc:// or tcp://, then host and port";
        node.wrong_in("target", format!("{text:?}: {begin}"));
        return;
    };
    let url = match text.replace("{i}", "0").parse::<Url>() {
        Ok(url) => url,
        Err(message) => return node.wrong_in("target", message),
    };
    if !load.protocol.goes_with(scheme) && !node.is_wrong_in("protocol") {
        let name = load.protocol.name();
        node.wrong_in("target", format!("{text:?} is not valid with protocol {name}"));
    }
    if let Some(message) = known.and_then(|known| known.wrong_target(&load.client, &url)) {
        node.wrong_in("target", message);
    }
}

/// All that is done meanwhile.
pub(super) fn timeline(nodes: &[Node<'_>], loads: &[Load], known: Option<&Known>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let disturbed: Vec<&Load> =
        loads.iter().filter(|load| load.timeline && load.requests.is_none()).collect();
    for node in nodes {
        let Some(entry) = Entry::read(node) else { continue };
        // A length of zero is a mistake that was said already: it may be any.
        let late = |load: &&Load| {
            let length = load.phases.measure;
            !length.is_zero() && entry.at > length
        };
        if !disturbed.is_empty() && disturbed.iter().all(late) {
            let at = units::spoken(entry.at);
            let kind = entry.action.kind();
            node.wrong(format!("{kind} at {at} is after the end of every load"));
        }
        if !loads.is_empty() && loads.iter().all(|load| !load.timeline) {
            node.wrong("every load has timeline: false, so this action never runs");
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

/// Windows of the measured phase: some load must last as long.
pub(super) fn windows(node: &Node<'_>, loads: &[Load]) -> Vec<Window> {
    let windows = Window::read_all(node);
    let longest = loads.iter().map(|load| load.phases.measure).max().unwrap_or_default();
    for window in &windows {
        let end = window.during.iter().map(|(_, to)| *to).max().unwrap_or_default();
        if !longest.is_zero() && end > longest {
            let end = units::spoken(end);
            node.wrong_in(&window.name, format!("{end} is after the end of every load"));
        }
    }
    windows
}

/// What an assertion says of windows and of counted workloads.
fn of_windows(node: &Node<'_>, assertion: &Assertion, windows: &[Window], topology: &Topology) {
    let known = |name: &str| name == WHOLE || windows.iter().any(|window| window.name == name);
    let beside = assertion.beside.as_ref();
    let named = [
        ("window", assertion.window.as_deref()),
        ("beside.window", beside.and_then(|beside| beside.window.as_deref())),
    ];
    for (field, name) in named {
        let Some(name) = name.filter(|name| !known(name)) else { continue };
        if !node.is_wrong_below("windows") {
            node.wrong_in(field, format!("there is no window {name:?} in windows"));
        }
    }
    let counted = [("workload", &assertion.workload), ("from", &assertion.from)];
    for (field, name) in counted {
        let Some(name) = name.as_ref().filter(|name| !topology.counted.contains(name)) else {
            continue;
        };
        node.wrong_in(field, format!("{name:?} is not in topology.counted"));
    }
    if assertion.pod.is_some() && topology.counted.is_empty() {
        node.wrong_in("pod", "needs its workload in topology.counted");
    }
}

/// What assertions are about.
pub(super) struct About<'a> {
    pub(super) loads: &'a [Load],
    pub(super) timeline: &'a [Entry],
    pub(super) windows: &'a [Window],
    pub(super) topology: &'a Topology,
}

/// All that must hold.
pub(super) fn assertions(nodes: &[Node<'_>], about: &About<'_>) -> Vec<Assertion> {
    let About { loads, timeline, windows, topology } = *about;
    let mut assertions = Vec::new();
    for node in nodes {
        let Some(assertion) = Assertion::read(node) else { continue };
        of_windows(node, &assertion, windows, topology);
        if let Some(load) = assertion.beside.as_ref().and_then(|beside| beside.load.as_ref()) {
            named(node, load, loads);
        }
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
            // A line that could not be read may be the one.
            let is_there = timeline.iter().any(|entry| entry.action.kind() == kind)
                || node.is_wrong_below("timeline");
            if !KINDS.contains(&kind.as_str()) {
                let kinds = KINDS.join(", ");
                node.wrong_in("except.after", format!("{kind:?} is not one of {kinds}"));
            } else if !is_there {
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
    // Where the names could not be read, that is what is to be mended.
    if found.is_none() && !loads.is_empty() && are_named(loads) {
        let names: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
        node.wrong_in("load", format!("no load is named {name:?}; there are {}", names.join(", ")));
    }
    found
}
