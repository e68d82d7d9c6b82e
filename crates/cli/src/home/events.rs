//! Events of a cluster that are about the mesh, in the form of `leno up`'s own. Pure.
//!
//! They are those that Leno itself reports, and those that anyone reports about workloads with a proxy or about the control plane.

use super::Member;
use k8s_openapi::api::core::v1::Event as ApiEvent;
use leno_up::journal::{Event, Severity};
use std::collections::HashSet;

/// As the control plane and the injector sign their Events.
const CONTROLLER: &str = "leno.dev/mesh";
/// Label of the pods of the control plane.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "leno");
/// As many as `leno up` keeps; the newest.
const EVENTS_MAX: usize = 1_000;

/// Which workloads are of the mesh.
#[derive(Debug, Default)]
pub(super) struct OfMesh<'a>(HashSet<(&'a str, String)>);

impl<'a> OfMesh<'a> {
    pub(super) fn of(members: &'a [Member]) -> Self {
        let is_of_mesh = |member: &&Member| {
            member.meshed || member.labels.get(PART_OF.0).is_some_and(|value| value == PART_OF.1)
        };
        let names = |member: &'a Member| {
            let pod = format!("pod/{}", member.name);
            [(&*member.namespace, pod), (&*member.namespace, member.workload.clone())]
        };
        Self(members.iter().filter(is_of_mesh).flat_map(names).collect())
    }

    pub(super) fn has(&self, event: &ApiEvent) -> bool {
        if event.reporting_component.as_deref() == Some(CONTROLLER) {
            return true;
        }
        let about = &event.involved_object;
        let (kind, name) = (about.kind.as_deref(), about.name.as_deref());
        let (kind, name) = (kind.unwrap_or_default(), name.unwrap_or_default());
        let namespace = about.namespace.as_deref().unwrap_or_default();
        let is_known = |id: String| self.0.contains(&(namespace, id));
        is_known(format!("{}/{name}", kind.to_ascii_lowercase()))
            || owners(kind, name).into_iter().any(is_known)
    }
}

/// Workloads that a pod or ReplicaSet of this name may be of. The object itself may be gone.
fn owners(kind: &str, name: &str) -> Vec<String> {
    let shorter = |name: &str| name.rsplit_once('-').map(|(rest, _)| rest.to_owned());
    let set = shorter(name);
    match (kind, set) {
        ("ReplicaSet", Some(name)) => vec![format!("deployment/{name}")],
        ("Pod", Some(set)) => {
            let direct = ["statefulset", "daemonset", "job", "replicaset"];
            let deployment = shorter(&set).map(|name| format!("deployment/{name}"));
            direct.iter().map(|kind| format!("{kind}/{set}")).chain(deployment).collect()
        }
        _ => Vec::new(),
    }
}

/// The newest last.
pub(super) fn shown(events: Vec<ApiEvent>) -> Vec<Event> {
    let mut events: Vec<Event> = events.into_iter().map(event).collect();
    events.sort_by_key(|event| event.last_seen);
    events.split_off(events.len().saturating_sub(EVENTS_MAX))
}

fn event(event: ApiEvent) -> Event {
    let micro = event.event_time.as_ref().map(|time| time.0);
    let series = event.series.as_ref();
    let first = event.first_timestamp.as_ref().map(|time| time.0).or(micro);
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let last = series.and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = last.or(event.last_timestamp.as_ref().map(|time| time.0)).or(micro).or(first);
    let seconds = |time: Option<_>| {
        time.or(created).map_or(0, |time| u64::try_from(time.as_second()).unwrap_or(0))
    };
    let count = series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    let about = event.involved_object;
    Event {
        first_seen: seconds(first.or(last)),
        last_seen: seconds(last),
        count: u32::try_from(count).unwrap_or(1).max(1),
        r#type: match event.type_.as_deref() {
            Some("Warning") => Severity::Warning,
            _ => Severity::Normal,
        },
        reason: event.reason.unwrap_or_default(),
        object: [about.kind, about.name].map(Option::unwrap_or_default).join(" "),
        namespace: about.namespace.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(kind: &str, name: &str, controller: &str) -> ApiEvent {
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "involvedObject": {"kind": kind, "namespace": "shop", "name": name},
            "reportingComponent": controller,
        }))
        .unwrap()
    }

    #[test]
    fn events_about_the_mesh() {
        let member = |workload: &str, meshed: bool| Member {
            namespace: "shop".to_owned(),
            name: format!("{}-5f-x", workload.split_once('/').unwrap().1),
            workload: workload.to_owned(),
            meshed,
            ..Member::default()
        };
        let mut control = member("deployment/leno-control", false);
        control.labels.insert(PART_OF.0.to_owned(), PART_OF.1.to_owned());
        let members = [
            member("deployment/web", true),
            member("statefulset/db", true),
            member("deployment/batch", false),
            control,
        ];
        let mesh = OfMesh::of(&members);
        let check = |kind: &str, name: &str, expected: bool| {
            assert_eq!(mesh.has(&of(kind, name, "kubelet")), expected, "{kind} {name}");
        };
        check("Pod", "web-5f-x", true);
        check("Pod", "web-6a-gone", true);
        check("ReplicaSet", "web-6a", true);
        check("Deployment", "web", true);
        check("Pod", "db-7", true);
        check("StatefulSet", "db", true);
        check("Pod", "leno-control-1a-y", true);
        check("Pod", "batch-5f-x", false);
        check("Deployment", "batch", false);
        check("Pod", "web", false);
        check("Node", "web", false);
        assert!(mesh.has(&of("HTTPRoute", "split", CONTROLLER)));
        assert!(!OfMesh::default().has(&of("Pod", "web-5f-x", "kubelet")));
    }

    /// Reporters fill different fields.
    #[test]
    fn times_and_counts() {
        let check = |fields: serde_json::Value, expected: (u64, u64, u32)| {
            let mut whole = serde_json::to_value(of("Pod", "web-1", "")).unwrap();
            whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let event = event(serde_json::from_value(whole).unwrap());
            assert_eq!((event.first_seen, event.last_seen, event.count), expected, "{fields}");
        };
        let (early, late) = ("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z");
        check(json!({"firstTimestamp": early, "lastTimestamp": late, "count": 3}), (10, 20, 3));
        check(json!({"eventTime": "1970-01-01T00:00:10.000000Z"}), (10, 10, 1));
        let series = json!({"count": 5, "lastObservedTime": "1970-01-01T00:00:20.000000Z"});
        check(json!({"eventTime": "1970-01-01T00:00:10.000000Z", "series": series}), (10, 20, 5));
        check(json!({}), (1_767_225_600, 1_767_225_600, 1));
    }
}
