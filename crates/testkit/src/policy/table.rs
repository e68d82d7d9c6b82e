//! The rows of the table of access policy. Those of the Gateway API's policy and of the minimum are in files of their own.

use super::{Case, Cases, Row};

mod gateway;
mod minimum;

/// Rows of client, what it does, and the verdict, under the objects of the lines.
fn check(lines: &[&str], rows: &[Row]) -> Cases {
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    Cases(vec![Case { lines, rows: rows.to_vec() }])
}

/// The whole table.
#[must_use]
pub fn cases() -> Cases {
    defaults()
        + servers()
        + identities()
        + networks()
        + targets()
        + requests()
        + protocols()
        + audits()
        + older()
        + rates()
        + gateway::rows()
        + minimum::rows()
}

const IP: &str = "-@8.8.8.8";
const OPEN: &str = "allow all-unauthenticated";

/// Default policies, of a pod before those of its namespace, under either prefix.
fn defaults() -> Cases {
    let policy = "config.linkerd.io/default-inbound-policy";
    let by_pod = |default: &str, rows: &[Row]| {
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
            ("other/b", "9090", mesh),
        ],
    ) + by_pod(
        "cluster-unauthenticated",
        &[
            ("-", "8080", here),
            (IP, "8080", "deny"),
            ("a@8.8.8.8", "8080", "deny"),
            ("-@fd00::1", "9090", here),
            ("-@2001:db8::1", "9090", "deny"),
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
            &["pod config.linkerd.io/proxy-require-identity-inbound-ports=8080"],
            &[("-", "8080 GET /", "deny"), ("a", "8080 GET /", mesh), ("-", "9090", open)],
        )
        + check(
            &[
                "pod leno.dev/proxy-require-identity-inbound-ports=http",
                "ns leno.dev/default-inbound-policy=cluster-unauthenticated",
            ],
            &[("-", "8080", "deny"), ("a", "8080", both), ("-", "9090", here)],
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
fn servers() -> Cases {
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
fn identities() -> Cases {
    let with = |identities: &str, rows: &[Row]| {
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
        + with("sa:shop/ghost", &[("ghost", at, "deny"), ("a", at, "deny")])
        + with("ns:none", &[("none/a", at, "deny"), ("a", at, "deny")])
        + with("sa:shop/ghost sa:shop/a", &[("ghost", at, "deny"), ("a", at, "allow p")])
        + with("", &[("a", at, "deny"), ("-", at, "deny")])
}

/// Networks, and authentications that a client has to satisfy together.
fn networks() -> Cases {
    let with = |lines: &[&str], rows: &[Row]| {
        let mut all =
            vec!["server s 8080", "mtls m sa:shop/a", "net lan 10.77.0.0/16!10.77.9.0/24 fd00::/8"];
        all.extend(lines);
        check(&all, rows)
    };
    let at = "8080";
    with(
        &["policy p Server/s net/lan"],
        &[
            ("-", at, "allow p"),
            ("a", at, "allow p"),
            ("-@10.77.9.1", at, "deny"),
            (IP, at, "deny"),
            ("-@fd00::1", at, "allow p"),
            ("-@::ffff:10.77.0.9", at, "allow p"),
            ("-@::ffff:10.77.9.1", at, "deny"),
        ],
    ) + with(
        &["policy p Server/s net/lan mtls/m"],
        &[("-", at, "deny"), ("a", at, "allow p"), ("b", at, "deny"), ("a@8.8.8.8", at, "deny")],
    ) + with(
        &["policy p Server/s mtls/m net/lan"],
        &[("a", at, "allow p"), ("a@10.77.9.7", at, "deny")],
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
fn targets() -> Cases {
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
fn requests() -> Cases {
    let with = |lines: &[&str], rows: &[Row]| {
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
        // A server that ignores path parameters must read a path of the same route.
        + with(&["route r s any:/*", "route x s any:/admin/*", "policy p HTTPRoute/r mtls/m", "policy q HTTPRoute/x sa/b"], &[("a", "8080 GET /shop;v=1/x", by_route), ("a", "8080 GET /admin;v=1", "404"), ("b", "8080 GET /admin;v=1/x", "404"), ("b", "8080 GET /admin/x;v=1", "allow q on x"), ("a", "8080 GET /;/admin", "404")])
        + with(&["route r s GET:/a POST:/b", "policy p HTTPRoute/r mtls/m"], &[("a", "8080 GET /a", by_route), ("a", "8080 POST /b", by_route), ("a", "8080 GET /b", "404")])
        // A route without a rule admits nobody.
        + with(&["route r s any:/*"], &[("a", "8080 GET /", "deny")])
        + with(&["route r none any:/*", "policy p HTTPRoute/r mtls/m"], &[("a", "8080 GET /", "deny")])
        + with(&["probe /healthz", routed[0], routed[1]], &[("-", "8080 GET /healthz", "allow probe on probe"), ("a", "8080 GET /api/x", by_route), ("-", "8080 GET /api/x", "deny")])
        + check(&["server s 8080 - audit", "mtls m sa:shop/a", routed[0], routed[1]], &[("a", "8080 GET /api/x", by_route), ("b", "8080 GET /api/x", "audit"), ("b", "8080 GET /", "404"), ("b", "8080", "audit")])
        + check(&["server s 8080 opaque", "mtls m sa:shop/a", routed[0], routed[1]], &[("a", "8080 GET /api/x", "deny"), ("a", "8080", "deny")])
        + check(&["linkerd:server s 8080", "linkerd:mtls m sa:shop/a", "linkerd:route r s GET:/api/*", "linkerd:policy p HTTPRoute/r mtls/m"], &[("a", "8080 GET /api/1", by_route), ("a", "8080 GET /", "404")])
        + check(&["server s 9090 gRPC", "mtls m sa:shop/a", "grpc r s shop.Cart/Add", "policy p GRPCRoute/r mtls/m"], &[("a", "9090 grpc POST /shop.Cart/Add", by_route), ("b", "9090 grpc POST /shop.Cart/Add", "deny"), ("a", "9090 grpc POST /shop.Cart/Drop", "404")])
        // As in Linkerd, each kind of route has its protocols.
        + check(&["server s 9090 HTTP/2", "mtls m sa:shop/a", "grpc r s shop.Cart/Add", "policy p GRPCRoute/r mtls/m"], &[("a", "9090 grpc POST /shop.Cart/Add", "deny")])
        + check(&["server s 9090 gRPC", "mtls m sa:shop/a", "route r s any:/*", "policy p HTTPRoute/r mtls/m"], &[("a", "9090 grpc POST /x", "deny")])
}

/// The older kind of rules.
fn older() -> Cases {
    let at = "8080";
    let with = |line: &str, rows: &[Row]| check(&["server s 8080", line], rows);
    with("old o s all", &[("-", at, "allow o"), (IP, at, "deny")])
        + with("old o s all from:8.0.0.0/8", &[(IP, at, "allow o"), ("-", at, "deny")])
        + with("old o s tls", &[("tls", at, "allow o"), ("a", at, "allow o"), ("-", at, "deny")])
        + with("old o s id:*", &[("a", at, "allow o"), ("tls", at, "deny")])
        + with("old o s sa:a", &[("a", at, "allow o"), ("dns:a", at, "allow o"), ("b", at, "deny")])
        + with("old o s sa:ghost", &[("ghost", at, "deny"), ("-", at, "deny")])
        + with("old o none all", &[("-", at, "deny")])
        + with("old o app=none all", &[("-", at, "deny")])
        + with("linkerd:old o s all", &[("-", at, "deny")])
}

/// A rule for connections, on a port of each protocol.
fn protocols() -> Cases {
    let with = |protocol: &str, rows: &[Row]| {
        let server = format!("server s 8080 {protocol}");
        check(&[&server, "mtls m sa:shop/a", "policy p Server/s mtls/m"], rows)
    };
    let (get, h2, grpc) = ("8080 GET /x", "8080 h2 GET /x", "8080 grpc POST /shop.Cart/Add");
    with(
        "unknown",
        &[
            ("a", get, "allow p"),
            ("b", get, "deny"),
            ("-", get, "deny"),
            ("a", h2, "allow p"),
            ("b", h2, "deny"),
            ("a", grpc, "allow p"),
            ("-", grpc, "deny"),
            ("a", "8080 TLS", "allow p"),
            ("b", "8080 TLS", "deny"),
            ("a", "8080", "allow p"),
            ("b", "8080", "deny"),
        ],
    ) + with("HTTP/1", &[("a", get, "allow p"), ("b", get, "deny"), ("-", get, "deny")])
        + with(
            "HTTP/2",
            &[
                ("a", h2, "allow p"),
                ("b", h2, "deny"),
                ("-", h2, "deny"),
                ("a", grpc, "allow p"),
                ("b", grpc, "deny"),
            ],
        )
        + with("gRPC", &[("a", grpc, "allow p"), ("b", grpc, "deny"), ("-", grpc, "deny")])
        + with(
            "opaque",
            &[
                ("a", "8080", "allow p"),
                ("b", "8080", "deny"),
                ("-", "8080", "deny"),
                ("a", get, "allow p"),
                ("b", get, "deny"),
                ("a", "8080 TLS", "allow p"),
                ("-", "8080 TLS", "deny"),
            ],
        )
        + with(
            "TLS",
            &[("a", "8080 TLS", "allow p"), ("b", "8080 TLS", "deny"), ("-", "8080 TLS", "deny")],
        )
}

/// Audit denies nobody, on a port of any protocol, and by the policy of the pod too.
fn audits() -> Cases {
    let with = |protocol: &str, rows: &[Row]| {
        let server = format!("server s 8080 {protocol} audit");
        let alone = check(&[&server], rows);
        // A rule for another client changes nothing.
        alone + check(&[&server, "mtls m sa:shop/web", "policy p Server/s mtls/m"], rows)
    };
    let (get, h2, grpc) = ("8080 GET /x", "8080 h2 GET /x", "8080 grpc POST /shop.Cart/Add");
    let (bytes, tls) = ("8080", "8080 TLS");
    with(
        "unknown",
        &[
            ("-", get, "audit"),
            ("a", get, "audit"),
            (IP, h2, "audit"),
            ("b", grpc, "audit"),
            ("-", tls, "audit"),
            ("a", bytes, "audit"),
        ],
    ) + with("HTTP/1", &[("-", get, "audit"), ("a", get, "audit"), (IP, get, "audit")])
        + with("HTTP/2", &[("-", h2, "audit"), ("a", h2, "audit"), ("b", grpc, "audit")])
        + with("gRPC", &[("-", grpc, "audit"), ("a", grpc, "audit"), (IP, grpc, "audit")])
        + with(
            "opaque",
            &[
                ("-", bytes, "audit"),
                ("a", bytes, "audit"),
                (IP, get, "audit"),
                ("b", tls, "audit"),
            ],
        )
        + with("TLS", &[("-", tls, "audit"), ("a", tls, "audit"), (IP, tls, "audit")])
        + check(
            &["ns leno.dev/default-inbound-policy=audit"],
            &[
                ("-", get, "audit"),
                ("a", h2, "audit"),
                ("b", grpc, "audit"),
                (IP, tls, "audit"),
                ("-", bytes, "audit"),
            ],
        )
}

/// A rate limit admits no client and denies none.
fn rates() -> Cases {
    let with = |server: &str, limit: &str, rows: &[Row]| {
        let limit = format!("rate l s {limit}");
        check(&[server, &limit], rows)
    };
    let get = "8080 GET /x";
    with("server s 8080 HTTP/1", "total=1000", &[("a", get, "deny"), ("-", get, "deny")])
        + with(
            "server s 8080 HTTP/1 all-unauthenticated",
            "identity=1000 shop/a=1000",
            &[("a", get, OPEN), ("b", get, OPEN), ("-", get, OPEN)],
        )
        + with(
            "server s 8080 HTTP/2 all-authenticated",
            "total=1000 identity=1000",
            &[("a", "8080 h2 GET /x", "allow all-authenticated"), ("-", "8080 h2 GET /x", "deny")],
        )
        + with(
            "server s 8080 - audit",
            "total=1000",
            &[("-", get, "audit"), ("a", "8080", "audit")],
        )
        + check(&["rate l none total=1"], &[("-", get, OPEN), ("a", get, OPEN)])
}
