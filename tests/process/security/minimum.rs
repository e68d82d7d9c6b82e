//! An XAuthorizationPolicy and the minimum policy of a namespace that change under real proxies. Their rows are in the table of
//! `policy_table.rs`.

use super::policy_objects::{LENO, Says, check, object, policy, server};
use super::{Applications, HTTP_PORT, TCP_PORT};
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use serde_json::json;

pub(super) fn decide() {
    let plan = Plan::new().pod("client").pod("other").pod("server").unmeshed_pod("stranger");
    let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
    let mesh = plan.start("minimum", Meshed::Yes);
    let _applications = Applications::start(&mesh, "server", "welcome");
    let http = |from: &'static str| (from, HTTP_PORT, "x");
    let bytes = |from: &'static str| (from, TCP_PORT, "");
    // A pod that is selected denies what no rule admits, on each of its ports.
    gateway_policy(&mesh, "server");
    check(&mesh, http("other"), Says::Status("403"));
    check(&mesh, http("client"), Says::Welcome);
    check(&mesh, http("stranger"), Says::Status("403"));
    check(&mesh, bytes("client"), Says::Nothing);
    // With a Server, both have to admit.
    server(&mesh, LENO, ("tcp", TCP_PORT, "opaque", "all-unauthenticated"));
    server(&mesh, LENO, ("http", HTTP_PORT, "HTTP/1", "all-unauthenticated"));
    check(&mesh, http("client"), Says::Welcome);
    check(&mesh, http("other"), Says::Status("403"));
    check(&mesh, bytes("client"), Says::Nothing);
    gateway_policy(&mesh, "another");
    check(&mesh, http("stranger"), Says::Welcome);
    check(&mesh, bytes("stranger"), Says::Welcome);
    // No rule admits a client without an identity, whatever the Servers say.
    minimum(&mesh, "all-authenticated");
    check(&mesh, http("stranger"), Says::Status("403"));
    check(&mesh, bytes("stranger"), Says::Nothing);
    check(&mesh, http("other"), Says::Welcome);
    check(&mesh, bytes("other"), Says::Welcome);
    // No access policy opens a port; a rule does.
    minimum(&mesh, "deny");
    check(&mesh, http("other"), Says::Status("403"));
    check(&mesh, bytes("other"), Says::Nothing);
    let target = json!({"kind": "Server", "group": LENO, "name": "http"});
    policy(&mesh, "one", target, json!([{"kind": "ServiceAccount", "name": "client"}]));
    check(&mesh, http("client"), Says::Welcome);
    check(&mesh, http("other"), Says::Status("403"));
}

/// Admits the client to the HTTP port of the pods with this label.
fn gateway_policy(mesh: &Mesh, app: &str) {
    let source = json!({"type": "ServiceAccount", "serviceAccount": {"name": "client"}});
    let spec = json!({
        "targetRefs": [{"group": "", "kind": "Pod", "selector": {"matchLabels": {"app": app}}}],
        "action": "ALLOW", "enforcementLevel": "Network",
        "rules": [{"sources": [source], "networkAttributes": {"ports": [HTTP_PORT]}}],
    });
    object(mesh, "gateway.networking.x-k8s.io", "XAuthorizationPolicy", "v1alpha1", "one", spec);
}

fn minimum(mesh: &Mesh, policy: &str) {
    let annotations = json!({"config.leno.dev/minimum-inbound-policy": policy});
    mesh.manifests()
        .write(&json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "annotations": annotations},
        }))
        .expect("write the namespace");
}
