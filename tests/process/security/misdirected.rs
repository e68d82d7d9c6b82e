//! Discovery names somebody else than the pod that has the address: the proxy there says so, and another endpoint answers.

use super::{Applications, HTTP_PORT, TCP_PORT, get, plain};
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use serde_json::json;

/// The pod is of another service account now; its proxy does not know, as it does not where an address was given away.
fn rename(mesh: &Mesh, pod: &str, account: &str) {
    let [v4, v6] = mesh.pod(pod).addresses.both();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod, "namespace": NAMESPACE, "uid": format!("uid-of-{pod}"),
            "labels": {"app": pod}, "annotations": {"leno.dev/meshed": "true"},
        },
        "spec": {
            "serviceAccountName": account,
            "containers": [{"name": "application", "command": ["none"]}],
        },
        "status": {
            "phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    mesh.manifests().write(&object).expect("write the pod");
}

fn refused(mesh: &Mesh, pod: &str) -> f64 {
    mesh.pod(pod).metrics().sum_of_word("tls_refused_total", "wrong_name")
}

pub(super) fn told() {
    let plan = Plan::new().pod("client").pod("server").pod("second");
    let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
    let plan = plan.app_protocol(TCP_PORT, "linkerd.io/opaque");
    let mut mesh = plan.start("misdirected", Meshed::Yes);
    let wrong = Applications::start(&mesh, "server", "welcome");
    let good = Applications::start(&mesh, "second", "welcome");
    // What holds on the ports is known to the proxy before its pod is somebody else.
    for port in [HTTP_PORT, TCP_PORT] {
        let answer = plain(&mesh, "client", port, &get("before"));
        assert!(answer.ends_with("welcome"), "{answer}");
    }
    let before = wrong.heard();
    rename(&mesh, "server", "second");
    for (port, of_proxy) in [(HTTP_PORT, "HTTP/1.1 502"), (TCP_PORT, "")] {
        let counted = ["client", "server"].map(|pod| refused(&mesh, pod));
        wait::until("the client to be refused", wait::LIMIT, || {
            // Whatever was open goes on: each is a new connection, and for HTTP the proxies' own is kept.
            let answer = plain(&mesh, "client", port, &get("after"));
            let told = answer.starts_with(of_proxy) && !answer.ends_with("welcome");
            told.then_some(())
        });
        for (pod, before) in ["client", "server"].into_iter().zip(counted) {
            let metrics = mesh.pod(pod).metrics();
            assert!(refused(&mesh, pod) > before, "{pod}, {port}:\n{}", metrics.about("tls_"));
        }
    }
    let proxy = mesh.pod("client").proxy().expect("a proxy");
    proxy.wait_for("the peer rejected the server name", wait::LIMIT).expect("it says why");
    let heard = wrong.heard();

    // Beside one that is who it should be, nobody notices.
    mesh.set_endpoints("server", &["server", "second"]).expect("write the endpoints");
    wait::until("the second to answer", wait::LIMIT, || {
        let answer = plain(&mesh, "client", HTTP_PORT, &get("either"));
        answer.ends_with("welcome").then_some(())
    });
    for round in 0..5 {
        for port in [HTTP_PORT, TCP_PORT] {
            let answer = plain(&mesh, "client", port, &get("either"));
            assert!(answer.ends_with("welcome"), "round {round}, {port}: {answer}");
        }
    }
    assert!(good.heard() >= 10);
    assert_eq!(wrong.heard(), heard, "the application heard what was not for it");
    assert!(heard - before <= 1, "{before} before, {heard} after");
}
