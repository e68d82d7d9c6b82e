//! A table of mistakes, and what a whole file becomes.

use super::*;
use load::Rate;

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
        &[
            "6: meshes.1: \"lino\" is not a known mesh; known: none, leno, envoy, haproxy, nginx, linkerd",
        ],
    );
    check("meshes: [none, leno]", "meshes: [none, none]", &["6: meshes.1: \"none\" appears twice"]);
    check("meshes: [none, leno]", "meshes: []", &["6: meshes: is an empty list"]);
    check(
        "meshes: [none, leno]",
        "mesh: [none]",
        &["1: meshes is missing", "6: mesh: unknown field"],
    );
    check("id: a", "id: b", &["3: metadata.id: \"b\" is not the file's name"]);
    check(
        "measure: 10s",
        "measure: 10",
        &["7: phases.measure: \"10\" is not a valid duration: add a unit, for example 10s"],
    );
    check(
        "  rate: [20, 200]",
        "  rates: [20, 200]",
        &["11: loads.0.rates: unknown field, did you mean rate?"],
    );
    check(
        "  rate: [20, 200]",
        "  rate: [20, fast]",
        &["11: loads.0.rate.1: must be a number from 0 up, not \"fast\""],
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
        &["11: loads.0.rate.load: no earlier load is named none-such"],
    );
    check(
        "http://echo:8080/",
        "tcp://echo:8080",
        &["10: loads.0.target: \"tcp://echo:8080\" is not valid with protocol http1"],
    );
    check(
        "  connections: 8",
        "  connections: 8\n  streams: 4",
        &[
            "9: loads.0: streams: only h2c, grpc and grpc-stream support more than one on a connection",
        ],
    );
    check(
        "  connections: 8",
        "  mode: [oha-closed, wrk3]",
        &[
            "12: loads.0.mode.1: \"wrk3\" is not one of honest, wrk2, fortio, oha-closed",
            "9: loads.0: mode: oha-closed has no rate",
        ],
    );
    check(
        "warmup: 1s",
        "warmup: {min: 5s, max: 4s}",
        &[
            "7: phases.warmup: min is longer than max",
            "7: phases.warmup: the windows do not fit into max",
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
        &["14: timeline.0: control_plane at 11s is after the end of every load"],
    );
    added(
        "plan: {blocks: 2, aa_check: true, order: random}\n",
        &[
            "13: plan.order: \"random\" is not one of interleaved, randomised",
            "13: plan: aa_check needs at least two repetitions in each half; use blocks: 4",
        ],
    );
    added(
        "plan: {blocks: 2}\ndiscard: {rule: worst_max, n: 2}\n",
        &["14: discard.n: excluding 2 of 2 blocks leaves no repetition"],
    );
    added(
        "validity: {app_cpu_max: 800%}\n",
        &["13: validity.app_cpu_max: the share must be at most 1"],
    );
    added(
        "assert:\n- {metric: p98, max: 1}\n",
        &[
            "14: assert.0.metric: \"p98\" is not a metric; use p50, p75, p90, p95, p99, p999, p9999, max, mean (service.p50 …), rps, \
             failed_ratio, throttled_s, a role's as proxy.cpu_us_per_req, failed_ratio_1s, recovery_s, \
             goodput, share, amplification",
        ],
    );
    added(
        "assert:\n- {metric: p99, versus: none}\n",
        &[
            "14: assert.0: needs max, min, added_max, ratio_max or ratio_min",
            "14: assert.0: versus and beside need added_max, ratio_max or ratio_min",
        ],
    );
    added(
        "published: {figures: [{mesh: none, load: other, metrics: {p50: 1}}]}\n",
        &[
            "13: published: source is missing",
            "13: published.figures.0.load: no load is named \"other\"; there are main",
        ],
    );
    added("plan: [\n", &["13:7: unclosed bracket '['"]);
}

#[test]
fn windows_and_what_is_asserted_of_them() {
    added("windows: {ill: [1s, 20s]}\n", &["13: windows.ill: 20s is after the end of every load"]);
    let asserted = |text: &str, expected: &str| {
        added(&format!("assert:\n- {{{text}}}\n"), &[&format!("14: assert.0{expected}")]);
    };
    asserted("metric: goodput, window: x, min: 1", ".window: there is no window \"x\" in windows");
    asserted(
        "metric: rps, window: whole, min: 1",
        ": window and beside are for goodput, failed_ratio, p50, p99, share, amplification",
    );
    asserted("metric: share, max: 1", ": share needs pod");
    asserted(
        "metric: amplification, workload: web, max: 1",
        ".workload: \"web\" is not in topology.counted",
    );
    asserted("metric: p99, beside: {}, ratio_max: 1", ".beside: needs window or load");
    asserted("metric: share, pod: web-0, max: 1", ".pod: needs its workload in topology.counted");
}

#[test]
fn a_mistake_does_not_hide_another() {
    check(
        "  connections: 8",
        "  connections: 8\n- {name: b, target: \":9999\", streams: 0, keepalive: maybe}",
        &[
            "13: loads.1.streams: must be a whole number from 1 to 10000, not 0",
            "13: loads.1.keepalive: true, false, or honest (only in honest mode)",
            "13: loads.1.target: \":9999\": a URL begins with http://, grpc:// or tcp://, then host and port",
        ],
    );
    check(
        "  connections: 8",
        "  protocol: http3\n  streams: 0\n  keepalive: maybe",
        &[
            "12: loads.0.protocol: \"http3\" is not one of http1, h2c, grpc, grpc-stream, tcp",
            "13: loads.0.streams: must be a whole number from 1 to 10000, not 0",
            "14: loads.0.keepalive: true, false, or honest (only in honest mode)",
        ],
    );
    check(
        "  rate: [20, 200]",
        "  arrival: bogus\n  points: [[1, 5]]",
        &[
            "11: loads.0.arrival: \"bogus\" is not one of closed, uniform, poisson, burst, steps, ramp",
            "12: loads.0.points.0.0: \"1\" is not a valid duration: add a unit, for example 1s",
        ],
    );
    check(
        "http://echo:8080/",
        "{url: \"echo:8080\", weight: 0}",
        &[
            "10: loads.0.target.weight: must be a whole number from 1 to 1000, not 0",
            "10: loads.0.target: \"echo:8080\": a URL begins with http://, grpc:// or tcp://, then host and port",
        ],
    );
    check(
        "warmup: 1s",
        "warmup: {min: 5s, max: 4s, windows: 1}",
        &[
            "7: phases.warmup.windows: must be a whole number from 2 to 20, not 1",
            "7: phases.warmup: min is longer than max",
        ],
    );
    added(
        "timeline:\n- {at: 1, do: {kill: {workload: x, count: 0, signal: HUP}}}\n",
        &[
            "14: timeline.0.at: \"1\" is not a valid duration: add a unit, for example 1s",
            "14: timeline.0.do.kill.signal: \"HUP\" is not one of KILL, TERM, INT, QUIT",
            "14: timeline.0.do.kill.count: must be a whole number from 1 to 1000, not 0",
        ],
    );
    added(
        "assert:\n- {load: mian, mesh: lemo, max: fast}\n",
        &[
            "14: assert.0: metric is missing",
            "14: assert.0.max: must be a number, a share (0.1%) or a time (1ms)",
            "14: assert.0.load: no load is named \"mian\"; there are main",
            "14: assert.0.mesh: \"lemo\" is not a known mesh; known: none, leno, envoy, haproxy, nginx, linkerd",
        ],
    );
}

#[test]
fn a_mistake_does_not_make_up_another() {
    check("name: main", "name: \"\"", &["9: loads.0.name: is empty"]);
    check(
        "  rate: [20, 200]",
        "  arrival: bogus\n  rate: -4\n  mode: oha-closed",
        &[
            "11: loads.0.arrival: \"bogus\" is not one of closed, uniform, poisson, burst, steps, ramp",
            "12: loads.0.rate: must be a number from 0 up, not -4",
        ],
    );
    check(
        "  rate: [20, 200]",
        "  arrival: steps\n  points: [[x, 5]]",
        &[
            "12: loads.0.points.0.0: \"x\" is not a valid duration: write it like 300ms, 1.5s, 10m or 1h30m",
        ],
    );
    check(
        "  connections: 8",
        "  protocol: http3\n  streams: 4\n  keepalive: false",
        &["12: loads.0.protocol: \"http3\" is not one of http1, h2c, grpc, grpc-stream, tcp"],
    );
    check(
        "http://echo:8080/",
        "htp://echo:8080",
        &[
            "10: loads.0.target: \"htp://echo:8080\" is not a URL: it must start with http, https, grpc, grpcs, tcp or tls, then ://",
        ],
    );
    check(
        "http://echo:8080/",
        "tcp://echo",
        &["10: loads.0.target: \"tcp://echo\": a port from 1 to 65535 is missing"],
    );
    check(
        "  connections: 8",
        "  measure: long\ntimeline: [{at: 11s, do: {control_plane: restart}}]",
        &[
            "12: loads.0.measure: \"long\" is not a valid duration: write it like 300ms, 1.5s, 10m or 1h30m",
        ],
    );
    // The load without a name may be the one that is meant, and the line without a workload, too.
    check(
        "  connections: 8",
        "  connections: 8\n- {name: 5, target: \"http://echo:80/\"}\n\
         - {name: c, target: \"http://echo:80/\", rate: {share: 75%, load: b}}\n\
         assert: [{metric: p99, load: b, max: 5ms}]",
        &["13: loads.1.name: must be text, not a number"],
    );
    added(
        "timeline:\n- {at: 1s, do: {kill: {}}}\n\
         assert:\n- {metric: failed_ratio_1s, max: 0, except: {after: kill, for: 1s}}\n",
        &["14: timeline.0.do.kill: workload is missing"],
    );
    added(
        "assert:\n- {metric: p98, versus: none, ratio_max: fast, except: {after: kill, for: 1}}\n\
         timeline: [{at: 1s, do: {kill: {workload: x}}}]\n",
        &[
            "14: assert.0.metric: \"p98\" is not a metric; use p50, p75, p90, p95, p99, p999, p9999, max, mean (service.p50 …), rps, \
             failed_ratio, throttled_s, a role's as proxy.cpu_us_per_req, failed_ratio_1s, recovery_s, \
             goodput, share, amplification",
            "14: assert.0.ratio_max: must be a number, a share (0.1%) or a time (1ms)",
            "14: assert.0.except.for: \"1\" is not a valid duration: add a unit, for example 1s",
        ],
    );
    added(
        "plan: {blocks: x, aa_check: true}\ndiscard: {rule: worst_max, n: 2}\n",
        &["13: plan.blocks: must be a whole number from 1 to 1000, not \"x\""],
    );
}

#[test]
fn lists_and_numbers() {
    check("  rate: [20, 200]", "  rate: []", &["11: loads.0.rate: is an empty list"]);
    check(
        "  rate: [20, 200]",
        "  rate: [-20, 1e12, 5, 5]",
        &[
            "11: loads.0.rate.3: 5 appears twice",
            "11: loads.0.rate.0: must be a number from 0 up, not -20",
            "11: loads.0.rate.1: more than 100000000 requests per second",
        ],
    );
}

#[test]
fn what_one_part_says_of_another() {
    check(
        "  connections: 8",
        "  connections: [8, 0]\n- {name: main, target: \"http://echo:99999/\", method: GE T}",
        &[
            "12: loads.0.connections.1: must be a whole number from 1 to 100000, not 0",
            "13: loads.1.method: \"GE T\" is not an HTTP method",
            "13: loads.1.name: a load before it is named main, too",
            "13: loads.1.target: \"http://echo:99999/\": a port from 1 to 65535 is missing",
        ],
    );
    check(
        "http://echo:8080/",
        "http://echo-{i}:8080/",
        &["10: loads.0.target: {i} is the number of an instance, and there are no instances"],
    );
    check(
        "  connections: 8",
        "  timeline: false\ntimeline: [{at: 1s, do: {control_plane: restart}}]",
        &["13: timeline.0: every load has timeline: false, so this action never runs"],
    );
    added(
        "timeline:\n- {every: 1s, start: 3s, until: 2s, do: {kill: {workload: x}}}\n",
        &["14: timeline.0: until is before start"],
    );
    added(
        "assert:\n- {metric: p99, mesh: lemo, load: mian, min: 9ms, max: 5ms}\n\
         - {metric: p99, versus: istio, ratio_max: 2}\n\
         - {metric: failed_ratio_1s, max: 0, except: {after: kil, for: 1s}}\n\
         - {metric: failed_ratio_1s, max: 0, except: {after: kill, for: 1s}}\n",
        &[
            "14: assert.0: min 9 is greater than max 5",
            "14: assert.0.load: no load is named \"mian\"; there are main",
            "14: assert.0.mesh: \"lemo\" is not a known mesh; known: none, leno, envoy, haproxy, nginx, linkerd",
            "15: assert.1.versus: \"istio\" is not a known mesh; known: none, leno, envoy, haproxy, nginx, linkerd",
            "16: assert.2.except.after: \"kil\" is not one of kill, stop, continue, set, control_plane, netem",
            "17: assert.3.except.after: nothing in the timeline is a kill",
        ],
    );
    added(
        "published:\n  source: s\n  figures:\n  - {mesh: istio, load: main, rate: 21, metrics: {p5O: 1}}\n",
        &[
            "16: published.figures.0.metrics.p5O: is not a metric; use ",
            "16: published.figures.0.rate: the load main has no rate 21",
        ],
    );
}

#[test]
fn names_are_those_of_the_manifests() {
    let objects = [
        serde_json::json!({"kind": "Pod", "metadata": {"name": "client"}}),
        serde_json::json!({"kind": "Deployment", "metadata": {"name": "echo"}}),
        serde_json::json!({"kind": "Service", "metadata": {"name": "echo"},
            "spec": {"ports": [{"port": 8080}]}}),
    ];
    let look = |text: &str, known: &Known| -> Vec<String> {
        let look = |_: &Topology| known.clone();
        match parse_with(Path::new("a.yaml"), text, Some(&look)) {
            Ok(_) => Vec::new(),
            Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
        }
    };
    let mut known = Known::of(&objects);
    assert!(look(WHOLE, &known).is_empty());
    let text = WHOLE
        .replace("a.yaml]", "a.yaml]\n  unmeshed: [echo, ecko]\n  replicas: {client: 2}")
        .replace("http://echo:8080/", "http://echo:80/\n  client: sender")
        + "timeline:\n- {at: 1s, do: {kill: {workload: shop}}}\n- {at: 1s, do: {set: {workload: echo, plan: {}}}}\n";
    let there = "in the manifests; there are client, echo";
    assert_eq!(
        look(&text, &known),
        [
            format!("a.yaml:6: topology.unmeshed.1: no workload \"ecko\" {there}"),
            "a.yaml:7: topology.replicas.client: no Deployment \"client\" in the manifests; there are echo".into(),
            format!("a.yaml:13: loads.0.client: no workload \"sender\" {there}"),
            format!("a.yaml:17: timeline.0.do.kill.workload: no workload \"shop\" {there}"),
            "a.yaml:18: timeline.1.do.set.workload: echo runs no leno-worker with --admin=PORT, which takes a plan over REST".into(),
        ]
    );
    let text = WHOLE.replace("http://echo:8080/", "http://echo:80/");
    let expected = "a.yaml:10: loads.0.target: Service echo has no port 80; it has 8080";
    assert_eq!(look(&text, &known), [expected]);
    let count = "must be a whole number from 1 to 1000, not 0";
    let text = WHOLE.to_owned() + "timeline: [{at: 1s, do: {kill: {workload: shop, count: 0}}}]\n";
    assert_eq!(
        look(&text, &known),
        [
            format!("a.yaml:13: timeline.0.do.kill.count: {count}"),
            format!("a.yaml:13: timeline.0.do.kill.workload: no workload \"shop\" {there}"),
        ]
    );
    let text = WHOLE.replace("[a.yaml]", "5");
    let expected = "a.yaml:5: topology.manifests: must be text, not a number";
    assert_eq!(look(&text, &Known::default()), [expected], "manifests that are not named");
    let text = WHOLE.replace("http://echo:8080/", "http://echo:80/");
    known.mistakes.push(("manifests.0".into(), "there is no a.yaml".into()));
    let expected = "a.yaml:5: topology.manifests.0: there is no a.yaml";
    assert_eq!(look(&text, &known), [expected], "what was not read is not missing");
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
