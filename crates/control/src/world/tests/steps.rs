//! One inventory after another: what is built in steps is what is built at once, and a pod that is not known yet is waited for.

use super::manifests::*;
use super::*;
use crate::source::kubernetes::catalogue::Catalogue;
use crate::source::kubernetes::tests::list_into;

/// Shows the endpoints of port 80.
fn endpoints(world: &World, service: &str) -> String {
    let set = world.endpoints(&format!("{service}:80"));
    set.endpoints.iter().map(|endpoint| show_endpoint(endpoint)).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_world_in_steps_is_the_world_at_once() {
    let mut catalogue = Catalogue::default();
    let mut builder = Builder::new(MeshNames::default());
    let mut version = 0;
    let mut step = |parts: &[String]| {
        version += 1;
        list_into(&mut catalogue, &parts.concat());
        let inventory = catalogue.inventory().unwrap();
        let world = builder.build(&inventory, version);
        let at_once = World::build(&inventory, &MeshNames::default(), version);
        assert_eq!(show(&world), show(&at_once), "step {version}");
        assert_eq!(world.problems, at_once.problems, "step {version}");
        world
    };
    let web = |ip: &str| pod("a", "web-1", ip, MESHED, true);
    let other = pod("a", "web-2", "10.1.0.2", "", true);
    let one = service("a", "one", "10.96.0.1", ", appProtocol: http");
    let two = service("b", "two", "10.96.0.2", ", appProtocol: grpc");
    let of_one = slice("a", "one", &[("10.1.0.1", "web-1", ""), ("10.1.0.2", "-", "")]);
    let of_two = slice("b", "two", &[("10.9.0.1", "-", "")]);
    let first = step(&[
        web("10.1.0.1"),
        other.clone(),
        one.clone(),
        two.clone(),
        of_one.clone(),
        of_two.clone(),
    ]);
    let same = step(&[
        web("10.1.0.1"),
        other.clone(),
        one.clone(),
        two.clone(),
        of_one.clone(),
        of_two.clone(),
    ]);
    assert!(Arc::ptr_eq(&first.pods, &same.pods) && Arc::ptr_eq(&first.declared, &same.declared));
    // Of a pod that moves, the Service that leads to it is another one, and no other is.
    let moved = step(&[
        web("10.1.0.7"),
        other.clone(),
        one.clone(),
        two.clone(),
        of_one.clone(),
        of_two.clone(),
    ]);
    let of = |world: &World, namespace: &str, name: &str| {
        world.services[&(namespace.into(), name.into())].clone()
    };
    assert!(!Arc::ptr_eq(&of(&same, "a", "one"), &of(&moved, "a", "one")));
    assert!(Arc::ptr_eq(&of(&same, "b", "two"), &of(&moved, "b", "two")));
    // By address, too.
    step(&[web("10.1.0.1"), one.clone(), two.clone(), of_one.clone(), of_two.clone()]);
    step(&[
        web("10.1.0.1"),
        other.replace("10.1.0.2", "10.9.0.1"),
        one.clone(),
        two.clone(),
        of_one.clone(),
        of_two.clone(),
    ]);
    // Without slices by labels; with settings of a Namespace; and away again.
    let selected = service("a", "three", "10.96.0.3", "");
    step(&[web("10.1.0.1"), one.clone(), selected.clone(), of_one.clone()]);
    step(&[web("10.1.0.1"), other.clone(), one.clone(), selected.clone(), of_one.clone()]);
    step(&[
        SHOP.replace("name: shop", "name: a"),
        web("10.1.0.1"),
        other,
        one.clone(),
        selected.clone(),
        of_one.clone(),
    ]);
    step(&[
        web("10.1.0.1").replace("web-1-account", "x"),
        one.replace("appProtocol: http", "appProtocol: tcp"),
        of_one,
    ]);
    step(&[]);
}

#[test]
fn an_endpoint_whose_pod_is_not_known_yet_is_waited_for() {
    let with_uid = |text: String, uid: &str| {
        text.replace("metadata: {name: web-1", &format!("metadata: {{uid: {uid}, name: web-1"))
    };
    let pod = |uid: &str| with_uid(pod("a", "web-1", "10.1.0.1", MESHED, true), uid);
    let service = service("a", "web", "10.96.0.1", "");
    let slice = |uid: &str| {
        slice("a", "web", &[("10.1.0.1", "web-1", ""), ("192.0.2.1", "-", "")])
            .replace("kind: Pod,", &format!("kind: Pod, uid: {uid},"))
    };
    let check = |parts: &[String], expected: &str| {
        assert_eq!(endpoints(&world(&parts.concat()), "web.a.svc"), expected);
    };
    let (known, outside) = ("10.1.0.1:8080 a/web-1 ns/a/sa/web-1-account", "192.0.2.1:8080");
    // Plain text to a pod that may be meshed would be a guess; an address that is nobody's pod is outside.
    check(&[service.clone(), slice("u1")], outside);
    check(&[service.clone(), slice("u1"), pod("u1")], &format!("{known}, {outside}"));
    // The pod that had the name before is not the one that is meant.
    check(&[service, slice("u2"), pod("u1")], outside);
}
