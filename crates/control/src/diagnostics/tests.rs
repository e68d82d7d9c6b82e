use super::*;
use crate::source::layers::Layers;
use crate::source::parse::parse;
use crate::world::MeshNames;
use std::path::Path;
use std::sync::Arc;

const MANIFESTS: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  namespace: shop
  labels: {app: web}
  annotations: {leno.dev/meshed: "true", config.leno.dev/default-inbound-policy: all-authenticated}
spec:
  serviceAccountName: web
  containers: [{name: c, ports: [{containerPort: 8080}], readinessProbe: {httpGet: {path: /ready, port: 8080}}}]
status:
  podIP: 10.1.0.1
  phase: Running
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c}]}
status:
  podIP: 10.1.0.2
  phase: Running
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.96.0.5
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080, appProtocol: http}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: split, namespace: shop}
spec:
  parentRefs: [{group: "", kind: Service, name: web, port: 80}]
  rules:
    - matches: [{path: {type: PathPrefix, value: /a}}]
      timeouts: {request: 2s}
      backendRefs: [{name: web, port: 80, weight: 9}, {name: web, port: 80, weight: 1}]
"#;

fn world() -> World {
    let mut layers = Layers::default();
    layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), MANIFESTS));
    let world = World::build(&layers.inventory(), &MeshNames::default(), 1);
    let problems: Vec<_> = world.problems.iter().map(|problem| problem.field.as_str()).collect();
    assert!(problems.is_empty(), "{:?}", world.problems);
    world
}

/// The answer's value at a JSON pointer.
#[track_caller]
fn check(question: &str, pointer: &str, expected: Value) {
    let (path, query) = question.split_once('?').unwrap_or((question, ""));
    let found = match answer(&world(), path, query) {
        None => json!("no such page"),
        Some(Err(refused)) => json!(refused.to_string()),
        Some(Ok(value)) => value.pointer(pointer).cloned().unwrap_or(json!("nothing there")),
    };
    assert_eq!(found, expected, "{question} {pointer}");
}

#[test]
fn endpoints_of_a_name() {
    let web = "/diagnostics/endpoints?authority=web.shop.svc.cluster.local%3A80";
    check(web, "/exists", json!(true));
    check(web, "/endpoints/0/ip", json!("10.1.0.1"));
    check(web, "/endpoints/0/port", json!(8080));
    check(web, "/endpoints/0/pod", json!("web-1"));
    check(web, "/endpoints/0/namespace", json!("shop"));
    check(web, "/endpoints/0/service", json!("web"));
    check(web, "/endpoints/0/identity", json!("spiffe://cluster.local/ns/shop/sa/web"));
    check(web, "/endpoints/0/weight", json!(10_000));
    check(web, "/endpoints/1/pod", json!("plain"));
    check(web, "/endpoints/1/identity", Value::Null);
    check(web, "/endpoints/2", json!("nothing there"));
    check("/diagnostics/endpoints?authority=x.shop.svc:80", "/exists", json!(false));
    check("/diagnostics/endpoints?authority=", "", json!("authority=NAME:PORT"));
    check("/diagnostics/other", "", json!("no such page"));
}

#[test]
fn policy_of_a_port() {
    let web = "/diagnostics/policy?pod=shop/web-1&port=8080";
    check(web, "/protocol", json!("http/1"));
    check(web, "/meshed", json!(true));
    check(web, "/server/name", json!("all-authenticated"));
    check(web, "/authorizations/0/authentication", json!("mutual-tls"));
    check(web, "/authorizations/0/identity_suffixes", json!(["*"]));
    check(web, "/authorizations/0/networks/0/net", json!("0.0.0.0/0"));
    // What its kubelet asks is answered to everybody.
    check(web, "/routes/0/resource/name", json!("probe"));
    check(web, "/routes/0/matches/0/path/exact", json!("/ready"));
    check(web, "/routes/0/authorizations/0/authentication", json!("none"));
    let other = "/diagnostics/policy?pod=shop/web-1&port=9";
    check(other, "/protocol", json!("detect"));
    check(other, "/detect_timeout_seconds", json!(10.0));
    check("/diagnostics/policy?pod=shop/plain&port=80", "/meshed", json!(false));
    check("/diagnostics/policy?pod=shop/x&port=80", "", json!("no pod shop/x"));
    let usage = "pod=NAMESPACE/NAME&port=PORT, or target=NAME:PORT&namespace=CLIENTS";
    for wrong in ["pod=web-1&port=80", "pod=shop/web-1", "pod=shop/web-1&port=x", "", "target=a:1"]
    {
        check(&format!("/diagnostics/policy?{wrong}"), "", json!(usage));
    }
}

#[test]
fn policy_of_a_destination() {
    let web = "/diagnostics/policy?target=web.shop.svc.cluster.local:80&namespace=shop";
    check(web, "/protocol", json!("http/1"));
    check(web, "/parent/name", json!("web"));
    check(web, "/http1/0/resource/name", json!("split"));
    check(web, "/http1/0/rules/0/matches/0/path", json!({"prefix": "/a"}));
    check(web, "/http1/0/rules/0/request_timeout_seconds", json!(2.0));
    check(web, "/http1/0/rules/0/backends/0/weight", json!(9));
    let destination = json!("web.shop.svc.cluster.local:80");
    check(web, "/http1/0/rules/0/backends/0/destination", destination);
    // By its address it is the same Service.
    let address = "/diagnostics/policy?target=10.96.0.5:80&namespace=other";
    check(address, "/http1/0/resource/name", json!("split"));
    let pod = "/diagnostics/policy?target=10.1.0.1:8080&namespace=shop";
    check(pod, "/http1/0/rules/0/backends/0/endpoint/pod", json!("web-1"));
    let missing = "/diagnostics/policy?target=x.shop.svc:80&namespace=shop";
    check(missing, "", json!("no Service has the port x.shop.svc:80"));
}

#[test]
fn percent_signs() {
    for (text, expected) in
        [("a%3Ab", "a:b"), ("%5b::1%5D", "[::1]"), ("100%", "100%"), ("%zz", "%zz"), ("+", "+")]
    {
        let query = Query::read(&format!("a=b&value={text}"));
        assert_eq!(query.get("value"), Some(expected));
    }
}

#[test]
fn what_holds_for_an_object() {
    let of = |kind: &str, name: &str| {
        format!("/diagnostics/describe?kind={kind}&namespace=shop&name={name}")
    };
    let web = &of("pod", "web-1");
    check(web, "/identity", json!("spiffe://cluster.local/ns/shop/sa/web"));
    check(web, "/default_policy", json!("all-authenticated"));
    check(web, "/ports/0/port", json!(8080));
    check(web, "/ports/0/services", json!(["shop/web:80"]));
    check(web, "/ports/0/policy/protocol", json!("http/1"));
    check(web, "/wrong", json!([]));
    let plain = &of("pod", "plain");
    check(plain, "/identity", Value::Null);
    let why = "the pod has no proxy: its traffic is not encrypted, and no policy protects it";
    check(plain, "/wrong/0/message", json!(why));
    let service = &of("service", "web");
    check(service, "/routes", json!(["HTTPRoute shop/split"]));
    check(service, "/ports/0/endpoints/0/pod", json!("web-1"));
    check(service, "/ports/0/policy/http1/0/rules/0/request_timeout_seconds", json!(2.0));
    let why = "port 80: requests to 1 of 2 endpoints are not encrypted, because they have no proxy";
    check(service, "/wrong/0/message", json!(why));
    let route = &of("route", "split");
    check(route, "/kind", json!("HTTPRoute"));
    check(route, "/services/0/name", json!("web"));
    check(route, "/services/0/ports/0/policy/http1/0/resource/name", json!("split"));
    check(route, "/wrong", json!([]));
    check(&of("pod", "x"), "", json!("no pod shop/x"));
    check(&of("service", "x"), "", json!("no Service shop/x"));
    let none = "no HTTPRoute or GRPCRoute shop/x names a Service";
    check(&of("route", "x"), "", json!(none));
    let usage = "kind=pod, service or route, namespace=NAMESPACE and name=NAME";
    check(&of("node", "x"), "", json!(usage));
}
