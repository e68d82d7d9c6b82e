//! Two replicas of the control plane: both serve, one writes, and either may go.

use crate::ground::control;
use crate::ground::load::Load;
use crate::ground::place::Place;
use crate::ground::proxy;
use crate::ground::route::{GOOD, route, to, told};
use crate::ground::worker::{Worker, service};
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
