//! A cluster that a campaign runs on: which meshes it has, which nodes are used, from which image.

use crate::cluster::api::{Api, path};
use crate::cluster::bed::Bed;
use crate::cluster::declaration::{self, Declaration, INSTALLED};
use crate::cluster::objects::{Common, LABEL, Wanted, prepare};
use crate::cluster::placement::{Node, Placement, place};
use anyhow::{Result, bail, ensure};
use leno_kube::cluster::Person;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What the command line says of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// What every pod runs; the project's own image of this version otherwise.
    pub image: Option<String>,
    /// Nodes for generators and servers; chosen otherwise.
    pub generator_nodes: Vec<String>,
    pub server_nodes: Vec<String>,
    /// Topologies stay.
    pub keep: bool,
}

/// A cluster and the meshes to be measured on it.
#[derive(Debug)]
pub struct Home {
    api: Api,
    pub meshes: Vec<Declaration>,
    nodes: Vec<Node>,
    common: Common,
    version: String,
    keep: bool,
}

/// The image of this version, as `cargo xtask images` names it.
#[must_use]
pub fn image(version: &str) -> String {
    format!("localhost/leno-bench:{version}")
}

impl Request {
    /// The way to its API server. No request is made yet.
    ///
    /// # Errors
    /// There is no kubeconfig, or it cannot be used.
    pub fn connect(&self) -> Result<Api> {
        Api::connect(&Person {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..Person::default()
        })
    }
}

/// The nodes of a cluster, by name.
///
/// # Errors
/// The API server does not answer.
pub fn nodes(api: &Api) -> Result<Vec<Node>> {
    let mut nodes: Vec<Node> =
        api.list("nodes", &path("v1", "nodes", None, ""))?.iter().map(Node::of).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

/// Why a mesh cannot be measured on this cluster; nothing when it can.
///
/// # Errors
/// The API server does not answer.
pub fn missing(api: &Api, mesh: &Declaration) -> Result<Option<String>> {
    for control in &mesh.control {
        let path = path("apps/v1", "deployments", Some(&control.namespace), &control.name);
        let Some(found) = api.get("deployments", &path)? else {
            return Ok(Some(format!(
                "{}: the cluster has no Deployment {}/{}; {}",
                mesh.name, control.namespace, control.name, mesh.install
            )));
        };
        if found["status"]["readyReplicas"].as_u64().unwrap_or(0) == 0 {
            let (namespace, name) = (&control.namespace, &control.name);
            return Ok(Some(format!(
                "{}: Deployment {namespace}/{name} has no ready pod",
                mesh.name
            )));
        }
    }
    Ok(None)
}

impl Home {
    /// Connects and chooses: the meshes of the command line, which must be there; or those of the file that the cluster has. And what it
    /// lacks.
    ///
    /// # Errors
    /// The cluster does not answer, a mesh is not known, or no node takes pods.
    pub fn open(
        request: &Request,
        version: &str,
        campaign: &str,
        asked: Option<&str>,
        of_file: &[String],
    ) -> Result<(Self, Vec<String>)> {
        let api = request.connect()?;
        let nodes = nodes(&api)?;
        let placement = place(&nodes, &request.generator_nodes, &request.server_nodes)
            .map_err(anyhow::Error::msg)?;
        let mut lacking = Vec::new();
        let mut meshes: Vec<Declaration> = Vec::new();
        match asked {
            Some(INSTALLED) => {
                for mesh in declaration::built_in().map_err(|wrong| anyhow::anyhow!("{wrong:?}"))? {
                    // Every cluster has no mesh, which is the baseline.
                    if missing(&api, &mesh)?.is_none() {
                        meshes.push(mesh);
                    }
                }
            }
            Some(list) => {
                for name in list.split(',') {
                    let mesh = declaration::find(name.trim()).map_err(anyhow::Error::msg)?;
                    ensure!(
                        meshes.iter().all(|other| other.name != mesh.name),
                        "mesh {} appears twice",
                        mesh.name
                    );
                    lacking.extend(missing(&api, &mesh)?);
                    meshes.push(mesh);
                }
            }
            None => {
                for name in of_file {
                    match declaration::find(name) {
                        Ok(mesh) => match missing(&api, &mesh)? {
                            Some(why) => lacking.push(why),
                            None => meshes.push(mesh),
                        },
                        Err(why) => lacking.push(why),
                    }
                }
            }
        }
        if meshes.is_empty() {
            bail!("this cluster has none of the scenario's meshes: {}", lacking.join("; "));
        }
        let version_info = api.get("version", "/version")?.unwrap_or_default();
        let common = Common {
            image: request.image.clone().unwrap_or_else(|| image(version)),
            server_cores: server_cores(&nodes, &placement),
            placement,
            campaign: campaign.to_owned(),
        };
        let version = version_info["gitVersion"].as_str().unwrap_or_default().to_owned();
        Ok((Self { api, meshes, nodes, common, version, keep: request.keep }, lacking))
    }

    fn used(&self) -> impl Iterator<Item = &Node> {
        let used = self.common.placement.nodes();
        self.nodes.iter().filter(move |node| used.contains(node.name.as_str()))
    }

    /// What a result keeps of the cluster.
    #[must_use]
    pub fn describe(&self) -> BTreeMap<String, Value> {
        let nodes: BTreeMap<&str, Value> =
            self.used().map(|node| (node.name.as_str(), node.described())).collect();
        let kernels: Vec<&str> = self.used().map(|node| node.kernel.as_str()).collect();
        let is_same = kernels.windows(2).all(|pair| pair[0] == pair[1]);
        let placement = &self.common.placement;
        let cores: f64 = self.used().map(|node| node.cores).sum();
        let memory: f64 = self.used().map(|node| node.memory_mib).sum();
        [
            ("home", json!("cluster")),
            ("kubernetes", json!(self.version)),
            ("cores", json!(cores.round() as u64)),
            ("memory_mib", json!(memory.round())),
            ("kernel", json!(if is_same { kernels.first().copied() } else { None })),
            ("nodes", json!(nodes)),
            ("generator_nodes", json!(placement.generators)),
            ("server_nodes", json!(placement.servers)),
            ("shared_nodes", json!(placement.shared())),
            ("image", json!(self.common.image)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Where a topology's namespaces begin.
    fn name(&self, mesh: usize, number: usize) -> String {
        // `2026-11-21T09-12-03-quick`: the time of day tells it from other campaigns' on the same cluster.
        let digits = self.common.campaign.chars().filter(char::is_ascii_digit);
        let time: String = digits.skip(4).take(10).collect();
        format!("bench-{time}-{number:03}-{}", self.meshes[mesh].name)
    }

    /// Creates a topology and waits until it is ready.
    ///
    /// # Errors
    /// See [`Bed::create`]; nothing is left then.
    pub fn start(
        &self,
        mesh: usize,
        number: usize,
        wanted: &Wanted,
        ready_wait: Duration,
        is_asked: &dyn Fn() -> bool,
    ) -> Result<Bed> {
        let name = self.name(mesh, number);
        let mesh = &self.meshes[mesh];
        let bed = Bed::new(&self.api, mesh, &self.common, wanted, &name, self.keep)?;
        bed.create(ready_wait, is_asked)?;
        Ok(bed)
    }

    /// The manifests of the first topology of each mesh.
    ///
    /// # Errors
    /// The scenario has objects that a cluster is not given.
    pub fn manifests(&self, wanted: &Wanted) -> Result<String> {
        let mut text = String::new();
        for (at, mesh) in self.meshes.iter().enumerate() {
            let prepared = prepare(wanted, mesh, &self.common, &self.name(at, at + 1))
                .map_err(|wrong| anyhow::anyhow!("{}", wrong.join("\n")))?;
            text.push_str(&format!("# {}\n{}---\n", mesh.name, prepared.documents()));
        }
        Ok(text)
    }
}

/// Cores of the nodes that have servers.
fn server_cores(nodes: &[Node], placement: &Placement) -> usize {
    let servers = nodes.iter().filter(|node| placement.servers.contains(&node.name));
    (servers.map(|node| node.cores).sum::<f64>().round() as usize).max(1)
}

/// Namespaces with the label of a benchmark.
///
/// # Errors
/// The API server does not answer.
pub fn left_behind(api: &Api) -> Result<Vec<String>> {
    let list = format!("{}?labelSelector={LABEL}", path("v1", "namespaces", None, ""));
    let found = api.list("namespaces", &list)?;
    let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
    Ok(found.iter().filter_map(name).collect())
}
