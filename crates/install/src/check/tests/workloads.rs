//! Workloads whose pods are refused, so that there is no pod to look at.

use super::*;

const BASELINE: &str = "pods \"web\" is forbidden: violates PodSecurity \"baseline:latest\": non-default\n capabilities";

fn failing(message: &str) -> Value {
    let mut set = workload("ReplicaSet", "shop", "api-7c", 0);
    set["metadata"]["ownerReferences"] =
        json!([{"kind": "Deployment", "name": "api", "controller": true}]);
    set["status"]["conditions"] = json!([
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message},
    ]);
    set
}

#[test]
fn pods_that_are_refused() {
    let facts = || well(Mode::Whole);
    let add = |one: Value| move |f: &mut Facts| f.workloads.push(one.clone());
    check(
        facts(),
        add(failing(BASELINE)),
        &[
            "× refused: deployment shop/api: pods",
            "baseline:latest\": non-default capabilities",
            "enforce=privileged",
        ],
    );
    let denied = "admission webhook \"namespaces.injector.leno.dev\" denied the request: it uses the node's network";
    check(
        facts(),
        add(failing(denied)),
        &["× refused: deployment shop/api: admission", "correct the reason"],
    );
    let away = "failed calling webhook \"namespaces.injector.leno.dev\": connection refused";
    check(
        facts(),
        add(failing(away)),
        &["× refused: deployment shop/api", "does not reach the webhook"],
    );
    let passes = |message: &str| {
        let mut facts = facts();
        add(failing(message))(&mut facts);
        may_pass(&run(&facts))
    };
    assert!(passes(away) && !passes(denied) && !passes(BASELINE));
    check(
        facts(),
        add(failing("exceeded quota")),
        &["‼ refused: deployment shop/api: exceeded quota"],
    );
    // The others say it in Events alone.
    for kind in ["StatefulSet", "DaemonSet", "Job"] {
        let refused = |f: &mut Facts| {
            f.workloads.push(workload(kind, "shop", "db", 0));
            let about = json!({"kind": kind, "namespace": "shop", "name": "db", "uid": "db"});
            f.events = vec![
                json!({"involvedObject": about, "lastTimestamp": rfc3339(NOW - 9), "message": denied}),
                json!({"involvedObject": about, "lastTimestamp": rfc3339(NOW - 99), "message": "older"}),
            ];
        };
        let seen = format!("× refused: {} shop/db: admission webhook", kind.to_lowercase());
        check(facts(), refused, &[&seen]);
        // All are there since.
        let mut well_again = facts();
        refused(&mut well_again);
        well_again.workloads.pop();
        well_again.workloads.push(workload(kind, "shop", "db", 1));
        assert_eq!(told(&well_again), "", "{kind}");
    }
}

#[test]
fn workloads_of_others() {
    let mut outside = failing(BASELINE);
    outside["metadata"]["namespace"] = "other".into();
    let mut disabled = failing(BASELINE);
    disabled["spec"]["template"]["metadata"]["labels"]["leno.dev/inject"] = "disabled".into();
    let mut facts = well(Mode::Whole);
    facts.workloads.extend([outside.clone(), disabled]);
    assert_eq!(told(&facts), "");
    // One that wishes it by itself, or has a proxy in its template.
    let template = |change: fn(&mut Value)| {
        let mut one = outside.clone();
        change(&mut one["spec"]["template"]);
        move |f: &mut Facts| f.workloads.push(one.clone())
    };
    let seen = ["× refused: deployment other/api"];
    let labelled =
        |template: &mut Value| template["metadata"]["labels"]["leno.dev/inject"] = "enabled".into();
    check(well(Mode::Whole), template(labelled), &seen);
    let injected =
        |template: &mut Value| template["spec"]["initContainers"] = json!([{"name": "leno-proxy"}]);
    check(well(Mode::Whole), template(injected), &seen);
}

#[test]
fn standards() {
    let enforce = |at: usize, word: &'static str| {
        move |f: &mut Facts| {
            f.namespaces[at]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] =
                word.into();
        }
    };
    for word in ["baseline", "restricted"] {
        let seen = format!("‼ Pod Security rejects pods with a proxy: shop enforces {word}");
        let to_do = "label namespace shop pod-security.kubernetes.io/enforce=privileged";
        check(well(Mode::Whole), enforce(0, word), &[&seen, to_do]);
    }
    for (at, word) in [(0, "privileged"), (1, "baseline"), (2, "restricted")] {
        let mut facts = well(Mode::Whole);
        enforce(at, word)(&mut facts);
        assert_eq!(told(&facts), "");
    }
}
