use super::manifests::*;
use super::*;
use leno_model::name::WorkloadId;
use leno_model::policy::InboundProtocol;

#[track_caller]
fn check_endpoints(world: &World, authority: &str, expected: Option<&[&str]>) {
    let set = world.endpoints(authority, None);
    let shown: Vec<_> = set.endpoints.iter().map(|e| show_endpoint(e)).collect();
    match expected {
        None => assert!(!set.exists && shown.is_empty(), "{shown:?}"),
        Some(expected) => assert_eq!(
            (set.exists, shown),
            (true, expected.iter().map(|e| (*e).to_owned()).collect())
        ),
    }
}

#[test]
fn slices_say_who_answers() {
    let text = [
        service("a", "web", "10.96.0.1", ""),
        service("a", "empty", "10.96.0.2", ""),
        pod("a", "one", "10.1.0.1", MESHED, true),
        pod("a", "two", "10.1.0.2", "", true),
        pod("a", "leaving", "10.1.0.3", MESHED, true).replace(
            "{name: leaving,",
            "{name: leaving, deletionTimestamp: \"2026-01-01T00:00:00Z\",",
        ),
        slice(
            "a",
            "web",
            &[
                ("10.1.0.2", "two", "ready: true"),
                ("10.1.0.1", "-", ""),
                ("10.1.0.3", "leaving", "ready: true"),
                ("10.1.0.4", "-", "ready: false"),
                ("10.1.0.5", "-", "ready: true, terminating: true"),
                ("10.1.0.6", "-", "ready: true"),
                ("not-an-address", "-", "ready: true"),
            ],
        ),
        slice("a", "empty", &[]),
    ];
    let world = world(&text.concat());
    let all: &[&str] =
        &["10.1.0.1:8080 a/one ns/a/sa/one-account", "10.1.0.2:8080 a/two", "10.1.0.6:8080"];
    check_endpoints(&world, "web.a.svc.cluster.local:80", Some(all));
    check_endpoints(&world, "Web.a.svc.cluster.local.", Some(all));
    check_endpoints(&world, "web.a.svc:80", Some(all));
    check_endpoints(&world, "empty.a.svc.cluster.local:80", Some(&[]));
    check_endpoints(&world, "web.a.svc.cluster.local:81", None);
    check_endpoints(&world, "web.b.svc.cluster.local:80", None);
    check_endpoints(&world, "web:80", None);
    check_endpoints(&world, "10.1.0.1:9", Some(&["10.1.0.1:9 a/one ns/a/sa/one-account"]));
    check_problems(
        &world,
        &["EndpointSlice a/web-1: endpoints.addresses: \"not-an-address\" is not an IP"],
    );
    let labels = &world.endpoints("web.a.svc.cluster.local:80", None).endpoints[0].labels;
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(labels, ["namespace=a", "pod=one", "service=web", "serviceaccount=one-account"]);
}

/// Where nothing is ready: what leaves and serves, then what is on nodes that nobody hears.
#[test]
fn a_service_falls_back_on_what_may_still_serve() {
    let check = |endpoints: &[(&str, &str, &str)], expected: &[&str]| {
        let unheard = |name: &str, ip: &str, spec: &str| {
            let heard = "type: Ready, status: \"False\"}";
            let and = format!("{heard}, {{type: ContainersReady, status: \"True\"}}");
            let pod = pod("a", name, ip, "", false);
            assert!(pod.contains(heard) && pod.contains("spec: {"), "{pod}");
            pod.replace(heard, &and).replace("spec: {", &format!("spec: {{{spec}"))
        };
        let text = [
            service("a", "web", "10.96.0.1", ""),
            unheard("lost", "10.1.0.1", ""),
            unheard("gated", "10.1.0.2", "readinessGates: [{conditionType: example.org/x}], "),
            pod("a", "failing", "10.1.0.3", "", false),
            pod("a", "leaving", "10.1.0.4", "", true).replace(
                "{name: leaving,",
                "{name: leaving, deletionTimestamp: \"2026-01-01T00:00:00Z\",",
            ),
            pod("a", "late", "10.1.0.5", "", true),
            slice("a", "web", endpoints),
        ];
        check_endpoints(&world(&text.concat()), "web.a.svc.cluster.local:80", Some(expected));
    };
    let late = ("10.1.0.5", "late", "ready: false, serving: false");
    let lost = ("10.1.0.1", "lost", "ready: false, serving: false");
    let gated = ("10.1.0.2", "gated", "ready: false, serving: false");
    let failing = ("10.1.0.3", "failing", "ready: false, serving: false");
    let draining = ("10.1.0.4", "leaving", "ready: false, serving: true, terminating: true");
    let leaving = ("10.1.0.4", "leaving", "ready: true");
    let dying = ("10.1.0.4", "leaving", "ready: false, serving: false, terminating: true");
    let ready = ("10.1.0.6", "-", "ready: true");
    check(&[lost, gated, failing, draining, ready], &["10.1.0.6:8080"]);
    check(&[ready, draining, failing, gated, lost], &["10.1.0.6:8080"]);
    check(&[lost, gated, failing, draining], &["10.1.0.4:8080 a/leaving"]);
    check(&[lost, leaving], &["10.1.0.4:8080 a/leaving"]);
    check(&[lost, gated, failing, dying], &["10.1.0.1:8080 a/lost"]);
    check(&[gated, late], &["10.1.0.5:8080 a/late"]);
    check(&[late, draining], &["10.1.0.4:8080 a/leaving"]);
    check(&[gated, failing, dying], &[]);
}

#[test]
fn publish_not_ready_takes_everyone() {
    let text = [
        service("a", "web", "None", "")
            .replace("spec: {", "spec: {publishNotReadyAddresses: true, "),
        slice(
            "a",
            "web",
            &[("10.1.0.4", "-", "ready: false"), ("10.1.0.5", "-", "terminating: true")],
        ),
    ];
    check_endpoints(
        &world(&text.concat()),
        "web.a.svc.cluster.local:80",
        Some(&["10.1.0.4:8080", "10.1.0.5:8080"]),
    );
}

#[test]
fn without_slices_pods_are_selected() {
    let text = [
        service("a", "web", "10.96.0.1", ""),
        pod("a", "one", "10.1.0.1", "", true),
        pod("a", "two", "fd00::2", MESHED, true),
        pod("a", "slow", "10.1.0.3", "", false),
        pod("b", "other", "10.1.0.4", "", true),
    ];
    check_endpoints(
        &world(&text.concat()),
        "web.a.svc.cluster.local:80",
        Some(&["10.1.0.1:8080 a/one", "[fd00::2]:8080 a/two ns/a/sa/two-account"]),
    );
}

/// linkerd's proxies carry HTTP/1 in HTTP/2 to those that are known to take it; ours are told nothing of the kind.
#[test]
fn proxies_that_take_http1_in_http2_are_known_by_annotation() {
    let check = |annotations: &str, expected: &str| {
        let text =
            [service("a", "web", "10.96.0.1", ""), pod("a", "one", "10.1.0.1", annotations, true)];
        check_endpoints(&world(&text.concat()), "web.a.svc.cluster.local:80", Some(&[expected]));
    };
    let upgrade = "leno.dev/http2-upgrade: \"true\"";
    let meshed = "10.1.0.1:8080 a/one ns/a/sa/one-account";
    check(MESHED, meshed);
    check(&format!("{MESHED}, {upgrade}"), &format!("{meshed} upgraded"));
    check(&format!("{MESHED}, leno.dev/http2-upgrade: \"false\""), meshed);
    check(
        &format!("{MESHED}, {upgrade}, leno.dev/opaque-ports: '8080'"),
        &format!("{meshed} opaque"),
    );
    // Without a proxy in front of the port nobody could turn it back.
    check(upgrade, "10.1.0.1:8080 a/one");
    check(
        &format!("{MESHED}, {upgrade}, leno.dev/skip-inbound-ports: '8080'"),
        "10.1.0.1:8080 a/one",
    );
}

#[test]
fn protocols_are_declared() {
    let check = |app_protocol: &str, protocol: &str| {
        let more = format!(", appProtocol: {app_protocol}");
        let world = world(&service("a", "web", "10.96.0.1", &more));
        let policy = world.outbound(&address("10.96.0.1:80"), "a").unwrap();
        assert_eq!(show_policy(&policy).0, protocol, "{app_protocol}");
        check_problems(&world, &[]);
    };
    check("http", "http1");
    check("kubernetes.io/ws", "http1");
    check("kubernetes.io/h2c", "http2");
    check("grpc", "grpc");
    check("tcp", "opaque");
    check("linkerd.io/opaque", "opaque");
    check("https", "tls");
    check("postgresql", "detect");
    check("''", "detect");
}

#[test]
fn addresses_find_services_pods_and_strangers() {
    let text = [
        service("a", "web", "10.96.0.1", "")
            .replace("spec: {", "spec: {clusterIPs: [10.96.0.1, \"fd96::1\"], "),
        pod("a", "one", "10.1.0.1", MESHED, true),
        pod(
            "a",
            "skips",
            "10.1.0.2",
            &format!("{MESHED}, config.leno.dev/skip-inbound-ports: '9000-9100'"),
            true,
        ),
    ];
    let world = world(&text.concat());
    let balanced: &[&str] = &["http: -> web.a:80"];
    let balanced: Vec<_> = balanced.iter().map(|r| r.replace(": ->", ":  ->")).collect();
    let balanced: Vec<&str> = balanced.iter().map(String::as_str).collect();
    check_outbound(&world, "10.96.0.1:80", "b", "detect", &balanced);
    check_outbound(&world, "[fd96::1]:80", "b", "detect", &balanced);
    check_outbound(&world, "[::ffff:10.96.0.1]:80", "b", "detect", &balanced);
    let forward = |target: &str, shown: &str| {
        check_outbound(&world, target, "b", "detect", &[&format!("http:  -> [{shown}]")]);
    };
    forward("10.96.0.1:81", "10.96.0.1:81");
    forward("10.1.0.1:8080", "10.1.0.1:8080 a/one ns/a/sa/one-account");
    forward("10.1.0.1:1", "10.1.0.1:1 a/one ns/a/sa/one-account");
    forward("10.1.0.2:9050", "10.1.0.2:9050 a/skips");
    forward("192.0.2.1:443", "192.0.2.1:443");
    let parent = |target: &str| world.outbound(&address(target), "b").unwrap().parent;
    assert_eq!((parent("10.96.0.1:80").kind(), parent("10.96.0.1:80").name()), ("Service", "web"));
    assert_eq!(parent("10.1.0.1:8080").kind(), "Pod");
    assert_eq!(
        (parent("192.0.2.1:443").kind(), parent("192.0.2.1:443").name()),
        ("default", "forward")
    );
    let named = |name: &str| world.outbound(&Target::Authority(name.into()), "b").is_some();
    assert!(named("web.a.svc.cluster.local:80") && !named("nobody.a.svc.cluster.local:80"));
    let profile = world.profile(&address("10.96.0.1:80"));
    assert_eq!(profile.name, "web.a.svc.cluster.local");
    assert!(world.profile(&address("10.1.0.1:1")).endpoint.is_some());
    assert_eq!(world.profile(&address("192.0.2.1:1")), outbound::Profile::default());
}

#[test]
fn an_address_belongs_to_its_latest_pod() {
    let leaving = pod("a", "a-old", "10.1.0.1", MESHED, true)
        .replace("{name: a-old,", "{name: a-old, deletionTimestamp: \"2026-01-01T00:00:00Z\",");
    let finished = pod("a", "b-done", "10.1.0.1", MESHED, true)
        .replace("status: {", "status: {phase: Succeeded, ");
    let check = |others: &[&str], expected: &str| {
        let rule = format!("http:  -> [10.1.0.1:80 a/{expected}]");
        check_outbound(&world(&others.concat()), "10.1.0.1:80", "a", "detect", &[&rule]);
    };
    let new = |name: &str, ready: bool| pod("a", name, "10.1.0.1", "", ready);
    check(&[&leaving, &finished, &new("c-new", true)], "c-new");
    check(&[&leaving, &new("c-new", false)], "c-new");
    // Whatever their names are.
    let leaving = leaving.replace("a-old", "d-old");
    check(&[&new("c-new", true), &leaving], "c-new");
    check(&[&new("c-new", false), &leaving], "c-new");
    check(&[&new("c-new", false), &new("e-new", true)], "e-new");
}

#[test]
fn opaque_ports_of_pods_namespaces_and_services() {
    let text = [
        SHOP.to_owned(),
        pod("shop", "redis", "10.1.0.1", MESHED, true),
        pod(
            "shop",
            "own",
            "10.1.0.2",
            &format!("{MESHED}, config.linkerd.io/opaque-ports: 'web, x,'"),
            true,
        ),
        service("shop", "web", "10.96.0.1", ""),
        slice("shop", "web", &[("10.1.0.2", "own", "")]),
        service("shop", "cache", "10.96.0.2", "").replace("port: 80,", "port: 6379,"),
    ];
    let world = world(&text.concat());
    // The Service's only endpoint is bytes, so the Service is.
    check_outbound(&world, "10.96.0.1:80", "a", "opaque", &["web.shop:80"]);
    check_outbound(&world, "10.96.0.2:6379", "a", "opaque", &["cache.shop:6379"]);
    check_outbound(
        &world,
        "10.1.0.1:6379",
        "a",
        "opaque",
        &["[10.1.0.1:6379 shop/redis ns/shop/sa/redis-account opaque]"],
    );
    // The pod's annotation replaces the namespace's.
    check_outbound(
        &world,
        "10.1.0.2:6379",
        "a",
        "detect",
        &["http:  -> [10.1.0.2:6379 shop/own ns/shop/sa/own-account]"],
    );
    check_endpoints(
        &world,
        "web.shop.svc:80",
        Some(&["10.1.0.2:8080 shop/own ns/shop/sa/own-account opaque"]),
    );
    check_problems(
        &world,
        &[
            "Pod shop/own: metadata.annotations[config.linkerd.io/opaque-ports]: \"x\" is not a port",
        ],
    );
}

/// The injector reads the same words by the same names (`leno_inject::annotation`).
#[test]
fn ports_of_a_namespace_by_name_are_those_of_each_pod_and_service() {
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a, annotations: {config.leno.dev/opaque-ports: 'web, mysql, 25 - 30', config.leno.dev/skip-inbound-ports: admin}}\n";
    let text = [
        namespace.to_owned(),
        pod("a", "one", "10.1.0.1", MESHED, true),
        pod("a", "two", "10.1.0.2", MESHED, true)
            .replace("name: web, containerPort: 8080", "name: mysql, containerPort: 3306")
            .replace("3306}", "3306}, {name: admin, containerPort: 9000}"),
        service("a", "db", "10.96.0.1", "")
            .replace("http", "mysql")
            .replace("targetPort: web", "targetPort: 81"),
        service("a", "other", "10.96.0.2", "").replace("targetPort: web", "targetPort: 81"),
    ];
    let world = world(&text.concat());
    let check = |pod: &str, port: u16, opaque: bool, skipped: bool| {
        let id = WorkloadId { namespace: "a".into(), pod: pod.into() };
        let pod = world.pod(&id).unwrap();
        assert_eq!((pod.opaque.contains(port), pod.skip_inbound.contains(port)), (opaque, skipped));
    };
    check("one", 8080, true, false);
    check("one", 3306, false, false);
    check("one", 28, true, false);
    check("one", 9000, false, false);
    check("two", 8080, false, false);
    check("two", 3306, true, false);
    check("two", 9000, false, true);
    check_outbound(&world, "10.96.0.1:80", "a", "opaque", &["db.a:80"]);
    check_outbound(&world, "10.96.0.2:80", "a", "detect", &["http:  -> other.a:80"]);
    check_problems(&world, &[]);
}

#[test]
fn inbound_policy_of_pod_namespace_and_default() {
    let text = [
        SHOP.to_owned(),
        pod("shop", "plain", "10.1.0.1", MESHED, true),
        pod("shop", "closed", "10.1.0.2", "leno.dev/default-inbound-policy: deny", true),
        pod("shop", "typo", "10.1.0.3", "leno.dev/default-inbound-policy: denny", true),
        pod(
            "shop",
            "linkerds",
            "10.1.0.6",
            "config.linkerd.io/default-inbound-policy: cluster-authenticated",
            true,
        ),
        pod("a", "open", "10.1.0.4", "", true),
        service("a", "web", "10.96.0.1", ", appProtocol: kubernetes.io/h2c"),
        service("a", "web2", "10.96.0.2", ", appProtocol: http"),
        service("shop", "web", "10.96.0.3", ", appProtocol: http"),
        pod("shop", "bare", "10.1.0.5", MESHED, true),
        service("evil", "x", "10.96.0.4", ", appProtocol: kubernetes.io/h2c"),
        slice("evil", "x", &[("10.1.0.5", "-", "")]).replace("port: 8080", "port: 9090"),
    ];
    let world = world(&text.concat());
    let check = |namespace: &str, pod: &str, port: u16, expected: &str| {
        let id = WorkloadId { namespace: namespace.into(), pod: pod.into() };
        let policy = world.inbound(&id, port).map(|policy| {
            let message = leno_api::inbound::to_message(&policy);
            assert_eq!(leno_api::inbound::from_message(&message).unwrap(), policy);
            let protocol = match policy.protocol {
                InboundProtocol::Detect { .. } => "detect".to_owned(),
                other => format!("{other:?}").to_lowercase(),
            };
            format!("{protocol} {} {}", policy.server.name(), policy.authorizations.len())
        });
        assert_eq!(policy.as_deref().unwrap_or("none"), expected, "{pod}:{port}");
    };
    check("shop", "plain", 8080, "http1 all-authenticated 1");
    check("shop", "plain", 6379, "opaque all-authenticated 1");
    check("shop", "closed", 1, "detect deny 0");
    check("shop", "typo", 1, "detect deny 0");
    check("shop", "linkerds", 1, "detect cluster-authenticated 1");
    // Two Services that disagree declare nothing.
    check("a", "open", 8080, "detect all-unauthenticated 1");
    // Nor does one that somebody else has made for it.
    check("shop", "bare", 9090, "detect all-authenticated 1");
    check("a", "gone", 8080, "none");
    check_problems(
        &world,
        &[
            "Pod shop/typo: metadata.annotations[leno.dev/default-inbound-policy]: \"denny\" is not a valid policy",
        ],
    );
}

/// The node's addresses open the port of a probe that cannot be read, and no other.
#[test]
fn the_node_is_admitted_to_ports_of_probes_that_cannot_be_read() {
    let check = |policy: &str, annotations: &str, probe: &str, port: u16, expected: &[&str]| {
        let text = format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: a, annotations: {{leno.dev/default-inbound-policy: {policy}{annotations}}}}}\n\
             spec: {{containers: [{{name: c, ports: [{{name: web, containerPort: 8080}}], livenessProbe: {{{probe}}}}}]}}\n\
             status: {{podIP: 10.1.0.1, hostIP: 192.0.2.7, hostIPs: [{{ip: 192.0.2.7}}, {{ip: \"2001:db8::7\"}}]}}\n"
        );
        let id = WorkloadId { namespace: "a".into(), pod: "p".into() };
        let policy = world(&text).inbound(&id, port).unwrap();
        let of_node = policy.authorizations.iter().filter(|one| one.resource.name() == "probe");
        let networks = of_node.flat_map(|one| &one.networks).map(|one| one.net.to_string());
        assert_eq!(networks.collect::<Vec<_>>(), expected, "{policy:?} {probe}");
    };
    let node = &["192.0.2.7/32", "2001:db8::7/128"];
    let https = "httpGet: {path: /, port: 8080, scheme: HTTPS}";
    check("deny", "", https, 8080, node);
    check("all-authenticated", "", https, 8080, node);
    check("deny", "", "tcpSocket: {port: web}", 8080, node);
    let opaque = ", config.leno.dev/opaque-ports: '8080'";
    check("deny", opaque, "httpGet: {path: /, port: 8080}", 8080, node);
    // Another port, another host, a probe that can be read, and a policy that admits everybody.
    check("deny", "", https, 8081, &[]);
    check("deny", "", "tcpSocket: {port: 8080, host: example.com}", 8080, &[]);
    check("deny", "", "httpGet: {path: /, port: 8080}", 8080, &[]);
    check("deny", "", "grpc: {port: 8080}", 8080, &[]);
    check("all-unauthenticated", "", https, 8080, &[]);
}

/// What the kubelet asks passes under a policy that lets in nobody else, and exactly that.
#[test]
fn probes_are_let_in() {
    let check = |policy: &str, protocol: &str, container: &str, port: u16, expected: &[&str]| {
        let text = format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: a, annotations: {{leno.dev/default-inbound-policy: {policy}}}}}\n\
             spec: {{containers: [{{name: c, ports: [{{name: web, containerPort: 8080}}], {container}}}]}}\n\
             status: {{podIP: 10.1.0.1, conditions: [{{type: Ready, status: \"True\"}}]}}\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {{name: s, namespace: a}}\n\
             spec: {{clusterIP: 10.96.0.1, selector: {{}}, ports: [{{port: 8080, appProtocol: {protocol}}}]}}\n"
        )
        .replace("selector: {}", "selector: {app: p}")
        .replace("name: p, namespace: a,", "name: p, namespace: a, labels: {app: p},");
        let world = world(&text);
        let id = WorkloadId { namespace: "a".into(), pod: "p".into() };
        let policy = world.inbound(&id, port).unwrap();
        let message = leno_api::inbound::to_message(&policy);
        assert_eq!(leno_api::inbound::from_message(&message).unwrap(), policy);
        assert!(leno_api::inbound::unserved(&message).is_empty());
        let mut shown = Vec::new();
        for route in &policy.routes {
            assert_eq!((route.resource.name(), route.authorizations.len()), ("probe", 1));
            for one in &route.matches {
                let Some(PathMatch::Exact(path)) = &one.path else { panic!("{one:?}") };
                shown.push(format!("{} {path}", one.method.as_deref().unwrap_or("*")));
            }
        }
        assert_eq!(shown, expected, "{container}");
    };
    let get = "livenessProbe: {httpGet: {path: /healthz, port: 8080}}";
    check("all-unauthenticated", "x", get, 8080, &[]);
    check("all-authenticated", "x", get, 8080, &["GET /healthz"]);
    check("deny", "http", get, 8080, &["GET /healthz"]);
    check("deny", "x", get, 8081, &[]);
    check("deny", "tcp", get, 8080, &[]);
    check("deny", "grpc", get, 8080, &[]);
    let all = "livenessProbe: {httpGet: {path: 'live?full=1', port: web}}, \
               readinessProbe: {httpGet: {port: web}}, startupProbe: {httpGet: {path: /live, port: 8080}}";
    check("deny", "x", all, 8080, &["GET /", "GET /live"]);
    let grpc = "readinessProbe: {grpc: {port: 8080, service: a}}";
    check("deny", "x", grpc, 8080, &["* /grpc.health.v1.Health/Check"]);
    check("deny", "grpc", grpc, 8080, &["* /grpc.health.v1.Health/Check"]);
    // What is no request to this pod in plain text.
    for none in [
        "livenessProbe: {httpGet: {path: /, port: 8080, scheme: HTTPS}}",
        "livenessProbe: {httpGet: {path: /, port: 8080, host: example.com}}",
        "livenessProbe: {httpGet: {path: /, port: nowhere}}",
        "livenessProbe: {tcpSocket: {port: 8080}}",
        "livenessProbe: {exec: {command: [a]}}",
        "lifecycle: {preStop: {httpGet: {path: /stop, port: 8080}}}",
    ] {
        check("deny", "x", none, 8080, &[]);
    }
}

/// On Kubernetes who says that there is a proxy must have one.
#[test]
fn a_proxy_is_believed_where_it_can_be_seen() {
    let check = |containers: &str, on_kubernetes: bool, expected: &str, problem: &[&str]| {
        let text = [
            pod("a", "web", "10.1.0.1", MESHED, true)
                .replace("containers: [", &format!("{containers}, containers: [")),
            service("a", "web", "10.96.0.1", ""),
        ];
        let names = MeshNames { proxies_are_containers: on_kubernetes, ..MeshNames::default() };
        let world = World::build(&read(&text.concat()), &names, 1);
        check_endpoints(&world, "web.a.svc:80", Some(&[expected]));
        check_problems(&world, problem);
    };
    let (meshed, plain) = ("10.1.0.1:8080 a/web ns/a/sa/web-account", "10.1.0.1:8080 a/web");
    let sidecar = "initContainers: [{name: leno-init}, {name: leno-proxy, restartPolicy: Always}]";
    let other = "initContainers: [{name: leno-proxy2}]";
    check(sidecar, true, meshed, &[]);
    check(sidecar, false, meshed, &[]);
    check(other, false, meshed, &[]);
    check(
        other,
        true,
        plain,
        &["Pod a/web: metadata.annotations[leno.dev/meshed]: the annotation claims a proxy"],
    );
}

/// A pod's rules were installed when it was made; what annotations say since is for those to come.
#[test]
fn ports_that_are_not_captured_are_those_of_the_proxy_that_runs() {
    let check = |namespace: &str, own: &str, variable: &str, expected: &str| {
        let proxy = format!(
            "initContainers: [{{name: leno-init}}, {{name: leno-proxy, env: [{variable}]}}], containers: ["
        );
        let text = [
            format!(
                "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: a, annotations: {{{namespace}}}}}\n"
            ),
            pod("a", "web", "10.1.0.1", own, true).replace("containers: [", &proxy),
            service("a", "web", "10.96.0.1", ""),
        ];
        let names = MeshNames { proxies_are_containers: true, ..MeshNames::default() };
        let world = World::build(&read(&text.concat()), &names, 1);
        check_endpoints(&world, "web.a.svc:80", Some(&[expected]));
    };
    let (meshed, plain) = ("10.1.0.1:8080 a/web ns/a/sa/web-account", "10.1.0.1:8080 a/web");
    let skip = "config.leno.dev/skip-inbound-ports: '8080'";
    let skipped = "{name: LENO_PROXY_SKIP_INBOUND_PORTS, value: '25,8000-8100'}";
    check("", MESHED, "", meshed);
    check(skip, MESHED, "", meshed);
    check("", &format!("{MESHED}, {skip}"), "", meshed);
    check(skip, MESHED, skipped, plain);
    check("", MESHED, skipped, plain);
    // Who may write annotations takes no encryption off a pod that runs.
    check("", "", "", meshed);
}

#[test]
fn a_node_local_service_is_served_on_the_clients_node() {
    let on = |node: &str, name: &str, ip: &str| {
        let node = format!("spec: {{nodeName: {node}, ");
        pod("a", name, ip, "", true).replace("spec: {", &node)
    };
    let local = service("a", "web", "10.96.0.1", "")
        .replace("spec: {", "spec: {internalTrafficPolicy: Local, ");
    let client = on("n2", "client", "10.1.0.9").replace("app: web", "app: client");
    let lonely = on("n3", "lonely", "10.1.0.8").replace("app: web", "app: client");
    let pods = [on("n1", "one", "10.1.0.1"), on("n2", "two", "10.1.0.2"), client, lonely].concat();
    let check = |service: &str, client: Option<&str>, expected: &[&str]| {
        let world = world(&[&pods, service].concat());
        check_problems(&world, &[]);
        let client = client.map(|pod| WorkloadId { namespace: "a".into(), pod: pod.into() });
        let set = world.endpoints("web.a.svc:80", client.as_ref());
        let shown: Vec<_> = set.endpoints.iter().map(|e| e.address.ip().to_string()).collect();
        assert_eq!(shown, expected, "{client:?}");
        assert!(set.exists);
    };
    check(&local, Some("client"), &["10.1.0.2"]);
    check(&local, Some("one"), &["10.1.0.1"]);
    check(&local, Some("lonely"), &[]);
    check(&local, Some("unknown"), &["10.1.0.1", "10.1.0.2"]);
    check(&local, None, &["10.1.0.1", "10.1.0.2"]);
    check(&local.replace("Local", "Cluster"), Some("client"), &["10.1.0.1", "10.1.0.2"]);
}

/// A slice may be made by hand, for a pod of another namespace.
#[test]
fn endpoints_name_pods_of_their_own_namespace_or_another() {
    let check = |target: &str, expected: &[&str]| {
        let slice = slice("a", "web", &[("10.1.0.1", "one", "")])
            .replace("kind: Pod, name: one", &format!("kind: Pod, name: one{target}"));
        let text =
            [service("a", "web", "10.96.0.1", ""), pod("b", "one", "10.1.0.1", "", true), slice];
        check_endpoints(&world(&text.concat()), "web.a.svc:80", Some(expected));
    };
    check("", &[]);
    check(", namespace: a", &[]);
    check(", namespace: b", &["10.1.0.1:8080 b/one"]);
}

#[test]
fn one_malformed_object_does_not_stall_the_rest() {
    let text = [
        service("a", "bad", "10.96.0.300", "").replace("port: 80,", "port: 99999,"),
        service("a", "twice", "10.96.0.1", "").replace("spec: {", "spec: {sessionAffinity: ClientIP, "),
        service("a", "web", "10.96.0.1", ""),
        pod("a", "odd", "nowhere", MESHED, true),
        pod("a", "wrong-account", "10.1.0.9", MESHED, true).replace("wrong-account-account", "'a b'"),
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: out, namespace: a}\nspec: {type: ExternalName, externalName: example.com}\n".to_owned(),
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: lost}\naddressType: IPv4\nendpoints: []\n".to_owned(),
        pod("a", "one", "10.1.0.1", "", true),
    ];
    let world = world(&text.concat());
    check_endpoints(
        &world,
        "web.a.svc:80",
        Some(&["10.1.0.1:8080 a/one", "10.1.0.9:8080 a/wrong-account"]),
    );
    check_problems(
        &world,
        &[
            "Pod a/odd: status.podIP: \"nowhere\" is not an IP address",
            "Pod a/wrong-account: spec.serviceAccountName: \"spiffe://",
            "Pod a/wrong-account: spec.serviceAccountName: the pod has no identity",
            "EndpointSlice default/lost: metadata.labels[kubernetes.io/service-name]: missing",
            "Service a/bad: spec.ports[0].port: 99999 is not a port",
            "Service a/bad: spec.clusterIP: \"10.96.0.300\" is not an IP address",
            "Service a/out: spec.type: the mesh ignores",
            "Service a/twice: spec.sessionAffinity: sessionAffinity ClientIP has no effect",
            "Service a/web: spec.clusterIP: 10.96.0.1 is also the address of a/twice",
        ],
    );
}
