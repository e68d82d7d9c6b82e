use super::*;
use serde_json::{Value, json};

/// A pod that is ready, with its metadata, spec and status overlaid.
fn pod(more: &Value) -> Pod {
    let mut whole = json!({
        "metadata": {"name": "web-7c9-x", "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}], "nodeName": "n1"},
        "status": {"phase": "Running", "podIP": "10.1.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "app", "ready": true, "restartCount": 2,
                "image": "", "imageID": "", "state": {"running": {}}}]},
    });
    for (part, members) in more.as_object().unwrap() {
        for (name, value) in members.as_object().unwrap() {
            whole[part][name] = value.clone();
        }
    }
    serde_json::from_value(whole).unwrap()
}

fn meshed() -> Value {
    json!({
        "spec": {"serviceAccountName": "web", "initContainers": [
            {"name": "leno-init"},
            {"name": "leno-proxy", "image": "registry:5000/leno-proxy:1.2@sha256:abc", "env": [{
                "name": "LENO_PROXY_IDENTITY",
                "value": "spiffe://td/ns/$(LENO_POD_NAMESPACE)/sa/$(LENO_POD_SERVICE_ACCOUNT)"}]}]},
        "status": {"initContainerStatuses": [{"name": "leno-proxy", "ready": true, "restartCount": 1,
            "image": "", "imageID": "", "state": {"running": {}}}]},
    })
}

#[test]
fn with_and_without_a_proxy() {
    let plain = row(&pod(&json!({})));
    assert_eq!((plain.mesh.as_str(), plain.identity.as_str()), ("none", ""));
    assert_eq!((plain.proxy.as_ref(), plain.ready, plain.restarts), (None, true, 2));
    assert!(!answers(&pod(&json!({}))));
    let meshed = pod(&meshed());
    assert!(answers(&meshed));
    let row = row(&meshed);
    assert_eq!((row.mesh.as_str(), row.identity.as_str()), ("leno", "spiffe://td/ns/shop/sa/web"));
    let proxy = row.proxy.unwrap();
    assert_eq!((proxy.version.as_str(), proxy.ready, proxy.restarts), ("1.2", true, 1));
    assert_eq!(row.restarts, 3);
    // The proxy is no container of the application.
    assert_eq!(row.containers.len(), 1);
}

#[test]
fn what_it_is_of() {
    let check = |kind: &str, owner: &str, labels: Value, expected: &str| {
        let owners = json!([{"apiVersion": "v1", "kind": kind, "name": owner, "uid": "u",
            "controller": true}]);
        let pod = pod(&json!({"metadata": {"ownerReferences": owners, "labels": labels}}));
        assert_eq!(row(&pod).workload, expected);
    };
    check("ReplicaSet", "web-7c9", json!({"pod-template-hash": "7c9"}), "deployment/web");
    check("ReplicaSet", "web", json!({}), "replicaset/web");
    check("ReplicaSet", "web", json!({"pod-template-hash": "7c9"}), "replicaset/web");
    check("StatefulSet", "db", json!({}), "statefulset/db");
    check("DaemonSet", "agent", json!({}), "daemonset/agent");
    check("Job", "once", json!({}), "job/once");
    assert_eq!(row(&pod(&json!({}))).workload, "pod/web-7c9-x");
}

#[test]
fn why_it_is_not_ready() {
    let not_ready = json!([{"type": "Ready", "status": "False", "message": "containers with unready status: [app]"}]);
    let check = |status: Value, expected: &str| {
        let mut all = json!({"conditions": not_ready});
        for (name, value) in status.as_object().unwrap() {
            all[name] = value.clone();
        }
        let row = row(&pod(&json!({"status": all})));
        assert_eq!((row.ready, row.reason.as_str()), (false, expected));
    };
    check(json!({}), "containers with unready status: [app]");
    check(json!({"reason": "Evicted", "message": "memory"}), "Evicted: memory");
    let state = |state: Value| {
        json!({"containerStatuses": [{"name": "app", "ready": false, "restartCount": 0,
            "image": "", "imageID": "", "state": state}]})
    };
    check(state(json!({"waiting": {"reason": "CrashLoopBackOff"}})), "app: CrashLoopBackOff");
    check(state(json!({"terminated": {"exitCode": 3}})), "app: ended with 3");
    let ending = pod(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let row = row(&ending);
    assert!(row.ending && !row.ready);
}

#[test]
fn addresses_of_both_families() {
    let ips =
        json!({"status": {"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}, {"ip": "10.1.0.9"}]}});
    let row = row(&pod(&ips));
    assert_eq!((row.ip.as_str(), row.ipv6.as_str()), ("10.1.0.9", "fd00::1"));
}
