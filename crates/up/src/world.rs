//! What is wanted and what runs, in one place behind one lock that is never held across a wait.
//! Each change bumps a version. The supervisor publishes each version (rules, names, files for the control plane) and announces it.
//! So a pod knows that it has left its Services before it is asked to end.

use crate::address::{Allocator, Pair};
use crate::manifest::{Key, Objects};
use crate::plan::{Seen, Template, Workload, WorkloadKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// How far a pod is, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended well and stay so.
    Succeeded,
    /// All containers ended, at least one badly.
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerState {
    pub name: String,
    /// Process identifier as the machine sees it, while it runs.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
    /// Whether it is ready.
    pub ready: bool,
    /// `running`, `waiting`, `ended`, with a reason where there is one.
    pub state: String,
    /// Why it does not run, in one word of Kubernetes: `ContainerCreating`, `CrashLoopBackOff`, `Completed`, `Error`; empty while it runs.
    #[serde(default)]
    pub reason: String,
    /// Since when it runs, where it counts as ready for no other reason.
    #[serde(skip)]
    pub unproven_since: Option<Instant>,
}

/// A pod as it runs.
#[derive(Clone, Debug)]
pub struct PodState {
    /// Which workload it is of.
    pub workload: WorkloadKey,
    /// What it was made from.
    pub template: Arc<Template>,
    pub address: Pair,
    /// How far it is.
    pub phase: Phase,
    /// Whether all its containers are ready.
    pub ready: bool,
    /// Whether it is being ended; it is out of its Services then.
    pub ending: bool,
    /// Why it is not ready.
    pub reason: String,
    /// Its containers, init containers first.
    pub containers: Vec<ContainerState>,
    /// The proxy, when it is part of the mesh.
    pub proxy: Option<ContainerState>,
    /// The first process of its namespaces, as the machine sees it.
    pub first_pid: Option<u32>,
    /// Ends the pod.
    pub end: watch::Sender<bool>,
}

impl PodState {
    /// The state of a container, the proxy included.
    pub fn container(&mut self, name: &str) -> Option<&mut ContainerState> {
        match &mut self.proxy {
            Some(proxy) if proxy.name == name => Some(proxy),
            _ => self.containers.iter_mut().find(|container| container.name == name),
        }
    }

    /// The service account it runs under.
    #[must_use]
    pub fn service_account(&self) -> &str {
        let spec = &self.template.spec;
        let given = spec.service_account_name.as_deref().or(spec.service_account.as_deref());
        given.unwrap_or("default")
    }

    /// Its labels, with the hash by which rollouts tell pods apart.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.template.labels.clone();
        if self.workload.0 == crate::plan::Kind::Deployment {
            labels.insert("pod-template-hash".to_owned(), self.template.hash.clone());
        }
        labels
    }
}

/// Everything.
#[derive(Debug)]
pub struct World {
    /// The manifests in force.
    pub objects: Objects,
    /// The workloads made of them.
    pub wanted: BTreeMap<WorkloadKey, Workload>,
    /// Pods that exist.
    pub pods: BTreeMap<Key, PodState>,
    /// Set once `leno up` ends: nothing is wanted any more.
    pub ending: bool,
    pub pod_addresses: Allocator,
    pub service_addresses: Allocator,
    /// Whether this machine has IPv6.
    pub has_ipv6: bool,
}

impl World {
    /// What the one who decides sees of a workload's pods.
    #[must_use]
    pub fn seen(&self, workload: &WorkloadKey) -> Vec<Seen> {
        let pods = self.pods.iter().filter(|(_, pod)| pod.workload == *workload);
        pods.map(|((_, name), pod)| Seen {
            name: name.clone(),
            hash: pod.template.hash.clone(),
            ready: pod.ready,
            ending: pod.ending,
            finished: match pod.phase {
                Phase::Succeeded => Some(true),
                Phase::Failed => Some(false),
                Phase::Pending | Phase::Running => None,
            },
        })
        .collect()
    }
}

/// The world, and the receivers of its changes.
#[derive(Debug)]
pub struct Shared {
    world: Mutex<World>,
    changed: watch::Sender<u64>,
    published: watch::Sender<u64>,
}

impl Shared {
    /// Nothing yet, on a machine with or without IPv6.
    #[must_use]
    pub fn new(has_ipv6: bool) -> Self {
        let world = World {
            objects: Objects::default(),
            wanted: BTreeMap::new(),
            pods: BTreeMap::new(),
            ending: false,
            pod_addresses: Allocator::pods(),
            service_addresses: Allocator::services(),
            has_ipv6,
        };
        let (changed, published) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { world: Mutex::new(world), changed, published }
    }

    pub fn read<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads, and may allocate addresses, which is not a change to publish.
    pub fn look_mut<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.world.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Announces a change that was made with [`Self::look_mut`].
    pub fn say_changed(&self) {
        self.changed.send_modify(|now| *now += 1);
    }

    /// Changes, and answers with the version in which the change is.
    pub fn change<T>(&self, edit: impl FnOnce(&mut World) -> T) -> (T, u64) {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let result = edit(&mut world);
        let mut version = 0;
        self.changed.send_modify(|now| {
            *now += 1;
            version = *now;
        });
        (result, version)
    }

    /// Changes one pod, if it still exists.
    pub fn change_pod(&self, key: &Key, edit: impl FnOnce(&mut PodState)) -> u64 {
        self.change(|world| world.pods.get_mut(key).map(edit)).1
    }

    /// A receiver of every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub fn say_published(&self, version: u64) {
        self.published.send_replace(version);
    }

    /// Waits until a version is published.
    pub async fn published(&self, version: u64) {
        // The sender is ours, so this ends with the condition only.
        drop(self.published.subscribe().wait_for(|now| *now >= version).await);
    }
}
