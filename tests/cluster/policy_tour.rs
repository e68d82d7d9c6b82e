//! The tour of `docs/policy.md` on a cluster: default deny, a suggestion from traffic, its simulation, its enforcement, a denial
//! that explains itself.

use crate::commands::command;
use crate::ground::load::Load;
use crate::ground::place::{Place, READY_WAIT};
use leno_tests::wait::until;
use std::path::Path;

const PAGE: &str = "http://productpage:9080/productpage";
const DETAILS: &str = "http://details:9080/details/0";
/// The application, whose page calls everything.
const VERSIONS: [&str; 6] =
    ["productpage-v1", "details-v1", "ratings-v1", "reviews-v1", "reviews-v2", "reviews-v3"];

#[test]
fn the_tour_of_access_policy() {
    let place = Place::meshed("leno-test-policy-tour");
    place.kubectl(&["apply", "-f", &example("bookinfo")]).expect("bookinfo");
    for version in VERSIONS {
        place.rolled_out(&format!("deployment/{version}"));
    }
    let folder = leno_tests::binaries::scratch("policy-tour").expect("a directory");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("write");
        path.display().to_string()
    };
    // 1. Default deny, as a plan: the record says what it would break.
    let text = std::fs::read_to_string(example("bookinfo/policy/default-deny.yaml")).expect("read");
    let text = text.replace("name: default", &format!("name: {}", place.name));
    let deny = file("default-deny.yaml", &text);
    until("a record of every hop", READY_WAIT, || {
        assert_eq!(statuses(&place, PAGE), ["200"]);
        let (code, said) = leno(&place, &["policy", "simulate", "-f", &deny]);
        let is_denied = |name: &&str| {
            let workload = format!("{}/deployment/{name} ", place.name);
            said.lines().any(|line| line.starts_with(&workload) && line.ends_with("denied"))
        };
        (VERSIONS.iter().all(is_denied) && code == Some(1)).then_some(())
    });
    // 2. Suggest.
    let (code, suggestion) = leno(&place, &["policy", "suggest"]);
    assert_eq!(code, Some(0), "{suggestion}");
    let suggested = file("policy.yaml", &suggestion);
    // 3. Simulate: with the suggestion, default deny denies nothing that was seen.
    let (code, said) = leno(&place, &["policy", "simulate", "-f", &deny, &suggested]);
    assert_eq!(code, Some(0), "{said}");
    // 4. Enforce.
    place.kubectl(&["apply", "-f", &suggested, "-f", &deny]).expect("the API server takes them");
    until("the call of details to be denied", READY_WAIT, || {
        (statuses(&place, DETAILS) == ["403"]).then_some(())
    });
    assert_eq!(statuses(&place, PAGE), ["200"]);
    // A page without its parts has the status 200, too.
    for (client, server) in [("productpage", "details:9080"), ("reviews", "ratings:9080")] {
        let (client, path) = (format!("sa/bookinfo-{client}"), format!("/{}/0", &server[..7]));
        let (code, said) = leno(&place, &["explain", &client, "to", server, "GET", &path]);
        assert_eq!(code, Some(0), "{said}");
    }
    // 5. Explain a denial, by the id in the log of the proxy that denied.
    let id = until("the id of a denial in a log", READY_WAIT, || {
        let (_, log) = leno(&place, &["logs", "-l", "app=details", "--tail", "200"]);
        log.lines().rev().find_map(|line| denial(line).map(str::to_owned))
    });
    let (code, said) = leno(&place, &["explain", &id]);
    assert_eq!(code, Some(1), "{said}");
    for expected in ["/sa/load", "GET /details/0", "Now: DENIED"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

/// The statuses of requests of the account `load`.
fn statuses(place: &Place, url: &str) -> Vec<String> {
    let outcome = Load::start(place, url, 20, 3).end();
    let results = outcome.results.as_object().into_iter().flatten();
    results
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(status, _)| status.clone())
        .collect()
}

/// The id in a line of a proxy's log: 16 hexadecimal digits behind `denial`, in plain text or JSON.
fn denial(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("denial")?;
    let id = rest.split(|mark: char| !mark.is_ascii_hexdigit()).find(|part| !part.is_empty())?;
    (id.len() == 16).then_some(id)
}

/// The exit code of a command of `leno`, and what it prints; with its errors where it fails.
fn leno(place: &Place, words: &[&str]) -> (Option<i32>, String) {
    let output = command(place, words).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let talk = if output.status.success() { String::new() } else { text(&output.stderr) };
    (output.status.code(), text(&output.stdout) + &talk)
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).display().to_string()
}
