//! From traffic to a policy: what passed is recorded, the suggestion is applied with default deny, and the same passes again.

use super::{Applications, HTTP_PORT, TCP_PORT, get, plain};
use leno_tests::manifest::NAMESPACE;
use leno_tests::mesh::{Mesh, Meshed, Plan};
use leno_tests::wait;
use serde_json::{Value, json};

pub(super) fn applied() {
    let plan = Plan::new().pod("client").pod("other").pod("server").unmeshed_pod("stranger");
    let plan = plan.service("server", [HTTP_PORT, TCP_PORT], &["server"]);
    let mesh = plan.start("suggested", Meshed::Yes);
    let _applications = Applications::start(&mesh, "server", "welcome");
    for (from, what) in [("client", "orders/1"), ("client", "orders/2"), ("stranger", "health")] {
        let answer = plain(&mesh, from, HTTP_PORT, &get(what));
        assert!(answer.ends_with("welcome"), "{from} {what}: {answer}");
    }
    assert!(plain(&mesh, "client", TCP_PORT, "hello").ends_with("welcome"));
    let yaml = wait::until("the record to have it all", wait::LIMIT, || {
        let answer = control(&mesh, &format!("/diagnostics/suggest?namespace={NAMESPACE}"));
        let yaml = answer["yaml"].as_str().unwrap_or_default().to_owned();
        let expected = ["name: client", "value: \"/orders\"", "value: \"/health\"", "port: 8002"];
        expected.iter().all(|text| yaml.contains(text)).then_some(yaml)
    });
    let record = control(&mesh, &format!("/diagnostics/record?namespace={NAMESPACE}"));
    let traffic = record["workloads"][0]["traffic"].as_array().expect("traffic").clone();
    let orders = traffic.iter().find(|one| one["path"] == "/orders/*").expect("folded paths");
    assert_eq!((&orders["count"], &orders["method"]), (&json!(2), &json!("GET")), "{orders}");
    // The suggestion denies nothing that was seen; a Server alone denies everything.
    let denied = |manifest: &str| {
        let answer = mesh.control_put("/diagnostics/simulate", manifest).expect("an answer");
        let answer: Value = serde_json::from_str(&answer.body).expect(&answer.body);
        assert_eq!(answer["problems"], json!([]), "{answer:#}");
        answer["denied"].as_array().expect("changes").clone()
    };
    assert_eq!(denied(&yaml), [json!(null); 0]);
    let alone = yaml.split("---\n").filter(|one| one.contains("\nkind: Server\n"));
    let alone = denied(&alone.collect::<Vec<_>>().join("---\n"));
    let is_denied = |path: &str| alone.iter().any(|one| one["path"] == path);
    assert!(is_denied("/orders/*") && is_denied("/health"), "{alone:#?}");
    // The client keeps what it did, under default deny.
    let file = mesh.manifests().directory().join("suggestion.yaml");
    std::fs::write(file, &yaml).expect("write it");
    let deny = json!({"leno.dev/default-inbound-policy": "deny"});
    mesh.manifests().annotate("namespace", NAMESPACE, &deny).expect("write it");
    let status = |from: &str, what: &str, status: &str| {
        let is_it = |answer: &str| answer.starts_with(&format!("HTTP/1.1 {status} "));
        let mut last = String::new();
        wait::until(
            &format!("{status} for {from} /{what}, not {last}, under\n{yaml}"),
            wait::LIMIT,
            || {
                last = plain(&mesh, from, HTTP_PORT, &get(what));
                is_it(&last).then_some(())
            },
        );
    };
    status("other", "orders/1", "403");
    status("stranger", "orders/1", "403");
    status("client", "health", "403");
    status("client", "elsewhere", "404");
    status("client", "orders/3", "200");
    status("stranger", "health", "200");
    wait::until("the port of bytes to close", wait::LIMIT, || {
        plain(&mesh, "other", TCP_PORT, "hello").is_empty().then_some(())
    });
    assert!(plain(&mesh, "client", TCP_PORT, "hello").ends_with("welcome"));
    // Each proxy says that it has what it enforces.
    let mut last = Value::Null;
    wait::until(&format!("3 proxies to acknowledge, not {last:#}"), wait::LIMIT, || {
        last = control(&mesh, &format!("/diagnostics/applied?namespace={NAMESPACE}"));
        (last["total"] == 3 && last["applied"] == 3).then_some(())
    });
}

/// The answer of the control plane to a client on its own machine.
fn control(mesh: &Mesh, path: &str) -> Value {
    let answer = mesh.control_page(path).expect("an answer");
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}
