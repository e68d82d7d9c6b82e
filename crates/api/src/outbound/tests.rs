//! Tables of outbound policy conversions.

use super::*;
use leno_model::cors::{Cors, OriginMatch};
use leno_model::fault::{Abort, Clients, Fault, Share};
use leno_model::name::Resource;
use leno_model::pattern::Pattern;
use leno_model::persistence::{Carrier, Keys, Persistence};
use leno_model::policy::Suffix;
use leno_model::retry::RetryBudget;
use leno_model::route::{
    Backend, BackendKind, Balance, Distribution, Failure, Filter, HeaderChange, HeaderMatch,
    HostMatch, HttpRoute, HttpRoutes, HttpRule, Mirror, OpaqueRoute, OpaqueRoutes, PathMatch,
    QueryMatch, Redirect, RequestMatch, Rewrite, TextMatch, Timeouts,
};
use leno_model::workload::{Endpoint, Labels, ProtocolHint};
use linkerd2_proxy_api::{grpc_route, http_route};
use std::time::Duration;

fn service(name: &str) -> Resource {
    Resource::object("core", "Service", "default", name)
}

fn balance(name: &str) -> Backend {
    Backend {
        resource: service(name),
        kind: BackendKind::Balance(Balance {
            destination: format!("{name}.default.svc.cluster.local:9080").into(),
            default_latency: Duration::from_millis(30),
            decay: Duration::from_secs(10),
            retry_budget: None,
        }),
        filters: Vec::new(),
    }
}

fn forward() -> Backend {
    let endpoint = Endpoint {
        address: "10.0.0.1:80".parse().unwrap(),
        weight: 1,
        identity: None,
        hint: ProtocolHint::Unknown,
        opaque_transport_port: None,
        labels: Labels::default(),
        resource: None,
    };
    Backend { kind: BackendKind::Forward(Arc::new(endpoint)), ..balance("pod") }
}

fn fail(status: u16, numerator: u32, denominator: u32) -> Filter {
    Filter::Fail(Failure { status, message: "no".into(), numerator, denominator })
}

fn change() -> HeaderChange {
    HeaderChange {
        set: vec![("a".into(), "1".into())],
        add: vec![("b".into(), "2".into()), ("b".into(), "3".into())],
        remove: vec!["c".into()],
    }
}

fn rule(matches: Vec<RequestMatch>, filters: Vec<Filter>, backends: Distribution) -> HttpRoutes {
    let timeouts = Timeouts { response: Some(Duration::from_secs(2)), ..Timeouts::default() };
    HttpRoutes {
        routes: vec![HttpRoute {
            resource: Resource::object("gateway.networking.k8s.io", "HTTPRoute", "default", "r"),
            hosts: vec![
                HostMatch::Exact("web".into()),
                HostMatch::Suffix(vec!["com".into(), "example".into()]),
            ],
            rules: vec![HttpRule {
                matches,
                filters,
                backends,
                timeouts,
                retry: None,
                persistence: Vec::new(),
            }],
        }],
    }
}

fn path(path: PathMatch) -> RequestMatch {
    RequestMatch { path: Some(path), ..RequestMatch::default() }
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

/// Everything that an HTTP route can say.
fn http_routes() -> HttpRoutes {
    let whole = RequestMatch {
        path: Some(PathMatch::Exact("/a".into())),
        headers: vec![
            HeaderMatch { name: "x".into(), value: TextMatch::Exact("1".into()) },
            HeaderMatch { name: "y".into(), value: TextMatch::Regex(pattern("[0-9]+")) },
        ],
        query: vec![
            QueryMatch { name: "q".into(), value: TextMatch::Exact(String::new().into()) },
            QueryMatch { name: "r".into(), value: TextMatch::Regex(pattern("a|b")) },
        ],
        method: Some("GET".into()),
    };
    let matches = vec![
        whole,
        path(PathMatch::Prefix("/".into())),
        path(PathMatch::Regex(pattern("/v[12]/.*"))),
        RequestMatch { method: Some("PURGE".into()), ..RequestMatch::default() },
    ];
    let redirect = Redirect {
        scheme: Some("https".into()),
        host: Some("example.com".into()),
        path_full: None,
        path_prefix: Some("/new".into()),
        port: Some(8443),
        status: 308,
    };
    let filters = vec![
        Filter::RequestHeaders(change()),
        Filter::ResponseHeaders(change()),
        Filter::Redirect(redirect),
        Filter::Redirect(Redirect {
            status: 301,
            path_full: Some("/".into()),
            ..Redirect::default()
        }),
        fail(503, 1, 10),
    ];
    let answering = Backend { filters: vec![fail(404, 0, 0)], ..balance("b") };
    let broken = Backend { kind: BackendKind::Broken, ..answering.clone() };
    let mut budgeted = balance("a");
    if let BackendKind::Balance(balance) = &mut budgeted.kind {
        balance.retry_budget = Some(RetryBudget { percent: 5, ..RetryBudget::default() });
    }
    let backends =
        Distribution::Random(vec![(budgeted, 90), (answering, 10), (forward(), 0), (broken, 1)]);
    rule(matches, filters, backends)
}

fn grpc_routes() -> HttpRoutes {
    let with_header = RequestMatch {
        headers: vec![HeaderMatch { name: "x".into(), value: TextMatch::Exact("1".into()) }],
        ..path(PathMatch::Exact("/emoji.v1.Emoji/List".into()))
    };
    let matches = vec![
        with_header,
        path(PathMatch::Prefix("/emoji.v1.Emoji".into())),
        path(PathMatch::Regex(pattern("/[^/]+/List\\.All"))),
        RequestMatch::default(),
    ];
    let filters = vec![Filter::RequestHeaders(change()), fail(14, 1, 2)];
    rule(matches, filters, Distribution::First(vec![balance("a"), balance("b")]))
}

fn connection_routes(server_names: Vec<HostMatch>) -> OpaqueRoutes {
    let broken = Backend { kind: BackendKind::Broken, ..balance("gone") };
    OpaqueRoutes {
        routes: vec![OpaqueRoute {
            resource: service("db"),
            server_names,
            rules: vec![
                Distribution::Random(vec![(balance("a"), 1), (broken, 1)]),
                Distribution::First(vec![forward()]),
                Distribution::Empty,
            ],
        }],
    }
}

#[track_caller]
fn round_trip(protocol: OutboundProtocol) {
    let policy = OutboundPolicy { parent: service("web"), protocol, breaker: None };
    let message = to_message(&policy).unwrap();
    assert_eq!(unserved(&message), Vec::<&str>::new());
    assert_eq!(from_message(&message), Ok(policy));
}

#[test]
fn round_trips() {
    round_trip(OutboundProtocol::Http1(http_routes()));
    round_trip(OutboundProtocol::Http2(http_routes()));
    round_trip(OutboundProtocol::Http1(HttpRoutes::default()));
    round_trip(OutboundProtocol::Grpc(grpc_routes()));
    // A gRPC route beside HTTP routes travels as the path matches that it is in the model.
    round_trip(OutboundProtocol::Http2(grpc_routes_without_codes()));
    round_trip(OutboundProtocol::Opaque(connection_routes(Vec::new())));
    round_trip(OutboundProtocol::Tls(connection_routes(vec![HostMatch::Exact("db".into())])));
    round_trip(OutboundProtocol::Detect {
        timeout: Duration::from_secs(10),
        http1: http_routes(),
        http2: http_routes(),
        opaque: connection_routes(Vec::new()),
    });
}

fn grpc_routes_without_codes() -> HttpRoutes {
    let mut routes = grpc_routes();
    routes.routes[0].rules[0].filters.clear();
    routes
}

#[test]
fn what_a_grpc_route_cannot_say_is_refused() {
    let check = |spoil: &dyn Fn(&mut HttpRule), expected: &str| {
        let mut routes = grpc_routes();
        spoil(&mut routes.routes[0].rules[0]);
        let protocol = OutboundProtocol::Grpc(routes);
        let error = to_message(&OutboundPolicy { parent: service("web"), protocol, breaker: None })
            .unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let with_match = |m: RequestMatch| move |rule: &mut HttpRule| rule.matches = vec![m.clone()];
    let not_rpc = "grpc.matches: a path that is not /service/method is not supported";
    check(&with_match(path(PathMatch::Exact("/a".into()))), not_rpc);
    check(&with_match(path(PathMatch::Exact("/a/b/c".into()))), not_rpc);
    check(&with_match(path(PathMatch::Prefix("/a/b".into()))), not_rpc);
    check(&with_match(path(PathMatch::Regex(pattern("/[^/]+/a.*")))), not_rpc);
    let get = RequestMatch { method: Some("GET".into()), ..RequestMatch::default() };
    check(&with_match(get), "grpc.matches: an HTTP method match is not supported");
    check(
        &|rule| rule.filters = vec![Filter::Redirect(Redirect::default())],
        "grpc.filters: a redirect is not supported",
    );
}

/// The error after `spoil`, over a route of the first kind.
#[track_caller]
fn check(spoil: impl FnOnce(&mut message::HttpRoute), expected: &str) {
    let policy = OutboundPolicy {
        parent: service("web"),
        protocol: OutboundProtocol::Http1(http_routes()),
        breaker: None,
    };
    let mut message = to_message(&policy).unwrap();
    let kind = message.protocol.as_mut().unwrap().kind.as_mut().unwrap();
    let message::proxy_protocol::Kind::Http1(http1) = kind else { panic!("declared HTTP/1") };
    spoil(&mut http1.routes[0]);
    assert_eq!(from_message(&message).unwrap_err().to_string(), expected);
}

#[test]
fn malformed_routes_are_refused_by_field() {
    check(|r| r.metadata = None, "routes.metadata is missing");
    check(|r| r.rules.clear(), "routes.rules is missing");
    check(|r| r.hosts[0].r#match = None, "hosts.match is missing");
    check(|r| r.rules[0].backends = None, "backends.kind is missing");
    check(
        |r| r.rules = vec![r.rules[0].clone(); 129],
        "routes.rules has size 129; the limit is 128",
    );
    let first = |r: &mut message::HttpRoute, change: &dyn Fn(&mut http_route::HttpRouteMatch)| {
        change(&mut r.rules[0].matches[0]);
    };
    check(|r| first(r, &|m| m.path.as_mut().unwrap().kind = None), "path.kind is missing");
    check(|r| first(r, &|m| m.headers[0].value = None), "headers.value is missing");
    check(
        |r| first(r, &|m| m.headers[0].name = "a b".into()),
        "headers.name: \"a b\" is not a header name",
    );
    check(
        |r| {
            first(r, &|m| {
                m.headers[0].value = Some(http_route::header_match::Value::Exact(vec![0xff]));
            });
        },
        "headers.exact: a header value that is not UTF-8 is not supported",
    );
    check(
        |r| {
            let kind = http_route::path_match::Kind::Exact("a".into());
            first(r, &|m| m.path = Some(http_route::PathMatch { kind: Some(kind.clone()) }));
        },
        "path.exact: \"a\" does not start with '/'",
    );
    check(
        |r| {
            let kind = http_route::path_match::Kind::Regex("a".repeat(1025));
            first(r, &|m| m.path = Some(http_route::PathMatch { kind: Some(kind.clone()) }));
        },
        "path.regex has size 1025; the limit is 1024",
    );
}

#[test]
fn malformed_filters_and_backends_are_refused_by_field() {
    use message::http_route::distribution::Kind as Backends;
    use message::http_route::filter::Kind;
    check(|r| r.rules[0].filters[0].kind = None, "filters.kind is missing");
    let with_filter = |r: &mut message::HttpRoute, kind| {
        r.rules[0].filters = vec![message::http_route::Filter { kind: Some(kind) }];
    };
    let injector = |status, ratio: Option<(u32, u32)>| {
        Kind::FailureInjector(http_route::HttpFailureInjector {
            status,
            message: String::new(),
            ratio: ratio
                .map(|(numerator, denominator)| http_route::Ratio { numerator, denominator }),
        })
    };
    check(|r| with_filter(r, injector(99, None)), "failure_injector.status: 99");
    check(
        |r| with_filter(r, injector(503, Some((1, 0)))),
        "failure_injector.ratio: 1 of 0 is not a valid fraction",
    );
    let redirect = http_route::RequestRedirect { status: 200, ..Default::default() };
    check(
        |r| with_filter(r, Kind::Redirect(redirect)),
        "redirect.status: 200 is not a redirect with a location",
    );
    let smuggled = linkerd2_proxy_api::http_types::headers::Header {
        name: "a".into(),
        value: b"1\r\nb: 2".to_vec(),
    };
    let change = http_route::RequestHeaderModifier {
        add: Some(linkerd2_proxy_api::http_types::Headers { headers: vec![smuggled] }),
        ..Default::default()
    };
    check(
        |r| with_filter(r, Kind::RequestHeaderModifier(change)),
        "header_modifier.add: the value has control characters",
    );
    let backends = |r: &mut message::HttpRoute, change: &dyn Fn(&mut message::Backend)| {
        let kind = r.rules[0].backends.as_mut().unwrap().kind.as_mut().unwrap();
        let Backends::RandomAvailable(random) = kind else { panic!("by weight") };
        change(random.backends[0].backend.as_mut().unwrap().backend.as_mut().unwrap());
    };
    check(|r| backends(r, &|b| b.metadata = None), "backend.metadata is missing");
    check(
        |r| {
            backends(r, &|b| {
                b.kind = Some(message::backend::Kind::Balancer(message::backend::BalanceP2c {
                    discovery: None,
                    load: None,
                }));
            });
        },
        "balancer.discovery is missing",
    );
}

/// A route that is good, beside one of two rules that `spoil` was let at.
fn beside(
    protocol: impl Fn(HttpRoutes) -> OutboundProtocol,
    mut routes: HttpRoutes,
    spoil: impl FnOnce(&mut message::proxy_protocol::Kind),
) -> (Vec<String>, Vec<HttpRoute>) {
    let good = HttpRoute {
        resource: Resource::object("gateway.networking.k8s.io", "HTTPRoute", "default", "good"),
        ..routes.routes[0].clone()
    };
    let rules = &mut routes.routes[0].rules;
    let matches = vec![path(PathMatch::Prefix("/second".into()))];
    rules.push(HttpRule { matches, ..rules[0].clone() });
    routes.routes.push(good.clone());
    let policy =
        OutboundPolicy { parent: service("web"), protocol: protocol(routes), breaker: None };
    let mut message = to_message(&policy).unwrap();
    spoil(message.protocol.as_mut().unwrap().kind.as_mut().unwrap());
    let received = received(&message).unwrap();
    assert_eq!(
        from_message(&message).err(),
        received.refused.first().map(|refused| refused.error.clone())
    );
    // What is kept can be said, in a snapshot, say.
    let patterns = Patterns::new("the Service", SERVICE_PATTERNS_BYTES_MAX);
    assert_eq!(super::check(&received.policy, &patterns), Ok(()));
    let (OutboundProtocol::Http1(mut routes) | OutboundProtocol::Grpc(mut routes)) =
        received.policy.protocol
    else {
        panic!("declared")
    };
    assert_eq!(routes.routes.pop(), Some(good), "the other route");
    (received.refused.iter().map(ToString::to_string).collect(), routes.routes)
}

/// Each rule as its number of matches, and the status of its failure where it is nothing else.
fn show_rules(routes: &[HttpRoute]) -> Vec<String> {
    let fails = |rule: &HttpRule| match (&rule.filters[..], &rule.backends) {
        ([Filter::Fail(failure)], Distribution::Empty) if failure.denominator == 0 => {
            format!(" fail {}", failure.status)
        }
        _ => String::new(),
    };
    let rules = routes.iter().flat_map(|route| &route.rules);
    rules.map(|rule| format!("{}{}", rule.matches.len(), fails(rule))).collect()
}

/// A route that cannot be read fails what it is known to be for, and takes no other with it.
#[test]
fn one_bad_route_does_not_take_the_others_with_it() {
    use message::proxy_protocol::Kind;
    let check = |spoil: &dyn Fn(&mut message::HttpRoute), error: &str, expected: &[&str]| {
        let (refused, routes) = beside(OutboundProtocol::Http1, http_routes(), |kind| {
            let Kind::Http1(http1) = kind else { panic!("declared HTTP/1") };
            spoil(&mut http1.routes[0]);
        });
        let error = if error.is_empty() { Vec::new() } else { vec![error.to_owned()] };
        assert_eq!(
            (refused, show_rules(&routes)),
            (error, expected.iter().map(|e| (*e).to_owned()).collect())
        );
    };
    let header = |rule: &mut message::http_route::Rule| {
        rule.matches[0].headers[0].value =
            Some(http_route::header_match::Value::Exact(b"v2\n".to_vec()));
    };
    let control = "route default/r: headers.exact: the value has control characters";
    check(&|_| {}, "", &["4", "1"]);
    // A filter, a backend: what the rule matches fails.
    check(
        &|r| r.rules[0].filters[0].kind = None,
        "route default/r: filters.kind is missing",
        &["4 fail 500", "1"],
    );
    check(
        &|r| r.rules[1].backends = None,
        "route default/r: backends.kind is missing",
        &["4", "1 fail 500"],
    );
    // One match of several; the only one.
    check(&|r| header(&mut r.rules[0]), control, &["3 fail 500", "1"]);
    check(
        &|r| {
            header(&mut r.rules[0]);
            r.rules[0].matches.truncate(1);
        },
        control,
        &["1"],
    );
    // What matches everything goes on to, and what is longer than can be looked at may.
    check(
        &|r| {
            r.rules[0].matches.clear();
            r.rules[0].backends = None;
        },
        "route default/r: backends.kind is missing",
        &["0 fail 500", "1"],
    );
    check(
        &|r| r.rules = vec![r.rules[1].clone(); 129],
        "route default/r: routes.rules has size 129; the limit is 128",
        &["0 fail 500"],
    );
    check(
        &|r| r.rules[1].matches = vec![r.rules[1].matches[0].clone(); 129],
        "route default/r: routes.rules.matches has size 129; the limit is 128",
        &["4", "0 fail 500"],
    );
    check(&|r| r.metadata = None, "route /unreadable: routes.metadata is missing", &["4", "1"]);
    // Whose requests they would be is not known.
    check(&|r| r.rules.clear(), "route default/r: routes.rules is missing", &[]);
    check(&|r| r.hosts[0].r#match = None, "route default/r: hosts.match is missing", &[]);

    let (refused, routes) = beside(OutboundProtocol::Grpc, grpc_routes(), |kind| {
        let Kind::Grpc(grpc) = kind else { panic!("declared gRPC") };
        let rule = &mut grpc.routes[0].rules[0];
        rule.matches[1].rpc.as_mut().unwrap().service = "a/b".into();
        // As `beside` leaves it, which is for HTTP routes.
        grpc.routes[0].rules.truncate(1);
    });
    assert_eq!(refused, ["route default/r: rpc.service: \"a/b\" is not a gRPC name"]);
    assert_eq!(show_rules(&routes), ["3 fail 14"]);
}

/// What linkerd's messages have no field for comes back from Leno's, at its place. A proxy of linkerd fails those requests.
#[test]
fn own_filters_come_back_at_their_places() {
    let rewrite = || {
        Filter::Rewrite(Rewrite {
            host: Some("new".into()),
            path_full: None,
            path_prefix: Some("".into()),
        })
    };
    let cors = Filter::Cors(Arc::new(Cors {
        origins: vec![OriginMatch::parse("https://*.a").unwrap()],
        methods: vec!["*".into()],
        max_age_seconds: 5,
        ..Cors::default()
    }));
    let headers = || Filter::RequestHeaders(change());
    let mirror = Mirror { backend: balance("copy"), numerator: 1, denominator: 3 };
    let mirror = || Filter::Mirror(Arc::new(mirror.clone()));
    let fault = Filter::Fault(Arc::new(Fault {
        name: "default/f".into(),
        delay: Some((Duration::from_millis(300), Share { numerator: 1, denominator: 3 })),
        abort: Some((Abort::Grpc(14), Share::ALL)),
        clients: Some(Clients {
            identities: vec!["spiffe://td/ns/a/sa/web".into()],
            suffixes: vec![Suffix(Vec::new()), Suffix(vec!["identity".into(), "td".into()])],
        }),
        headers: vec![("x-a".into(), "1".into())],
        until: Duration::from_millis(1_767_225_600_001),
    }));
    let filters = vec![mirror(), headers(), rewrite(), mirror(), headers(), cors, fault, mirror()];
    let own_filters = Backend { filters: vec![rewrite(), headers()], ..balance("v2") };
    let backends = Distribution::Random(vec![(balance("v1"), 1), (own_filters, 2)]);
    let routes = rule(Vec::new(), filters, backends);
    let grpc =
        rule(Vec::new(), vec![headers(), rewrite()], Distribution::First(vec![balance("v1")]));
    for protocol in [
        OutboundProtocol::Http1(routes.clone()),
        OutboundProtocol::Http2(routes.clone()),
        OutboundProtocol::Detect {
            timeout: Duration::from_secs(1),
            http1: HttpRoutes::default(),
            http2: routes.clone(),
            opaque: OpaqueRoutes::default(),
        },
        OutboundProtocol::Grpc(grpc),
    ] {
        let policy = OutboundPolicy { parent: service("web"), protocol, breaker: None };
        let message = to_message(&policy).unwrap();
        assert_eq!(from_message(&message), Ok(policy));
        let bytes = prost::Message::encode_to_vec(&message);
        let linkerds: message::OutboundPolicy = prost::Message::decode(bytes.as_slice()).unwrap();
        let shown = format!("{:?}", from_message(&linkerds.into()).unwrap());
        assert!(shown.contains("this proxy has no filter URLRewrite"), "{shown}");
        assert!(!shown.contains("Rewrite("), "{shown}");
    }
}

#[test]
fn malformed_own_filters_are_refused_by_field() {
    let check = |spoil: &dyn Fn(&mut FilterMessage), error: &str| {
        let rewrite = Rewrite { path_full: Some("/a".into()), ..Rewrite::default() };
        let filters = vec![Filter::RequestHeaders(change()), Filter::Rewrite(rewrite)];
        let routes = rule(Vec::new(), filters, Distribution::First(vec![balance("v1")]));
        let policy = OutboundPolicy {
            parent: service("web"),
            protocol: OutboundProtocol::Http1(routes),
            breaker: None,
        };
        let mut message = to_message(&policy).unwrap();
        spoil(&mut message.own.as_mut().unwrap().filters[0].filters[0]);
        assert_eq!(from_message(&message).unwrap_err().to_string(), error);
    };
    let path = |path: &str| {
        let path_full = Some(path.to_owned());
        Some(FilterKind::Rewrite(RewriteMessage { path_full, ..Default::default() }))
    };
    let cors = |cors| Some(FilterKind::Cors(cors));
    check(&|f| f.position = 2, "own.filters.position: 2 is not one of 2 places");
    check(&|f| f.kind = None, "own.filters.kind is missing");
    check(&|f| f.kind = path("/a b"), "rewrite.path_full: \"/a b\" has the character ' '");
    check(&|f| f.kind = path("/a?b"), "rewrite.path_full: \"/a?b\" has the character '?'");
    let origins = |text: &str| CorsMessage { origins: vec![text.into()], ..Default::default() };
    check(
        &|f| f.kind = cors(origins("a")),
        "cors.origins: \"a\" is not `*` or <scheme>://<host>[:<port>]",
    );
    let ratio = |numerator, denominator| {
        let backend = None;
        Some(FilterKind::Mirror(Box::new(MirrorMessage { backend, numerator, denominator })))
    };
    check(&|f| f.kind = ratio(2, 1), "mirror.numerator: 2 of 1 is not a valid fraction");
    check(&|f| f.kind = ratio(0, 0), "mirror.numerator: 0 of 0 is not a valid fraction");
    check(&|f| f.kind = ratio(1, 2), "backend is missing");
    let share = Some(ShareMessage { numerator: 1, denominator: 1 });
    let fault = |spoil: &dyn Fn(&mut FaultMessage)| {
        let mut fault = FaultMessage { name: "a/f".into(), ..Default::default() };
        spoil(&mut fault);
        Some(FilterKind::Fault(fault))
    };
    let delay = |millis, share| fault(&|f| f.delay = Some(DelayMessage { millis, share }));
    check(&|f| f.kind = fault(&|f| f.name.clear()), "fault.name is missing");
    check(&|f| f.kind = delay(60_001, share), "fault.delay: 60.001s is longer than 60s");
    check(&|f| f.kind = delay(1, None), "fault.share is missing");
    let of_none = Some(ShareMessage::default());
    check(&|f| f.kind = delay(1, of_none), "fault.share: 0 of 0 is not a valid fraction");
    let abort = |http_status, grpc_code| {
        fault(&|f| f.abort = Some(AbortMessage { http_status, grpc_code, share }))
    };
    let wrong = |status, code| {
        format!("fault.abort: status {status} with gRPC code {code} is not a failure")
    };
    for (status, code) in [(0, 0), (200, 0), (500, 14), (0, 17)] {
        check(&|f| f.kind = abort(status, code), &wrong(status, code));
    }
    let header = |name: &str| HeaderMessage { name: name.to_owned(), value: "1".to_owned() };
    check(
        &|f| f.kind = fault(&|f| f.headers = vec![header("a b")]),
        "fault.headers.name: \"a b\" is not a token",
    );
    let methods = || CorsMessage { methods: vec!["a b".into()], ..Default::default() };
    check(&|f| f.kind = cors(methods()), "cors.methods: \"a b\" is not a token");
}

/// A control plane without these limits may send them.
#[test]
fn patterns_over_the_limit_fail_their_route_alone() {
    use http_route::path_match::Kind::{Exact, Regex};
    use message::proxy_protocol::Kind;
    let check = |kinds: Vec<http_route::path_match::Kind>, error: &str, expected: &[&str]| {
        let (refused, routes) = beside(OutboundProtocol::Http1, http_routes(), |kind| {
            let Kind::Http1(http1) = kind else { panic!("declared HTTP/1") };
            let one = |kind| http_route::HttpRouteMatch {
                path: Some(http_route::PathMatch { kind: Some(kind) }),
                ..Default::default()
            };
            http1.routes[0].rules.truncate(1);
            http1.routes[0].rules[0].matches = kinds.into_iter().map(one).collect();
        });
        assert!(refused.len() == 1 && refused[0].contains(error), "{refused:?}");
        assert_eq!(show_rules(&routes), expected);
    };
    let large = "(?:a{999}){99}";
    check(vec![Exact("/a".into()), Regex(large.into())], "needs more than 64 KiB", &["1 fail 500"]);
    let many = (0..100).map(|number| Regex(format!("/{number}{}", "(?:.?)".repeat(100))));
    check(many.collect(), "those of the route need more than 128 KiB", &["8 fail 500"]);
}

/// Connections of a route that cannot be read are refused.
#[test]
fn one_bad_route_of_connections_refuses_its_own() {
    use message::proxy_protocol::Kind;
    let check = |spoil: &dyn Fn(&mut message::TlsRoute), expected: &[usize]| {
        let names = vec![HostMatch::Exact("db".into())];
        let mut routes = connection_routes(names);
        routes.routes.push(routes.routes[0].clone());
        let policy = OutboundPolicy {
            parent: service("db"),
            protocol: OutboundProtocol::Tls(routes),
            breaker: None,
        };
        let mut message = to_message(&policy).unwrap();
        let kind = message.protocol.as_mut().unwrap().kind.as_mut().unwrap();
        let Kind::Tls(tls) = kind else { panic!("declared TLS") };
        spoil(&mut tls.routes[0]);
        let received = received(&message).unwrap();
        assert_eq!(received.refused.len(), 1);
        let OutboundProtocol::Tls(routes) = received.policy.protocol else { panic!("TLS") };
        let refusing = |route: &OpaqueRoute| {
            route.rules.iter().filter(|rule| **rule == Distribution::Empty).count()
        };
        assert_eq!(routes.routes.iter().map(refusing).collect::<Vec<_>>(), expected);
    };
    // One of the three rules refuses as it is.
    check(&|r| r.rules[0].backends = None, &[2, 1]);
    check(&|r| r.snis[0].r#match = None, &[1]);
    check(&|r| r.rules.clear(), &[1]);
}

#[test]
fn parts_of_a_policy_are_all_there() {
    let kind = |kind| PolicyMessage {
        own: None,
        protocol: Some(message::ProxyProtocol { kind: Some(kind) }),
        metadata: Some(parts::resource_message(&service("web"))),
    };
    let check = |message: &PolicyMessage, expected: &str| {
        assert_eq!(from_message(message).unwrap_err().to_string(), expected);
    };
    check(&PolicyMessage::default(), "protocol.kind is missing");
    let detect = kind(message::proxy_protocol::Kind::Detect(Default::default()));
    check(&detect, "detect.http1 is missing");
    let mut nameless = kind(message::proxy_protocol::Kind::Opaque(Default::default()));
    assert!(from_message(&nameless).is_ok());
    nameless.metadata = None;
    check(&nameless, "metadata is missing");
    let route = message::GrpcRoute {
        metadata: nameless
            .metadata
            .clone()
            .or_else(|| Some(parts::resource_message(&service("r")))),
        hosts: Vec::new(),
        rules: vec![message::grpc_route::Rule {
            matches: vec![grpc_route::GrpcRouteMatch {
                rpc: Some(grpc_route::GrpcRpcMatch { service: "a/b".into(), method: "c".into() }),
                headers: Vec::new(),
            }],
            ..Default::default()
        }],
    };
    let grpc = message::proxy_protocol::Grpc { routes: vec![route], failure_accrual: None };
    check(
        &kind(message::proxy_protocol::Kind::Grpc(grpc)),
        "rpc.service: \"a/b\" is not a gRPC name",
    );
}

#[test]
fn what_is_not_carried_out_is_said() {
    let policy = OutboundPolicy {
        parent: service("web"),
        protocol: OutboundProtocol::Http1(http_routes()),
        breaker: None,
    };
    let mut message = to_message(&policy).unwrap();
    let kind = message.protocol.as_mut().unwrap().kind.as_mut().unwrap();
    let message::proxy_protocol::Kind::Http1(http1) = kind else { panic!("declared HTTP/1") };
    http1.routes[0].rules[0].allow_l5d_request_headers = true;
    assert_eq!(unserved(&message), ["l5d request headers"]);
    assert_eq!(from_message(&message), Ok(policy));
}

#[test]
fn an_old_response_timeout_still_counts() {
    let mut message = to_message(&OutboundPolicy {
        parent: service("web"),
        protocol: OutboundProtocol::Http1(http_routes()),
        breaker: None,
    })
    .unwrap();
    let kind = message.protocol.as_mut().unwrap().kind.as_mut().unwrap();
    let message::proxy_protocol::Kind::Http1(http1) = kind else { panic!("declared HTTP/1") };
    let rule = &mut http1.routes[0].rules[0];
    rule.timeouts = None;
    #[expect(deprecated, reason = "this is the old field")]
    let old = &mut rule.request_timeout;
    *old = Some(parts::duration_message(Duration::from_secs(7)));
    let OutboundProtocol::Http1(routes) = from_message(&message).unwrap().protocol else {
        panic!("declared HTTP/1")
    };
    assert_eq!(routes.routes[0].rules[0].timeouts.response, Some(Duration::from_secs(7)));
}

#[test]
fn requests() {
    let workload = WorkloadId::parse("default:web-1").unwrap();
    let target: SocketAddr = "10.96.0.1:80".parse().unwrap();
    let mut asked = request(&workload, target);
    assert_eq!(asked.source_workload, r#"{"ns":"default","pod":"web-1"}"#);
    assert_eq!(read_request(&asked), Ok((workload.clone(), Target::Address(target))));
    asked.target = Some(message::traffic_spec::Target::Authority("web:80".into()));
    assert_eq!(read_request(&asked), Ok((workload, Target::Authority("web:80".into()))));
    asked.target = None;
    assert_eq!(read_request(&asked), Err(WireError::Missing("target")));
    asked.source_workload.clear();
    assert!(read_request(&asked).is_err());
}

fn persistence(backend: Option<u32>, carrier: Carrier) -> Arc<Persistence> {
    Arc::new(Persistence {
        backend,
        carrier,
        name: "x-session".into(),
        absolute_timeout: Some(Duration::from_hours(1)),
        idle_timeout: None,
        scope: "HTTPRoute default/r spec.rules[0]".into(),
        keys: Some(Keys { token: [1; 32], endpoint: [2; 32] }),
    })
}

fn with_sessions(mut routes: HttpRoutes) -> OutboundPolicy {
    let rule = &mut routes.routes[0].rules[0];
    // A failure has a status in HTTP and a code in gRPC.
    rule.filters.clear();
    rule.persistence = vec![
        persistence(None, Carrier::Header),
        persistence(Some(1), Carrier::Cookie { is_permanent: false }),
        persistence(Some(0), Carrier::Cookie { is_permanent: true }),
    ];
    let without_keys = Persistence { keys: None, ..rule.persistence[0].as_ref().clone() };
    rule.persistence.push(Arc::new(without_keys));
    let protocol = OutboundProtocol::Http2(routes);
    OutboundPolicy { parent: service("web"), protocol, breaker: None }
}

#[test]
fn sessions_both_ways() {
    let policy = with_sessions(grpc_routes());
    let message = to_message(&policy).unwrap();
    assert_eq!(from_message(&message).as_ref(), Ok(&policy));
    let OutboundProtocol::Http2(routes) = policy.protocol.clone() else { panic!("HTTP/2") };
    let grpc = OutboundPolicy { protocol: OutboundProtocol::Grpc(routes), ..policy };
    assert_eq!(from_message(&to_message(&grpc).unwrap()).unwrap(), grpc);
}

#[test]
fn sessions_that_are_not_read() {
    let check = |change: fn(&mut PersistenceMessage), expected: &str| {
        let mut message = to_message(&with_sessions(grpc_routes())).unwrap();
        change(&mut message.own.as_mut().unwrap().persistence[0]);
        assert_eq!(from_message(&message).unwrap_err().to_string(), expected);
    };
    check(|one| one.carrier = 0, "own.persistence: 0 is not a carrier of tokens");
    check(|one| one.name.clear(), "own.persistence.name is missing");
    check(
        |one| one.name = "a b".into(),
        "own.persistence: sessionName: \"a b\" has the character ' '",
    );
    check(|one| one.token_key.clear(), "own.persistence.keys: 0 bytes are not a key of 32");
    check(
        |one| (one.carrier, one.absolute_timeout_millis) = (3, 0),
        "own.persistence: cookieConfig.lifetimeType: Permanent needs absoluteTimeout, which is the cookie's lifetime",
    );
}
