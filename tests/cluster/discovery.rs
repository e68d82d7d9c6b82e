//! What proxies are told follows what is there, and not what is written about it later, or by somebody else.

use crate::commands::json;
use crate::ground::change::Changed;
use crate::ground::control;
use crate::ground::kubectl;
use crate::ground::load::Load;
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::proxy;
use crate::ground::worker::{Worker, account, service};
use leno_tests::wait::until;
use serde_json::{Value, json as value};
use std::thread::sleep;
use std::time::Duration;

const ANCHORS: &str = "configmap/leno-trust-anchors";

/// A pod's rules were made with it: an annotation that comes later must not send plain text to a port that is captured.
#[test]
fn ports_are_captured_as_their_pods_were_made() {
    let place = Place::meshed("leno-test-captured");
    place.apply(&Worker::new("before").objects());
    place.rolled_out("deployment/before");
    let load = Load::start(&place, "http://before/", 50, 120);
    let namespace = format!("namespace/{}", place.name);
    let skip = "config.leno.dev/skip-inbound-ports=8080";
    kubectl::run(&["annotate", &namespace, skip]).expect("annotated");
    place.apply(&Worker::new("after").objects());
    place.rolled_out("deployment/after");
    let identity = |service: &str| {
        let authority = format!("{service}.{}.svc.cluster.local:80", place.name);
        let answer = json(&place, &["diagnostics", "endpoints", &authority]);
        assert_eq!(answer[0]["endpoints"].as_array().map(Vec::len), Some(1), "{answer}");
        answer[0]["endpoints"][0]["identity"].as_str().map(str::to_owned)
    };
    assert_eq!(identity("after"), None);
    assert_eq!(identity("before"), Some(proxy::identity(&place, "before")));
    // Requests went on meanwhile, and still do, with mutual TLS alone.
    let pod = place.pods("app=before").pop().expect("a pod");
    proxy::asked(&place, &pod, proxy::from_load(&place, &pod));
    let outcome = load.stop();
    assert_eq!(outcome.failed, 0, "{outcome}");
    let metrics = proxy::metrics(&place, &pod).expect("metrics");
    let of_load = metrics.sum("response_total", &[("direction", "inbound"), ("tls", "true")]);
    assert!(of_load >= outcome.sent as f64, "{of_load} of {} with mutual TLS", outcome.sent);
}

#[test]
fn a_node_local_service_stays_on_the_clients_node() {
    let nodes = kubectl::json(&["get", "nodes", "-o", "json"]).expect("nodes");
    let name = |node: &Value| node["metadata"]["name"].as_str().map(str::to_owned);
    let nodes: Vec<String> =
        nodes["items"].as_array().into_iter().flatten().filter_map(name).collect();
    assert!(nodes.len() > 1, "this needs two nodes, and there is {nodes:?}");
    let place = Place::meshed("leno-test-node-local");
    place.apply(&[service("web", &value!({"internalTrafficPolicy": "Local"}))]);
    let pods: Vec<(&str, &String)> = ["first", "second"].into_iter().zip(&nodes).collect();
    for (name, node) in &pods {
        let mut pod = Worker::new(name).pod(name, &place.name);
        pod["metadata"]["labels"]["app"] = "web".into();
        pod["spec"]["nodeName"] = node.as_str().into();
        place.apply(&[account(name), pod]);
    }
    for (name, _) in &pods {
        place.wait(&format!("pod/{name}"), "condition=Ready");
    }
    let load = Load::start(&place, "http://web/", 50, 5);
    let client = place.json(&["get", "pod", "load"]).expect("the client");
    let near = pods.iter().find(|(_, node)| client["spec"]["nodeName"] == node.as_str());
    let (near, _) = near.expect("the client is on one of the nodes");
    let outcome = load.end();
    assert_eq!(outcome.failed, 0, "{outcome}");
    let answered: Vec<&String> =
        outcome.workers.as_object().expect("who answered").keys().collect();
    assert_eq!(answered, [near], "{}", outcome.workers);
}

/// The control plane goes on with the last good anchors, and so do the pods that are made meanwhile.
#[test]
fn trust_anchors_that_are_refused_are_not_handed_on() {
    let place = Place::meshed("leno-test-anchors");
    let of = |namespace: &str| {
        let map = kubectl::json(&["-n", namespace, "get", ANCHORS, "-o", "json"]).ok()?;
        map["data"]["trust-anchors.pem"].as_str().map(str::to_owned)
    };
    let good = of("leno").expect("the anchors");
    let copied = || {
        until("a copy of the anchors", READY_WAIT, || {
            sleep(Duration::from_millis(200));
            of(&place.name)
        })
    };
    assert_eq!(copied(), good);
    let broken = value!({"data": {"trust-anchors.pem": "oops"}});
    let broken = Changed::with(ANCHORS, "leno", &broken).expect("changed");
    until("a refusal", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        let in_use = control::metrics().ok()?.sum("leno_issuer_secret_in_use", &[]);
        (in_use < 0.5).then_some(())
    });
    // A copy that goes is made anew, and is a good one.
    place.kubectl(&["delete", ANCHORS]).expect("deleted");
    assert_eq!(copied(), good);
    place.apply(&Worker::new("web").objects());
    place.rolled_out("deployment/web");
    drop(broken);
    until("the anchors in use", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        control::issuer().ok()
    });
    assert_eq!(of("leno").as_ref(), Some(&good));
}
