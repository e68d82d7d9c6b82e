//! The move of `docs/coming-from/linkerd.md`: an application that was written for Linkerd, with its annotations and policies. Its workloads
//! move one by one under load. Linkerd itself is not in this cluster: before their move, pods have no proxy, and after it Leno's.

use crate::commands::{command, json};
use crate::ground::load::{Load, asked};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::Worker;
use crate::ground::{kubectl, proxy};
use leno_tests::wait::until;
use serde_json::{Value, json as value};
use std::thread::sleep;
use std::time::Duration;

const SECONDS: u64 = 120;
const PER_SECOND: u32 = 50;

/// Annotations of Linkerd for pods, and what Leno makes of each: a variable of the proxy.
const ANNOTATIONS: [(&str, &str, &str, &str); 5] = [
    ("config.linkerd.io/access-log", "apache", "LENO_PROXY_ACCESS_LOG", "apache"),
    ("config.linkerd.io/proxy-log-level", "warn", "LENO_PROXY_LOG", "warn"),
    ("config.linkerd.io/proxy-log-format", "json", "LENO_PROXY_LOG_FORMAT", "json"),
    ("config.linkerd.io/skip-outbound-ports", "25", "LENO_PROXY_SKIP_OUTBOUND_PORTS", "25"),
    ("config.linkerd.io/skip-inbound-ports", "9999", "LENO_PROXY_SKIP_INBOUND_PORTS", "9999"),
];

#[test]
fn an_application_of_linkerd_moves_under_load() {
    let place = Place::plain("leno-test-migration");
    let namespace = format!("namespace/{}", place.name);
    kubectl::run(&["annotate", &namespace, "linkerd.io/inject=disabled"]).expect("annotated");
    place.apply(&written_for_linkerd(Worker::new("api").times(2)));
    let web = Worker::new("web").times(2).with(&["--call=http://api/"]);
    place.apply(&written_for_linkerd(web));
    for name in ["api", "web"] {
        place.rolled_out(&format!("deployment/{name}"));
        assert!(place.pods(&format!("app={name}")).iter().all(|pod| !is_in(&place, pod)));
    }

    let load = Load::start(&place, "http://web/", PER_SECOND, SECONDS);
    for name in ["api", "web"] {
        moved(&place, name);
    }
    let encrypted =
        || -> f64 { place.pods("app=api").iter().map(|pod| proxy::from(&place, pod, "web")).sum() };
    until("requests with the identity of web at api", READY_WAIT, || {
        sleep(Duration::from_millis(500));
        (encrypted() > 0.0).then_some(())
    });
    let outcome = load.end();
    println!("moved under load: {outcome}");
    assert!(outcome.sent >= SECONDS * u64::from(PER_SECOND) * 98 / 100, "{outcome}");
    // Before the move no proxy repeats a request whose server ends.
    assert!(outcome.failed * 200 <= outcome.sent, "{outcome}");
    let outcome = Load::start(&place, "http://web/", PER_SECOND, 10).end();
    outcome.steady(PER_SECOND);

    check_annotations(&place);
    check_service(&place);
    check_policy(&place);
}

/// Account, Service and Deployment as Linkerd's users have them.
fn written_for_linkerd(worker: Worker) -> Vec<Value> {
    let mut objects = worker.objects();
    for object in &mut objects {
        match object["kind"].as_str() {
            Some("Service") => {
                object["metadata"]["annotations"] = value!({
                    "timeout.linkerd.io/request": "2s",
                    "retry.linkerd.io/http": "5xx",
                    "retry.linkerd.io/limit": "2",
                });
            }
            Some("Deployment") => {
                let annotations = &mut object["spec"]["template"]["metadata"]["annotations"];
                for (name, value, _, _) in ANNOTATIONS {
                    annotations[name] = value.into();
                }
                annotations["config.linkerd.io/proxy-cpu-request"] = "15m".into();
            }
            _ => {}
        }
    }
    objects
}

/// Step 3 of the page: the label of Leno, and the annotation that keeps Linkerd's injector away.
fn moved(place: &Place, name: &str) {
    let patch = value!({"spec": {"template": {"metadata": {
        "labels": {"leno.dev/inject": "enabled"},
        "annotations": {"linkerd.io/inject": "disabled"},
    }}}});
    let workload = format!("deployment/{name}");
    place
        .kubectl(&["patch", &workload, "--type=merge", "-p", &patch.to_string()])
        .expect("patched");
    place.rolled_out(&workload);
    let pods = place.pods(&format!("app={name}"));
    assert!(pods.iter().any(|pod| is_in(place, pod)), "{name} is not in the mesh");
}

fn is_in(place: &Place, pod: &str) -> bool {
    proxy::is_in(&place.json(&["get", "pod", pod]).expect("the pod is there"))
}

/// What Linkerd's annotations say holds for Leno's proxy.
fn check_annotations(place: &Place) {
    let pod = place.pods("app=web").pop().expect("a pod of web");
    let pod = place.json(&["get", "pod", &pod]).expect("the pod is there");
    let containers = pod["spec"]["initContainers"].as_array().expect("containers");
    let container = containers.iter().find(|one| one["name"] == "leno-proxy").expect("a proxy");
    for (annotation, _, variable, expected) in ANNOTATIONS {
        let variables = container["env"].as_array().expect("variables");
        let found = variables.iter().find(|one| one["name"] == variable);
        let value = found.and_then(|one| one["value"].as_str());
        assert_eq!(value, Some(expected), "{annotation}: {container:#}");
    }
    assert_eq!(container["resources"]["requests"]["cpu"], "15m");
}

/// What the annotations of a Service say reaches the proxies of its clients.
fn check_service(place: &Place) {
    let policy = json(place, &["diagnostics", "policy", "svc/api", "80"]);
    let rule = &policy["http1"][0]["rules"][0];
    assert_eq!(rule["request_timeout_seconds"], 2.0, "{policy:#}");
    assert!(rule["retry"].is_object(), "{policy:#}");
}

/// Linkerd's policy in Leno's group: only web may call api.
fn check_policy(place: &Place) {
    let group = "policy.leno.dev";
    place.apply(&[
        policy(
            "Server",
            "v1beta3",
            &value!({"podSelector": {"matchLabels": {"app": "api"}}, "port": "http", "proxyProtocol": "HTTP/1"}),
        ),
        policy(
            "MeshTLSAuthentication",
            "v1alpha1",
            &value!({"identityRefs": [{"kind": "ServiceAccount", "name": "web"}]}),
        ),
        policy(
            "AuthorizationPolicy",
            "v1alpha1",
            &value!({
                "targetRef": {"group": group, "kind": "Server", "name": "api"},
                "requiredAuthenticationRefs":
                    [{"group": group, "kind": "MeshTLSAuthentication", "name": "api"}],
            }),
        ),
    ]);
    until("the call of a stranger to be denied", READY_WAIT, || {
        sleep(Duration::from_millis(500));
        let seen = asked(place, &["http://api/"], 5, &[]);
        (seen[0]["results"]["403"].as_u64() == Some(5)).then_some(())
    });
    let outcome = Load::start(place, "http://web/", 20, 3).end();
    assert_eq!(outcome.failed, 0, "web may call api: {outcome}");
    for (client, expected) in [("deploy/web", 0), ("sa/load", 1)] {
        let words = ["explain", client, "to", "svc/api:80", "GET", "/"];
        let output = command(place, &words).output().expect("leno runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(expected), "{client}: {text}");
    }
}

/// An object of Linkerd's, in Leno's group.
fn policy(kind: &str, version: &str, spec: &Value) -> Value {
    value!({
        "apiVersion": format!("policy.leno.dev/{version}"),
        "kind": kind,
        "metadata": {"name": "api"},
        "spec": spec,
    })
}
