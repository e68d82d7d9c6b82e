//! Rules within bounds, against the clients that each of the two admits.

use super::super::{DefaultPolicy, PeerTls, private_networks};
use super::*;
use crate::name::Resource;
use crate::workload::Labels;
use std::net::IpAddr;

/// Identities by words: names, `*` and `*.SUFFIX`; `-` for every client, `tls` for every TLS client.
fn authentication(text: &str) -> Authentication {
    match text {
        "-" => Authentication::Unauthenticated,
        "tls" => Authentication::TlsUnauthenticated,
        words => {
            let (mut identities, mut suffixes) = (Vec::new(), Vec::new());
            for word in words.split(' ') {
                match (word, word.strip_prefix("*.")) {
                    ("*", _) => suffixes.push(Suffix(Vec::new())),
                    (_, Some(end)) => {
                        suffixes.push(Suffix(end.split('.').map(Arc::from).collect()));
                    }
                    _ => identities.push(word.into()),
                }
            }
            Authentication::TlsAuthenticated { identities, suffixes }
        }
    }
}

/// Networks by words, each with its holes: `10.0.0.0/8!10.1.0.0/16`.
fn networks(text: &str) -> Vec<Network> {
    let network = |word: &str| {
        let mut parts = word.split('!').map(|part| part.parse().unwrap());
        Network { net: parts.next().unwrap(), except: parts.collect() }
    };
    text.split(' ').map(network).collect()
}

const SHOP: &str = "*.shop.serviceaccount.identity.leno.td";
const WHO: [&str; 12] = [
    "-",
    "tls",
    "*",
    "spiffe://td/ns/shop/sa/a",
    "spiffe://td/ns/shop/sa/a a.shop.serviceaccount.identity.leno.td",
    "spiffe://td/ns/shop/sa/a spiffe://td/ns/other/sa/b spiffe://x/y",
    SHOP,
    "*.identity.leno.td spiffe://else/ns/shop/sa/a",
    "*.td",
    "*.other.serviceaccount.identity.leno.td spiffe://td/ns/shop/sa/a",
    "a.shop.serviceaccount.identity.leno.td",
    "*.leno.td *.td spiffe://td/ns/shop/sa/a.b",
];
const WHERE: [&str; 6] = [
    "0.0.0.0/0 ::/0",
    "10.0.0.0/8 fd00::/8",
    "10.1.0.0/16!10.1.9.0/24",
    "0.0.0.0/0!10.1.0.0/16",
    "8.8.8.8/32 10.1.9.9/32",
    "::/0",
];
const CLIENTS: [Option<&str>; 9] = [
    None,
    Some(""),
    Some("spiffe://td/ns/shop/sa/a"),
    Some("spiffe://td/ns/shop/sa/a.b"),
    Some("a.shop.serviceaccount.identity.leno.td"),
    Some("spiffe://td/ns/other/sa/b"),
    Some("spiffe://else/ns/shop/sa/a"),
    Some("spiffe://x/y"),
    Some("td"),
];
const FROM: [&str; 6] = ["10.1.0.1", "10.1.9.9", "10.2.0.1", "8.8.8.8", "fd00::1", "2001:db8::1"];

fn rule(who: &str, from: &str) -> Authorization {
    Authorization {
        networks: networks(from),
        authentication: authentication(who),
        resource: Resource::default_named(who),
        labels: Labels::default(),
    }
}

fn peer(name: Option<&str>) -> PeerTls {
    match name {
        None => PeerTls::None,
        Some("") => PeerTls::Established(None),
        Some(name) => PeerTls::Established(Some(PeerName::parse(name).unwrap())),
    }
}

/// For all pairs of rules and all clients: both admit, or the narrowed rule does not.
#[test]
fn a_rule_within_a_bound_admits_the_clients_of_both() {
    let rules = || WHO.iter().flat_map(|who| WHERE.iter().map(|from| rule(who, from)));
    let clients: Vec<(PeerTls, IpAddr)> = CLIENTS
        .iter()
        .flat_map(|name| FROM.iter().map(|from| (peer(*name), from.parse().unwrap())))
        .collect();
    let mut admitted = 0;
    for one in rules() {
        for other in rules() {
            let both = one.within(&other);
            for (peer, address) in &clients {
                let expected = one.admits(*address, peer) && other.admits(*address, peer);
                let found = both.as_ref().is_some_and(|both| both.admits(*address, peer));
                assert_eq!(found, expected, "{one:?}\n{other:?}\n{peer:?} {address}\n{both:?}");
                admitted += usize::from(found);
            }
            assert!(both.is_none_or(|both| both.resource == one.resource));
        }
    }
    assert!(admitted > 10_000, "{admitted}");
}

/// Suffixes of two control planes have no common end: their common SPIFFE IDs are not admitted, rather than more than them.
#[test]
fn suffixes_of_two_control_planes_admit_nobody_together() {
    let ours = rule(SHOP, "10.0.0.0/8");
    let theirs = rule("*.shop.serviceaccount.identity.linkerd.td", "10.0.0.0/8");
    assert_eq!(ours.within(&theirs), None);
}

/// A policy with a minimum admits the clients that both admit, and says whether that is less.
#[test]
fn default_policies_with_a_minimum() {
    let check = |policy: DefaultPolicy, minimum: DefaultPolicy, expected: &str| {
        let found = policy.at_least(minimum);
        assert_eq!(found.as_str(), expected, "{policy:?} with {minimum:?}");
        assert_eq!(policy.exceeds(minimum), found != policy, "{policy:?} with {minimum:?}");
    };
    use DefaultPolicy::{
        AllAuthenticated, AllUnauthenticated, Audit, ClusterAuthenticated, ClusterUnauthenticated,
        Deny,
    };
    for policy in DefaultPolicy::ALL {
        check(policy, AllUnauthenticated, policy.as_str());
        check(policy, Audit, policy.as_str());
        check(policy, Deny, "deny");
        check(Deny, policy, "deny");
    }
    check(AllUnauthenticated, AllAuthenticated, "all-authenticated");
    check(AllUnauthenticated, ClusterUnauthenticated, "cluster-unauthenticated");
    check(AllUnauthenticated, ClusterAuthenticated, "cluster-authenticated");
    check(AllAuthenticated, AllAuthenticated, "all-authenticated");
    check(AllAuthenticated, ClusterUnauthenticated, "cluster-authenticated");
    check(ClusterUnauthenticated, AllAuthenticated, "cluster-authenticated");
    check(ClusterAuthenticated, AllAuthenticated, "cluster-authenticated");
    check(ClusterAuthenticated, ClusterUnauthenticated, "cluster-authenticated");
    assert_eq!(Audit.at_least(AllAuthenticated), Audit);
    assert!(Audit.exceeds(AllAuthenticated));
}

/// 4,096 names against 4,096 suffixes that name sixteen control planes: looked up, not compared one by one.
#[test]
fn large_rules_are_looked_up() {
    let names = (0..CLIENTS_MAX).map(|number| format!("spiffe://td/ns/n{number}/sa/a").into());
    let ends = (0..CLIENTS_MAX).map(|number| {
        let text = format!("m{number}.serviceaccount.identity.c{}.td", number % 16);
        Suffix(text.split('.').map(Arc::from).collect())
    });
    let with = |identities: Vec<Arc<str>>, suffixes: Vec<Suffix>| {
        Authorization { networks: private_networks(), ..rule("*", "10.0.0.0/8") }
            .with(Authentication::TlsAuthenticated { identities, suffixes })
    };
    let began = std::time::Instant::now();
    assert_eq!(with(names.collect(), Vec::new()).within(&with(Vec::new(), ends.collect())), None);
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

impl Authorization {
    fn with(self, authentication: Authentication) -> Self {
        Self { authentication, ..self }
    }
}
