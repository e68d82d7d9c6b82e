//! Parts that several messages share: addresses, durations, labels, references to objects.

use crate::WireError;
use ipnet::IpNet;
use leno_model::limit::{LABELS_MAX, TEXT_BYTES_MAX};
use leno_model::name::Resource;
use leno_model::workload::Labels;
use linkerd2_proxy_api::{meta, net};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// protobuf's `Duration` ends here (10,000 years); a clock's arithmetic takes that much and not much more.
const DURATION_SECONDS_MAX: u64 = 315_576_000_000;

/// Refuses a list that is longer than `max`.
pub(crate) fn at_most(size: usize, max: usize, field: &'static str) -> Result<(), WireError> {
    if size > max { Err(WireError::TooLarge { field, size, max }) } else { Ok(()) }
}

/// A text of bounded length.
pub(crate) fn text(text: &str, field: &'static str) -> Result<Arc<str>, WireError> {
    at_most(text.len(), TEXT_BYTES_MAX, field)?;
    Ok(text.into())
}

/// A text of bounded length that is not empty.
pub(crate) fn some_text(value: &str, field: &'static str) -> Result<Arc<str>, WireError> {
    if value.is_empty() { Err(WireError::Missing(field)) } else { text(value, field) }
}

/// A port: 1 to 65535.
pub(crate) fn port(port: u32, field: &'static str) -> Result<u16, WireError> {
    match u16::try_from(port) {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(WireError::invalid(field, format_args!("{port} is not a port"))),
    }
}

pub(crate) fn ip(message: &net::IpAddress, field: &'static str) -> Result<IpAddr, WireError> {
    match &message.ip {
        Some(net::ip_address::Ip::Ipv4(bits)) => Ok(Ipv4Addr::from_bits(*bits).into()),
        Some(net::ip_address::Ip::Ipv6(halves)) => {
            let bits = (u128::from(halves.first) << 64) | u128::from(halves.last);
            Ok(Ipv6Addr::from_bits(bits).into())
        }
        None => Err(WireError::Missing(field)),
    }
}

pub(crate) fn address(
    message: Option<&net::TcpAddress>,
    field: &'static str,
) -> Result<SocketAddr, WireError> {
    let message = message.ok_or(WireError::Missing(field))?;
    let host = ip(message.ip.as_ref().ok_or(WireError::Missing(field))?, field)?;
    Ok(SocketAddr::new(host, port(message.port, field)?))
}

pub(crate) fn network(
    message: Option<&net::IpNetwork>,
    field: &'static str,
) -> Result<IpNet, WireError> {
    let message = message.ok_or(WireError::Missing(field))?;
    let host = ip(message.ip.as_ref().ok_or(WireError::Missing(field))?, field)?;
    u8::try_from(message.prefix_len)
        .ok()
        .and_then(|length| IpNet::new(host, length).ok())
        .ok_or_else(|| {
            WireError::invalid(
                field,
                format_args!("{host}/{} is not a valid network", message.prefix_len),
            )
        })
}

/// A duration that may be absent, and is not negative.
pub(crate) fn optional_duration(
    message: Option<&prost_types::Duration>,
    field: &'static str,
) -> Result<Option<Duration>, WireError> {
    let Some(message) = message else { return Ok(None) };
    // Checked by hand: the library's conversion normalizes out-of-range parts where we want a refusal.
    match (u64::try_from(message.seconds), u32::try_from(message.nanos)) {
        (Ok(seconds), Ok(nanos)) if seconds <= DURATION_SECONDS_MAX && nanos < 1_000_000_000 => {
            Ok(Some(Duration::new(seconds, nanos)))
        }
        _ => Err(WireError::invalid(
            field,
            format_args!("{} s and {} ns is not a duration", message.seconds, message.nanos),
        )),
    }
}

/// A duration that must be there.
pub(crate) fn duration(
    message: Option<&prost_types::Duration>,
    field: &'static str,
) -> Result<Duration, WireError> {
    optional_duration(message, field)?.ok_or(WireError::Missing(field))
}

/// Years beyond the range of the protocol become its longest duration.
pub(crate) fn duration_message(duration: Duration) -> prost_types::Duration {
    let seconds = duration.as_secs().min(DURATION_SECONDS_MAX);
    prost_types::Duration {
        seconds: seconds.cast_signed(),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}

/// Labels sorted by name; those of `specific` win over `general`.
pub(crate) fn labels(
    general: &HashMap<String, String>,
    specific: &HashMap<String, String>,
    field: &'static str,
) -> Result<Labels, WireError> {
    labels_up_to(general, specific, field, LABELS_MAX)
}

pub(crate) fn labels_up_to(
    general: &HashMap<String, String>,
    specific: &HashMap<String, String>,
    field: &'static str,
    max: usize,
) -> Result<Labels, WireError> {
    let sorted: BTreeMap<&str, &str> = general
        .iter()
        .chain(specific)
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    at_most(sorted.len(), max, field)?;
    sorted
        .into_iter()
        .map(|(name, value)| Ok((some_text(name, field)?, text(value, field)?)))
        .collect()
}

pub(crate) fn labels_message(labels: &Labels) -> HashMap<String, String> {
    labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// A reference to an object that may be absent.
pub(crate) fn optional_resource(
    message: Option<&meta::Metadata>,
    field: &'static str,
) -> Result<Option<Resource>, WireError> {
    let Some(message) = message else { return Ok(None) };
    match message.kind.as_ref().ok_or(WireError::Missing(field))? {
        meta::metadata::Kind::Default(name) => Ok(Some(Resource::Default(some_text(name, field)?))),
        meta::metadata::Kind::Resource(resource) => Ok(Some(Resource::Object {
            group: text(&resource.group, field)?,
            kind: some_text(&resource.kind, field)?,
            namespace: text(&resource.namespace, field)?,
            name: some_text(&resource.name, field)?,
            section: text(&resource.section, field)?,
            port: u16::try_from(resource.port).map_err(|_| {
                WireError::invalid(field, format_args!("{} is not a port", resource.port))
            })?,
        })),
    }
}

pub(crate) fn resource(
    message: Option<&meta::Metadata>,
    field: &'static str,
) -> Result<Resource, WireError> {
    optional_resource(message, field)?.ok_or(WireError::Missing(field))
}

pub(crate) fn resource_message(resource: &Resource) -> meta::Metadata {
    let kind = match resource {
        Resource::Default(name) => meta::metadata::Kind::Default(name.to_string()),
        Resource::Object { group, kind, namespace, name, section, port } => {
            meta::metadata::Kind::Resource(meta::Resource {
                group: group.to_string(),
                kind: kind.to_string(),
                name: name.to_string(),
                namespace: namespace.to_string(),
                section: section.to_string(),
                port: u32::from(*port),
            })
        }
    };
    meta::Metadata { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for text in ["10.1.2.3:80", "[fd00::1:2]:65535", "[::ffff:10.0.0.1]:1"] {
            let expected: SocketAddr = text.parse().unwrap();
            assert_eq!(address(Some(&expected.into()), "addr"), Ok(expected));
        }
        let with_port = |port| net::TcpAddress { ip: Some(Ipv4Addr::LOCALHOST.into()), port };
        assert!(address(Some(&with_port(0)), "addr").is_err());
        assert!(address(Some(&with_port(65_616)), "addr").is_err(), "must not wrap to port 80");
        assert_eq!(address(None, "addr"), Err(WireError::Missing("addr")));
        let hollow = net::TcpAddress { ip: Some(net::IpAddress { ip: None }), port: 80 };
        assert_eq!(address(Some(&hollow), "addr"), Err(WireError::Missing("addr")));
    }

    #[test]
    fn networks() {
        for text in ["10.0.0.0/8", "::/0", "fd00::/128", "10.1.2.3/32"] {
            let expected: IpNet = text.parse().unwrap();
            assert_eq!(network(Some(&expected.into()), "net"), Ok(expected));
        }
        let wrong = net::IpNetwork { ip: Some(Ipv4Addr::LOCALHOST.into()), prefix_len: 33 };
        assert_eq!(
            network(Some(&wrong), "net").unwrap_err().to_string(),
            "net: 127.0.0.1/33 is not a valid network"
        );
    }

    #[test]
    fn durations() {
        let read = |seconds, nanos| {
            optional_duration(Some(&prost_types::Duration { seconds, nanos }), "timeout")
                .ok()
                .flatten()
        };
        assert_eq!(read(1, 500), Some(Duration::new(1, 500)));
        assert_eq!(read(315_576_000_000, 0), Some(Duration::from_secs(315_576_000_000)));
        assert_eq!(read(315_576_000_001, 0), None);
        assert_eq!(read(-1, 0), None);
        assert_eq!(read(1, -1), None);
        assert_eq!(read(1, 1_000_000_000), None);
        assert_eq!(duration_message(Duration::MAX).seconds, 315_576_000_000);
    }

    #[test]
    fn objects() {
        let whole = Resource::Object {
            group: "core".into(),
            kind: "Service".into(),
            namespace: "default".into(),
            name: "web".into(),
            section: "http".into(),
            port: 80,
        };
        for expected in [whole, Resource::default_named("all-unauthenticated")] {
            assert_eq!(resource(Some(&resource_message(&expected)), "metadata"), Ok(expected));
        }
        assert!(resource(None, "metadata").is_err());
        assert!(resource(Some(&meta::Metadata { kind: None }), "metadata").is_err());
        let nameless = Resource::object("core", "Service", "default", "");
        assert!(resource(Some(&resource_message(&nameless)), "metadata").is_err());
    }
}
