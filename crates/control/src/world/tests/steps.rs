//! One inventory after another: what is built in steps is what is built at once, and a pod that is not known yet is waited for.

use super::manifests::*;
use super::*;
use crate::source::kubernetes::catalogue::Catalogue;
use crate::source::kubernetes::tests::list_into;
use leno_model::limit::{NAMESPACE_PATTERNS_BYTES_MAX, ROUTE_PATTERNS_BYTES_MAX};
use leno_runtime::random::Random;

/// Shows the endpoints of port 80.
fn endpoints(world: &World, service: &str) -> String {
    let set = world.endpoints(&format!("{service}:80"), None);
    set.endpoints.iter().map(|endpoint| show_endpoint(endpoint)).collect::<Vec<_>>().join(", ")
}

/// Where a stream would not look at the next world, it says nothing else.
fn check_grounds(last: &World, next: &World) {
    let targets = ["10.96.0.1:80", "10.96.0.2:80", "10.1.0.1:8080", "10.1.0.2:8080", "10.9.0.1:1"];
    for target in targets.map(address) {
        if last.ground(&target, None) == next.ground(&target, None) {
            assert_eq!(last.outbound(&target, "a"), next.outbound(&target, "a"), "{target:?}");
            assert_eq!(last.profile(&target), next.profile(&target), "{target:?}");
        }
    }
    let near = WorkloadId { namespace: "a".into(), pod: "client".into() };
    for name in ["one.a.svc:80", "two.b.svc:80", "three.a.svc:80", "10.1.0.2:8080"] {
        let target = Target::Authority(name.into());
        for client in [None, Some(&near)] {
            if last.ground(&target, client) == next.ground(&target, client) {
                assert_eq!(last.endpoints(name, client), next.endpoints(name, client), "{name}");
            }
        }
    }
    for pod in ["web-1", "web-2"] {
        let workload = WorkloadId { namespace: "a".into(), pod: pod.into() };
        if last.ground_of(&workload) == next.ground_of(&workload) {
            assert_eq!(last.inbound(&workload, 8080), next.inbound(&workload, 8080), "{pod}");
        }
    }
}

/// One world after another, each held against the one that is built at once.
#[derive(Default)]
struct Steps {
    catalogue: Catalogue,
    builder: Builder,
    last: Arc<World>,
}

impl Steps {
    fn take(&mut self, parts: &[String]) -> Arc<World> {
        let version = self.last.version + 1;
        list_into(&mut self.catalogue, &parts.concat());
        let inventory = self.catalogue.inventory().unwrap();
        let world = Arc::new(self.builder.build(&inventory, version));
        let at_once = World::build(&inventory, &MeshNames::default(), version);
        assert_eq!(show(&world), show(&at_once), "step {version}");
        assert_eq!(world.problems, at_once.problems, "step {version}");
        assert_eq!(world.verdicts(), at_once.verdicts(), "step {version}");
        for (target, namespace) in
            [("10.96.0.1:80", "a"), ("10.96.0.2:80", "b"), ("10.96.0.2:80", "a")]
        {
            let target = address(target);
            let told = |world: &World| world.outbound(&target, namespace);
            assert_eq!(told(&world), told(&at_once), "step {version}: {target:?} of {namespace}");
        }
        check_grounds(&self.last, &world);
        self.last = world.clone();
        world
    }
}

fn of(world: &World, namespace: &str, name: &str) -> Arc<service::Service> {
    world.services[&(namespace.into(), name.into())].clone()
}

/// The client is none of the Service's own pods, and what it is told changes with where it is.
#[test]
fn where_a_client_of_a_node_local_service_is_may_be_heard_late() {
    let mut steps = Steps::default();
    let on = |node: &str, name: &str, ip: &str| {
        pod("a", name, ip, "", true).replace("spec: {", &format!("spec: {{{node}"))
    };
    let service = service("a", "one", "10.96.0.1", "")
        .replace("spec: {", "spec: {internalTrafficPolicy: Local, ");
    let servers = [
        on("nodeName: n1, ", "web-1", "10.1.0.1"),
        on("nodeName: n2, ", "web-2", "10.1.0.2"),
        service,
        slice("a", "one", &[("10.1.0.1", "web-1", ""), ("10.1.0.2", "web-2", "")]),
    ]
    .concat();
    let id = WorkloadId { namespace: "a".into(), pod: "client".into() };
    let mut told = |client: &str| {
        let world = steps.take(&[servers.clone(), client.to_owned()]);
        let set = world.endpoints("one.a.svc:80", Some(&id));
        set.endpoints.iter().map(|e| e.address.ip().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(told(""), "10.1.0.1 10.1.0.2");
    assert_eq!(told(&on("", "client", "10.1.0.9")), "10.1.0.1 10.1.0.2");
    assert_eq!(told(&on("nodeName: n2, ", "client", "10.1.0.9")), "10.1.0.2");
    assert_eq!(told(&on("nodeName: n1, ", "client", "10.1.0.9")), "10.1.0.1");
}

#[test]
fn a_world_in_steps_is_the_world_at_once() {
    let mut steps = Steps::default();
    let mut step = |parts: &[String]| steps.take(parts);
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
    assert!(!Arc::ptr_eq(&of(&same, "a", "one"), &of(&moved, "a", "one")));
    assert!(Arc::ptr_eq(&of(&same, "b", "two"), &of(&moved, "b", "two")));
    let (first, second) = (address("10.96.0.1:80"), address("10.96.0.2:80"));
    assert_ne!(same.ground(&first, None), moved.ground(&first, None));
    assert_eq!(same.ground(&second, None), moved.ground(&second, None));
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

/// Objects come, go and change around routes that stay, in a random order.
#[test]
fn routes_in_steps_are_routes_at_once() {
    const STEPS: usize = 300;
    let to =
        |name: &str, more: &str| format!("{{{more}backendRefs: [{{name: {name}, port: 80}}]}}");
    let on = |name: &str| format!("{{group: '', kind: Service, name: {name}}}");
    let matching = |pattern: &str| {
        format!("matches: [{{path: {{type: RegularExpression, value: '{pattern}'}}}}], ")
    };
    let fault =
        "filters: [{type: ExtensionRef, extensionRef: {group: leno.dev, kind: Fault, name: f}}], ";
    let object = |group: &str, kind: &str, namespace: &str, name: &str, spec: &str| {
        format!(
            "---\napiVersion: {group}\nkind: {kind}\n\
             metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: '2026-01-01T00:00:00Z'}}\n\
             spec: {{{spec}}}\n"
        )
    };
    let budget = |percent: u32| {
        let spec = format!(
            "targetRefs: [{}], retryConstraint: {{budget: {{percent: {percent}}}}}",
            on("one")
        );
        object("leno.dev/v1alpha1", "XBackendTrafficPolicy", "a", "p", &spec)
    };
    let across = "{backendRefs: [{name: two, namespace: b, port: 80}]}";
    let server = "{group: policy.leno.dev, kind: Server, name: s}";
    // The forms of each object; in a step it has one of them, or is not there.
    let objects: Vec<Vec<String>> = vec![
        vec![
            service("a", "one", "10.96.0.1", ", appProtocol: http"),
            service("a", "one", "10.96.0.1", ""),
        ],
        vec![service("b", "two", "10.96.0.2", ", appProtocol: http")],
        vec![object(
            "gateway.networking.k8s.io/v1beta1",
            "ReferenceGrant",
            "b",
            "g",
            "from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: a}], to: [{group: '', kind: Service}]",
        )],
        vec![
            object("leno.dev/v1alpha1", "Fault", "a", "f", "abort: {httpStatus: 503}, ttl: 1h"),
            object("leno.dev/v1alpha1", "Fault", "a", "f", "abort: {httpStatus: 500}, ttl: 1h"),
        ],
        vec![budget(10), budget(20)],
        vec![object("policy.leno.dev/v1beta3", "Server", "a", "s", "podSelector: {}, port: 8080")],
        vec![route("HTTPRoute", "a", "plain", &on("one"), &to("one", ""))],
        vec![route("HTTPRoute", "a", "across", &on("one"), across)],
        vec![route("HTTPRoute", "a", "faulty", &on("one"), &to("one", fault))],
        vec![route("HTTPRoute", "a", "regex", &on("one"), &to("one", &matching("/x+")))],
        vec![route("HTTPRoute", "a", "both", &format!("{}, {server}", on("one")), &to("one", ""))],
        vec![
            route("HTTPRoute", "b", "changes", &on("two"), &to("two", "")),
            route("HTTPRoute", "b", "changes", &on("two"), &to("two", &matching("/y"))),
            route("HTTPRoute", "b", "changes", &on("none"), &to("two", "")),
        ],
        vec![route("GRPCRoute", "b", "grpc", &on("two"), &to("two", ""))],
        vec![route(
            "HTTPRoute",
            "a",
            "consumers",
            "{group: '', kind: Service, name: two, namespace: b}",
            across,
        )],
    ];
    let (random, mut steps) = (Random::seeded(7), Steps::default());
    let mut forms: Vec<usize> = objects.iter().map(|forms| random.below(forms.len() + 1)).collect();
    for _ in 0..STEPS {
        for _ in 0..=random.below(2) {
            let which = random.below(objects.len());
            forms[which] = random.below(objects[which].len() + 1);
        }
        let chosen = objects.iter().zip(&forms).filter_map(|(forms, form)| forms.get(*form));
        steps.take(&chosen.cloned().collect::<Vec<_>>());
    }
}

/// Regular expressions share the budget of their namespace: what is left for a route that stays depends on the routes before it.
#[test]
fn a_route_with_a_pattern_is_held_against_the_budget_in_each_world() {
    let mut steps = Steps::default();
    let to = |service: &str, pattern: &str| {
        format!(
            "{{matches: [{{path: {{type: RegularExpression, value: '{pattern}'}}}}], backendRefs: [{{name: {service}, port: 80}}]}}"
        )
    };
    let on = |name: &str| format!("{{group: '', kind: Service, name: {name}}}");
    let mine = route("HTTPRoute", "a", "r", &on("one"), &to("one", "/z+"));
    let others = 0..=NAMESPACE_PATTERNS_BYTES_MAX / ROUTE_PATTERNS_BYTES_MAX;
    let of_other =
        |number: usize| service("a", &format!("n{number}"), &format!("10.96.1.{number}"), "");
    let other = |number: usize| {
        let name = format!("n{number}");
        let rules = [0, 1].map(|rule| to(&name, &format!("(?:.?){{{}}}", 500 - rule - 2 * number)));
        route("HTTPRoute", "a", &name, &on(&name), &rules.join(", "))
    };
    let services =
        service("a", "one", "10.96.0.1", "") + &others.clone().map(of_other).collect::<String>();
    let alone = [services.clone(), mine.clone()];
    assert_eq!(steps.take(&alone).problems, []);
    let crowded = steps.take(&[services, mine, others.map(other).collect()]);
    let problem = crowded.problems.iter().find(|one| one.object == "HTTPRoute a/r");
    let is_over = |one: &Problem| one.message.contains("those of the namespace need more");
    assert!(problem.is_some_and(is_over), "{problem:?}");
    assert_eq!(steps.take(&alone).problems, []);
}

/// A change of one route compiles no other.
#[test]
fn a_route_that_stays_is_not_compiled_again() {
    let mut steps = Steps::default();
    let on = "{group: '', kind: Service, name: one}";
    let to = |path: &str| {
        format!(
            "{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: one, port: 80}}]}}"
        )
    };
    let mut of = |path: &str| {
        let routes = [("r", "/r"), ("s", path)];
        let routes = routes.map(|(name, path)| route("HTTPRoute", "a", name, on, &to(path)));
        let parts = [vec![service("a", "one", "10.96.0.1", "")], routes.to_vec()].concat();
        let world = steps.take(&parts);
        world.routes.of(&("a".into(), "one".into())).iter().map(|one| one.route.clone()).collect()
    };
    let (before, after): (Vec<_>, Vec<_>) = (of("/before"), of("/after"));
    assert!(Arc::ptr_eq(&before[0], &after[0]));
    assert!(!Arc::ptr_eq(&before[1], &after[1]));
}

#[test]
fn a_stream_looks_again_where_its_answer_may_be_another_one() {
    let mut steps = Steps::default();
    let mut step = |parts: &[String]| steps.take(parts);
    let web = pod("a", "web-1", "10.1.0.1", MESHED, true);
    let one = service("a", "one", "10.96.0.1", ", appProtocol: http");
    let two = service("b", "two", "10.96.0.2", ", appProtocol: grpc");
    let of_one = slice("a", "one", &[("10.1.0.1", "web-1", "")]);
    let of_two = slice("b", "two", &[("10.9.0.1", "-", "")]);
    let (first, second) = (address("10.96.0.1:80"), address("10.96.0.2:80"));
    let ready = step(&[web.clone(), one.clone(), two.clone(), of_one.clone(), of_two.clone()]);
    // An endpoint that is not ready any more is still of a port that is declared.
    let not_ready = of_one.replace("conditions: {}", "conditions: {ready: false}");
    let left = step(&[web.clone(), one.clone(), two.clone(), not_ready, of_two.clone()]);
    assert!(Arc::ptr_eq(&ready.declared, &left.declared));
    assert!(Arc::ptr_eq(&ready.routes, &left.routes));
    assert_ne!(ready.ground(&first, None), left.ground(&first, None));
    assert_eq!(ready.ground(&second, None), left.ground(&second, None));
    // A route, and the Service that it leads to gone.
    let to_two = "{backendRefs: [{name: two, port: 80}]}";
    let parent = "{group: \"\", kind: Service, name: two}";
    let routed = route("HTTPRoute", "b", "r", parent, to_two);
    let with_route = step(&[web.clone(), one.clone(), two.clone(), of_two.clone(), routed.clone()]);
    assert_ne!(left.ground(&second, None), with_route.ground(&second, None));
    // One more route of a Service is nothing to another Service.
    let again = route("HTTPRoute", "b", "s", parent, to_two);
    let all = [&web, &one, &two, &of_two, &routed, &again].map(Clone::clone);
    let with_both = step(&all);
    assert_eq!(with_route.ground(&first, None), with_both.ground(&first, None));
    assert_ne!(with_route.ground(&second, None), with_both.ground(&second, None));
    step(&[web.clone(), one.clone(), of_two.clone(), routed.clone()]);
    step(&[web, one, two, of_two, routed]);
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
