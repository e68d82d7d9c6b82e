//! `leno check`: green where all is well, and red with the right word for faults that are made on purpose.

use crate::ground::change::{Changed, without_control};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::Worker;
use crate::ground::{certificate, kubectl};
use anyhow::Result;
use leno_tests::authority::Authority;
use leno_tests::binaries;
use leno_tests::wait::until;
use serde_json::json;
use std::process::{Command, Output};
use std::time::Duration;

const MESH: &str = "leno";

#[test]
fn check_is_green_and_red_for_each_of_ten_faults() {
    let place = Place::meshed("leno-test-check");
    place.apply(&Worker::new("web").objects());
    place.rolled_out("deployment/web");
    green();
    // With the control plane at work.
    check("its rights taken away", "it may not", &|| {
        Changed::without("clusterrolebinding/leno-control", "")
    });
    check("an issuer that expired", "expired", &|| {
        let issuer = certificate::issuer(time::Duration::hours(-1))?;
        Changed::with("secret/leno-identity-issuer", MESH, &issuer)
    });
    check("a kind of the Gateway API missing", "CustomResourceDefinition", &|| {
        Changed::without("crd/grpcroutes.gateway.networking.k8s.io", "")
    });
    check("no webhook", "leno-injector", &|| {
        Changed::without("mutatingwebhookconfiguration/leno-injector", "")
    });
    check("no Service of the webhook", "leno-injector", &|| {
        Changed::without("service/leno-injector", MESH)
    });
    check("a node whose clock is wrong", "leno-test-clock is", &|| wrong_clock());
    check("a pod without its proxy", "without a proxy", &|| unmeshed_pod());
    // What the control plane would put right at once.
    {
        let _away = without_control();
        red("no control plane", "scaled to 0");
        let other = Authority::new("other");
        check("roots that are not the issuer's", "leno-identity-issuer", &|| {
            let anchors = json!({"data": {"trust-anchors.pem": other.pem()}});
            Changed::with("configmap/leno-trust-anchors", MESH, &anchors)
        });
        check("another certificate of the webhook", "caBundle", &|| {
            let pair = certificate::pair(&other.pem(), &other.key_pem());
            Changed::with("secret/leno-injector-tls", MESH, &pair)
        });
    }
    green();
}

/// While the change lives, the check is red and says the word.
fn check(fault: &str, word: &str, make: &dyn Fn() -> Result<Changed>) {
    let changed = make().unwrap_or_else(|error| panic!("{fault}: {error:#}"));
    red(fault, word);
    drop(changed);
}

fn red(fault: &str, word: &str) {
    let output = run();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{fault}: all is well?\n{text}");
    // What is well is told in the same words.
    let unwell = text.lines().filter(|line| !line.trim_start().starts_with('√'));
    let lines: Vec<&str> = unwell.filter(|line| line.contains(word)).collect();
    assert!(!lines.is_empty(), "{fault}: no word of {word:?}\n{text}");
    println!("{fault}: {}", lines[0].trim());
}

fn green() {
    // A leader that has just come takes a moment to look at everything.
    until("a check that is green", READY_WAIT, || {
        std::thread::sleep(Duration::from_secs(1));
        let output = run();
        if !output.status.success() {
            println!("{}", String::from_utf8_lossy(&output.stdout));
        }
        output.status.success().then_some(())
    });
}

fn run() -> Output {
    let leno = binaries::find("leno").expect("leno");
    Command::new(leno).args(["check", "--wait=0s"]).output().expect("it runs")
}

/// A node says that it is ready, an hour from now.
fn wrong_clock() -> Result<Changed> {
    let name = "leno-test-clock";
    let node =
        Changed::new(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))?;
    let now = time::OffsetDateTime::now_utc();
    let later = (now + time::Duration::hours(1)).replace_nanosecond(0)?;
    let later = later.format(&time::format_description::well_known::Rfc3339)?;
    let ready = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": later, "lastTransitionTime": later}]);
    let patch = json!({"status": {"conditions": ready}}).to_string();
    kubectl::run(&["patch", "node", name, "--subresource=status", "-p", &patch])?;
    let later = later.replace('Z', ".000000Z");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": later},
    });
    Ok(node.and(Changed::new(&lease)?))
}

/// A pod that was there before its namespace was labelled.
fn unmeshed_pod() -> Result<Changed> {
    let name = "leno-test-late";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let changed = Changed::new(&namespace)?;
    let mut pod = Worker::new("web").pod("early", name);
    pod["spec"]["serviceAccountName"] = "default".into();
    until("the namespace's account", READY_WAIT, || kubectl::create(&pod).ok());
    kubectl::run(&["-n", name, "wait", "pod/early", "--for=condition=Ready", "--timeout=60s"])?;
    kubectl::run(&["label", "namespace", name, "leno.dev/inject=enabled"])?;
    Ok(changed)
}
