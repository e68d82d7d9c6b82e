//! What generators are told, and what they say together.

use super::*;
use crate::run::plan::expand;
use std::path::Path;

fn scenario(load: &str) -> Scenario {
    let text = format!(
        "apiVersion: leno-bench/v1\nkind: Scenario\nmetadata: {{id: a, title: A}}\n\
         topology: {{manifests: [a.yaml], instances: {{count: 2, manifests: [b.yaml]}}}}\nmeshes: [none]\n\
         phases: {{warmup: 1s, measure: 9s}}\nloads:\n- {{name: a, {load}}}\n"
    );
    crate::scenario::parse(Path::new("a.yaml"), &text)
        .unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}

#[test]
fn words() {
    check(
        "target: http://x/, connections: 8",
        "http://x/ --connections 8 --duration 9000ms --warmup 1000ms --profile honest --seed 7 --timeout 10000ms --method GET --lateness-max 0 --json - --no-tui",
    );
    check(
        "target: http://x/, connections: 8, rate: 200, mode: wrk2, keepalive: false",
        "http://x/ --connections 8 --duration 9000ms --warmup 1000ms --rate 200 --arrival poisson --profile wrk2 --seed 7 --timeout 10000ms --method GET --lateness-max 0 --json - --no-tui --disable-keepalive",
    );
    check(
        "target: http://x/S/M, protocol: grpc, connections: 4, streams: 32, body: 1KiB, method: POST, headers: {a: b}",
        "http://x/S/M --connections 4 --streams 32 --duration 9000ms --warmup 1000ms --profile honest --seed 7 --timeout 10000ms --method POST --header a: b --payload-size 1024 --lateness-max 0 --json - --no-tui --grpc",
    );
    check(
        "target: http://x/, arrival: ramp, points: [[0, 10], [5s, 100]], requests: {count: 50, at_most: 9s}",
        "http://x/ --connections 1 --duration 9000ms --count 50 --warmup 1000ms --rate 0s:10,5s:100 --arrival poisson,ramp --profile honest --seed 7 --timeout 10000ms --method GET --lateness-max 0 --json - --no-tui",
    );
}

#[track_caller]
fn check(load: &str, expected: &str) {
    let scenario = scenario(load);
    let plan = expand(&scenario, 1);
    let load = &scenario.loads[0];
    let rate = plan.cells[0].rate.as_ref().map(|_| 200.0);
    let parts = divide(&scenario, &plan.cells[0], rate, &["d/c".to_owned()]);
    let stretch = Stretch {
        warm_up: load.phases.warmup.max,
        measure: load.phases.measure,
        counted: load.requests.is_some(),
    };
    let words = arguments(load, plan.cells[0].mode, &parts[0], stretch, 7).join(" ");
    assert_eq!(words, format!("bench load {expected}"));
}

#[test]
fn a_load_is_divided_by_pods_weights_and_instances() {
    let load =
        "target: [{url: 'http://w{i}/a', weight: 3}, 'http://w{i}/b'], connections: 16, rate: 80";
    let scenario = scenario(load);
    let plan = expand(&scenario, 1);
    let pods = ["d/c-0".to_owned(), "d/c-1".to_owned()];
    let parts = divide(&scenario, &plan.cells[0], Some(80.0), &pods);
    let seen: Vec<String> = parts
        .iter()
        .map(|part| format!("{} {} {} {:?}", part.pod, part.url, part.connections, part.rate))
        .collect();
    assert_eq!(seen.len(), 8);
    assert_eq!(seen[0], "d/c-0 http://w0/a 3 Some(15.0)");
    assert_eq!(seen[3], "d/c-0 http://w1/b 1 Some(5.0)");
    assert_eq!(seen[7], "d/c-1 http://w1/b 1 Some(5.0)");
    assert_eq!(parts.iter().filter_map(|part| part.rate).sum::<f64>(), 80.0);
}

#[test]
fn outcomes_of_several_are_one() {
    let outcome = |start: u64, latency: u64, second: u64| {
        let mut outcome =
            Outcome { start_monotonic_ns: start, duration_s: 2.0, ..Outcome::default() };
        outcome.hist.response.record(latency);
        outcome.counts.completed = 1;
        outcome.counts.status.insert("200".into(), 1);
        outcome.seconds = vec![Second { at_s: second, completed: 1, ..Second::default() }];
        outcome.generator.busy_max = latency as f64;
        outcome
    };
    let whole = merge(vec![
        outcome(2_000_000_000, 5, 1),
        outcome(1_000_000_000, 9, 0),
        outcome(3_000_000_000, 7, 1),
    ]);
    assert_eq!(whole.start_monotonic_ns, 1_000_000_000);
    assert_eq!(whole.duration_s, 4.0);
    assert_eq!((whole.hist.response.count(), whole.counts.status["200"]), (3, 3));
    let seconds: Vec<(u64, u64)> = whole.seconds.iter().map(|s| (s.at_s, s.completed)).collect();
    assert_eq!(seconds, [(0, 1), (1, 2)]);
    assert_eq!(whole.generator.busy_max, 9.0);
}
