//! The tour of `docs/policy.md`: default deny, a suggestion from traffic, its simulation, its enforcement, a denial that explains itself.
//! And the policy by hand in `examples/bookinfo/policy/allow.yaml`.

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

const PAGE: &str = "productpage:9080/productpage";
const DETAILS: &str = "details:9080/details/0";

/// Everything that the page needs, and the page.
const WORKLOADS: [&str; 6] =
    ["productpage-v1", "details-v1", "ratings-v1", "reviews-v1", "reviews-v2", "reviews-v3"];

/// The application in the mesh, when all of it answers.
fn bookinfo() -> Mesh {
    let parts = ["client", "details", "productpage", "ratings", "reviews"];
    let application = parts.map(|part| example(&format!("{part}.yaml"))).join("\n---\n");
    let mut mesh = Mesh::new(&application);
    mesh.arguments = &[];
    mesh.start();
    until(&mesh, &status(PAGE), "200");
    mesh
}

fn status(path: &str) -> String {
    format!("curl -s -m 5 -o /dev/null -w '%{{http_code}}' http://{path}")
}

/// The id in a response that denies.
fn denial(mesh: &Mesh, request: &str) -> String {
    let output = mesh.exec("client", request);
    let head = String::from_utf8_lossy(&output.stdout).into_owned();
    let id = head.lines().find_map(|line| line.strip_prefix("leno-denial: "));
    id.unwrap_or_else(|| panic!("no id: {head}")).trim().to_owned()
}

/// The exit code of a command of `leno`, and all that it prints.
fn leno(mesh: &Mesh, words: &[&str]) -> (Option<i32>, String, String) {
    let output = mesh.leno().args(words).output().expect("leno");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_tour_of_access_policy() {
    let mesh = bookinfo();
    let place = mesh.place.path();
    let (deny, suggested) = (place.join("default-deny.yaml"), place.join("policy.yaml"));
    fs::write(&deny, example("policy/default-deny.yaml")).expect("write");
    let (deny, suggested) = (deny.display().to_string(), suggested.display().to_string());
    // 1. Default deny, which nobody applies yet: the record says what it would break.
    let page = status(PAGE);
    let began = Instant::now();
    loop {
        mesh.exec("client", &format!("for i in 1 2 3 4 5 6; do {page}; done"));
        let (code, said, talk) = leno(&mesh, &["policy", "simulate", "-f", &deny]);
        let is_denied = |name: &&str| {
            let workload = format!("default/deployment/{name} ");
            said.lines().any(|line| line.starts_with(&workload) && line.ends_with("denied"))
        };
        if WORKLOADS.iter().all(is_denied) {
            assert_eq!(code, Some(1), "{said}{talk}");
            assert!(said.contains("\n6 denied, 0 opened, "), "{said}");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{said}{talk}");
    }
    // 2. What was seen becomes a policy, in a file.
    let (code, suggestion, talk) = leno(&mesh, &["policy", "suggest", "-n", "default"]);
    assert_eq!(code, Some(0), "{talk}");
    fs::write(&suggested, suggestion).expect("write");
    // 3. With it, default deny denies nothing that was seen.
    let (code, said, talk) = leno(&mesh, &["policy", "simulate", "-f", &suggested, &deny]);
    assert_eq!(code, Some(0), "{said}{talk}");
    assert!(said.contains("0 denied, 0 opened, 0 not known, "), "{said}");
    // 4. Both are enforced; the application works as before.
    for file in [&suggested, &deny] {
        let name = Path::new(file).file_name().expect("a name");
        fs::copy(file, mesh.manifests().join(name)).expect("copy");
    }
    let denied = format!("curl -s -m 5 -D - http://{DETAILS}");
    until(&mesh, &denied, "403");
    mesh.check("client", &page, "200");
    for hop in [("deploy/productpage-v1", DETAILS), ("deploy/reviews-v2", "ratings:9080/ratings/0")]
    {
        mesh.check(hop.0, &status(hop.1), "200");
    }
    // 5. A denial explains itself.
    let (code, said, talk) = leno(&mesh, &["explain", &denial(&mesh, &denied)]);
    assert_eq!(code, Some(1), "{said}{talk}");
    for expected in ["sa/bookinfo-client", "GET /details/0", "Server default/", "Now: DENIED"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    mesh.ends_without_a_trace();
}

#[test]
fn the_policy_of_bookinfo_by_hand() {
    let mesh = bookinfo();
    let (page, details) = (PAGE, DETAILS);
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
    let (code, said, talk) = leno(&mesh, &["explain", &denial(&mesh, &denied)]);
    assert_eq!(code, Some(1), "{said}{talk}");
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
    shows_verdicts(&mesh);
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

/// `leno edges` has the verdicts of the record, where a denial is the worst.
fn shows_verdicts(mesh: &Mesh) {
    let edges = |form: &str| {
        let output = mesh.leno().args(["edges", "-o", form]).output().expect("leno");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let hops: serde_json::Value = serde_json::from_str(&edges("json")).expect("JSON");
    let client = "spiffe://cluster.local/ns/default/sa/bookinfo-client";
    let is_it = |hop: &&serde_json::Value| {
        let is_details = hop["pod"].as_str().is_some_and(|pod| pod.starts_with("details"));
        is_details && hop["direction"] == "inbound" && hop["client"] == client
    };
    let hop = hops.as_array().expect("hops").iter().find(is_it).expect("the client's hop");
    assert_eq!(hop["policy"][0]["verdict"], "denied", "{hop:#}");
    assert!(hop["denied"].as_u64() > Some(0), "{hop:#}");
    let outbound = hops.as_array().into_iter().flatten().find(|hop| hop["direction"] == "outbound");
    assert!(outbound.is_some_and(|hop| hop["policy"].is_null()), "{hops:#}");
    let wide = edges("wide");
    let row = wide.lines().find(|row| row.contains("details") && row.contains("  denied  "));
    assert!(row.is_some_and(|row| row.contains("inbound")), "{wide}");
}
