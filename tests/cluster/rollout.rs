//! The rollout gate: caller and called are restarted again and again under a steady load, and nobody notices.

use crate::ground::load::Load;
use crate::ground::place::Place;
use crate::ground::worker::Worker;
use std::time::{Duration, Instant};

const SECONDS: u64 = 180;
const PER_SECOND: u32 = 200;

#[test]
fn rollouts_under_load_fail_no_request() {
    let place = Place::meshed("leno-test-rollout");
    place.apply(&Worker::new("api").times(2).objects());
    place.apply(&Worker::new("web").times(2).with(&["--call=http://api/"]).objects());
    place.rolled_out("deployment/api");
    place.rolled_out("deployment/web");
    let load = Load::start(&place, "http://web/", PER_SECOND, SECONDS);
    let end = Instant::now() + Duration::from_secs(SECONDS - 10);
    let mut rollouts = 0;
    while Instant::now() < end {
        let workloads = ["deployment/web", "deployment/api"];
        place.kubectl(&["rollout", "restart", workloads[0], workloads[1]]).expect("restarted");
        for workload in workloads {
            place.rolled_out(workload);
        }
        rollouts += 1;
    }
    let outcome = load.end();
    println!("{rollouts} rollouts of caller and called in {SECONDS} s: {outcome}");
    assert!(rollouts >= 3, "{rollouts} rollouts");
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert_eq!(outcome.sent, u64::from(PER_SECOND) * SECONDS, "{outcome}");
}
