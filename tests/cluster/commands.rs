//! `leno ps`, `stat`, `edges`, `logs` and `diagnostics` against a cluster: what they say is what is there.

use crate::ground::load::Load;
use crate::ground::place::Place;
use crate::ground::proxy;
use crate::ground::worker::Worker;
use leno_tests::binaries;
use serde_json::Value;
use std::process::{Command, Output};

/// Requests a second of the load that is looked at.
const RATE: u32 = 50;

#[test]
fn the_commands_of_one_machine_see_a_cluster() {
    let place = Place::meshed("leno-test-commands");
    let mut plain = Worker::new("plain").deployment();
    plain["spec"]["template"]["metadata"]["labels"]["leno.dev/inject"] = "disabled".into();
    plain["spec"]["template"]["spec"]["serviceAccountName"] = "default".into();
    place.apply(&Worker::new("web").times(2).objects());
    place.apply(&[plain]);
    place.rolled_out("deployment/web");
    place.rolled_out("deployment/plain");
    let load = Load::start(&place, "http://web/", RATE, 45);
    pods(&place);
    traffic(&place);
    told(&place);
    written(&place);
    refusals(&place);
    let outcome = load.end();
    assert_eq!(outcome.failed, 0, "{outcome}");
}

fn pods(place: &Place) {
    let rows = json(place, &["ps", "-l", "app in (web,plain)"]);
    let rows = rows.as_array().expect("an array");
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        assert_eq!(row["ready"], true, "{row}");
        if row["workload"] == "deployment/plain" {
            assert_eq!((&row["mesh"], &row["proxy"]), (&"none".into(), &Value::Null), "{row}");
            continue;
        }
        assert_eq!(row["workload"], "deployment/web");
        assert_eq!(row["mesh"], "leno");
        assert_eq!(row["identity"], proxy::identity(place, "web"));
        assert_eq!(row["proxy"]["version"], env!("CARGO_PKG_VERSION"), "{row}");
        assert_eq!(row["proxy"]["ready"], true, "{row}");
        assert!(row["proxy"]["certificate_expires"].as_u64() > Some(1_700_000_000), "{row}");
        assert!(row["proxy"]["rss_bytes"].as_u64() > Some(1_000_000), "{row}");
    }
}

fn traffic(place: &Place) {
    let near = |figures: &Value| {
        let rate = figures["requests_per_second"].as_f64().expect("a rate");
        let wanted = f64::from(RATE);
        assert!(rate > wanted * 0.5 && rate < wanted * 2.0, "{figures}");
        assert_eq!(figures["success_rate"], 1.0, "{figures}");
        assert!(figures["p99_milliseconds"].as_f64() > Some(0.0), "{figures}");
    };
    let web = json(place, &["stat", "deploy/web", "-t", "3s"]);
    assert_eq!((&web[0]["meshed"], &web[0]["pods"]), (&2.into(), &2.into()), "{web}");
    near(&web[0]["traffic"]);
    near(&json(place, &["stat", "svc", "web", "-t", "3s"])[0]["traffic"]);
    let plain = json(place, &["stat", "deploy/plain"]);
    let expected = serde_json::json!([{"kind": "deployment", "namespace": place.name, "name": "plain",
        "meshed": 0, "pods": 1, "traffic": null}]);
    assert_eq!(plain, expected);
    // Kubelet's probes show no identity; the load does.
    let hops = json(place, &["edges", "-l", "app=web"]);
    let of_load = |hop: &&Value| hop["client"] == proxy::identity(place, "load");
    let hops: Vec<&Value> = hops.as_array().into_iter().flatten().filter(of_load).collect();
    assert_eq!(hops.len(), 2, "one for each replica: {hops:?}");
    assert!(hops.iter().all(|hop| hop["mutual_tls"] == true && hop["direction"] == "inbound"));
}

fn told(place: &Place) {
    let authority = format!("web.{}.svc.cluster.local:80", place.name);
    let answer = json(place, &["diagnostics", "endpoints", &authority]);
    let endpoints = answer[0]["endpoints"].as_array().expect("an array");
    let mut pods: Vec<&str> = endpoints.iter().filter_map(|one| one["pod"].as_str()).collect();
    pods.sort_unstable();
    let mut expected = place.pods("app=web");
    expected.sort_unstable();
    assert_eq!(pods, expected, "{answer}");
    let identity = proxy::identity(place, "web");
    assert!(endpoints.iter().all(|one| one["identity"] == identity), "{answer}");
    let inbound = json(place, &["diagnostics", "policy", "deploy/web", "8080"]);
    assert_eq!((&inbound["direction"], &inbound["meshed"]), (&"inbound".into(), &true.into()));
    let outbound = json(place, &["diagnostics", "policy", "svc/web", "80"]);
    assert_eq!(outbound["parent"]["name"], "web", "{outbound}");
    let counted = text(place, &["diagnostics", "proxy-metrics", "deploy/web"]);
    assert_eq!(counted.matches("# POD ").count(), 2, "two proxies");
    assert!(counted.contains("\nresponse_total{"), "{counted}");
    let counted = text(place, &["diagnostics", "controller-metrics"]);
    assert!(counted.contains("# TYPE "), "{counted}");
}

fn written(place: &Place) {
    assert!(!text(place, &["logs", "control", "--tail", "1"]).trim().is_empty());
    let lines = text(place, &["logs", "-l", "app=web", "--tail", "1"]);
    assert!(lines.lines().all(|line| line.contains("/leno-proxy | ")), "{lines}");
}

fn refusals(place: &Place) {
    for (words, expected) in [
        (&["ps", "--as", "nobody"][..], "not allowed to list pods in namespace"),
        (&["logs", "x"], "no pod \"x\""),
        (&["logs", "deploy/plain"], "no container \"leno-proxy\""),
        (&["stat", "deploy/x"], "no deployment \"x\" with pods"),
        (&["ps", "--context", "no-such"], "current context: no-such"),
        (&["diagnostics", "endpoints", "x.default.svc:80"], "no Service has the port"),
        (&["diagnostics", "policy", "svc/web", "80", "--control-namespace", "x"], "in namespace x"),
    ] {
        let output = leno(place, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

fn leno(place: &Place, words: &[&str]) -> Output {
    let leno = binaries::find("leno").expect("leno");
    let mut command = Command::new(leno);
    command.args(words);
    if !words.contains(&"endpoints") && !words.contains(&"controller-metrics") {
        command.args(["-n", &place.name]);
    }
    command.output().expect("it runs")
}

#[track_caller]
fn text(place: &Place, words: &[&str]) -> String {
    let output = leno(place, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "leno {words:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn json(place: &Place, words: &[&str]) -> Value {
    let words = [words, &["-o", "json"]].concat();
    serde_json::from_str(&text(place, &words)).expect("JSON")
}
