//! Two workers that talk: the thin path that all else widens.

use crate::ground::load::Load;
use crate::ground::place::Place;
use crate::ground::proxy;
use crate::ground::worker::Worker;

#[test]
fn two_workers_talk_with_mutual_tls() {
    let place = Place::meshed("leno-test-thin");
    place.apply(&Worker::new("web").times(2).objects());
    place.rolled_out("deployment/web");
    let outcome = Load::start(&place, "http://web/", 50, 5).end();
    println!("{outcome}");
    assert_eq!((outcome.failed, outcome.sent), (0, 250), "{outcome}");
    assert_eq!(outcome.workers["web"], 250, "{:?}", outcome.workers);
    let mut seen = 0.0;
    for pod in place.pods("app=web") {
        seen += proxy::from_load(&place, &pod);
    }
    assert!((seen - 250.0).abs() < 0.5, "{seen} requests with the right identity");
}
