//! Two replicas of the control plane: both serve, one writes, and either may go.

use crate::commands;
use crate::ground::control;
use crate::ground::load::{Load, asked};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::proxy;
use crate::ground::route::{GOOD, route, to, told};
use crate::ground::worker::{Worker, service};
use leno_tests::wait::until;
use serde_json::json;
use std::time::{Duration, Instant};

const PER_SECOND: u32 = 100;
/// At most; it is ended before.
const SECONDS: u64 = 400;
/// A Lease that is given back is another's by then: it is looked at every 2 s. One that is not given back lapses 15 s after it was written
/// last, which happens every 2 s.
const GIVEN_BACK: Duration = Duration::from_secs(12);

#[test]
fn a_leader_dies_and_another_leaves() {
    let place = Place::meshed("leno-test-replicas");
    place.apply(&Worker::new("web").objects());
    place.rolled_out("deployment/web");
    let replicas = control::replicas(2);
    let load = Load::start(&place, "http://web/", PER_SECOND, SECONDS);
    proxy::asked(&place, &place.pods("app=web")[0], 0.0);

    let first = control::leader_after("");
    let began = Instant::now();
    control::dies(&first).expect("the leader dies");
    let second = control::leader_after(&first);
    println!("{second} leads {:.1} s after the death of {first}", began.elapsed().as_secs_f64());
    // A pod is admitted and certified, a route is told what became of it, and proxies of before hear of it.
    place.apply(&Worker::new("other").objects());
    place.rolled_out("deployment/other");
    place.apply(&[route("HTTPRoute", "all", "web", &[to("other")])]);
    told(&place, "httproute", "all", GOOD);
    proxy::asked(&place, &place.pods("app=other")[0], 0.0);
    control::rolled_out().expect("a new replica");

    let second = control::leader_after("");
    let began = Instant::now();
    control::leaves(&second).expect("the leader is asked to end");
    let third = control::leader_after(&second);
    let took = began.elapsed();
    println!("{third} leads {:.1} s after {second} was asked to end", took.as_secs_f64());
    assert!(took < GIVEN_BACK, "{took:?}: the Lease ran out and was not given back");
    place.apply(&[service("late", &json!({"selector": {"app": "other"}}))]);
    place.apply(&[route("HTTPRoute", "late", "late", &[to("web")])]);
    told(&place, "httproute", "late", GOOD);
    control::rolled_out().expect("a new replica");

    let outcome = load.stop();
    println!("two leaders went: {outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert!(outcome.workers["other"].as_u64() > Some(0), "{:?}", outcome.workers);
    drop(replicas);
}

/// Proxies report to the replica that they are connected to. One answer holds what all replicas have.
#[test]
fn one_record_of_all_replicas() {
    let replicas = control::replicas(2);
    let place = Place::meshed("leno-test-records");
    // Each proxy connects to a replica at random: of 32 runs, 31 have reports at both.
    place.apply(&Worker::new("web").times(6).objects());
    place.rolled_out("deployment/web");
    let by_load = Load::start(&place, "http://web/", PER_SECOND, 3).end();
    let by_client = asked(&place, &["http://web/"], 90, &[]).remove(0);
    let sent = [("load", by_load.sent), ("client", by_client["sent"].as_u64().expect("a count"))];
    let count = |answer: &serde_json::Value, account: &str| -> u64 {
        let identity = proxy::identity(&place, account);
        let seen = answer["seen"].as_array().into_iter().flatten();
        seen.filter(|one| one["client"] == identity).filter_map(|one| one["count"].as_u64()).sum()
    };
    // The record is asked for at one replica.
    until("all that was sent to be in the record", READY_WAIT, || {
        std::thread::sleep(Duration::from_secs(1));
        let answer = commands::json(&place, &["authz", "deploy/web"]);
        let counts = sent.map(|(account, _)| count(&answer, account));
        println!("recorded {counts:?} of {sent:?}, missing {}", answer["missing"]);
        // More where the test has run before.
        let is_all = sent.iter().zip(counts).all(|((_, sent), count)| count >= *sent);
        (is_all && answer["missing"] == json!([])).then_some(())
    });
    let suggestion = commands::json(&place, &["policy", "suggest"]);
    let yaml = suggestion["yaml"].as_str().expect("a text");
    assert_eq!(suggestion["missing"], json!([]), "{suggestion:#}");
    for (account, _) in sent {
        assert!(yaml.contains(&format!("/sa/{account}\"")), "{account} is not in\n{yaml}");
    }
    drop(place);
    drop(replicas);
}
