//! Access policy by the table of `leno_testkit::policy`, decided by the function alone. Real proxies decide the same rows in
//! `tests/process/security/policy_table.rs`.

use super::{check_problems, manifests, world};
use crate::world::World;
use leno_model::name::{PeerName, WorkloadId};
use leno_model::policy::{self, PeerTls, RequestVerdict, Verdict};
use leno_model::route::RequestView;
use leno_testkit::policy::{Case, Client, Identity, Message, cases, message};
use std::net::IpAddr;

/// A request: method and path.
struct Asked<'a>(&'a str, &'a str);

impl RequestView for Asked<'_> {
    fn host(&self) -> &str {
        "web"
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

/// The address of clients that name none.
const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 9));

fn client(text: &str) -> (PeerTls, IpAddr) {
    let client = Client::parse(text);
    let peer = match (&client.identity, client.name()) {
        (Identity::None, _) => PeerTls::None,
        (_, name) => PeerTls::Established(name.map(|name| PeerName::parse(&name).unwrap())),
    };
    (peer, client.address.unwrap_or(ADDRESS))
}

/// The verdict on a message, with its rule.
pub(super) fn verdict(world: &World, from: &str, what: &str) -> String {
    let (port, sent) = message(what);
    let workload = WorkloadId { namespace: "shop".into(), pod: "web".into() };
    let said = world.inbound(&workload, port).unwrap();
    let message = leno_api::inbound::to_message(&said);
    let read = leno_api::inbound::from_message(&message).unwrap();
    assert_eq!(read, said, "{what}");
    let (peer, address) = client(from);
    let shown = |verdict: Verdict<'_>| match verdict {
        Verdict::Allow(rule) => format!("allow {}", rule.resource.name()),
        Verdict::Audit(_) => "audit".to_owned(),
        Verdict::Deny(_) => "deny".to_owned(),
    };
    let Message::Request { method, path, .. } = sent else {
        return shown(policy::decide(&read, address, &peer));
    };
    match policy::decide_request(&read, address, &peer, (&Asked(method, path), false)) {
        RequestVerdict::NoRoute => "404".to_owned(),
        RequestVerdict::ByPort(verdict) => shown(verdict),
        RequestVerdict::ByRoute(route, rule) => {
            format!("allow {} on {}", rule.resource.name(), route.resource.name())
        }
    }
}

/// Rows of client, what it sends, and the verdict, under the objects of the lines.
#[track_caller]
fn check(lines: &[&str], rows: &[(&str, &str, &str)]) {
    let world = world(&manifests(lines));
    for (from, what, expected) in rows {
        let found = verdict(&world, from, what);
        assert_eq!(found, *expected, "{from}: {what} under {lines:#?}\n{:#?}", world.problems);
    }
}

#[test]
fn verdicts() {
    let mut rows = 0;
    for Case { lines, rows: of_case } in cases().0 {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        check(&lines, &of_case);
        rows += of_case.len();
    }
    assert!(rows >= 500, "{rows} rows");
}

/// Each mistake names the object, the field and what is missing.
#[test]
fn mistakes_are_reported_on_their_objects() {
    let check = |lines: &[&str], expected: &[&str]| {
        let world = world(&manifests(lines));
        check_problems(&world, expected);
        let refused = world.object_verdicts().filter(|verdict| !verdict.accepted.holds);
        assert_eq!(
            refused.count() > 0,
            !expected.is_empty() && !expected[0].contains("HTTPRoute"),
            "{lines:?}"
        );
    };
    check(&["server s 8080", "mtls m sa:shop/a", "policy p Server/s mtls/m"], &[]);
    check(
        &["server s 8080", "policy p Server/s mtls/m"],
        &[
            "AuthorizationPolicy shop/p: spec.requiredAuthenticationRefs[0]: MeshTLSAuthentication.policy.leno.dev m does not exist in namespace shop; the policy admits no client",
        ],
    );
    check(
        &["policy p Server/s"],
        &[
            "AuthorizationPolicy shop/p: spec.targetRef: Server.policy.leno.dev s does not exist in namespace shop; the policy has no effect",
        ],
    );
    check(
        &["mtls m sa:shop/ghost"],
        &[
            "MeshTLSAuthentication shop/m: spec.identityRefs[0]: ServiceAccount shop/ghost does not exist; the reference admits no client",
            "MeshTLSAuthentication shop/m: spec: names no identity; rules that require it admit no client",
        ],
    );
    check(
        &["linkerd:net n 10.0.0.0/99"],
        &[
            "NetworkAuthentication.policy.linkerd.io shop/n: spec.networks[0].cidr: \"10.0.0.0/99\" is not a valid address or range",
            "NetworkAuthentication.policy.linkerd.io shop/n: spec.networks: names no network",
        ],
    );
    check(
        &["server s 8080 HTTP/3 open"],
        &[
            "Server shop/s: spec.proxyProtocol: \"HTTP/3\" is not one of unknown, HTTP/1",
            "Server shop/s: spec.accessPolicy: \"open\" is not a valid policy",
        ],
    );
    check(
        &["route r none GET:/"],
        &["HTTPRoute shop/r: spec.parentRefs[0]: Server shop/none does not exist"],
    );
}

#[test]
fn servers_in_conflict_are_reported() {
    let world = world(&manifests(&["server x 8080", "server y http"]));
    check_problems(
        &world,
        &["Server shop/x: spec.podSelector: Server shop/y selects port 8080 of pod web, too"],
    );
}
