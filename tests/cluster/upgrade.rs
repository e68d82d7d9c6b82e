//! `leno upgrade` of the mesh that is there, to other values and a new issuer, to three replicas and back, while requests go on; and what
//! is refused of `install`, `upgrade` and `uninstall`.

use crate::ground::change::Upgraded;
use crate::ground::control;
use crate::ground::kubectl;
use crate::ground::load::Load;
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::proxy;
use crate::ground::worker::Worker;
use anyhow::{Result, ensure};
use leno_tests::authority::{Authority, issuer_below};
use leno_tests::binaries;
use leno_tests::wait::until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

const PER_SECOND: u32 = 100;
/// At most; it is ended before.
const SECONDS: u64 = 400;
const DEPLOYMENT: &str = "deployment/leno-control";
const BUDGET: &str = "poddisruptionbudget/leno-control";

#[test]
fn the_mesh_is_upgraded_under_load() {
    let place = Place::meshed("leno-test-upgrade");
    place.apply(&Worker::new("web").times(2).objects());
    place.rolled_out("deployment/web");
    let load = Load::start(&place, "http://web/", PER_SECOND, SECONDS);
    proxy::asked(&place, &place.pods("app=web")[0], 0.0);

    refusals();
    let before = manifests(&[]);
    let mesh = Upgraded::from(before.clone());
    let values = given();
    other_values_and_a_new_issuer(&place);
    three_replicas();
    // Back. The values of before are given again, all others are forgotten.
    let directory = binaries::scratch("upgrade").expect("a directory");
    let file = directory.path().join("values.yaml");
    fs::write(&file, &values).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let told = upgraded(&["--reset-values", "--values", file]);
    assert_eq!(given(), values);
    // `kubectl apply` takes nothing away; the end of `mesh` does.
    assert!(told.contains(&format!("kubectl delete -n leno {BUDGET}")), "{told}");

    let outcome = load.stop();
    println!("three upgrades: {outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
    drop(mesh);
    assert_eq!(manifests(&[]), before, "all is as it was, the issuer too");
}

/// Replicas are replaced, the new issuer is used, and a plain upgrade keeps both.
fn other_values_and_a_new_issuer(place: &Place) {
    let issuer = control::issuer().expect("an issuer");
    upgraded(&["--set", "control.logFormat=json", "--renew-issuer"]);
    let log = until("a new issuer, and a log in JSON", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        let log = control::log().ok().filter(|log| log.starts_with('{'))?;
        control::issuer().is_ok_and(|now| now != issuer).then_some(log)
    });
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|v| v.is_object());
    assert!(log.lines().all(is_json), "{log}");
    // Certificates of both issuers are good: those of the load and of half of the pods are older.
    let old = place.pods("app=web");
    place.kubectl(&["delete", "pod", &old[0], "--wait=false"]).expect("deleted");
    // `rollout status` may still see the deployment as it was before that.
    let new = until("a new pod", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        place.pods("app=web").into_iter().find(|pod| !old.contains(pod))
    });
    place.wait(&format!("pod/{new}"), "condition=Ready");
    place.rolled_out("deployment/web");
    proxy::asked(place, &new, 0.0);

    assert!(given().contains("logFormat: json"), "{}", given());
    let as_it_is = || {
        let path = ["-n", "leno", "get", DEPLOYMENT, "-o", "jsonpath={.metadata.generation}"];
        let generation = kubectl::run(&path).expect("the control plane");
        (generation, control::issuer().expect("an issuer"))
    };
    let before = as_it_is();
    let kept = manifests(&[]);
    assert!(kept.contains("--log-format=json"), "{kept}");
    applied(&kept).expect("the API server takes them");
    assert_eq!(as_it_is(), before, "a plain upgrade changes something");
}

/// On two nodes at least, where there are two, and no drain takes more than one.
fn three_replicas() {
    upgraded(&["--ha"]);
    let label = "app.kubernetes.io/name=leno-control";
    let pods = kubectl::json(&["-n", "leno", "get", "pods", "-l", label, "-o", "json"]);
    let pods = pods.expect("the control plane")["items"].take();
    let alive = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let pods: Vec<&Value> = pods.as_array().into_iter().flatten().filter(alive).collect();
    assert_eq!(pods.len(), 3, "{pods:?}");
    let used: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    let nodes = kubectl::run(&["get", "nodes", "-o", "name"]).expect("nodes").lines().count();
    println!("three replicas on {used:?} of {nodes} nodes");
    assert!(used.len() >= nodes.min(2), "three replicas on {used:?} of {nodes} nodes");
    // What somebody said before stays.
    assert!(given().contains("logFormat: json"), "{}", given());
    until("a budget that lets one go", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        let budget = kubectl::json(&["-n", "leno", "get", BUDGET, "-o", "json"]).ok()?;
        let status = &budget["status"];
        (status["currentHealthy"] == 3 && status["disruptionsAllowed"] == 1).then_some(())
    });
}

/// What would shut proxies out, and what is no value.
fn refusals() {
    let directory = binaries::scratch("refused").expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let other = Authority::new("other");
    let issuer = issuer_below(&other.pem(), &other.key_pem(), time::Duration::hours(1));
    let (certificate, key) = issuer.expect("an issuer");
    let roots = format!("--identity-trust-anchors-file={}", file("roots.pem", &other.pem()));
    let certificate = format!("--identity-issuer-certificate-file={}", file("c.pem", &certificate));
    let key = format!("--identity-issuer-key-file={}", file("k.pem", &key));

    check(&["install"], "Leno is already in namespace leno of this cluster. Use `leno upgrade");
    check(&["uninstall"], "have proxies, which could not renew their certificates: ");
    check(&["upgrade", &roots], "the issuer is not signed by a trust anchor");
    check(&["upgrade", &certificate, &key], "the issuer is not signed by a trust anchor");
    check(
        &["upgrade", &roots, &certificate, &key],
        "the new trust anchors do not include a root that",
    );
    let domain = "--identity-trust-domain=other.example";
    check(&["upgrade", domain], "the trust domain would change from ");
    check(&["upgrade", "--set", "control"], "--set: \"control\" is not NAME=VALUE");
    check(
        &["upgrade", "--set", "control.replica=2"],
        "control.replica is unknown; known values here:",
    );
    check(
        &["upgrade", "--set", "control.replicas=two"],
        "control.replicas: \"two\" is not of type integer",
    );
    check(
        &["upgrade", "-n", "default"],
        "Leno is not installed in namespace default of this cluster",
    );

    // Both roots are the way from one to another.
    let root = ["-n", "leno", "get", "configmap/leno-trust-anchors", "-o", "json"];
    let root = kubectl::json(&root).expect("roots");
    let root = root["data"]["trust-anchors.pem"].as_str().expect("PEM");
    let both = file("both.pem", &format!("{}\n{root}", other.pem()));
    manifests(&[&format!("--identity-trust-anchors-file={both}")]);
}

/// What belongs to no namespace, and the roots, belong to the mesh of another.
#[test]
fn of_a_namespace_without_the_mesh_nothing_is_uninstalled() {
    check(
        &["uninstall", "-n", "default", "--force"],
        "namespace default of this cluster has no objects of Leno",
    );
}

/// It is refused in these words, and nothing is printed that `kubectl` could take.
fn check(words: &[&str], expected: &str) {
    let output = leno(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    assert!(said.starts_with("leno: ") && said.contains(expected), "{words:?}: {said}");
    assert!(output.stdout.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
}

/// `leno upgrade … | kubectl apply -f -`, until all replicas are new and ready; and what it tells whoever typed it.
fn upgraded(flags: &[&str]) -> String {
    let (manifests, told) = printed(flags);
    applied(&manifests).expect("the API server takes them");
    control::rolled_out().expect("the control plane gets ready");
    told
}

/// What `leno upgrade` prints.
fn manifests(flags: &[&str]) -> String {
    printed(flags).0
}

/// The same, and what it says besides.
fn printed(flags: &[&str]) -> (String, String) {
    let output = leno(&[&["upgrade"], flags].concat());
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{flags:?}: {told}");
    (String::from_utf8(output.stdout).expect("UTF-8"), told)
}

fn applied(manifests: &str) -> Result<String> {
    let output = kubectl::output(&["apply", "-f", "-"], Some(manifests))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The values that somebody gave, as the cluster has them.
fn given() -> String {
    let path = ["-n", "leno", "get", "configmap/leno-config", "-o", "jsonpath={.data.values}"];
    kubectl::run(&path).expect("values")
}

fn leno(words: &[&str]) -> Output {
    let leno = binaries::find("leno").expect("leno");
    Command::new(leno).args(words).output().expect("it runs")
}
