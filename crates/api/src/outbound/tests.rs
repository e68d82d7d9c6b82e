//! Tables of outbound policy conversions.

use super::*;
use leno_model::name::Resource;
use leno_model::route::{
    Backend, BackendKind, Balance, Distribution, Failure, Filter, HeaderChange, HeaderMatch,
    HostMatch, HttpRoute, HttpRoutes, HttpRule, OpaqueRoute, OpaqueRoutes, PathMatch, Pattern,
    QueryMatch, Redirect, RequestMatch, TextMatch, Timeouts,
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
            rules: vec![HttpRule { matches, filters, backends, timeouts }],
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
    let backends = Distribution::Random(vec![
        (balance("a"), 90),
        (answering, 10),
        (forward(), 0),
        (broken, 1),
    ]);
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
    let policy = OutboundPolicy { parent: service("web"), protocol };
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
        let error = to_message(&OutboundPolicy { parent: service("web"), protocol }).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let with_match = |m: RequestMatch| move |rule: &mut HttpRule| rule.matches = vec![m.clone()];
    let not_rpc = "grpc.matches: a path that is not /service/method is not supported";
    check(&with_match(path(PathMatch::Exact("/a".into()))), not_rpc);
    check(&with_match(path(PathMatch::Exact("/a/b/c".into()))), not_rpc);
    check(&with_match(path(PathMatch::Prefix("/a/b".into()))), not_rpc);
    check(&with_match(path(PathMatch::Regex(pattern("/[^/]+/a.*")))), not_rpc);
    let get = RequestMatch { method: Some("GET".into()), ..RequestMatch::default() };
    check(&with_match(get), "grpc.matches: a match on an HTTP method is not supported");
    check(
        &|rule| rule.filters = vec![Filter::Redirect(Redirect::default())],
        "grpc.filters: a redirect is not supported",
    );
}

/// The error after `spoil`, over a route of the first kind.
#[track_caller]
fn check(spoil: impl FnOnce(&mut message::HttpRoute), expected: &str) {
    let policy =
        OutboundPolicy { parent: service("web"), protocol: OutboundProtocol::Http1(http_routes()) };
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
        "routes.rules has 129, at most 128 are taken",
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
        "headers.exact: a value that is not UTF-8 is not supported",
    );
    check(
        |r| {
            let kind = http_route::path_match::Kind::Exact("a".into());
            first(r, &|m| m.path = Some(http_route::PathMatch { kind: Some(kind.clone()) }));
        },
        "path.exact: \"a\" does not begin with '/'",
    );
    check(
        |r| {
            let kind = http_route::path_match::Kind::Regex("a".repeat(1025));
            first(r, &|m| m.path = Some(http_route::PathMatch { kind: Some(kind.clone()) }));
        },
        "path.regex has 1025, at most 1024 are taken",
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
        "failure_injector.ratio: 1 of 0 is not a share",
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

#[test]
fn parts_of_a_policy_are_all_there() {
    let kind = |kind| message::OutboundPolicy {
        protocol: Some(message::ProxyProtocol { kind: Some(kind) }),
        metadata: Some(parts::resource_message(&service("web"))),
    };
    let check = |message: &message::OutboundPolicy, expected: &str| {
        assert_eq!(from_message(message).unwrap_err().to_string(), expected);
    };
    check(&message::OutboundPolicy::default(), "protocol.kind is missing");
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
    let policy =
        OutboundPolicy { parent: service("web"), protocol: OutboundProtocol::Http1(http_routes()) };
    let mut message = to_message(&policy).unwrap();
    let kind = message.protocol.as_mut().unwrap().kind.as_mut().unwrap();
    let message::proxy_protocol::Kind::Http1(http1) = kind else { panic!("declared HTTP/1") };
    http1.failure_accrual = Some(Default::default());
    http1.routes[0].rules[0].retry = Some(Default::default());
    assert_eq!(unserved(&message), ["failure accrual", "retries"]);
    assert_eq!(from_message(&message), Ok(policy));
}

#[test]
fn an_old_response_timeout_still_counts() {
    let mut message = to_message(&OutboundPolicy {
        parent: service("web"),
        protocol: OutboundProtocol::Http1(http_routes()),
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
