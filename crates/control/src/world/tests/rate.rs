//! HTTPLocalRateLimitPolicy by a table: objects in short lines, and the limit that port 8080 has.

use super::{check_problems, manifests, world};
use leno_model::name::WorkloadId;

/// `rate NAME: total N, identity N, a N`, or nothing; with the problems that are said.
#[track_caller]
fn check(lines: &[&str], expected: &str, problems: &[&str]) {
    let world = world(&manifests(lines));
    let workload = WorkloadId { namespace: "shop".into(), pod: "web".into() };
    let policy = world.inbound(&workload, 8080).unwrap();
    let message = leno_api::inbound::to_message(&policy);
    assert_eq!(leno_api::inbound::from_message(&message).as_ref(), Ok(&policy));
    let shown = policy.rate_limit.as_deref().map_or(String::new(), |limit| {
        let rate = |name: &str, rate: Option<std::num::NonZeroU32>| {
            rate.map_or(String::new(), |rate| format!(" {name}={rate}"))
        };
        let overrides = limit.overrides.iter().map(|one| {
            let name = one.identities.first().map_or("", |name| name.rsplit('/').next().unwrap());
            format!(" {name}={}", one.requests_per_second)
        });
        let overrides: String = overrides.collect();
        let (total, identity) = (rate("total", limit.total), rate("identity", limit.identity));
        format!("{}{total}{identity}{overrides}", limit.resource.name())
    });
    assert_eq!(shown, expected, "{lines:?}");
    check_problems(&world, problems);
}

#[test]
fn limits_and_what_is_wrong_with_them() {
    let server = "server web 8080 HTTP/1 all-unauthenticated";
    let detected = "server web 8080";
    check(
        &[server, "rate r web total=100 identity=10 shop/a=50"],
        "r total=100 identity=10 a=50",
        &[],
    );
    check(&[detected, "rate r web identity=10"], "r identity=10", &[]);
    check(&["linkerd:server web 8080", "linkerd:rate r web total=1"], "r total=1", &[]);
    // Each line is older than the one before it.
    check(
        &[server, "rate b web total=2", "rate a web total=1"],
        "a total=1",
        &[
            "HTTPLocalRateLimitPolicy shop/b: spec.targetRef: Server shop/web has the limit of a, which is older or comes first by name; the policy has no effect",
        ],
    );
    let wrong = |line: &str, expected: &str| {
        let expected = format!("{expected}; the policy has no effect");
        check(&[server, line], "", &[&expected]);
    };
    wrong(
        "rate r x total=1",
        "HTTPLocalRateLimitPolicy shop/r: spec.targetRef: Server.policy.leno.dev x does not exist in namespace shop",
    );
    wrong(
        "rate r web total=0",
        "HTTPLocalRateLimitPolicy shop/r: spec.total.requestsPerSecond: 0 is not a number of requests from 1 to 4294967295",
    );
    wrong(
        "rate r web identity=-1",
        "HTTPLocalRateLimitPolicy shop/r: spec.identity.requestsPerSecond: -1 is not a number of requests from 1 to 4294967295",
    );
    wrong(
        "rate r web total=5000000000",
        "HTTPLocalRateLimitPolicy shop/r: spec.total.requestsPerSecond: 5000000000 is not a number of requests from 1 to 4294967295",
    );
    wrong(
        "rate r web total=1 identity=2",
        "HTTPLocalRateLimitPolicy shop/r: spec.identity.requestsPerSecond: 2 is more than the 1 of spec.total",
    );
    wrong(
        "rate r web total=1 shop/a=2",
        "HTTPLocalRateLimitPolicy shop/r: spec.overrides[0].requestsPerSecond: 2 is more than the 1 of spec.total",
    );
    wrong(
        "rate r web",
        "HTTPLocalRateLimitPolicy shop/r: spec: has no total, identity or overrides",
    );
    check(
        &[server, "rate r web total=9 shop/nobody=2"],
        "r total=9 nobody=2",
        &[
            "HTTPLocalRateLimitPolicy shop/r: spec.overrides[0].clientRefs[0]: ServiceAccount shop/nobody does not exist; no client has its identity",
        ],
    );
    for (protocol, why) in [
        ("opaque", "Server shop/web serves connections; only requests can be limited"),
        ("gRPC", "Server shop/web has the proxyProtocol gRPC; use HTTP/2, which takes gRPC, too"),
    ] {
        let server = format!("server web 8080 {protocol}");
        let expected = format!(
            "HTTPLocalRateLimitPolicy shop/r: spec.targetRef: {why}; the policy has no effect"
        );
        check(&[&server, "rate r web total=1"], "", &[&expected]);
    }
}
