//! Tables: which action a request gets, and what is refused.

use super::*;

const ROUTES: &str = r"
on:
  '*': {answer: {text: all}}
  /api/*: {answer: {text: api}}
  /api/deep/*: {answer: {text: deep}}
  POST /api/*: {answer: {text: post}}
  /api/one: {answer: {text: one}}
  '/api/one?a=b': {answer: {text: query}}
";

#[test]
fn the_most_specific_pattern_wins() {
    //    method  path           answer
    pick("GET", "/", "all");
    pick("GET", "/api/x", "api");
    pick("POST", "/api/x", "post");
    pick("POST", "/api/deep/x", "deep");
    pick("GET", "/api/one", "one");
    pick("GET", "/api/one/", "api");
    pick("GET", "/api/one?x=y", "one");
    pick("GET", "/api/one?a=b", "query");
}

#[track_caller]
fn pick(method: &str, path: &str, expected: &str) {
    let plan = parse(ROUTES).unwrap();
    let random = Random::seeded(1);
    let decision = plan.decide(method, path, &random);
    assert_eq!(decision.named, expected != "all");
    match decision.outcome {
        Outcome::Answer(answer) => assert_eq!(answer.text.as_deref(), Some(expected)),
        Outcome::Fail(fail) => panic!("{fail:?}"),
    }
}

#[test]
fn fails_as_often_as_asked() {
    fails("on: {'*': {fail: {ratio: 0}}}", 0..=0);
    fails("on: {'*': {fail: {ratio: 0.1}}}", 80..=120);
    fails("on: {'*': {fail: {}}}", 1000..=1000);
    fails("{\"on\": {\"*\": {\"fail\": {\"ratio\": 0.5}}}}", 450..=550);
}

#[track_caller]
fn fails(plan: &str, expected: std::ops::RangeInclusive<usize>) {
    let plan = parse(plan).unwrap();
    let random = Random::seeded(5);
    let failed = (0..1000)
        .filter(|_| matches!(plan.decide("GET", "/", &random).outcome, Outcome::Fail(_)))
        .count();
    assert!(expected.contains(&failed), "{failed} of 1000");
}

#[test]
fn calls() {
    //     step                                                                                   read as
    step("{url: http://a/}", "GET http1 a:80 a / x1");
    step("{url: 'http://a:9/b?c=d', method: POST, times: 3}", "POST http1 a:9 a:9 /b?c=d x3");
    step("{url: h2c://a:9}", "GET http2 a:9 a:9 / x1");
    step("{url: grpc://a:9/p.S/M}", "GET grpc a:9 a:9 /p.S/M x1");
    step("{url: udp://a:9, body_bytes: 5}", "GET udp a:9 a:9 / x1");
    step("{url: tcp://a:9, optional: true}", "GET tcp a:9 a:9 / x1 optional");
    step("{parallel: [{url: tcp://a:9}, {wait: 1ms}]}", "[GET tcp a:9 a:9 / x1, wait]");
    step("{url: tcp://a}", "tcp:// and udp:// need a port");
    step("{url: ftp://a}", "begins with http://, h2c://, grpc://, tcp:// or udp://");
    step("{url: grpc://a/S}", "grpc:// needs /package.Service/Method");
    step("{wait: 1ms, optional: true}", "parallel alone, or wait alone");
    step("{url: http://a, headers: {'a b': c}}", "header \"a b\" cannot be sent");
}

#[track_caller]
fn step(text: &str, expected: &str) {
    let seen = match parse(&format!("on: {{'*': {{calls: [{text}]}}}}")) {
        Ok(plan) => {
            let again = serde_json::to_string(&plan).unwrap();
            parse(&again).unwrap_or_else(|wrong| panic!("{again}: {wrong:?}"));
            show(&plan.on["*"].calls[0])
        }
        Err(wrong) => wrong.join("; "),
    };
    assert!(seen.contains(expected), "{seen:?}, expected {expected:?}");
}

fn show(step: &Step) -> String {
    match step {
        Step::Wait(_) => "wait".to_string(),
        Step::Parallel(steps) => {
            format!("[{}]", steps.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        Step::Call(call) => format!(
            "{} {} {} {} {} x{}{}",
            call.method,
            format!("{:?}", call.target.protocol).to_lowercase(),
            call.target.authority,
            call.target.host,
            call.target.path,
            call.times,
            if call.optional { " optional" } else { "" },
        ),
    }
}

#[test]
fn every_mistake_is_reported() {
    refused("on: {x: {}}", &["on \"x\": `[METHOD ]/path`, `/begins*` or `*`"]);
    refused("on: {/: {unknown: 1}}", &["unknown"]);
    refused("on: {/: {wait: soon}}", &["a duration such as 20ms"]);
    refused(
        "on: {/: {fail: {ratio: 2, status: 99}, answer: {status: 700, text: a, bytes: 1}}}",
        &[
            "fail: ratio 2 is not between 0 and 1",
            "fail: status 99 is not between 200 and 599",
            "answer: status 700 is not between 200 and 599",
            "answer: one of text, bytes, echo, mirror",
        ],
    );
    refused(
        "{propagate: ['a b'], tcp: {wait: {uniform: [2s, 1s]}}, on: {/: {answer: {chunk_bytes: 1, headers: {a: \"\\n\"}}}}}",
        &[
            "answer: chunk_bytes needs bytes",
            "the value of a is not a header value",
            "propagate: \"a b\" is not a header name",
            "tcp: wait: uniform: min above max",
        ],
    );
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    // A leading newline keeps flow mappings on the YAML side.
    let text = if text.starts_with('{') { format!("--- {text}") } else { text.to_string() };
    let wrong = parse(&text).expect_err("a mistake");
    assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
    for (wrong, expected) in wrong.iter().zip(expected) {
        assert!(wrong.contains(expected), "{wrong:?}, expected {expected:?}");
    }
}

#[test]
fn a_wait_is_drawn() {
    let plan = parse("on: {/: {wait: {uniform: [1ms, 2ms]}}}").unwrap();
    let wait = plan.decide("GET", "/", &Random::seeded(3)).wait;
    assert!((Duration::from_millis(1)..Duration::from_millis(2)).contains(&wait), "{wait:?}");
}

/// The plans that the example manifests carry.
#[test]
fn examples_have_good_plans() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut plans = 0;
    for example in std::fs::read_dir(&examples).unwrap() {
        let example = example.unwrap().path();
        for file in
            example.is_dir().then(|| std::fs::read_dir(&example).unwrap()).into_iter().flatten()
        {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "yaml") {
                plans += check_manifest(&file);
            }
        }
    }
    assert!(plans >= 9, "{plans} plans in {}", examples.display());
}

#[track_caller]
fn check_manifest(file: &std::path::Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
    let commands = objects.iter().filter_map(|object| {
        object.pointer("/spec/template/spec/containers/0/command")?.as_array()
    });
    let mut plans = 0;
    for command in commands {
        let mut words = command
            .iter()
            .map(|word| word.as_str().unwrap_or_else(|| panic!("{}: {word}", file.display())));
        if words.any(|word| word == "--plan-json") {
            let plan = words.next().unwrap();
            parse(plan).unwrap_or_else(|wrong| panic!("{}: {wrong:?}", file.display()));
            plans += 1;
        }
    }
    plans
}
