//! Who gets a proxy, by the words of both meshes; what is then in the pod; and the same made by hand, without the webhook.

use crate::ground::node;
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::{IMAGE, Worker, account};
use crate::ground::{kubectl, proxy};
use leno_tests::binaries;
use leno_tests::wait::until;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// For a pod that makes a few requests and ends.
const END_WAIT: Duration = Duration::from_secs(90);
const CONFIGURATION: &str = "mutatingwebhookconfiguration/leno-injector";
const IN: &str = "in the mesh";
const OUT: &str = "outside";

#[test]
fn words_of_both_meshes_say_who_is_in() {
    let plain = Place::plain("leno-test-words");
    let named = Place::plain("leno-test-annotated");
    let labelled = Place::meshed("leno-test-labelled");
    say(&named, "linkerd.io/inject=enabled");
    until("an entry that names the Namespace", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        (is_named(&named) && tried(&named.name, "", "", "") == IN).then_some(())
    });
    assert!(!is_named(&plain) && !is_named(&labelled), "a label is enough");
    //     its namespace   label       annotation  linkerd's
    check(&plain.name, "", "", "", OUT);
    check(&plain.name, "", "", "enabled", IN);
    check(&plain.name, "", "", "ingress", IN);
    check(&plain.name, "", "", "disabled", OUT);
    check(&plain.name, "", "", "enabeld", "use enabled, disabled or ingress");
    check(&plain.name, "", "enabled", "", IN);
    check(&plain.name, "", "enabled", "disabled", IN);
    check(&plain.name, "", "disabled", "enabled", OUT);
    check(&plain.name, "", "yes", "", "use enabled or disabled");
    check(&plain.name, "enabled", "", "disabled", IN);
    check(&plain.name, "disabled", "", "enabled", OUT);
    check(&plain.name, "yes", "", "", "use enabled or disabled");
    check(&labelled.name, "", "", "", IN);
    check(&labelled.name, "", "", "disabled", OUT);
    check(&labelled.name, "", "", "enabeld", "use enabled, disabled or ingress");
    check(&named.name, "", "", "disabled", OUT);
    check(&named.name, "", "disabled", "", OUT);
    check(&named.name, "disabled", "", "", OUT);
    check(&named.name, "", "", "enabled", IN);
    // Where the mesh itself is, and what the cluster needs.
    for excluded in ["leno", "kube-system"] {
        check(excluded, "enabled", "", "", OUT);
        check(excluded, "", "", "enabled", OUT);
    }
    say(&named, "linkerd.io/inject=on");
    until("a refusal that names the Namespace's word", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        tried(&named.name, "", "", "").contains("of its namespace linkerd.io/inject").then_some(())
    });
    say(&named, "linkerd.io/inject-");
    until("a Namespace that says nothing", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        (!is_named(&named) && tried(&named.name, "", "", "") == OUT).then_some(())
    });
}

fn say(place: &Place, annotation: &str) {
    kubectl::run(&["annotate", "--overwrite", "namespace", &place.name, annotation]).expect("said");
}

/// Whether the leader has written an entry for this Namespace.
fn is_named(place: &Place) -> bool {
    let configuration = kubectl::json(&["get", CONFIGURATION, "-o", "json"]).expect("entries");
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    let of_names = |entry: &&Value| entry["name"] == "annotated-namespaces.injector.leno.dev";
    let names = |entry: &Value| {
        let values = &entry["namespaceSelector"]["matchExpressions"][0]["values"];
        values.as_array().is_some_and(|values| values.contains(&place.name.as_str().into()))
    };
    entries.filter(of_names).any(names)
}

#[track_caller]
fn check(namespace: &str, label: &str, ours: &str, linkerds: &str, expected: &str) {
    let became = tried(namespace, label, ours, linkerds);
    let case = format!("{namespace}: {label:?}, {ours:?}, {linkerds:?}");
    assert!(became.contains(expected), "{case}: {became}, not {expected}");
}

/// [`IN`], [`OUT`], or why there is no such pod; an empty word is none.
fn tried(namespace: &str, label: &str, ours: &str, linkerds: &str) -> String {
    let mut pod = Worker::new("web").pod("tried", namespace);
    pod["spec"]["serviceAccountName"] = "default".into();
    // As the namespace of the mesh wants it.
    pod["spec"]["securityContext"] = json!({"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}});
    pod["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    for (field, key, word) in [
        ("labels", "leno.dev/inject", label),
        ("annotations", "leno.dev/inject", ours),
        ("annotations", "linkerd.io/inject", linkerds),
    ] {
        if !word.is_empty() {
            pod["metadata"][field][key] = word.into();
        }
    }
    match kubectl::tried(&pod) {
        Ok(pod) => if proxy::is_in(&pod) { IN } else { OUT }.to_owned(),
        Err(refusal) => format!("{refusal:#}"),
    }
}

#[test]
fn an_admitted_pod_has_what_the_manual_says_and_no_right_more() {
    let place = Place::meshed("leno-test-admitted");
    place.apply(&[account("web")]);
    let mut pod = Worker::new("web").pod("tried", &place.name);
    pod["metadata"]["annotations"] = json!({
        "config.leno.dev/proxy-cpu-request": "20m",
        "config.leno.dev/proxy-cpu-limit": "1",
        "config.linkerd.io/proxy-memory-request": "24Mi",
        "leno.dev/proxy-memory-limit": "96Mi",
    });
    let own = json!({"name": "own", "image": IMAGE, "command": ["leno-worker", "--version"]});
    pod["spec"]["initContainers"] = json!([own]);
    let pod = kubectl::tried(&pod).expect("admitted");
    assert_eq!(pod["metadata"]["annotations"]["leno.dev/meshed"], "true");
    let names: Vec<&Value> = containers(&pod).iter().map(|container| &container["name"]).collect();
    assert_eq!(names, ["leno-init", "leno-proxy", "own"], "the application's come last");
    let [init, proxy] = [&containers(&pod)[0], &containers(&pod)[1]];
    let resources = json!({
        "requests": {"cpu": "20m", "memory": "24Mi"},
        "limits": {"cpu": "1", "memory": "96Mi"},
    });
    let probe = json!({"path": "/ready", "port": 4191, "scheme": "HTTP"});
    //           container field          says
    for (of, field, expected) in [
        (init, "/restartPolicy", Value::Null),
        (init, "/resources", resources.clone()),
        (init, "/securityContext", security(0, json!({"add": ["NET_ADMIN"], "drop": ["ALL"]}))),
        (proxy, "/restartPolicy", "Always".into()),
        (proxy, "/resources", resources),
        (proxy, "/securityContext", security(2102, json!({"drop": ["ALL"]}))),
        (proxy, "/startupProbe/httpGet", probe.clone()),
        (proxy, "/readinessProbe/httpGet", probe),
    ] {
        let said = of.pointer(field).unwrap_or(&Value::Null);
        assert_eq!(*said, expected, "{} {field}", of["name"]);
    }
    for field in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"] {
        assert_eq!(pod["spec"][field], Value::Null, "{field}");
    }
}

fn containers(pod: &Value) -> &[Value] {
    pod["spec"]["initContainers"].as_array().expect("init containers")
}

fn security(user: u32, capabilities: Value) -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": capabilities,
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "runAsGroup": user,
        "runAsNonRoot": user != 0,
        "runAsUser": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

#[test]
fn proxies_that_are_written_out_work_and_come_out_again() {
    let place = Place::plain("leno-test-offline");
    let scratch = binaries::scratch("offline").expect("a directory");
    by_hand(&place, scratch.path(), &SERVER.replace("IMAGE", IMAGE));
    place.rolled_out("deployment/web");
    by_hand(&place, scratch.path(), &CLIENT.replace("IMAGE", IMAGE));
    assert_eq!(place.ended("client", END_WAIT), "Succeeded");
    let pod = place.pods("app=web").remove(0);
    let seen = proxy::from(&place, &pod, "client");
    assert!((seen - 20.0).abs() < 0.5, "{seen} of 20 requests with mutual TLS");
    without_rights(&place, &pod);
}

/// `leno inject FILE | kubectl apply -f -`; and what `leno uninject` makes of that is the file.
fn by_hand(place: &Place, scratch: &Path, text: &str) {
    let (plain, injected) = (scratch.join("plain.yaml"), scratch.join("injected.yaml"));
    fs::write(&plain, text).expect("written");
    fs::write(&injected, leno("inject", &plain)).expect("written");
    assert_eq!(leno("uninject", &injected), text, "not what it was");
    assert_eq!(leno("inject", &injected), leno("inject", &plain), "twice is once");
    let file = injected.to_str().expect("a path in UTF-8");
    place.kubectl(&["apply", "-f", file]).expect("applied");
}

fn leno(verb: &str, file: &Path) -> String {
    let leno = binaries::find("leno").expect("leno");
    let output = Command::new(leno).arg(verb).arg(file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "leno {verb}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// What the kernel says of the proxy's process.
fn without_rights(place: &Place, pod: &str) {
    let process = node::process(&place.name, pod, "leno-proxy").expect("the proxy's process");
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let fields = status.lines().filter_map(|line| line.split_once(":\t"));
    let fields: Vec<(&str, &str)> = fields.collect();
    let none = "0000000000000000";
    for (field, expected) in [
        ("Uid", "2102\t2102\t2102\t2102"),
        ("Gid", "2102\t2102\t2102\t2102"),
        ("CapEff", none),
        ("CapPrm", none),
        ("CapBnd", none),
        ("NoNewPrivs", "1"),
        // By a filter.
        ("Seccomp", "2"),
    ] {
        assert!(fields.contains(&(field, expected)), "{field} is not {expected:?}: {fields:?}");
    }
}

/// As people write it: what is not ours has to stay as it is.
const SERVER: &str = r#"# The account first, so that nothing waits for it.
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
---
apiVersion: v1
kind: Service
metadata:
    name: web   # four spaces, here alone
spec:
    selector: {app: web}
    ports: [{name: http, port: 80, targetPort: 8080, appProtocol: http}]
---

apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {"app": "web"}
  template:
    metadata:
      labels:
        app: 'web'
    spec:
      serviceAccountName: web
      containers:
      - name: worker
        image: IMAGE
        command: [leno-worker, --name=web, --http=8080, --shutdown-wait=1s]
        readinessProbe:
          httpGet: {path: /ready, port: 8080}
          periodSeconds: 1
      # It answers at once.
      terminationGracePeriodSeconds: 10
"#;
/// JSON is YAML.
const CLIENT: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "client"}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": {
    "serviceAccountName": "client",
    "restartPolicy": "Never",
    "containers": [{"name": "client", "image": "IMAGE", "command": [
      "leno-worker", "client", "--url=http://web/", "--requests=20", "--rate=50"]}]}}
]}
"#;
