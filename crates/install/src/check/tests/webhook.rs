//! A configuration of the webhook that somebody changed.

use super::*;

fn entries(facts: &mut Facts) -> &mut Vec<Value> {
    object(facts, WEBHOOK)["webhooks"].as_array_mut().unwrap()
}

#[test]
fn what_the_api_server_is_told_to_ask() {
    let facts = || well(Mode::Whole);
    check(
        facts(),
        |f| drop(entries(f).remove(1)),
        &[
            "× MutatingWebhookConfiguration/leno-injector",
            "there is no entry pods.injector",
            "leno upgrade",
        ],
    );
    let changed = |pointer: &'static str, value: Value, expected: &str| {
        let change =
            move |f: &mut Facts| *entries(f)[2].pointer_mut(pointer).unwrap() = value.clone();
        check(facts(), change, &[expected, "leno upgrade | kubectl apply -f -"]);
    };
    let differs = |field: &str| {
        format!(
            "× MutatingWebhookConfiguration/leno-injector differs from the chart: annotations.injector.leno.dev differs in {field}"
        )
    };
    changed("/rules", json!([]), &differs("rules"));
    changed("/rules/0/operations", json!(["UPDATE"]), &differs("rules"));
    changed("/namespaceSelector", json!({}), &differs("namespaceSelector"));
    changed("/objectSelector", json!({"matchLabels": {"a": "b"}}), &differs("objectSelector"));
    changed("/matchConditions/0/expression", json!("false"), &differs("matchConditions"));
    changed("/clientConfig/service/path", json!("/x"), &differs("clientConfig"));
    changed("/timeoutSeconds", json!(1), &differs("timeoutSeconds").replace('×', "‼"));
    check(
        facts(),
        |f| entries(f)[0]["matchConditions"] = json!([{"name": "never", "expression": "false"}]),
        &[
            "× MutatingWebhookConfiguration",
            "namespaces.injector.leno.dev differs in matchConditions",
        ],
    );
}

/// The Admissions Enforcer of AKS writes into every entry, whoever takes it out again.
#[test]
fn what_a_cloud_leaves_out() {
    let add = |one: Value| {
        move |f: &mut Facts| {
            for entry in entries(f) {
                let all = entry.pointer_mut("/namespaceSelector/matchExpressions").unwrap();
                all.as_array_mut().unwrap().push(one.clone());
            }
        }
    };
    let mut facts = well(Mode::Whole);
    add(json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]}))(&mut facts);
    add(json!({"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]}))(
        &mut facts,
    );
    add(json!({"key": "control-plane", "operator": "DoesNotExist"}))(&mut facts);
    assert_eq!(told(&facts), "");
    // These leave out everybody else.
    let differs = "pods.injector.leno.dev differs in namespaceSelector";
    for one in [
        json!({"key": "team", "operator": "In", "values": ["a"]}),
        json!({"key": "team", "operator": "Exists"}),
        json!({"key": "leno.dev/inject", "operator": "NotIn", "values": ["enabled"]}),
    ] {
        check(well(Mode::Whole), add(one), &["×", differs]);
    }
    check(
        well(Mode::Whole),
        |f| entries(f)[1]["namespaceSelector"]["matchLabels"] = json!({"a": "b"}),
        &["×", differs],
    );
}

#[test]
fn linkerds_injector_beside_ours() {
    let there = |f: &mut Facts| drop(f.objects.insert(LINKERD, json!({})));
    let labelled = |f: &mut Facts| f.linkerds = vec![json!({"metadata": {"name": "edge"}})];
    let hint = "--set injector.linkerdAnnotations=false";
    check(
        well(Mode::Whole),
        there,
        &["× linkerd's injector is in this cluster", "leno upgrade", hint],
    );
    check(well(Mode::Whole), labelled, &["×", "MutatingWebhookConfiguration edge", hint]);
    check(before(), labelled, &["‼ linkerd's injector is in this cluster", "leno install", hint]);
    let hidden = |f: &mut Facts| drop(f.unread.insert(LINKERDS.into(), "forbidden".into()));
    let unknown =
        "‼ not checked: mutatingwebhookconfigurations of linkerd cannot be read: forbidden";
    check(well(Mode::Whole), hidden, &[unknown]);
    check(before(), hidden, &[unknown]);
    // Each injects its own, and a namespace of linkerd's is not ours to look after.
    let mut apart = well(Mode::Whole);
    there(&mut apart);
    object(&mut apart, CONFIG)["data"]["linkerd-annotations"] = "false".into();
    let conditions = entries(&mut apart)[2].pointer_mut("/matchConditions/0/expression").unwrap();
    *conditions = conditions.as_str().unwrap().replace(", 'linkerd.io/inject'", "").into();
    apart.namespaces[1]["metadata"]["annotations"] = json!({"linkerd.io/inject": "enabled"});
    assert_eq!(told(&apart), "");
    object(&mut apart, CONFIG)["data"]["linkerd-annotations"] = "true".into();
    let told = told(&apart);
    assert!(told.contains("differs in matchConditions"), "{told}");
    assert!(told.contains("without a proxy: other/db-1"), "{told}");
}

/// The commonest fault of an installation: nothing is wrong with it, and the API server cannot get there.
#[test]
fn a_pod_on_trial() {
    let refused = |why: &'static str| move |f: &mut Facts| f.trial = Some(Err(why.into()));
    let mode = || well(Mode::Whole);
    check(
        mode(),
        |f| f.trial = Some(Ok(json!({"spec": {"containers": [{"name": "none"}]}}))),
        &["× the API server would create it without a proxy"],
    );
    check(
        mode(),
        refused(
            "Internal error occurred: failed calling webhook \"pods.injector.leno.dev\": context deadline exceeded",
        ),
        &["× the API server cannot reach the webhook: Internal error", "port 8443", "firewalls"],
    );
    check(
        mode(),
        refused("failed calling webhook \"policies.example.org\": context deadline exceeded"),
        &["‼ not checked: the API server rejected the test pod: failed calling webhook", "use -n"],
    );
    let mut secure = mode();
    refused(
        "pods \"leno-check-x\" is forbidden: violates PodSecurity \"baseline:latest\": non-default capabilities (container \"leno-init\")",
    )(&mut secure);
    assert_eq!(told(&secure), "");
}

#[test]
fn what_is_no_difference() {
    let mut facts = well(Mode::Whole);
    let all = entries(&mut facts);
    // As the API server fills in, in another order, and the leader's own entry; one that is not ours.
    all[0]["matchConditions"] = json!([]);
    all[1]["namespaceSelector"]["matchExpressions"][0]["values"].as_array_mut().unwrap().reverse();
    let mut annotated = all[0].clone();
    annotated["name"] = "annotated-namespaces.injector.leno.dev".into();
    annotated["namespaceSelector"] = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["old"]},
    ]});
    all.insert(0, annotated);
    assert_eq!(told(&facts), "");
    entries(&mut facts)[0]["rules"] = json!([]);
    let seen = "annotated-namespaces.injector.leno.dev differs in rules";
    assert!(told(&facts).contains(seen), "{}", told(&facts));
    // The chart of another version may say otherwise.
    object(&mut facts, CONFIG)["data"]["version"] = "0.9.0".into();
    let told = told(&facts);
    assert!(told.contains("it may come from version 0.9.0") && !told.contains('×'), "{told}");
}
