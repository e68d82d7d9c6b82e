//! Routes on Services, and what the control plane says of them.

use crate::ground::place::{Place, READY_WAIT};
use leno_tests::wait::until;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// What good routes are told.
pub(crate) const GOOD: &str = "Accepted=True Accepted, ResolvedRefs=True ResolvedRefs";

/// A route of this kind on a Service.
pub(crate) fn route(kind: &str, name: &str, parent: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "parentRefs": [{"group": "", "kind": "Service", "name": parent, "port": 80}],
            "rules": rules,
        },
    })
}

/// A rule that sends everything to port 80 of a Service.
pub(crate) fn to(backend: &str) -> Value {
    json!({"backendRefs": [{"name": backend, "port": 80}]})
}

/// Until the route's status says so, of the route as it is now.
pub(crate) fn told(place: &Place, kind: &str, name: &str, expected: &str) {
    let mut last = String::new();
    until(&format!("{kind} {name} is told {expected:?}"), READY_WAIT, || {
        sleep(Duration::from_millis(300));
        let now = said(&place.json(&["get", kind, name]).ok()?);
        if now != last {
            println!("{kind} {name}: {now}");
            last.clone_from(&now);
        }
        (now == expected).then_some(())
    });
}

/// Our conditions but those about proxies, as `TYPE=STATUS REASON, …`; those of an older generation are none.
fn said(route: &Value) -> String {
    let parents = route["status"]["parents"].as_array().into_iter().flatten();
    let ours = parents.filter(|parent| parent["controllerName"] == "leno.dev/mesh");
    let of_parents = ours.filter_map(|parent| parent["conditions"].as_array());
    let conditions = of_parents.chain(route["status"]["conditions"].as_array()).flatten();
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let one = |condition: &Value| {
        let [kind, status, reason] =
            ["type", "status", "reason"].map(|field| text(&condition[field]));
        let is_current = condition["observedGeneration"] == route["metadata"]["generation"];
        let is_about_proxies = kind.ends_with("Applied");
        (is_current && !is_about_proxies).then(|| format!("{kind}={status} {reason}"))
    };
    conditions.filter_map(one).collect::<Vec<_>>().join(", ")
}

/// Until all proxies that use the object have acknowledged it as it is now, and there is one at least.
pub(crate) fn acknowledged(place: &Place, kind: &str, name: &str) {
    let mut last = Value::Null;
    until(&format!("{kind} {name} is acknowledged"), READY_WAIT, || {
        sleep(Duration::from_millis(300));
        let object = place.json(&["get", kind, name]).ok()?;
        let of_parents = object["status"]["parents"].as_array().into_iter().flatten();
        let of_parents = of_parents.filter_map(|parent| parent["conditions"].as_array());
        let conditions = of_parents.chain(object["status"]["conditions"].as_array()).flatten();
        let is_it = |condition: &&Value| {
            matches!(condition["type"].as_str(), Some("Applied" | "leno.dev/Applied"))
                && condition["observedGeneration"] == object["metadata"]["generation"]
        };
        let condition = conditions.clone().find(is_it)?;
        if *condition != last {
            println!("{kind} {name}: {condition}");
            last.clone_from(condition);
        }
        let (count, _) = condition["message"].as_str()?.split_once(" proxies")?;
        let (applied, total) = count.split_once(" of ")?;
        (condition["status"] == "True" && applied == total && total != "0").then_some(())
    });
}

/// Until there is an Event about the object with this word in it.
pub(crate) fn event(place: &Place, kind: &str, name: &str, word: &str) -> String {
    until(&format!("an event of {kind} {name} with {word:?}"), READY_WAIT, || {
        sleep(Duration::from_millis(300));
        let list = place.json(&["get", "events.events.k8s.io"]).ok()?;
        let events = list["items"].as_array()?;
        let about = events.iter().filter(|event| {
            let of = &event["regarding"];
            of["kind"] == kind && of["name"] == name && event["reason"] == "NotServedAsWritten"
        });
        let mut notes = about.filter_map(|event| event["note"].as_str());
        notes.find(|note| note.contains(word)).map(str::to_owned)
    })
}
