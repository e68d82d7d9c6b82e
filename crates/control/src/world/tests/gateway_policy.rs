//! Mistakes in an XAuthorizationPolicy, by its fields. Its verdicts are rows of `leno_testkit::policy`.

use super::{check_problems, manifests, world};
use serde_json::{Value, json};

const OPEN: &str = "allow all-unauthenticated";

/// A policy for pod `web` that admits account `a`; `change` alters its spec.
fn policy(change: impl FnOnce(&mut Value)) -> String {
    let mut object = json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1", "kind": "XAuthorizationPolicy",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Pod", "selector": {"matchLabels": {"app": "web"}}}],
            "action": "ALLOW", "enforcementLevel": "Network",
            "rules": [{"sources": [{"type": "ServiceAccount", "serviceAccount": {"name": "a"}}]}],
        },
    });
    change(&mut object["spec"]);
    format!("{}---\n{object}\n", manifests(&[]))
}

const NOTE: &str = "XAuthorizationPolicy shop/p: kind: XAuthorizationPolicy is experimental";

/// The verdict on account `a` at port 8080, and what is said of the object besides that it is experimental.
#[track_caller]
fn wrong(change: impl FnOnce(&mut Value), verdict: &str, expected: &[&str]) {
    let world = world(&policy(change));
    let said: Vec<String> =
        expected.iter().map(|said| format!("XAuthorizationPolicy shop/p: {said}")).collect();
    let said: Vec<&str> = std::iter::once(NOTE).chain(said.iter().map(String::as_str)).collect();
    check_problems(&world, &said);
    assert_eq!(super::policy::verdict(&world, "a", "8080"), verdict, "{expected:?}");
    assert_eq!(super::policy::verdict(&world, "b", "8080") == OPEN, verdict == OPEN);
}

/// Another value of a field of `spec`.
fn at(field: &'static str, value: Value) -> impl FnOnce(&mut Value) {
    move |spec| spec[field] = value
}

/// Each mistake names the field and the value, and admits no client more. Pods that are selected stay closed.
#[test]
fn mistakes() {
    wrong(|_| {}, "allow p", &[]);
    wrong(
        at("action", json!("DENY")),
        "deny",
        &["spec.action: \"DENY\" is not ALLOW; the policy admits no client"],
    );
    wrong(at("action", Value::Null), "deny", &["spec.action: missing; the only value is ALLOW"]);
    wrong(
        at("enforcementLevel", json!("Application")),
        "deny",
        &["spec.enforcementLevel: \"Application\" is not Network"],
    );
    wrong(
        at("requestRules", json!([])),
        "deny",
        &["spec.requestRules: unknown field; the policy admits no client"],
    );
    wrong(at("rules", json!([])), "deny", &["spec.rules: there is no rule"]);
    wrong(at("rules", Value::Null), "deny", &["spec.rules: there is no rule"]);
    wrong(at("rules", json!("all")), "deny", &["spec.rules: \"all\" is not a list"]);
    wrong(at("rules", json!([5])), "deny", &["spec.rules[0]: "]);
    wrong(at("rules", json!([{"sources": "x"}])), "deny", &["spec.rules[0].sources: "]);
    wrong(at("rules", json!([{"sources": []}])), "deny", &["spec.rules[0].sources: an empty list"]);
    wrong(
        at("rules", json!([{"paths": ["/"]}])),
        "deny",
        &["spec.rules[0].paths: unknown field; the rule admits no client"],
    );
    wrong(
        |spec| spec["rules"][0]["networkAttributes"] = json!({"protocols": []}),
        "deny",
        &["spec.rules[0].networkAttributes.protocols: unknown field"],
    );
    wrong(
        |spec| spec["rules"].as_array_mut().unwrap().push(json!({"x": 1})),
        "allow p",
        &["spec.rules[1].x: unknown field"],
    );
}

#[test]
fn mistakes_in_sources() {
    let first = |value: Value| move |spec: &mut Value| spec["rules"][0]["sources"][0] = value;
    let other = json!({"type": "ServiceAccount", "serviceAccount": {"name": "a"}});
    let with_other = |value: Value| {
        let sources = json!([value, other]);
        move |spec: &mut Value| spec["rules"][0]["sources"] = sources
    };
    wrong(
        first(json!({"type": "IPBlock"})),
        "deny",
        &["spec.rules[0].sources[0].type: \"IPBlock\" is not one of ServiceAccount, SPIFFE"],
    );
    wrong(first(json!({})), "deny", &["spec.rules[0].sources[0].type: missing"]);
    wrong(first(json!({"type": "SPIFFE"})), "deny", &["spec.rules[0].sources[0].spiffe: missing"]);
    wrong(
        first(json!({"type": "ServiceAccount"})),
        "deny",
        &["spec.rules[0].sources[0].serviceAccount: missing"],
    );
    wrong(
        first(json!({"type": "SPIFFE", "spiffe": "spiffe://x/y", "serviceAccount": {"name": "a"}})),
        "deny",
        &["spec.rules[0].sources[0].serviceAccount: not valid with type SPIFFE"],
    );
    wrong(
        with_other(json!({"type": "SPIFFE", "spiffe": "http://x"})),
        "allow p",
        &["spec.rules[0].sources[0].spiffe: \"http://x\" is not a SPIFFE ID: "],
    );
    wrong(
        with_other(json!({"type": "SPIFFE", "spiffe": "spiffe://td/ns/*"})),
        "allow p",
        &["spec.rules[0].sources[0].spiffe: \"spiffe://td/ns/*\" is not a SPIFFE ID: "],
    );
    wrong(
        with_other(json!({"type": "ServiceAccount", "serviceAccount": {"name": "ghost"}})),
        "allow p",
        &["spec.rules[0].sources[0].serviceAccount: ServiceAccount shop/ghost does not exist"],
    );
    wrong(
        with_other(
            json!({"type": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "none"}}),
        ),
        "allow p",
        &["spec.rules[0].sources[0].serviceAccount.namespace: Namespace none does not exist"],
    );
    wrong(
        with_other(
            json!({"type": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "a/b"}}),
        ),
        "allow p",
        &["spec.rules[0].sources[0].serviceAccount.namespace: "],
    );
}

#[test]
fn mistakes_in_ports() {
    let ports = |value: Value| {
        move |spec: &mut Value| spec["rules"][0]["networkAttributes"] = json!({"ports": value})
    };
    wrong(
        ports(json!([0, 8080, 65536])),
        "allow p",
        &[
            "spec.rules[0].networkAttributes.ports[0]: 0 is not a port",
            "spec.rules[0].networkAttributes.ports[2]: 65536 is not a port",
        ],
    );
    wrong(
        ports(json!([-1])),
        "deny",
        &["spec.rules[0].networkAttributes.ports[0]: -1 is not a port"],
    );
    wrong(ports(json!([])), "deny", &["spec.rules[0].networkAttributes.ports: names no port"]);
    wrong(ports(json!(["8000-9000"])), "deny", &["spec.rules[0].networkAttributes.ports[0]: "]);
    wrong(
        ports(json!(vec![8080; 129])),
        "allow p",
        &["spec.rules[0].networkAttributes.ports: 129 ports; only the first 128"],
    );
}

#[test]
fn mistakes_in_targets() {
    let pods = |selector: Value| json!({"group": "", "kind": "Pod", "selector": selector});
    wrong(
        at("targetRefs", json!([])),
        OPEN,
        &["spec.targetRefs: missing; the policy selects no pod"],
    );
    wrong(
        at("targetRefs", json!([{"group": "", "kind": "Service", "name": "web"}])),
        OPEN,
        &["spec.targetRefs[0].kind: \"Service\" is not Pod of the core group"],
    );
    wrong(
        at("targetRefs", json!([{"group": "", "kind": "Pod"}])),
        OPEN,
        &["spec.targetRefs[0].selector: missing"],
    );
    wrong(
        at("targetRefs", json!([{"kind": "Pod", "name": "web", "selector": {}}])),
        "allow p",
        &["spec.targetRefs[0].name: pods are selected by labels"],
    );
    wrong(
        at("targetRefs", json!([pods(json!({"matchLabels": {"app": "x"}})), pods(json!({}))])),
        "allow p",
        &["spec.targetRefs: 2 is more than the 1 target"],
    );
    wrong(
        at("targetRefs", json!([pods(json!({"matchExpression": []}))])),
        "allow p",
        &["spec.targetRefs[0].selector.matchExpression: unknown field"],
    );
    wrong(
        at(
            "targetRefs",
            json!([pods(json!({"matchExpressions": [{"key": "app", "operator": "Like"}]}))]),
        ),
        "allow p",
        &["spec.targetRefs[0].selector.matchExpressions[0].operator: \"Like\" is not one of In"],
    );
    wrong(
        at(
            "targetRefs",
            json!([pods(
                json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]})
            )]),
        ),
        "allow p",
        &[],
    );
}

/// The condition names the first mistake; a note leaves the object accepted.
#[test]
fn conditions() {
    let accepted = |text: &str| {
        let world = world(text);
        let verdict = world.object_verdicts().find(|verdict| &*verdict.key.name == "p").unwrap();
        (verdict.accepted.holds, verdict.accepted.reason, verdict.accepted.message.clone())
    };
    assert!(accepted(&policy(|_| {})).0);
    let (holds, reason, message) = accepted(&policy(|spec| spec["action"] = json!("AUDIT")));
    assert_eq!((holds, reason), (false, "Invalid"));
    assert_eq!(message, "spec.action: \"AUDIT\" is not ALLOW; the policy admits no client");
    let many = |spec: &mut Value| {
        let rule = spec["rules"][0].clone();
        spec["rules"] = vec![rule; 1_001].into();
    };
    let (holds, reason, message) = accepted(&policy(many));
    assert_eq!((holds, reason), (false, "TooMany"));
    assert!(
        message.starts_with(
            "spec.rules[1000]: the XAuthorizationPolicies of its namespace have 1000 rules"
        ),
        "{message}"
    );
}
