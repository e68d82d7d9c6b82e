//! Access policy by a table: objects in short lines, a client, what it does, and the verdict with its rule.

use super::policy_objects::manifests;
use super::{check_problems, world};
use crate::world::World;
use leno_model::name::{PeerName, WorkloadId};
use leno_model::policy::{self, PeerTls, RequestVerdict, Verdict};
use leno_model::route::RequestView;

/// A request: method and path.
struct Asked<'a>(&'a str, &'a str);

impl RequestView for Asked<'_> {
    fn host(&self) -> &str {
        "web"
    }
    fn path(&self) -> &str {
        self.1
    }
    fn query(&self) -> &str {
        ""
    }
    fn method(&self) -> &str {
        self.0
    }
    fn any_header(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
        false
    }
}

/// `NAME` of namespace shop, `NAMESPACE/NAME`, `dns:NAME` by its DNS-like name, `tls` without a name, `-` in plain text; `@ADDRESS`
/// behind it.
fn client(text: &str) -> (PeerTls, std::net::IpAddr) {
    let (name, address) = text.split_once('@').unwrap_or((text, "10.1.0.9"));
    let dns = |name: &str| format!("{name}.shop.serviceaccount.identity.leno.cluster.local");
    let peer = match name {
        "-" => return (PeerTls::None, address.parse().unwrap()),
        "tls" => return (PeerTls::Established(None), address.parse().unwrap()),
        name => match (name.strip_prefix("dns:"), name.split_once('/')) {
            _ if name.contains("://") => name.to_owned(),
            (Some(name), _) => dns(name),
            (_, Some((namespace, name))) => {
                format!("spiffe://cluster.local/ns/{namespace}/sa/{name}")
            }
            _ => format!("spiffe://cluster.local/ns/shop/sa/{name}"),
        },
    };
    (PeerTls::Established(Some(PeerName::parse(&peer).unwrap())), address.parse().unwrap())
}

/// What `PORT`, for bytes, or `PORT METHOD PATH` comes to.
fn verdict(world: &World, from: &str, what: &str) -> String {
    let words: Vec<&str> = what.split(' ').collect();
    let workload = WorkloadId { namespace: "shop".into(), pod: "web".into() };
    let said = world.inbound(&workload, words[0].parse().unwrap()).unwrap();
    let message = leno_api::inbound::to_message(&said);
    let read = leno_api::inbound::from_message(&message).unwrap();
    assert_eq!(read, said, "{what}");
    let (peer, address) = client(from);
    let shown = |verdict: Verdict<'_>| match verdict {
        Verdict::Allow(rule) => format!("allow {}", rule.resource.name()),
        Verdict::Audit(_) => "audit".to_owned(),
        Verdict::Deny(_) => "deny".to_owned(),
    };
    let [_, method, path] = words[..] else { return shown(policy::decide(&read, address, &peer)) };
    match policy::decide_request(&read, address, &peer, (&Asked(method, path), false)) {
        RequestVerdict::NoRoute => "404".to_owned(),
        RequestVerdict::ByPort(verdict) => shown(verdict),
        RequestVerdict::ByRoute(route, rule) => {
            format!("allow {} on {}", rule.resource.name(), route.resource.name())
        }
    }
}

/// Rows of client, what it does, and the verdict, under the objects of the lines.
#[track_caller]
fn check(lines: &[&str], rows: &[(&str, &str, &str)]) -> usize {
    let world = world(&manifests(lines));
    for (from, what, expected) in rows {
        let found = verdict(&world, from, what);
        assert_eq!(found, *expected, "{from}: {what} under {lines:#?}\n{:#?}", world.problems);
    }
    rows.len()
}

const IP: &str = "-@8.8.8.8";

/// Default policies, of a pod before those of its namespace, under either prefix.
fn defaults() -> usize {
    let policy = "config.linkerd.io/default-inbound-policy";
    let by_pod = |default: &str, rows: &[(&str, &str, &str)]| {
        check(&[&format!("pod {policy}={default}")], rows)
            + check(&[&format!("ns leno.dev/default-inbound-policy={default}")], rows)
    };
    let open = "allow all-unauthenticated";
    let mesh = "allow all-authenticated";
    let here = "allow cluster-unauthenticated";
    let both = "allow cluster-authenticated";
    by_pod(
        "all-unauthenticated",
        &[("-", "8080", open), ("a", "8080 GET /", open), (IP, "8080", open)],
    ) + by_pod(
        "all-authenticated",
        &[
            ("-", "8080", "deny"),
            ("a@8.8.8.8", "8080 GET /", mesh),
            ("tls", "8080", "deny"),
            ("other/b", "1", mesh),
        ],
    ) + by_pod(
        "cluster-unauthenticated",
        &[
            ("-", "8080", here),
            (IP, "8080", "deny"),
            ("a@8.8.8.8", "8080", "deny"),
            ("-@fd00::1", "9", here),
            ("-@2001:db8::1", "9", "deny"),
        ],
    ) + by_pod(
        "cluster-authenticated",
        &[
            ("-", "8080", "deny"),
            ("a", "8080", both),
            ("a@8.8.8.8", "8080", "deny"),
            ("tls", "8080", "deny"),
        ],
    ) + by_pod("deny", &[("-", "8080", "deny"), ("a", "8080 GET /", "deny")])
        + by_pod(
            "audit",
            &[("-", "8080", "audit"), (IP, "8080 GET /", "audit"), ("a", "9090", "audit")],
        )
        + check(
            &[&format!("ns {policy}=deny"), &format!("pod {policy}=all-authenticated")],
            &[("a", "8080", mesh), ("-", "8080", "deny")],
        )
        + check(
            &[&format!("pod {policy}=nonsense")],
            &[("a", "8080", "deny"), ("-", "8080", "deny")],
        )
        + check(
            &["pod leno.dev/default-inbound-policy=deny", "probe /healthz"],
            &[
                ("-", "8080 GET /healthz", "allow probe on probe"),
                ("-", "8080 POST /healthz", "deny"),
                ("-", "8080 GET /", "deny"),
                ("-", "8080", "deny"),
            ],
        )
}

/// Servers: ports by number and name, selectors, protocols, access policies.
fn servers() -> usize {
    check(&["server s 8080"], &[("-", "8080", "deny"), ("a", "8080 GET /", "deny"), ("-", "9090", "allow all-unauthenticated")])
        + check(&["server s http"], &[("-", "8080", "deny"), ("-", "9090", "allow all-unauthenticated")])
        + check(&["server s nothing"], &[("-", "8080", "allow all-unauthenticated")])
        + check(&["server s 8080 - - app=other"], &[("-", "8080", "allow all-unauthenticated")])
        + check(&["server s 8080 - - all="], &[("a", "8080", "deny")])
        + check(&["server s 8080 opaque audit"], &[("-", "8080", "audit"), ("a", "8080", "audit"), (IP, "8080", "audit")])
        + check(&["server s 8080 TLS audit"], &[("-", "8080", "audit")])
        + check(&["server s 8080 HTTP/1 audit"], &[("-", "8080 GET /", "audit")])
        + check(&["server s 8080 - all-unauthenticated"], &[("-", "8080", "allow all-unauthenticated")])
        + check(&["server s 8080 - all-authenticated"], &[("-", "8080", "deny"), ("a", "8080", "allow all-authenticated")])
        + check(&["server s 8080 - cluster-authenticated"], &[("a@8.8.8.8", "8080", "deny"), ("a", "8080", "allow cluster-authenticated")])
        + check(&["server s 8080 - cluster-unauthenticated"], &[(IP, "8080", "deny"), ("-", "8080", "allow cluster-unauthenticated")])
        + check(&["server s 8080 nonsense nonsense"], &[("a", "8080", "deny")])
        + check(&["linkerd:server s 8080"], &[("a", "8080", "deny")])
        + check(&["ns leno.dev/default-inbound-policy=deny", "server s 8080 - all-authenticated"], &[("a", "8080", "allow all-authenticated"), ("a", "9090", "deny")])
        // The pod's own access policy says nothing where a Server does.
        + check(&["pod leno.dev/default-inbound-policy=all-unauthenticated", "server s 8080"], &[("a", "8080", "deny")])
        // The last line is the oldest object.
        + check(&["server x 8080", "server y 8080 - all-unauthenticated"], &[("-", "8080", "allow all-unauthenticated")])
        + check(&["server x 8080 - all-unauthenticated", "server y http"], &[("-", "8080", "deny")])
        + check(&["server s 8080", "probe /healthz"], &[("-", "8080 GET /healthz", "allow probe on probe"), ("-", "8080 GET /", "deny"), ("-", "8080", "deny")])
}

/// Identities: exact in either form, accounts, namespaces, suffixes, all.
fn identities() -> usize {
    let with = |identities: &str, rows: &[(&str, &str, &str)]| {
        let authentication = format!("mtls m {identities}");
        let ours = check(&["server s 8080", &authentication, "policy p Server/s mtls/m"], rows);
        let theirs = format!("linkerd:{authentication}");
        ours + check(&["linkerd:server s 8080", &theirs, "linkerd:policy p Server/s mtls/m"], rows)
    };
    let at = "8080";
    with(
        "spiffe://cluster.local/ns/shop/sa/a",
        &[
            ("a", at, "allow p"),
            ("dns:a", at, "allow p"),
            ("b", at, "deny"),
            ("-", at, "deny"),
            ("tls", at, "deny"),
            ("other/a", at, "deny"),
        ],
    ) + with(
        "a.shop.serviceaccount.identity.leno.cluster.local",
        &[("a", at, "allow p"), ("dns:a", at, "allow p"), ("b", at, "deny")],
    ) + with(
        "sa:shop/a",
        &[("a", at, "allow p"), ("dns:a", at, "allow p"), ("other/a", at, "deny")],
    ) + with("sa:other/b", &[("other/b", at, "allow p"), ("b", at, "deny")])
        + with(
            "ns:other",
            &[
                ("other/b", at, "allow p"),
                ("other/x", at, "allow p"),
                ("a", at, "deny"),
                ("dns:a", at, "deny"),
            ],
        )
        + with(
            "ns:shop",
            &[
                ("dns:a", at, "allow p"),
                ("a", at, "allow p"),
                ("spiffe://else.where/ns/shop/sa/a", at, "deny"),
                ("workshop/a", at, "deny"),
            ],
        )
        + with(
            "*.shop.serviceaccount.identity.leno.cluster.local",
            &[("a", at, "allow p"), ("other/b", at, "deny")],
        )
        + with(
            "spiffe://cluster.local/ns/shop/sa/*",
            &[("a", at, "allow p"), ("other/b", at, "deny")],
        )
        + with(
            "*.cluster.local",
            &[
                ("a", at, "allow p"),
                ("other/b", at, "allow p"),
                ("spiffe://else.where/ns/shop/sa/a", at, "deny"),
            ],
        )
        + with(
            "*",
            &[
                ("a", at, "allow p"),
                ("spiffe://else.where/x", at, "allow p"),
                ("tls", at, "deny"),
                ("-", at, "deny"),
            ],
        )
        + with("*..cluster.local", &[("a", at, "deny")])
        + with("*. ", &[("a", at, "deny")])
        + with("no/name", &[("a", at, "deny")])
        + with("sa:shop/ghost", &[("ghost", at, "allow p"), ("a", at, "deny")])
        + with("", &[("a", at, "deny"), ("-", at, "deny")])
}

/// Networks, and authentications that a client has to satisfy together.
fn networks() -> usize {
    let with = |lines: &[&str], rows: &[(&str, &str, &str)]| {
        let mut all =
            vec!["server s 8080", "mtls m sa:shop/a", "net lan 10.1.0.0/16!10.1.9.0/24 fd00::/8"];
        all.extend(lines);
        check(&all, rows)
    };
    let at = "8080";
    with(
        &["policy p Server/s net/lan"],
        &[
            ("-", at, "allow p"),
            ("a", at, "allow p"),
            ("-@10.1.9.1", at, "deny"),
            (IP, at, "deny"),
            ("-@fd00::1", at, "allow p"),
            ("-@::ffff:10.1.0.1", at, "allow p"),
            ("-@::ffff:10.1.9.1", at, "deny"),
        ],
    ) + with(
        &["policy p Server/s net/lan mtls/m"],
        &[("-", at, "deny"), ("a", at, "allow p"), ("b", at, "deny"), ("a@8.8.8.8", at, "deny")],
    ) + with(
        &["policy p Server/s mtls/m net/lan"],
        &[("a", at, "allow p"), ("a@10.1.9.7", at, "deny")],
    ) + with(&["policy p Server/s sa/b"], &[("b", at, "allow p"), ("a", at, "deny")])
        + with(&["policy p Server/s sa/b/other"], &[("other/b", at, "allow p"), ("b", at, "deny")])
        + with(&["policy p Server/s"], &[("-", at, "allow p"), (IP, at, "allow p")])
        + with(&["policy p Server/s mtls/m sa/b"], &[("a", at, "deny"), ("b", at, "deny")])
        + with(
            &["net one 8.8.8.8", "policy p Server/s net/one"],
            &[(IP, at, "allow p"), ("-@8.8.4.4", at, "deny")],
        )
        + with(&["net bad 10.0.0.0/99", "policy p Server/s net/bad"], &[("-", at, "deny")])
        + with(&["net bad 10.0.0.0/8!x", "policy p Server/s net/bad"], &[("-", at, "deny")])
        + with(&["policy p Server/s mtls/none"], &[("a", at, "deny"), ("-", at, "deny")])
        + with(&["policy p Server/s net/none"], &[("-", at, "deny")])
        + with(&["policy p Server/s sa/ghost"], &[("ghost", at, "deny")])
        + with(&["policy p Server/s Secret/m"], &[("a", at, "deny")])
        + with(&["policy p Server/s mtls/m/other"], &[("a", at, "deny")])
        + with(&["linkerd:policy p Server/s mtls/m"], &[("a", at, "deny")])
}

/// Targets, and the order of rules.
fn targets() -> usize {
    let at = "8080";
    let mtls = "mtls m sa:shop/a";
    check(&["server s 8080", mtls, "policy p Namespace/shop mtls/m"], &[("a", at, "allow p"), ("b", at, "deny"), ("b", "9090", "allow all-unauthenticated")])
        + check(&["server s 8080", "server g 9090", mtls, "policy p Namespace/shop mtls/m"], &[("a", at, "allow p"), ("a", "9090", "allow p"), ("b", "9090", "deny")])
        + check(&["server s 8080", mtls, "policy p Namespace/other mtls/m"], &[("a", at, "deny")])
        + check(&["server s 8080", mtls, "policy p Server/none mtls/m"], &[("a", at, "deny")])
        + check(&["server s 8080", mtls, "policy p Pod/web mtls/m"], &[("a", at, "deny")])
        + check(&["server s 8080", mtls, "policy p HTTPRoute/none mtls/m"], &[("a", at, "deny")])
        + check(&["server s 8080", mtls, "policy p1 Server/s mtls/m", "policy p2 Server/s sa/b"], &[("a", at, "allow p1"), ("b", at, "allow p2"), ("web", at, "deny")])
        // A rule that allows comes before the audit, which would admit, too.
        + check(&["server s 8080 - audit", mtls, "policy p Server/s mtls/m"], &[("a", at, "allow p"), ("b", at, "audit")])
        + check(&["server s 8080 - all-authenticated", mtls, "policy p Server/s mtls/m"], &[("a", at, "allow p"), ("b", at, "allow all-authenticated"), ("-", at, "deny")])
        + check(&["pod leno.dev/default-inbound-policy=audit", mtls, "policy p Namespace/shop mtls/m"], &[("a", at, "audit")])
        + check(&["server s 8080 opaque audit", mtls, "policy p Server/s mtls/m"], &[("a", at, "allow p"), ("-", at, "audit")])
}

/// Rules for requests: routes on Servers.
fn requests() -> usize {
    let with = |lines: &[&str], rows: &[(&str, &str, &str)]| {
        let mut all = vec!["server s 8080 HTTP/1", "mtls m sa:shop/a"];
        all.extend(lines);
        check(&all, rows)
    };
    let routed = ["route r s GET:/api/*", "policy p HTTPRoute/r mtls/m"];
    let by_route = "allow p on r";
    with(&routed, &[("a", "8080 GET /api/1", by_route), ("a", "8080 GET /api", by_route), ("b", "8080 GET /api/1", "deny"), ("-", "8080 GET /api/1", "deny"), ("a", "8080 POST /api/1", "404"), ("a", "8080 GET /", "404"), ("a", "8080 GET /apis", "404"), ("a", "8080", "deny")])
        // A rule for connections admits bytes, and requests that a route takes.
        + with(&["route r s GET:/api/*", "policy p Server/s mtls/m"], &[("a", "8080", "allow p"), ("a", "8080 GET /api/1", "allow p"), ("b", "8080 GET /api/1", "deny"), ("a", "8080 GET /", "404")])
        + with(&["route r s any:/*", "policy p HTTPRoute/r sa/b", "policy q Server/s mtls/m"], &[("b", "8080 PUT /x", "allow p on r"), ("a", "8080 PUT /x", "allow q"), ("web", "8080 PUT /x", "deny"), ("b", "8080", "deny")])
        // The most specific route decides.
        + with(&["route r s any:/*", "route x s any:/admin/*", "policy p HTTPRoute/r mtls/m", "policy q HTTPRoute/x sa/b"], &[("a", "8080 GET /", by_route), ("a", "8080 GET /admin/1", "deny"), ("b", "8080 GET /admin/1", "allow q on x"), ("b", "8080 GET /", "deny")])
        + with(&["route r s GET:/a POST:/b", "policy p HTTPRoute/r mtls/m"], &[("a", "8080 GET /a", by_route), ("a", "8080 POST /b", by_route), ("a", "8080 GET /b", "404")])
        // A route without a rule admits nobody.
        + with(&["route r s any:/*"], &[("a", "8080 GET /", "deny")])
        + with(&["route r none any:/*", "policy p HTTPRoute/r mtls/m"], &[("a", "8080 GET /", "deny")])
        + with(&["probe /healthz", routed[0], routed[1]], &[("-", "8080 GET /healthz", "allow probe on probe"), ("a", "8080 GET /api/x", by_route), ("-", "8080 GET /api/x", "deny")])
        + check(&["server s 8080 - audit", "mtls m sa:shop/a", routed[0], routed[1]], &[("a", "8080 GET /api/x", by_route), ("b", "8080 GET /api/x", "audit"), ("b", "8080 GET /", "404"), ("b", "8080", "audit")])
        + check(&["server s 8080 opaque", "mtls m sa:shop/a", routed[0], routed[1]], &[("a", "8080 GET /api/x", "deny"), ("a", "8080", "deny")])
        + check(&["linkerd:server s 8080", "linkerd:mtls m sa:shop/a", "linkerd:route r s GET:/api/*", "linkerd:policy p HTTPRoute/r mtls/m"], &[("a", "8080 GET /api/1", by_route), ("a", "8080 GET /", "404")])
        + check(&["server s 9090 gRPC", "mtls m sa:shop/a", "grpc r s shop.Cart/Add", "policy p GRPCRoute/r mtls/m"], &[("a", "9090 POST /shop.Cart/Add", by_route), ("b", "9090 POST /shop.Cart/Add", "deny"), ("a", "9090 POST /shop.Cart/Drop", "404")])
        // As in Linkerd, each kind of route has its protocols.
        + check(&["server s 9090 HTTP/2", "mtls m sa:shop/a", "grpc r s shop.Cart/Add", "policy p GRPCRoute/r mtls/m"], &[("a", "9090 POST /shop.Cart/Add", "deny")])
        + check(&["server s 9090 gRPC", "mtls m sa:shop/a", "route r s any:/*", "policy p HTTPRoute/r mtls/m"], &[("a", "9090 POST /x", "deny")])
}

/// The older kind of rules.
fn older() -> usize {
    let at = "8080";
    let with = |line: &str, rows: &[(&str, &str, &str)]| check(&["server s 8080", line], rows);
    with("old o s all", &[("-", at, "allow o"), (IP, at, "deny")])
        + with("old o s all from:8.0.0.0/8", &[(IP, at, "allow o"), ("-", at, "deny")])
        + with("old o s tls", &[("tls", at, "allow o"), ("a", at, "allow o"), ("-", at, "deny")])
        + with("old o s id:*", &[("a", at, "allow o"), ("tls", at, "deny")])
        + with("old o s sa:a", &[("a", at, "allow o"), ("dns:a", at, "allow o"), ("b", at, "deny")])
        + with("old o none all", &[("-", at, "deny")])
        + with("old o app=none all", &[("-", at, "deny")])
        + with("linkerd:old o s all", &[("-", at, "deny")])
}

#[test]
fn verdicts() {
    let rows =
        defaults() + servers() + identities() + networks() + targets() + requests() + older();
    assert!(rows >= 120, "{rows} rows");
}

/// Each mistake names the object, the field and what is missing.
#[test]
fn mistakes_are_reported_on_their_objects() {
    let check = |lines: &[&str], expected: &[&str]| {
        let world = world(&manifests(lines));
        check_problems(&world, expected);
        let refused = world.object_verdicts().filter(|verdict| !verdict.accepted.holds);
        assert_eq!(
            refused.count() > 0,
            !expected.is_empty() && !expected[0].contains("HTTPRoute"),
            "{lines:?}"
        );
    };
    check(&["server s 8080", "mtls m sa:shop/a", "policy p Server/s mtls/m"], &[]);
    check(
        &["server s 8080", "policy p Server/s mtls/m"],
        &[
            "AuthorizationPolicy shop/p: spec.requiredAuthenticationRefs[0]: MeshTLSAuthentication.policy.leno.dev m does not exist in namespace shop; the policy admits no client",
        ],
    );
    check(
        &["policy p Server/s"],
        &[
            "AuthorizationPolicy shop/p: spec.targetRef: Server.policy.leno.dev s does not exist in namespace shop; the policy has no effect",
        ],
    );
    check(
        &["mtls m sa:shop/ghost"],
        &[
            "MeshTLSAuthentication shop/m: spec.identityRefs[0]: ServiceAccount shop/ghost does not exist; no client has its identity",
        ],
    );
    check(
        &["linkerd:net n 10.0.0.0/99"],
        &[
            "NetworkAuthentication.policy.linkerd.io shop/n: spec.networks[0].cidr: \"10.0.0.0/99\" is not a valid address or range",
            "NetworkAuthentication.policy.linkerd.io shop/n: spec.networks: names no network",
        ],
    );
    check(
        &["server s 8080 HTTP/3 open"],
        &[
            "Server shop/s: spec.proxyProtocol: \"HTTP/3\" is not one of unknown, HTTP/1",
            "Server shop/s: spec.accessPolicy: \"open\" is not a valid policy",
        ],
    );
    check(
        &["route r none GET:/"],
        &["HTTPRoute shop/r: spec.parentRefs[0]: Server shop/none does not exist"],
    );
}

#[test]
fn servers_in_conflict_are_reported() {
    let world = world(&manifests(&["server x 8080", "server y http"]));
    check_problems(
        &world,
        &["Server shop/x: spec.podSelector: Server shop/y selects port 8080 of pod web, too"],
    );
}

/// Ten thousand rules, each with a name of 253 characters: those beyond the limit are named, and the answer stays small.
#[test]
fn hostile_objects_cost_bounded_time() {
    let mut text = manifests(&["server s 8080", "mtls m sa:shop/a"]);
    for number in 0..10_000 {
        let name = format!("{number:0253}");
        let policy = serde_json::json!({
            "apiVersion": "policy.leno.dev/v1alpha1", "kind": "AuthorizationPolicy",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "targetRef": {"group": "policy.leno.dev", "kind": "Server", "name": "s"},
                "requiredAuthenticationRefs": [{"group": "policy.leno.dev", "kind": "MeshTLSAuthentication", "name": "m"}],
            },
        });
        text += &format!("---\n{policy}\n");
    }
    let inventory = super::read(&text);
    let began = std::time::Instant::now();
    let world = World::build(&inventory, &crate::world::MeshNames::default(), 1);
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    let too_many = world.object_verdicts().filter(|verdict| verdict.accepted.reason == "TooMany");
    assert_eq!(too_many.count(), 9_000);
    assert!(verdict(&world, "a", "8080").starts_with("allow 0"));
    assert_eq!(verdict(&world, "b", "8080"), "deny");
}
