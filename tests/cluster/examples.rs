//! The examples, as they are, in the mesh: every hop is mutual TLS with the right identities, and nothing on the node's wire can be read.

use crate::ground::load::Load;
use crate::ground::place::Place;
use crate::ground::worker::Worker;
use crate::ground::{kubectl, proxy};
use leno_tests::sniff::Sniffer;
use std::fs::File;

/// A hop: who asks, who is asked, and their accounts.
struct Hop {
    client: &'static str,
    server: &'static str,
}

const fn hop(client: &'static str, server: &'static str) -> Hop {
    Hop { client, server }
}

/// What nobody but the applications may read.
const SECRET: &str = "leno-secret-1f7ac093";
/// Where bookinfo's services are, and so where connections between pods go: what redirects them to a proxy is in the pod itself.
const BOOKINFO_PORT: u16 = 9080;

#[test]
fn bookinfo_is_meshed_in_every_hop() {
    let place = Place::meshed("leno-test-bookinfo");
    place.kubectl(&["apply", "-f", &example("bookinfo")]).expect("bookinfo");
    for version in
        ["productpage-v1", "details-v1", "ratings-v1", "reviews-v1", "reviews-v2", "reviews-v3"]
    {
        place.rolled_out(&format!("deployment/{version}"));
    }
    let sniffer = node_wire();
    let url = format!("http://productpage:9080/productpage?{SECRET}");
    let load = Load::start_with(&place, &url, 50, 10, &[&format!("--header=end-user: {SECRET}")]);
    let outcome = load.end();
    let packets = sniffer.stop();
    println!("bookinfo: {outcome}");
    assert_eq!((outcome.sent, outcome.failed), (500, 0), "{outcome}");
    assert_eq!(packets.holding(SECRET.as_bytes()), 0, "packets hold what is secret");
    let records = packets.payloads_to(BOOKINFO_PORT);
    let hellos = records.filter(|bytes| bytes.starts_with(&[22, 3])).count();
    assert!(
        hellos >= 4,
        "the capture saw {hellos} TLS handshakes: does it look at the right wire?"
    );
    check(
        &place,
        &[
            hop("load", "productpage:bookinfo-productpage"),
            hop("productpage:bookinfo-productpage", "details:bookinfo-details"),
            hop("productpage:bookinfo-productpage", "reviews:bookinfo-reviews"),
            hop("reviews:bookinfo-reviews", "ratings:bookinfo-ratings"),
        ],
    );
}

#[test]
fn emojivoto_is_meshed_in_every_hop() {
    // Its manifests name their namespace.
    let place = Place::meshed("emojivoto");
    place.kubectl(&["apply", "-f", &example("emojivoto")]).expect("emojivoto");
    for name in ["web", "emoji", "voting", "vote-bot"] {
        place.rolled_out(&format!("deployment/{name}"));
    }
    let outcome = Load::start(&place, "http://web:8080/api/vote?choice=:joy:", 50, 10).end();
    println!("emojivoto: {outcome}");
    assert_eq!((outcome.sent, outcome.failed), (500, 0), "{outcome}");
    check(
        &place,
        &[hop("load", "web"), hop("vote-bot", "web"), hop("web", "emoji"), hop("web", "voting")],
    );
}

#[test]
fn the_capture_sees_what_is_not_meshed() {
    let place = Place::plain("leno-test-plain");
    place.apply(&Worker::new("web").objects());
    place.rolled_out("deployment/web");
    let sniffer = node_wire();
    let outcome = Load::start(&place, &format!("http://web/?{SECRET}"), 20, 2).end();
    let seen = sniffer.stop().holding(SECRET.as_bytes());
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert!(seen >= 40, "{seen} packets of 40 requests could be read");
}

/// Each hop was seen by its server with the client's identity, and no proxy sent anything in plain text. `name` or `name:account`.
fn check(place: &Place, hops: &[Hop]) {
    let account = |side: &str| side.split_once(':').map_or(side, |(_, account)| account).to_owned();
    let label = |side: &str| format!("app={}", side.split_once(':').map_or(side, |(name, _)| name));
    for Hop { client, server } in hops {
        let client = proxy::identity(place, &account(client));
        let server_identity = proxy::identity(place, &account(server));
        let pods = place.pods(&label(server));
        let mut seen = 0.0;
        for pod in &pods {
            let metrics = proxy::metrics(place, pod).expect("metrics");
            let labels =
                [("direction", "inbound"), ("tls", "true"), ("client_id", client.as_str())];
            seen += metrics.sum("response_total", &labels);
        }
        println!("{client} -> {server_identity}: {seen} responses with mutual TLS");
        assert!(seen > 0.0, "{client} -> {server}: not seen by {pods:?}");
    }
    for pod in place.pods("app") {
        let metrics = proxy::metrics(place, &pod).expect("metrics");
        let outbound = metrics.sum("response_total", &[("direction", "outbound")]);
        let meshed = metrics.sum("response_total", &[("direction", "outbound"), ("tls", "true")]);
        assert!((outbound - meshed).abs() < 0.5, "{pod}: {}", metrics.about("response_total"));
    }
}

fn example(name: &str) -> String {
    format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Every packet on the first node: of the cluster that `cargo xtask test-cluster` boots, whose nodes are namespaces of this machine.
fn node_wire() -> Sniffer {
    let nodes = kubectl::run(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
    let nodes = nodes.expect("nodes");
    let name = nodes.split(' ').next().expect("a node");
    let path = format!("/run/netns/k8s-{name}");
    let namespace = File::open(&path).unwrap_or_else(|error| {
        panic!("{path}: {error}; looking at a node's wire needs root on its machine")
    });
    Sniffer::start_in(&namespace).expect("a capture")
}
