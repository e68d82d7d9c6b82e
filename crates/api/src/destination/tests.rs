//! Tables of endpoint conversions.

use super::*;
use leno_model::name::Resource;

fn endpoint(address: &str) -> Endpoint {
    Endpoint {
        address: address.parse().unwrap(),
        weight: 10_000,
        identity: None,
        hint: ProtocolHint::Unknown,
        opaque_transport_port: None,
        labels: Labels::default(),
        resource: None,
    }
}

fn meshed(address: &str, name: &str) -> Endpoint {
    Endpoint {
        identity: Some(PeerIdentity {
            name: PeerName::parse(name).unwrap(),
            server_name: DnsName::parse("web.a.serviceaccount.identity.leno.td").unwrap(),
        }),
        hint: ProtocolHint::Opaque,
        opaque_transport_port: Some(4143),
        labels: labels([("dst_pod", "web-1"), ("dst_namespace", "a")]),
        resource: Some(Resource::object("", "Pod", "a", "web-1")),
        ..endpoint(address)
    }
}

#[track_caller]
fn round_trip(update: EndpointUpdate) {
    let received = from_message(&to_message(&update));
    assert_eq!(received, Ok(Received { update, refused: Vec::new() }));
}

#[test]
fn round_trips() {
    round_trip(EndpointUpdate::Add(vec![]));
    round_trip(EndpointUpdate::Add(vec![endpoint("10.0.0.1:80"), endpoint("[fd00::1]:80")]));
    round_trip(EndpointUpdate::Add(vec![meshed("10.0.0.1:80", "spiffe://td/ns/a/sa/web")]));
    round_trip(EndpointUpdate::Add(vec![meshed("10.0.0.1:80", "web.a.identity.leno.td")]));
    let h2 = Endpoint { hint: ProtocolHint::Http2, weight: 0, ..endpoint("10.0.0.1:80") };
    round_trip(EndpointUpdate::Add(vec![h2]));
    round_trip(EndpointUpdate::Remove(vec!["10.0.0.1:80".parse().unwrap()]));
    round_trip(EndpointUpdate::None { exists: true });
    round_trip(EndpointUpdate::None { exists: false });
}

/// The error of an endpoint after `spoil`, alone in its update.
#[track_caller]
fn check(spoil: impl FnOnce(&mut message::WeightedAddr), expected: &str) {
    let mut spoilt = endpoint_message(&meshed("10.0.0.1:80", "spiffe://td/ns/a/sa/web"));
    spoil(&mut spoilt);
    let good = endpoint_message(&endpoint("10.0.0.2:80"));
    let set = |addrs| message::Update {
        update: Some(message::update::Update::Add(message::WeightedAddrSet {
            addrs,
            metric_labels: HashMap::new(),
        })),
    };
    let alone = from_message(&set(vec![spoilt.clone()])).unwrap_err();
    assert_eq!(alone.to_string(), expected);
    // Beside a good one it is left out, and never taken as an endpoint without identity.
    let beside = from_message(&set(vec![spoilt, good])).unwrap();
    assert_eq!(beside.update, EndpointUpdate::Add(vec![endpoint("10.0.0.2:80")]));
    assert_eq!(beside.refused.len(), 1);
}

#[test]
fn a_malformed_endpoint_is_refused_alone() {
    use message::tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity};
    check(|e| e.addr = None, "addr is missing");
    check(|e| e.addr.as_mut().unwrap().port = 70_000, "addr: 70000 is not a port");
    check(|e| e.tls_identity.as_mut().unwrap().strategy = None, "tls_identity.strategy is missing");
    check(
        |e| e.tls_identity.as_mut().unwrap().server_name = None,
        "tls_identity.server_name is missing",
    );
    check(
        |e| {
            e.tls_identity.as_mut().unwrap().strategy =
                Some(Strategy::UriLikeIdentity(UriLikeIdentity { uri: "https://a".into() }));
        },
        "tls_identity.uri_like_identity: \"https://a\" is not a SPIFFE ID: it does not begin with spiffe://",
    );
    check(
        |e| {
            e.tls_identity.as_mut().unwrap().strategy =
                Some(Strategy::DnsLikeIdentity(DnsLikeIdentity { name: "a b".into() }));
        },
        "tls_identity.dns_like_identity: \"a b\" is not a DNS name: a label has only letters, digits, '-' and '_'",
    );
    check(
        |e| {
            let transport = &mut e.protocol_hint.as_mut().unwrap().opaque_transport;
            transport.as_mut().unwrap().inbound_port = 0;
        },
        "protocol_hint.opaque_transport.inbound_port: 0 is not a port",
    );
    check(|e| e.resource_ref.as_mut().unwrap().kind = None, "resource_ref is missing");
    check(
        |e| e.metric_labels = (0..65).map(|n| (n.to_string(), String::new())).collect(),
        "metric_labels has size 65; the limit is 64",
    );
}

#[test]
fn absurd_messages_are_refused() {
    assert_eq!(from_message(&message::Update { update: None }), Err(WireError::Missing("update")));
    let many = vec![message::WeightedAddr::default(); ENDPOINTS_MAX + 1];
    let update = message::update::Update::Add(message::WeightedAddrSet {
        addrs: many,
        metric_labels: HashMap::new(),
    });
    assert_eq!(
        from_message(&message::Update { update: Some(update) }).unwrap_err().to_string(),
        "add.addrs has size 16385; the limit is 16384"
    );
}

#[test]
fn labels_of_the_set_are_everyones_and_yield_to_the_endpoints_own() {
    let mut own = endpoint_message(&endpoint("10.0.0.1:80"));
    own.metric_labels.insert("zone".into(), "own".into());
    let set = message::WeightedAddrSet {
        addrs: vec![own],
        metric_labels: [("zone", "set"), ("namespace", "a")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    let update = message::Update { update: Some(message::update::Update::Add(set)) };
    let EndpointUpdate::Add(endpoints) = from_message(&update).unwrap().update else {
        panic!("an add stays an add")
    };
    assert_eq!(endpoints[0].labels, labels([("namespace", "a"), ("zone", "own")]));
}
