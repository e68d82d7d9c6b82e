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
            "× MutatingWebhookConfiguration/leno-injector is not as the chart makes it: annotations.injector.leno.dev differs in {field}"
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
    assert!(told.contains("it may be as version 0.9.0 made it") && !told.contains('×'), "{told}");
}
