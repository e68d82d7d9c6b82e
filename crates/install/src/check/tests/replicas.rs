//! A control plane that serves while what is to replace it does not.

use super::*;

/// A pod beside the one that serves.
fn beside(status: Value) -> impl Fn(&mut Facts) {
    move |f: &mut Facts| {
        let mut pod = control_pod();
        pod["metadata"]["name"] = "leno-control-2".into();
        pod["status"] = status.clone();
        f.control_pods.push(pod);
    }
}

#[test]
fn a_rollout_that_crashes() {
    let facts = || well(Mode::Whole);
    let container = |restarts: u64, state: Value, last: Value| {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [
            {"name": "control", "restartCount": restarts, "state": state, "lastState": last},
        ]})
    };
    let back_off = container(
        2,
        json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        json!({"terminated": {"exitCode": 2}}),
    );
    let seen = "× leno-control-2: CrashLoopBackOff (exit code 2), restarted 2 times";
    check(facts(), beside(back_off.clone()), &[seen, "logs leno-control-2 --previous"]);
    let mut crashing = facts();
    beside(back_off.clone())(&mut crashing);
    assert!(may_pass(&run(&crashing)));
    // Between two waits it runs for a moment.
    let running = container(1, json!({"running": {}}), json!({"terminated": {"exitCode": 2}}));
    check(facts(), beside(running), &["× leno-control-2: it ended (exit code 2)"]);
    // What starts for the first time, and what was told to end.
    for status in [
        container(0, json!({"waiting": {"reason": "ContainerCreating"}}), json!({})),
        container(1, json!({"running": {}}), json!({"terminated": {"exitCode": 0}})),
    ] {
        let mut starting = facts();
        beside(status)(&mut starting);
        assert_eq!(told(&starting), "");
    }
    let mut evicted = facts();
    beside(back_off.clone())(&mut evicted);
    evicted.control_pods[1]["status"]["phase"] = "Failed".into();
    assert_eq!(told(&evicted), "");
    let mut leaving = facts();
    beside(back_off)(&mut leaving);
    leaving.control_pods[1]["metadata"]["deletionTimestamp"] = rfc3339(NOW).into();
    assert_eq!(told(&leaving), "");
}

#[test]
fn a_rollout_that_does_not_end() {
    let facts = || well(Mode::Whole);
    let pulling = || {
        beside(json!({"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
        ]}))
    };
    let unavailable = |f: &mut Facts| {
        pulling()(f);
        object(f, DEPLOYMENT)["status"]["unavailableReplicas"] = 1.into();
    };
    check(
        facts(),
        unavailable,
        &[
            "× 1 of 1 pods have the last change, 1 not available (leno-control-2: ImagePullBackOff)",
            "rollout status",
        ],
    );
    let stuck = |f: &mut Facts| {
        object(f, DEPLOYMENT)["status"]["conditions"] = json!([
            {"type": "Available", "status": "True"},
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "it timed out"},
        ]);
    };
    check(facts(), stuck, &["× ProgressDeadlineExceeded: it timed out", "rollout status"]);
    check(
        facts(),
        |f| object(f, DEPLOYMENT)["metadata"]["generation"] = 4.into(),
        &["× the rollout has not started"],
    );
    check(
        facts(),
        |f| object(f, DEPLOYMENT)["status"]["updatedReplicas"] = 0.into(),
        &["× 0 of 1 pods have the last change"],
    );
}
