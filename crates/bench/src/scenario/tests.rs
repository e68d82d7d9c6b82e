//! A table of mistakes, and what a whole file becomes.

use super::*;

const WHOLE: &str = "\
apiVersion: leno-bench/v1
kind: Scenario
metadata: {id: a, title: A}
topology:
  manifests: [a.yaml]
meshes: [none, leno]
phases: {warmup: 1s, measure: 10s}
loads:
- name: main
  target: http://echo:8080/
  rate: [20, 200]
  connections: 8
";

fn seen(text: &str) -> Vec<String> {
    match parse(Path::new("a.yaml"), text) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_whole_file() {
    let scenario = parse(Path::new("dir/a.yaml"), WHOLE).expect("it is whole");
    assert_eq!(scenario.loads[0].rates, [Rate::Fixed(20.0), Rate::Fixed(200.0)]);
    assert_eq!(
        scenario.loads[0].arrival,
        load::Arrival::Poisson,
        "a rate without arrival is honest"
    );
    assert_eq!(scenario.loads[0].phases.measure.as_secs(), 10);
    assert_eq!(scenario.topology.client, "client");
}

#[test]
fn mistakes() {
    // What is replaced, by what, and what is said.
    check(
        "meshes: [none, leno]",
        "meshes: [none, lino]",
        &["6: meshes: \"lino\" is none of none, leno, envoy, haproxy, nginx, linkerd"],
    );
    check("meshes: [none, leno]", "meshes: [none, none]", &["6: meshes: none is named twice"]);
    check(
        "meshes: [none, leno]",
        "mesh: [none]",
        &["1: meshes is missing", "6: mesh: unknown field"],
    );
    check("id: a", "id: b", &["3: metadata: id: \"b\" is not the file's name"]);
    check(
        "measure: 10s",
        "measure: 10",
        &[
            "7: phases.measure: \"10\" needs a unit: us, ms, s, m or h",
            "9: loads.0: neither measure nor requests says when it ends",
        ],
    );
    check(
        "  rate: [20, 200]",
        "  rates: [20, 200]",
        &["11: loads.0.rates: unknown field, did you mean rate?"],
    );
    check(
        "  rate: [20, 200]",
        "  rate: [20, fast]",
        &["11: loads.0.rate.1: must be a number from 0 up, not text"],
    );
    check(
        "  rate: [20, 200]",
        "  arrival: uniform",
        &["9: loads.0: arrival: uniform needs a rate"],
    );
    check(
        "  rate: [20, 200]",
        "  arrival: closed\n  rate: 5",
        &["12: loads.0.rate: arrival closed has no rate"],
    );
    check(
        "  rate: [20, 200]",
        "  arrival: steps\n  points: [[1s, 5], [0, 5], [3s]]",
        &[
            "12: loads.0.points.1: points must be in the order of their times, each later than the last",
            "12: loads.0.points.2: a point is [time, rate]",
        ],
    );
    check(
        "  rate: [20, 200]",
        "  rate: {share: 75%, of: lowest, load: none-such}",
        &["1: loads: main: rate: no earlier load is named none-such"],
    );
    check(
        "http://echo:8080/",
        "tcp://echo:8080",
        &["9: loads.0: target: \"tcp://echo:8080\" does not go with protocol http1"],
    );
    check(
        "  connections: 8",
        "  connections: 8\n  streams: 4",
        &[
            "9: loads.0: streams: only h2c, grpc and grpc-stream carry more than one on a connection",
        ],
    );
    check(
        "  connections: 8",
        "  mode: [oha-closed, wrk3]",
        &[
            "12: loads.0.mode.1: \"wrk3\" is none of honest, wrk2, fortio, oha-closed",
            "9: loads.0: mode: oha-closed has no rate",
        ],
    );
    check(
        "warmup: 1s",
        "warmup: {min: 5s, max: 4s}",
        &[
            "7: phases.warmup: min is longer than max",
            "7: phases.warmup: so many windows do not fit into max",
        ],
    );
}

#[test]
fn mistakes_of_the_later_parts() {
    added("timeline:\n- at: 1s\n", &["14: timeline.0: do is missing"]);
    added(
        "timeline:\n- {at: 1s, do: {kill: {}}}\n",
        &["14: timeline.0.do.kill: workload is missing"],
    );
    added(
        "timeline:\n- {do: {kill: {workload: x}}}\n",
        &["14: timeline.0: at or every is missing"],
    );
    added(
        "timeline:\n- {at: 1s, do: {explode: {workload: x}}}\n",
        &[
            "14: timeline.0.do.explode: unknown field",
            "14: timeline.0.do: exactly one of kill, stop, continue, set, control_plane, netem",
        ],
    );
    added(
        "timeline:\n- {at: 11s, do: {control_plane: restart}}\n",
        &["1: timeline: control_plane at 11s is after the end of every load"],
    );
    added(
        "plan: {blocks: 2, aa_check: true, order: random}\n",
        &[
            "13: plan.order: \"random\" is none of interleaved, randomised",
            "13: plan: aa_check: two halves with less than two repetitions each say nothing; blocks: 4",
        ],
    );
    added(
        "plan: {blocks: 2}\ndiscard: {rule: worst_max, n: 2}\n",
        &["14: discard: n: 2 of 2 blocks leaves nothing"],
    );
    added("validity: {app_cpu_max: 800%}\n", &["13: validity: app_cpu_max: more than everything"]);
    added(
        "assert:\n- {metric: p98, max: 1}\n",
        &[
            "14: assert.0.metric: \"p98\" is no figure: p50 to p9999, max, mean, rps, failed_ratio, failed_ratio_1s, recovery_s, or role.figure as proxy.cpu_us_per_req",
        ],
    );
    added(
        "assert:\n- {metric: p99, versus: none}\n",
        &[
            "14: assert.0: says nothing: max, min, added_max or ratio_max",
            "14: assert.0: versus goes with added_max or ratio_max",
        ],
    );
    added(
        "published: {figures: [{mesh: none, load: other, metrics: {p50: 1}}]}\n",
        &["13: published: source is missing", "1: no load is named other"],
    );
    added("plan: [\n", &["13: unclosed bracket '[' at line 13, column 7"]);
}

#[test]
fn every_mistake_is_reported_at_once() {
    let text = "apiVersion: v1\nkind: Scenario\nmetadata: {id: a}\nextra: 1\nloads:\n- {name: 5, target: [1]}\n";
    let mistakes = seen(text);
    assert!(mistakes.len() >= 7, "{mistakes:#?}");
}

#[track_caller]
fn check(from: &str, to: &str, expected: &[&str]) {
    assert!(WHOLE.contains(from), "{from}");
    compare(&WHOLE.replace(from, to), expected);
}

#[track_caller]
fn added(text: &str, expected: &[&str]) {
    compare(&format!("{WHOLE}{text}"), expected);
}

#[track_caller]
fn compare(text: &str, expected: &[&str]) {
    let seen = seen(text);
    let expected: Vec<String> = expected.iter().map(|line| format!("a.yaml:{line}")).collect();
    // An expectation that ends with a space is the beginning of what is said.
    let same = seen.len() == expected.len()
        && seen.iter().zip(&expected).all(|(seen, expected)| {
            seen == expected || (expected.ends_with(' ') && seen.starts_with(expected.as_str()))
        });
    let mut sorted = (seen.clone(), expected.clone());
    sorted.0.sort();
    sorted.1.sort();
    assert!(same || sorted.0 == sorted.1, "{seen:#?}\nexpected {expected:#?}");
}
