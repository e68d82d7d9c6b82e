//! A thousand pods that exist only in the API server come and go while real ones carry traffic.

use crate::ground::load::Load;
use crate::ground::node;
use crate::ground::place::Place;
use crate::ground::worker::{IMAGE, PORT, Worker, service};
use crate::ground::{kubectl, proxy};
use leno_tests::admin::Metrics;
use leno_tests::wait::until;
use leno_tests::{binaries, proc};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

const RATE: u32 = 100;
const PODS: u32 = 1000;
/// After a first one, which brings tables and allocators to their size.
const ROUNDS: u32 = 2;
/// Of traffic at most; it ends with the last pod.
const SECONDS: u64 = 600;
/// A node without a kubelet: EndpointSlices pass over pods whose node does not exist.
const NODE: &str = "leno-test-nowhere";
/// What may stay after the rounds: allocators give back in steps. It is less than one round's pods take (about 5 KiB each).
const MEMORY_SLACK_KIB: u64 = 4 * 1024;
/// For all pods to be known.
const KNOWN_WAIT: Duration = Duration::from_secs(120);

/// How often a kubelet says that its node is there; without that the node is taken for dead within a minute.
const BEAT_INTERVAL: Duration = Duration::from_secs(10);

/// The node, as long as this lives.
struct Nowhere {
    _beats: mpsc::Sender<()>,
}

impl Nowhere {
    fn create() -> Self {
        drop(kubectl::run(&["delete", "node", NODE, "--ignore-not-found"]));
        let taint = json!([{"key": "leno.dev/nowhere", "effect": "NoSchedule"}]);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"taints": taint}});
        kubectl::create(&node).expect("a node is made");
        beat().expect("a heartbeat");
        let (beats, ended) = mpsc::channel();
        std::thread::spawn(move || {
            while ended.recv_timeout(BEAT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // The next one may be heard.
                drop(beat());
            }
        });
        Self { _beats: beats }
    }
}

/// What its kubelet would say.
fn beat() -> anyhow::Result<String> {
    let now = time::OffsetDateTime::now_utc();
    let now = now.format(&time::format_description::well_known::Rfc3339)?;
    let ready = json!({"type": "Ready", "status": "True", "reason": "Test", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now});
    let patch = json!({"status": {"conditions": [ready]}}).to_string();
    let words = ["patch", "node", NODE, "--subresource=status", "--type=strategic", "-p", &patch];
    kubectl::run(&words)
}

impl Drop for Nowhere {
    fn drop(&mut self) {
        drop(kubectl::run(&["delete", "node", NODE, "--ignore-not-found"]));
    }
}

#[test]
fn a_thousand_pods_come_and_go_beside_real_traffic() {
    let _nowhere = Nowhere::create();
    let place = Place::meshed("leno-test-churn");
    place.apply(&Worker::new("web").times(2).objects());
    place.apply(&[service("crowd", &json!({}))]);
    place.rolled_out("deployment/web");
    let load = Load::start(&place, "http://web/", RATE, SECONDS);
    round(&place, 0);
    let before = memory(&place);
    for number in 1..=ROUNDS {
        round(&place, number);
    }
    let after = memory(&place);
    let outcome = load.stop();
    println!("{ROUNDS} times {PODS} pods came and went: {outcome}");
    outcome.steady(RATE);
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        println!("{name}: {before} KiB before, {after} KiB after");
        assert!(*after <= before + MEMORY_SLACK_KIB, "{name}: {before} KiB, then {after} KiB");
    }
}

/// A thousand come, a proxy hears of them, and they go.
fn round(place: &Place, number: u32) {
    come(place, number);
    ask_for_one(place);
    go(place);
}

/// From then on the proxy follows all endpoints of the Service. None answers, for none is there.
fn ask_for_one(place: &Place) {
    let pod = place.pods("app=web").remove(0);
    let words = ["exec", &pod, "-c", "worker", "--", "leno-worker", "client"];
    let flags = ["--url=http://crowd/", "--requests=1", "--timeout=500ms"];
    drop(place.kubectl(&[&words[..], &flags].concat()));
}

/// Creates the pods, says that they are ready, and awaits that the control plane tells of all of them.
fn come(place: &Place, round: u32) {
    let pods: Vec<Value> = (0..PODS).map(|index| pod(place, index, round)).collect();
    let list =
        |pods: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string();
    let made = kubectl::output(&["create", "-f", "-"], Some(&list(pods.clone()))).expect("kubectl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let words = ["apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-"];
    let statuses = pods.into_iter().map(|mut pod| {
        pod.as_object_mut().expect("an object").remove("spec");
        pod
    });
    let said = kubectl::output(&words, Some(&list(statuses.collect()))).expect("kubectl");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    until("endpoints of all pods", KNOWN_WAIT, || {
        std::thread::sleep(Duration::from_millis(500));
        (endpoints(place) == PODS as usize).then_some(())
    });
}

fn go(place: &Place) {
    let words =
        ["delete", "pods", "-l", "app=crowd", "--force", "--grace-period=0", "--wait=false"];
    place.kubectl(&words).expect("deleted");
    until("no endpoint", KNOWN_WAIT, || {
        std::thread::sleep(Duration::from_millis(500));
        (endpoints(place) == 0).then_some(())
    });
}

/// As many as the control plane would tell a proxy of.
fn endpoints(place: &Place) -> usize {
    let authority = format!("crowd.{}.svc.cluster.local:80", place.name);
    let mut leno = Command::new(binaries::find("leno").expect("leno"));
    let output = leno.args(["diagnostics", "endpoints", &authority, "-o", "json"]).output();
    let output = output.expect("leno runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    told[0]["endpoints"].as_array().expect("endpoints").len()
}

fn pod(place: &Place, index: u32, round: u32) -> Value {
    let address = format!("10.99.{}.{}", index / 250 + round * 4, index % 250 + 1);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("crowd-{round}-{index}"), "namespace": place.name, "labels": {"app": "crowd"}},
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": "nothing", "image": IMAGE, "ports": [{"containerPort": PORT}]}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}],
        },
    })
}

/// What the control plane and a proxy hold.
fn memory(place: &Place) -> Vec<(&'static str, u64)> {
    let label = "app.kubernetes.io/name=leno-control";
    let words =
        ["-n", "leno", "get", "pods", "-l", label, "-o", "jsonpath={.items[0].metadata.name}"];
    let control = kubectl::run(&words).expect("the control plane");
    let control = node::process("leno", &control, "control").expect("its process");
    let web = place.pods("app=web").remove(0);
    let beside = node::process(&place.name, &web, "leno-proxy").expect("a proxy's process");
    let resident =
        |process: nix::unistd::Pid| proc::memory(process.as_raw()).expect("memory").resident;
    let metrics: Metrics = proxy::metrics(place, &web).expect("metrics");
    assert!(!metrics.0.is_empty());
    vec![("control plane", resident(control)), ("proxy", resident(beside))]
}
