//! Rows of XAuthorizationPolicy: alone, and beside Linkerd's kinds.

use super::{IP, OPEN, check};
use crate::policy::{Cases, Row};

/// Account `a`, on all ports.
const A: &str = "gateway p app=web sa:a";

pub(super) fn rows() -> Cases {
    alone() + sources() + ports() + of_defaults() + beside_servers() + beside_requests()
}

/// Which pods a policy selects, and what it leaves open.
fn alone() -> Cases {
    // A pod that is selected denies what no rule admits, on each port.
    check(
        &[A],
        &[
            ("a", "8080", "allow p"),
            ("dns:a", "9090 GET /", "allow p"),
            ("a", "9090 grpc POST /shop.Cart/Add", "allow p"),
            ("a", "8080 TLS", "allow p"),
            ("b", "8080", "deny"),
            ("b", "8080 h2 GET /", "deny"),
            ("-", "9090", "deny"),
            ("-", "8080 GET /", "deny"),
            ("tls", "8080", "deny"),
        ],
    ) + check(
        &["gateway p all= sa:other/b"],
        &[("other/b", "8080", "allow p"), ("b", "8080", "deny")],
    ) + check(&["gateway p app=none sa:a"], &[("-", "8080", OPEN), ("b", "9090 GET /", OPEN)])
        // Rules and sources that name nobody.
        + check(&["gateway p app=web"], &[("a", "8080", "deny"), ("-", "9090 GET /", "deny")])
        + check(&["gateway p app=web none"], &[("a", "8080", "deny"), ("-", "8080", "deny")])
        + check(
            &["gateway p app=web any"],
            &[("-", "8080", "allow p"), (IP, "9090", "allow p"), ("a", "8080 GET /", "allow p")],
        )
        // Policies add up, those without rules too.
        + check(
            &[A, "gateway q tier=front sa:b:8080"],
            &[("a", "8080", "allow p"), ("b", "8080", "allow q"), ("b", "9090", "deny")],
        )
        + check(&[A, "gateway q all="], &[("a", "8080", "allow p"), ("b", "8080", "deny")])
        + check(&[A, "gateway q app=none any"], &[("a", "8080", "allow p"), ("b", "8080", "deny")])
        // Probes pass.
        + check(
            &[A, "probe /healthz"],
            &[
                ("-", "8080 GET /healthz", "allow probe on probe"),
                ("-", "8080 GET /", "deny"),
                ("a", "8080 GET /", "allow p"),
            ],
        )
}

/// Accounts and SPIFFE IDs; what does not exist admits nobody.
fn sources() -> Cases {
    let at = "8080";
    check(
        &["gateway p app=web sa:other/*"],
        &[("other/x", at, "allow p"), ("dns:a", at, "deny"), ("a", at, "deny")],
    ) + check(
        &["gateway p app=web sa:*"],
        &[("a", at, "allow p"), ("dns:b", at, "allow p"), ("other/b", at, "deny")],
    ) + check(
        &["gateway p app=web id:spiffe://else.where/x"],
        &[("spiffe://else.where/x", at, "allow p"), ("a", at, "deny")],
    ) + check(
        &["gateway p app=web id:spiffe://cluster.local/ns/shop/sa/a"],
        &[("a", at, "allow p"), ("dns:a", at, "allow p"), ("b", at, "deny")],
    ) + check(
        &["gateway p app=web sa:a|id:spiffe://cluster.local/ns/other/sa/b"],
        &[("a", at, "allow p"), ("other/b", at, "allow p"), ("b", at, "deny")],
    ) + check(
        &["gateway p app=web sa:ghost"],
        &[("ghost", at, "deny"), ("a", at, "deny"), ("-", at, "deny")],
    ) + check(
        &["gateway p app=web sa:ghost|sa:a"],
        &[("ghost", at, "deny"), ("a", at, "allow p"), ("b", at, "deny")],
    ) + check(&["gateway p app=web sa:none/*"], &[("a", at, "deny"), ("none/a", at, "deny")])
        + check(
            &["gateway p app=web id:http://shop/a sa:b"],
            &[("b", at, "allow p"), ("a", at, "deny")],
        )
        + check(
            &["gateway p app=web id:spiffe://cluster.local/ns/shop/sa/*"],
            &[("a", at, "deny"), ("b", at, "deny")],
        )
}

/// A rule with ports admits to these ports, and leaves no other port open.
fn ports() -> Cases {
    check(
        &["gateway p app=web sa:a|sa:b:8080 any:9090"],
        &[
            ("b", "8080", "allow p"),
            ("a", "8080 GET /", "allow p"),
            ("-", "9090", "allow p"),
            ("-", "8080", "deny"),
        ],
    ) + check(
        &["gateway p app=web sa:a:9090,1"],
        &[("a", "9090", "allow p"), ("a", "8080", "deny"), ("b", "9090", "deny")],
    ) + check(
        &["gateway p app=web sa:a:9090 sa:b"],
        &[("a", "8080", "deny"), ("b", "8080", "allow p"), ("b", "9090", "allow p")],
    ) + check(
        &["gateway p app=web sa:a:0,8080"],
        &[("a", "8080", "allow p"), ("a", "9090", "deny"), ("b", "8080", "deny")],
    ) + check(&["gateway p app=web any:70000"], &[("a", "8080", "deny"), ("-", "9090", "deny")])
}

/// The policy replaces the default policy, whatever that is.
fn of_defaults() -> Cases {
    let admits_a = &[("a", "8080", "allow p"), ("b", "8080", "deny"), ("-", "9090", "deny")];
    let by = |line: &str| check(&[A, line], admits_a);
    by("ns leno.dev/default-inbound-policy=deny")
        + by("pod leno.dev/default-inbound-policy=audit")
        + by("pod config.linkerd.io/default-inbound-policy=all-authenticated")
        + by("pod config.linkerd.io/default-inbound-policy=cluster-authenticated")
        + by("pod config.linkerd.io/proxy-require-identity-inbound-ports=8080")
        + by("pod config.linkerd.io/opaque-ports=8080")
        + check(
            &["gateway p app=web any", "ns leno.dev/default-inbound-policy=deny"],
            &[("-", "8080", "allow p"), (IP, "9090 GET /", "allow p")],
        )
}

/// With a Server on the port, a client needs both. The Server's rule is the one that is named.
fn beside_servers() -> Cases {
    let at = "8080";
    let any = "gateway p app=web any";
    check(&[A, "server s 8080"], &[("a", at, "deny"), ("a", "9090", "allow p")])
        + check(
            &[A, "server s 8080 - all-unauthenticated"],
            &[("a", at, "allow all-unauthenticated"), ("b", at, "deny"), ("-", at, "deny")],
        )
        + check(&[A, "server s 8080 - audit"], &[("a", at, "audit"), ("b", at, "deny")])
        + check(&[A, "server s 8080 opaque audit"], &[("a", at, "audit"), ("-", at, "deny")])
        + check(
            &[A, "server s 8080", "policy m Server/s sa/a"],
            &[("a", at, "allow m"), ("dns:a", at, "allow m"), ("b", at, "deny")],
        )
        + check(
            &[A, "linkerd:server s 8080", "linkerd:policy m Server/s sa/a"],
            &[("a", at, "allow m"), ("b", at, "deny"), ("a", "9090", "allow p")],
        )
        + check(
            &[A, "server s 8080", "policy m Server/s sa/b"],
            &[("a", at, "deny"), ("b", at, "deny")],
        )
        + check(
            &[A, "server s 8080", "policy m Namespace/shop sa/a"],
            &[("a", at, "allow m"), ("b", at, "deny"), ("a", "9090", "allow p")],
        )
        + check(
            &["gateway p app=web sa:*", "server s 8080", "mtls m sa:shop/a", "policy m Server/s mtls/m"],
            &[("a", at, "allow m"), ("dns:a", at, "allow m"), ("b", at, "deny")],
        )
        + check(
            &[any, "server s 8080", "policy m Server/s sa/b"],
            &[("b", at, "allow m"), ("a", at, "deny"), ("-", at, "deny")],
        )
        + check(
            &[A, "server s 8080", "net n 10.0.0.0/8", "policy m Server/s net/n"],
            &[("a", at, "allow m"), ("a@8.8.8.8", at, "deny"), ("-", at, "deny")],
        )
        + check(
            &[A, "server s 8080", "old o s all"],
            &[("a", at, "allow o"), ("b", at, "deny"), ("-", at, "deny")],
        )
        + check(
            &["gateway p app=web", "server s 8080 - all-unauthenticated"],
            &[("a", at, "deny"), ("-", at, "deny")],
        )
        // A rule for the other port admits nobody here.
        + check(
            &["gateway p app=web sa:a:9090", "server s 8080 - all-unauthenticated"],
            &[("a", at, "deny"), ("a", "9090", "allow p")],
        )
        + check(
            &[A, "server s 8080", "probe /healthz"],
            &[("-", "8080 GET /healthz", "allow probe on probe"), ("a", "8080 GET /", "deny")],
        )
}

/// Routes of a Server decide about the requests of clients that the policy admits.
fn beside_requests() -> Cases {
    let routed = |gateway: &str, of_route: &str, rows: &[Row]| {
        let policy = format!("policy m HTTPRoute/r{of_route}");
        check(&[gateway, "server s 8080 HTTP/1", "route r s GET:/api/*", &policy], rows)
    };
    routed(
        A,
        "",
        &[
            ("a", "8080 GET /api/1", "allow m on r"),
            ("b", "8080 GET /api/1", "deny"),
            ("-", "8080 GET /api/1", "deny"),
            ("a", "8080 GET /", "404"),
            ("a", "8080", "deny"),
        ],
    ) + routed(
        "gateway p app=web any",
        " sa/b",
        &[("b", "8080 GET /api/1", "allow m on r"), ("a", "8080 GET /api/1", "deny")],
    ) + routed(
        "gateway p app=web none",
        "",
        &[("a", "8080 GET /api/1", "deny"), ("a", "8080 GET /", "404")],
    ) + check(
        &[A, "server s 9090 gRPC", "grpc r s shop.Cart/Add", "policy m GRPCRoute/r"],
        &[
            ("a", "9090 grpc POST /shop.Cart/Add", "allow m on r"),
            ("b", "9090 grpc POST /shop.Cart/Add", "deny"),
            ("a", "9090 grpc POST /shop.Cart/Drop", "404"),
        ],
    )
}
