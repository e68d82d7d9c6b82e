//! What is added to a pod: the containers that capture and carry its traffic, and their volumes.
//!
//! `leno-init` installs the rules and ends; `leno-proxy` is a native sidecar (an init container that stays). Both come before every
//! other init container, which therefore has the network; the startup probe holds the rest back until the proxy has its
//! identity. Kubernetes ends such a sidecar after the containers, and a Job does not wait for it.
//!
//! The application's health probes are not touched. The kubelet's connections are captured like all that arrive, and the
//! proxy passes them on as those of a client without identity; what they ask is let in by every policy
//! (`control::world::probe`). The proxy's own port for probes is not captured.

use crate::annotation::{DRAIN, Resources, Settings, To, VOCABULARY};
use crate::is_empty;
use crate::mesh::Mesh;
use crate::names::{ADMIN_PORT, IDENTITY_VOLUME, INBOUND_PORT, INIT, PROXY, STATE_VOLUME, USER};
use serde_json::{Map, Value, json};

/// The audience that the mesh wants in a token: a token for the API server is worth nothing to it, nor the other way round.
pub const AUDIENCE: &str = "leno.dev/identity";
/// Life of a token; the kubelet renews it after four fifths. It is needed at each certification only.
const TOKEN_SECONDS: u64 = 3600;
/// What one last snapshot may take. It is memory, and counts as the proxy's.
const STATE_SIZE: &str = "16Mi";
/// The proxy drains for the pod's grace period, but not for longer than this unless told to.
const DRAIN_SECONDS_MAX: u64 = 30;
/// Kubernetes' own.
const GRACE_SECONDS: u64 = 30;
/// Where the volumes are in the proxy.
const IDENTITY_PATH: &str = "/var/run/leno/identity";
const STATE_PATH: &str = "/var/run/leno/state";

/// The two containers, in their order.
#[must_use]
pub fn containers(spec: &Value, settings: &Settings, mesh: &Mesh) -> [Value; 2] {
    let image = settings.get(name_for(To::Image)).unwrap_or(&mesh.proxy_image);
    let policy = settings.get(name_for(To::PullPolicy)).unwrap_or(&mesh.image_pull_policy);
    let resources = resources(&settings.resources(&mesh.resources));
    let mut common = json!({
        "image": image,
        "imagePullPolicy": policy,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    if !is_empty(&resources) {
        common["resources"] = resources;
    }
    [
        merged(
            &common,
            json!({
                "name": INIT,
                "args": ["capture", "apply"],
                "env": init_environment(settings),
                // Root, because Kubernetes gives capabilities to root alone; nftables asks for no other than NET_ADMIN.
                "securityContext": security(0, json!({"add": ["NET_ADMIN"], "drop": ["ALL"]})),
            }),
        ),
        merged(
            &common,
            json!({
                "name": PROXY,
                "restartPolicy": "Always",
                "env": environment(spec, settings, mesh),
                "ports": [
                    {"name": "leno-proxy", "containerPort": INBOUND_PORT, "protocol": "TCP"},
                    {"name": "leno-admin", "containerPort": ADMIN_PORT, "protocol": "TCP"},
                ],
                // Two minutes for the first certificate; then Kubernetes starts the container again.
                "startupProbe": probe("/ready", 1, 120),
                "readinessProbe": probe("/ready", 2, 3),
                "livenessProbe": probe("/live", 10, 3),
                "securityContext": security(USER, json!({"drop": ["ALL"]})),
                "volumeMounts": [
                    {"name": IDENTITY_VOLUME, "mountPath": IDENTITY_PATH, "readOnly": true},
                    {"name": STATE_VOLUME, "mountPath": STATE_PATH},
                ],
            }),
        ),
    ]
}

#[must_use]
pub fn volumes(mesh: &Mesh) -> [Value; 2] {
    [
        json!({"name": IDENTITY_VOLUME, "projected": {"sources": [
            {"serviceAccountToken":
                {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": mesh.trust_anchors, "items":
                [{"key": Mesh::TRUST_ANCHORS_KEY, "path": Mesh::TRUST_ANCHORS_KEY}]}},
        ]}}),
        json!({"name": STATE_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": STATE_SIZE}}),
    ]
}

fn name_for(to: To) -> &'static str {
    VOCABULARY.iter().find(|word| word.to == to).map_or("", |word| word.name)
}

fn merged(common: &Value, own: Value) -> Value {
    let members = common.as_object().into_iter().flatten();
    let mut all: Map<String, Value> =
        members.map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Value::Object(own) = own {
        all.extend(own);
    }
    Value::Object(all)
}

fn security(user: u64, capabilities: Value) -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": capabilities,
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "runAsGroup": user,
        "runAsNonRoot": user != 0,
        "runAsUser": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn probe(path: &str, period_seconds: u64, failures: u64) -> Value {
    json!({
        "httpGet": {"path": path, "port": ADMIN_PORT},
        "periodSeconds": period_seconds,
        "failureThreshold": failures,
        "timeoutSeconds": 1,
    })
}

fn resources(resources: &Resources) -> Value {
    let mut all = Map::new();
    for (field, cpu, memory) in [
        ("requests", &resources.cpu_request, &resources.memory_request),
        ("limits", &resources.cpu_limit, &resources.memory_limit),
    ] {
        let given = [("cpu", cpu), ("memory", memory)];
        let one: Map<String, Value> = given
            .into_iter()
            .filter_map(|(name, quantity)| Some((name.to_owned(), quantity.clone()?.into())))
            .collect();
        if !one.is_empty() {
            all.insert(field.to_owned(), one.into());
        }
    }
    all.into()
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn from_pod(name: &str, field: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}})
}

/// Only what says what to capture, and by which the network of a node is known: it must never be captured.
fn init_environment(settings: &Settings) -> Value {
    let capture = settings.variables().filter(|(name, _)| name.starts_with("LENO_PROXY_SKIP_"));
    // Without the prefix by which a proxy of an older version would refuse what it does not know.
    [from_pod("LENO_POD_IPS", "status.podIPs"), from_pod("LENO_HOST_IPS", "status.hostIPs")]
        .into_iter()
        .chain(capture.map(|(name, value)| variable(name, value)))
        .collect()
}

fn environment(spec: &Value, settings: &Settings, mesh: &Mesh) -> Value {
    let Mesh { trust_domain, namespace, .. } = mesh;
    let account = "$(LENO_POD_NAMESPACE)/sa/$(LENO_POD_SERVICE_ACCOUNT)";
    let dns = "$(LENO_POD_SERVICE_ACCOUNT).$(LENO_POD_NAMESPACE).serviceaccount.identity";
    let mut all = vec![
        from_pod("LENO_POD_NAME", "metadata.name"),
        from_pod("LENO_POD_NAMESPACE", "metadata.namespace"),
        from_pod("LENO_POD_SERVICE_ACCOUNT", "spec.serviceAccountName"),
        variable(
            "LENO_PROXY_WORKLOAD",
            r#"{"ns":"$(LENO_POD_NAMESPACE)","pod":"$(LENO_POD_NAME)"}"#,
        ),
        variable("LENO_PROXY_IDENTITY", &format!("spiffe://{trust_domain}/ns/{account}")),
        variable("LENO_PROXY_IDENTITY_DNS", &format!("{dns}.{namespace}.{trust_domain}")),
        variable("LENO_PROXY_CONTROL_ADDRESS", &mesh.control_address_for(spec)),
        variable(
            "LENO_PROXY_CONTROL_IDENTITY",
            &format!("spiffe://{trust_domain}/ns/{namespace}/sa/leno-control"),
        ),
        variable(
            "LENO_PROXY_TRUST_ANCHORS_FILE",
            &format!("{IDENTITY_PATH}/{}", Mesh::TRUST_ANCHORS_KEY),
        ),
        variable("LENO_PROXY_TOKEN_FILE", &format!("{IDENTITY_PATH}/token")),
        variable("LENO_PROXY_STATE_DIR", STATE_PATH),
        from_pod("LENO_PROXY_POD_UID", "metadata.uid"),
        // One address of each family, with a comma between.
        from_pod("LENO_PROXY_PROBE_SOURCES", "status.hostIPs"),
    ];
    let given: Vec<(&str, &str)> = settings.variables().collect();
    if !given.iter().any(|(name, _)| *name == DRAIN) {
        let grace = grace_seconds(spec).min(DRAIN_SECONDS_MAX);
        all.push(variable(DRAIN, &grace.to_string()));
    }
    all.extend(given.into_iter().map(|(name, value)| variable(name, value)));
    all.into()
}

/// How long Kubernetes waits for the whole pod.
pub(crate) fn grace_seconds(spec: &Value) -> u64 {
    let given = spec.get("terminationGracePeriodSeconds").and_then(Value::as_u64);
    given.unwrap_or(GRACE_SECONDS)
}
