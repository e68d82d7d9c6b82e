//! Which nodes have the generators and which the servers. Pure.

use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A node that takes ordinary pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub name: String,
    /// Cores for pods.
    pub cores: f64,
    pub memory_mib: f64,
    /// `amd64`.
    pub architecture: String,
    pub kernel: String,
    pub runtime: String,
    pub kubelet: String,
    /// `e2-standard-8`, where the cluster says it.
    pub machine: String,
    /// Why ordinary pods do not come here; empty where they do.
    pub closed: String,
}

/// Who may be where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    pub generators: Vec<String>,
    pub servers: Vec<String>,
}

impl Node {
    /// Of the API server's object.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = &object["status"];
        let amount = |name: &str| quantity(status["allocatable"][name].as_str().unwrap_or("0"));
        let about = |name: &str| text(&status["nodeInfo"][name]);
        Self {
            name: text(&object["metadata"]["name"]),
            cores: amount("cpu"),
            memory_mib: amount("memory") / f64::from(1 << 20),
            architecture: about("architecture"),
            kernel: about("kernelVersion"),
            runtime: about("containerRuntimeVersion"),
            kubelet: about("kubeletVersion"),
            machine: text(&object["metadata"]["labels"]["node.kubernetes.io/instance-type"]),
            closed: closed(object),
        }
    }

    /// What a result keeps of it.
    #[must_use]
    pub fn described(&self) -> Value {
        json!({
            "cores": self.cores, "memory_mib": self.memory_mib.round(), "architecture": self.architecture,
            "kernel": self.kernel, "runtime": self.runtime, "kubelet": self.kubelet, "machine": self.machine,
        })
    }
}

/// Why no ordinary pod is started on a node.
fn closed(object: &Value) -> String {
    if object["spec"]["unschedulable"] == true {
        return "it is cordoned".to_owned();
    }
    let taints = object["spec"]["taints"].as_array().into_iter().flatten();
    let hard = |taint: &&Value| taint["effect"] != "PreferNoSchedule";
    if let Some(taint) = taints.into_iter().find(hard) {
        return format!("taint {}", taint["key"].as_str().unwrap_or_default());
    }
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    if ready.any(|condition| condition["status"] == "True") {
        return String::new();
    }
    "it is not ready".to_owned()
}

/// A Kubernetes quantity: `1900m`, `4`, `3884Mi`.
fn quantity(text: &str) -> f64 {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    digits.parse::<f64>().unwrap_or(0.0) * factor
}

/// Where generators and servers go: the named nodes; otherwise a node of their own for generators where there are two or more, the last by
/// name, and all others for servers.
///
/// # Errors
/// A named node does not exist or takes no pods, or no node takes any.
pub fn place(
    nodes: &[Node],
    generators: &[String],
    servers: &[String],
) -> Result<Placement, String> {
    for named in generators.iter().chain(servers) {
        match nodes.iter().find(|node| node.name == *named) {
            None => {
                let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
                return Err(format!("there is no node {named:?}; there are {}", names.join(", ")));
            }
            Some(node) if !node.closed.is_empty() => {
                return Err(format!("node {named} takes no pods: {}", node.closed));
            }
            Some(_) => {}
        }
    }
    let open = nodes.iter().filter(|node| node.closed.is_empty());
    let mut open: Vec<String> = open.map(|node| node.name.clone()).collect();
    open.sort();
    let Some(last) = open.last().cloned() else {
        let why: Vec<String> =
            nodes.iter().map(|node| format!("{}: {}", node.name, node.closed)).collect();
        return Err(format!("no node takes pods ({})", why.join(", ")));
    };
    let without = |taken: &[String]| -> Vec<String> {
        let rest: Vec<String> = open.iter().filter(|one| !taken.contains(one)).cloned().collect();
        if rest.is_empty() { open.clone() } else { rest }
    };
    Ok(match (generators, servers) {
        ([], []) => {
            let generators = vec![last];
            Placement { servers: without(&generators), generators }
        }
        ([], servers) => Placement {
            generators: without(servers).into_iter().next_back().into_iter().collect(),
            servers: servers.to_vec(),
        },
        (generators, []) => {
            Placement { servers: without(generators), generators: generators.to_vec() }
        }
        (generators, servers) => {
            Placement { generators: generators.to_vec(), servers: servers.to_vec() }
        }
    })
}

impl Placement {
    /// Nodes on which generators and servers share cores.
    #[must_use]
    pub fn shared(&self) -> Vec<&str> {
        let both = self.generators.iter().filter(|node| self.servers.contains(node));
        both.map(String::as_str).collect()
    }

    /// All nodes that are used, by name.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.generators.iter().chain(&self.servers).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (text, expected) in
            [("1900m", 1.9), ("4", 4.0), ("2Mi", 2_097_152.0), ("1k", 1000.0), ("x", 0.0)]
        {
            assert!((quantity(text) - expected).abs() < 1e-9, "{text}");
        }
    }

    #[test]
    fn a_node_of_its_own_for_the_generator() {
        //    nodes       asked for                 generators | servers
        check("a", "", "", "a | a");
        check("a b", "", "", "b | a");
        check("a b c", "", "", "c | a b");
        check("a b c", "a", "", "a | b c");
        check("a b c", "", "c", "b | c");
        check("a b c", "a", "a", "a | a");
        check("a b!", "", "", "a | a");
        check("a b!", "b", "", "node b takes no pods: closed");
        check("a", "x", "", "there is no node \"x\"; there are a");
        check("a!", "", "", "no node takes pods (a: closed)");
    }

    #[track_caller]
    fn check(nodes: &str, generators: &str, servers: &str, expected: &str) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let node = |name: String| Node {
            closed: if name.ends_with('!') { "closed".to_owned() } else { String::new() },
            name: name.trim_end_matches('!').to_owned(),
            ..Node::default()
        };
        let nodes: Vec<Node> = words(nodes).into_iter().map(node).collect();
        let said = match place(&nodes, &words(generators), &words(servers)) {
            Ok(found) => format!("{} | {}", found.generators.join(" "), found.servers.join(" ")),
            Err(why) => why,
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn nodes_that_take_no_pods() {
        let of = |spec: Value, ready: &str| {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}],
                "allocatable": {"cpu": "1500m", "memory": "1024Mi"}});
            Node::of(&json!({"metadata": {"name": "a"}, "spec": spec, "status": status}))
        };
        let open = of(json!({}), "True");
        assert_eq!((open.closed.as_str(), open.cores, open.memory_mib), ("", 1.5, 1024.0));
        assert_eq!(of(json!({"unschedulable": true}), "True").closed, "it is cordoned");
        assert_eq!(of(json!({}), "False").closed, "it is not ready");
        let taint = |effect: &str| json!({"taints": [{"key": "k", "effect": effect}]});
        assert_eq!(of(taint("NoSchedule"), "True").closed, "taint k");
        assert_eq!(of(taint("PreferNoSchedule"), "True").closed, "");
    }
}
