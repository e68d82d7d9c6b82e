//! Who is part of the mesh, and what cannot be.
//!
//! A pod that is wished into the mesh and cannot be in it is refused, never left outside in silence: those who want it outside say
//! so on the pod.

use crate::annotation::{INJECT, LINKERD_INJECT};
use crate::pod::{INIT, PORTS, PROXY, USER, VOLUMES};
use serde_json::Value;
use std::collections::BTreeMap;

/// Namespaces in which nothing is ever injected, beside the mesh's own: what a cluster needs to come up.
pub const EXCLUDED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Containers by which other meshes are known.
const OTHERS: [&str; 5] =
    ["istio-proxy", "linkerd-proxy", "kuma-sidecar", "consul-dataplane", "cilium-envoy"];

/// Labels and annotations of an object.
#[derive(Clone, Debug, Default)]
pub struct Marks<'a> {
    /// Labels.
    pub labels: BTreeMap<&'a str, &'a str>,
    /// Annotations.
    pub annotations: BTreeMap<&'a str, &'a str>,
}

impl<'a> Marks<'a> {
    /// Of a `metadata`.
    ///
    /// # Errors
    /// What is there and is no map of texts.
    pub fn of(metadata: Option<&'a Value>) -> Result<Self, String> {
        let read = |name: &str| match metadata.and_then(|metadata| metadata.get(name)) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(Value::Object(members)) => members
                .iter()
                .map(|(key, value)| match value {
                    Value::String(text) => Ok((key.as_str(), text.as_str())),
                    _ => Err(format!("metadata.{name}: {key} is no text; put it in quotes")),
                })
                .collect(),
            Some(_) => Err(format!("metadata.{name} is no map")),
        };
        if !matches!(metadata, None | Some(Value::Null | Value::Object(_))) {
            return Err("metadata is no map".to_owned());
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
    /// Its name.
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

/// What the pod says, else what its namespace says, else `otherwise`. Where one object says both, `disabled` wins.
///
/// # Errors
/// A word that is neither; a typo must not decide.
pub fn wish(pod: &Marks<'_>, namespace: &Marks<'_>, otherwise: Wish) -> Result<Wish, String> {
    Ok(said(pod, "")?.or(said(namespace, "of its namespace ")?).unwrap_or(otherwise))
}

fn said(marks: &Marks<'_>, whose: &str) -> Result<Option<Wish>, String> {
    let ours = [("label", marks.labels.get(INJECT)), ("annotation", marks.annotations.get(INJECT))];
    let mut found = None;
    for (what, text) in ours {
        match text {
            None => {}
            Some(&"disabled") => found = Some(Wish::Disabled),
            Some(&"enabled") => found = found.or(Some(Wish::Enabled)),
            Some(other) => {
                return Err(format!(
                    "{what} {whose}{INJECT}: {other:?} is neither enabled nor disabled"
                ));
            }
        }
    }
    if found.is_some() {
        return Ok(found);
    }
    match marks.annotations.get(LINKERD_INJECT) {
        None => Ok(None),
        Some(&"disabled") => Ok(Some(Wish::Disabled)),
        Some(&("enabled" | "ingress")) => Ok(Some(Wish::Enabled)),
        Some(other) => Err(format!(
            "annotation {whose}{LINKERD_INJECT}: {other:?} is none of enabled, disabled, ingress"
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
    const OUT: &str = "`leno uninject` takes it out";
    let mut wrong = Vec::new();
    let own = spec.get("containers").and_then(Value::as_array).into_iter().flatten();
    for name in [INIT, PROXY] {
        if own.clone().any(|container| name_of(container) == name) {
            wrong.push(format!(
                "container {name} has the name of one of ours, and would pass for it; rename it"
            ));
        }
    }
    let init = init_containers(spec).any(|container| name_of(container) == INIT);
    let proxy = init_containers(spec).find(|container| name_of(container) == PROXY);
    match proxy {
        Some(proxy) if !is_proxy(proxy) => {
            wrong.push(format!("init container {PROXY} is not the proxy that is injected; {OUT}"));
        }
        Some(_) if !init => {
            wrong.push(format!("it has {PROXY} without {INIT}, so that nothing is captured; {OUT}"))
        }
        Some(_) if wrong.is_empty() => {
            wrong.push(format!("it has {INIT} or {PROXY} more than once; {OUT}"));
        }
        None if init => wrong.push(format!("it has {INIT} without {PROXY}; {OUT}")),
        _ => {}
    }
    wrong
}

/// Why a pod cannot be part of the mesh, with what to do.
#[must_use]
pub fn obstacles(spec: &Value) -> Vec<String> {
    let mut wrong = malformed(spec);
    if !wrong.is_empty() {
        return wrong;
    }
    let is =
        |pointer: &str, wanted: &str| spec.pointer(pointer).and_then(Value::as_str) == Some(wanted);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        wrong.push(
            "it uses the node's network (hostNetwork), which is not ours to capture".to_owned(),
        );
    }
    if is("/os/name", "windows") || is("/nodeSelector/kubernetes.io~1os", "windows") {
        wrong.push("it runs on Windows".to_owned());
    }
    if spec.pointer("/securityContext/runAsUser").and_then(Value::as_u64) == Some(USER) {
        wrong.push(format!("it runs as user {USER}, the proxy's, whose traffic is not captured"));
    }
    let impostors = impostors(spec);
    for container in containers(spec) {
        let name = name_of(container);
        if [INIT, PROXY].contains(&name) {
            // One sentence about each is enough.
            continue;
        }
        if OTHERS.contains(&name) {
            wrong.push(format!("container {name} is another mesh's proxy"));
        }
        let user = container.pointer("/securityContext/runAsUser").and_then(Value::as_u64);
        if user == Some(USER) {
            wrong.push(format!(
                "container {name} runs as user {USER}, the proxy's, whose traffic is not captured"
            ));
        }
        for port in container.get("ports").and_then(Value::as_array).into_iter().flatten() {
            let number = port.get("containerPort").and_then(Value::as_u64);
            let udp = port.get("protocol").and_then(Value::as_str) == Some("UDP");
            if let Some(number) = number.filter(|number| PORTS.contains(number) && !udp) {
                wrong.push(format!("container {name} has port {number}, which is the proxy's"));
            }
        }
    }
    for volume in spec.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        let name = name_of(volume);
        if VOLUMES.contains(&name) && impostors.is_empty() {
            wrong.push(format!("volume {name} has the name of one of ours"));
        }
    }
    wrong.extend(impostors);
    wrong
}

/// What a pod's specification must be for a patch to be possible.
fn malformed(spec: &Value) -> Vec<String> {
    if !spec.is_object() {
        return vec!["there is no spec".to_owned()];
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
            Some(_) => wrong.push(format!("spec.{field} is no list")),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wishes() {
        /// `l:` labels, `a:` annotations of ours, `k:` linkerd's; pod, namespace.
        #[track_caller]
        fn check(pod: &str, namespace: &str, expected: &str) {
            fn marks(text: &str) -> Marks<'_> {
                let mut marks = Marks::default();
                for part in text.split_whitespace() {
                    match part.split_at(2) {
                        ("l:", value) => marks.labels.insert(INJECT, value),
                        ("a:", value) => marks.annotations.insert(INJECT, value),
                        (_, value) => marks.annotations.insert(LINKERD_INJECT, value),
                    };
                }
                marks
            }
            let shown = match wish(&marks(pod), &marks(namespace), Wish::Disabled) {
                Ok(Wish::Enabled) => "yes".to_owned(),
                Ok(Wish::Disabled) => "no".to_owned(),
                Err(why) => why,
            };
            assert_eq!(shown, expected, "{pod} in {namespace}");
        }
        check("", "", "no");
        check("", "l:enabled", "yes");
        check("", "a:enabled", "yes");
        check("", "k:enabled", "yes");
        check("", "k:ingress", "yes");
        check("l:disabled", "l:enabled", "no");
        check("a:disabled", "l:enabled", "no");
        check("k:disabled", "l:enabled", "no");
        check("l:enabled a:disabled", "", "no");
        check("l:disabled a:enabled", "", "no");
        check("l:enabled", "l:disabled", "yes");
        // Ours over linkerd's: those who migrate say it once more.
        check("l:enabled k:disabled", "", "yes");
        check("l:true", "", "label leno.dev/inject: \"true\" is neither enabled nor disabled");
        check(
            "",
            "k:on",
            "annotation of its namespace linkerd.io/inject: \"on\" is none of enabled, disabled, ingress",
        );
    }

    #[track_caller]
    fn check(spec: Value, expected: &[&str]) {
        assert_eq!(obstacles(&spec), expected, "{spec}");
    }

    #[test]
    fn what_cannot_be() {
        let app = json!({"name": "app"});
        let with = |field: &str, value: Value| {
            let mut spec = json!({"containers": [app]});
            spec[field] = value;
            spec
        };
        check(with("hostNetwork", json!(false)), &[]);
        check(
            with("hostNetwork", json!(true)),
            &["it uses the node's network (hostNetwork), which is not ours to capture"],
        );
        check(with("os", json!({"name": "windows"})), &["it runs on Windows"]);
        check(
            with("containers", json!([app, {"name": "istio-proxy"}])),
            &["container istio-proxy is another mesh's proxy"],
        );
        check(
            with("initContainers", json!([{"name": "linkerd-proxy"}])),
            &["container linkerd-proxy is another mesh's proxy"],
        );
        check(
            with("initContainers", json!([{"name": "leno-init"}])),
            &["it has leno-init without leno-proxy; `leno uninject` takes it out"],
        );
        check(
            with("containers", json!([app, {"name": "leno-proxy"}, {"name": "leno-init"}])),
            &[
                "container leno-init has the name of one of ours, and would pass for it; rename it",
                "container leno-proxy has the name of one of ours, and would pass for it; rename it",
            ],
        );
        let init = json!({"name": "leno-init"});
        let environment = json!([{"name": "LENO_PROXY_IDENTITY"}]);
        let proxy = json!({"name": "leno-proxy", "restartPolicy": "Always", "env": environment});
        check(
            with(
                "initContainers",
                json!([init, {"name": "leno-proxy", "restartPolicy": "Always"}]),
            ),
            &[
                "init container leno-proxy is not the proxy that is injected; `leno uninject` takes it out",
            ],
        );
        check(
            with("initContainers", json!([init, {"name": "leno-proxy", "env": environment}])),
            &[
                "init container leno-proxy is not the proxy that is injected; `leno uninject` takes it out",
            ],
        );
        check(
            with("initContainers", json!([proxy])),
            &[
                "it has leno-proxy without leno-init, so that nothing is captured; `leno uninject` takes it out",
            ],
        );
        check(
            with("initContainers", json!([init, init, proxy])),
            &["it has leno-init or leno-proxy more than once; `leno uninject` takes it out"],
        );
        check(
            with("containers", json!([{"name": "a", "securityContext": {"runAsUser": 2102}}])),
            &["container a runs as user 2102, the proxy's, whose traffic is not captured"],
        );
        check(
            with("securityContext", json!({"runAsUser": 2102})),
            &["it runs as user 2102, the proxy's, whose traffic is not captured"],
        );
        check(
            with(
                "containers",
                json!([{"name": "a", "ports": [{"containerPort": 4143}, {"containerPort": 4140, "protocol": "UDP"}]}]),
            ),
            &["container a has port 4143, which is the proxy's"],
        );
        check(
            with("volumes", json!([{"name": "leno-identity"}])),
            &["volume leno-identity has the name of one of ours"],
        );
        check(json!(null), &["there is no spec"]);
        check(json!([]), &["there is no spec"]);
        check(json!({}), &["spec.containers is missing"]);
        check(json!({"containers": null}), &["spec.containers is missing"]);
        check(json!({"containers": []}), &["spec.containers is empty"]);
        check(json!({"containers": [1]}), &["spec.containers[0] has no name"]);
        check(with("volumes", json!({})), &["spec.volumes is no list"]);
        check(with("volumes", json!(null)), &[]);
        check(with("initContainers", json!("x")), &["spec.initContainers is no list"]);
    }
}
