//! Hostile policy objects by a table: each costs bounded time and is named, and the other objects keep working.

use super::policy::verdict;
use super::{manifests, on_cpu, problems, read};
use crate::source::kubernetes::tests::by_events;
use crate::world::{MeshNames, World};
use serde_json::{Value, json};

/// For the world, on a processor that others use, too.
const MILLISECONDS_MAX: u64 = 1_000;
/// For reading a file of the largest size that is read: 8 MiB.
const READ_MILLISECONDS_MAX: u64 = 2_000;
const LENO: &str = "policy.leno.dev/v1alpha1";
const GATEWAY: &str = "gateway.networking.x-k8s.io/v1alpha1";

fn object(version: &str, kind: &str, name: &str, spec: &Value) -> String {
    let metadata = json!({"name": name, "namespace": "shop"});
    let object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    // On many lines, as people write it: a message names the line.
    format!("---\n{}\n", serde_json::to_string_pretty(&object).unwrap())
}

fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

/// Objects besides a Server of port 8080 and its rule `good`, and the beginning of a problem that names what is wrong.
#[track_caller]
fn check(what: &str, objects: &str, expected: &str) {
    let good = manifests(&["server s 8080", "mtls m sa:shop/a", "policy good Server/s mtls/m"]);
    let text = format!("{good}{objects}");
    let began = on_cpu();
    let inventory = read(&text);
    let (read, began) = ((on_cpu() - began) / 1_000_000, on_cpu());
    let world = World::build(&inventory, &MeshNames::default(), 1);
    let built = (on_cpu() - began) / 1_000_000;
    println!("{what}: {read} ms to read {} KiB, {built} ms for the world", text.len() >> 10);
    let shown = problems(&world);
    let is_named = shown.iter().any(|problem| problem.starts_with(expected));
    assert!(is_named, "{what}: {expected:?} is not among {:#?}", &shown[..shown.len().min(9)]);
    assert!(shown.iter().all(|problem| problem.len() < 20_000), "{what}");
    assert_eq!(verdict(&world, "a", "8080"), "allow good", "{what}");
    assert_eq!(verdict(&world, "b", "8080"), "deny", "{what}");
    assert!(read < READ_MILLISECONDS_MAX, "{what}: {read} ms to read {} KiB", text.len() >> 10);
    assert!(built < MILLISECONDS_MAX, "{what}: {built} ms for the world");
}

/// The same from an API server.
#[track_caller]
fn check_both(what: &str, objects: &str, expected: &str) {
    check(what, objects, expected);
    let good = manifests(&["server s 8080", "mtls m sa:shop/a", "policy good Server/s mtls/m"]);
    let listed = by_events(&format!("{good}{objects}"));
    let began = on_cpu();
    let world = World::build(&listed, &MeshNames::default(), 1);
    let built = (on_cpu() - began) / 1_000_000;
    assert_eq!(verdict(&world, "a", "8080"), "allow good", "{what}");
    assert_eq!(verdict(&world, "b", "8080"), "deny", "{what}");
    assert!(built < MILLISECONDS_MAX, "{what}: {built} ms for the world of a cluster");
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name})
}

fn server(selector: &Value) -> Value {
    json!({"podSelector": selector, "port": 9090})
}

fn for_server(references: &Value) -> Value {
    let target = json!({"group": "policy.leno.dev", "kind": "Server", "name": "s"});
    json!({"targetRef": target, "requiredAuthenticationRefs": references})
}

fn mtls(name: &str) -> Value {
    json!({"group": "policy.leno.dev", "kind": "MeshTLSAuthentication", "name": name})
}

#[test]
fn many_clients() {
    let identities: Vec<String> = (0..10_000).map(|n| format!("spiffe://x/{n}")).collect();
    let spec = json!({"identities": identities});
    let all = object(LENO, "MeshTLSAuthentication", "x", &spec);
    let full = "MeshTLSAuthentication shop/x: spec.identities[4095]: only the first 4095 are used";
    check_both("10,000 identities", &all, full);
    let spec = json!({"identities": vec!["no name"; 10_000]});
    let wrong = "MeshTLSAuthentication shop/x: spec.identities[0]: \"no name\"";
    check_both(
        "10,000 wrong identities",
        &object(LENO, "MeshTLSAuthentication", "x", &spec),
        wrong,
    );
    let refs: Vec<Value> =
        (0..10_000).map(|n| json!({"kind": "Namespace", "name": format!("n{n}")})).collect();
    let namespaces = many(10_000, |n| {
        format!("---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: m{n}}}}}\n")
    });
    let all =
        object(LENO, "MeshTLSAuthentication", "x", &json!({"identityRefs": refs})) + &namespaces;
    let missing = "MeshTLSAuthentication shop/x: spec.identityRefs[0]: Namespace n0 does not exist";
    check_both("10,000 Namespaces", &all, missing);
    let long = json!({"identities": ["x".repeat(1 << 20)]});
    let long = object(LENO, "MeshTLSAuthentication", "x", &long);
    let wrong = "MeshTLSAuthentication shop/x: spec.identities[0]: ";
    check_both("an identity of a megabyte", &long, wrong);
    let networks: Vec<Value> = (0..100_000_u32)
        .map(|n| json!({"cidr": std::net::Ipv4Addr::from(n << 8).to_string()}))
        .collect();
    let spec = json!({"networks": networks});
    let full = "NetworkAuthentication shop/x: spec.networks: only the first 4096 are used";
    check_both("100,000 networks", &object(LENO, "NetworkAuthentication", "x", &spec), full);
    let holes: Vec<String> =
        (0..10_000_u32).map(|n| std::net::Ipv4Addr::from(n << 8).to_string()).collect();
    let spec = json!({"networks": [{"cidr": "0.0.0.0/0", "except": holes}]});
    let full = "NetworkAuthentication shop/x: spec.networks[0].except: 10000 exceptions";
    check_both("10,000 exceptions", &object(LENO, "NetworkAuthentication", "x", &spec), full);
    let large: Vec<String> = (0..4_000).map(|n| format!("spiffe://x/{n}")).collect();
    let large = object(LENO, "MeshTLSAuthentication", "x", &json!({"identities": large}));
    let rules = many(1_000, |n| {
        object(LENO, "AuthorizationPolicy", &format!("x{n}"), &for_server(&json!([mtls("x")])))
    });
    let full = "AuthorizationPolicy shop/x112: spec: the rules of its namespace name more than 65536 identities and networks";
    check_both("1,000 rules of 4,000 identities", &(large + &rules), full);
}

#[test]
fn many_rules() {
    let policies = many(10_000, |n| {
        object(LENO, "AuthorizationPolicy", &format!("x{n}"), &for_server(&json!([mtls("m")])))
    });
    let full = "AuthorizationPolicy shop/x1899: spec: its target has 1000 rules before this one";
    check_both("10,000 AuthorizationPolicies", &policies, full);
    let references = vec![account("a"); 10_000];
    let spec = for_server(&json!(references));
    let second = "AuthorizationPolicy shop/x: spec.requiredAuthenticationRefs[1]: ServiceAccount a is the second";
    check_both("10,000 authentications", &object(LENO, "AuthorizationPolicy", "x", &spec), second);
    let sources = json!([{"type": "ServiceAccount", "serviceAccount": {"name": "a"}}]);
    let gateway = |app: &str, rules: &Value| {
        let selector = json!({"matchLabels": {"app": app}});
        let target = json!({"group": "", "kind": "Pod", "selector": selector});
        json!({"targetRefs": [target], "action": "ALLOW", "enforcementLevel": "Network", "rules": rules})
    };
    let rules = vec![json!({"sources": sources}); 10_000];
    let all = object(GATEWAY, "XAuthorizationPolicy", "x", &gateway("web", &json!(rules)));
    let full = "XAuthorizationPolicy shop/x: spec.rules[1000]: the XAuthorizationPolicies of its";
    check_both("10,000 rules in one object", &all, full);
    let rules = vec![json!({"later": 1}); 10_000];
    let all = object(GATEWAY, "XAuthorizationPolicy", "x", &gateway("other", &json!(rules)));
    check_both("10,000 unknown fields", &all, "XAuthorizationPolicy shop/x: spec.rules[0].later");
    let rules = json!([{"sources": sources, "networkAttributes": {"ports": vec![-1; 10_000]}}]);
    let all = object(GATEWAY, "XAuthorizationPolicy", "x", &gateway("other", &rules));
    let full = "XAuthorizationPolicy shop/x: spec.rules[0].networkAttributes.ports: 10000 ports";
    check_both("10,000 ports", &all, full);
}

#[test]
fn many_servers() {
    let servers = many(10_000, |n| {
        let selector = json!({"matchLabels": {"app": "other"}});
        object("policy.leno.dev/v1beta3", "Server", &format!("x{n}"), &server(&selector))
    });
    let old = many(10_000, |n| {
        let selector = json!({"selector": {"matchLabels": {"app": "none"}}});
        let spec = json!({"server": selector, "client": {"unauthenticated": true}});
        object("policy.leno.dev/v1beta1", "ServerAuthorization", &format!("x{n}"), &spec)
    });
    let full =
        "ServerAuthorization shop/x1088: spec.server: the ServerAuthorizations of its namespace";
    check_both("10,000 ServerAuthorizations and Servers", &(servers + &old), full);
    let label = |n: usize| json!({"key": format!("k{n}"), "operator": "DoesNotExist"});
    let labels: Vec<Value> = (0..10_000).map(label).collect();
    let spec = server(&json!({"matchExpressions": labels}));
    let full = "Server shop/x: spec.podSelector: 10000 conditions; only the first 64 are used";
    check_both("10,000 labels", &object("policy.leno.dev/v1beta3", "Server", "x", &spec), full);
    let old = json!({
        "server": {"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}},
        "client": {"unauthenticated": true},
    });
    let wrong = "ServerAuthorization shop/x: spec.server.selector.matchExpressions[0].operator: \"Like\" is not one of";
    let old = object("policy.leno.dev/v1beta1", "ServerAuthorization", "x", &old);
    check_both("a selector that is not valid", &old, wrong);
    for port in [0, 65_536, -1] {
        let spec = json!({"podSelector": {}, "port": port});
        let wrong = "Server shop/x: spec.port: not a port's name or number (1 to 65535)";
        check_both("a port", &object("policy.leno.dev/v1beta3", "Server", "x", &spec), wrong);
    }
}

#[test]
fn references_in_a_ring() {
    let ring = many(100, |n| {
        let next = mtls(&format!("x{}", (n + 1) % 100));
        object(LENO, "MeshTLSAuthentication", &format!("x{n}"), &json!({"identityRefs": [next]}))
    });
    let wrong = "MeshTLSAuthentication shop/x0: spec.identityRefs[0]: MeshTLSAuthentication.policy.leno.dev x1 is not a ServiceAccount or Namespace";
    check_both("authentications", &ring, wrong);
    let own = object(LENO, "MeshTLSAuthentication", "x", &json!({"identityRefs": [mtls("x")]}));
    let wrong = "MeshTLSAuthentication shop/x: spec.identityRefs[0]: MeshTLSAuthentication.policy.leno.dev x is not";
    check_both("an authentication", &own, wrong);
    let route = |name: &str, parent: &str| {
        let group = "gateway.networking.k8s.io";
        let parents = json!([{"group": group, "kind": "HTTPRoute", "name": parent}]);
        object(
            &format!("{group}/v1"),
            "HTTPRoute",
            name,
            &json!({"parentRefs": parents, "rules": [{}]}),
        )
    };
    let wrong = "HTTPRoute shop/x: spec.parentRefs[0]: the mesh ignores a route on a HTTPRoute";
    check_both("routes", &(route("x", "y") + &route("y", "x")), wrong);
}

#[test]
fn routes_of_servers() {
    let route = |parents: &Value, rules: &Value| {
        let spec = json!({"parentRefs": parents, "rules": rules});
        object("gateway.networking.k8s.io/v1", "HTTPRoute", "x", &spec)
    };
    let of = |name: &str| json!({"group": "policy.leno.dev", "kind": "Server", "name": name});
    let other = json!({"matchLabels": {"app": "other"}});
    let other = object("policy.leno.dev/v1beta3", "Server", "other", &server(&other));
    let path =
        |kind: &str, value: &str| json!({"matches": [{"path": {"type": kind, "value": value}}]});
    let rules = json!(vec![path("Exact", "/a"); 10_000]);
    let full = "HTTPRoute shop/x: spec.rules: 10000 rules; only the first 128 are used";
    check_both("10,000 rules", &(route(&json!([of("other")]), &rules) + &other), full);
    let wrong = json!(vec![path("Later", "/a"); 10_000]);
    let first = "HTTPRoute shop/x: spec.rules[0]";
    check_both("10,000 wrong rules", &(route(&json!([of("other")]), &wrong) + &other), first);
    let matches = json!([{"matches": vec![json!({"method": "GET"}); 10_000]}]);
    let full =
        "HTTPRoute shop/x: spec.rules[0].matches: 10000 matches; only the first 128 are used";
    check_both("10,000 matches", &(route(&json!([of("other")]), &matches) + &other), full);
    let parents = json!(vec![of("other"); 10_000]);
    let rules = json!(vec![json!({"matches": vec![json!({"method": "GET"}); 128]}); 128]);
    let full = "HTTPRoute shop/x: spec.parentRefs: 10000 parents; only the first 32 are used";
    check_both("10,000 parents", &(route(&parents, &rules) + &other), full);
    let regex = format!("({})", "(a|b)*".repeat(2_000));
    let huge = route(&json!([of("other")]), &json!([path("RegularExpression", &regex)]));
    let wrong = "HTTPRoute shop/x: spec.rules[0].matches[0].path.value: ";
    check_both("a huge expression", &(huge + &other), wrong);
    let counted = path("RegularExpression", "(?:(?:a{500}){500}){500}");
    let counted = route(&json!([of("other")]), &json!(vec![counted; 128]));
    check_both("counted repetitions", &(counted + &other), wrong);
}

#[test]
fn names_and_depth() {
    let long = "x".repeat(254);
    let named = |length: usize| {
        object(LENO, "MeshTLSAuthentication", &"x".repeat(length), &json!({"identities": ["*"]}))
    };
    let wrong = "MeshTLSAuthentication: metadata.name: longer than 253 bytes";
    check("a name of 254 bytes", &named(254), wrong);
    check("a name of a megabyte", &named(1 << 20), wrong);
    let policy = object(LENO, "AuthorizationPolicy", "x", &for_server(&json!([mtls(&long)])));
    let missing = "AuthorizationPolicy shop/x: spec.requiredAuthenticationRefs[0]: MeshTLSAuthentication.policy.leno.dev xxx";
    check("a reference of 254 bytes", &policy, missing);
    let longest = named(253);
    let policy = object(LENO, "AuthorizationPolicy", "x", &for_server(&json!([mtls("y")])));
    let missing = "AuthorizationPolicy shop/x: spec.requiredAuthenticationRefs[0]: MeshTLSAuthentication.policy.leno.dev y does not exist";
    check("a name of 253 bytes", &(longest + &policy), missing);
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let deep = format!("---\nkind: {}{}\n", open.repeat(100_000), close.repeat(100_000));
        check("100,000 levels", &deep, "document: : ");
    }
}
