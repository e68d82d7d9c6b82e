//! Objects that ask for more than the minimum policy of their namespace. Its verdicts are rows of `leno_testkit::policy`.

use super::{check_problems, manifests, world};

const MINIMUM: &str = "ns config.leno.dev/minimum-inbound-policy";

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
