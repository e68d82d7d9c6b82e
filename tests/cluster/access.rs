//! What the control plane may do in the cluster, and that it may do no more.

use crate::ground::kubectl;

const ACCOUNT: &str = "--as=system:serviceaccount:leno:leno-control";

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
