//! From the texts of proxies to the answers that the page gets, and the page in a real browser.

mod browser;

use super::counters::Node;
use super::history::{History, Taken};
use super::view;
use crate::home::Member;
use leno_up::figures::Said;
use serde_json::{Value, json};

/// A time that begins a fine slot and a coarse one.
const BEGAN: f64 = 1_800_000_000.0;

fn identity(namespace: &str, account: &str) -> String {
    format!("spiffe://cluster.local/ns/{namespace}/sa/{account}")
}

/// A ready pod of a Deployment with this name; its proxy answers.
fn member(namespace: &str, name: &str) -> Member {
    Member {
        namespace: namespace.to_owned(),
        name: format!("{name}-1"),
        workload: format!("deployment/{name}"),
        identity: identity(namespace, name),
        meshed: true,
        ready: true,
        answers: true,
        ..Member::default()
    }
}

fn said(member: &Member, text: String) -> Said {
    let (namespace, pod) = (member.namespace.clone(), member.name.clone());
    Said { namespace, pod, identity: member.identity.clone(), text }
}

/// What a client's proxy says after so many calls of `server`, each of which took 1 to 2 ms.
fn calls(server: &Member, well: u64, badly: u64) -> String {
    let Member { namespace, name, identity, .. } = server;
    let labels = format!(
        "direction=\"outbound\",tls=\"true\",server_id=\"{identity}\",dst_namespace=\"{namespace}\",dst_pod=\"{name}\",\
         dst_service=\"web\",srv_kind=\"Service\",srv_namespace=\"{namespace}\",srv_name=\"web\",route_kind=\"HTTPRoute\",route_namespace=\"{namespace}\",route_name=\"split\""
    );
    let all = well + badly;
    format!(
        "response_total{{{labels},classification=\"success\",status_code=\"200\"}} {well}\n\
         response_total{{{labels},classification=\"failure\",status_code=\"503\"}} {badly}\n\
         response_latency_ms_bucket{{{labels},le=\"1\"}} 0\n\
         response_latency_ms_bucket{{{labels},le=\"2\"}} {all}\n\
         response_latency_ms_bucket{{{labels},le=\"+Inf\"}} {all}\n\
         tcp_open_connections{{{labels},peer=\"dst\"}} 3\n\
         outbound_http_route_retry_requests_total{{parent_namespace=\"{namespace}\",parent_name=\"web\"}} {badly}\n\
         outbound_http_route_retry_overflow_total{{parent_namespace=\"{namespace}\",parent_name=\"web\"}} {}\n\
         outbound_http_balancer_ejections_total{{backend_namespace=\"{namespace}\",backend_name=\"web\",reason=\"success_rate\"}} {}\n",
        badly / 2,
        badly / 10,
    )
}

const SERVER: &str = "srv_kind=\"server\",srv_namespace=\"shop\",srv_name=\"web\"";
const RULE: &str =
    "authz_kind=\"authorizationpolicy\",authz_namespace=\"shop\",authz_name=\"front\"";

/// What a server's proxy says after so many requests of `client_id`.
fn served(client_id: &str, count: u64) -> String {
    let tls = if client_id.is_empty() { "no_identity" } else { "true" };
    format!(
        "response_total{{direction=\"inbound\",tls=\"{tls}\",client_id=\"{client_id}\",classification=\"success\",status_code=\"200\"}} {count}\n\
         inbound_http_authz_deny_total{{client_id=\"{client_id}\",{SERVER}}} {}\n\
         inbound_http_authz_allow_total{{client_id=\"{client_id}\",{SERVER},{RULE}}} {count}\n\
         inbound_tcp_authz_allow_total{{client_id=\"{client_id}\",{SERVER},{RULE}}} 2\n\
         control_identity_cert_expiration_timestamp_seconds 1800086400\n",
        count / 100
    )
}

/// A client in `front` and a server in `shop`, read at the begin and after each step of seconds and texts.
fn history(steps: &[(f64, String, String)]) -> History {
    let (client, server) = (member("front", "gateway"), member("shop", "web"));
    let mut history = History::default();
    let take = |history: &mut History, at: f64, outbound: String, inbound: String| {
        let said = vec![said(&client, outbound), said(&server, inbound)];
        let members = vec![client.clone(), server.clone()];
        history.record(BEGAN + at, Taken { members, said, journal: Vec::new() });
    };
    take(&mut history, 0.0, calls(&server, 1_000, 0), served(&client.identity, 1_000));
    for (at, outbound, inbound) in steps {
        take(&mut history, *at, outbound.clone(), inbound.clone());
    }
    history
}

fn graph(history: &History, window_seconds: u64) -> Value {
    serde_json::to_value(view::graph(history, window_seconds)).unwrap()
}

fn step(at: f64, well: u64, badly: u64) -> (f64, String, String) {
    let server = member("shop", "web");
    (at, calls(&server, well, badly), served(&identity("front", "gateway"), well + badly))
}

#[test]
fn a_window_of_an_edge() {
    let history = history(&[step(10.0, 1_090, 10)]);
    let graph = graph(&history, 60);
    assert_eq!(graph["covered_seconds"], 10.0);
    let ids: Vec<&str> = (graph["nodes"].as_array().unwrap().iter())
        .map(|node| node["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["front/deployment/gateway", "shop/deployment/web"]);
    // The server's proxy counted the same requests, which are one edge all the same.
    let expected = json!([{"from": 0, "to": 1, "mutual_tls": "yes", "denied_per_second": 0.1, "policy": "mixed",
        "requests_per_second": 10.0, "success_rate": 0.9, "p50_milliseconds": 1.5, "p99_milliseconds": 1.99,
        "connections_open": 3, "bytes_per_second": 0.0}]);
    assert_eq!(graph["edges"], expected);
    assert_eq!(graph["nodes"][1]["requests_per_second"], 10.0);
}

#[test]
fn windows_forget() {
    let steps = [step(10.0, 1_100, 0), step(200.0, 1_100, 0), step(400.0, 1_150, 0)];
    let history = history(&steps);
    for (window, requests) in [(60, 50.0), (300, 50.0), (900, 150.0)] {
        let graph = graph(&history, window);
        let covered = graph["covered_seconds"].as_f64().unwrap();
        let rate = graph["edges"][0]["requests_per_second"].as_f64().unwrap();
        assert!((rate * covered - requests).abs() < 1.0, "{window}: {rate} in {covered} s");
    }
}

#[test]
fn a_proxy_that_was_restarted_counts_from_zero() {
    let graph = graph(&history(&[step(10.0, 20, 0)]), 60);
    assert_eq!(graph["edges"][0]["requests_per_second"], 2.0);
}

#[test]
fn clients_without_a_proxy_are_counted_by_the_server() {
    let server = member("shop", "web");
    for (client_id, expected) in [
        (String::new(), "/outside/clients"),
        (identity("other", "batch"), "other/identity/batch"),
        ("spiffe://elsewhere/x".to_owned(), "/identity/spiffe://elsewhere/x"),
    ] {
        let history = history(&[(10.0, calls(&server, 1_000, 0), served(&client_id, 50))]);
        let graph = graph(&history, 60);
        let nodes = graph["nodes"].as_array().unwrap();
        let place = nodes.iter().position(|node| node["id"] == expected).expect(expected);
        let edges = graph["edges"].as_array().unwrap();
        let edge = edges.iter().find(|edge| edge["from"] == place).expect(expected);
        assert_eq!(edge["requests_per_second"], 5.0, "{client_id}");
        assert_eq!(edge["mutual_tls"], if client_id.is_empty() { "no" } else { "yes" });
    }
}

#[test]
fn details() {
    let history = history(&[step(10.0, 1_090, 10)]);
    let ends =
        || (Node::new("front", "deployment", "gateway"), Node::new("shop", "deployment", "web"));
    let (client, server) = ends();
    let edge = view::edge(&history, client, server, 60).expect("it is in the graph");
    let edge = serde_json::to_value(edge).unwrap();
    assert_eq!(edge["reasons"], json!([["status 503", 10]]));
    assert_eq!((&edge["requests"], &edge["failures"]), (&json!(100), &json!(10)));
    assert_eq!(edge["points"].as_array().unwrap().len(), 2, "{edge}");
    let allowed = json!({"verdict": "allowed", "server": "Server shop/web", "rule": "AuthorizationPolicy shop/front",
        "requests": 100, "connections": 0});
    let denied = json!({"verdict": "denied", "server": "Server shop/web", "rule": "", "requests": 1, "connections": 0});
    assert_eq!(edge["rules"], json!([denied, allowed]));
    let retries = json!({"service": "shop/web", "retries": 10, "succeeded": 0, "over_limit": 0, "over_budget": 5});
    assert_eq!(edge["retries"], json!([retries]));
    assert_eq!(edge["is_account_shared"], false);
    let (client, server) = ends();
    let node = serde_json::to_value(view::node(&history, &server, 60)).unwrap();
    assert_eq!(node["routes"][0]["name"], "HTTPRoute shop/split");
    assert_eq!(node["services"][0]["name"], "shop/web");
    assert_eq!(node["rules"], json!([denied, allowed]));
    assert_eq!(node["pods"][0]["certificate_expires"], 1_800_086_400.0);
    assert_eq!(node["pods"][0]["identity"], identity("shop", "web"));
    // Edges have a direction, and nodes that nobody knows have no details.
    assert!(view::edge(&history, server, client, 60).is_none());
    assert!(view::node(&history, &Node::new("shop", "deployment", "x"), 60).is_none());
}

#[test]
fn pods_that_change_are_on_the_timeline() {
    let mut history = history(&[]);
    let mut members = vec![member("front", "gateway"), member("shop", "new")];
    members[0].ready = false;
    history.record(BEGAN + 1.0, Taken { members, ..Taken::default() });
    let graph = graph(&history, 60);
    let happened: Vec<String> = (graph["happenings"].as_array().unwrap().iter())
        .map(|one| {
            format!("{} {}", one["object"].as_str().unwrap(), one["reason"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        happened,
        ["Pod front/gateway-1 NotReady", "Pod shop/new-1 Started", "Pod shop/web-1 Ended"]
    );
}

/// A server knows only the identity of a client, which two workloads have here.
#[test]
fn clients_that_share_an_account_are_counted_together() {
    let (mut client, server) = (member("front", "gateway"), member("shop", "web"));
    let mut other = member("front", "batch");
    other.identity.clone_from(&client.identity);
    client.labels.insert("pod-template-hash".to_owned(), "a".to_owned());
    let mut history = History::default();
    for (at, count) in [(0.0, 0), (10.0, 100)] {
        let said = vec![
            said(&client, calls(&server, count, 0)),
            said(&server, served(&client.identity, count)),
        ];
        let members = vec![client.clone(), other.clone(), server.clone()];
        history.record(BEGAN + at, Taken { members, said, journal: Vec::new() });
    }
    let (from, to) = (Node::of(&client), Node::of(&server));
    let edge = serde_json::to_value(view::edge(&history, from, to, 60)).unwrap();
    assert_eq!(
        (&edge["is_account_shared"], &edge["rules"][1]["requests"]),
        (&json!(true), &json!(100))
    );
    let graph = graph(&history, 60);
    let own =
        graph["edges"].as_array().unwrap().iter().find(|edge| edge["requests_per_second"] == 10.0);
    assert_eq!(own.unwrap()["policy"], "mixed");
}

/// Each reading says what happened since the one before it: reason, object and count, the oldest first.
#[test]
fn denials_ejections_rollouts_and_rotations_are_on_the_timeline() {
    let (mut client, server) = (member("front", "gateway"), member("shop", "web"));
    let mut history = History::default();
    let mut take =
        |at: f64, badly: u64, expires: u64, version: &str, expected: &[(&str, &str, u32)]| {
            client.labels.insert("pod-template-hash".to_owned(), version.to_owned());
            let facts = format!(
                "control_identity_cert_expiration_timestamp_seconds {expires}\n\
             identity_trust_anchors_info{{fingerprint=\"{expires}\"}} 1\n"
            );
            let inbound = served(&client.identity, badly * 10);
            let without = inbound.split("control_identity").next().unwrap_or_default();
            let said = vec![
                said(&client, calls(&server, 0, badly)),
                said(&server, format!("{without}{facts}")),
            ];
            let members = vec![client.clone(), server.clone()];
            history.record(BEGAN + at, Taken { members, said, journal: Vec::new() });
            let graph = graph(&history, 60);
            let happened: Vec<_> = (graph["happenings"].as_array().unwrap().iter())
                .map(|one| {
                    let word = |name: &str| one[name].as_str().unwrap().to_owned();
                    (word("reason"), word("object"), one["count"].as_u64().unwrap() as u32)
                })
                .collect();
            let happened: Vec<(&str, &str, u32)> = happened
                .iter()
                .map(|(reason, object, count)| (reason.as_str(), object.as_str(), *count))
                .collect();
            assert_eq!(happened, expected);
        };
    let (web, gateway) = ("deployment shop/web", "deployment front/gateway");
    let edge = "deployment front/gateway -> deployment shop/web";
    let service = "Service shop/web, seen by deployment front/gateway";
    take(0.0, 0, 10, "a", &[]);
    take(1.0, 10, 10, "a", &[("Ejected", service, 1), ("Denied", edge, 1)]);
    // The same again is one happening.
    take(2.0, 20, 10, "a", &[("Ejected", service, 2), ("Denied", edge, 2)]);
    let rotated = [("RootsChanged", web, 1), ("CertificateRenewed", web, 1)];
    let before = [("Ejected", service, 2), ("Denied", edge, 2)];
    take(3.0, 20, 20, "a", &[&before[..], &rotated].concat());
    let rollout = [("RolloutStarted", gateway, 1)];
    take(4.0, 20, 20, "b", &[&before[..], &rotated, &rollout].concat());
}

/// Memory follows traffic: what is older than an hour is gone, and so are its keys.
#[test]
fn an_hour_is_the_most() {
    let server = member("shop", "web");
    let mut history = history(&[step(10.0, 1_100, 0)]);
    history.record(BEGAN + 4_000.0, Taken { members: vec![server], ..Taken::default() });
    let graph = graph(&history, 3_600);
    assert_eq!(graph["edges"], json!([]));
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 1);
}

/// The most that is promised: 1,000 workloads and 5,000 edges.
#[test]
fn a_large_mesh_is_answered_in_time() {
    const WORKLOADS: usize = 1_000;
    const EDGES_OF_EACH: usize = 5;
    /// 50 ms with release programs on a free machine; this is the everyday build beside other tests.
    const MILLISECONDS_MAX: u128 = 3_000;
    let members: Vec<Member> = (0..WORKLOADS)
        .map(|at| member(&format!("team-{}", at / 25), &format!("service-{at}")))
        .collect();
    let mut history = History::default();
    for round in 0..6_u64 {
        let text = |at: usize| -> String {
            let servers = (1..=EDGES_OF_EACH).map(|step| &members[(at + step * step) % WORKLOADS]);
            servers.map(|server| calls(server, round * 100, round)).collect()
        };
        let said = members.iter().enumerate().map(|(at, one)| said(one, text(at))).collect();
        let taken = Taken { members: members.clone(), said, journal: Vec::new() };
        history.record(BEGAN + round as f64 * 10.0, taken);
    }
    let began = std::time::Instant::now();
    let text = serde_json::to_string(&view::graph(&history, 300)).unwrap();
    let took = began.elapsed().as_millis();
    eprintln!("a graph of 1,000 workloads and 5,000 edges: {took} ms, {} KiB", text.len() / 1024);
    let graph: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(graph["edges"].as_array().unwrap().len(), WORKLOADS * EDGES_OF_EACH);
    assert_eq!(graph["left_out"], 0);
    assert!(took < MILLISECONDS_MAX, "{took} ms");
}
