//! The examples, as they are, in the mesh: every hop is mutual TLS with the right identities, and nothing on the node's wire can be read.

use crate::ground::load::Load;
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::{PORT, Worker};
use crate::ground::{kubectl, proxy};
use leno_tests::sniff::{Packets, Sniffer};
use leno_tests::wait::until;
use std::fs::File;
use std::thread::sleep;
use std::time::Duration;

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
/// The same of emojivoto's.
const EMOJIVOTO_PORT: u16 = 8080;
/// How HTTP/2 begins, and so gRPC that nobody has encrypted. Its headers are packed, so no word of theirs could be found.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";
/// How TLS begins.
const HANDSHAKE: &[u8] = &[22, 3];

#[test]
fn bookinfo_is_meshed_in_every_hop() {
    let place = Place::meshed("leno-test-bookinfo");
    place.kubectl(&["apply", "-f", &example("bookinfo")]).expect("bookinfo");
    for version in
        ["productpage-v1", "details-v1", "ratings-v1", "reviews-v1", "reviews-v2", "reviews-v3"]
    {
        place.rolled_out(&format!("deployment/{version}"));
    }
    let wire = Wire::start();
    let url = format!("http://productpage:9080/productpage?{SECRET}");
    let load = Load::start_with(&place, &url, 50, 10, &[&format!("--header=end-user: {SECRET}")]);
    proved(&place, "load", "bookinfo-productpage");
    let outcome = load.end();
    println!("bookinfo: {outcome}");
    assert_eq!((outcome.sent, outcome.failed), (500, 0), "{outcome}");
    wire.stayed_secret(BOOKINFO_PORT);
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
    // From before there is anything: the hops of gRPC are opened once.
    let wire = Wire::start();
    place.kubectl(&["apply", "-f", &example("emojivoto")]).expect("emojivoto");
    for name in ["web", "emoji", "voting", "vote-bot"] {
        place.rolled_out(&format!("deployment/{name}"));
    }
    let url = format!("http://web:8080/api/vote?choice={SECRET}");
    let load = Load::start(&place, &url, 50, 10);
    proved(&place, "load", "web");
    let outcome = load.end();
    println!("emojivoto: {outcome}");
    assert_eq!((outcome.sent, outcome.failed), (500, 0), "{outcome}");
    wire.stayed_secret(EMOJIVOTO_PORT);
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
    let wire = Wire::start();
    for url in [format!("http://web/?{SECRET}"), "h2c://web/".to_owned()] {
        let outcome = Load::start(&place, &url, 20, 2).end();
        assert_eq!(outcome.failed, 0, "{url}: {outcome}");
    }
    let packets = wire.stop();
    let seen = packets.holding(SECRET.as_bytes());
    assert!(seen >= 40, "{seen} packets of 40 requests could be read");
    assert!(begin(&packets, PORT, PREFACE) > 0, "a connection of HTTP/2 was not seen");
}

/// Each hop was seen by its server with the client's identity and by its client with the server's, and no proxy sent anything in
/// plain text. `name` or `name:account`.
fn check(place: &Place, hops: &[Hop]) {
    let account = |side: &str| side.split_once(':').map_or(side, |(_, account)| account).to_owned();
    let label = |side: &str| format!("app={}", side.split_once(':').map_or(side, |(name, _)| name));
    for Hop { client, server } in hops {
        let sum = |pods: &[String], of: &dyn Fn(&str) -> f64| -> f64 {
            pods.iter().fold(0.0, |sum, pod| sum + of(pod))
        };
        let servers = place.pods(&label(server));
        let seen = sum(&servers, &|pod| proxy::from(place, pod, &account(client)));
        assert!(seen > 0.0, "{client} -> {server}: not seen by {servers:?}");
        // The load has ended; it was looked at before.
        let clients = place.pods(&label(client));
        let proved =
            sum(&clients, &|pod| proxy::answered(place, pod, &account(server)).expect("metrics"));
        assert!(proved > 0.0 || clients.is_empty(), "{client} -> {server}: not by {clients:?}");
        println!(
            "{client} -> {server}: {seen} with the client's identity, {proved} with the server's"
        );
    }
    for pod in place.pods("app") {
        let metrics = proxy::metrics(place, &pod).expect("metrics");
        let outbound = metrics.sum("response_total", &[("direction", "outbound")]);
        let meshed = metrics.sum("response_total", &[("direction", "outbound"), ("tls", "true")]);
        assert!((outbound - meshed).abs() < 0.5, "{pod}: {}", metrics.about("response_total"));
    }
}

/// Until a pod has had an answer of an account that has proved to be that.
fn proved(place: &Place, pod: &str, account: &str) {
    until(&format!("an answer of {account} to {pod}"), READY_WAIT, || {
        sleep(Duration::from_millis(300));
        (proxy::answered(place, pod, account).ok()? > 0.0).then_some(())
    });
}

fn example(name: &str) -> String {
    format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Every packet on every node: of the cluster that `cargo xtask test-cluster` boots, whose nodes are namespaces of this machine.
struct Wire(Vec<Sniffer>);

impl Wire {
    fn start() -> Self {
        let nodes = kubectl::run(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
        let one = |name: &str| {
            let path = format!("/run/netns/k8s-{name}");
            let namespace = File::open(&path).unwrap_or_else(|error| {
                panic!("{path}: {error}; looking at a node's wire needs root on its machine")
            });
            Sniffer::start_in(&namespace).expect("a capture")
        };
        Self(nodes.expect("nodes").split_whitespace().map(one).collect())
    }

    fn stop(self) -> Packets {
        Packets(self.0.into_iter().flat_map(|sniffer| sniffer.stop().0).collect())
    }

    /// Nothing could be read, and something was there to be read.
    fn stayed_secret(self, port: u16) {
        let packets = self.stop();
        assert_eq!(packets.holding(SECRET.as_bytes()), 0, "packets hold what is secret");
        assert_eq!(begin(&packets, port, PREFACE), 0, "connections of HTTP/2 in plain text");
        let hellos = begin(&packets, port, HANDSHAKE);
        println!("{hellos} TLS handshakes among {} packets", packets.0.len());
        assert!(hellos >= 4, "{hellos} TLS handshakes: does it look at the right wire?");
    }
}

/// How many packets to a port begin so.
fn begin(packets: &Packets, port: u16, with: &[u8]) -> usize {
    packets.payloads_to(port).filter(|bytes| bytes.starts_with(with)).count()
}
