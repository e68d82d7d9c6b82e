//! Explanations by a table: objects, a question, and what the answer says. Whatever is denied is allowed under the smallest policy of the
//! answer.

use crate::diagnostics::answer;
use crate::source::layers::Layers;
use crate::source::parse::parse;
use crate::world::{MeshNames, World};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pods `web` (two), `plain` without a proxy, `cron` and `db` behind Services; a route of `web` at its clients.
const APPLICATION: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {config.leno.dev/default-inbound-policy: deny}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.96.0.5
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080, appProtocol: http}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec:
  clusterIP: 10.96.0.6
  selector: {app: db}
  ports: [{name: sql, port: 5432}, {name: admin, port: 81, appProtocol: http}]
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: shop}
spec: {clusterIP: 10.96.0.7, selector: {app: nobody}, ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: slow, namespace: shop}
spec:
  parentRefs: [{group: "", kind: Service, name: web, port: 80}]
  rules:
    - matches: [{path: {type: PathPrefix, value: /slow}}]
      timeouts: {request: 2s}
      backendRefs: [{name: web, port: 80}]
    - matches: [{path: {type: PathPrefix, value: /}}]
      backendRefs: [{name: web, port: 80}]
"#;

/// A Server for port 8080 of `web`, with a rule for account `b`.
const SERVER: &str = "
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: HTTP/1}
---
apiVersion: policy.leno.dev/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: b, namespace: shop}
spec: {identities: [\"spiffe://cluster.local/ns/shop/sa/b\"]}
---
apiVersion: policy.leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: web-from-b, namespace: shop}
spec:
  targetRef: {group: policy.leno.dev, kind: Server, name: web}
  requiredAuthenticationRefs: [{group: policy.leno.dev, kind: MeshTLSAuthentication, name: b}]
";

/// A route of that Server, for `GET /read`, without a rule.
const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: read, namespace: shop}
spec:
  parentRefs: [{group: policy.leno.dev, kind: Server, name: web}]
  rules: [{matches: [{method: GET, path: {type: PathPrefix, value: /read}}]}]
";

fn pod(name: &str, app: &str, account: &str, address: &str, meshed: bool) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: shop
  labels: {{app: {app}, pod-template-hash: abc}}
  annotations: {{leno.dev/meshed: "{meshed}"}}
  ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: {app}-abc, uid: u, controller: true}}]
spec:
  serviceAccountName: {account}
  containers: [{{name: c, ports: [{{name: http, containerPort: 8080}}]}}]
status: {{phase: Running, podIP: {address}, conditions: [{{type: Ready, status: "True"}}]}}
"#
    )
}

fn pods() -> String {
    let all = [
        pod("web-1", "web", "web", "10.1.0.1", true),
        pod("web-2", "web", "web", "10.1.0.2", true),
        pod("db-0", "db", "db", "10.1.0.3", true),
        pod("cron-1", "cron", "cron", "10.1.0.4", true),
        pod("b-1", "b", "b", "10.1.0.5", true),
        pod("plain-1", "plain", "plain", "10.1.0.6", false),
    ];
    all.join("---\n")
}

fn world(texts: &[&str]) -> World {
    let mut layers = Layers::default();
    for (number, text) in texts.iter().enumerate() {
        let file = format!("{number}.yaml");
        layers.put(number, file.clone().into(), parse(&Arc::from(Path::new(&file)), text));
    }
    World::build(&layers.inventory(), &MeshNames::default(), 7)
}

fn ask(world: &World, question: &str) -> Value {
    match answer(world, "/diagnostics/explain", question) {
        Some(Ok(value)) => value,
        Some(Err(refused)) => Value::from(refused.to_string()),
        None => Value::from("no such page"),
    }
}

/// `verdict by rule`, or what was refused.
fn shown(answer: &Value) -> String {
    let Some(verdicts) = answer["verdicts"].as_array() else {
        return answer.as_str().unwrap_or_default().to_owned();
    };
    let named = |value: &Value| match value["name"].as_str() {
        Some(name) => format!(" {name}"),
        None => String::new(),
    };
    let mut text = if answer["allowed"] == true { "allowed:" } else { "denied:" }.to_owned();
    for verdict in verdicts {
        let (word, count) =
            (verdict["verdict"].as_str().unwrap_or_default(), &verdict["endpoint_count"]);
        let _ = write!(
            text,
            " {word}{}{} at {count}",
            named(&verdict["rule"]),
            named(&verdict["route"])
        );
    }
    text
}

/// A question's answer; where the answer has a smallest policy, the same question is allowed with that policy.
#[track_caller]
fn check(objects: &[&str], question: &str, expected: &str) -> Value {
    let pods = pods();
    let mut all = vec![APPLICATION, &pods];
    all.extend(objects);
    let found = ask(&world(&all), question);
    assert_eq!(shown(&found), expected, "{question}\n{found:#}");
    if let Some(smallest) = found["smallest_policy"].as_str() {
        all.push(smallest);
        let with = world(&all);
        let again = ask(&with, question);
        assert_eq!(
            again["allowed"], true,
            "{question}\n{smallest}\n{again:#}\n{:#?}",
            with.problems
        );
        assert!(with.problems.is_empty(), "{smallest}\n{:#?}", with.problems);
    }
    found
}

const CRON: &str = "from=shop/deployment/cron&to=shop/service/web&port=80";

#[test]
fn verdicts_and_the_smallest_policy() {
    let get = |path: &str| format!("{CRON}&method=GET&path={path}");
    // By default policies.
    check(&[], CRON, "denied: deny at 2");
    check(&[], &get("/"), "denied: deny at 2");
    check(&[], "from=shop/pod/plain-1&to=shop/service/web&port=http", "denied: deny at 2");
    check(&[], "from=shop/pod/cron&to=shop/deployment/plain&port=8080", "allowed: unenforced at 1");
    check(&[], "from=10.9.9.9&to=shop/pod/web-1&port=http&method=GET", "denied: deny at 1");
    check(&[], "from=10.9.9.9&to=1.1.1.1&port=443", "allowed: unenforced at 1");
    let identity = "from=spiffe://other/ns/x/sa/y&to=shop/service/db&port=5432";
    check(&[], identity, "denied: deny at 1");
    let open = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {leno.dev/default-inbound-policy: all-authenticated}}\n";
    let audit = open.replace("all-authenticated", "audit");
    let without = APPLICATION.split_once("---").unwrap().1;
    let pods = pods();
    for (policy, from, expected) in [
        (open, "shop/deployment/cron", "allowed: allow all-authenticated at 2"),
        (open, "shop/deployment/plain", "denied: deny at 2"),
        (&audit, "shop/deployment/plain", "allowed: audit audit at 2"),
    ] {
        let question = format!("from={from}&to=shop/service/web&port=80");
        let answer = ask(&world(&[policy, without, &pods]), &question);
        assert_eq!(shown(&answer), expected);
        if let Some(smallest) = answer["smallest_policy"].as_str() {
            let with = world(&[policy, without, &pods, smallest]);
            assert_eq!(ask(&with, &question)["allowed"], true, "{smallest}");
            // What the default policy admitted is admitted still.
            let other = ask(&with, CRON);
            assert_eq!(other["allowed"], true, "{smallest}");
        }
    }
    // By a Server, and by its routes.
    check(&[SERVER], CRON, "denied: deny at 2");
    check(&[SERVER], &CRON.replace("cron", "b"), "allowed: allow web-from-b at 2");
    check(&[SERVER, ROUTE], &get("/read/x"), "denied: deny read at 2");
    check(&[SERVER, ROUTE], &get("/write"), "denied: no-route at 2");
    check(&[SERVER, ROUTE], &get("/write").replace("cron", "b"), "denied: no-route at 2");
    check(
        &[SERVER, ROUTE],
        &get("/read").replace("cron", "b"),
        "allowed: allow web-from-b read at 2",
    );
    check(&[&SERVER.replace("leno.dev", "linkerd.io")], &get("/"), "denied: deny at 2");
}

#[test]
fn the_answer_names_route_identity_and_what_is_missing() {
    let found = check(&[SERVER], &format!("{CRON}&method=GET&path=/slow/x"), "denied: deny at 2");
    let at = |pointer: &str| found.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/from/identity"), "spiffe://cluster.local/ns/shop/sa/cron");
    assert_eq!(at("/from/workload"), "deployment/cron");
    assert_eq!(at("/to/authority"), "web.shop.svc.cluster.local:80");
    assert_eq!(at("/route/resource/name"), "slow");
    assert_eq!(at("/route/request_timeout_seconds"), 2.0);
    assert_eq!(at("/verdicts/0/server/name"), "web");
    assert_eq!(at("/verdicts/0/reason"), "no rule of Server shop/web admits the client");
    assert_eq!(at("/verdicts/0/endpoints/1/pod"), "shop/web-2");
    assert_eq!(at("/verdicts/0/endpoints/1/identity"), "spiffe://cluster.local/ns/shop/sa/web");
    assert_eq!(at("/verdicts/0/other_rules/0/rule/name"), "web-from-b");
    assert_eq!(
        at("/verdicts/0/other_rules/0/missing/0"),
        "the identity spiffe://cluster.local/ns/shop/sa/cron is not one of spiffe://cluster.local/ns/shop/sa/b"
    );
    assert_eq!(at("/generation"), 7);
    let smallest = at("/smallest_policy");
    let expected = "\
apiVersion: policy.leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata:
  name: web-from-cron
  namespace: shop
spec:
  targetRef:
    group: policy.leno.dev
    kind: Server
    name: web
  requiredAuthenticationRefs:
  - kind: ServiceAccount
    name: cron
    namespace: shop
";
    assert_eq!(smallest, expected);
}

#[test]
fn questions_that_have_no_answer() {
    let refused = |question: &str, expected: &str| {
        let found = check(&[], question, expected);
        assert!(found.is_string());
    };
    refused("from=shop/pod/x&to=shop/service/web", "no pod of pod/x in namespace shop");
    refused(
        "from=shop/pod/web&to=shop/service/web",
        "\"web\" is the beginning of several pods: web-1, web-2",
    );
    refused(&CRON.replace("web", "x"), "no Service shop/x");
    refused(&CRON.replace("80", "82"), "Service shop/web has no port 82; its ports are 80 (http)");
    let two = "from=shop/deployment/cron&to=shop/service/db";
    refused(two, "Service shop/db has the ports 81 (admin), 5432 (sql); name one");
    let none = "from=shop/deployment/cron&to=shop/deployment/web";
    refused(none, "the server has no port in the question: write NAME:PORT");
    refused(
        &format!("{none}&port=0"),
        "\"0\" is not a port of the server: write its number, 1 to 65535",
    );
    refused("to=x", &super::USAGE.to_string());
    refused(&format!("{CRON}&method=GET&path=/a/../b"), &super::NOT_CANONICAL.to_string());
    let nobody = "from=shop/deployment/cron&to=shop/service/nobody";
    let found = check(&[], nobody, "denied:");
    assert_eq!(found["notes"][0], "nobody.shop.svc.cluster.local:80 has no endpoints", "{found:#}");
}

#[test]
fn ten_thousand_pods_are_answered_within_a_second() {
    let pods: Vec<String> = (0..10_000)
        .map(|n| {
            let address = format!("10.{}.{}.{}", 2 + n / 65_536, n / 256 % 256, n % 256);
            pod(&format!("web-{n}"), "web", "web", &address, true)
        })
        .chain([pod("cron-1", "cron", "cron", "10.1.0.4", true)])
        .collect();
    let world = world(&[APPLICATION, &pods.join("---\n"), SERVER]);
    let began = Instant::now();
    let found = ask(&world, &format!("{CRON}&method=GET&path=/"));
    let took = began.elapsed();
    println!("an explanation with 10,001 pods took {took:?}");
    assert_eq!(shown(&found), "denied: deny at 10000");
    assert_eq!(found["verdicts"][0]["endpoints"].as_array().map(Vec::len), Some(20));
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// Admits account `b` to port 8080 of `web`.
const GATEWAY: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XAuthorizationPolicy
metadata: {name: web, namespace: shop}
spec:
  targetRefs: [{group: '', kind: Pod, selector: {matchLabels: {app: web}}}]
  action: ALLOW
  enforcementLevel: Network
  rules:
    - sources: [{type: ServiceAccount, serviceAccount: {name: b}}]
      networkAttributes: {ports: [8080]}
";

/// The policy of a pod names itself, and the smallest policy is another one, besides a rule for the Server where there is one.
#[test]
fn policies_of_the_gateway_api() {
    let pods = pods();
    let ask_with = |objects: &[&str], question: &str| {
        let mut all = vec![APPLICATION, &pods];
        all.extend(objects);
        ask(&world(&all), question)
    };
    let of_b = CRON.replace("cron", "b");
    assert_eq!(shown(&ask_with(&[GATEWAY], &of_b)), "allowed: allow web at 2");
    for objects in [&[GATEWAY][..], &[GATEWAY, SERVER]] {
        for (from, expected) in [("cron", "denied: deny at 2"), ("plain", "denied: deny at 2")] {
            let question = CRON.replace("cron", from);
            let found = ask_with(objects, &question);
            assert_eq!(shown(&found), expected, "{found:#}");
            let smallest = found["smallest_policy"].as_str().unwrap();
            assert!(smallest.contains("kind: XAuthorizationPolicy"), "{smallest}");
            assert_eq!(smallest.contains("kind: AuthorizationPolicy"), objects.len() == 2);
            let again = ask_with(&[objects, &[smallest]].concat(), &question);
            assert_eq!(again["allowed"], true, "{smallest}\n{again:#}");
        }
    }
    let found = ask_with(&[GATEWAY], CRON);
    let reason = "no rule of XAuthorizationPolicy shop/web admits the client";
    assert_eq!(found["verdicts"][0]["reason"], reason);
    assert_eq!(found["verdicts"][0]["minimum"], Value::Null);
}

/// Where the minimum of the namespace does not admit a client, no policy does.
#[test]
fn a_minimum_is_shown_and_no_policy_is_suggested_beyond_it() {
    let minimum = APPLICATION
        .replace("default-inbound-policy: deny", "minimum-inbound-policy: all-authenticated");
    let pods = pods();
    let world = world(&[&minimum, &pods, SERVER]);
    let found = ask(&world, &CRON.replace("cron", "plain"));
    assert_eq!(shown(&found), "denied: deny at 2");
    assert_eq!(found["smallest_policy"], Value::Null, "{found:#}");
    assert_eq!(found["verdicts"][0]["minimum"], "all-authenticated");
    let found = ask(&world, CRON);
    assert!(found["smallest_policy"].is_string(), "{found:#}");
}

#[test]
fn who_may_reach_a_workload() {
    let pods = pods();
    let limit = "
apiVersion: policy.leno.dev/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: slow, namespace: shop}
spec: {targetRef: {group: policy.leno.dev, kind: Server, name: web}, total: {requestsPerSecond: 9}}
";
    let world = world(&[APPLICATION, &pods, SERVER, limit]);
    let found = match answer(&world, "/diagnostics/authz", "of=shop/deployment/web") {
        Some(Ok(value)) => value,
        other => panic!("{other:?}"),
    };
    let at = |pointer: &str| found.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/pods"), 2, "{found:#}");
    assert_eq!(at("/ports/0/port"), 8080);
    assert_eq!(at("/ports/0/server/name"), "web");
    assert_eq!(at("/ports/0/rules/0/rule/name"), "web-from-b");
    assert_eq!(at("/ports/0/rules/0/clients"), "spiffe://cluster.local/ns/shop/sa/b");
    assert_eq!(at("/ports/0/rules/0/networks"), Value::Null);
    assert_eq!(at("/ports/0/rules/1"), Value::Null);
    assert_eq!(at("/ports/0/rate_limit/total"), 9);
    assert_eq!(at("/ports/1"), Value::Null);
    assert_eq!(at("/other_ports/server/name"), "deny");
    assert_eq!(at("/other_ports/rules"), Value::Array(Vec::new()));
}
