//! What fails around the mesh, and what goes on.

use crate::ground::change::without_control;
use crate::ground::load::Load;
use crate::ground::node::{self, ApiServer};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::Worker;
use crate::ground::{kubectl, proxy, route};
use leno_tests::wait::until;
use nix::sys::signal::{Signal, kill};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PER_SECOND: u32 = 200;
/// Of load at most; it ends with what it is there for.
const SECONDS: u64 = 600;
/// How long there is no control plane.
const AWAY: Duration = Duration::from_secs(300);
/// How long there is no API server. With the time that a kubelet takes to come back it is longer than a node may be silent (50 s) before all its
/// pods are called unready, while they serve as ever.
const NO_API: Duration = Duration::from_secs(30);

#[test]
fn the_control_plane_is_away_for_five_minutes() {
    let place = Place::meshed("leno-test-outage");
    place.apply(&Worker::new("api").times(2).objects());
    place.apply(&Worker::new("web").times(2).with(&["--call=http://api/"]).objects());
    place.rolled_out("deployment/api");
    place.rolled_out("deployment/web");
    let load = Load::start(&place, "http://web/", PER_SECOND, SECONDS);
    // What goes on without it went well with it.
    sleep(Duration::from_secs(5));
    let began = Instant::now();
    let outage = without_control();
    labelled_pods_are_refused_and_others_are_not(&place);
    let restarted = a_proxy_restarts(&place);
    sleep(AWAY.saturating_sub(began.elapsed()));
    let served = proxy::from_load(&place, &restarted);
    drop(outage);
    let outcome = load.stop();
    println!("no control plane for {:.0} s: {outcome}", AWAY.as_secs_f64());
    outcome.steady(PER_SECOND);
    assert!(served > 0.0, "the proxy of {restarted} served nothing after its restart");
    // And with it things are as before.
    place.apply(&Worker::new("late").objects());
    place.rolled_out("deployment/late");
    let outcome = Load::start(&place, "http://late/", 20, 2).end();
    assert_eq!(outcome.failed, 0, "afterwards: {outcome}");
}

/// Ends the proxy of one pod and awaits that it is ready again; answers with the pod.
fn a_proxy_restarts(place: &Place) -> String {
    let pod = place.pods("app=web").remove(0);
    let process = node::process(&place.name, &pod, "leno-proxy").expect("the proxy's process");
    kill(process, Signal::SIGKILL).expect("killed");
    until("a proxy that is ready again", READY_WAIT, || {
        sleep(Duration::from_millis(500));
        let pod = place.json(&["get", "pod", &pod]).ok()?;
        let statuses = pod["status"]["initContainerStatuses"].as_array()?;
        let proxy = statuses.iter().find(|status| status["name"] == "leno-proxy")?;
        (proxy["restartCount"] == 1 && proxy["ready"] == true).then_some(())
    });
    pod
}

fn labelled_pods_are_refused_and_others_are_not(meshed: &Place) {
    let plain = Place::plain("leno-test-others");
    plain.apply(&Worker::new("web").objects());
    plain.rolled_out("deployment/web");
    //     namespace       the pod's label  made
    check(&plain.name, "", true);
    check(&plain.name, "enabled", false);
    check(&meshed.name, "", false);
    check(&meshed.name, "disabled", true);
    // What the cluster itself needs waits for no mesh, whatever its labels say.
    check("kube-system", "enabled", true);
}

/// Whether such a pod is made. Nobody is there to say what is wrong with it, so it is the webhook's name that is told.
fn check(namespace: &str, label: &str, made: bool) {
    let mut pod = Worker::new("web").pod("tried", namespace);
    if !label.is_empty() {
        pod["metadata"]["labels"]["leno.dev/inject"] = label.into();
    }
    if namespace == "kube-system" {
        pod["spec"]["serviceAccountName"] = "default".into();
    }
    let case = format!("label {label:?} in {namespace}");
    match kubectl::tried(&pod) {
        Ok(pod) => {
            assert!(made, "{case}: made");
            assert!(!proxy::is_in(&pod), "{case}: with a proxy, and nobody who knows of it");
        }
        Err(error) => {
            assert!(!made && error.to_string().contains("injector.leno.dev"), "{case}: {error:#}");
        }
    }
}

#[test]
fn the_api_server_dies_and_comes_back() {
    let place = Place::meshed("leno-test-api");
    place.apply(&Worker::new("web").times(2).objects());
    place.rolled_out("deployment/web");
    // The load uses the Service's address. The pods of the cluster's DNS are called unready with all others, and its Service then refuses lookups:
    // a client that opens one more connection in that second fails without Leno's part in it.
    let url = format!("http://{}/", place.cluster_ip("web"));
    let load = Load::start(&place, &url, PER_SECOND, SECONDS);
    sleep(Duration::from_secs(5));
    let server = ApiServer::kill().expect("the API server is killed");
    sleep(NO_API);
    server.start().expect("the API server starts");
    until("an API server that is ready", READY_WAIT, || {
        sleep(Duration::from_millis(300));
        kubectl::run(&["get", "--raw", "/readyz"]).ok()
    });
    // What is new afterwards is seen by proxies that were there before.
    let before = place.pods("app=web");
    place.kubectl(&["scale", "deployment/web", "--replicas=3"]).expect("scaled");
    place.rolled_out("deployment/web");
    let new = place.pods("app=web").into_iter().find(|pod| !before.contains(pod)).expect("new");
    proxy::asked(&place, &new, 0.0);
    // Routes are heard of, and status is written; Namespaces are heard of, and get what their pods mount.
    place.apply(&[route::route("HTTPRoute", "late", "web", &[route::to("web")])]);
    route::told(&place, "httproute", "late", route::GOOD);
    let late = Place::meshed("leno-test-api-late");
    late.apply(&Worker::new("late").objects());
    late.rolled_out("deployment/late");
    let outcome = load.stop();
    println!("no API server for {NO_API:?}: {outcome}");
    outcome.steady(PER_SECOND);
}
