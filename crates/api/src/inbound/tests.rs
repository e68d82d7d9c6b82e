//! Tables of inbound policy conversions.

use super::*;
use crate::matching;
use leno_model::policy::{DefaultPolicy, PeerTls, RateLimit, RateOverride, decide, every_network};
use leno_model::route::{PathMatch, RequestMatch};
use std::time::Duration;

fn policy(protocol: InboundProtocol, authorizations: Vec<Authorization>) -> InboundPolicy {
    InboundPolicy {
        protocol,
        authorizations,
        routes: Vec::new(),
        rejects_unrouted: false,
        server: Resource::Object {
            group: "policy.linkerd.io".into(),
            kind: "server".into(),
            namespace: "default".into(),
            name: "web-http".into(),
            section: "".into(),
            port: 0,
        },
        labels: crate::destination::labels([("zone", "a")]),
        rate_limit: None,
    }
}

fn authorization(authentication: Authentication) -> Authorization {
    Authorization {
        networks: vec![Network {
            net: "10.0.0.0/8".parse().unwrap(),
            except: vec!["10.1.0.0/16".parse().unwrap(), "10.2.3.4/32".parse().unwrap()],
        }],
        authentication,
        resource: Resource::object("policy.linkerd.io", "AuthorizationPolicy", "default", "web"),
        labels: Labels::default(),
    }
}

#[track_caller]
fn round_trip(policy: &InboundPolicy) {
    let message = to_message(policy);
    assert_eq!(unserved(&message), Vec::<&str>::new());
    assert_eq!(from_message(&message).as_ref(), Ok(policy));
}

#[test]
fn round_trips() {
    let timeout = Duration::from_secs(10);
    for protocol in [
        InboundProtocol::Detect { timeout },
        InboundProtocol::Opaque,
        InboundProtocol::Tls,
        InboundProtocol::Http1,
        InboundProtocol::Http2,
        InboundProtocol::Grpc,
    ] {
        round_trip(&policy(protocol, Vec::new()));
    }
    let named = Authentication::TlsAuthenticated {
        identities: vec!["spiffe://td/ns/a/sa/web".into(), "web.a.identity.td".into()],
        suffixes: vec![Suffix(Vec::new()), Suffix(vec!["identity".into(), "td".into()])],
    };
    for authentication in
        [Authentication::Unauthenticated, Authentication::TlsUnauthenticated, named]
    {
        round_trip(&policy(InboundProtocol::Opaque, vec![authorization(authentication)]));
    }
    for default in
        [DefaultPolicy::AllUnauthenticated, DefaultPolicy::AllAuthenticated, DefaultPolicy::Deny]
    {
        round_trip(&InboundPolicy {
            server: Resource::default_named(default.as_str()),
            ..policy(InboundProtocol::Opaque, default.authorizations())
        });
    }
}

/// The error after `spoil`.
#[track_caller]
fn check(spoil: impl FnOnce(&mut message::Server), expected: &str) {
    let named = Authentication::TlsAuthenticated {
        identities: vec!["spiffe://td/ns/a/sa/web".into()],
        suffixes: vec![Suffix(vec!["td".into()])],
    };
    let timeout = Duration::from_secs(10);
    let good = policy(InboundProtocol::Detect { timeout }, vec![authorization(named)]);
    let mut message = to_message(&good);
    spoil(&mut message);
    assert_eq!(from_message(&message).unwrap_err().to_string(), expected);
}

fn clients(
    server: &mut message::Server,
) -> &mut message::authn::permit_mesh_tls::PermitClientIdentities {
    use message::authn::{Permit, permit_mesh_tls::Clients};
    let authn = server.authorizations[0].authentication.as_mut().unwrap();
    let Some(Permit::MeshTls(tls)) = &mut authn.permit else { panic!("mesh TLS") };
    let Some(Clients::Identities(clients)) = &mut tls.clients else { panic!("identities") };
    clients
}

#[test]
fn malformed_policies_are_refused_by_field() {
    check(|s| s.protocol = None, "protocol.kind is missing");
    check(
        |s| {
            let kind = message::proxy_protocol::Kind::Detect(Default::default());
            s.protocol = Some(message::ProxyProtocol { kind: Some(kind) });
        },
        "protocol.detect.timeout is missing",
    );
    check(|s| s.labels.clear(), "labels.name is missing");
    check(
        |s| s.authorizations[0].authentication = None,
        "authorizations.authentication is missing",
    );
    check(
        |s| {
            s.authorizations[0].labels.clear();
            s.authorizations[0].metadata = None;
        },
        "authorizations.metadata is missing",
    );
    check(|s| s.authorizations[0].networks[0].net = None, "authorizations.networks.net is missing");
    check(
        |s| s.authorizations[0].networks[0].except[0].prefix_len = 64,
        "authorizations.networks.except: 10.1.0.0/64 is not a valid network",
    );
    check(
        |s| clients(s).identities[0].name = "a b".into(),
        "meshTLS.identities: \"a b\" is not a DNS name: a label has only letters, digits, '-' and '_'",
    );
    check(
        |s| clients(s).suffixes[0].parts = vec![String::new()],
        "meshTLS.suffixes.parts is missing",
    );
    check(
        |s| s.authorizations = vec![s.authorizations[0].clone(); 1025],
        "authorizations has size 1025; the limit is 1024",
    );
}

#[test]
fn an_authorization_may_name_its_object_by_labels_alone() {
    let mut message = to_message(&policy(
        InboundProtocol::Opaque,
        vec![authorization(Authentication::Unauthenticated)],
    ));
    message.authorizations[0].metadata = None;
    let read = from_message(&message).unwrap();
    assert_eq!(read.authorizations[0].resource.name(), "web");
}

fn probe(path: &str) -> InboundRoute {
    InboundRoute {
        resource: Resource::default_named("probe"),
        hosts: Vec::new(),
        matches: vec![RequestMatch {
            path: Some(PathMatch::Exact(path.into())),
            ..RequestMatch::default()
        }],
        authorizations: DefaultPolicy::AllUnauthenticated.authorizations(),
    }
}

#[test]
fn routes_that_let_in_round_trip() {
    let timeout = Duration::from_secs(10);
    for protocol in [
        InboundProtocol::Detect { timeout },
        InboundProtocol::Http1,
        InboundProtocol::Http2,
        InboundProtocol::Grpc,
    ] {
        let check = || probe("/grpc.health.v1.Health/Check");
        let closed =
            InboundRoute { authorizations: Vec::new(), ..probe("/grpc.health.v1.Health/Watch") };
        let routes = vec![check(), closed];
        let server = InboundPolicy { routes, ..policy(protocol, Vec::new()) };
        round_trip(&server);
        round_trip(&InboundPolicy { rejects_unrouted: true, ..server.clone() });
        round_trip(&InboundPolicy { rejects_unrouted: true, routes: Vec::new(), ..server });
        // Beside routes that let in nobody there is nothing to know of them.
        let routes = vec![InboundRoute { authorizations: Vec::new(), ..check() }];
        let said = to_message(&InboundPolicy { routes, ..policy(protocol, Vec::new()) });
        assert_eq!(from_message(&said), Ok(policy(protocol, Vec::new())));
    }
    let many = InboundRoute { matches: vec![RequestMatch::default(); 300], ..probe("/") };
    let server = policy(InboundProtocol::Http1, Vec::new());
    round_trip(&InboundPolicy { routes: vec![many], ..server.clone() });
    // What no gRPC route can say lets in nobody.
    let server = InboundPolicy { protocol: InboundProtocol::Grpc, ..server };
    let said = to_message(&InboundPolicy { routes: vec![probe("/healthz")], ..server.clone() });
    assert_eq!(from_message(&said), Ok(server));
}

#[test]
fn nobody_is_let_in_by_what_is_not_carried_out() {
    let mut server = to_message(&policy(InboundProtocol::Http1, Vec::new()));
    let everyone = authorization_message(&Authorization {
        networks: every_network(),
        ..authorization(Authentication::Unauthenticated)
    });
    let kind = server.protocol.as_mut().unwrap().kind.as_mut().unwrap();
    let message::proxy_protocol::Kind::Http1(http1) = kind else { panic!("declared HTTP/1") };
    http1.routes[0].authorizations = vec![everyone];
    http1.routes[0].rules[0].matches =
        vec![matching::request_match_message(&probe("/healthz").matches[0])];
    http1.routes[0].rules[0].filters = vec![Default::default()];
    assert_eq!(unserved(&server), ["filters of inbound routes"]);
    let read = from_message(&server).unwrap();
    assert!(decide(&read, [10, 0, 0, 1].into(), &PeerTls::None).rule().is_none());
}

#[test]
fn requests() {
    let workload = WorkloadId::parse("default:web-1").unwrap();
    let asked = request(&workload, 8080);
    assert_eq!(asked.workload, r#"{"ns":"default","pod":"web-1"}"#);
    assert_eq!(read_request(&asked), Ok((workload, 8080)));
    assert!(read_request(&message::PortSpec { port: 0, ..asked.clone() }).is_err());
    assert!(read_request(&message::PortSpec { port: 65_536, ..asked }).is_err());
}

#[test]
fn rate_limits() {
    use message::http_local_rate_limit::Limit;
    let rate = |rate| std::num::NonZeroU32::new(rate).unwrap();
    let limit = RateLimit {
        resource: Resource::object("policy.leno.dev", "HTTPLocalRateLimitPolicy", "default", "web"),
        total: Some(rate(100)),
        identity: Some(rate(10)),
        overrides: vec![RateOverride {
            requests_per_second: rate(50),
            identities: vec!["spiffe://td/ns/a/sa/web".into(), "web.a.identity.td".into()],
        }],
    };
    let timeout = Duration::from_secs(10);
    let protocols =
        [InboundProtocol::Detect { timeout }, InboundProtocol::Http1, InboundProtocol::Http2];
    for protocol in protocols {
        round_trip(&InboundPolicy {
            rate_limit: Some(Box::new(limit.clone())),
            ..policy(protocol, Vec::new())
        });
    }
    let check = |spoil: fn(&mut message::HttpLocalRateLimit), expected: &str| {
        let mut message = rate::to_message(Some(&limit)).unwrap();
        spoil(&mut message);
        let read = rate::read(Some(&message));
        let found = read.map(|limit| format!("{:?}", limit.is_some()));
        assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected);
    };
    check(|_| {}, "true");
    check(|m| m.total = None, "true");
    check(|m| *m = message::HttpLocalRateLimit::default(), "false");
    check(
        |m| m.total = Some(Limit { requests_per_second: 0 }),
        "local_rate_limit.total: 0 requests per second",
    );
    check(|m| m.metadata = None, "local_rate_limit.metadata is missing");
    check(|m| m.overrides[0].limit = None, "local_rate_limit.overrides.limit is missing");
    check(|m| m.overrides[0].clients = None, "true");
    check(
        |m| m.overrides = vec![m.overrides[0].clone(); CLIENTS_MAX],
        "local_rate_limit.overrides has size 8192; the limit is 4096",
    );
}
