//! Policy objects from short lines, for the table of verdicts.
#![allow(clippy::unwrap_used, reason = "the lines are part of the tests")]

use serde_json::{Value, json};
use std::net::IpAddr;

/// The addresses of pod `web`; IPv4 first.
#[derive(Clone, Copy, Debug)]
pub struct Pod {
    pub addresses: [IpAddr; 2],
    /// Its object's `uid`.
    pub uid: &'static str,
}

impl Default for Pod {
    /// An address for tests without packets.
    fn default() -> Self {
        Self { addresses: [[10, 1, 0, 1].into(), [0xfd01, 0, 0, 0, 0, 0, 0, 1].into()], uid: "u" }
    }
}

/// Manifests of namespace `shop` with pod `web` (ports 8080 `http` and 9090 `grpc`), and of what the lines say:
///
/// - `pod KEY=VALUE`, `ns KEY=VALUE`: an annotation. `probe PATH`: a probe of port 8080.
/// - `server NAME PORT PROTOCOL ACCESS LABEL`: `-` leaves a word out.
/// - `policy NAME KIND/TARGET REF…`, where a reference is `mtls/NAME`, `net/NAME` or `sa/NAME`.
/// - `mtls NAME IDENTITY…`, with `sa:NAMESPACE/NAME` and `ns:NAME`; `net NAME RANGE[!HOLE]…`.
/// - `old NAME SERVER CLIENT…`: a ServerAuthorization for `all`, `tls`, `id:NAME`, `sa:NAME` or `from:RANGE`.
/// - `rate NAME TARGET [total=N] [identity=N] [NAMESPACE/ACCOUNT=N]…`: an HTTPLocalRateLimitPolicy.
/// - `gateway NAME LABEL RULE…`: an XAuthorizationPolicy for pods with the label, of `sa:[NAMESPACE/]NAME` and `id:SPIFFE`, joined by
///   `|` and followed by `:PORT,…`; `any` for every client, `none` for no source.
/// - `route NAME SERVER METHOD:PATH…` and `grpc NAME SERVER SERVICE/METHOD…`.
///
/// `linkerd:` before a line makes the object one of Linkerd's group. Later lines are older objects.
///
/// # Panics
/// A line is not of this form.
#[must_use]
pub fn manifests(lines: &[&str], web: Pod) -> String {
    let [v4, v6] = web.addresses;
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": web.uid,
            "labels": {"app": "web", "tier": "front"}, "annotations": {"leno.dev/meshed": "true"},
        },
        "spec": {"serviceAccountName": "web", "containers": [{
            "name": "web", "command": ["none"],
            "ports": [{"name": "http", "containerPort": 8080}, {"name": "grpc", "containerPort": 9090}],
        }]},
        "status": {"phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}], "hostIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": {}}});
    let mut objects = Vec::new();
    for account in ["a", "b", "web"] {
        objects.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": "shop"}}));
    }
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    objects.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "b", "namespace": "other"}}));
    for (age, line) in lines.iter().enumerate() {
        let (group, line) = match line.strip_prefix("linkerd:") {
            Some(line) => ("policy.linkerd.io", line),
            None => ("policy.leno.dev", *line),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "pod" | "ns" => {
                let (key, value) = words[1].split_once('=').unwrap();
                let of = if words[0] == "pod" { &mut pod } else { &mut namespace };
                of["metadata"]["annotations"][key] = json!(value);
            }
            "probe" => {
                let probe = json!({"httpGet": {"path": words[1], "port": "http"}});
                pod["spec"]["containers"][0]["readinessProbe"] = probe;
            }
            _ => objects.push(object(group, age, &words)),
        }
    }
    let texts = objects.iter().chain([&namespace, &pod]).map(|object| format!("---\n{object}\n"));
    texts.collect()
}

fn object(group: &str, age: usize, words: &[&str]) -> Value {
    let name = words[1];
    let metadata = json!({"name": name, "namespace": "shop", "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", 59 - age)});
    let with = |kind: &str, version: &str, spec: Value| json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": metadata, "spec": spec});
    match words[0] {
        "server" => with("Server", "v1beta3", server(&words[2..])),
        "policy" => with("AuthorizationPolicy", "v1alpha1", policy(group, &words[2..])),
        "mtls" => with("MeshTLSAuthentication", "v1alpha1", mesh_tls(&words[2..])),
        "net" => {
            with("NetworkAuthentication", "v1alpha1", json!({"networks": networks(&words[2..])}))
        }
        "gateway" => gateway(metadata, &words[2..]),
        "rate" => with("HTTPLocalRateLimitPolicy", "v1alpha1", rate(group, &words[2..])),
        "old" => with("ServerAuthorization", "v1beta1", old(&words[2..])),
        "route" | "grpc" => route(group, metadata, words),
        other => panic!("{other}?"),
    }
}

fn server(words: &[&str]) -> Value {
    let word = |at: usize| words.get(at).copied().filter(|word| *word != "-");
    let port = words[0].parse::<u16>().map_or(json!(words[0]), |number| json!(number));
    let label = word(3).unwrap_or("app=web");
    let (key, value) = label.split_once('=').unwrap();
    let mut spec = json!({"podSelector": {"matchLabels": {key: value}}, "port": port});
    if label == "all=" {
        spec["podSelector"] = json!({});
    }
    if let Some(protocol) = word(1) {
        spec["proxyProtocol"] = json!(protocol);
    }
    if let Some(access) = word(2) {
        spec["accessPolicy"] = json!(access);
    }
    spec
}

fn policy(group: &str, words: &[&str]) -> Value {
    let (kind, name) = words[0].split_once('/').unwrap();
    let of = match kind {
        "Server" => group,
        "HTTPRoute" | "GRPCRoute" => "gateway.networking.k8s.io",
        _ => "",
    };
    let refs = words[1..].iter().map(|word| {
        let mut parts = word.split('/');
        let (kind, of) = match parts.next().unwrap() {
            "mtls" => ("MeshTLSAuthentication", group),
            "net" => ("NetworkAuthentication", group),
            "sa" => ("ServiceAccount", ""),
            other => (other, ""),
        };
        json!({"group": of, "kind": kind, "name": parts.next().unwrap(), "namespace": parts.next()})
    });
    let refs: Vec<Value> = refs.collect();
    json!({"targetRef": {"group": of, "kind": kind, "name": name}, "requiredAuthenticationRefs": refs})
}

fn gateway(metadata: Value, words: &[&str]) -> Value {
    let (key, value) = words[0].split_once('=').unwrap();
    let mut selector = json!({"matchLabels": {key: value}});
    if words[0] == "all=" {
        selector = json!({});
    }
    let source = |word: &str| match (word.strip_prefix("sa:"), word.strip_prefix("id:")) {
        (Some(name), _) => {
            let (namespace, name) =
                name.split_once('/').map_or((None, name), |(a, b)| (Some(a), b));
            json!({"type": "ServiceAccount", "serviceAccount": {"name": name, "namespace": namespace}})
        }
        (_, Some(id)) => json!({"type": "SPIFFE", "spiffe": id}),
        _ => panic!("{word}?"),
    };
    let rule = |word: &&str| {
        let ports = word.rsplit_once(':').filter(|(_, ports)| ports.starts_with(char::is_numeric));
        let (who, ports) = ports.map_or((*word, None), |(who, ports)| (who, Some(ports)));
        let mut rule = json!({});
        if who != "any" {
            let sources = who.split('|').filter(|word| *word != "none");
            rule["sources"] = sources.map(source).collect();
        }
        if let Some(ports) = ports {
            let ports: Vec<i64> = ports.split(',').map(|port| port.parse().unwrap()).collect();
            rule["networkAttributes"] = json!({"ports": ports});
        }
        rule
    };
    json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1", "kind": "XAuthorizationPolicy",
        "metadata": metadata,
        "spec": {
            "targetRefs": [{"group": "", "kind": "Pod", "selector": selector}],
            "action": "ALLOW", "enforcementLevel": "Network",
            "rules": words[1..].iter().map(rule).collect::<Vec<_>>(),
        },
    })
}

fn rate(group: &str, words: &[&str]) -> Value {
    let mut spec = json!({"targetRef": {"group": group, "kind": "Server", "name": words[0]}});
    let mut overrides = Vec::new();
    for word in &words[1..] {
        let (name, rate) = word.split_once('=').unwrap();
        let rate: i64 = rate.parse().unwrap();
        match name.split_once('/') {
            None => spec[name] = json!({"requestsPerSecond": rate}),
            Some((namespace, account)) => overrides.push(json!({
                "requestsPerSecond": rate,
                "clientRefs": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            })),
        }
    }
    if !overrides.is_empty() {
        spec["overrides"] = json!(overrides);
    }
    spec
}

fn mesh_tls(words: &[&str]) -> Value {
    let (mut identities, mut refs) = (Vec::new(), Vec::new());
    for word in words {
        match (word.strip_prefix("sa:").and_then(|of| of.split_once('/')), word.strip_prefix("ns:"))
        {
            (Some((namespace, name)), _) => {
                refs.push(json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}));
            }
            (_, Some(name)) => refs.push(json!({"kind": "Namespace", "name": name})),
            _ => identities.push(json!(word)),
        }
    }
    json!({"identities": identities, "identityRefs": refs})
}

fn networks(words: &[&str]) -> Vec<Value> {
    let network = |word: &&str| match word.split_once('!') {
        Some((cidr, hole)) => json!({"cidr": cidr, "except": [hole]}),
        None => json!({"cidr": word}),
    };
    words.iter().map(network).collect()
}

fn old(words: &[&str]) -> Value {
    let mut client = json!({});
    for word in &words[1..] {
        match word.split_once(':') {
            Some(("from", range)) => client["networks"] = json!(networks(&[range])),
            Some(("id", name)) => client["meshTLS"] = json!({"identities": [name]}),
            Some(("sa", name)) => client["meshTLS"] = json!({"serviceAccounts": [{"name": name}]}),
            _ if *word == "tls" => client["meshTLS"] = json!({"unauthenticatedTLS": true}),
            _ => client["unauthenticated"] = json!(true),
        }
    }
    let server = match words[0].split_once('=') {
        Some((key, value)) => json!({"selector": {"matchLabels": {key: value}}}),
        None => json!({"name": words[0]}),
    };
    json!({"server": server, "client": client})
}

fn route(group: &str, metadata: Value, words: &[&str]) -> Value {
    let is_grpc = words[0] == "grpc";
    let matches = words[3..].iter().map(|word| {
        if is_grpc {
            let (service, method) = word.split_once('/').unwrap();
            return json!({"method": {"service": service, "method": method}});
        }
        let (method, path) = word.split_once(':').unwrap();
        let (kind, path) = match path.strip_suffix('*') {
            Some(prefix) => ("PathPrefix", prefix),
            None => ("Exact", path),
        };
        let mut one = json!({"path": {"type": kind, "value": path}});
        if method != "any" {
            one["method"] = json!(method);
        }
        one
    });
    let matches: Vec<Value> = matches.collect();
    let kind = if is_grpc { "GRPCRoute" } else { "HTTPRoute" };
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata,
        "spec": {
            "parentRefs": [{"group": group, "kind": "Server", "name": words[2]}],
            "rules": [{"matches": matches}],
        },
    })
}
