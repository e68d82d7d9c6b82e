//! Rows, who may acknowledge them, and the answer that they make.

use super::answer::{Answer, Proxy};
use super::objects::Reaches;
use super::*;
use crate::source::kubernetes::tests::by_events;
use crate::world::depend::Named;
use crate::world::{MeshNames, World};

const OBJECTS: &str = "---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop}
spec: {serviceAccountName: web, containers: []}
status: {podIP: 10.1.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: old-1, namespace: shop}
spec: {serviceAccountName: old, containers: []}
status: {podIP: 10.1.0.2}
";

fn world(version: u64) -> World {
    World::build(&by_events(OBJECTS), &MeshNames::default(), version)
}

fn id(account: &str) -> SpiffeId {
    SpiffeId::service_account("cluster.local", "shop", account).unwrap()
}

fn pod(name: &str) -> WorkloadId {
    WorkloadId { namespace: "shop".into(), pod: name.into() }
}

fn said(watch: &Watch, messages: u64) -> Acknowledgement {
    Acknowledgement { stream: watch.number().unwrap(), messages, is_rejected: false }
}

/// `pod watches behind: what seconds, …`
fn shown(answer: &Answer) -> Vec<String> {
    let one = |proxy: &Proxy| {
        let waiting = proxy.waiting.iter().map(|one| format!("{} {}", one.what, one.seconds));
        let waiting = waiting.collect::<Vec<_>>().join(", ");
        format!("{} {} {}: {waiting}", proxy.pod, proxy.watches, proxy.behind)
    };
    answer.proxies.iter().map(one).collect()
}

#[test]
fn who_waits_for_what_is_named() {
    let (applied, now) = (Applied::default(), Instant::now());
    let later = now + std::time::Duration::from_secs(3);
    let target = Target::Authority("web.shop.svc.cluster.local:80".into());
    let routes = Watched::Outbound(Target::Address("10.96.0.1:80".parse().unwrap()));
    let routes = applied.watch(&id("web"), pod("web-1"), routes, true);
    let port = applied.watch(&id("web"), pod("web-1"), Watched::Inbound(8080), true);
    let silent = applied.watch(&id("old"), pod("old-1"), Watched::Endpoints(target), false);
    // One that lies about its pod, and one whose pod does not exist, are not counted.
    let _liar = applied.watch(&id("old"), pod("web-1"), Watched::Inbound(1), true);
    let _early = applied.watch(&id("web"), pod("web-9"), Watched::Inbound(1), true);
    for watch in [&routes, &port, &silent] {
        watch.looked(1, 1, now);
    }
    let check = |version: u64, expected: &[&str]| {
        let answer = Answer::new(&world(version), &applied, later);
        assert_eq!(shown(&answer), expected);
        answer
    };
    let both = "web-1 2 2: the policy of port 8080 3, the routes of Service shop/web port 80 3";
    check(1, &["old-1 1 0: ", both]);
    assert_eq!(silent.number(), None);
    applied.acknowledge(&id("web"), &[said(&routes, 1)], later).unwrap();
    check(1, &["old-1 1 0: ", "web-1 2 1: the policy of port 8080 3"]);
    let before = applied.changes();
    applied.acknowledge(&id("web"), &[said(&port, 1)], later).unwrap();
    assert!(applied.changes() > before);
    let answer = check(1, &["old-1 1 0: ", "web-1 2 0: "]);
    let value = answer.shown();
    assert_eq!(
        (&value["total"], &value["applied"], &value["silent"]),
        (&1.into(), &1.into(), &1.into())
    );
    // A stream that has not looked at the newest world has not applied it.
    drop(port);
    check(2, &["old-1 1 0: ", "web-1 1 1: the routes of Service shop/web port 80 0"]);
    routes.looked(2, 0, later);
    check(2, &["old-1 1 0: ", "web-1 1 0: "]);
    // Another identity's streams are not acknowledged.
    assert_eq!(
        applied.acknowledge(&id("old"), &[said(&routes, 1)], now),
        Err(NotOwn(routes.number().unwrap()))
    );
    drop((routes, silent));
    check(2, &[]);
}

#[test]
fn a_proxy_of_two_replicas_is_one() {
    let replicas = [Applied::default(), Applied::default()];
    let now = Instant::now();
    let watches = replicas.each_ref().map(|applied| {
        let watch = applied.watch(&id("web"), pod("web-1"), Watched::Inbound(80), true);
        watch.looked(1, 1, now);
        watch
    });
    replicas[0].acknowledge(&id("web"), &[said(&watches[0], 1)], now).unwrap();
    let [a, b] = replicas.map(|applied| Answer::new(&world(1), &applied, now));
    let merged = a.clone().merge(b.clone());
    assert_eq!(shown(&merged), ["web-1 2 1: the policy of port 80 0"]);
    assert_eq!(merged, b.merge(a));
    let json = serde_json::to_string(&merged).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&json).unwrap(), merged);
    assert_eq!(shown(&merged.of_namespace("other")), [""; 0]);
}

const POLICIES: &str = "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: on-service, namespace: shop, uid: r, generation: ROUTE}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata: {name: http, namespace: shop, uid: s, generation: 1}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: HTTP/1}
---
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata: {name: unused, namespace: shop, uid: u, generation: 1}
spec: {podSelector: {matchLabels: {app: nobody}}, port: 8080}
---
apiVersion: policy.leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: clients, namespace: shop, uid: a, generation: POLICY}
spec:
  targetRef: {group: policy.leno.dev, kind: Server, name: http}
  requiredAuthenticationRefs: [{kind: ServiceAccount, name: web}]
---
apiVersion: policy.leno.dev/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: rate, namespace: shop, uid: l, generation: 1}
spec:
  targetRef: {group: policy.leno.dev, kind: Server, name: http}
  total: {requestsPerSecond: 10}
";

/// `HTTPRoute on-service 1/2 shop/web-1`, for each object that has proxies.
fn reached(world: &World, applied: &Applied, now: Instant) -> Vec<String> {
    let reaches = Reaches::new(world, applied, now);
    let all = world.verdicts().iter().map(|one| &one.route);
    let all = all.chain(world.object_verdicts().map(|one| &one.key));
    let shown = |key: &crate::source::Key| {
        let reach = &reaches.0[&Named::of_key(key)];
        let behind = reach.behind.iter().map(|one| format!(" {}", one.pod));
        let silent = if reach.silent > 0 { format!(" +{}", reach.silent) } else { String::new() };
        let (behind, name) = (behind.collect::<String>(), &key.name);
        let text = format!("{name} {}/{}{silent}{behind}", reach.applied, reach.total);
        (reach.total + reach.silent > 0).then_some(text)
    };
    let mut all: Vec<String> = all.filter_map(shown).collect();
    all.sort();
    all
}

/// Which proxies have which generation of routes and policies.
#[test]
fn objects_count_the_proxies_that_use_them() {
    let web = |name: &str| {
        let pod = OBJECTS.split("---\n").find(|one| one.contains("web-1")).unwrap();
        let labelled = pod.replace("name: web-1,", &format!("name: {name}, labels: {{app: web}},"));
        format!("---\n{labelled}")
    };
    let pods = [
        OBJECTS.split("---\napiVersion: v1\nkind: Pod").next().unwrap(),
        &web("web-1"),
        &web("web-2"),
    ];
    let world = |version: u64, route: &str, policy: &str| {
        let policies = POLICIES.replace("ROUTE", route).replace("POLICY", policy);
        let world =
            World::build(&by_events(&(pods.concat() + &policies)), &MeshNames::default(), version);
        assert!(world.problems.is_empty(), "{:#?}", world.problems);
        world
    };
    let (applied, now) = (Applied::default(), Instant::now());
    let target = || Watched::Outbound(Target::Address("10.96.0.1:80".parse().unwrap()));
    let watches = [
        applied.watch(&id("web"), pod("web-1"), target(), true),
        applied.watch(&id("web"), pod("web-1"), Watched::Inbound(8080), true),
        applied.watch(&id("web"), pod("web-2"), Watched::Inbound(8080), true),
        // Another port, which no Server selects; and endpoints, which no route changes.
        applied.watch(&id("web"), pod("web-2"), Watched::Inbound(9090), true),
        applied.watch(
            &id("web"),
            pod("web-2"),
            Watched::Endpoints(Target::Authority("web.shop.svc.cluster.local:80".into())),
            true,
        ),
        applied.watch(&id("web"), pod("web-2"), target(), false),
    ];
    let first = world(1, "1", "1");
    let check =
        |world: &World, expected: &[&str]| assert_eq!(reached(world, &applied, now), expected);
    watches.iter().for_each(|watch| watch.looked(1, 1, now));
    check(
        &first,
        &[
            "clients 0/2 shop/web-1 shop/web-2",
            "http 0/2 shop/web-1 shop/web-2",
            "on-service 0/1 +1 shop/web-1",
            "rate 0/2 shop/web-1 shop/web-2",
        ],
    );
    for watch in &watches[..3] {
        applied.acknowledge(&id("web"), &[said(watch, 1)], now).unwrap();
    }
    check(&first, &["clients 2/2", "http 2/2", "on-service 1/1 +1", "rate 2/2"]);
    // The policy changes: what else is on the port has not changed, and is still applied.
    let second = world(2, "1", "2");
    watches[0].looked(2, 0, now);
    watches[1..3].iter().for_each(|watch| watch.looked(2, 1, now));
    check(
        &second,
        &["clients 0/2 shop/web-1 shop/web-2", "http 2/2", "on-service 1/1 +1", "rate 2/2"],
    );
    applied.acknowledge(&id("web"), &[said(&watches[2], 2)], now).unwrap();
    check(&second, &["clients 1/2 shop/web-1", "http 2/2", "on-service 1/1 +1", "rate 2/2"]);
    // Two replicas.
    let other = Applied::default();
    let watch = other.watch(&id("web"), pod("web-2"), Watched::Inbound(8080), true);
    watch.looked(2, 0, now);
    let [a, b] = [&applied, &other].map(|one| Reaches::new(&second, one, now));
    let merged = serde_json::to_string(&a.merge(b)).unwrap();
    let merged: Reaches = serde_json::from_str(&merged).unwrap();
    let key = second.object_verdicts().find(|one| &*one.key.name == "clients").unwrap();
    let reach = &merged.0[&Named::of_key(&key.key)];
    assert_eq!((reach.applied, reach.total), (2, 3));
}
