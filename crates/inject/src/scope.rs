//! Who is part of the mesh, and what cannot be.
//!
//! A pod that is wished into the mesh and cannot be in it is refused, never left outside in silence: those who want it outside say
//! so on the pod.

use crate::annotation::{INJECT, LINKERD_INJECT};
use crate::is_empty;
use crate::names::{INIT, PORTS, PROXY, USER, VOLUMES};
use serde_json::Value;
use std::collections::BTreeMap;

/// Namespaces in which nothing is ever injected, beside the mesh's own: what a cluster needs to come up.
pub const EXCLUDED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Containers by which other meshes are known.
const OTHERS: [&str; 5] =
    ["istio-proxy", "linkerd-proxy", "kuma-sidecar", "consul-dataplane", "cilium-envoy"];
/// Containers by which other meshes capture traffic, which may be left when the proxy is not.
const OTHERS_INIT: [&str; 3] = ["istio-init", "linkerd-init", "kuma-init"];
/// By this a kubelet tells of a pod that it runs from a file of its node.
const STATIC: &str = "kubernetes.io/config.mirror";

/// Labels and annotations of an object.
#[derive(Clone, Debug, Default)]
pub struct Marks<'a> {
    pub labels: BTreeMap<&'a str, &'a str>,
    pub annotations: BTreeMap<&'a str, &'a str>,
}

impl<'a> Marks<'a> {
    /// Of a `metadata`.
    ///
    /// # Errors
    /// A value that is not a map of strings.
    pub fn of(metadata: Option<&'a Value>) -> Result<Self, String> {
        let read = |name: &str| match metadata.and_then(|metadata| metadata.get(name)) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(Value::Object(members)) => members
                .iter()
                .map(|(key, value)| match value {
                    Value::String(text) => Ok((key.as_str(), text.as_str())),
                    _ => Err(format!(
                        "metadata.{name}: the value of {key} is not a string; put it in quotes"
                    )),
                })
                .collect(),
            Some(_) => Err(format!("metadata.{name} is not a map")),
        };
        if !matches!(metadata, None | Some(Value::Null | Value::Object(_))) {
            return Err("metadata is not a map".to_owned());
        }
        Ok(Self { labels: read("labels")?, annotations: read("annotations")? })
    }

    /// Of an object whose maps were read elsewhere.
    #[must_use]
    pub fn new(
        labels: Option<&'a BTreeMap<String, String>>,
        annotations: Option<&'a BTreeMap<String, String>>,
    ) -> Self {
        let borrow = |map: Option<&'a BTreeMap<String, String>>| {
            map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
        };
        Self { labels: borrow(labels), annotations: borrow(annotations) }
    }

    /// Annotations, one by one.
    pub fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.annotations.iter().map(|(key, value)| (*key, *value))
    }
}

/// The namespace that a pod is in.
#[derive(Clone, Debug, Default)]
pub struct Namespace<'a> {
    pub name: &'a str,
    /// What is written on it.
    pub marks: Marks<'a>,
}

/// Whether someone wants a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Yes.
    Enabled,
    /// No.
    Disabled,
}

/// Whose annotations about injection are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Ours, and linkerd's where ours are absent: for those who migrate.
    LinkerdsToo,
    /// Ours alone: linkerd's own injector is there, and reads its own.
    OursAlone,
}

/// What the pod says, else what its namespace says, else `otherwise`. Where one object says both, `disabled` wins.
///
/// # Errors
/// A word that is neither; a typo must not decide.
pub fn wish(
    pod: &Marks<'_>,
    namespace: &Marks<'_>,
    otherwise: Wish,
    words: Words,
) -> Result<Wish, String> {
    let namespace = said(namespace, "of its namespace ", words);
    Ok(said(pod, "", words)?.or(namespace?).unwrap_or(otherwise))
}

fn said(marks: &Marks<'_>, whose: &str, words: Words) -> Result<Option<Wish>, String> {
    let ours = [("label", marks.labels.get(INJECT)), ("annotation", marks.annotations.get(INJECT))];
    let mut found = None;
    for (what, text) in ours {
        match text {
            None => {}
            Some(&"disabled") => found = Some(Wish::Disabled),
            Some(&"enabled") => found = found.or(Some(Wish::Enabled)),
            Some(other) => {
                return Err(format!(
                    "{what} {whose}{INJECT}: {other:?} is not valid; use enabled or disabled"
                ));
            }
        }
    }
    if found.is_some() || words == Words::OursAlone {
        return Ok(found);
    }
    match marks.annotations.get(LINKERD_INJECT) {
        None => Ok(None),
        Some(&"disabled") => Ok(Some(Wish::Disabled)),
        Some(&("enabled" | "ingress")) => Ok(Some(Wish::Enabled)),
        Some(other) => Err(format!(
            "annotation {whose}{LINKERD_INJECT}: {other:?} is not valid; use enabled, disabled or ingress"
        )),
    }
}

/// All containers of a pod, init containers first.
pub(crate) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"]
        .into_iter()
        .filter_map(|list| spec.get(list)?.as_array())
        .flatten()
}

/// The name of a container or volume.
pub(crate) fn name_of(item: &Value) -> &str {
    item.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The init containers of a pod: everything of ours is among them.
fn init_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.get("initContainers").and_then(Value::as_array).into_iter().flatten()
}

/// Whether a pod has our proxy. A container of the application that has its name is none.
#[must_use]
pub fn is_injected(spec: &Value) -> bool {
    init_containers(spec).any(|container| name_of(container) == PROXY)
}

/// Whether a pod has all that the injector adds to its containers, and nothing that only has the name: [`INIT`], and a sidecar [`PROXY`]
/// that is configured as a proxy. Of another version, or with another's image, it is ours still.
pub(crate) fn is_whole(spec: &Value) -> bool {
    let named = |wanted: &'static str| {
        containers(spec).filter(move |container| name_of(container) == wanted)
    };
    let init = init_containers(spec).any(|container| name_of(container) == INIT);
    let proxy =
        init_containers(spec).any(|container| name_of(container) == PROXY && is_proxy(container));
    init && proxy && named(INIT).count() == 1 && named(PROXY).count() == 1
}

/// The number of a port by the name that a container gives it; of several, the first.
#[must_use]
pub fn port_named(spec: &Value, name: &str) -> Option<u16> {
    let lists = ["containers", "initContainers"].into_iter();
    let all = lists.filter_map(|list| spec.get(list)?.as_array()).flatten();
    let ports = all.filter_map(|container| container.get("ports")?.as_array()).flatten();
    let mut named = ports.filter(|port| port.get("name").and_then(Value::as_str) == Some(name));
    let number = named.next()?.get("containerPort")?.as_u64()?;
    u16::try_from(number).ok().filter(|number| *number > 0)
}

/// Whether a pod is run by its node from a file there. What the API server is told of it is a picture: nothing that is added to that runs.
pub(crate) fn is_static(metadata: Option<&Value>) -> bool {
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| annotations.get(STATIC).is_some())
}

/// Whether a pod uses the network of its node.
pub(crate) fn is_on_host_network(spec: &Value) -> bool {
    spec.get("hostNetwork") == Some(&Value::Bool(true))
}

/// Whether a pod can run on nodes with Windows alone, or says what is understood there alone.
fn is_of_windows(spec: &Value) -> bool {
    const KEYS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
    let is = |value: Option<&Value>| value.and_then(Value::as_str) == Some("windows");
    let selected = |key: &&str| is(spec.get("nodeSelector").and_then(|labels| labels.get(*key)));
    let required =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = spec.pointer(required).and_then(Value::as_array);
    let demands = |demand: &Value| {
        let values = demand.get("values").and_then(Value::as_array);
        demand.get("key").and_then(Value::as_str).is_some_and(|key| KEYS.contains(&key))
            && demand.get("operator").and_then(Value::as_str) == Some("In")
            && values.is_some_and(|all| !all.is_empty() && all.iter().all(|one| is(Some(one))))
    };
    // One term of several is enough to be scheduled, so each has to say it.
    let wanted = |term: &Value| {
        let all = term.get("matchExpressions").and_then(Value::as_array);
        all.is_some_and(|all| all.iter().any(demands))
    };
    let options = |item: &Value| {
        item.pointer("/securityContext/windowsOptions").is_some_and(|options| !is_empty(options))
    };
    is(spec.pointer("/os/name"))
        || KEYS.iter().any(selected)
        || terms.is_some_and(|all| !all.is_empty() && all.iter().all(wanted))
        || options(spec)
        || containers(spec).any(options)
}

/// Whether an init container stays, and is told what a proxy has to know.
fn is_proxy(container: &Value) -> bool {
    const PREFIXES: [&str; 2] = ["LENO_PROXY_", "LINKERD2_PROXY_"];
    let mut variables = container.get("env").and_then(Value::as_array).into_iter().flatten();
    container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
        && variables
            .any(|variable| PREFIXES.iter().any(|prefix| name_of(variable).starts_with(prefix)))
}

/// What has the name of a container of ours in a pod that is not whole.
fn impostors(spec: &Value) -> Vec<String> {
    const OUT: &str = "remove it (`leno uninject` removes what `leno inject` added)";
    let mut wrong = Vec::new();
    let own = spec.get("containers").and_then(Value::as_array).into_iter().flatten();
    for name in [INIT, PROXY] {
        if own.clone().any(|container| name_of(container) == name) {
            wrong.push(format!(
                "container {name} has the name of a container of the mesh; rename it"
            ));
        }
    }
    let init = init_containers(spec).any(|container| name_of(container) == INIT);
    let proxy = init_containers(spec).find(|container| name_of(container) == PROXY);
    match proxy {
        Some(proxy) if !is_proxy(proxy) => {
            wrong.push(format!("init container {PROXY} is not the injected proxy; {OUT}"));
        }
        Some(_) if !init => wrong.push(format!(
            "it has {PROXY} without {INIT}, so its traffic would not be captured; {OUT}"
        )),
        Some(_) if wrong.is_empty() => {
            wrong.push(format!("it has {INIT} or {PROXY} more than once; {OUT}"));
        }
        None if init => wrong.push(format!("it has {INIT} without {PROXY}; {OUT}")),
        _ => {}
    }
    wrong
}

/// What is in the wrong order in a pod that is whole: others add init containers, and move those that are there.
fn disorder(spec: &Value) -> Vec<String> {
    let at = |name: &str| init_containers(spec).position(|container| name_of(container) == name);
    let late = at(INIT) > at(PROXY);
    let wrong = || {
        format!(
            "{INIT} comes after {PROXY}, so traffic would not be captured when the proxy is ready; put {INIT} first"
        )
    };
    late.then(wrong).into_iter().collect()
}

/// Why a pod cannot be part of the mesh, with what to do. A pod that is already part of the mesh is not an obstacle.
#[must_use]
pub fn obstacles(spec: &Value) -> Vec<String> {
    let mut wrong = malformed(spec);
    if !wrong.is_empty() {
        return wrong;
    }
    if is_on_host_network(spec) {
        wrong.push(
            "it uses the node's network (hostNetwork), whose traffic must not be captured"
                .to_owned(),
        );
    }
    if is_of_windows(spec) {
        wrong.push("it runs on Windows".to_owned());
    }
    let user = |item: &Value| item.pointer("/securityContext/runAsUser").and_then(Value::as_u64);
    // One sentence about each of ours is enough.
    let theirs =
        || containers(spec).filter(|container| ![INIT, PROXY].contains(&name_of(container)));
    if user(spec) == Some(USER) && theirs().any(|container| user(container).is_none()) {
        wrong.push(format!("it runs as user {USER}, the proxy's user, whose traffic is not captured; use another user"));
    }
    let whole = is_whole(spec);
    let impostors = if whole { disorder(spec) } else { impostors(spec) };
    for container in theirs() {
        let name = name_of(container);
        if OTHERS.contains(&name) {
            wrong.push(format!("container {name} is the proxy of another mesh"));
        }
        if OTHERS_INIT.contains(&name) {
            wrong.push(format!("container {name} captures traffic for another mesh"));
        }
        if user(container) == Some(USER) {
            wrong.push(format!(
                "container {name} runs as user {USER}, the proxy's user, whose traffic is not captured; use another user"
            ));
        }
        for port in container.get("ports").and_then(Value::as_array).into_iter().flatten() {
            let number = port.get("containerPort").and_then(Value::as_u64);
            let udp = port.get("protocol").and_then(Value::as_str) == Some("UDP");
            if let Some(number) = number.filter(|number| PORTS.contains(number) && !udp) {
                wrong.push(format!(
                    "container {name} has port {number}, which the proxy uses; use another port"
                ));
            }
        }
    }
    for volume in spec.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        let name = name_of(volume);
        if VOLUMES.contains(&name) && impostors.is_empty() && !whole {
            wrong.push(format!("volume {name} has the name of a volume of the mesh; rename it"));
        }
    }
    wrong.extend(impostors);
    wrong
}

/// What a pod's specification must be for a patch to be possible.
fn malformed(spec: &Value) -> Vec<String> {
    if !spec.is_object() {
        return vec!["spec is missing".to_owned()];
    }
    let mut wrong = Vec::new();
    for (field, required) in [("containers", true), ("initContainers", false), ("volumes", false)] {
        match spec.get(field) {
            None | Some(Value::Null) if required => wrong.push(format!("spec.{field} is missing")),
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => {
                if items.is_empty() && required {
                    wrong.push(format!("spec.{field} is empty"));
                }
                let named = |item: &Value| item.get("name").is_some_and(Value::is_string);
                if let Some(at) = items.iter().position(|item| !named(item)) {
                    wrong.push(format!("spec.{field}[{at}] has no name"));
                }
            }
            Some(_) => wrong.push(format!("spec.{field} is not a list")),
        }
    }
    wrong
}

#[cfg(test)]
mod tests;
