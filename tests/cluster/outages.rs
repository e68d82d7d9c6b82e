//! What fails around the mesh, and what goes on.

use crate::ground::change::without_control;
use crate::ground::load::Load;
use crate::ground::node::{self, ApiServer};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::worker::Worker;
use crate::ground::{kubectl, proxy};
use leno_tests::wait::until;
use nix::sys::signal::{Signal, kill};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PER_SECOND: u32 = 200;
/// How long there is no control plane.
const AWAY: Duration = Duration::from_secs(300);
/// How long there is no API server. Not for so long that, with the time that a kubelet takes to come back, the node is taken for dead (50 s): all
/// its endpoints would be unready, and nobody is to send there.
const NO_API: Duration = Duration::from_secs(10);

#[test]
fn the_control_plane_is_away_for_five_minutes() {
    let place = Place::meshed("leno-test-outage");
    place.apply(&Worker::new("api").times(2).objects());
    place.apply(&Worker::new("web").times(2).with(&["--call=http://api/"]).objects());
    place.rolled_out("deployment/api");
    place.rolled_out("deployment/web");
    let load = Load::start(&place, "http://web/", PER_SECOND, AWAY.as_secs() + 40);
    // What goes on without it went well with it.
    sleep(Duration::from_secs(5));
    let began = Instant::now();
    let outage = without_control();
    labelled_pods_are_refused_and_others_are_not();
    let restarted = a_proxy_restarts(&place);
    sleep(AWAY.saturating_sub(began.elapsed()));
    let served = from_load(&place, &restarted);
    drop(outage);
    let outcome = load.end();
    println!("no control plane for {:.0} s: {outcome}", AWAY.as_secs_f64());
    assert_eq!(outcome.failed, 0, "{outcome}");
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

fn from_load(place: &Place, pod: &str) -> f64 {
    let client = proxy::identity(place, "load");
    let labels = [("direction", "inbound"), ("tls", "true"), ("client_id", client.as_str())];
    proxy::metrics(place, pod).expect("metrics").sum("response_total", &labels)
}

fn labelled_pods_are_refused_and_others_are_not() {
    let plain = Place::plain("leno-test-others");
    plain.apply(&Worker::new("web").objects());
    plain.rolled_out("deployment/web");
    let mut pod = Worker::new("web").template();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "labelled".into();
    pod["metadata"]["labels"]["leno.dev/inject"] = "enabled".into();
    let refusal = plain.try_apply(&[pod]).expect_err("it would have no proxy");
    assert!(refusal.to_string().contains("injector.leno.dev"), "{refusal}");
}

#[test]
fn the_api_server_dies_and_comes_back() {
    let place = Place::meshed("leno-test-api");
    place.apply(&Worker::new("web").times(2).objects());
    place.rolled_out("deployment/web");
    let load = Load::start(&place, "http://web/", PER_SECOND, 150);
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
    until("a request to the new pod", READY_WAIT, || {
        sleep(Duration::from_millis(300));
        (from_load(&place, &new) > 0.0).then_some(())
    });
    let outcome = load.end();
    println!("no API server for {NO_API:?}: {outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
}
