//! `leno bench doctor`: what makes a cluster unfit for a benchmark, before anything is measured. What is seen is judged purely.

use crate::cluster::api::{Api, path};
use crate::cluster::declaration;
use crate::cluster::home::{Request, image, left_behind, missing, nodes};
use crate::cluster::kubelet;
use crate::cluster::placement::{Node, Placement, place};
use anyhow::Result;
use serde_json::{Value, json};

/// A node with less has no room for programs that do not wait for each other.
const CORES_MIN: f64 = 4.0;
/// More of a node than this in use before the benchmark: a neighbour.
const BUSY_SHARE_MAX: f64 = 0.25;
/// A kubelet lists at most so many images by default.
const LISTED_IMAGES_MAX: usize = 50;

/// What a benchmark does in a cluster: verb, group, resource and subresource.
const RIGHTS: [(&str, &str, &str, &str); 15] = [
    ("create", "", "namespaces", ""),
    ("delete", "", "namespaces", ""),
    ("list", "", "namespaces", ""),
    ("create", "", "serviceaccounts", ""),
    ("create", "", "services", ""),
    ("create", "", "pods", ""),
    ("list", "", "pods", ""),
    ("get", "", "pods", "exec"),
    ("create", "", "pods", "exec"),
    ("get", "", "pods", "portforward"),
    ("create", "", "pods", "portforward"),
    ("create", "apps", "deployments", ""),
    ("list", "discovery.k8s.io", "endpointslices", ""),
    ("list", "", "nodes", ""),
    ("get", "", "nodes", "proxy"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fit,
    /// Figures can be taken, and say less.
    Doubt,
    /// A benchmark fails, or its figures are worthless.
    Unfit,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    pub what: String,
    /// What was seen, and what to do.
    pub seen: String,
}

fn finding(verdict: Verdict, what: impl Into<String>, seen: impl Into<String>) -> Finding {
    Finding { verdict, what: what.into(), seen: seen.into() }
}

/// Looks at everything.
///
/// # Errors
/// There is no kubeconfig, or the API server does not answer.
pub fn examine(request: &Request, version: &str) -> Result<Vec<Finding>> {
    let api = request.connect()?;
    let mut found = rights(&api)?;
    let objects = api.list("nodes", &path("v1", "nodes", None, ""))?;
    let nodes = nodes(&api)?;
    match place(&nodes, &request.generator_nodes, &request.server_nodes) {
        Err(why) => found.push(finding(Verdict::Unfit, "nodes", why)),
        Ok(placement) => {
            found.extend(placed(&nodes, &placement));
            let image = request.image.clone().unwrap_or_else(|| image(version));
            for node in nodes.iter().filter(|one| placement.nodes().contains(one.name.as_str())) {
                found.push(metrics(&api, node));
                found.push(neighbours(&api, node));
                let object = objects.iter().find(|object| object["metadata"]["name"] == *node.name);
                found.push(has_image(object.unwrap_or(&Value::Null), &node.name, &image));
            }
        }
    }
    for mesh in declaration::built_in().map_err(|wrong| anyhow::anyhow!("{wrong:?}"))? {
        let seen = missing(&api, &mesh)?;
        // A mesh that is not there makes nothing unfit.
        let seen = seen.unwrap_or_else(|| "it can be measured".to_owned());
        found.push(finding(Verdict::Fit, format!("mesh {}", mesh.name), seen));
    }
    found.push(left(&left_behind(&api)?));
    Ok(found)
}

fn left(namespaces: &[String]) -> Finding {
    match namespaces {
        [] => finding(Verdict::Fit, "left behind", "nothing of another benchmark is there"),
        names => finding(
            Verdict::Doubt,
            "left behind",
            format!(
                "{}: of a run that goes on or was killed; kubectl delete namespace -l leno.dev/bench",
                names.join(", ")
            ),
        ),
    }
}

/// Every right that a benchmark needs.
fn rights(api: &Api) -> Result<Vec<Finding>> {
    let mut lacking = Vec::new();
    for (verb, group, resource, subresource) in RIGHTS {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
            "spec": {"resourceAttributes":
                {"verb": verb, "group": group, "resource": resource, "subresource": subresource}},
        });
        let answer = api.create("selfsubjectaccessreviews", &review)?;
        if answer["status"]["allowed"] != true {
            let slash = if subresource.is_empty() { "" } else { "/" };
            lacking.push(format!("{verb} {resource}{slash}{subresource}"));
        }
    }
    Ok(vec![match lacking.as_slice() {
        [] => finding(Verdict::Fit, "rights", "all that a benchmark needs"),
        lacking => finding(
            Verdict::Unfit,
            "rights",
            format!("missing: {}; grant them in a ClusterRole", lacking.join(", ")),
        ),
    }])
}

/// Where things would be, and whether there is room for them.
fn placed(nodes: &[Node], placement: &Placement) -> Vec<Finding> {
    let (generators, servers) = (placement.generators.join(", "), placement.servers.join(", "));
    let shared = placement.shared();
    let verdict = if shared.is_empty() { Verdict::Fit } else { Verdict::Doubt };
    let mut seen = format!("generators on {generators}, servers on {servers}");
    if !shared.is_empty() {
        seen.push_str(": they share cores; add a node, or lower the rates");
    }
    let mut found = vec![finding(verdict, "placement", seen)];
    let mut machines: Vec<&str> = Vec::new();
    for node in nodes.iter().filter(|node| placement.nodes().contains(node.name.as_str())) {
        let few = node.cores < CORES_MIN;
        let verdict = if few { Verdict::Doubt } else { Verdict::Fit };
        let mut seen = format!("{} cores", node.cores);
        if few {
            seen.push_str(&format!(", fewer than {CORES_MIN}: high rates make the generator late"));
        }
        found.push(finding(verdict, format!("cores of {}", node.name), seen));
        if !node.machine.is_empty() && !machines.contains(&node.machine.as_str()) {
            machines.push(&node.machine);
        }
    }
    if machines.len() > 1 {
        let seen = format!("{}: compare only pods of one type", machines.join(", "));
        found.push(finding(Verdict::Doubt, "machine types", seen));
    }
    found
}

fn metrics(api: &Api, node: &Node) -> Finding {
    let what = format!("kubelet of {}", node.name);
    match kubelet::scrape(api, &node.name) {
        Ok(text) if text.contains("container_cpu_usage_seconds_total{") => {
            finding(Verdict::Fit, what, "it says what containers use")
        }
        Ok(_) => finding(
            Verdict::Doubt,
            what,
            "/metrics/resource has no containers: CPU and memory will be unknown",
        ),
        Err(error) => {
            finding(Verdict::Doubt, what, format!("{error:#}: CPU and memory will be unknown"))
        }
    }
}

fn neighbours(api: &Api, node: &Node) -> Finding {
    let summary = format!(
        "{}/proxy/stats/summary?only_cpu_and_memory=true",
        path("v1", "nodes", None, &node.name)
    );
    // A kubelet that does not answer is a finding of its own.
    let summary = api.get("nodes/proxy", &summary).ok().flatten().unwrap_or_default();
    busy(&node.name, node.cores, summary["node"]["cpu"]["usageNanoCores"].as_f64())
}

/// Whether a node is used by others, by the cores that its kubelet last saw in use.
fn busy(node: &str, cores: f64, used_nano: Option<f64>) -> Finding {
    let what = format!("neighbours on {node}");
    let Some(used) = used_nano.map(|nano| nano / 1e9) else {
        return finding(Verdict::Doubt, what, "unknown: the kubelet does not say what is in use");
    };
    let seen = format!("{used:.1} of {cores} cores are in use");
    if used > cores * BUSY_SHARE_MAX {
        return finding(
            Verdict::Doubt,
            what,
            format!("{seen}: other programs move the latencies; choose another node"),
        );
    }
    finding(Verdict::Fit, what, seen)
}

/// Whether a node has the image, as far as its kubelet lists images.
fn has_image(node: &Value, name: &str, image: &str) -> Finding {
    let what = format!("image on {name}");
    let listed = node["status"]["images"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has =
        |one: &Value| {
            one["names"].as_array().into_iter().flatten().any(|known| {
                known == image || known.as_str() == Some(&format!("docker.io/{image}"))
            })
        };
    if listed.iter().any(has) {
        return finding(Verdict::Fit, what, format!("{image} is there"));
    }
    let is_whole = listed.len() < LISTED_IMAGES_MAX;
    if is_whole && image.starts_with("localhost/") {
        let seen = format!("{image} is missing; import it, or name one of a registry with --image");
        return finding(Verdict::Unfit, what, seen);
    }
    finding(Verdict::Doubt, what, format!("{image} is not there yet; it will be pulled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, cores: f64, machine: &str) -> Node {
        Node { name: name.to_owned(), cores, machine: machine.to_owned(), ..Node::default() }
    }

    /// Those that are not fit, in words.
    fn said(found: &[Finding]) -> Vec<String> {
        let bad = found.iter().filter(|one| one.verdict != Verdict::Fit);
        bad.map(|one| format!("{:?} {}: {}", one.verdict, one.what, one.seen)).collect()
    }

    #[test]
    fn nodes_are_judged() {
        let check = |nodes: &[Node], expected: &[&str]| {
            let placement = place(nodes, &[], &[]).unwrap();
            assert_eq!(said(&placed(nodes, &placement)), expected);
        };
        check(&[node("a", 8.0, "x"), node("b", 8.0, "x")], &[]);
        check(
            &[node("a", 8.0, "")],
            &[
                "Doubt placement: generators on a, servers on a: they share cores; add a node, or lower the rates",
            ],
        );
        check(
            &[node("a", 2.0, "x"), node("b", 8.0, "y")],
            &[
                "Doubt cores of a: 2 cores, fewer than 4: high rates make the generator late",
                "Doubt machine types: x, y: compare only pods of one type",
            ],
        );
    }

    #[test]
    fn neighbours_are_judged() {
        assert_eq!(busy("a", 4.0, Some(0.5e9)).verdict, Verdict::Fit);
        let noisy = busy("a", 4.0, Some(2e9));
        assert_eq!(noisy.verdict, Verdict::Doubt);
        assert!(noisy.seen.starts_with("2.0 of 4 cores are in use: "), "{noisy:?}");
        assert_eq!(busy("a", 4.0, None).verdict, Verdict::Doubt);
    }

    #[test]
    fn images_are_judged() {
        let check = |names: &[&str], image: &str, expected: Verdict| {
            let node = json!({"status": {"images": [{"names": names}]}});
            assert_eq!(has_image(&node, "a", image).verdict, expected, "{names:?} {image}");
        };
        check(&["localhost/b:1", "other:2"], "localhost/b:1", Verdict::Fit);
        check(&["docker.io/us/b:1"], "us/b:1", Verdict::Fit);
        check(&["localhost/b:1"], "localhost/b:2", Verdict::Unfit);
        check(&["localhost/b:1"], "registry.example/b:2", Verdict::Doubt);
        assert_eq!(left(&[]).verdict, Verdict::Fit);
        assert_eq!(left(&["bench-1".to_owned()]).verdict, Verdict::Doubt);
    }
}
