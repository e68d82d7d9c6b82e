//! What is written is read again; what is not exactly so is refused.

use super::*;
use leno_model::name::{PeerName, Resource};
use leno_model::policy::{DefaultPolicy, InboundProtocol};
use leno_model::route::{OpaqueRoutes, OutboundProtocol};
use leno_model::workload::{Endpoint, Labels, PeerIdentity, ProtocolHint};

fn owner() -> Owner {
    Owner {
        workload: r#"{"ns":"default","pod":"web-1"}"#.to_owned(),
        uid: "0f8f".to_owned(),
        identity: "spiffe://td/ns/default/sa/web".to_owned(),
    }
}

fn endpoint(host: u8) -> Arc<Endpoint> {
    let name = PeerName::parse("spiffe://td/ns/default/sa/db").unwrap();
    let server_name = leno_model::name::DnsName::parse("db.default.td").unwrap();
    Arc::new(Endpoint {
        address: ([10, 0, 0, host], 80).into(),
        weight: 10_000,
        identity: Some(PeerIdentity { name, server_name }),
        hint: ProtocolHint::Opaque,
        opaque_transport_port: Some(4143),
        labels: crate::destination::labels([("pod", "db-1")]),
        resource: Some(Resource::object("core", "Pod", "default", "db-1")),
    })
}

fn snapshot() -> Snapshot {
    let policy = OutboundPolicy {
        parent: Resource::object("core", "Service", "default", "db"),
        protocol: OutboundProtocol::Opaque(OpaqueRoutes::default()),
        breaker: None,
    };
    let server = InboundPolicy {
        protocol: InboundProtocol::Opaque,
        authorizations: DefaultPolicy::AllAuthenticated.authorizations(),
        routes: Vec::new(),
        rejects_unrouted: false,
        server: Resource::default_named("all-authenticated"),
        labels: Labels::default(),
        rate_limit: None,
    };
    let set = |endpoints, exists| EndpointSet { endpoints, exists };
    Snapshot {
        owner: owner(),
        saved_at: Duration::from_secs(1_700_000_000),
        outbound: vec![
            ("10.96.0.1:80".parse().unwrap(), policy.clone()),
            ("[fd00::1]:80".parse().unwrap(), policy),
        ],
        endpoints: vec![
            ("db.default.svc.cluster.local:80".into(), set(vec![endpoint(1), endpoint(2)], true)),
            ("empty.default.svc.cluster.local:80".into(), set(Vec::new(), true)),
            ("none.default.svc.cluster.local:80".into(), set(Vec::new(), false)),
        ],
        inbound: vec![(8080, server)],
        certified: Some(Certified {
            key: vec![1, 2, 3],
            leaf: vec![4],
            intermediates: vec![vec![5], vec![6]],
        }),
    }
}

fn written(snapshot: &Snapshot) -> Vec<u8> {
    let mut writer = Writer::new(&snapshot.owner, snapshot.saved_at);
    snapshot.outbound.iter().for_each(|(target, policy)| writer.outbound(*target, policy));
    snapshot.endpoints.iter().for_each(|(destination, set)| writer.endpoints(destination, set));
    snapshot.inbound.iter().for_each(|(port, policy)| writer.inbound(*port, policy));
    snapshot.certified.iter().for_each(|certified| writer.certified(certified));
    let (bytes, left_out) = writer.finish();
    assert_eq!(left_out, 0);
    bytes
}

#[test]
fn what_is_written_is_read_again() {
    assert_eq!(read(&written(&snapshot())), Ok(snapshot()));
}

#[test]
fn no_part_of_a_file_is_a_file() {
    let bytes = written(&snapshot());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
    assert!(read(&[bytes.as_slice(), b"\0"].concat()).is_err());
}

#[test]
fn every_flipped_bit_is_seen() {
    let bytes = written(&snapshot());
    for at in 0..bytes.len() * 8 {
        let mut spoilt = bytes.clone();
        spoilt[at / 8] ^= 1 << (at % 8);
        assert!(read(&spoilt).is_err(), "bit {at}");
    }
}

/// Puts parts between the head and a checksum that is right.
#[track_caller]
fn check(parts: &[(u8, &[u8])], expected: &str) {
    let (mut bytes, _) = Writer::new(&owner(), Duration::ZERO).finish();
    bytes.truncate(bytes.len() - CHECKSUM_BYTES);
    for (kind, part) in parts {
        bytes.push(*kind);
        bytes.extend(u32::try_from(part.len()).unwrap().to_le_bytes());
        bytes.extend(*part);
    }
    assert_eq!(read(&sealed(&bytes)).unwrap_err().to_string(), expected);
}

#[test]
fn what_nobody_has_written_is_refused() {
    let outbound = Kind::Outbound as u8;
    let endpoints = Kind::Endpoints as u8;
    check(&[(9, b"")], "its sections are not valid: a section has an unknown kind");
    check(&[(Kind::Head as u8, b"")], "its sections are not valid: a section is out of order");
    check(&[(0, b"1234")], "its sections are not valid: a section is out of order");
    check(&[(outbound, b"")], "a section is not valid: target: invalid socket address syntax");
    check(&[(outbound, b"\x0a\x0b10.0.0.1:80")], "a section is not valid: policy is missing");
    check(&[(endpoints, b"")], "a section is not valid: destination is missing");
    check(&[(endpoints, b"\x0a\x01a")], "a section is not valid: update is missing");
    check(&[(Kind::Inbound as u8, b"\x08\x00")], "a section is not valid: port: 0 is not a port");
    let twice = EndpointsPart {
        destination: "a".to_owned(),
        update: Some(destination::to_message(&EndpointUpdate::None { exists: true })),
    }
    .encode_to_vec();
    check(
        &[(endpoints, &twice), (endpoints, &twice)],
        "its sections are not valid: a section appears twice",
    );
    let change = EndpointsPart {
        destination: "a".to_owned(),
        update: Some(destination::to_message(&EndpointUpdate::Remove(Vec::new()))),
    }
    .encode_to_vec();
    check(
        &[(endpoints, &change)],
        "its sections are not valid: a change of endpoints instead of a complete set",
    );
}

#[test]
fn what_does_not_fit_is_left_out_and_counted() {
    let mut writer = Writer::new(&owner(), Duration::ZERO);
    let (_, set) = snapshot().endpoints.swap_remove(0);
    let name = "x".repeat(1 << 20);
    (0..10).for_each(|number| writer.endpoints(&format!("{name}{number}"), &set));
    writer.endpoints("small", &set);
    let (bytes, left_out) = writer.finish();
    assert!(bytes.len() <= BYTES_MAX, "{}", bytes.len());
    assert_eq!(left_out, 4);
    let read = read(&bytes).unwrap();
    assert_eq!(read.endpoints.len(), 7);
    assert_eq!(&*read.endpoints[6].0, "small");
    assert_eq!(super::read(&vec![0; BYTES_MAX + 1]), Err(FileError::TooLarge));
}

#[test]
fn checksums() {
    // The check value of CRC-32/ISO-HDLC.
    assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    assert_eq!(checksum(b""), 0);
}
