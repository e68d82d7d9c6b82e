//! `leno check`: green where all is well, and red with the right word for faults that are made on purpose.

use crate::ground::change::{Changed, stuck_control, without_control};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::Worker;
use crate::ground::{certificate, kubectl};
use anyhow::Result;
use leno_tests::authority::Authority;
use leno_tests::binaries;
use leno_tests::wait::until;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

const MESH: &str = "leno";
/// What puts most things right.
const APPLY: &str = "leno upgrade | kubectl apply -f -";

#[test]
fn check_is_green_and_red_for_each_fault() {
    let place = Place::meshed("leno-test-check");
    place.apply(&Worker::new("web").objects());
    place.rolled_out("deployment/web");
    green(&[]);
    // With the control plane at work.
    check("its rights taken away", "these rights are missing", APPLY, &|| {
        Changed::without("clusterrolebinding/leno-control", "")
    });
    expired_issuer();
    check("an entry of the webhook missing", "there is no entry", APPLY, &|| {
        webhook(|entries| drop(entries.remove(1)))
    });
    check("a webhook for other requests", "differs in", APPLY, &|| {
        webhook(|entries| entries[0]["rules"][0]["operations"] = json!(["DELETE"]))
    });
    refused_workload(&place);
    stuck_rollout();
    check("a kind missing", "CustomResourceDefinition", "standard-install.yaml", &|| {
        Changed::without("crd/grpcroutes.gateway.networking.k8s.io", "")
    });
    check("no webhook", "MutatingWebhookConfiguration/leno-injector", APPLY, &|| {
        Changed::without("mutatingwebhookconfiguration/leno-injector", "")
    });
    check("no Service of the webhook", "Service/leno-injector", APPLY, &|| {
        Changed::without("service/leno-injector", MESH)
    });
    check("a node whose clock is wrong", "leno-test-clock is", "on these nodes", &|| wrong_clock());
    // What the control plane would put right at once.
    {
        let _away = without_control();
        red("no control plane", &[], "scaled to 0", "--replicas=1");
        red("a webhook that cannot be asked", &[], "cannot reach the webhook", "port 8443");
        let other = Authority::new("other");
        check(
            "roots that are not the issuer's",
            "leno-identity-issuer",
            "a root in ConfigMap/leno-trust-anchors signed",
            &|| {
                let anchors = json!({"data": {"trust-anchors.pem": other.pem()}});
                Changed::with("configmap/leno-trust-anchors", MESH, &anchors)
            },
        );
        let again = "delete secret leno-injector-tls";
        check("another certificate of the webhook", "caBundle", again, &|| {
            let pair = certificate::pair(&other.pem(), &other.key_pem());
            Changed::with("secret/leno-injector-tls", MESH, &pair)
        });
    }
    green(&[]);
}

#[test]
fn check_looks_at_proxies_and_before_an_installation() {
    let place = Place::meshed("leno-test-check-proxies");
    place.apply(&Worker::new("web").objects());
    place.rolled_out("deployment/web");
    let here = ["--proxy", "-n", &place.name];
    let text = green(&here);
    assert!(text.contains("\n√ there are pods in the mesh\n"), "{text}");
    {
        let _late = unmeshed_pod("leno-test-late").expect("a pod that was there before");
        for flags in [&[][..], &["--proxy", "-n", "leno-test-late"]] {
            let seen = "without a proxy: leno-test-late/early";
            red("a pod without its proxy", flags, seen, "rollout restart");
        }
        green(&here);
    }
    // No kubelet finds this image.
    let mut pod = Worker::new("web").pod("lame", &place.name);
    pod["metadata"]["labels"] = json!({});
    pod["metadata"]["annotations"] = json!({"leno.dev/proxy-image": "localhost/leno-test-none:1"});
    place.apply(&[pod]);
    let seen = ["ErrImage", "ImagePull"].map(|why| format!("{}/lame ({why}", place.name));
    until("an image that is not found", READY_WAIT, || {
        std::thread::sleep(Duration::from_millis(500));
        let text = run(&here).1;
        seen.iter().find_map(|seen| {
            finding(&text, seen, "For ImagePullBackOff, check the value proxy.image")
        })
    });
    // That takes the flag, and the right namespace.
    green(&[]);
    green(&["--proxy", "-n", "default"]);

    let seen = "ConfigMap/leno-config is already in namespace leno";
    red("a mesh that is there before its installation", &["--pre"], seen, APPLY);
    let (_, text) = run(&["--pre"]);
    assert_eq!(text.matches('×').count(), 2, "one finding and the result: {text}");
}

/// It is refused by the control plane, too, which goes on with what it has.
fn expired_issuer() {
    let fault = "an issuer that expired";
    let issuer = certificate::issuer(time::Duration::hours(-1)).expect("an issuer");
    let _expired = Changed::with("secret/leno-identity-issuer", MESH, &issuer).expect("replaced");
    red(fault, &[], "leno-identity-issuer expired", "--renew-issuer");
    red(fault, &[], "the control plane signs with the issuer in the Secret", "--renew-issuer");
    let (seen, hint) =
        ("does not use the issuer in the Secret (expired)", "uses a valid issuer within a minute");
    let seen = until("a control plane that has heard of it", READY_WAIT, || {
        std::thread::sleep(Duration::from_millis(200));
        finding(&run(&[]).1, seen, hint)
    });
    println!("{fault}: {seen}");
}

/// While the change lives, the check is red, says the word and what to do.
fn check(fault: &str, word: &str, hint: &str, make: &dyn Fn() -> Result<Changed>) {
    let changed = make().unwrap_or_else(|error| panic!("{fault}: {error:#}"));
    red(fault, &[], word, hint);
    drop(changed);
}

fn red(fault: &str, flags: &[&str], word: &str, hint: &str) {
    // API servers hear by watching of what was changed, and so a moment later.
    let finding = until(&format!("{fault}: {word:?} with {hint:?}"), READY_WAIT, || {
        std::thread::sleep(Duration::from_millis(200));
        let (is_well, text) = run(flags);
        let finding = finding(&text, word, hint).filter(|_| !is_well);
        if finding.is_none() {
            println!("{fault}: not yet\n{text}");
        }
        finding
    });
    println!("{fault}: {finding}");
}

/// What is seen of a failure, with this word in it or in what should be true, and this in what to do about it.
fn finding(text: &str, word: &str, hint: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(3).find_map(|lines| {
        let what = lines[0].strip_prefix("× ")?;
        let seen = lines[1].strip_prefix("    ")?;
        let to_do = lines[2].strip_prefix("    hint: ")?;
        let is_this = (what.contains(word) || seen.contains(word)) && to_do.contains(hint);
        is_this.then(|| seen.to_owned())
    })
}

fn green(flags: &[&str]) -> String {
    // A leader that has just come takes a moment to look at everything.
    until("a check that is green", READY_WAIT, || {
        std::thread::sleep(Duration::from_secs(1));
        let (is_well, text) = run(flags);
        if !is_well {
            println!("{text}");
        }
        is_well.then_some(text)
    })
}

/// Whether all is well, and what is printed.
fn run(flags: &[&str]) -> (bool, String) {
    let leno = binaries::find("leno").expect("leno");
    let output = Command::new(leno).arg("check").args(flags).output().expect("it runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The webhook, otherwise.
fn webhook(change: impl FnOnce(&mut Vec<Value>)) -> Result<Changed> {
    let name = "mutatingwebhookconfiguration/leno-injector";
    let mut now = kubectl::json(&["get", name, "-o", "json"])?;
    change(now["webhooks"].as_array_mut().expect("entries"));
    Changed::with(name, "", &json!({"webhooks": now["webhooks"]}))
}

/// There is no pod of it to look at.
fn refused_workload(place: &Place) {
    let mut host = Worker::new("host").deployment();
    let template = &mut host["spec"]["template"];
    template["spec"]["hostNetwork"] = true.into();
    template["metadata"]["labels"]["leno.dev/inject"] = "enabled".into();
    host["spec"]["template"]["spec"]["serviceAccountName"] = "web".into();
    place.apply(&[host]);
    let seen = format!("refused: deployment {}/host", place.name);
    let seen = until("a workload that is refused", READY_WAIT, || {
        std::thread::sleep(Duration::from_millis(500));
        finding(&run(&[]).1, &seen, "leno.dev/inject=disabled")
    });
    println!("a workload whose pods are refused: {seen}");
    place.kubectl(&["delete", "deployment", "host"]).expect("deleted");
}

/// The control plane of before serves meanwhile.
fn stuck_rollout() {
    let _stuck = stuck_control();
    let seen = until("a rollout that is stuck", READY_WAIT, || {
        std::thread::sleep(Duration::from_millis(500));
        let text = run(&["--wait=0s"]).1;
        let told = |line: &&str| line.contains("ErrImage") || line.contains("ImagePull");
        text.lines().find(told).map(str::to_owned)
    });
    println!("a control plane that does not start: {}", seen.trim());
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
fn unmeshed_pod(name: &str) -> Result<Changed> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let changed = Changed::new(&namespace)?;
    let mut pod = Worker::new("web").pod("early", name);
    pod["spec"]["serviceAccountName"] = "default".into();
    until("the namespace's account", READY_WAIT, || kubectl::create(&pod).ok());
    kubectl::run(&["-n", name, "wait", "pod/early", "--for=condition=Ready", "--timeout=60s"])?;
    kubectl::run(&["label", "namespace", name, "leno.dev/inject=enabled"])?;
    Ok(changed)
}
