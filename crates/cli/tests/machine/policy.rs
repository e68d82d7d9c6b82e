//! The tour of `docs/policy.md`: default deny, the callers that the application needs, a denial that explains itself.

use crate::up::{Mesh, PATIENCE};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bookinfo").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asks from the client's pod until the answer is as expected: edits reach proxies within moments.
#[track_caller]
fn until(mesh: &Mesh, script: &str, expected: &str) {
    until_in(mesh, "client", script, expected);
}

/// The same from any pod.
#[track_caller]
fn until_in(mesh: &Mesh, pod: &str, script: &str, expected: &str) {
    let began = Instant::now();
    loop {
        let output = mesh.exec(pod, script);
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if said.contains(expected) {
            return;
        }
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(began.elapsed() < PATIENCE, "{script}: {said:?} instead of {expected:?}: {talk}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_tour_of_access_policy() {
    let parts = ["client", "details", "productpage", "ratings", "reviews"];
    let application = parts.map(|part| example(&format!("{part}.yaml"))).join("\n---\n");
    let mut mesh = Mesh::new(&application);
    mesh.arguments = &[];
    mesh.start();
    let status =
        |path: &str| format!("curl -s -m 5 -o /dev/null -w '%{{http_code}}' http://{path}");
    let (page, details) = ("productpage:9080/productpage", "details:9080/details/0");
    until(&mesh, &status(page), "200");
    until(&mesh, &status(details), "200");
    // 1. Nobody is admitted.
    let write = |name: &str| {
        fs::write(mesh.manifests().join(name), example(&format!("policy/{name}"))).expect("write");
    };
    write("default-deny.yaml");
    until(&mesh, &status(page), "403");
    until(&mesh, &status(details), "403");
    // 2. The callers that the application needs.
    write("allow.yaml");
    until(&mesh, &status(page), "200");
    until_in(&mesh, "deploy/productpage-v1", &status(details), "200");
    // 3. A denial names the Server and the client.
    let denied = format!("curl -s -m 5 -D - http://{details}");
    until(&mesh, &denied, "403");
    until(
        &mesh,
        &denied,
        "server details lets in no spiffe://cluster.local/ns/default/sa/bookinfo-client",
    );
    // An id stands for all of it, also where the answer says nothing.
    let output = mesh.exec("client", &denied);
    let head = String::from_utf8_lossy(&output.stdout).into_owned();
    let id = head.lines().find_map(|line| line.strip_prefix("leno-denial: ")).expect("an id");
    let told = mesh.leno().args(["explain", id.trim()]).output().expect("leno");
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    for expected in [
        "identity   spiffe://cluster.local/ns/default/sa/bookinfo-client",
        "request    GET /details/0",
        "deny       Server default/details: no rule of it admits the client",
        "  no rule  AuthorizationPolicy default/details: the identity spiffe://",
        "Now: DENIED",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    crate::dashboard::shows_denials(&mesh, &denied);
    let unknown = mesh.leno().args(["explain", "0000000000000000"]).output().expect("leno");
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    // 4. The same before anything is sent, with the policy that would allow it.
    let question = ["explain", "client", "to", "details:9080", "GET", "/details/0"];
    let explain = |format: &str| {
        let output = mesh.leno().args(question).args(["-o", format]).output().expect("leno");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said, talk) = explain("table");
    assert_eq!(code, Some(1), "{said}{talk}");
    assert!(said.starts_with("DENIED  default/client"), "{said}");
    assert!(said.contains("no rule of Server default/details admits the client"), "{said}");
    let (_, said, _) = explain("json");
    let answer: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let smallest = answer["smallest_policy"].as_str().expect("a policy");
    fs::write(mesh.manifests().join("smallest.yaml"), smallest).expect("write");
    until(&mesh, &status(details), "200");
    let (code, said, talk) = explain("table");
    assert_eq!(code, Some(0), "{said}{talk}");
    assert!(said.contains("rule     AuthorizationPolicy default/details-from-"), "{said}");
    let wrong = mesh.leno().args(["explain", "nobody", "to", "details"]).output().expect("leno");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    mesh.ends_without_a_trace();
}
