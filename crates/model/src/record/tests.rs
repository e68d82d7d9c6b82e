use super::*;
use crate::name::{PeerName, Resource};
use crate::policy::{
    Authentication, Authorization, InboundPolicy, InboundProtocol, InboundRoute, Network,
    RequestVerdict, Verdict, decide_request, every_network,
};
use crate::route::{HostMatch, PathMatch, RequestMatch, RequestView};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

#[test]
fn ids_are_folded() {
    let check = |path: &str, expected: &str| {
        let mut folded = "old".to_owned();
        fold(path, Detail::Path, &mut folded);
        assert_eq!(folded, expected, "{path}");
    };
    check("/", "/");
    check("/users", "/users");
    check("/users/", "/users/");
    check("/users/42", "/users/*");
    check("/users/42/orders/7", "/users/*/orders/*");
    check("/v1/users", "/v1/users");
    check("/x/123e4567-e89b-12d3-a456-426614174000", "/x/*");
    check("/x/deadbeef0", "/x/*");
    // A word of hexadecimal digits.
    check("/x/facade", "/x/facade");
    check("/x/01ARZ3NDEKTSV4RRFFQ69G5FAV/y", "/x/*/y");
    check("/customer-preferences-and-settings", "/customer-preferences-and-settings");
    check("/a*b", "/*");
    check("/a/b/c/d/e/f/g/h/i/j", "/a/b/c/d/e/f/g/h/**");
    check(&format!("/{}", "x".repeat(65)), "/*");
    check(&"/abcdefghi".repeat(20), &format!("{}/**", "/abcdefghi".repeat(8)));
    check("*", "**");
    check("/shop.Cart/Add", "/shop.Cart/Add");
    let mut folded = String::new();
    fold("/a/b", Detail::Prefix, &mut folded);
    assert_eq!(folded, "/a/**");
    fold("/a/b", Detail::None, &mut folded);
    assert_eq!(folded, "/**");
}

#[test]
fn addresses_are_widened() {
    let check = |address: &str, width, expected: &str| {
        let found = network(address.parse().unwrap(), width);
        assert_eq!(found.to_string(), expected);
    };
    check("10.1.2.3", Width::Address, "10.1.2.3/32");
    check("::ffff:10.1.2.3", Width::Subnet, "10.1.2.0/24");
    check("10.1.2.3", Width::Private, "10.0.0.0/8");
    check("8.8.8.8", Width::Private, "8.8.8.0/24");
    check("8.8.8.8", Width::Family, "0.0.0.0/0");
    check("2001:db8::1", Width::Subnet, "2001:db8::/64");
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

const PATHS: [&str; 12] = [
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/a/1",
    "/a/1/b",
    "/ab",
    "/b/123",
    "/b",
    "/1",
    "/a/b/c/d/e/f/g/h/i/j",
    "*",
];
const NAMES: [&str; 3] =
    ["spiffe://td/ns/a/sa/x", "spiffe://td/ns/a/sa/y", "spiffe://td/ns/b/sa/x"];
const NETS: [&str; 6] =
    ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "8.0.0.0/8"];

fn rule(numbers: &mut Numbers) -> Authorization {
    let authentication = match numbers.below(3) {
        0 => Authentication::Unauthenticated,
        1 => Authentication::TlsUnauthenticated,
        _ => Authentication::TlsAuthenticated {
            identities: vec![numbers.of(&NAMES).into()],
            suffixes: Vec::new(),
        },
    };
    let networks = match numbers.below(2) {
        0 => every_network(),
        _ => vec![Network {
            net: numbers.of(&NETS).parse().unwrap(),
            except: match numbers.below(3) {
                0 => vec![numbers.of(&NETS).parse().unwrap()],
                _ => Vec::new(),
            },
        }],
    };
    let name = numbers.of(&["r1", "r2", "audit"]);
    let resource = Resource::default_named(name);
    Authorization { networks, authentication, resource, labels: std::sync::Arc::default() }
}

fn route(numbers: &mut Numbers) -> InboundRoute {
    let path = match numbers.below(4) {
        0 => None,
        1 => Some(PathMatch::Exact(numbers.of(&PATHS).into())),
        _ => Some(PathMatch::Prefix(numbers.of(&PATHS[..9]).into())),
    };
    let method = [None, Some("GET".into()), Some("PURGE".into())];
    let matches =
        vec![RequestMatch { path, method: numbers.of(&method), ..RequestMatch::default() }];
    let hosts = match numbers.below(6) {
        0 => vec![HostMatch::Exact("h".into())],
        _ => Vec::new(),
    };
    let authorizations = (0..numbers.below(3)).map(|_| rule(numbers)).collect();
    let resource = Resource::default_named(numbers.of(&["a", "b"]));
    InboundRoute { resource, hosts, matches, authorizations }
}

fn policy(numbers: &mut Numbers) -> InboundPolicy {
    InboundPolicy {
        protocol: InboundProtocol::Detect { timeout: Duration::from_secs(1) },
        authorizations: (0..numbers.below(3)).map(|_| rule(numbers)).collect(),
        routes: (0..numbers.below(4)).map(|_| route(numbers)).collect(),
        rejects_unrouted: numbers.below(2) == 0,
        server: Resource::default_named("s"),
        labels: std::sync::Arc::default(),
        rate_limit: None,
    }
}

struct Sent(&'static str, &'static str, &'static str);

impl RequestView for Sent {
    fn host(&self) -> &str {
        self.0
    }
    fn path(&self) -> &str {
        self.2
    }
    fn query(&self) -> &str {
        ""
    }
    fn method(&self) -> &str {
        self.1
    }
    fn any_header(&self, _: &str, _: &mut dyn FnMut(&str) -> bool) -> bool {
        false
    }
}

/// What a proxy decides about a request is what [`judge`] says of its record, wherever it says something.
#[test]
fn the_record_is_judged_as_requests_are_decided() {
    let mut numbers = Numbers(7);
    let (mut known, all) = (0, 100_000);
    for _ in 0..all {
        let policy = policy(&mut numbers);
        let sent = Sent(
            numbers.of(&["h", "i"]),
            numbers.of(&["GET", "POST", "PURGE", "X"]),
            numbers.of(&PATHS),
        );
        let client = match numbers.below(4) {
            0 => PeerTls::None,
            1 => PeerTls::Established(None),
            _ => PeerTls::Established(Some(PeerName::parse(numbers.of(&NAMES)).unwrap())),
        };
        let address = [[10, 1, 2, 3], [10, 1, 2, 4], [10, 2, 0, 1], [8, 8, 8, 8]];
        let address = IpAddr::V4(Ipv4Addr::from(numbers.of(&address)));
        let is_ambiguous = numbers.below(10) == 0;
        let widths = [Width::Address, Width::Subnet, Width::Private, Width::Family];
        let details = [Detail::Path, Detail::Path, Detail::Prefix, Detail::None];
        let mut path = String::new();
        fold(sent.2, numbers.of(&details), &mut path);
        if is_ambiguous {
            path.clear();
        }
        let entry = Entry {
            client: client.clone(),
            network: network(address, numbers.of(&widths)),
            port: 80,
            request: Some(Request {
                version: Version::Http1,
                method: method(sent.1).into(),
                path: path.into(),
            }),
            outcome: Outcome::Allowed,
            rule: "".into(),
        };
        let Judged::Known(outcome, rule) = judge(&policy, &entry) else { continue };
        known += 1;
        let decided = match decide_request(&policy, address, &client, (&sent, is_ambiguous)) {
            RequestVerdict::NoRoute => (Outcome::NoRoute, None),
            RequestVerdict::ByPort(Verdict::Allow(rule)) => (Outcome::Allowed, Some(rule)),
            RequestVerdict::ByPort(Verdict::Audit(rule)) => (Outcome::Audited, Some(rule)),
            RequestVerdict::ByPort(Verdict::Deny(_)) => (Outcome::Denied, None),
            RequestVerdict::ByRoute(_, rule) => (Outcome::Allowed, Some(rule)),
        };
        assert_eq!(outcome, decided.0, "{entry:#?} {policy:#?} {rule:?}");
    }
    assert!(known > all / 2, "only {known} of {all} were known");
    assert!(known < all, "nothing was unknown");
}
