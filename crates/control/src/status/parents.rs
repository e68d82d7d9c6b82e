//! `status.parents` of a route: ours as the verdict has it, others' as they are; pure.

use crate::world::policy::ObjectVerdict;
use crate::world::route::verdict::{Condition, OnParent, Verdict};
use serde_json::{Value, json};

/// Who we are in a status.
pub const CONTROLLER: &str = "leno.dev/mesh";
/// The Gateway API's kinds take conditions of others with a prefix.
const APPLIED_OF_ROUTE: &str = "leno.dev/Applied";
/// What the Gateway API allows in `status.ancestors`.
const ANCESTORS_MAX: usize = 16;

/// The entries that the route should have, where they are not those that it has. `now` is in RFC 3339.
#[must_use]
pub fn next(
    route: &Value,
    (verdict, applied): (&Verdict, Option<&Condition>),
    now: &str,
) -> Option<Vec<Value>> {
    // Of another generation, or made anew: the route is not the one that was judged, and the next verdict is under way.
    let metadata = &route["metadata"];
    let other_generation =
        verdict.generation.is_some() && metadata["generation"].as_i64() != verdict.generation;
    let other_route = verdict.uid.is_some() && metadata["uid"].as_str() != verdict.uid.as_deref();
    if other_generation || other_route {
        return None;
    }
    let empty = Vec::new();
    let before = route["status"]["parents"].as_array().unwrap_or(&empty);
    let is_ours = |entry: &&Value| entry["controllerName"] == CONTROLLER;
    let mut next: Vec<Value> = before.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    for on in &verdict.parents {
        let Some(parent) = route["spec"]["parentRefs"].get(on.parent) else { continue };
        let earlier = before.iter().filter(is_ours).find(|entry| entry["parentRef"] == *parent);
        next.push(json!({
            "parentRef": parent,
            "controllerName": CONTROLLER,
            "conditions": conditions((on, applied), (earlier, verdict.generation.unwrap_or(0), now)),
        }));
    }
    let same = next.len() == before.len() && next.iter().all(|entry| before.contains(entry));
    (!same).then_some(next)
}

/// The conditions that a policy object should have, where they are not those that it has.
#[must_use]
pub fn next_of_object(
    object: &Value,
    (verdict, applied): (&ObjectVerdict, Option<&Condition>),
    now: &str,
) -> Option<Vec<Value>> {
    if is_another(object, verdict) {
        return None;
    }
    let status = &object["status"];
    let of = (Some(status), verdict.generation.unwrap_or(0), now);
    let mut next = vec![condition("Accepted", &verdict.accepted, of)];
    if verdict.accepted.holds {
        next.extend(applied_condition("Applied", applied, of));
    }
    (status["conditions"].as_array() != Some(&next)).then_some(next)
}

/// The entries of `status.ancestors` that a policy of the Gateway API should have: for each of its targets one of ours. Others' entries
/// stay. `None` where these are the entries that it has.
#[must_use]
pub fn next_ancestors(object: &Value, verdict: &ObjectVerdict, now: &str) -> Option<Vec<Value>> {
    if is_another(object, verdict) {
        return None;
    }
    let empty = Vec::new();
    let before = object["status"]["ancestors"].as_array().unwrap_or(&empty);
    let is_ours = |entry: &&Value| entry["controllerName"] == CONTROLLER;
    let mut next: Vec<Value> = before.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    for target in object["spec"]["targetRefs"].as_array().into_iter().flatten() {
        let namespace = &object["metadata"]["namespace"];
        let ancestor = match target["kind"].as_str() {
            // Pods are selected by labels, and an ancestor needs a name.
            Some("Pod") => json!({"group": "", "kind": "Namespace", "name": namespace}),
            _ => json!({
                "group": target["group"], "kind": target["kind"], "name": target["name"],
                "namespace": namespace,
            }),
        };
        let earlier = before.iter().filter(is_ours).find(|entry| entry["ancestorRef"] == ancestor);
        let of = (earlier, verdict.generation.unwrap_or(0), now);
        if next.iter().filter(is_ours).any(|entry| entry["ancestorRef"] == ancestor) {
            continue;
        }
        next.push(json!({
            "ancestorRef": ancestor,
            "controllerName": CONTROLLER,
            "conditions": [condition("Accepted", &verdict.accepted, of)],
        }));
    }
    next.truncate(ANCESTORS_MAX);
    (*before != next).then_some(next)
}

/// Of another generation, or made anew: it is not the object that was judged.
fn is_another(object: &Value, verdict: &ObjectVerdict) -> bool {
    let metadata = &object["metadata"];
    let other_generation =
        verdict.generation.is_some() && metadata["generation"].as_i64() != verdict.generation;
    other_generation || verdict.uid.is_some() && metadata["uid"].as_str() != verdict.uid.as_deref()
}

/// One condition; `earlier` is the status that has had it before.
fn condition(
    of_type: &str,
    condition: &Condition,
    (earlier, generation, now): (Option<&Value>, i64, &str),
) -> Value {
    let status = if condition.holds { "True" } else { "False" };
    let before = earlier
        .and_then(|entry| entry["conditions"].as_array())
        .and_then(|all| all.iter().find(|before| before["type"] == of_type))
        .filter(|before| before["status"] == status);
    json!({
        "type": of_type,
        "status": status,
        "reason": condition.reason,
        // The API server takes no more.
        "message": condition.message.chars().take(32_768).collect::<String>(),
        "observedGeneration": generation,
        "lastTransitionTime": before.map_or(json!(now), |b| b["lastTransitionTime"].clone()),
    })
}

/// The condition of the proxies. While they are told of a generation, it is what another leader has said of the same generation.
fn applied_condition(
    of_type: &str,
    applied: Option<&Condition>,
    of: (Option<&Value>, i64, &str),
) -> Option<Value> {
    let (earlier, generation, _) = of;
    if let Some(applied) = applied {
        return Some(condition(of_type, applied, of));
    }
    let all = earlier.and_then(|entry| entry["conditions"].as_array())?;
    let known = all.iter().find(|before| before["type"] == of_type);
    known.filter(|known| known["observedGeneration"] == generation).cloned()
}

fn conditions(
    (on, applied): (&OnParent, Option<&Condition>),
    of: (Option<&Value>, i64, &str),
) -> Vec<Value> {
    let one = |of_type: &str, one: &Condition| condition(of_type, one, of);
    let mut all = vec![one("Accepted", &on.accepted), one("ResolvedRefs", &on.resolved)];
    all.extend(on.partly.as_ref().map(|partly| one("PartiallyInvalid", partly)));
    if on.accepted.holds {
        all.extend(applied_condition(APPLIED_OF_ROUTE, applied, of));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::kubernetes::tests::by_events;
    use crate::world::{MeshNames, World};

    const THEN: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-02-02T00:00:00Z";

    /// A route on Service `web`, on a Gateway, and more.
    fn route(parents: &str, backend: &str) -> String {
        format!(
            "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: r, namespace: a, generation: 3}}
spec:
  parentRefs: [{{name: outside}}, {parents}]
  rules: [{{backendRefs: [{backend}]}}]
"
        )
    }

    const WEB: &str = "---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: a}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: pods, namespace: a}
spec: {clusterIP: None, clusterIPs: [None], ports: [{name: http, port: 80}]}
";

    fn verdict(route: &str) -> (Value, Verdict) {
        let world = World::build(&by_events(&format!("{WEB}{route}")), &MeshNames::default(), 1);
        let value = serde_saphyr::from_str(route.trim_start_matches("---\n")).unwrap();
        (value, world.verdicts()[0].clone())
    }

    /// Entries as `parent: type=status reason, …`.
    fn shown(parents: &[Value]) -> String {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let entry = |entry: &Value| {
            let all = entry["conditions"].as_array().unwrap();
            let one = |c: &Value| {
                format!("{}={} {}", text(&c["type"]), text(&c["status"]), text(&c["reason"]))
            };
            let all: Vec<_> = all.iter().map(one).collect();
            format!("{}: {}", text(&entry["parentRef"]["name"]), all.join(", "))
        };
        parents.iter().map(entry).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn conditions_say_what_became_of_a_route() {
        let check = |parents: &str, backend: &str, expected: &str| {
            let (value, verdict) = verdict(&route(parents, backend));
            assert_eq!(
                shown(&next(&value, (&verdict, None), NOW).unwrap()),
                expected,
                "{parents} {backend}"
            );
        };
        let on =
            |name: &str, more: &str| format!("{{group: '', kind: Service, name: {name}{more}}}");
        let good = "{name: web, port: 80}";
        let accepted = "Accepted=True Accepted, ResolvedRefs";
        let both = format!("web: {accepted}=True ResolvedRefs");
        check(&on("web", ""), good, &both);
        check(&on("web", ", port: 80"), good, &both);
        check(&on("web", ", sectionName: http"), good, &both);
        let missing = "Accepted=False NoMatchingParent, ResolvedRefs=True ResolvedRefs";
        check(&on("web", ", port: 81"), good, &format!("web: {missing}"));
        check(&on("nobody", ""), good, &format!("nobody: {missing}"));
        // A headless Service: its clients connect to pod addresses.
        check(&on("pods", ""), good, &format!("pods: {missing}"));
        check(&on("web", ""), "{name: pods, port: 80}", &both);
        let unresolved = |reason: &str| format!("web: {accepted}=False {reason}");
        check(&on("web", ""), "{name: nobody, port: 80}", &unresolved("BackendNotFound"));
        check(&on("web", ""), "{name: web, port: 81}", &unresolved("BackendNotFound"));
        check(&on("web", ""), "{kind: Other, group: g, name: web}", &unresolved("InvalidKind"));
        let foreign = "{name: web, namespace: b, port: 80}";
        check(&on("web", ""), foreign, &unresolved("RefNotPermitted"));
        let mirrored = |to: &str| {
            format!(
                "{good}], filters: [{{type: RequestMirror, requestMirror: {{backendRef: {{name: {to}, port: 80}}}}}}"
            )
        };
        check(&on("web", ""), &mirrored("web"), &both);
        check(&on("web", ""), &mirrored("nobody"), &unresolved("BackendNotFound"));
        let partly = "PartiallyInvalid=True UnsupportedValue";
        // Words that a newer Gateway API may have, and matches that are none of ours.
        let unsupported = "web: Accepted=False UnsupportedValue, ResolvedRefs=True ResolvedRefs";
        let with = |more: &str| format!("{good}], {more}");
        check(&on("web", ""), &with("filters: [{type: Later}"), unsupported);
        check(&on("web", ""), &with("matches: [{path: {type: Later, value: /}}"), unsupported);
        let ahead = "matches: [{path: {type: RegularExpression, value: '/(?!a)'}}";
        check(&on("web", ""), &with(ahead), unsupported);
        let later = with("filters: [{type: Later}]}, {backendRefs: [{name: web, port: 80}");
        check(&on("web", ""), &later, &format!("{both}, {partly}"));
        check(&on("web", ""), &with("retry: {attempts: 2}, matches: ["), &both);
        // A GRPCRoute may come without any rule.
        let (mut value, _) = verdict(&route(&on("web", ""), good));
        value["kind"] = json!("GRPCRoute");
        value["spec"].as_object_mut().unwrap().remove("rules");
        let text = format!("---\n{}\n", serde_json::to_string(&value).unwrap());
        let (value, verdict) = self::verdict(&text);
        assert_eq!(shown(&next(&value, (&verdict, None), NOW).unwrap()), unsupported);
    }

    #[test]
    fn a_policy_has_an_entry_for_each_target() {
        let text = "---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: p, namespace: a, generation: 3}
spec:
  targetRefs: [{group: '', kind: Service, name: web}, {group: '', kind: Service, name: pods}]
  retryConstraint: {budget: {percent: 200}}
";
        let world = World::build(&by_events(&format!("{WEB}{text}")), &MeshNames::default(), 1);
        let verdict = world.object_verdicts().next().unwrap();
        let mut value: Value = serde_saphyr::from_str(text.trim_start_matches("---\n")).unwrap();
        let theirs = json!({"controllerName": "example.com/other", "ancestorRef": {"name": "g"}});
        value["status"] = json!({"ancestors": [theirs.clone()]});
        let next = next_ancestors(&value, verdict, NOW).unwrap();
        assert_eq!((next.len(), &next[0]), (3, &theirs));
        let (of, accepted) = (&next[2]["ancestorRef"], &next[2]["conditions"][0]);
        assert_eq!(*of, json!({"group": "", "kind": "Service", "name": "pods", "namespace": "a"}));
        assert_eq!(
            (&accepted["status"], &accepted["reason"]),
            (&json!("False"), &json!("Invalid"))
        );
        value["status"] = json!({"ancestors": next});
        assert_eq!(next_ancestors(&value, verdict, THEN), None);
        value["metadata"]["generation"] = json!(4);
        assert_eq!(next_ancestors(&value, verdict, THEN), None);
    }

    /// Pods are selected by labels, so that the ancestor is their namespace.
    #[test]
    fn a_policy_of_pods_has_an_entry_for_its_namespace() {
        let text = "---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XAuthorizationPolicy
metadata: {name: p, namespace: a, generation: 3}
spec:
  targetRefs: [{group: '', kind: Pod, selector: {}}, {group: '', kind: Pod, selector: {}}]
  action: ALLOW
  enforcementLevel: Network
";
        let world = World::build(&by_events(text), &MeshNames::default(), 1);
        let verdict = world.object_verdicts().next().unwrap();
        let value: Value = serde_saphyr::from_str(text.trim_start_matches("---\n")).unwrap();
        let next = next_ancestors(&value, verdict, NOW).unwrap();
        assert_eq!(next.len(), 1);
        assert_eq!(next[0]["ancestorRef"], json!({"group": "", "kind": "Namespace", "name": "a"}));
        let accepted = &next[0]["conditions"][0];
        assert_eq!(
            (&accepted["status"], &accepted["reason"]),
            (&json!("False"), &json!("Invalid"))
        );
    }

    /// What proxies have applied stands beside the other conditions, and a new leader keeps it until it knows better.
    #[test]
    fn what_is_applied_is_of_its_generation() {
        let (mut value, verdict) =
            verdict(&route("{group: '', kind: Service, name: web}", "{name: web, port: 80}"));
        let message = "2 of 2 proxies".to_owned();
        let applied = Condition { holds: true, reason: "Acknowledged", message };
        let first = next(&value, (&verdict, Some(&applied)), THEN).unwrap();
        let condition = first[0]["conditions"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&condition["type"], &condition["status"], &condition["message"]),
            (&json!("leno.dev/Applied"), &json!("True"), &json!("2 of 2 proxies"))
        );
        value["status"] = json!({"parents": first});
        assert_eq!(next(&value, (&verdict, Some(&applied)), NOW), None);
        assert_eq!(next(&value, (&verdict, None), NOW), None);
        // Of a new generation nothing is known.
        value["metadata"]["generation"] = json!(4);
        let newer = Verdict { generation: Some(4), ..verdict };
        let next = next(&value, (&newer, None), NOW).unwrap();
        assert_eq!(next[0]["conditions"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn others_entries_stay_and_what_is_right_is_not_written() {
        let (mut value, verdict) =
            verdict(&route("{group: '', kind: Service, name: web}", "{name: web, port: 80}"));
        let theirs = json!({"controllerName": "example.com/other", "parentRef": {"name": "outside"}, "conditions": []});
        let stale =
            json!({"controllerName": CONTROLLER, "parentRef": {"name": "gone"}, "conditions": []});
        value["status"] = json!({"parents": [theirs.clone(), stale]});
        let first = next(&value, (&verdict, None), THEN).unwrap();
        assert_eq!((first.len(), &first[0]), (2, &theirs));
        assert_eq!(first[1]["conditions"][0]["observedGeneration"], 3);
        value["status"] = json!({"parents": first});
        assert_eq!(next(&value, (&verdict, None), NOW), None);
        // A condition keeps the time since which it is so.
        let mut worse = verdict.clone();
        worse.parents[0].resolved =
            Condition { holds: false, reason: "BackendNotFound", message: "m".to_owned() };
        let second = next(&value, (&worse, None), NOW).unwrap();
        let times: Vec<_> = second[1]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| &c["lastTransitionTime"])
            .collect();
        assert_eq!(times, [&json!(THEN), &json!(NOW)]);
        // Of a route that changed meanwhile nothing is known.
        value["metadata"]["generation"] = json!(4);
        assert_eq!(next(&value, (&worse, None), NOW), None);
        // Nor of one that was made anew meanwhile, and has the same generation as the first.
        value["metadata"]["generation"] = json!(3);
        assert!(next(&value, (&worse, None), NOW).is_some());
        let of_another = Verdict { uid: Some("1".to_owned()), ..worse };
        assert_eq!(next(&value, (&of_another, None), NOW), None);
    }
}
