//! A running topology: its namespaces from the first object to the last. Dropping it deletes them and waits until they are gone.

use crate::cluster::api::{Api, Exec, path};
use crate::cluster::declaration::Declaration;
use crate::cluster::kubelet::{Container, Sampler};
use crate::cluster::objects::{Common, Prepared, Wanted, prepare};
use crate::cluster::proof::{self, Proof};
use crate::mesh::Sidecars;
use crate::scenario::known::is_named;
use anyhow::{Context as _, Result, bail, ensure};
use leno_kube::pod;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A namespace is gone when its last pod is; pods have their grace period.
const END_WAIT: Duration = Duration::from_secs(120);
/// Before a namespace has its default account, and while a webhook is busy, pods are rejected for a moment.
const CREATE_WAIT: Duration = Duration::from_secs(20);
/// Every kube-proxy receives an endpoint a moment after the API server has it.
const SPREAD_WAIT: Duration = Duration::from_millis(500);

/// A pod of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    /// As the scenario names it.
    pub namespace: String,
    /// Kind and name of what it is of: `deployment/web`.
    pub workload: String,
    pub node: String,
    /// Why it is not ready; empty where it is.
    pub unready: String,
    pub restarts: u32,
    pub is_client: bool,
    /// Containers of the application.
    pub app: Vec<String>,
    /// Containers of the data plane.
    pub proxy: Vec<String>,
}

/// What plays a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Player {
    /// As results name it.
    pub name: String,
    pub node: String,
    pub containers: Vec<Container>,
}

/// Who plays which role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    pub proxy: Vec<Player>,
    pub app: Vec<Player>,
    pub control: Vec<Player>,
    pub generator: Vec<Player>,
}

impl Roles {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Player> {
        [&self.proxy, &self.app, &self.control, &self.generator].into_iter().flatten()
    }
}

/// A running topology.
#[derive(Debug)]
pub struct Bed {
    api: Api,
    mesh: Declaration,
    prepared: Prepared,
    sidecars: Sidecars,
    clients: Vec<String>,
    common: Common,
    /// Whether it outlives the benchmark.
    keep: bool,
}

impl Pod {
    /// How results name it: without the namespace where it is the usual one.
    #[must_use]
    pub fn short_name(&self) -> String {
        if self.namespace == "default" { self.name.clone() } else { self.full_name() }
    }

    /// `namespace/name`, with the scenario's namespace.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether a scenario means this pod by this name.
    #[must_use]
    pub fn is_of(&self, workload: &str) -> bool {
        let own = self.workload.rsplit('/').next().unwrap_or_default();
        is_named(workload, &self.namespace, own, &self.name)
    }
}

impl Bed {
    /// A topology of which nothing exists yet; its namespaces begin with `name`.
    ///
    /// # Errors
    /// The scenario has objects that a cluster is not given.
    pub fn new(
        api: &Api,
        mesh: &Declaration,
        common: &Common,
        wanted: &Wanted,
        name: &str,
        keep: bool,
    ) -> Result<Self> {
        let prepared = prepare(wanted, mesh, common, name)
            .map_err(|wrong| anyhow::anyhow!("{}", wrong.join("\n")))?;
        Ok(Self {
            api: api.clone(),
            mesh: mesh.clone(),
            sidecars: wanted.sidecars,
            clients: wanted.clients.clone(),
            common: common.clone(),
            prepared,
            keep,
        })
    }

    /// Creates its objects and waits until all of it is ready.
    ///
    /// # Errors
    /// An object is rejected, pods do not become ready in time or are not where they belong, or `is_asked` to end.
    pub fn create(&self, ready_wait: Duration, is_asked: &dyn Fn() -> bool) -> Result<()> {
        for (resource, object) in &self.prepared.objects {
            self.created(resource, object, is_asked)?;
        }
        let until = Instant::now() + ready_wait;
        loop {
            ensure!(!is_asked(), "interrupted");
            let lacking = self.lacking()?;
            if lacking.is_empty() {
                break;
            }
            if Instant::now() > until {
                bail!(
                    "{} did not become ready within {} s:\n{}",
                    self.mesh.name,
                    ready_wait.as_secs(),
                    lacking.join("\n")
                );
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        std::thread::sleep(SPREAD_WAIT);
        self.check_places()
    }

    fn created(&self, resource: &str, object: &Value, is_asked: &dyn Fn() -> bool) -> Result<()> {
        let until = Instant::now() + CREATE_WAIT;
        loop {
            match self.api.create(resource, object) {
                Ok(_) => return Ok(()),
                Err(error) if resource != "pods" || Instant::now() > until || is_asked() => {
                    return Err(error);
                }
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// What is not ready yet, a line each.
    fn lacking(&self) -> Result<Vec<String>> {
        let pods = self.pods()?;
        let mut lacking: Vec<String> = Vec::new();
        for pod in &pods {
            if !pod.unready.is_empty() {
                lacking.push(format!("pod {}: {}", pod.full_name(), pod.unready));
            } else if pod.proxy.is_empty() && self.is_in(pod) {
                lacking.push(format!(
                    "pod {} has no container {}: is the injector of {} running?",
                    pod.full_name(),
                    self.mesh.containers.join(" or "),
                    self.mesh.name
                ));
            }
        }
        for (resource, object) in &self.prepared.objects {
            let named = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let (namespace, name) = (named("namespace"), named("name"));
            let expected = match *resource {
                "pods" | "jobs" => 1,
                "deployments" => object["spec"]["replicas"].as_u64().unwrap_or(1) as usize,
                _ => continue,
            };
            let of = |pod: &&Pod| {
                let here = self.prepared.namespaces.get(&pod.namespace).map(String::as_str);
                here == Some(namespace)
                    && (pod.name == name || pod.workload.ends_with(&format!("/{name}")))
            };
            let there = pods.iter().filter(of).count();
            if there < expected {
                lacking.push(format!("{namespace}/{name}: {there} of {expected} pods exist"));
            }
        }
        if lacking.is_empty() { self.without_endpoints() } else { Ok(lacking) }
    }

    /// Services that select pods and have no ready endpoint.
    fn without_endpoints(&self) -> Result<Vec<String>> {
        let mut lacking = Vec::new();
        for namespace in self.prepared.namespaces.values() {
            let list = path("discovery.k8s.io/v1", "endpointslices", Some(namespace), "");
            let slices = self.api.list("endpointslices", &list)?;
            let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
            for (_, service) in self.prepared.objects.iter().filter(|(kind, _)| *kind == "services")
            {
                let metadata = &service["metadata"];
                if metadata["namespace"] != **namespace || !service["spec"]["selector"].is_object()
                {
                    continue;
                }
                let own = slices.iter().filter(|slice| {
                    slice["metadata"]["labels"]["kubernetes.io/service-name"] == metadata["name"]
                });
                let mut endpoints = own.flat_map(|slice| slice["endpoints"].as_array()).flatten();
                if !endpoints.any(is_ready) {
                    let name = metadata["name"].as_str().unwrap_or_default();
                    lacking.push(format!("Service {namespace}/{name} has no ready endpoint"));
                }
            }
        }
        Ok(lacking)
    }

    /// Whether the mesh puts a proxy into this pod: it was not marked to stay outside.
    fn is_in(&self, pod: &Pod) -> bool {
        if self.mesh.containers.is_empty() || !self.mesh.objects.is_empty() {
            return false;
        }
        let own = pod.workload.rsplit('/').next().unwrap_or_default();
        let here = self.prepared.namespaces.get(&pod.namespace);
        let object = self.prepared.objects.iter().find(|(_, object)| {
            let metadata = &object["metadata"];
            object["spec"].is_object()
                && metadata["namespace"].as_str() == here.map(String::as_str)
                && (metadata["name"] == own || metadata["name"] == pod.name)
                && ["Pod", "Deployment", "Job"]
                    .contains(&object["kind"].as_str().unwrap_or_default())
        });
        let Some((_, object)) = object else { return false };
        let metadata = match object["kind"].as_str() {
            Some("Pod") => &object["metadata"],
            _ => &object["spec"]["template"]["metadata"],
        };
        let leave = &self.mesh.leave.pod;
        let has = |field: &str, pairs: &BTreeMap<String, String>| {
            !pairs.is_empty()
                && pairs.iter().all(|(key, value)| metadata[field][key] == value.as_str())
        };
        !has("labels", &leave.labels) && !has("annotations", &leave.annotations)
    }

    fn check_places(&self) -> Result<()> {
        for pod in self.pods()? {
            let placement = &self.common.placement;
            let nodes = if pod.is_client { &placement.generators } else { &placement.servers };
            let is_own = !pod.app.is_empty();
            ensure!(
                !is_own || nodes.contains(&pod.node),
                "pod {} is on node {}, and not on {}",
                pod.full_name(),
                pod.node,
                nodes.join(" or ")
            );
        }
        Ok(())
    }

    /// All pods that are not ending.
    ///
    /// # Errors
    /// The API server does not answer.
    pub fn pods(&self) -> Result<Vec<Pod>> {
        let mut pods = Vec::new();
        for (namespace, here) in &self.prepared.namespaces {
            let listed = self.api.wait(self.api.cluster().pods(Some(here), None))?;
            pods.extend(
                listed
                    .iter()
                    .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                    .map(|pod| self.pod(namespace, pod)),
            );
        }
        pods.sort_by_key(Pod::full_name);
        Ok(pods)
    }

    fn pod(&self, namespace: &str, object: &k8s_openapi::api::core::v1::Pod) -> Pod {
        let row = pod::row(object);
        let names = pod::containers(object).map(|container| container.name.clone());
        let (proxy, app): (Vec<String>, Vec<String>) =
            names.partition(|name| self.mesh.containers.contains(name));
        // What initializes has ended; a waypoint has no container but its proxy.
        let spec = object.spec.as_ref();
        let plain: BTreeSet<&str> =
            spec.iter().flat_map(|spec| &spec.containers).map(|one| one.name.as_str()).collect();
        let mut pod = Pod {
            unready: match (row.ready, row.reason.is_empty()) {
                (true, _) => String::new(),
                (false, true) => format!("not ready ({})", row.phase),
                (false, false) => row.reason,
            },
            app: app.into_iter().filter(|name| plain.contains(name.as_str())).collect(),
            name: row.name,
            namespace: namespace.to_owned(),
            workload: row.workload,
            node: row.node,
            restarts: row.restarts,
            is_client: false,
            proxy,
        };
        pod.is_client = self.clients.iter().any(|client| pod.is_of(client));
        pod
    }

    /// A URL of the scenario as its clients reach it here.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        self.prepared.url(url)
    }

    /// Runs a program in the application's container of a pod, by its full name.
    ///
    /// # Errors
    /// There is no such pod.
    pub fn exec(&self, full_name: &str, argv: Vec<String>) -> Result<Exec> {
        let pods = self.pods()?;
        let pod = pods.iter().find(|pod| pod.full_name() == full_name);
        let pod = pod.with_context(|| format!("pod {full_name} is gone"))?;
        let container = pod.app.first().context("a pod without a container")?;
        self.api.exec(&self.prepared.namespaces[&pod.namespace], &pod.name, container, argv)
    }

    /// Who is who.
    ///
    /// # Errors
    /// The API server does not answer.
    pub fn roles(&self) -> Result<Roles> {
        let mut roles = Roles::default();
        let mut used = BTreeSet::new();
        for pod in self.pods()? {
            let namespace = &self.prepared.namespaces[&pod.namespace];
            let player = |names: &[String]| {
                let container = |name: &String| Container {
                    namespace: namespace.clone(),
                    pod: pod.name.clone(),
                    name: name.clone(),
                };
                let containers = names.iter().map(container).collect();
                Player { name: pod.short_name(), node: pod.node.clone(), containers }
            };
            if !pod.proxy.is_empty() {
                roles.proxy.push(player(&pod.proxy));
            }
            if !pod.app.is_empty() {
                let role = if pod.is_client { &mut roles.generator } else { &mut roles.app };
                role.push(player(&pod.app));
            }
            used.insert(pod.node.clone());
        }
        for plane in &self.mesh.daemonsets {
            let shared = self.players(&plane.namespace, &plane.name)?.into_iter();
            // A shared proxy elsewhere carries nothing of ours.
            roles.proxy.extend(shared.filter(|one| used.contains(&one.node)).map(|mut one| {
                one.name = format!("{} on {}", plane.name, one.node);
                one
            }));
        }
        for control in &self.mesh.control {
            roles.control.extend(self.players(&control.namespace, &control.name)?);
        }
        Ok(roles)
    }

    /// Pods of a Deployment or DaemonSet that are not ending.
    fn players(&self, namespace: &str, workload: &str) -> Result<Vec<Player>> {
        let listed = self.api.wait(self.api.cluster().pods(Some(namespace), None))?;
        let of = listed.iter().filter_map(|object| {
            let row = pod::row(object);
            let is_of = row.workload.split_once('/').is_some_and(|(_, name)| name == workload);
            let containers = pod::containers(object).map(|container| Container {
                namespace: namespace.to_owned(),
                pod: row.name.clone(),
                name: container.name.clone(),
            });
            (is_of && !row.ending).then(|| Player {
                containers: containers.collect(),
                name: row.name.clone(),
                node: row.node.clone(),
            })
        });
        Ok(of.collect())
    }

    /// Begins to look at what containers use.
    ///
    /// # Errors
    /// The machine has no thread left.
    pub fn sampler(&self, roles: &Roles) -> Result<Sampler> {
        Sampler::start(&self.api, roles.all().map(|one| one.node.clone()).collect())
    }

    /// What each proxy has counted so far, by the name that results have for it. Those that do not answer are left out.
    ///
    /// # Errors
    /// The API server does not answer.
    pub fn scrapes(&self) -> Result<Vec<(String, String)>> {
        let Some(metrics) = &self.mesh.metrics else { return Ok(Vec::new()) };
        let mut asked: Vec<(String, String, String)> = Vec::new();
        if metrics.is_shared {
            let used: BTreeSet<String> = self.pods()?.into_iter().map(|pod| pod.node).collect();
            for named in &self.mesh.daemonsets {
                for one in self.players(&named.namespace, &named.name)? {
                    if used.contains(&one.node) {
                        let shown = format!("{} on {}", named.name, one.node);
                        asked.push((shown, named.namespace.clone(), one.name));
                    }
                }
            }
        } else {
            for pod in self.pods()?.into_iter().filter(|pod| !pod.proxy.is_empty()) {
                let here = self.prepared.namespaces[&pod.namespace].clone();
                asked.push((pod.short_name(), here, pod.name.clone()));
            }
        }
        let mut scrapes = Vec::new();
        for (shown, namespace, pod) in asked {
            match self.api.page(&namespace, &pod, metrics.port, &metrics.path) {
                Ok(text) => scrapes.push((shown, text)),
                Err(error) => {
                    eprintln!("          note: the proxy of {shown} is not asked: {error:#}")
                }
            }
        }
        Ok(scrapes)
    }

    /// The mesh that it is under.
    #[must_use]
    pub fn mesh(&self) -> &Declaration {
        &self.mesh
    }

    /// Cores of the nodes that have servers.
    #[must_use]
    pub fn server_cores(&self) -> usize {
        self.common.server_cores
    }

    /// What is known before any load: what the mesh is, its images, and which node each pod is on.
    #[must_use]
    pub fn facts(&self) -> BTreeMap<String, Value> {
        let pods = self.pods().unwrap_or_default();
        let placed: BTreeMap<String, &str> =
            pods.iter().map(|pod| (pod.short_name(), pod.node.as_str())).collect();
        let mut images: BTreeSet<String> = BTreeSet::new();
        let planes = self.mesh.daemonsets.iter().chain(&self.mesh.control);
        let namespaces = self.prepared.namespaces.values().chain(planes.map(|one| &one.namespace));
        for namespace in namespaces.collect::<BTreeSet<_>>() {
            // A list that is refused leaves images out.
            let listed = self.api.wait(self.api.cluster().pods(Some(namespace), None));
            for object in listed.iter().flatten() {
                images.extend(pod::containers(object).filter_map(|one| one.image.clone()));
            }
        }
        [
            ("title", json!(self.mesh.title)),
            ("tested_by_the_project", json!(self.mesh.tested)),
            ("images", json!(images)),
            ("placed", json!(placed)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Whether all connections of the load were with mutual TLS, by these scrapes.
    #[must_use]
    pub fn proof(&self, scrapes: &[(String, String)]) -> Proof {
        let texts: Vec<String> = scrapes.iter().map(|(_, text)| text.clone()).collect();
        proof::judge(self.mesh.mutual_tls.as_ref(), &texts)
    }

    /// Whether both ends of every connection have a proxy, so that all of it can be encrypted.
    #[must_use]
    pub fn is_meshed_whole(&self) -> bool {
        self.sidecars == Sidecars::Both
            && self.pods().is_ok_and(|pods| {
                pods.iter().all(|pod| self.mesh.containers.is_empty() || !pod.proxy.is_empty())
            })
    }

    fn remove(&self) -> Result<()> {
        for namespace in self.prepared.namespaces.values() {
            self.api.delete("namespaces", &path("v1", "namespaces", None, namespace))?;
        }
        let until = Instant::now() + END_WAIT;
        for namespace in self.prepared.namespaces.values() {
            let path = path("v1", "namespaces", None, namespace);
            while self.api.get("namespaces", &path)?.is_some() {
                ensure!(
                    Instant::now() < until,
                    "namespace {namespace} is not gone after {} s",
                    END_WAIT.as_secs()
                );
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let names: Vec<&str> = self.prepared.namespaces.values().map(String::as_str).collect();
        if self.keep {
            eprintln!("kept: kubectl delete namespace {}", names.join(" "));
        } else if let Err(error) = self.remove() {
            eprintln!(
                "leno: {error:#}; delete it with: kubectl delete namespace {}",
                names.join(" ")
            );
        }
    }
}
