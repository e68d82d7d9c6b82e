//! A pod as a person wants to see it: a row of `leno ps`, and what other commands need to know of it. Pure.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use serde::Serialize;
use std::collections::BTreeMap;

/// The proxy's container.
pub const PROXY: &str = "leno-proxy";
/// Readiness, metrics of the proxy.
pub const PROXY_ADMIN_PORT: u16 = 4191;
/// Variable of the proxy's container that says who it is.
const IDENTITY_VARIABLE: &str = "LENO_PROXY_IDENTITY";

/// One row of `leno ps`; `docs/cli.md` is the contract.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PodRow {
    pub name: String,
    pub namespace: String,
    /// IPv4 address, or the only one.
    pub ip: String,
    /// Whether it takes traffic.
    pub ready: bool,
    /// `leno` or `none`.
    pub mesh: String,
    /// SPIFFE ID; empty when not meshed.
    pub identity: String,
    /// The proxy; none without the mesh.
    pub proxy: Option<ProxyRow>,
    /// IPv6 address, or empty.
    pub ipv6: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    pub phase: String,
    /// Whether it is being ended.
    pub ending: bool,
    /// Kind and name of what it is of, `deployment/web`.
    pub workload: String,
    /// All restarts of its containers.
    pub restarts: u32,
    /// Why it is not ready.
    pub reason: String,
    /// Its containers, those that initialize first; without the proxy's own.
    pub containers: Vec<ContainerRow>,
    pub node: String,
    pub labels: BTreeMap<String, String>,
}

/// A pod's proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProxyRow {
    /// As the proxy says; where it does not answer, the tag of its image.
    pub version: String,
    pub image: String,
    /// Whether it has a certificate and does not drain.
    pub ready: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// When its certificate expires, in seconds since 1970; none where it does not answer.
    pub certificate_expires: Option<u64>,
    /// Resident memory; none where it does not answer.
    pub rss_bytes: Option<u64>,
    /// User and system time so far; none where it does not answer.
    pub cpu_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ContainerRow {
    pub name: String,
    /// How often it was started again.
    pub restarts: u32,
    /// Whether it is ready.
    pub ready: bool,
    /// `running`, `waiting: REASON`, `ended: REASON`.
    pub state: String,
}

/// Whether the proxy may be asked: its container runs.
#[must_use]
pub fn answers(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_deref());
    let plain = status.and_then(|status| status.container_statuses.as_deref());
    let mut all = init.into_iter().chain(plain).flatten().filter(|one| one.name == PROXY);
    all.any(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// The row; what only the proxy knows is left out.
#[must_use]
pub fn row(pod: &Pod) -> PodRow {
    let metadata = &pod.metadata;
    let status = pod.status.clone().unwrap_or_default();
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let name = metadata.name.clone().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let statuses: Vec<&ContainerStatus> =
        status.init_container_statuses.iter().chain(&status.container_statuses).flatten().collect();
    let proxy = containers(pod).find(|container| container.name == PROXY);
    let addresses: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
    let first = status.pod_ip.clone().unwrap_or_default();
    let of_family = |six: bool| addresses.iter().find(|ip| ip.contains(':') == six).cloned();
    let ready = condition(&status, "Ready") == Some(true);
    PodRow {
        ip: of_family(false).unwrap_or(first),
        ipv6: of_family(true).unwrap_or_default(),
        ready: ready && metadata.deletion_timestamp.is_none(),
        mesh: if proxy.is_some() { "leno" } else { "none" }.to_owned(),
        identity: proxy.map(|proxy| identity(proxy, &namespace, pod)).unwrap_or_default(),
        proxy: proxy.map(|proxy| proxy_row(proxy, &statuses)),
        phase: status.phase.clone().unwrap_or_else(|| "Unknown".to_owned()),
        ending: metadata.deletion_timestamp.is_some(),
        workload: workload(pod),
        restarts: statuses.iter().map(|one| u32::try_from(one.restart_count).unwrap_or(0)).sum(),
        reason: if ready { String::new() } else { reason(pod, &statuses) },
        containers: statuses
            .iter()
            .filter(|one| one.name != PROXY && one.name != "leno-init")
            .map(|one| container_row(one))
            .collect(),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        labels: metadata.labels.clone().unwrap_or_default(),
        namespace,
        name,
    }
}

/// Those that initialize first; of them, the sidecars are those that stay.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

/// What a pod is of: the Deployment and not its ReplicaSet.
fn workload(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) else {
        return format!("pod/{}", metadata.name.as_deref().unwrap_or_default());
    };
    // A ReplicaSet is named after its Deployment and the hash of the pod's template.
    let hash = metadata.labels.as_ref().and_then(|labels| labels.get("pod-template-hash"));
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'));
    match deployment {
        Some(name) if owner.kind == "ReplicaSet" => format!("deployment/{name}"),
        _ => format!("{}/{}", owner.kind.to_ascii_lowercase(), owner.name),
    }
}

/// The variable, with what it refers to: the pod's namespace and account.
fn identity(proxy: &Container, namespace: &str, pod: &Pod) -> String {
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let variables = proxy.env.iter().flatten();
    let written =
        variables.filter(|one| one.name == IDENTITY_VARIABLE).find_map(|one| one.value.clone());
    written
        .unwrap_or_default()
        .replace("$(LENO_POD_NAMESPACE)", namespace)
        .replace("$(LENO_POD_SERVICE_ACCOUNT)", account.unwrap_or("default"))
}

fn proxy_row(proxy: &Container, statuses: &[&ContainerStatus]) -> ProxyRow {
    let status = statuses.iter().find(|status| status.name == PROXY);
    let image = proxy.image.clone().unwrap_or_default();
    // A digest comes after the tag; a colon before the last slash is a port.
    let named = image.split('@').next().unwrap_or_default();
    let last = named.rsplit('/').next().unwrap_or_default();
    ProxyRow {
        version: last.split_once(':').map(|(_, tag)| tag.to_owned()).unwrap_or_default(),
        ready: status.is_some_and(|status| status.ready),
        restarts: status.map_or(0, |status| u32::try_from(status.restart_count).unwrap_or(0)),
        image,
        ..ProxyRow::default()
    }
}

fn container_row(status: &ContainerStatus) -> ContainerRow {
    let state = status.state.clone().unwrap_or_default();
    let with = |word: &str, reason: Option<String>| match reason {
        Some(reason) => format!("{word}: {reason}"),
        None => word.to_owned(),
    };
    let state = match (state.running, state.waiting, state.terminated) {
        (Some(_), _, _) => "running".to_owned(),
        (_, _, Some(ended)) => with("ended", ended.reason.map(|reason| reason.to_lowercase())),
        (_, waiting, _) => with("waiting", waiting.and_then(|waiting| waiting.reason)),
    };
    ContainerRow {
        name: status.name.clone(),
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
        ready: status.ready,
        state,
    }
}

fn condition(status: &k8s_openapi::api::core::v1::PodStatus, kind: &str) -> Option<bool> {
    let mut all = status.conditions.iter().flatten();
    all.find(|condition| condition.type_ == kind).map(|condition| condition.status == "True")
}

/// The nearest cause that is known: the pod's own, a container's, the scheduler's.
fn reason(pod: &Pod, statuses: &[&ContainerStatus]) -> String {
    let Some(status) = &pod.status else { return String::new() };
    if let Some(reason) = &status.reason {
        return with_message(reason, status.message.as_deref());
    }
    for one in statuses {
        let Some(state) = &one.state else { continue };
        if let Some(waiting) = &state.waiting
            && let Some(reason) = waiting.reason.as_deref()
            && reason != "PodInitializing"
        {
            return format!("{}: {}", one.name, with_message(reason, waiting.message.as_deref()));
        }
        if let Some(ended) = &state.terminated
            && ended.exit_code != 0
        {
            return format!("{}: ended with {}", one.name, ended.exit_code);
        }
    }
    let conditions = status.conditions.iter().flatten();
    let mut wrong = conditions.filter(|one| one.status == "False" && one.message.is_some());
    wrong.next().and_then(|one| one.message.clone()).unwrap_or_default()
}

fn with_message(reason: &str, message: Option<&str>) -> String {
    match message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
