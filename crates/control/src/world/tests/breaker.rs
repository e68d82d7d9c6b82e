//! What annotations of a Service say about endpoints that fail, as proxies get it.

use super::manifests::*;
use super::*;
use leno_model::breaker::{Accrual, Breaker, FailureAccrual, Limits, Penalty, SuccessRate};

#[track_caller]
fn check(annotations: &str, expected: &str, problems: &[&str]) {
    let annotated = format!("{{annotations: {{{annotations}}}, name: ");
    let world = world(&service("a", "web", "10.96.0.1", "").replacen("{name: ", &annotated, 1));
    check_problems(&world, problems);
    let policy = world.outbound(&address("10.96.0.1:80"), "a").unwrap();
    assert_eq!(shown(&policy), expected);
    show_policy(&policy);
}

fn shown(policy: &OutboundPolicy) -> String {
    let Some(breaker) = &policy.breaker else { return "-".to_owned() };
    let Breaker { accrual, limits } = &**breaker;
    if *limits != Limits::default() {
        let Limits { connections_max, pending_max, requests_max } = limits;
        return format!("{connections_max:?} {pending_max:?} {requests_max:?}");
    }
    match accrual {
        Accrual::Default => "default".to_owned(),
        Accrual::Off => "off".to_owned(),
        Accrual::Rule(FailureAccrual { consecutive_max, success_rate, penalty }) => {
            let Penalty { min, max, jitter_ratio } = penalty;
            let rate = success_rate.map(|SuccessRate { min, window, responses_min }| {
                format!(", {min} of {responses_min} in {window:?}")
            });
            let rate = rate.unwrap_or_default();
            format!("{consecutive_max} in a row, {min:?} to {max:?} * {jitter_ratio}{rate}")
        }
    }
}

const CONSECUTIVE: &str = "balancer.linkerd.io/failure-accrual: consecutive";

#[test]
fn rules_of_services() {
    check("", "-", &[]);
    check(CONSECUTIVE, "7 in a row, 1s to 60s * 0.5", &[]);
    check("balancer.leno.dev/failure-accrual: 'off'", "off", &[]);
    check(&format!("{CONSECUTIVE}, balancer.leno.dev/failure-accrual: 'off'"), "off", &[]);
    let prefix = "balancer.linkerd.io/failure-accrual-consecutive-";
    let all = format!(
        "{CONSECUTIVE}, {prefix}max-failures: '3', {prefix}min-penalty: 100ms, {prefix}max-penalty: 2m, {prefix}jitter-ratio: '0'"
    );
    check(&all, "3 in a row, 100ms to 120s * 0", &[]);
    let own = format!("{all}, balancer.leno.dev/failure-accrual-consecutive-max-failures: '0'");
    check(&own, "0 in a row, 100ms to 120s * 0", &[]);
    let unified = "balancer.linkerd.io/failure-accrual: unified";
    check(unified, "7 in a row, 1s to 60s * 0.5, 0.8 of 5 in 10s", &[]);
    let alpha = "balancer.alpha.linkerd.io/failure-accrual-success-rate-";
    check(
        &format!(
            "{unified}, {alpha}threshold: '0.9', {alpha}window: 30s, {alpha}min-requests: '100'"
        ),
        "7 in a row, 1s to 60s * 0.5, 0.9 of 100 in 30s",
        &[],
    );
}

#[test]
fn limits_of_services() {
    let prefix = "circuit-breaker.leno.dev/max-";
    check(&format!("{prefix}requests: '100'"), "None None Some(100)", &[]);
    let all = format!("{prefix}connections: '1', {prefix}pending: '2', {prefix}requests: '3'");
    check(&all, "Some(1) Some(2) Some(3)", &[]);
}

#[test]
fn what_is_not_valid_is_reported_and_ignored() {
    let of = |name: &str| format!("Service a/web: metadata.annotations[{name}]: ");
    let check = |annotations: &str, expected, name: &str, why: &str| {
        check(annotations, expected, &[&format!("{}{why}", of(name))]);
    };
    let mode = "balancer.linkerd.io/failure-accrual";
    check(
        &format!("{mode}: sometimes"),
        "-",
        mode,
        "\"sometimes\" is not one of consecutive, unified, off; it is ignored",
    );
    let parameter = |name: &str, value: &str, expected, why: &str| {
        let name = format!("balancer.linkerd.io/failure-accrual-consecutive-{name}");
        check(&format!("{CONSECUTIVE}, {name}: '{value}'"), expected, &name, why);
    };
    let default = "7 in a row, 1s to 60s * 0.5";
    parameter("max-failures", "many", default, "\"many\" is not a number from 0 to 4294967295");
    parameter("min-penalty", "0s", default, "\"0s\" is not between 1ms and 24h");
    parameter("max-penalty", "soon", default, "");
    parameter("jitter-ratio", "101", default, "\"101\" is not a number from 0 to 100");
    parameter("jitter-ratio", "NaN", default, "\"NaN\" is not a number from 0 to 100");
    let shorter = "7 in a row, 500ms to 500ms * 0.5";
    let name = "balancer.leno.dev/failure-accrual-consecutive-min-penalty";
    check(
        &format!("{CONSECUTIVE}, balancer.leno.dev/failure-accrual-consecutive-max-penalty: 500ms"),
        shorter,
        name,
        "1s is longer than the max-penalty, which is 500ms",
    );
    let alone = "balancer.alpha.linkerd.io/failure-accrual-success-rate-window";
    check(&format!("{alone}: 1s"), "-", alone, "has no effect without");
    for (name, value) in [("max-requests", "0"), ("max-pending", "some")] {
        let name = format!("circuit-breaker.leno.dev/{name}");
        let why = format!("\"{value}\" is not a number from 1 to 4294967295");
        check(&format!("{name}: '{value}'"), "-", &name, &why);
    }
    for name in ["circuit-breaker.leno.dev/max-retries", "balancer.leno.dev/accrual"] {
        check(&format!("{name}: '1'"), "-", name, "is not a known annotation; it is ignored");
    }
    let unused = "balancer.alpha.linkerd.io/load-biaser-penalty";
    check(&format!("{unused}: 1s"), "-", unused, "has no effect: a failure counts as four times");
}
