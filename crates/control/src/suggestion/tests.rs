use super::*;
use crate::source::layers::Layers;
use leno_model::name::PeerName;
use leno_model::policy::PeerTls;
use leno_model::record::{Request, Version};

const MESH: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}, annotations: {leno.dev/meshed: "true"}}
spec: {serviceAccountName: web, containers: [{name: c, readinessProbe: {httpGet: {path: /ready, port: 8080}}}]}
status: {podIP: 10.1.0.1, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, namespace: shop, labels: {app: cart}, annotations: {leno.dev/meshed: "true"}}
spec: {serviceAccountName: cart, containers: [{name: c}]}
status: {podIP: 10.1.0.2, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: front-1, namespace: edge, labels: {app: front}, annotations: {leno.dev/meshed: "true"}}
spec: {serviceAccountName: front, containers: [{name: c}]}
status: {podIP: 10.1.0.3, conditions: [{type: Ready, status: "True"}]}
"#;

fn inventory(text: &str) -> Inventory {
    let mut layers = Layers::default();
    layers.put(0, "m.yaml".into(), parse(&Arc::from(Path::new("m.yaml")), text));
    layers.inventory()
}

/// `edge/front`, `stranger@10.1.0.9`, `GET /path` or `bytes`.
fn entry(from: &str, what: &str) -> (Entry, u64) {
    let (client, network) = match from.split_once('@') {
        Some((_, address)) => (PeerTls::None, format!("{address}/32")),
        None => {
            let (namespace, name) = from.split_once('/').unwrap_or(("shop", from));
            let name = format!("spiffe://cluster.local/ns/{namespace}/sa/{name}");
            let name = PeerName::parse(&name).unwrap();
            (PeerTls::Established(Some(name)), "10.0.0.0/8".to_owned())
        }
    };
    let request = what.split_once(' ').map(|(method, path)| Request {
        version: Version::Http1,
        method: method.into(),
        path: path.into(),
    });
    let entry = Entry {
        client,
        network: network.parse().unwrap(),
        port: 8080,
        request,
        outcome: Outcome::Allowed,
        rule: "default all-unauthenticated".into(),
    };
    (entry, 3)
}

fn seen(lines: &[(&str, &str)]) -> Vec<Seen> {
    let entries = lines.iter().map(|(from, what)| entry(from, what)).collect();
    vec![Seen { workload: ("shop".into(), "pod".into(), "web-1".into()), entries, lost: 0 }]
}

fn suggested(lines: &[(&str, &str)], audit: bool) -> Suggestion {
    let found = suggested_beside("", lines, audit);
    assert_eq!(found.missed, [], "{}", found.yaml);
    found
}

/// Beside some more objects.
#[track_caller]
fn suggested_beside(objects: &str, lines: &[(&str, &str)], audit: bool) -> Suggestion {
    let (inventory, names) = (inventory(&format!("{MESH}{objects}")), MeshNames::default());
    let world = World::build(&inventory, &names, 1);
    let today = Today { inventory: &inventory, world: &world, names: &names };
    let found = suggest(&today, &seen(lines), audit);
    let mut problems = today.with(&found.yaml).problems;
    problems.retain(|problem| !problem.message.contains("is experimental"));
    assert!(problems.is_empty(), "{problems:#?}\n{}", found.yaml);
    found
}

#[test]
fn one_client_needs_a_server_and_a_rule() {
    let found = suggested(
        &[("cart", "GET /a"), ("cart", "POST /b/*"), ("kubelet@10.1.0.9", "GET /ready")],
        true,
    );
    let expected = "\
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata:
  name: web-1-8080
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  port: 8080
  # It denies nothing yet. Without this line it denies what no rule admits.
  accessPolicy: audit
---
apiVersion: policy.leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata:
  name: web-1-8080-from-cart
  namespace: shop
spec:
  targetRef:
    group: policy.leno.dev
    kind: Server
    name: web-1-8080
  requiredAuthenticationRefs:
  - kind: ServiceAccount # seen 6 times
    name: cart
    namespace: shop
";
    assert_eq!(found.yaml, expected);
}

#[test]
fn clients_are_merged_and_paths_are_named_where_they_differ() {
    let check = |lines: &[(&str, &str)], expected: &[&str], absent: &[&str]| {
        let yaml = suggested(lines, false).yaml;
        for text in expected {
            assert!(yaml.contains(text), "no {text:?} in\n{yaml}");
        }
        for text in absent {
            assert!(!yaml.contains(text), "{text:?} in\n{yaml}");
        }
    };
    // The same paths: one rule for both.
    check(
        &[("cart", "GET /a"), ("edge/front", "GET /a/*")],
        &["kind: MeshTLSAuthentication", "name: front\n    namespace: edge", "name: cart"],
        &["HTTPRoute", "accessPolicy"],
    );
    // Other paths: a route for each group of clients.
    check(
        &[
            ("cart", "GET /a"),
            ("edge/front", "GET /b"),
            ("edge/front", "GET /c/x"),
            ("cart", "GET /"),
        ],
        &[
            "kind: HTTPRoute",
            "    - path: {type: PathPrefix, value: \"/b\"}\n    - path: {type: PathPrefix, value: \"/c\"}",
            "    - path: {type: Exact, value: /}\n",
        ],
        &["MeshTLSAuthentication"],
    );
    // Bytes have no path.
    check(
        &[("cart", "bytes"), ("edge/front", "GET /b")],
        &["MeshTLSAuthentication"],
        &["HTTPRoute"],
    );
    // An account without a pod is named by its identity.
    check(
        &[("gone", "GET /a")],
        &["- \"spiffe://cluster.local/ns/shop/sa/gone\" # seen 3 times"],
        &[],
    );
    // Clients without identity.
    check(
        &[("x@10.1.7.1", "GET /a"), ("x@10.1.7.2", "GET /a"), ("x@8.8.8.8", "GET /a")],
        &["cidr: \"10.1.7.0/24\" # seen 6 times", "cidr: \"8.8.8.8/32\""],
        &["ServiceAccount"],
    );
    // A client whose paths begin with ids may use every prefix.
    check(&[("cart", "GET /*"), ("edge/front", "GET /b")], &["not seen here"], &[]);
    check(&[("x@10.1.0.9", "GET /ready")], &[], &["kind"]);
}

/// Where XAuthorizationPolicies select the pods, one more of them admits what they do not; a Server would admit nobody besides.
#[test]
fn policies_of_the_gateway_api_are_extended() {
    let beside = |server: &str, lines: &[(&str, &str)]| {
        let gateway = "
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XAuthorizationPolicy
metadata: {name: web-1-8080-clients, namespace: shop}
spec:
  targetRefs: [{group: '', kind: Pod, selector: {matchLabels: {app: web}}}]
  action: ALLOW
  enforcementLevel: Network
  rules: [{sources: [{type: ServiceAccount, serviceAccount: {name: cart}}]}]
";
        suggested_beside(&format!("{gateway}{server}"), lines, false)
    };
    // What exists admits it.
    assert_eq!(beside("", &[("cart", "GET /a"), ("k@10.1.0.9", "GET /ready")]).yaml, "");
    let found = beside("", &[("cart", "GET /a"), ("edge/front", "GET /a"), ("gone", "bytes")]);
    let expected = "\
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XAuthorizationPolicy
metadata:
  name: web-1-8080-clients-2
  namespace: shop
spec:
  targetRefs:
  - group: \"\"
    kind: Pod
    selector:
      matchLabels:
        app: \"web\"
  action: ALLOW
  enforcementLevel: Network
  rules:
  - networkAttributes:
      ports: [8080]
    sources:
    - type: SPIFFE # seen 3 times
      spiffe: \"spiffe://cluster.local/ns/shop/sa/gone\"
    - type: ServiceAccount # seen 3 times
      serviceAccount:
        name: front
        namespace: edge
";
    assert_eq!(found.yaml.lines().count(), expected.lines().count(), "{}", found.yaml);
    for line in expected.lines() {
        assert!(found.yaml.contains(line), "no {line:?} in\n{}", found.yaml);
    }
    assert_eq!((found.missed.len(), found.notes.len()), (0, 0), "{:?}", found.notes);
    // No rule can name a client without an identity.
    let found = beside("", &[("x@10.1.0.9", "GET /a")]);
    assert_eq!((found.yaml.as_str(), found.missed.len()), ("", 1));
    assert!(found.notes[0].starts_with("port 8080 of pod/web-1: 1 clients have no SPIFFE ID"));
    // A Server on the port needs a rule, too.
    let server = "
---
apiVersion: policy.leno.dev/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080}
";
    let yaml = beside(server, &[("cart", "GET /a"), ("edge/front", "GET /a")]).yaml;
    for kind in ["kind: XAuthorizationPolicy", "kind: AuthorizationPolicy", "name: front"] {
        assert!(yaml.contains(kind), "no {kind:?} in\n{yaml}");
    }
    assert!(!yaml.contains("kind: Server\nmetadata"), "{yaml}");
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        all[((self.0 >> 33) as usize) % all.len()].clone()
    }
}

/// After the suggestion is applied, nothing that was seen is denied. `suggested` checks that.
#[test]
fn nothing_that_was_seen_is_denied() {
    let mut numbers = Numbers(3);
    let clients = ["cart", "edge/front", "gone", "web", "x@10.1.7.1", "x@10.1.7.2", "x@8.8.8.8"];
    let requests = [
        "GET /",
        "GET /a",
        "GET /a/",
        "POST /a/*",
        "GET /a/b/c",
        "GET /b",
        "GET /b/**",
        "GET /*",
        "GET /**",
        "* /c",
        "OPTIONS **",
        "GET ",
        "bytes",
        "GET /ready",
        "GET /d/*/e",
        "GET /e",
    ];
    for _ in 0..100 {
        let count = numbers.of(&[1, 2, 3, 5, 9, 14]);
        let lines: Vec<_> =
            (0..count).map(|_| (numbers.of(&clients), numbers.of(&requests))).collect();
        suggested(&lines, numbers.of(&[true, false]));
    }
}

/// A record of 1,000 workloads with 5,000 edges, in a mesh of 10,000 pods.
#[test]
fn a_large_record_is_answered_in_time() {
    let pod = |number: usize| {
        let (workload, third, fourth) = (number % 1_000, number / 250, number % 250 + 1);
        let name = format!("w{workload}");
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-{number}, namespace: shop, labels: {{app: {name}}}, annotations: {{leno.dev/meshed: 'true'}}}}\n\
             spec: {{serviceAccountName: {name}, containers: [{{name: c}}]}}\nstatus: {{podIP: 10.2.{third}.{fourth}, conditions: [{{type: Ready, status: 'True'}}]}}\n"
        )
    };
    let pods: String = (0..10_000).map(pod).collect();
    let (inventory, names) = (inventory(&pods), MeshNames::default());
    let world = World::build(&inventory, &names, 1);
    let today = Today { inventory: &inventory, world: &world, names: &names };
    let of = |number: usize| {
        let client = |other: usize| format!("w{}", (number + other) % 1_000);
        let entries = (1..=5).map(|other| entry(&client(other), "GET /a")).collect();
        // A pod without a controller is its own workload.
        Seen {
            workload: ("shop".into(), "pod".into(), format!("w{number}-{number}").into()),
            entries,
            lost: 0,
        }
    };
    let seen: Vec<Seen> = (0..1_000).map(of).collect();
    let began = std::time::Instant::now();
    let found = suggest(&today, &seen, false);
    let took = began.elapsed();
    println!("a suggestion for 5,000 edges of 1,000 workloads took {took:?}");
    assert_eq!((found.yaml.matches("\nkind: Server\n").count(), found.missed.len()), (1_000, 0));
    // A second on a machine that has other work; the limit is for what grows with the square.
    assert!(took < std::time::Duration::from_secs(3), "{took:?}");
}
