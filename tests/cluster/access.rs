//! What the control plane may do in the cluster, and that it may do no more.

use crate::ground::kubectl;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const ACCOUNT: &str = "--as=system:serviceaccount:leno:leno-control";
/// One to whom nothing is bound.
const NOBODY: &str = "--as=system:serviceaccount:default:leno-test-nobody";
/// What may be done to what in every namespace; behind `=` is the name of the only object. As deploy/leno/templates/rbac.yaml has it:
/// a right that is added there is added here, and somebody has thought about it twice.
const EVERYWHERE: [&str; 42] = [
    "authorizationpolicies.policy.leno.dev: get list watch",
    "authorizationpolicies.policy.linkerd.io: get list watch",
    "authorizationpolicies/status.policy.leno.dev: patch",
    "configmaps: create",
    "configmaps=leno-trust-anchors: get list patch watch",
    "endpointslices.discovery.k8s.io: get list watch",
    "events.events.k8s.io: create",
    "faults.leno.dev: get list watch",
    "faults/status.leno.dev: patch",
    "grpcroutes.gateway.networking.k8s.io: get list watch",
    "grpcroutes/status.gateway.networking.k8s.io: patch",
    "httplocalratelimitpolicies.policy.leno.dev: get list watch",
    "httplocalratelimitpolicies.policy.linkerd.io: get list watch",
    "httplocalratelimitpolicies/status.policy.leno.dev: patch",
    "httproutes.gateway.networking.k8s.io: get list watch",
    "httproutes.policy.linkerd.io: get list watch",
    "httproutes/status.gateway.networking.k8s.io: patch",
    "meshtlsauthentications.policy.leno.dev: get list watch",
    "meshtlsauthentications.policy.linkerd.io: get list watch",
    "meshtlsauthentications/status.policy.leno.dev: patch",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io=leno-injector: get list patch watch",
    "namespaces: get list watch",
    "networkauthentications.policy.leno.dev: get list watch",
    "networkauthentications.policy.linkerd.io: get list watch",
    "networkauthentications/status.policy.leno.dev: patch",
    "pods: get list watch",
    "referencegrants.gateway.networking.k8s.io: get list watch",
    "serverauthorizations.policy.leno.dev: get list watch",
    "serverauthorizations.policy.linkerd.io: get list watch",
    "serverauthorizations/status.policy.leno.dev: patch",
    "servers.policy.leno.dev: get list watch",
    "servers.policy.linkerd.io: get list watch",
    "servers/status.policy.leno.dev: patch",
    "serviceaccounts: get list watch",
    "services: get list watch",
    "tokenreviews.authentication.k8s.io: create",
    "xauthorizationpolicies.gateway.networking.x-k8s.io: get list watch",
    "xauthorizationpolicies/status.gateway.networking.x-k8s.io: patch",
    "xbackendtrafficpolicies.gateway.networking.x-k8s.io: get list watch",
    "xbackendtrafficpolicies.leno.dev: get list watch",
    "xbackendtrafficpolicies/status.gateway.networking.x-k8s.io: patch",
    "xbackendtrafficpolicies/status.leno.dev: patch",
];
/// And in its own.
const AT_HOME: [&str; 5] = [
    "leases.coordination.k8s.io: create",
    "leases.coordination.k8s.io=leno-control: get update",
    "secrets: create",
    "secrets=leno-identity-issuer: get list watch",
    "secrets=leno-injector-tls: get list patch watch",
];

#[test]
fn all_rights_are_in_a_table() {
    let namespaces = kubectl::run(&["get", "namespaces", "-o", "name"]).expect("namespaces");
    let namespaces: Vec<&str> =
        namespaces.lines().filter_map(|line| line.strip_prefix("namespace/")).collect();
    // One that is yet to come has the same.
    for namespace in namespaces.into_iter().chain(["leno-test-none"]) {
        let mut wanted: Vec<&str> = EVERYWHERE.to_vec();
        if namespace == "leno" {
            wanted.extend(AT_HOME);
        }
        wanted.sort_unstable();
        assert_eq!(granted(namespace).expect("rights"), wanted, "in namespace {namespace}");
    }
}

/// What the control plane may do in a namespace beyond what everybody may, a line for each kind or object.
fn granted(namespace: &str) -> Result<Vec<String>> {
    let everybodys = rights(NOBODY, namespace)?;
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (what, verb) in rights(ACCOUNT, namespace)?.difference(&everybodys) {
        of.entry(what.clone()).or_default().push(verb.clone());
    }
    Ok(of.iter().map(|(what, verbs)| format!("{what}: {}", verbs.join(" "))).collect())
}

/// All that an account may do in a namespace, as the API server's authorizer lists it.
fn rights(account: &str, namespace: &str) -> Result<BTreeSet<(String, String)>> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    // As it is: to check its form, `kubectl` would ask as this account for what it may not read.
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let words = ["create", "--raw", path, "-f", "-", account];
    let output = kubectl::output(&words, Some(&review.to_string()))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let review: Value = serde_json::from_slice(&output.stdout)?;
    let rules = |field: &str| review["status"][field].as_array().cloned().context("rules");
    let mut all = BTreeSet::new();
    for rule in rules("resourceRules")? {
        for (group, resource) in pairs(&rule["apiGroups"], &rule["resources"]) {
            let dot = if group.is_empty() { "" } else { "." };
            for (name, verb) in pairs(&rule["resourceNames"], &rule["verbs"]) {
                let sign = if name.is_empty() { "" } else { "=" };
                all.insert((format!("{resource}{dot}{group}{sign}{name}"), verb));
            }
        }
    }
    for rule in rules("nonResourceRules")? {
        all.extend(pairs(&rule["nonResourceURLs"], &rule["verbs"]));
    }
    Ok(all)
}

/// Every text of one list with every text of another; one that is not there has an empty text.
fn pairs(some: &Value, others: &Value) -> Vec<(String, String)> {
    let texts = |list: &Value| -> Vec<String> {
        let all = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        let all: Vec<String> = all.map(str::to_owned).collect();
        if all.is_empty() { vec![String::new()] } else { all }
    };
    let others = texts(others);
    let with = |one: String| others.iter().map(move |other| (one.clone(), other.clone()));
    texts(some).into_iter().flat_map(with).collect()
}

#[test]
fn what_is_not_granted_is_refused() {
    //     verb      resource                              namespace       may
    check("list", "pods", "", true);
    check("watch", "endpointslices.discovery.k8s.io", "", true);
    check("create", "tokenreviews.authentication.k8s.io", "", true);
    check("get", "secrets/leno-identity-issuer", "leno", true);
    check("get", "secrets/leno-identity-root", "leno", false);
    check("list", "secrets", "leno", false);
    check("get", "secrets", "default", false);
    check("list", "secrets", "", false);
    check("create", "pods", "default", false);
    check("delete", "pods", "default", false);
    check("patch", "pods", "default", false);
    check("create", "pods/exec", "default", false);
    check("get", "configmaps", "kube-system", false);
    check("patch", "configmaps/leno-trust-anchors", "default", true);
    check("patch", "configmaps/other", "default", false);
    check("delete", "configmaps/leno-trust-anchors", "default", false);
    check("create", "serviceaccounts/token", "default", false);
    check("patch", "services", "default", false);
    check("update", "httproutes.gateway.networking.k8s.io", "default", false);
    check("patch", "nodes", "", false);
    check("patch", "mutatingwebhookconfigurations/other", "", false);
    check("create", "mutatingwebhookconfigurations", "", false);
    check("create", "clusterrolebindings.rbac.authorization.k8s.io", "", false);
    check("impersonate", "users", "", false);
    check("*", "*", "", false);
}

/// RBAC lets it patch the webhook configuration; an admission policy says which fields.
#[test]
fn of_the_webhook_it_changes_what_it_trusts_alone() {
    let model = "/webhooks/0";
    let ca = json!({"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "YQ=="});
    let patch = |change: Value| {
        let change = json!([change]).to_string();
        let name = "leno-injector";
        let words = ["patch", "mutatingwebhookconfiguration", name, "--type=json", "-p", &change];
        kubectl::output(&[&words[..], &["--dry-run=server", ACCOUNT]].concat(), None)
            .expect("kubectl")
    };
    let allowed = patch(ca);
    assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
    for change in [
        json!({"op": "replace", "path": format!("{model}/rules/0/resources"), "value": ["secrets"]}),
        json!({"op": "add", "path": format!("{model}/rules/0/operations/-"), "value": "UPDATE"}),
        json!({"op": "replace", "path": format!("{model}/clientConfig/service/name"), "value": "x"}),
        json!({"op": "replace", "path": format!("{model}/namespaceSelector"), "value": {}}),
        json!({"op": "replace", "path": format!("{model}/objectSelector"), "value": {}}),
        json!({"op": "replace", "path": format!("{model}/failurePolicy"), "value": "Ignore"}),
        json!({"op": "remove", "path": model}),
        json!({"op": "add", "path": "/webhooks/-", "value": {
            "name": "other.injector.leno.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}],
        }}),
        json!({"op": "replace", "path": "/metadata/labels", "value": {}}),
    ] {
        let refused = patch(change.clone());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("leno-control may"), "{change}: {said}");
    }
}

/// What the API server's authorizer says; without a namespace: in all.
fn check(verb: &str, resource: &str, namespace: &str, may: bool) {
    let place = if namespace.is_empty() { vec!["-A"] } else { vec!["-n", namespace] };
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, sub @ ("exec" | "token"))) => (resource, format!("--subresource={sub}")),
        _ => (resource, "--subresource=".to_owned()),
    };
    let words = [&["auth", "can-i", verb, resource, &subresource, ACCOUNT], &place[..]].concat();
    let said = kubectl::output(&words, None).expect("kubectl");
    let said = String::from_utf8_lossy(&said.stdout);
    assert_eq!(said.trim(), if may { "yes" } else { "no" }, "{verb} {resource} in {namespace:?}");
}
