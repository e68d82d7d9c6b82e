//! Rows, who may acknowledge them, and the answer that they make.

use super::answer::{Answer, Proxy};
use super::*;
use crate::source::kubernetes::tests::by_events;
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
