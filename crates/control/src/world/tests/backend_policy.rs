//! XBackendTrafficPolicy by a table: a policy for Service `web`, and the budget of its requests.

use super::manifests::route;
use super::routes::{ON_WEB, shop};
use super::*;

const GATEWAY: &str = "gateway.networking.x-k8s.io";
const WEB: &str = "{group: '', kind: Service, name: web}";

/// A policy `a/NAME`; an older one has a smaller `age`.
fn policy(group: &str, name: &str, age: u32, spec: &str) -> String {
    format!(
        "---
apiVersion: {group}/v1alpha1
kind: XBackendTrafficPolicy
metadata: {{name: {name}, namespace: a, creationTimestamp: '2026-01-01T00:00:{age:02}Z'}}
spec: {{{spec}}}
"
    )
}

/// What the default route of `web` says, and the problems.
#[track_caller]
fn check(policies: &[String], budget: &str, problems: &[&str]) {
    let world = shop(policies);
    check_problems(&world, problems);
    let shown = format!("http:  -> web.a:80{budget}");
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &[&shown]);
    let refused = world.object_verdicts().filter(|verdict| !verdict.accepted.holds).count();
    assert_eq!(refused, problems.len().min(1));
}

fn constraint(parts: &str) -> String {
    format!("targetRefs: [{WEB}], retryConstraint: {{{parts}}}")
}

#[test]
fn budgets() {
    for group in ["leno.dev", GATEWAY] {
        let check = |parts: &str, budget: &str| {
            check(&[policy(group, "p", 0, &constraint(parts))], &format!(" budget {budget}"), &[]);
        };
        check("", "20%/10s 10/1s");
        check("budget: {percent: 0}", "0%/10s 10/1s");
        check("budget: {percent: 100, interval: 1h}", "100%/3600s 10/1s");
        check("minRetryRate: {count: 1}", "20%/10s 1/1s");
        check(
            "budget: {interval: 1s}, minRetryRate: {count: 1000000, interval: 10ms}",
            "20%/1s 1000000/10ms",
        );
    }
}

#[test]
fn what_is_refused_by_name() {
    let refused = |group: &str, spec: &str, problem: &str| {
        let kind = if group == GATEWAY {
            "XBackendTrafficPolicy.gateway.networking.x-k8s.io"
        } else {
            "XBackendTrafficPolicy"
        };
        let problem = format!("{kind} a/p: {problem}");
        check(&[policy(group, "p", 0, spec)], "", &[&problem]);
    };
    let wrong = |parts: &str, problem: &str| {
        let problem = format!("spec.retryConstraint.{problem}; the policy has no effect");
        refused("leno.dev", &constraint(parts), &problem);
        refused(GATEWAY, &constraint(parts), &problem);
    };
    wrong("budget: {percent: 101}", "budget.percent: 101 is not from 0 to 100");
    wrong("budget: {percent: -1}", "budget.percent: -1 is not from 0 to 4294967295");
    wrong("budget: {interval: 999ms}", "budget.interval: 999ms is not from 1s to 1h");
    wrong("budget: {interval: 61m}", "budget.interval: 3660s is not from 1s to 1h");
    wrong("minRetryRate: {count: 0}", "minRetryRate.count: 0 is not from 1 to 1000000");
    wrong("minRetryRate: {count: 1000001}", "minRetryRate.count: 1000001 is not from 1 to 1000000");
    wrong("minRetryRate: {interval: 0s}", "minRetryRate.interval: 0ns is not from 1ms to 1h");
    let refused = |spec: &str, problem: &str| refused("leno.dev", spec, problem);
    refused(&constraint("budget: {interval: soon}"), "spec.retryConstraint.budget.interval: ");
    let target = format!("targetRefs: [{WEB}]");
    let missing = "spec: both retryConstraint and sessionPersistence are missing; the policy has";
    refused(&target, missing);
    refused(
        &format!("{target}, sessionPersistence: {{type: Later}}, retryConstraint: {{}}"),
        "spec.sessionPersistence.type: \"Later\" is not one of Cookie, Header; the policy has no",
    );
    refused("retryConstraint: {}", "spec.targetRefs: 0 is not a number of targets from 1 to 16");
    let to = |target: &str| format!("targetRefs: [{target}], retryConstraint: {{}}");
    refused(
        &to("{group: apps, kind: Deployment, name: web}"),
        "spec.targetRefs[0]: Deployment web of group \"apps\" is not a Service; it is ignored",
    );
    refused(
        &to("{group: '', kind: Service, name: gone}"),
        "spec.targetRefs[0]: Service a/gone does not exist",
    );
}

#[test]
fn the_oldest_policy_holds() {
    let one = |group: &str, name: &str, age, percent: u32| {
        policy(group, name, age, &constraint(&format!("budget: {{percent: {percent}}}")))
    };
    check(
        &[one("leno.dev", "a", 2, 7), one(GATEWAY, "b", 1, 8)],
        " budget 8%/10s 10/1s",
        &[
            "XBackendTrafficPolicy a/a: spec.targetRefs[0]: Service a/web has the policy XBackendTrafficPolicy.gateway.networking.x-k8s.io a/b, which is older",
        ],
    );
}

/// The budget is that of the Service to which requests go, not of the Service that clients name.
#[test]
fn a_route_has_the_budgets_of_its_backends() {
    let rule = "{backendRefs: [{name: v1, port: 80, weight: 9}, {name: web, port: 80}]}";
    let route = route("HTTPRoute", "a", "r", ON_WEB, rule);
    let of_v1 = constraint("budget: {percent: 5}").replace("name: web", "name: v1");
    let world = shop(&[route, policy("leno.dev", "p", 0, &of_v1)]);
    check_problems(&world, &[]);
    let shown = "r:  -> 9*v1.a:80 budget 5%/10s 10/1s + 1*web.a:80";
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &[shown]);
}
