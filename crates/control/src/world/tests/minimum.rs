//! The minimum policy of a namespace by a table: what pods, Servers and rules admit with it, and what is said of them.

use super::policy::{IP, check};
use super::{check_problems, manifests, world};

const MINIMUM: &str = "ns config.leno.dev/minimum-inbound-policy";

#[test]
fn verdicts() {
    let with = |minimum: &str, lines: &[&str], rows: &[(&str, &str, &str)]| {
        let minimum = format!("{MINIMUM}={minimum}");
        let lines: Vec<&str> =
            std::iter::once(minimum.as_str()).chain(lines.iter().copied()).collect();
        check(&lines, rows);
    };
    let pod = |policy: &str| format!("pod config.linkerd.io/default-inbound-policy={policy}");
    let (open, mesh, audit) =
        (&*pod("all-unauthenticated"), &*pod("all-authenticated"), &*pod("audit"));
    let deny = &*pod("deny");
    let by_net = ["server s 8080 HTTP/1", "net n 0.0.0.0/0", "policy p Server/s net/n"];
    let routed = [
        "server s 8080 HTTP/1",
        "route r s GET:/api/*",
        "net n 10.0.0.0/8",
        "policy p HTTPRoute/r net/n",
    ];
    // Nothing.
    for minimum in ["all-unauthenticated", "audit"] {
        with(minimum, &[], &[("-", "8080", "allow all-unauthenticated")]);
        with(minimum, &[deny], &[("a", "8080", "deny")]);
        with(minimum, &by_net, &[("-", "8080", "allow p")]);
    }
    // Defaults and access policies are closed; rules admit as before.
    with("deny", &[], &[("-", "8080", "deny"), ("a", "8080", "deny")]);
    for policy in [open, mesh, audit] {
        with("deny", &[policy], &[("-", "8080", "deny"), ("a", "8080", "deny")]);
    }
    for access in ["all-unauthenticated", "all-authenticated", "audit"] {
        with(
            "deny",
            &[&format!("server s 8080 - {access}"), "policy p Server/s sa/b"],
            &[("a", "8080", "deny"), ("-", "8080", "deny"), ("b", "8080", "allow p")],
        );
    }
    with("deny", &by_net, &[("-", "8080", "allow p"), ("a", "9090", "deny")]);
    with(
        "deny",
        &["gateway p app=web sa:a any:9090"],
        &[("a", "8080", "allow p"), ("-", "9090", "allow p"), ("-", "8080", "deny")],
    );
    // No rule admits a client without an identity.
    with(
        "all-authenticated",
        &[],
        &[
            ("-", "8080", "deny"),
            ("tls", "8080", "deny"),
            ("a@8.8.8.8", "8080", "allow all-authenticated"),
        ],
    );
    with(
        "all-authenticated",
        &[open],
        &[("-", "8080", "deny"), ("a", "8080", "allow all-authenticated")],
    );
    with(
        "all-authenticated",
        &[&pod("cluster-unauthenticated")],
        &[
            ("-", "8080", "deny"),
            ("a", "8080", "allow cluster-authenticated"),
            ("a@8.8.8.8", "8080", "deny"),
        ],
    );
    with("all-authenticated", &[audit], &[("-", "8080", "deny"), ("a", "8080", "audit")]);
    with("all-authenticated", &[deny], &[("a", "8080", "deny")]);
    with(
        "all-authenticated",
        &["server s 8080 - all-unauthenticated"],
        &[("-", "8080", "deny"), ("a", "8080", "allow all-authenticated")],
    );
    with(
        "all-authenticated",
        &["server s 8080 opaque audit"],
        &[("-", "8080", "deny"), ("a", "8080", "audit")],
    );
    with(
        "all-authenticated",
        &by_net,
        &[("-", "8080", "deny"), ("tls", "8080", "deny"), ("a", "8080", "allow p")],
    );
    with(
        "all-authenticated",
        &["server s 8080", "policy p Namespace/shop"],
        &[("-", "8080", "deny"), ("a", "8080", "allow p")],
    );
    with(
        "all-authenticated",
        &["server s 8080", "policy p Server/s sa/b"],
        &[("b", "8080", "allow p"), ("a", "8080", "deny")],
    );
    with(
        "all-authenticated",
        &["server s 8080", "old o s all"],
        &[("-", "8080", "deny"), ("a", "8080", "allow o"), ("a@8.8.8.8", "8080", "deny")],
    );
    with(
        "all-authenticated",
        &["server s 8080", "old o s tls"],
        &[("tls", "8080", "deny"), ("a", "8080", "allow o")],
    );
    with(
        "all-authenticated",
        &routed,
        &[
            ("-", "8080 GET /api/1", "deny"),
            ("a", "8080 GET /api/1", "allow p on r"),
            ("a@8.8.8.8", "8080 GET /api/1", "deny"),
        ],
    );
    with(
        "all-authenticated",
        &["gateway p app=web any"],
        &[("-", "8080", "deny"), ("a", "8080", "allow p")],
    );
    with(
        "all-authenticated",
        &["probe /healthz", open],
        &[("-", "8080 GET /healthz", "allow probe on probe"), ("-", "8080 GET /", "deny")],
    );
    with(
        "all-authenticated",
        &["probe /healthz", "server s 8080"],
        &[("-", "8080 GET /healthz", "allow probe on probe")],
    );
    // And none a client from outside of the cluster.
    with(
        "cluster-authenticated",
        &[open],
        &[
            ("-", "8080", "deny"),
            ("a", "8080", "allow cluster-authenticated"),
            ("a@8.8.8.8", "8080", "deny"),
        ],
    );
    with(
        "cluster-authenticated",
        &["server s 8080", "policy p Server/s sa/b"],
        &[
            ("b", "8080", "allow p"),
            ("b@8.8.8.8", "8080", "deny"),
            ("b@fd00::1", "8080", "allow p"),
        ],
    );
    with(
        "cluster-unauthenticated",
        &[],
        &[("-", "8080", "allow cluster-unauthenticated"), (IP, "8080", "deny")],
    );
    with(
        "cluster-unauthenticated",
        &[mesh],
        &[
            ("-", "8080", "deny"),
            ("a", "8080", "allow cluster-authenticated"),
            ("a@8.8.8.8", "8080", "deny"),
        ],
    );
    with("cluster-unauthenticated", &by_net, &[("-", "8080", "allow p"), (IP, "8080", "deny")]);
    with(
        "cluster-unauthenticated",
        &["server s 8080", "net n 0.0.0.0/0!10.1.0.0/16 8.8.8.8", "policy p Server/s net/n"],
        &[("-@10.2.0.1", "8080", "allow p"), ("-@10.1.0.1", "8080", "deny"), (IP, "8080", "deny")],
    );
    // A word that is not one of them means deny.
    with("closed", &[open], &[("a", "8080", "deny")]);
    with(
        "closed",
        &["server s 8080", "policy p Server/s sa/b"],
        &[("b", "8080", "allow p"), ("a", "8080", "deny")],
    );
}

/// A pod cannot have a minimum of its own, and the prefix of Linkerd has none.
#[test]
fn only_a_namespace_has_a_minimum() {
    let open = "allow all-unauthenticated";
    check(&["pod config.leno.dev/minimum-inbound-policy=deny"], &[("-", "8080", open)]);
    check(&["ns config.linkerd.io/minimum-inbound-policy=deny"], &[("-", "8080", open)]);
    check(&["ns leno.dev/minimum-inbound-policy=deny"], &[("-", "8080", "deny")]);
}

/// Each object that asks for more is named, with what it asks for and the minimum.
#[test]
fn objects_that_ask_for_more_are_named() {
    let check = |minimum: &str, lines: &[&str], expected: &[&str]| {
        let minimum = format!("{MINIMUM}={minimum}");
        let lines: Vec<&str> =
            std::iter::once(minimum.as_str()).chain(lines.iter().copied()).collect();
        let world = world(&manifests(&lines));
        check_problems(&world, expected);
        let below = world.object_verdicts().filter(|one| one.accepted.reason == "BelowMinimum");
        let objects = expected.iter().filter(|line| line.contains(": spec"));
        assert_eq!(below.count(), objects.count(), "{lines:?}");
    };
    let pod = "pod config.linkerd.io/default-inbound-policy=all-unauthenticated";
    let admits = "admits clients that the minimum-inbound-policy of the Namespace does not admit:";
    let of_pod = format!(
        "Pod shop/web: metadata.annotations[config.linkerd.io/default-inbound-policy]: all-unauthenticated {admits} deny; the minimum holds"
    );
    check("deny", &[pod], &[&of_pod]);
    check("all-unauthenticated", &[pod, "server s 8080 - audit"], &[]);
    check(
        "deny",
        &["pod leno.dev/default-inbound-policy=deny", "server s 8080", "policy p Server/s"],
        &[],
    );
    let of_server = format!("Server shop/s: spec.accessPolicy: audit {admits} all-authenticated");
    check("all-authenticated", &["server s 8080 - audit"], &[&of_server]);
    let of_rule = format!("AuthorizationPolicy shop/p: spec: the rule {admits} all-authenticated");
    check("all-authenticated", &["server s 8080", "policy p Server/s"], &[&of_rule]);
    check("cluster-authenticated", &["server s 8080", "policy p Server/s sa/a"], &[]);
    let of_net =
        format!("AuthorizationPolicy shop/p: spec: the rule {admits} cluster-unauthenticated");
    check(
        "cluster-unauthenticated",
        &["server s 8080", "net n 10.0.0.0/8", "policy p Server/s net/n"],
        &[],
    );
    check(
        "cluster-unauthenticated",
        &["server s 8080", "net n 8.0.0.0/8", "policy p Server/s net/n"],
        &[&of_net],
    );
    check(
        "cluster-unauthenticated",
        &["linkerd:server s 8080", "linkerd:net n 0.0.0.0/1", "linkerd:policy p Server/s net/n"],
        &[&of_net.replace("Policy ", "Policy.policy.linkerd.io ")],
    );
    check(
        "closed",
        &[],
        &[
            "Namespace shop: metadata.annotations[config.leno.dev/minimum-inbound-policy]: \"closed\" is not a valid policy; the policies are all-unauthenticated, all-authenticated, cluster-unauthenticated, cluster-authenticated, deny, audit; until it is corrected, the minimum is deny",
        ],
    );
    check(
        "all-authenticated",
        &["ns leno.dev/default-inbound-policy=audit"],
        &[&format!(
            "Namespace shop: metadata.annotations[leno.dev/default-inbound-policy]: audit {admits} all-authenticated"
        )],
    );
    check("deny", &["ns leno.dev/default-inbound-policy=deny"], &[]);
    check(
        "deny",
        &["pod leno.dev/minimum-inbound-policy=deny"],
        &[
            "Pod shop/web: metadata.annotations[leno.dev/minimum-inbound-policy]: only a Namespace has a minimum",
        ],
    );
}
