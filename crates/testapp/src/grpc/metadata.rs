//! What came with a call besides its messages: deadline and metadata.

use super::message::Metadata;
use super::status::unbase64;
use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use std::time::Duration;
use tokio::time::Instant;

/// The headers of a call, read.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) deadline: Option<Instant>,
    /// What the deadline left when the call arrived.
    pub(crate) left_microseconds: u64,
    pub(crate) metadata: Vec<Metadata>,
    /// To be sent back before the first message.
    pub(crate) initial: HeaderMap,
    /// To be sent back behind the last one.
    pub(crate) trailing: HeaderMap,
}

/// These come back as they are; the names are those of the gRPC interoperability tests.
const ECHO_INITIAL: &str = "x-grpc-test-echo-initial";
const ECHO_TRAILING: &str = "x-grpc-test-echo-trailing-bin";

impl Sent {
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let mut sent = Self::default();
        if let Some(left) = headers.get("grpc-timeout").and_then(|v| timeout(v.to_str().ok()?)) {
            sent.deadline = Some(Instant::now() + left);
            sent.left_microseconds = u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
        }
        for (name, value) in headers {
            match name.as_str() {
                ECHO_INITIAL => drop(sent.initial.append(name, value.clone())),
                ECHO_TRAILING => drop(sent.trailing.append(name, value.clone())),
                _ => {}
            }
            if is_custom(name) {
                let value = if name.as_str().ends_with("-bin") {
                    Bytes::from(unbase64(value.as_bytes()))
                } else {
                    Bytes::copy_from_slice(value.as_bytes())
                };
                sent.metadata.push(Metadata { name: name.to_string(), value });
            }
        }
        sent
    }
}

/// Not of the protocol itself.
fn is_custom(name: &HeaderName) -> bool {
    let name = name.as_str();
    let of_protocol = ["content-type", "te", "user-agent", "host", "content-length"];
    !of_protocol.contains(&name) && (!name.starts_with("grpc-") || name.ends_with("-bin"))
}

/// `grpc-timeout`: up to eight digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts() {
        check("20m", Some(Duration::from_millis(20)));
        check("1H", Some(Duration::from_hours(1)));
        check("99999999S", Some(Duration::from_secs(99_999_999)));
        check("123456789u", None);
        check("S", None);
        check("", None);
        check("5x", None);
    }

    #[track_caller]
    fn check(text: &str, expected: Option<Duration>) {
        assert_eq!(timeout(text), expected);
    }
}
