//! A mesh as a file declares it: how pods join, what its data plane and control plane are, and how mutual TLS is proved. Pure, but for the
//! reading of files.
//!
//! The built-in ones are files of the same form in `meshes/`; docs/cluster-bench.md describes it.

use crate::scenario::reader::{Mistakes, Node};
use crate::scenario::{API_VERSION, Mistake, placed};
use leno_runtime::prometheus_text;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A mesh that can be measured on a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    pub name: String,
    pub title: String,
    /// Whether the project's own tests measure it.
    pub tested: bool,
    /// What an operator does where it is not installed.
    pub install: String,
    /// What pods of the mesh, and their namespaces, have.
    pub join: Marks,
    /// What pods have that are to stay without a proxy.
    pub leave: Marks,
    /// Objects in each namespace of the mesh: a waypoint's Gateway.
    pub objects: Vec<Value>,
    /// Containers of a meshed pod that are its proxy.
    pub containers: Vec<String>,
    /// Proxies that the pods of a node share.
    pub daemonsets: Vec<Named>,
    pub control: Vec<Named>,
    pub metrics: Option<Metrics>,
    /// How connections are counted; none where the mesh has no mutual TLS of its own.
    pub mutual_tls: Option<MutualTls>,
}

/// Labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub namespace: Marked,
    pub pod: Marked,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// An object of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub namespace: String,
    pub name: String,
}

/// Where the data plane's proxies count, in Prometheus' text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    pub port: u16,
    pub path: String,
    /// Of the DaemonSets, and not of the containers.
    pub is_shared: bool,
    /// Requests that passed; the sum of all.
    pub requests: Vec<Selector>,
    /// CPU seconds of the proxy's own process, where it counts them.
    pub cpu_seconds: Option<Selector>,
}

/// Counters of connections or requests, of which those with mutual TLS are a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MutualTls {
    pub encrypted: Vec<Selector>,
    pub all: Vec<Selector>,
}

/// Samples of one metric that have these labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    name: String,
    labels: Vec<(String, String)>,
}

impl Selector {
    fn parse(text: &str) -> Option<Self> {
        // As in a scrape, but for the value.
        let sample = prometheus_text::samples(&format!("{text} 0")).next()?;
        Some(Self { name: sample.name, labels: sample.labels.into_iter().collect() })
    }

    /// Adds up the samples of a scrape that it selects; nothing where there is none.
    #[must_use]
    pub fn sum(&self, scrape: &str) -> Option<f64> {
        let labels: Vec<(&str, &str)> =
            self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let selected = prometheus_text::samples(scrape)
            .filter(|sample| sample.is(&self.name, &labels))
            .map(|sample| sample.value);
        selected.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }
}

/// The built-in ones, in the order of reports: names and texts.
const BUILT_IN: [(&str, &str); 8] = [
    ("none", include_str!("meshes/none.yaml")),
    ("leno", include_str!("meshes/leno.yaml")),
    ("linkerd", include_str!("meshes/linkerd.yaml")),
    ("istio-sidecar", include_str!("meshes/istio-sidecar.yaml")),
    ("istio-ambient", include_str!("meshes/istio-ambient.yaml")),
    ("istio-waypoint", include_str!("meshes/istio-waypoint.yaml")),
    ("cilium", include_str!("meshes/cilium.yaml")),
    ("kuma", include_str!("meshes/kuma.yaml")),
];

/// The baseline.
pub const NONE: &str = "none";
/// The word for the meshes that the cluster has.
pub const INSTALLED: &str = "installed";

/// Names of the built-in ones.
#[must_use]
pub fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

/// All built-in ones.
///
/// # Errors
/// One of them has mistakes: the project's tests read all.
pub fn built_in() -> Result<Vec<Declaration>, Vec<Mistake>> {
    BUILT_IN.iter().map(|(name, text)| parse(Path::new(&format!("{name}.yaml")), text)).collect()
}

/// The one with this name, or of this file.
///
/// # Errors
/// There is none, or its file has mistakes.
pub fn find(named: &str) -> Result<Declaration, String> {
    let lines = |mistakes: Vec<Mistake>| {
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == named) {
        return parse(Path::new(&format!("{name}.yaml")), text).map_err(lines);
    }
    let path = Path::new(named);
    if path.extension().is_none() {
        return Err(format!(
            "{named:?} is not a known mesh of a cluster; known: {}, or a file (docs/cluster-bench.md)",
            names().join(", ")
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{named}: {error}"))?;
    parse(path, &text).map_err(lines)
}

/// Reads a declaration.
///
/// # Errors
/// Every mistake in it, in the order of lines.
pub fn parse(file: &Path, text: &str) -> Result<Declaration, Vec<Mistake>> {
    let value = leno_manifest::read(text).map_err(|wrong| {
        let (line, column, message) = (wrong.line, Some(wrong.column), wrong.message);
        vec![Mistake { file: file.to_owned(), line, column, field: String::new(), message }]
    })?;
    let wrong = Mistakes::default();
    let declaration = read(&Node::root(&value, &wrong));
    let found = wrong.all();
    if found.is_empty() { Ok(declaration) } else { Err(placed(file, text, found)) }
}

fn read(root: &Node<'_>) -> Declaration {
    let fields = root.fields(&[
        "apiVersion",
        "kind",
        "metadata",
        "join",
        "leave",
        "objects",
        "data_plane",
        "control_plane",
        "metrics",
        "mutual_tls",
    ]);
    fields.needed("apiVersion").and_then(|node| node.one_of(&[(API_VERSION, ())]));
    fields.needed("kind").and_then(|node| node.one_of(&[("Mesh", ())]));
    let mut declaration = Declaration::default();
    if let Some(node) = fields.needed("metadata") {
        let about = node.fields(&["name", "title", "tested", "install"]);
        let text = |name| about.needed(name).and_then(|node| node.text()).unwrap_or_default();
        (declaration.name, declaration.title) = (text("name"), text("title"));
        declaration.tested = about.get("tested").and_then(|node| node.flag()).unwrap_or(false);
        declaration.install = about.get("install").and_then(|node| node.text()).unwrap_or_default();
        if !is_label(&declaration.name) {
            node.wrong_in("name", "must be lower-case letters, digits and dashes, at most 20");
        }
    }
    declaration.join = fields.get("join").map(|node| marks(&node)).unwrap_or_default();
    declaration.leave = fields.get("leave").map(|node| marks(&node)).unwrap_or_default();
    declaration.objects = fields
        .get("objects")
        .map(|node| node.list().iter().map(|node| node.value().clone()).collect())
        .unwrap_or_default();
    if let Some(node) = fields.get("data_plane") {
        let plane = node.fields(&["containers", "daemonsets"]);
        declaration.containers =
            plane.get("containers").map(|node| texts(&node)).unwrap_or_default();
        declaration.daemonsets =
            plane.get("daemonsets").map(|node| named(&node)).unwrap_or_default();
    }
    declaration.control = fields.get("control_plane").map(|node| named(&node)).unwrap_or_default();
    declaration.metrics = fields.get("metrics").map(|node| metrics(&node));
    declaration.mutual_tls = fields.get("mutual_tls").map(|node| {
        let counters = node.fields(&["encrypted", "all"]);
        let of = |name| counters.needed(name).map(|node| selectors(&node)).unwrap_or_default();
        MutualTls { encrypted: of("encrypted"), all: of("all") }
    });
    if declaration.mutual_tls.is_some() && declaration.metrics.is_none() {
        fields.wrong("mutual_tls needs metrics");
    }
    let shares = declaration.metrics.as_ref().is_some_and(|metrics| metrics.is_shared);
    let lacks =
        if shares { declaration.daemonsets.is_empty() } else { declaration.containers.is_empty() };
    if declaration.metrics.is_some() && lacks {
        let of = if shares { "daemonsets" } else { "containers" };
        fields.wrong(format!("metrics: data_plane.{of} is missing"));
    }
    declaration
}

/// It becomes a part of a namespace's name.
fn is_label(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=20).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('-')
}

fn marks(node: &Node<'_>) -> Marks {
    let fields = node.fields(&["namespace", "pod"]);
    let marked = |name| {
        let Some(node) = fields.get(name) else { return Marked::default() };
        let fields = node.fields(&["labels", "annotations"]);
        let of = |name| fields.get(name).map(|node| pairs(&node)).unwrap_or_default();
        Marked { labels: of("labels"), annotations: of("annotations") }
    };
    Marks { namespace: marked("namespace"), pod: marked("pod") }
}

fn pairs(node: &Node<'_>) -> BTreeMap<String, String> {
    node.entries().iter().filter_map(|(name, node)| Some((name.clone(), node.text()?))).collect()
}

fn texts(node: &Node<'_>) -> Vec<String> {
    node.some().iter().filter_map(Node::text).collect()
}

/// `NAMESPACE/NAME`.
fn named(node: &Node<'_>) -> Vec<Named> {
    let one = |node: &Node<'_>| {
        let text = node.text()?;
        let Some((namespace, name)) = text.split_once('/') else {
            node.wrong(format!("{text:?} is not NAMESPACE/NAME"));
            return None;
        };
        Some(Named { namespace: namespace.to_owned(), name: name.to_owned() })
    };
    node.some().iter().filter_map(one).collect()
}

fn selectors(node: &Node<'_>) -> Vec<Selector> {
    node.some().iter().filter_map(selector).collect()
}

fn selector(node: &Node<'_>) -> Option<Selector> {
    let text = node.text()?;
    let found = Selector::parse(&text);
    if found.is_none() {
        node.wrong(format!("{text:?} is not a metric with labels in braces"));
    }
    found
}

fn metrics(node: &Node<'_>) -> Metrics {
    let fields = node.fields(&["of", "port", "path", "requests", "cpu_seconds"]);
    let of = fields
        .get("of")
        .and_then(|node| node.one_of(&[("containers", false), ("daemonsets", true)]));
    Metrics {
        port: fields.needed("port").and_then(|node| node.count(1, 65_535)).unwrap_or(0) as u16,
        path: fields
            .get("path")
            .and_then(|node| node.text())
            .unwrap_or_else(|| "/metrics".to_owned()),
        is_shared: of.unwrap_or(false),
        requests: fields.get("requests").map(|node| selectors(&node)).unwrap_or_default(),
        cpu_seconds: fields.get("cpu_seconds").and_then(|node| selector(&node)),
    }
}

#[cfg(test)]
mod tests;
