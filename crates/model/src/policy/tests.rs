//! The rules by tables.

use super::*;
use crate::pattern::Pattern;
use crate::route::PathMatch;

fn policy(authentication: Authentication, net: &str) -> InboundPolicy {
    InboundPolicy {
        protocol: InboundProtocol::Opaque,
        authorizations: vec![Authorization {
            networks: vec![Network {
                net: net.parse().unwrap(),
                except: vec!["10.9.0.0/16".parse().unwrap()],
            }],
            authentication,
            resource: Resource::default_named("test"),
            labels: Labels::default(),
        }],
        routes: Vec::new(),
        rejects_unrouted: false,
        server: Resource::default_named("test"),
        labels: Labels::default(),
        rate_limit: None,
    }
}

#[track_caller]
fn check(policy: &InboundPolicy, address: &str, peer: Option<&str>, verdict: &str) {
    let peer = match peer {
        None => PeerTls::None,
        Some("") => PeerTls::Established(None),
        Some(name) => PeerTls::Established(Some(PeerName::parse(name).unwrap())),
    };
    let decided = match decide(policy, address.parse().unwrap(), &peer) {
        Verdict::Allow(rule) => format!("allow: {}", rule.resource.name()),
        Verdict::Audit(rule) => format!("audit: {}", rule.resource.name()),
        Verdict::Deny(denied) => format!("deny: {denied}"),
    };
    assert_eq!(decided, verdict);
}

#[test]
fn networks_and_identities() {
    let web = "spiffe://td/ns/a/sa/web";
    let everyone = policy(Authentication::Unauthenticated, "10.0.0.0/8");
    check(&everyone, "10.1.2.3", None, "allow: test");
    check(&everyone, "::ffff:10.1.2.3", None, "allow: test");
    check(
        &everyone,
        "10.9.2.3",
        None,
        "deny: default test lets in no client without TLS identity from 10.9.2.3",
    );
    check(
        &everyone,
        "11.0.0.1",
        Some(web),
        "deny: default test lets in no spiffe://td/ns/a/sa/web from 11.0.0.1",
    );
    let named = Authentication::TlsAuthenticated {
        identities: vec![web.into()],
        suffixes: vec![Suffix(vec!["identity".into(), "leno".into(), "td".into()])],
    };
    let named = policy(named, "0.0.0.0/0");
    check(&named, "1.1.1.1", Some(web), "allow: test");
    check(&named, "1.1.1.1", Some("web.a.serviceaccount.identity.leno.td"), "allow: test");
    check(
        &named,
        "1.1.1.1",
        Some("evilidentity.leno.td"),
        "deny: default test lets in no evilidentity.leno.td from 1.1.1.1",
    );
    check(
        &named,
        "1.1.1.1",
        Some("identity.leno.td"),
        "deny: default test lets in no identity.leno.td from 1.1.1.1",
    );
    check(
        &named,
        "1.1.1.1",
        Some("spiffe://td2/ns/a/sa/web"),
        "deny: default test lets in no spiffe://td2/ns/a/sa/web from 1.1.1.1",
    );
    check(
        &named,
        "1.1.1.1",
        Some(""),
        "deny: default test lets in no TLS client without identity from 1.1.1.1",
    );
    check(
        &named,
        "1.1.1.1",
        None,
        "deny: default test lets in no client without TLS identity from 1.1.1.1",
    );
    let tls = policy(Authentication::TlsUnauthenticated, "0.0.0.0/0");
    check(&tls, "1.1.1.1", Some(""), "allow: test");
    check(
        &tls,
        "1.1.1.1",
        None,
        "deny: default test lets in no client without TLS identity from 1.1.1.1",
    );
}

#[test]
fn audit_lets_in_whom_no_other_rule_does() {
    let mut audited = policy(Authentication::Unauthenticated, "0.0.0.0/0");
    audited.authorizations[0].resource = Resource::default_named("audit");
    check(&audited, "1.1.1.1", None, "audit: audit");
    let allowing = policy(Authentication::Unauthenticated, "1.1.1.0/24");
    audited.authorizations.extend(allowing.authorizations);
    check(&audited, "1.1.1.1", None, "allow: test");
    check(&audited, "2.2.2.2", None, "audit: audit");
    check(
        &audited,
        "10.9.0.1",
        None,
        "deny: default test lets in no client without TLS identity from 10.9.0.1",
    );
}

/// `GET /path` of a client without identity.
struct Asked(&'static str, &'static str);

impl RequestView for Asked {
    fn host(&self) -> &str {
        "10.1.0.1"
    }
    fn path(&self) -> &str {
        self.1
    }
    fn query(&self) -> &str {
        ""
    }
    fn method(&self) -> &str {
        self.0
    }
    fn any_header(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
        false
    }
}

#[test]
fn routes_let_in_besides() {
    let route = |matches: Vec<RequestMatch>, default: DefaultPolicy| InboundRoute {
        resource: Resource::default_named("probe"),
        hosts: Vec::new(),
        matches,
        authorizations: default.authorizations(),
    };
    let matching = |method: Option<&str>, path| RequestMatch {
        path: Some(path),
        method: method.map(Into::into),
        ..RequestMatch::default()
    };
    let mut policy = policy(Authentication::Unauthenticated, "10.0.0.0/8");
    policy.authorizations = Vec::new();
    policy.routes = vec![
        route(
            vec![
                matching(Some("GET"), PathMatch::Exact("/healthz".into())),
                matching(None, PathMatch::Prefix("/open".into())),
            ],
            DefaultPolicy::AllUnauthenticated,
        ),
        // The more specific one has its own say.
        route(
            vec![matching(None, PathMatch::Exact("/open/not".into()))],
            DefaultPolicy::AllAuthenticated,
        ),
    ];
    let check_request = |policy: &InboundPolicy, method, path, allowed: bool| {
        let address = "192.168.0.1".parse().unwrap();
        let asked = (&Asked(method, path), false);
        let decided = decide_request(policy, address, &PeerTls::None, asked);
        let by_route = matches!(decided, RequestVerdict::ByRoute(..));
        assert_eq!(by_route, allowed, "{method} {path}: {decided:?}");
        if let RequestVerdict::ByRoute(route, _) = decided {
            assert!(route_admits(policy, &route.resource, address, &PeerTls::None));
        }
    };
    check_request(&policy, "GET", "/healthz", true);
    check_request(&policy, "POST", "/healthz", false);
    check_request(&policy, "GET", "/healthz/", false);
    check_request(&policy, "GET", "/", false);
    check_request(&policy, "PUT", "/open", true);
    check_request(&policy, "GET", "/open/door", true);
    check_request(&policy, "GET", "/opening", false);
    check_request(&policy, "GET", "/open/not", false);
}

#[test]
fn defaults_mean_what_they_say() {
    let check_default = |default: &str, peer: Option<&str>, verdict: bool| {
        let mut policy = policy(Authentication::Unauthenticated, "0.0.0.0/0");
        policy.authorizations = DefaultPolicy::parse(default).unwrap().authorizations();
        let peer =
            peer.map_or(PeerTls::None, |n| PeerTls::Established(Some(PeerName::parse(n).unwrap())));
        assert_eq!(
            decide(&policy, "fd00::1".parse().unwrap(), &peer).rule().is_some(),
            verdict,
            "{default} {peer:?}"
        );
    };
    check_default("all-unauthenticated", None, true);
    check_default("all-authenticated", None, false);
    check_default("all-authenticated", Some("spiffe://td/ns/a/sa/web"), true);
    check_default("deny", Some("spiffe://td/ns/a/sa/web"), false);
    assert!(DefaultPolicy::parse("allow").is_err());
}

/// A suffix means an account by either of its names, and the SPIFFE ID of a workload that is not an account by none.
#[test]
fn suffixes_match_both_names_of_an_account() {
    let check = |suffix: &str, name: &str, expected: bool| {
        let parts = suffix.split('.').filter(|part| !part.is_empty()).map(Arc::from);
        let suffix = Suffix(parts.collect());
        assert_eq!(suffix.matches(&PeerName::parse(name).unwrap()), expected, "{suffix:?} {name}");
    };
    let shop = "shop.serviceaccount.identity.leno.cluster.local";
    check(shop, "spiffe://cluster.local/ns/shop/sa/web", true);
    check(shop, "web.shop.serviceaccount.identity.leno.cluster.local", true);
    check(shop, "spiffe://cluster.local/ns/shop/sa/web.v1", true);
    check(shop, "spiffe://cluster.local/ns/workshop/sa/web", false);
    check(shop, "spiffe://cluster.local/ns/shop2/sa/web", false);
    check(shop, "spiffe://other.local/ns/shop/sa/web", false);
    check(shop, "spiffe://local/ns/shop/sa/web", false);
    check(shop, "spiffe://cluster.local/shop/web", false);
    check(shop, shop, false);
    check("serviceaccount.identity.leno.cluster.local", "spiffe://cluster.local/ns/a/sa/b", true);
    check("cluster.local", "spiffe://cluster.local/ns/a/sa/b", true);
    check("cluster.local", "spiffe://cluster.local/other", false);
    check("", "spiffe://cluster.local/other", true);
}

#[test]
fn what_a_client_lacks_for_a_rule() {
    let check =
        |authentication: &Authentication, address: &str, peer: &PeerTls, expected: &[Lack]| {
            let policy = policy(authentication.clone(), "10.0.0.0/8");
            let address = address.parse().unwrap();
            let lacks: Vec<Lack> = policy.authorizations[0].lacks(address, peer).collect();
            assert_eq!(lacks, expected, "{authentication:?} {address} {peer:?}");
            // Nothing is lacking exactly where the rule decides.
            let decided = decide(&policy, address, peer);
            assert_eq!(lacks.is_empty(), decided.rule().is_some(), "{authentication:?} {address}");
        };
    let name = PeerName::parse("spiffe://td/ns/a/sa/web").unwrap();
    let (web, nameless) = (PeerTls::Established(Some(name)), PeerTls::Established(None));
    let tls = Authentication::TlsUnauthenticated;
    let other = Authentication::TlsAuthenticated {
        identities: vec!["spiffe://td/ns/a/sa/other".into()],
        suffixes: Vec::new(),
    };
    check(&Authentication::Unauthenticated, "10.0.0.1", &PeerTls::None, &[]);
    check(&Authentication::Unauthenticated, "::ffff:10.0.0.1", &PeerTls::None, &[]);
    check(&Authentication::Unauthenticated, "11.0.0.1", &web, &[Lack::Network]);
    check(&Authentication::Unauthenticated, "10.9.0.1", &web, &[Lack::Network]);
    check(&tls, "10.0.0.1", &nameless, &[]);
    check(&tls, "11.0.0.1", &PeerTls::None, &[Lack::Network, Lack::Tls]);
    check(&other, "10.0.0.1", &nameless, &[Lack::AnyIdentity]);
    check(&other, "10.0.0.1", &PeerTls::None, &[Lack::AnyIdentity]);
    check(&other, "11.0.0.1", &web, &[Lack::Network, Lack::ThisIdentity]);
}

/// An index finds what a look at each route finds.
#[test]
fn an_index_of_routes_finds_the_same_route() {
    let path = |path: PathMatch| RequestMatch { path: Some(path), ..RequestMatch::default() };
    let exact = |text: &str| path(PathMatch::Exact(text.into()));
    let prefix = |text: &str| path(PathMatch::Prefix(text.into()));
    let regex = |text: &str| path(PathMatch::Regex(Pattern::parse(text).unwrap()));
    let get = RequestMatch { method: Some("GET".into()), ..RequestMatch::default() };
    let all = [
        vec![prefix("/")],
        vec![prefix("/a")],
        vec![prefix("/a/")],
        vec![exact("/a/b")],
        vec![exact("/a/")],
        vec![regex("/a/[0-9]+")],
        vec![get],
        vec![exact("/x"), prefix("/a/b/c"), regex("/y.*")],
        vec![RequestMatch { method: Some("POST".into()), ..prefix("/a/b") }],
        vec![exact("/a/b")],
    ];
    let mut policy = policy(Authentication::Unauthenticated, "10.0.0.0/8");
    // Each set of routes, in both orders.
    for set in 0..1_u32 << all.len() {
        let chosen = all.iter().enumerate().filter(|(number, _)| set >> number & 1 == 1);
        let routes = chosen.map(|(number, matches)| InboundRoute {
            resource: Resource::default_named(&number.to_string()),
            hosts: Vec::new(),
            matches: matches.clone(),
            authorizations: Vec::new(),
        });
        policy.routes = routes.collect();
        if set % 2 == 1 {
            policy.routes.reverse();
        }
        let index = RouteIndex::new(&policy);
        for path in [
            "/", "/a", "/a/", "/a/b", "/a/b/c/d", "/a/7", "/ab", "/x", "/yes", "*", "", "/a;v=1",
            "/a/b;c", "/;/a",
        ] {
            for method in ["GET", "POST"] {
                let asked = Asked(method, path);
                let expected = route_of(&policy, &asked).map(|route| &route.resource);
                let found = index.route_of(&policy, &asked).map(|route| &route.resource);
                assert_eq!(found, expected, "{set:b} {method} {path}");
            }
        }
    }
}
