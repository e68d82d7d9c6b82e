//! What the API server says, as text, to inventories. The tables of `world/tests` go through [`by_events`], too.

use super::catalogue::{Catalogue, Event};
use super::read::{Line, Lines, Read, line, object, page};
use super::{WATCHED, group_of};
use crate::source::{Inventory, Object, published_kind};
use serde_json::{Value, json};
use std::sync::Arc;

/// Manifests as an API server with these objects would list them: the same inventory by another way.
pub(crate) fn by_events(manifests: &str) -> Arc<Inventory> {
    let mut catalogue = Catalogue::default();
    list_into(&mut catalogue, manifests);
    catalogue.inventory().unwrap()
}

/// Lists of every kind, one after the other.
pub(crate) fn list_into(catalogue: &mut Catalogue, manifests: &str) {
    let documents = leno_manifest::read_all(manifests).map(|(_, value)| value.unwrap());
    let documents: Vec<Value> = documents.collect();
    for (kind, _) in WATCHED {
        let (group, _) = group_of(kind);
        let is_of_kind = |document: &&Value| {
            let version = document["apiVersion"].as_str().unwrap_or_default();
            let of_group = version.split_once('/').map_or("", |(group, _)| group);
            document["kind"] == published_kind(kind) && of_group == group
        };
        let of_kind = documents.iter().filter(is_of_kind);
        let items: Vec<Value> = of_kind.cloned().map(|item| as_stored(kind, item)).collect();
        let list = json!({"kind": "List", "metadata": {"resourceVersion": "7"}, "items": items});
        let read = page(kind, list.to_string().as_bytes()).unwrap();
        assert!(read.nameless.is_empty(), "{:?}", read.nameless);
        catalogue.apply(Event::Listed { kind, objects: read.objects });
    }
}

/// What an API server adds.
fn as_stored(kind: &str, mut item: Value) -> Value {
    let namespaced =
        Object::KINDS.iter().any(|(known, .., namespaced)| *known == kind && *namespaced);
    let metadata = item["metadata"].as_object_mut().unwrap();
    if namespaced {
        metadata.entry("namespace").or_insert(json!("default"));
    }
    metadata.insert("resourceVersion".into(), json!("7"));
    metadata.insert(
        "managedFields".into(),
        json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]),
    );
    item
}

fn pod(name: &str, version: u64, more: Value) -> String {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "resourceVersion": version.to_string()},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]}]},
    });
    for (key, value) in more.as_object().unwrap() {
        pod[key] = value.clone();
    }
    pod.to_string()
}

fn read(name: &str, version: u64, more: Value) -> Read {
    object("Pod", &pod(name, version, more)).unwrap()
}

fn complete() -> Catalogue {
    let mut catalogue = Catalogue::default();
    for (kind, _) in WATCHED {
        assert!(catalogue.inventory().is_none(), "{kind} was not listed yet");
        assert!(catalogue.apply(Event::Listed { kind, objects: Vec::new() }));
    }
    catalogue
}

/// Pods as `name@version` and problems as `object: field`.
fn shown(catalogue: &Catalogue) -> String {
    let inventory = catalogue.inventory().unwrap();
    let pods = inventory.pods.iter().map(|pod| pod.origin.to_string());
    let problems = inventory.problems.iter().map(|p| format!("{}: {}", p.object, p.field));
    pods.chain(problems).collect::<Vec<_>>().join(", ")
}

#[test]
fn events_change_what_they_name_and_nothing_else() {
    let ip = |ip: &str| json!({"status": {"podIP": ip}});
    let bad = || json!({"spec": {"containers": "none"}});
    let applied = |read| Event::Applied(read);
    let mut catalogue = complete();
    let mut check = |event: Event, changed: bool, expected: &str| {
        assert_eq!(catalogue.apply(event), changed, "{expected}");
        assert_eq!(shown(&catalogue), expected);
    };
    check(applied(read("a", 1, ip("10.0.0.1"))), true, "shop/a@1");
    // What nobody reads changes nothing.
    let status = json!({"status": {"podIP": "10.0.0.1", "message": "hello"}});
    check(applied(read("a", 2, status)), false, "shop/a@1");
    check(applied(read("a", 3, ip("10.0.0.2"))), true, "shop/a@3");
    check(applied(read("b", 4, ip("10.0.0.3"))), true, "shop/a@3, shop/b@4");
    // One that cannot be read keeps its last good state, and stalls nobody.
    check(applied(read("a", 5, bad())), true, "shop/a@3, shop/b@4, Pod shop/a: spec.containers");
    check(applied(read("a", 5, bad())), false, "shop/a@3, shop/b@4, Pod shop/a: spec.containers");
    check(
        applied(read("c", 6, bad())),
        true,
        "shop/a@3, shop/b@4, Pod shop/a: spec.containers, Pod shop/c: spec.containers",
    );
    check(
        Event::Deleted(read("c", 7, bad()).key),
        true,
        "shop/a@3, shop/b@4, Pod shop/a: spec.containers",
    );
    check(Event::Deleted(read("b", 8, bad()).key), true, "shop/a@3, Pod shop/a: spec.containers");
    check(Event::Deleted(read("b", 8, bad()).key), false, "shop/a@3, Pod shop/a: spec.containers");
    check(applied(read("a", 9, ip("10.0.0.2"))), true, "shop/a@3");
    // A list says what there is, in any order.
    let objects =
        vec![read("d", 10, ip("10.0.0.4")), read("c", 11, bad()), read("b", 12, ip("10.0.0.3"))];
    let listed = Event::Listed { kind: "Pod", objects };
    check(listed.clone(), true, "shop/b@12, shop/d@10, Pod shop/c: spec.containers");
    check(listed, false, "shop/b@12, shop/d@10, Pod shop/c: spec.containers");
    check(
        Event::Listed { kind: "Service", objects: Vec::new() },
        false,
        "shop/b@12, shop/d@10, Pod shop/c: spec.containers",
    );
    check(Event::Listed { kind: "Pod", objects: Vec::new() }, true, "");
}

/// Else every write of a status would compile every route anew, and wake every stream of a Service that has one.
#[test]
fn a_status_of_a_route_is_no_change() {
    let route = |version: &str, status: Value| {
        let text = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "r", "namespace": "shop", "resourceVersion": version},
            "spec": {"rules": [{"backendRefs": [{"name": "web", "port": 80}]}]},
            "status": status,
        });
        Event::Applied(object("HTTPRoute", &text.to_string()).unwrap())
    };
    let mut catalogue = complete();
    assert!(catalogue.apply(route("1", json!(null))));
    assert!(!catalogue.apply(route("2", json!({"parents": []}))));
    assert!(!catalogue.apply(route("3", json!({"parents": [{"controllerName": "x"}]}))));
}

#[test]
fn an_object_that_did_not_change_is_the_same_in_the_next_inventory() {
    let mut catalogue = complete();
    catalogue.apply(Event::Applied(read("a", 1, json!({}))));
    let before = catalogue.inventory().unwrap();
    catalogue.apply(Event::Applied(read("b", 2, json!({}))));
    let objects = vec![read("a", 3, json!({})), read("b", 3, json!({}))];
    catalogue.apply(Event::Listed { kind: "Pod", objects });
    let after = catalogue.inventory().unwrap();
    assert_eq!((before.pods.len(), after.pods.len()), (1, 2));
    assert!(Arc::ptr_eq(&before.pods[0].object, &after.pods[0].object));
}

/// Field and message are of one mistake, also where a field that nobody reads is wrong before it.
#[test]
fn a_mistake_is_told_with_its_field() {
    let ports = json!([{"containerPort": "eighty"}]);
    let spec = json!({"activeDeadlineSeconds": "x", "containers": [{"name": "c", "ports": ports}]});
    let read = object("Pod", &pod("a", 1, json!({"spec": spec}))).unwrap();
    let (field, message) = read.object.unwrap_err();
    assert_eq!(field, "spec.containers[0].ports[0].containerPort");
    assert!(message.starts_with("invalid type: string \"eighty\""), "{message}");
}

#[test]
fn lines_of_a_watch() {
    let check = |what: &str, object: &str, expected: &str| {
        let text = format!("{{\"type\":\"{what}\",\"object\":{object}}}");
        let shown = match line("Pod", text.as_bytes()) {
            Ok(Line::Happened(Event::Applied(read), at)) => {
                format!("applied {} {} at {at}", read.key, read.object.is_ok())
            }
            Ok(Line::Happened(Event::Deleted(key), at)) => format!("deleted {key} at {at}"),
            Ok(Line::Happened(Event::Listed { .. }, _)) => unreachable!("a line is no list"),
            Ok(Line::Bookmark(at)) => format!("bookmark {at}"),
            Ok(Line::Error(code, message)) => format!("error {code} {message}"),
            Err(wrong) => format!("wrong: {wrong}"),
        };
        assert!(shown.starts_with(expected), "{shown}\nshould begin with\n{expected}");
    };
    check("ADDED", &pod("a", 5, json!({})), "applied Pod shop/a true at 5");
    check("MODIFIED", &pod("a", 6, json!({"spec": 7})), "applied Pod shop/a false at 6");
    check("DELETED", &pod("a", 7, json!({"spec": 7})), "deleted Pod shop/a at 7");
    check("BOOKMARK", r#"{"kind":"Pod","metadata":{"resourceVersion":"9"}}"#, "bookmark 9");
    check("ERROR", r#"{"code":410,"message":"too old"}"#, "error 410 too old");
    check("ERROR", "{}", "error 0");
    check("ADDED", r#"{"metadata":{}}"#, "wrong: an object without a name");
    check("ADDED", "[]", "wrong: ");
    check("SOMETHING", &pod("a", 7, json!({})), "wrong: an event of type SOMETHING");
    assert!(line("Pod", b"{").is_err());
}

#[test]
fn lines_come_out_whole_however_the_body_is_cut() {
    let body = b"one\n\nthree is longer\nfour";
    for size in 1..=body.len() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in body.chunks(size) {
            lines.add(piece);
            while let Some(line) = lines.pop() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        assert_eq!(found, ["one\n", "\n", "three is longer\n"], "{size}");
        assert_eq!(lines.waiting(), 4);
    }
}

#[test]
fn one_object_of_a_page_that_cannot_be_read_stops_no_other() {
    let pods =
        [pod("a", 1, json!({})), pod("b", 2, json!({"spec": 1})), "{}".to_owned(), "7".to_owned()];
    let metadata = r#"{"resourceVersion":"12","continue":"abc"}"#;
    let body = format!("{{\"metadata\":{metadata},\"items\":[{}]}}", pods.join(","));
    let page = page("Pod", body.as_bytes()).unwrap();
    let shown: Vec<_> =
        page.objects.iter().map(|read| (read.key.name.as_ref(), read.object.is_ok())).collect();
    assert_eq!(shown, [("a", true), ("b", false)]);
    assert_eq!((page.nameless.len(), page.version.as_str(), page.next.as_str()), (2, "12", "abc"));
    assert_eq!(
        super::read::page("Pod", br#"{"metadata":{},"items":null}"#).unwrap().objects.len(),
        0
    );
    assert!(super::read::page("Pod", b"404 page not found").is_err());
}

#[test]
fn every_kind_that_is_watched_is_known_with_its_group() {
    for (kind, _) in WATCHED {
        assert!(!group_of(kind).1.is_empty(), "{kind}");
    }
    assert_eq!(group_of("ReferenceGrant").0, "gateway.networking.k8s.io");
}
