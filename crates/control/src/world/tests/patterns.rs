//! Regular expressions of routes: what one hostile route may cost.

use super::manifests::*;
use super::*;
use leno_model::limit::{PATTERN_COMPILED_BYTES_MAX, ROUTE_PATTERNS_BYTES_MAX};

const ON_WEB: &str = "{group: '', kind: Service, name: web}";
const TO_WEB: &str = "backendRefs: [{name: web, port: 80}]";
const LARGE: &str = "(?:a{999}){99}";

fn on_path(pattern: &str) -> String {
    format!("{{matches: [{{path: {{type: RegularExpression, value: '{pattern}'}}}}], {TO_WEB}}}")
}

fn shop(routes: &[String]) -> String {
    service("a", "web", "10.96.0.1", "") + &routes.concat()
}

/// A pattern over the limit matches nothing, its route says so, and other rules go on.
#[test]
fn a_pattern_over_the_limit_costs_its_own_rule() {
    let rules = format!("{}, {}", on_path(LARGE), on_path("/v[0-9]+"));
    let world = world(&shop(&[route("HTTPRoute", "a", "r", ON_WEB, &rules)]));
    check_outbound(&world, "10.96.0.1:80", "a", "detect", &["r: ~/v[0-9]+ -> web.a:80"]);
    let problem = "HTTPRoute a/r: spec.rules[0].matches[0].path.value: regular expression \"(?:a{999}){99}\" needs more than 64 KiB when compiled";
    check_problems(&world, &[problem]);
    let on = &world.verdicts()[0].parents[0];
    assert!(on.accepted.holds);
    let partly = on.partly.as_ref().unwrap();
    assert_eq!(partly.reason, "UnsupportedValue");
    assert!(partly.message.starts_with("spec.rules[0].matches[0].path.value: "), "{partly:?}");
}

/// Of a route on Gateways the mesh compiles nothing.
#[test]
fn routes_on_gateways_alone_are_not_compiled() {
    let route = route("HTTPRoute", "a", "r", "{name: gateway}", &on_path(LARGE));
    let world = world(&shop(&[route]));
    check_problems(
        &world,
        &["HTTPRoute a/r: spec.parentRefs[0]: the mesh ignores a route on a Gateway"],
    );
}

/// Proxies match a request against the patterns of all routes of a Service.
#[test]
fn the_routes_of_a_service_have_a_budget_together() {
    // Each takes a whole route's budget.
    let full = |number: usize| {
        let patterns = ROUTE_PATTERNS_BYTES_MAX / PATTERN_COMPILED_BYTES_MAX;
        let rules =
            (0..patterns).map(|rule| on_path(&format!("(?:.?){{{}}}", 500 - rule - 9 * number)));
        let rules = rules.collect::<Vec<_>>().join(", ");
        route("HTTPRoute", "a", &format!("r{number}"), ON_WEB, &rules)
    };
    let world = world(&shop(&(0..3).map(full).collect::<Vec<_>>()));
    check_problems(
        &world,
        &[
            "HTTPRoute a/r2: spec.parentRefs[0]: Service a/web has routes of this namespace before this one, and with it their regular expressions need more than 256 KiB",
        ],
    );
    assert_eq!(world.verdicts()[2].parents[0].accepted.reason, "TooManyRoutes");
}

/// The other routes of the namespace keep their room, and the next world costs nothing.
#[test]
fn one_hostile_route_costs_little() {
    let pattern = |number: usize| format!("/{number:04}/[a-z]+/(?:x.*|[0-9])/end");
    let rule = |rule: usize| {
        let one = |number: usize| {
            format!(
                "{{name: h{number}, type: RegularExpression, value: '{}'}}",
                pattern(rule * 256 + number)
            )
        };
        let matches = (0..16).map(|number| {
            let headers = (0..16).map(|header| one(16 * number + header));
            format!("{{headers: [{}]}}", headers.collect::<Vec<_>>().join(", "))
        });
        format!("{{matches: [{}], {TO_WEB}}}", matches.collect::<Vec<_>>().join(", "))
    };
    let rules = (0..16).map(rule).collect::<Vec<_>>().join(", ");
    let hostile = route("HTTPRoute", "a", "hostile", ON_WEB, &rules);
    let fine = route("HTTPRoute", "a", "later", ON_WEB, &on_path("/fine"));
    let inventory = read(&shop(&[hostile, fine]));
    leno_runtime::memory::give_back();
    // Forgets the peak of reading the manifest.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before, began) = (status("VmRSS:"), on_cpu());
    let world = World::build(&inventory, &MeshNames::default(), 1);
    let (milliseconds, kib) = ((on_cpu() - began) / 1_000_000, status("VmHWM:") - before);
    assert_eq!(show_routes_of(&world), ["later: ~/fine -> web.a:80"]);
    assert!(kib < 16 << 10, "{kib} KiB");
    assert!(milliseconds < 100, "{milliseconds} ms");
    println!("{kib} KiB, {milliseconds} ms");
}

/// Rules of `web` that come from the route `later`.
fn show_routes_of(world: &World) -> Vec<String> {
    let (_, rules) = show_policy(&world.outbound(&address("10.96.0.1:80"), "a").unwrap());
    rules.into_iter().filter(|rule| rule.starts_with("later")).collect()
}

/// A figure of this process in KiB.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
