//! Routes on the real API server: what their authors are told, what happens to requests, and kinds that come later than the control plane.

use crate::ground::change::Changed;
use crate::ground::control;
use crate::ground::load::{Load, asked};
use crate::ground::place::{Place, READY_WAIT};
use crate::ground::proxy;
use crate::ground::route::{GOOD, acknowledged, event, route, to, told};
use crate::ground::worker::{Worker, service};
use leno_tests::wait::until;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// At most; it is ended before.
const SECONDS: u64 = 300;
const METHOD: &str = "leno.worker.v1.Worker/Call";

/// Services `web` and `other`, and more names for the pods of `web`, each for one route.
fn place() -> Place {
    let place = Place::meshed("leno-test-routes");
    place.apply(&Worker::new("web").objects());
    place.apply(&Worker::new("other").objects());
    let spec = |app: &str, protocol: &str| {
        let port = json!({"name": "a", "port": 80, "targetPort": 8080, "appProtocol": protocol});
        json!({"selector": {"app": app}, "ports": [port]})
    };
    for name in ["lost", "refused", "partly", "ahead"] {
        place.apply(&[service(name, &spec("web", "http"))]);
    }
    place.apply(&[service("rpc", &spec("web", "kubernetes.io/h2c"))]);
    place.apply(&[service("other-rpc", &spec("other", "kubernetes.io/h2c"))]);
    place.rolled_out("deployment/web");
    place.rolled_out("deployment/other");
    place
}

#[test]
fn routes_are_told_and_obeyed_also_when_their_kinds_come_late() {
    let place = place();
    let unserved = || {
        let extension = json!({"group": "example.com", "kind": "Unknown", "name": "x"});
        let mut rule = to("other");
        rule["filters"] = json!([{"type": "ExtensionRef", "extensionRef": extension}]);
        rule
    };
    let at_path = |mut rule: Value| {
        rule["matches"] = json!([{"path": {"type": "PathPrefix", "value": "/a"}}]);
        rule
    };
    // Good to the API server, and no expression of ours.
    let ahead = || {
        let mut rule = to("other");
        rule["matches"] = json!([{"path": {"type": "RegularExpression", "value": "/(?!a).*"}}]);
        rule
    };
    let unsupported = "Accepted=False UnsupportedValue, ResolvedRefs=True ResolvedRefs";
    let lost = "Accepted=True Accepted, ResolvedRefs=False BackendNotFound";
    let early = "Accepted=False NoMatchingParent, ResolvedRefs=True ResolvedRefs";
    let partly = format!("{GOOD}, PartiallyInvalid=True UnsupportedValue");
    //     kind         on         rules                              told         with an event of
    check(&place, "HTTPRoute", "web", &[to("other")], GOOD, "");
    check(&place, "GRPCRoute", "rpc", &[to("other-rpc")], GOOD, "");
    check(&place, "HTTPRoute", "lost", &[to("nowhere")], lost, "nowhere");
    check(&place, "HTTPRoute", "early", &[to("other")], early, "early");
    check(&place, "HTTPRoute", "refused", &[unserved()], unsupported, "ExtensionRef");
    check(&place, "HTTPRoute", "ahead", &[ahead()], unsupported, "regular expression");
    check(
        &place,
        "HTTPRoute",
        "partly",
        &[at_path(unserved()), to("other")],
        &partly,
        "ExtensionRef",
    );
    let rpc = format!("grpc://rpc/{METHOD}");
    let rows = [
        // URL               answers come from, or are
        ("http://web/", "other"),
        (rpc.as_str(), "other"),
        ("http://lost/", "500"),
        ("http://refused/", "500"),
        ("http://partly/a", "500"),
        ("http://partly/b", "other"),
        // As without the route.
        ("http://ahead/", "web"),
    ];
    answered(&place, &rows);
    // What was missing comes, and nobody touches the routes.
    place.apply(&[service("nowhere", &json!({"selector": {"app": "other"}}))]);
    place.apply(&[service("early", &json!({"selector": {"app": "web"}}))]);
    told(&place, "httproute", "lost", GOOD);
    told(&place, "httproute", "early", GOOD);
    answered(&place, &[("http://lost/", "other")]);
    policies_get_conditions(&place);
    kinds_come_late(&place);
    answered(&place, &rows[..2]);
}

/// The route is told this, in its status and, where there is something to say, in an Event.
fn check(place: &Place, kind: &str, on: &str, rules: &[Value], expected: &str, word: &str) {
    place.apply(&[route(kind, on, on, rules)]);
    told(place, kind, on, expected);
    if !word.is_empty() {
        println!("{kind} {on}: {}", event(place, kind, on, word));
    }
}

/// Policies get conditions and Events as routes do, and other conditions when their mistake is gone.
fn policies_get_conditions(place: &Place) {
    let policies = "authorizationpolicies.policy.leno.dev";
    let object = |kind: &str, spec: Value| {
        let (version, name) = match kind {
            "Server" => ("policy.leno.dev/v1beta3", "late"),
            _ => ("policy.leno.dev/v1alpha1", "early"),
        };
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
    };
    let target = json!({"group": "policy.leno.dev", "kind": "Server", "name": "late"});
    let spec = json!({"targetRef": target, "requiredAuthenticationRefs": []});
    place.apply(&[object("AuthorizationPolicy", spec)]);
    told(place, policies, "early", "Accepted=False TargetNotFound");
    println!("{}", event(place, "AuthorizationPolicy", "early", "late"));
    let spec = json!({"podSelector": {"matchLabels": {"app": "none"}}, "port": 8080});
    place.apply(&[object("Server", spec)]);
    told(place, policies, "early", "Accepted=True Accepted");
}

/// Every answer comes from this worker, or has this status.
fn answered(place: &Place, rows: &[(&str, &str)]) {
    let urls: Vec<&str> = rows.iter().map(|(url, _)| *url).collect();
    for ((url, expected), counted) in rows.iter().zip(asked(place, &urls, 20, &[])) {
        let by = if expected.parse::<u16>().is_ok() { "results" } else { "workers" };
        assert_eq!(counted[by][expected], 20, "{url}: {counted}");
    }
}

/// How often the control plane has said that there are no HTTPRoutes.
fn absent() -> usize {
    let log = control::log().expect("its log");
    let says =
        |line: &&str| line.contains("does not exist in this cluster") && line.contains("HTTPRoute");
    log.lines().filter(says).count()
}

/// Definitions of the Gateway API go and come back while the control plane and traffic run.
fn kinds_come_late(place: &Place) {
    let before = control::pods().expect("the control plane");
    let pod = |app: &str| place.pods(&format!("app={app}")).remove(0);
    let load = Load::start(place, "http://web/", 50, SECONDS);
    proxy::asked(place, &pod("other"), proxy::from_load(place, &pod("other")));
    let (direct, said) = (proxy::from_load(place, &pod("web")), absent());
    let away = Changed::without("crd/httproutes.gateway.networking.k8s.io", "")
        .expect("HTTPRoutes are gone")
        .and(
            Changed::without("crd/grpcroutes.gateway.networking.k8s.io", "")
                .expect("GRPCRoutes are gone"),
        );
    // Without its route a Service is itself.
    proxy::asked(place, &pod("web"), direct);
    // So long that they are taken for absent, not for late.
    until("kinds that are not there", READY_WAIT, || {
        sleep(Duration::from_millis(500));
        (absent() > said).then_some(())
    });
    drop(away);
    let routed = proxy::from_load(place, &pod("other"));
    let routes = [
        route("HTTPRoute", "web", "web", &[to("other")]),
        route("GRPCRoute", "rpc", "rpc", &[to("other-rpc")]),
    ];
    // Definitions take a moment to be served.
    until("routes that are taken", READY_WAIT, || {
        sleep(Duration::from_millis(500));
        place.try_apply(&routes).ok()
    });
    told(place, "httproute", "web", GOOD);
    told(place, "grpcroute", "rpc", GOOD);
    proxy::asked(place, &pod("other"), routed);
    acknowledged(place, "httproute", "web");
    place.apply(&[json!({
        "apiVersion": "policy.leno.dev/v1beta3",
        "kind": "Server",
        "metadata": {"name": "other"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "other"}},
            "port": 8080,
            "accessPolicy": "all-unauthenticated",
        },
    })]);
    acknowledged(place, "servers.policy.leno.dev", "other");
    let outcome = load.stop();
    println!("the kinds went and came back: {outcome}");
    assert_eq!(outcome.failed, 0, "{outcome}");
    assert_eq!(control::pods().expect("the control plane"), before, "nothing restarted");
}
