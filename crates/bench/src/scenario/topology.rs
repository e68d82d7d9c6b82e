//! What runs: manifests, what is changed in them, and who sends. Pure.

use crate::mesh::Sidecars;
use crate::scenario::reader::Node;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// The same manifests that `leno up` runs; relative to the scenario's file.
    pub manifests: Vec<PathBuf>,
    /// The same once more, so many times, each time in a namespace of its own.
    pub instances: Option<Instances>,
    /// Replicas of a workload (`namespace/name` or `name`); several values are swept.
    pub replicas: BTreeMap<String, Vec<u32>>,
    /// Which sides of a request have proxies; several values are swept.
    pub sidecars: Vec<Sidecars>,
    /// Workloads that never have a proxy.
    pub unmeshed: Vec<String>,
    /// Workloads whose servers count what reaches them, once the measured phase has begun.
    pub counted: Vec<String>,
    /// Workload whose pods send, where a load does not say otherwise.
    pub client: String,
    /// How long everything may take to become ready.
    pub ready_wait: Duration,
}

/// Manifests that run several times, each in a namespace of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instances {
    /// How often.
    pub count: u32,
    /// What runs; its namespaces get `-0`, `-1`, … added.
    pub manifests: Vec<PathBuf>,
    /// Workloads of them that are left out.
    pub without: Vec<String>,
}

impl Topology {
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let fields = node.fields(&[
            "manifests",
            "instances",
            "replicas",
            "sidecars",
            "unmeshed",
            "counted",
            "client",
            "ready",
        ]);
        let topology = Self {
            manifests: fields.get("manifests").map(|node| paths(&node)).unwrap_or_default(),
            instances: fields.get("instances").and_then(|node| Instances::read(&node)),
            replicas: fields.get("replicas").map(|node| replicas(&node)).unwrap_or_default(),
            sidecars: fields.get("sidecars").map_or(vec![Sidecars::Both], |node| {
                node.some().iter().filter_map(|node| node.one_of(&Sidecars::ALL)).collect()
            }),
            unmeshed: fields.get("unmeshed").map(|node| texts(&node)).unwrap_or_default(),
            counted: fields.get("counted").map(|node| texts(&node)).unwrap_or_default(),
            client: fields.get("client").and_then(|n| n.text()).unwrap_or_else(|| "client".into()),
            ready_wait: fields
                .get("ready")
                .and_then(|node| node.duration())
                .unwrap_or(Duration::from_secs(60)),
        };
        if fields.get("manifests").is_none() && fields.get("instances").is_none() {
            fields.wrong("manifests is missing");
        }
        topology
    }
}

impl Instances {
    fn read(node: &Node<'_>) -> Option<Self> {
        let fields = node.fields(&["count", "manifests", "without"]);
        let count = fields.needed("count").and_then(|node| node.count(1, 200));
        let manifests = fields.needed("manifests").map(|node| paths(&node));
        let without = fields.get("without").map(|node| texts(&node)).unwrap_or_default();
        Some(Self { count: count? as u32, manifests: manifests?, without })
    }
}

fn replicas(node: &Node<'_>) -> BTreeMap<String, Vec<u32>> {
    let counts = |node: &Node<'_>| -> Vec<u32> {
        node.some().iter().filter_map(|node| Some(node.count(1, 200)? as u32)).collect()
    };
    node.entries().iter().map(|(name, node)| (name.clone(), counts(node))).collect()
}

/// Texts of a list; a single one is a list of one.
pub(crate) fn texts(node: &Node<'_>) -> Vec<String> {
    node.list().iter().filter_map(Node::text).collect()
}

fn paths(node: &Node<'_>) -> Vec<PathBuf> {
    node.some().iter().filter_map(Node::text).map(PathBuf::from).collect()
}
