//! Pods of every kind: those that end, those that speak early, those that are found in other ways, and those that cannot be in the mesh.

use crate::ground::load;
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::proxy;
use crate::ground::worker::{IMAGE, PORT, Worker, account, service};
use leno_tests::wait::until;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// For a pod that makes a few requests and ends.
const END_WAIT: Duration = Duration::from_secs(90);

/// What sends requests until it has made so many, and fails when one fails.
fn client(url: &str, requests: u32) -> Value {
    json!({
        "name": "client",
        "image": IMAGE,
        "command": ["leno-worker", "client", format!("--url={url}"), format!("--requests={requests}"), "--rate=50"],
    })
}

/// A pod that ends.
fn once(name: &str, init: &[Value], containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "serviceAccountName": "client",
            "restartPolicy": "Never",
            "initContainers": init,
            "containers": containers,
        },
    })
}

/// A place with a service `web` and the account `client`.
fn place_with_web(name: &str) -> Place {
    let place = Place::meshed(name);
    place.apply(&Worker::new("web").objects());
    place.apply(&[account("client")]);
    place.rolled_out("deployment/web");
    place
}

/// Requests that the only pod of a worker has had from `client`, with its identity.
fn seen_from_client(place: &Place, worker: &str) -> f64 {
    let pod = place.pods(&format!("app={worker}")).remove(0);
    proxy::from(place, &pod, "client")
}

#[test]
fn jobs_and_cron_jobs_finish() {
    let place = place_with_web("leno-test-jobs");
    let template = json!({"spec": {
        "serviceAccountName": "client",
        "restartPolicy": "Never",
        "containers": [client("http://web/", 20)],
    }});
    let job = json!({"template": template, "backoffLimit": 0});
    place.apply(&[
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": job}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "often"}, "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"metadata": {"labels": {"of": "often"}}, "spec": job},
        }}),
    ]);
    place.wait("job/once", "condition=Complete");
    // A CronJob's next minute.
    place.wait("cronjob/often", "jsonpath={.status.lastScheduleTime}");
    let patch = r#"{"spec":{"suspend":true}}"#;
    place.kubectl(&["patch", "cronjob/often", "-p", patch]).expect("no further ones");
    let jobs = place.kubectl(&["get", "jobs", "-l", "of=often", "-o", "name"]).expect("jobs");
    for job in jobs.lines() {
        place.wait(job, "condition=Complete");
    }
    assert!(!jobs.trim().is_empty(), "the CronJob has made a job");
    assert!(seen_from_client(&place, "web") >= 40.0, "both have spoken through the mesh");
}

#[test]
fn init_containers_and_first_instructions_have_the_network() {
    let place = place_with_web("leno-test-early");
    let first = ["first-a", "first-b", "first-c", "first-d"];
    for name in first {
        // Nothing but one request, which is the first thing that happens in the pod.
        place.apply(&[once(name, &[], &[client("http://web/", 1)])]);
    }
    let mut early = client("http://web/", 5);
    early["name"] = "early".into();
    place.apply(&[once("init", &[early], &[client("http://web/", 1)])]);
    for name in first.iter().chain(&["init"]) {
        assert_eq!(place.ended(name, END_WAIT), "Succeeded", "{name}");
    }
    let seen = seen_from_client(&place, "web");
    assert!((seen - 10.0).abs() < 0.5, "{seen} of 10 requests with the client's identity");
}

/// Requests that are on their way when a pod has to end.
const LAST_REQUESTS: u32 = 5;

/// What a pod does after SIGTERM, new connections among it, is carried by a proxy that is still there.
#[test]
fn a_proxy_outlives_its_application() {
    let place = place_with_web("leno-test-last");
    // A call before and one after the signal. The other name needs a connection of its own, and an answer of DNS.
    let plan = json!({"on": {"/last": {"calls": [
        {"url": "http://web/"},
        {"wait": "20s"},
        {"url": format!("http://web.{}.svc.cluster.local/", place.name)},
    ]}}});
    let late = Worker::new("late").with(&[&format!("--plan-json={plan}")]);
    place.apply(&[account("late"), service("late", &json!({})), late.pod("late", &place.name)]);
    place.wait("pod/late", "condition=Ready");
    let mut asks = client("http://late/last", LAST_REQUESTS);
    asks["command"].as_array_mut().expect("a list").push("--timeout=60s".into());
    place.apply(&[once("client", &[], &[asks])]);
    let web = place.pods("app=web").remove(0);
    let calls = || proxy::from(&place, &web, "late");
    let first = f64::from(LAST_REQUESTS);
    until("the calls before the signal", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        (calls() > first - 0.5).then_some(())
    });
    place.kubectl(&["delete", "pod", "late", "--wait=false"]).expect("deleted");
    until("the signal", READY_WAIT, || {
        sleep(Duration::from_millis(200));
        let about = "reason=Killing,involvedObject.name=late";
        let events = place.kubectl(&["get", "events", "--field-selector", about]).ok()?;
        events.contains("Stopping container worker").then_some(())
    });
    assert!((calls() - first).abs() < 0.5, "the wait was too short for this machine");
    assert_eq!(place.ended("client", END_WAIT), "Succeeded", "answers that came to nothing");
    let seen = calls();
    assert!((seen - 2.0 * first).abs() < 0.5, "{seen} calls of {} with mutual TLS", 2.0 * first);
}

#[test]
fn services_of_every_kind_are_found() {
    let place = place_with_web("leno-test-services");
    let external = format!("web.{}.svc.cluster.local", place.name);
    let headless = json!({"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"name": "http", "port": PORT}]});
    let named = json!({"selector": {"of": "named"}, "ports": [{"name": "http", "port": 80, "targetPort": "named"}]});
    place.apply(&[
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"},
            "spec": {"type": "ExternalName", "externalName": external}}),
        account("db"),
        service("db", &headless),
        stateful("db"),
        service("named", &named),
        account("named"),
        // The same name is another number in each.
        named_port("named-a", 8080),
        named_port("named-b", 8081),
    ]);
    for workload in ["statefulset/db", "deployment/named-a", "deployment/named-b"] {
        place.rolled_out(workload);
    }
    //          url                     answers come from
    check(&place, "http://outside/", &["web"]);
    check(&place, "http://db:8080/", &["db-0", "db-1"]);
    check(&place, "http://db-0.db:8080/", &["db-0"]);
    check(&place, "http://db-1.db:8080/", &["db-1"]);
    check(&place, "http://named/", &["named-a", "named-b"]);
    let seen = seen_from_client(&place, "web");
    assert!((seen - 40.0).abs() < 0.5, "{seen} of 40 requests by the external name were meshed");
    for pod in ["db-0", "db-1"] {
        let metrics = proxy::metrics(&place, pod).expect("metrics");
        let client = proxy::identity(&place, "client");
        let seen = metrics.sum("response_total", &[("client_id", &client), ("tls", "true")]);
        assert!(seen >= 40.0, "{pod}: {seen} requests with mutual TLS");
    }
}

#[test]
fn datagrams_pass_beside_the_proxies() {
    let place = Place::meshed("leno-test-datagrams");
    // At the number of a proxy's own port there is nobody of the mesh: that is another protocol's.
    let ports = [9000, 4143].map(|port| format!("--udp={port}"));
    place.apply(&Worker::new("names").with(&ports.each_ref().map(String::as_str)).objects());
    let datagrams = json!([
        {"name": "echo", "protocol": "UDP", "port": 53, "targetPort": 9000},
        {"name": "proxy", "protocol": "UDP", "port": 4143},
        {"name": "http", "protocol": "TCP", "port": 80, "targetPort": PORT},
    ]);
    place.apply(&[service("names", &json!({"ports": datagrams}))]);
    place.rolled_out("deployment/names");
    let path = "jsonpath={.items[0].status.podIP}";
    let address = place.kubectl(&["get", "pods", "-l", "app=names", "-o", path]).expect("a pod");
    let name = format!("names.{}.svc.cluster.local", place.name);
    let at = |host: &str, port: u16| format!("udp://{host}:{port}");
    //                host      port  its datagrams come back
    let rows = [
        (at(&name, 53), true),
        (at(&name, 4143), true),
        (at(&address, 9000), true),
        (at(&address, 4143), true),
        (at(&address, 9001), false),
        // Both ends are in the mesh all the same.
        ("http://names/".to_owned(), true),
    ];
    let urls: Vec<&str> = rows.iter().map(|(url, _)| url.as_str()).collect();
    let counted = load::asked(&place, &urls, 40, &["--body-bytes=1000"]);
    for ((url, back), counted) in rows.iter().zip(&counted) {
        assert_eq!(counted["ok"], if *back { 40 } else { 0 }, "{url}: {counted}");
    }
    let seen = seen_from_client(&place, "names");
    assert!((seen - 40.0).abs() < 0.5, "{seen} of 40 requests with mutual TLS");
}

/// 40 requests succeed, and come from among these; a headless name is looked up by the client, which may keep to one.
fn check(place: &Place, url: &str, expected: &[&str]) {
    place.apply(&[once("client", &[], &[client(url, 40)])]);
    let phase = place.ended("client", END_WAIT);
    let log = place.kubectl(&["logs", "client", "-c", "client"]).expect("a log");
    assert_eq!(phase, "Succeeded", "{url}: {log}");
    let line = log.lines().rev().find(|line| line.starts_with('{')).expect("a summary");
    let summary: Value = serde_json::from_str(line).expect("JSON");
    let workers = summary["workers"].as_object().expect("who answered");
    assert!(!workers.is_empty(), "{url}: {summary}");
    assert!(workers.keys().all(|name| expected.contains(&name.as_str())), "{url}: {summary}");
    if url == "http://named/" {
        assert_eq!(workers.len(), expected.len(), "{url}: {summary}");
    }
    place.kubectl(&["delete", "pod", "client", "--wait"]).expect("removed");
}

fn stateful(name: &'static str) -> Value {
    let mut template = Worker::new(name).template();
    let pod = &mut template["spec"]["containers"][0];
    pod["command"] = json!(["leno-worker", "--name=$(POD_NAME)", format!("--http={PORT}")]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": 2,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    })
}

fn named_port(name: &'static str, port: u16) -> Value {
    let mut deployment = Worker::new(name).deployment();
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["labels"]["of"] = "named".into();
    template["spec"]["serviceAccountName"] = "named".into();
    let container = &mut template["spec"]["containers"][0];
    container["command"] =
        json!(["leno-worker", format!("--name={name}"), format!("--http={port}")]);
    container["ports"] = json!([{"name": "named", "containerPort": port}]);
    container["readinessProbe"]["httpGet"]["port"] = "named".into();
    deployment
}

#[test]
fn what_cannot_be_in_the_mesh_is_refused_with_the_reason() {
    let place = Place::meshed("leno-test-refused");
    place.apply(&[account("client")]);
    let pod = || once("no", &[], &[client("http://web/", 1)]);
    let mut host = pod();
    host["spec"]["hostNetwork"] = true.into();
    host["metadata"]["labels"]["leno.dev/inject"] = "enabled".into();
    refused(&place, &host, "hostNetwork");
    let mut user = pod();
    user["spec"]["securityContext"] = json!({"runAsUser": 2102});
    refused(&place, &user, "2102");
    let mut annotated = pod();
    annotated["metadata"]["annotations"] = json!({"config.leno.dev/skip-inbund-ports": "25"});
    refused(&place, &annotated, "skip-inbound-ports");
    // Without its own label it is left outside, with an Event.
    host["metadata"]["labels"].as_object_mut().expect("labels").remove("leno.dev/inject");
    host["spec"]["containers"][0]["command"] = json!(["leno-worker", "--version"]);
    place.apply(&[host]);
    assert_eq!(place.ended("no", END_WAIT), "Succeeded");
    let event = until("an Event about the pod", END_WAIT, || {
        let events = ["get", "events", "--field-selector", "reason=InjectionSkipped"];
        place.json(&events).ok()?["items"].as_array()?.first().cloned()
    });
    assert_eq!(event["involvedObject"]["name"], "no", "{event}");
}

fn refused(place: &Place, pod: &Value, word: &str) {
    let refusal = place.try_apply(std::slice::from_ref(pod)).expect_err("it is refused");
    assert!(refusal.to_string().contains(word), "{word} is not in: {refusal}");
}
