//! From traffic to a policy on a cluster: `leno policy suggest`, apply, `leno policy simulate`, and the same traffic again.

use crate::commands;
use crate::ground::kubectl;
use crate::ground::load::{Load, asked};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::proxy;
use crate::ground::worker::Worker;
use leno_tests::wait::until;
use serde_json::{Value, json};
use std::time::Duration;

/// Requests of each client.
const REQUESTS: u32 = 20;

#[test]
fn a_suggested_policy_denies_nothing_that_was_seen() {
    let place = Place::meshed("leno-test-policy");
    default_policy(&place, "audit");
    place.apply(&Worker::new("web").objects());
    place.apply(&[stranger()]);
    place.rolled_out("deployment/web");
    place.rolled_out("deployment/stranger");
    traffic(&place);
    let clients = ["client", "load"].map(|name| proxy::identity(&place, name));
    until("the record to have both clients", READY_WAIT, || {
        std::thread::sleep(Duration::from_secs(1));
        let counts = clients.each_ref().map(|client| counted(&place, client));
        println!("recorded: {counts:?}");
        // More where the test has run before.
        counts.iter().all(|count| *count >= u64::from(REQUESTS)).then_some(())
    });

    let suggestion = commands::json(&place, &["policy", "suggest"]);
    let yaml = suggestion["yaml"].as_str().expect("a text");
    println!("{yaml}");
    assert_eq!(suggestion["missed"], json!([]), "{suggestion:#}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, yaml).expect("written");
    let file = file.to_str().expect("a path");
    kubectl::run(&["apply", "-f", file]).expect("the API server takes the suggestion");
    default_policy(&place, "deny");
    until("a stranger to be denied", READY_WAIT, || {
        std::thread::sleep(Duration::from_millis(500));
        (!is_allowed(&place, "deploy/stranger")).then_some(())
    });

    let simulation = commands::json(&place, &["policy", "simulate", "-f", file]);
    for field in ["denied", "unknown", "problems", "missing"] {
        assert_eq!(simulation[field], json!([]), "{simulation:#}");
    }
    assert!(simulation["unchanged"].as_u64() >= Some(2), "{simulation:#}");
    traffic(&place);
}

/// What pods of the place admit where no Server says so.
fn default_policy(place: &Place, policy: &str) {
    let annotation = format!("leno.dev/default-inbound-policy={policy}");
    kubectl::run(&["annotate", "namespace", &place.name, "--overwrite", &annotation])
        .expect("the namespace is annotated");
}

/// Both clients get an answer to each request.
fn traffic(place: &Place) {
    let outcome = Load::start(place, "http://web/", REQUESTS, 1).end();
    assert_eq!((outcome.failed, outcome.sent), (0, u64::from(REQUESTS)), "{outcome}");
    let counted = asked(place, &["http://web/"], REQUESTS, &[]).remove(0);
    assert_eq!((&counted["failed"], &counted["sent"]), (&json!(0), &json!(REQUESTS)), "{counted}");
}

/// Requests of a client that the record has of `web`.
fn counted(place: &Place, client: &str) -> u64 {
    let answer = commands::json(place, &["authz", "deploy/web"]);
    let seen = answer["seen"].as_array().into_iter().flatten();
    let own = seen.filter(|one| one["client"] == client);
    own.filter_map(|one| one["count"].as_u64()).sum()
}

/// A client outside of the mesh, which calls nobody.
fn stranger() -> Value {
    let mut stranger = Worker::new("stranger").deployment();
    stranger["spec"]["template"]["metadata"]["labels"]["leno.dev/inject"] = "disabled".into();
    stranger["spec"]["template"]["spec"]["serviceAccountName"] = "default".into();
    stranger
}

/// What the control plane answers about a call of a client.
fn is_allowed(place: &Place, client: &str) -> bool {
    let words = ["explain", client, "to", "svc/web:80", "GET", "/"];
    let answer: Value = commands::json_whatever(place, &words);
    answer["allowed"] == json!(true)
}
