//! Servers that fail for a moment, and how often they are asked again.

use super::timeouts::{call, grpc_servers};
use super::{PORT, curl, route, site};
use crate::tap::Tap;
use leno_tests::mesh::Mesh;
use leno_tests::wait;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

fn counted(mesh: &Mesh, name: &str) -> f64 {
    mesh.pod("client").metrics().sum(name, &[])
}

fn denied(mesh: &Mesh, reason: &str) -> f64 {
    let labels = [("direction", "outbound"), ("reason", reason)];
    mesh.pod("client").metrics().sum("http_retries_denied_total", &labels)
}

#[test]
fn a_flapping_server_fails_no_get_and_gets_no_post_twice() {
    let (mesh, server) = site("calls-retries");
    let rule = json!({"retry": {"codes": [503], "attempts": 2, "backoff": "5ms"}});
    route(&mesh, "HTTPRoute", &json!({}), rule.clone());
    for _ in 0..60 {
        curl(&mesh, "/each/7", &[]).check(200, "yes");
    }
    let retries = server.count("GET /each/7") - 60;
    assert!((8..=12).contains(&retries), "{retries} retries");
    assert_eq!(counted(&mesh, "outbound_http_route_retry_requests_total"), retries as f64);
    assert_eq!(counted(&mesh, "outbound_http_route_retry_successes_total"), retries as f64);
    // Not idempotent: the client gets the failure, and the server gets the request once.
    let posted = curl(&mesh, "/first/1", &["-d", "x"]);
    posted.check(503, "no");
    assert_eq!(server.count("POST /first/1"), 1);
    assert_eq!(denied(&mesh, "method"), 1.0);
    // A server that fails three times is asked three times, and its last answer is passed on.
    curl(&mesh, "/first/9", &[]).check(503, "no");
    assert_eq!(server.count("GET /first/9"), 3);
    assert_eq!(counted(&mesh, "outbound_http_route_retry_limit_exceeded_total"), 1.0);
    // The route may ask for it.
    let all = json!({"retry.leno.dev/methods": "all"});
    route(&mesh, "HTTPRoute", &all, rule);
    curl(&mesh, "/first/2", &["-d", "x"]).check(200, "yes");
    assert_eq!(server.count("POST /first/2"), 3);
}

#[test]
fn a_tap_shows_attempts_and_why_there_is_no_further_one() {
    let (mesh, _server) = site("calls-retries-tap");
    let rule = json!({"retry": {"codes": [503], "attempts": 2, "backoff": "5ms"}});
    route(&mesh, "HTTPRoute", &json!({}), rule);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (_, mut tap) = Tap::open(mesh.pod("client"), loopback, "path=/first");
    let mut check = |path: &str, arguments: &[&str], expected: (u16, u64, &str)| {
        curl(&mesh, path, arguments).check(expected.0, "");
        let request = tap.next();
        let (status, attempts) = (&request["status"], &request["attempts"]);
        assert_eq!((status, attempts), (&expected.0.into(), &expected.1.into()), "{request}");
        assert_eq!(request["retry_denied"], expected.2, "{request}");
        assert_eq!(request["route"], "default/r", "{request}");
    };
    check("/first/1", &[], (200, 2, ""));
    check("/first/9", &[], (503, 3, "limit"));
    check("/first/8", &["-d", "x"], (503, 1, "method"));
}

#[test]
fn bodies_are_kept_up_to_a_limit() {
    let (mesh, server) = site("calls-retries-bodies");
    let annotations = json!({"retry.linkerd.io/http": "5xx", "retry.linkerd.io/limit": "2"});
    route(&mesh, "HTTPRoute", &annotations, json!({}));
    let body = |name: &str, bytes: usize| {
        let path = mesh.directory().join(name);
        std::fs::write(&path, vec![b'x'; bytes]).expect("write a body");
        format!("@{}", path.to_string_lossy())
    };
    let small = body("small", 60_000);
    curl(&mesh, "/first/1", &["-X", "PUT", "--data-binary", &small]).check(200, "yes");
    assert_eq!(server.count("PUT /first/1"), 2);
    let large = body("large", 300_000);
    curl(&mesh, "/first/2", &["-X", "PUT", "--data-binary", &large]).check(503, "no");
    assert_eq!(server.count("PUT /first/2"), 1);
    assert_eq!(denied(&mesh, "body"), 1.0);
}

#[test]
fn servers_say_how_long_to_wait() {
    let (mesh, server) = site("calls-retries-after");
    let rule = json!({
        "retry": {"codes": [503], "attempts": 1, "backoff": "1ms"}, "timeouts": {"request": "4s"},
    });
    route(&mesh, "HTTPRoute", &json!({}), rule);
    let waited = curl(&mesh, "/after/1", &[]);
    waited.check(200, "yes");
    waited.check_time(1000);
    // Beyond the deadline: the failure is passed on at once.
    let refused = curl(&mesh, "/after/9", &[]);
    refused.check(503, "no");
    refused.check_time(0);
    assert_eq!(server.count("GET /after/9"), 1);
    assert_eq!(denied(&mesh, "deadline"), 1.0);
}

#[test]
fn an_attempt_that_takes_too_long_is_made_again() {
    let (mesh, server) = site("calls-retries-late");
    let annotations = json!({"retry.leno.dev/http": "5xx", "retry.leno.dev/timeout": "300ms"});
    route(&mesh, "HTTPRoute", &annotations, json!({}));
    let late = curl(&mesh, "/slow-once", &[]);
    late.check(200, "yes");
    late.check_time(300);
    assert_eq!(server.count("GET /slow-once"), 2);
    let rule = json!({"retry": {"attempts": 1}, "timeouts": {"backendRequest": "300ms"}});
    route(&mesh, "HTTPRoute", &json!({}), rule);
    let slow = curl(&mesh, "/slow", &[]);
    slow.check(504, "l5d-proxy-error: no whole response within the response's timeout");
    slow.check_time(600);
    assert_eq!(server.count("GET /slow"), 2);
    // It may have been processed.
    curl(&mesh, "/slow", &["-d", "x"]).check(504, "l5d-proxy-error");
    assert_eq!(server.count("POST /slow"), 1);
}

#[test]
fn the_budget_limits_retries_of_a_server_that_is_down() {
    let (mesh, server) = site("calls-retries-budget");
    let rule = json!({"retry": {"codes": [503], "attempts": 5, "backoff": "1ms"}});
    route(&mesh, "HTTPRoute", &json!({}), rule);
    let address = mesh.service("server").addresses.v4;
    let url = format!("http://{address}:{PORT}/busy");
    let began = std::time::Instant::now();
    let many: Vec<&str> = std::iter::repeat_n(url.as_str(), 399).collect();
    curl(&mesh, "/busy", &many).check(503, "no");
    let seconds = began.elapsed().as_secs() as usize + 2;
    let attempts = server.count("GET /busy");
    let most = 400 + 400 / 5 + 10 * seconds;
    assert!((410..=most).contains(&attempts), "{attempts} attempts, at most {most}");
    assert!(counted(&mesh, "outbound_http_route_retry_overflow_total") > 200.0);
    assert!(denied(&mesh, "budget") > 200.0);
}

#[test]
fn grpc_calls_are_made_again() {
    let (mesh, _server) = site("calls-retries-grpc");
    let servers = grpc_servers(&mesh);
    let said = |method: &str| -> usize {
        let said = servers.iter().map(leno_tests::program::Running::said);
        said.map(|said| said.matches(&format!("call {method} ")).count()).sum()
    };
    let annotations =
        json!({"retry.linkerd.io/grpc": "unavailable", "retry.linkerd.io/limit": "2"});
    route(&mesh, "GRPCRoute", &annotations, json!({}));
    wait::until("the route", Duration::from_secs(60), || {
        let before = said("Busy");
        assert_eq!(call(&mesh, "Busy", "10").0, "UNAVAILABLE");
        (said("Busy") - before == 3).then_some(())
    });
    let before = said("Once");
    assert_eq!(call(&mesh, "Once", "10").0, "OK");
    assert!((2..=3).contains(&(said("Once") - before)), "{}", said("Once") - before);
    assert_eq!(call(&mesh, "Pushback", "10").0, "UNAVAILABLE");
    assert_eq!(said("Pushback"), 1);
    assert_eq!(denied(&mesh, "pushback"), 1.0);
}

#[test]
fn a_policy_changes_the_budget() {
    let (mesh, server) = site("calls-retries-policy");
    let policy = |count: u32| {
        let constraint = json!({
            "budget": {"percent": 0}, "minRetryRate": {"count": count, "interval": "1h"},
        });
        let policy = json!({
            "apiVersion": "leno.dev/v1alpha1", "kind": "XBackendTrafficPolicy",
            "metadata": {"name": "p", "namespace": leno_tests::manifest::NAMESPACE},
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": "server"}],
                "retryConstraint": constraint,
            },
        });
        mesh.manifests().write(&policy).expect("write the policy");
    };
    // The proxy has the policy when it has the route that was written after it.
    let retry =
        |attempts: u32| json!({"retry": {"codes": [503], "attempts": attempts, "backoff": "1ms"}});
    policy(2);
    route(&mesh, "HTTPRoute", &json!({}), retry(1));
    for _ in 0..10 {
        curl(&mesh, "/busy", &[]).check(503, "no");
    }
    assert_eq!((server.count("GET /busy"), denied(&mesh, "budget")), (10 + 2, 8.0));
    policy(5);
    route(&mesh, "HTTPRoute", &json!({"retry.leno.dev/limit": "1"}), retry(1));
    for _ in 0..10 {
        curl(&mesh, "/busy", &[]).check(503, "no");
    }
    assert_eq!((server.count("GET /busy"), denied(&mesh, "budget")), (20 + 5, 8.0 + 7.0));
}
