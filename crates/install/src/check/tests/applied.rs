//! Proxies that have not applied everything.

use super::*;

fn proxy(name: &str, waiting: Value) -> Value {
    let (namespace, pod) = name.split_once('/').unwrap();
    json!({"namespace": namespace, "pod": pod, "acknowledges": true, "waiting": waiting})
}

fn waits(seconds: f64, rejected: bool) -> Value {
    json!([{"what": "the policy of port 80", "seconds": seconds, "rejected": rejected}])
}

/// The answers of two replicas, and the line of the check: its sign, what it says, and the proxies that it names.
#[track_caller]
fn says(only: Option<&str>, first: Value, second: Value, expected: (&str, &str)) {
    let mut facts = well(Mode::Proxies);
    facts.only = only.map(str::to_owned);
    facts.applied = [first, second]
        .map(|proxies| ("leno-control".to_owned(), Ok(json!({"proxies": proxies}))))
        .into();
    let all = run(&facts);
    let found = all.iter().find(|one| one.what.ends_with("have the newest configuration")).unwrap();
    let seen = match &found.verdict {
        Verdict::Good => String::new(),
        Verdict::Warning(problem) => format!("‼ {}", problem.seen),
        Verdict::Failed(problem) if problem.passing => format!("passing {}", problem.seen),
        Verdict::Failed(problem) => format!("× {}", problem.seen),
    };
    let count = found.what.strip_suffix(" have the newest configuration").unwrap();
    assert_eq!((count, seen.as_str()), expected);
}

#[test]
fn proxies_that_are_behind_are_named() {
    let good = |name| proxy(name, json!([]));
    says(None, json!([]), json!([]), ("0 of 0 proxies", ""));
    says(None, json!([good("a/x"), good("b/y")]), json!([good("a/x")]), ("2 of 2 proxies", ""));
    let late = proxy("b/y", waits(3.2, false));
    let named = "passing b/y has not acknowledged the policy of port 80 for 3 s";
    says(None, json!([good("a/x")]), json!([late, good("b/y")]), ("1 of 2 proxies", named));
    says(Some("a"), json!([good("a/x")]), json!([late]), ("1 of 1 proxies", ""));
    // What was just sent is not late; what is rejected stays so.
    says(None, json!([proxy("a/x", waits(0.9, false))]), json!([]), ("1 of 1 proxies", ""));
    let rejected = proxy("a/x", waits(0.1, true));
    let named = "× a/x has rejected a part of the policy of port 80 for 0 s";
    says(None, json!([rejected]), json!([]), ("0 of 1 proxies", named));
    // Linkerd's proxies do not acknowledge.
    let mut silent = proxy("a/z", waits(99.0, false));
    silent["acknowledges"] = json!(false);
    says(None, json!([silent, good("a/x")]), json!([]), ("1 of 1 proxies", ""));
}

#[test]
fn a_replica_that_does_not_answer_is_named() {
    let unread = |f: &mut Facts| {
        f.applied = vec![("leno-control-1".to_owned(), Err("it answers 404".into()))]
    };
    check(
        well(Mode::Proxies),
        unread,
        &["‼ not known for the proxies of leno-control-1: it answers 404"],
    );
}
