//! Rows of the minimum policy of a namespace: what pods, Servers and rules admit with it.

use super::{IP, check};
use crate::policy::{Cases, Row};

const MINIMUM: &str = "ns config.leno.dev/minimum-inbound-policy";
/// Every IPv4 address is admitted.
const BY_NET: [&str; 3] = ["server s 8080 HTTP/1", "net n 0.0.0.0/0", "policy p Server/s net/n"];

pub(super) fn rows() -> Cases {
    open() + deny() + authenticated() + authenticated_rules() + cluster() + places()
}

fn with(minimum: &str, lines: &[&str], rows: &[Row]) -> Cases {
    let minimum = format!("{MINIMUM}={minimum}");
    let lines: Vec<&str> = std::iter::once(minimum.as_str()).chain(lines.iter().copied()).collect();
    check(&lines, rows)
}

/// A pod that asks for a default policy.
fn pod(policy: &str) -> String {
    format!("pod config.linkerd.io/default-inbound-policy={policy}")
}

/// Nothing is closed.
fn open() -> Cases {
    let of = |minimum: &str| {
        with(minimum, &[], &[("-", "8080", "allow all-unauthenticated")])
            + with(minimum, &[&pod("deny")], &[("a", "8080", "deny")])
            + with(minimum, &BY_NET, &[("-", "8080 GET /", "allow p")])
            + with(minimum, &["gateway p app=web any"], &[("-", "8080", "allow p")])
    };
    of("all-unauthenticated") + of("audit")
}

/// Default policies and access policies admit nobody; rules admit as before.
fn deny() -> Cases {
    let nobody = &[("-", "8080", "deny"), ("a", "8080 GET /", "deny")];
    let of_pod = |policy: &str| with("deny", &[&pod(policy)], nobody);
    let of_server = |access: &str| {
        let server = format!("server s 8080 - {access}");
        with(
            "deny",
            &[&server, "policy p Server/s sa/b"],
            &[("a", "8080", "deny"), ("-", "8080", "deny"), ("b", "8080", "allow p")],
        )
    };
    with("deny", &[], nobody)
        + of_pod("all-unauthenticated")
        + of_pod("all-authenticated")
        + of_pod("audit")
        + of_server("all-unauthenticated")
        + of_server("all-authenticated")
        + of_server("cluster-authenticated")
        + of_server("audit")
        + with("deny", &BY_NET, &[("-", "8080 GET /", "allow p"), ("a", "9090", "deny")])
        + with("deny", &["server s 8080 opaque audit"], &[("a", "8080", "deny")])
        + with(
            "deny",
            &["linkerd:server s 8080 - audit", "linkerd:policy p Namespace/shop sa/b"],
            &[("b", "8080", "allow p"), ("a", "8080 GET /", "deny")],
        )
        + with(
            "deny",
            &["gateway p app=web sa:a any:9090"],
            &[("a", "8080", "allow p"), ("-", "9090", "allow p"), ("-", "8080", "deny")],
        )
        // A rate limit admits nobody.
        + with(
            "deny",
            &["server s 8080 HTTP/1 all-unauthenticated", "rate l s total=1000"],
            &[("a", "8080 GET /", "deny"), ("-", "8080 GET /", "deny")],
        )
        + with(
            "deny",
            &[&pod("all-unauthenticated"), "probe /healthz"],
            &[("-", "8080 GET /healthz", "allow probe on probe"), ("-", "8080 GET /", "deny")],
        )
        // A word that is not a policy.
        + with("closed", &[&pod("all-unauthenticated")], nobody)
        + with(
            "closed",
            &["server s 8080", "policy p Server/s sa/b"],
            &[("b", "8080", "allow p"), ("a", "8080", "deny")],
        )
}

/// Default policies and access policies admit only clients with an identity.
fn authenticated() -> Cases {
    let mesh = "allow all-authenticated";
    let with = |lines: &[&str], rows: &[Row]| with("all-authenticated", lines, rows);
    with(
        &[],
        &[
            ("-", "8080", "deny"),
            ("-", "9090 GET /", "deny"),
            ("tls", "8080", "deny"),
            ("a@8.8.8.8", "8080", mesh),
            ("a", "8080 h2 GET /", mesh),
        ],
    ) + with(&[&pod("all-unauthenticated")], &[("-", "8080", "deny"), ("a", "8080", mesh)])
        + with(
            &[&pod("cluster-unauthenticated")],
            &[
                ("-", "8080", "deny"),
                ("a", "8080", "allow cluster-authenticated"),
                ("a@8.8.8.8", "8080", "deny"),
            ],
        )
        + with(&[&pod("audit")], &[("-", "8080 GET /", "deny"), ("a", "8080", "audit")])
        + with(&[&pod("deny")], &[("a", "8080", "deny")])
        + with(
            &["server s 8080 - all-unauthenticated"],
            &[("-", "8080", "deny"), ("a", "8080", mesh), ("-", "9090", "deny")],
        )
        + with(
            &["linkerd:server s 8080 - all-unauthenticated"],
            &[("-", "8080", "deny"), ("a", "8080 GET /", mesh)],
        )
        + with(&["server s 8080 opaque audit"], &[("-", "8080", "deny"), ("a", "8080", "audit")])
        + with(
            &["server s 8080 gRPC audit"],
            &[
                ("-", "8080 grpc POST /shop.Cart/Add", "deny"),
                ("a", "8080 grpc POST /shop.Cart/Add", "audit"),
            ],
        )
        + with(
            &["probe /healthz", &pod("all-unauthenticated")],
            &[("-", "8080 GET /healthz", "allow probe on probe"), ("-", "8080 GET /", "deny")],
        )
        + with(
            &["probe /healthz", "server s 8080"],
            &[("-", "8080 GET /healthz", "allow probe on probe"), ("a", "8080 GET /", "deny")],
        )
        + with(
            &["server s 8080 HTTP/1 all-unauthenticated", "rate l s total=1000 identity=1000"],
            &[("-", "8080 GET /", "deny"), ("a", "8080 GET /", mesh), ("b", "8080 GET /", mesh)],
        )
}

/// No rule admits a client without an identity, whatever its kind and target.
fn authenticated_rules() -> Cases {
    let with = |lines: &[&str], rows: &[Row]| with("all-authenticated", lines, rows);
    with(
        &BY_NET,
        &[
            ("-", "8080 GET /", "deny"),
            ("tls", "8080 GET /", "deny"),
            ("a", "8080 GET /", "allow p"),
        ],
    ) + with(
        &["server s 8080", "policy p Namespace/shop"],
        &[("-", "8080", "deny"), ("a", "8080", "allow p")],
    ) + with(
        &["server s 8080", "policy p Server/s sa/b"],
        &[("b", "8080", "allow p"), ("a", "8080", "deny")],
    ) + with(
        &["server s 8080", "old o s all"],
        &[("-", "8080", "deny"), ("a", "8080", "allow o"), ("a@8.8.8.8", "8080", "deny")],
    ) + with(
        &["server s 8080", "old o s tls"],
        &[("tls", "8080", "deny"), ("a", "8080", "allow o")],
    ) + with(
        &[
            "server s 8080 HTTP/1",
            "route r s GET:/api/*",
            "net n 10.0.0.0/8",
            "policy p HTTPRoute/r net/n",
        ],
        &[
            ("-", "8080 GET /api/1", "deny"),
            ("a", "8080 GET /api/1", "allow p on r"),
            ("a@8.8.8.8", "8080 GET /api/1", "deny"),
            ("-", "8080 GET /", "404"),
        ],
    ) + with(
        &["gateway p app=web any"],
        &[("-", "8080", "deny"), ("-", "9090 GET /", "deny"), ("a", "8080", "allow p")],
    ) + with(
        &["gateway p app=web any", "server s 8080 - all-unauthenticated"],
        &[("-", "8080", "deny"), ("a", "8080", "allow all-authenticated")],
    )
}

/// No rule admits a client from outside of the cluster.
fn cluster() -> Cases {
    let here = "cluster-unauthenticated";
    let both = "cluster-authenticated";
    let of_both = "allow cluster-authenticated";
    with(
        both,
        &[&pod("all-unauthenticated")],
        &[("-", "8080", "deny"), ("a", "8080", of_both), ("a@8.8.8.8", "8080", "deny")],
    ) + with(
        both,
        &["server s 8080", "policy p Server/s sa/b"],
        &[
            ("b", "8080", "allow p"),
            ("a", "8080", "deny"),
            ("b@8.8.8.8", "8080", "deny"),
            ("b@fd00::1", "8080", "allow p"),
        ],
    ) + with(
        both,
        &["gateway p app=web any"],
        &[("a", "8080", "allow p"), ("a@8.8.8.8", "8080", "deny"), ("-", "8080", "deny")],
    ) + with(here, &[], &[("-", "8080", "allow cluster-unauthenticated"), (IP, "8080", "deny")])
        + with(
            here,
            &[&pod("all-authenticated")],
            &[("-", "8080", "deny"), ("a", "8080", of_both), ("a@8.8.8.8", "8080", "deny")],
        )
        + with(here, &BY_NET, &[("-", "8080 GET /", "allow p"), (IP, "8080 GET /", "deny")])
        + with(
            here,
            &["server s 8080", "net n 0.0.0.0/0!10.1.0.0/16 8.8.8.8", "policy p Server/s net/n"],
            &[
                ("-@10.2.0.1", "8080", "allow p"),
                ("-@10.1.0.1", "8080", "deny"),
                (IP, "8080", "deny"),
            ],
        )
}

/// A pod cannot have a minimum of its own, and the prefix of Linkerd has none.
fn places() -> Cases {
    let open = "allow all-unauthenticated";
    check(&["pod config.leno.dev/minimum-inbound-policy=deny"], &[("-", "8080", open)])
        + check(&["ns config.linkerd.io/minimum-inbound-policy=deny"], &[("-", "8080", open)])
        + check(&["ns leno.dev/minimum-inbound-policy=deny"], &[("-", "8080", "deny")])
}
