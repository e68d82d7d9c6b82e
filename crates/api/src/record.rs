//! What reached a workload: sums that its proxy sends to the control plane by Leno's own service `leno.v1.Record`.
//!
//! [`service`] is the method; [`to_messages`] and [`from_message`] convert. [`part`] is the sums that one replica gives another. Sums may be lost without harm: none is sent twice.

pub mod part;
pub mod service;

use crate::{WireError, parts};
use leno_model::limit::{DNS_NAME_BYTES_MAX, SPIFFE_ID_BYTES_MAX};
use leno_model::name::{PeerName, WorkloadId};
use leno_model::policy::PeerTls;
use leno_model::record::{Entry, Outcome, Request, Version, method};
use prost::Message as _;

/// Sums in one message.
pub const SUMS_MAX: usize = 256;
/// Bytes of one message, below the control plane's limit for requests.
const MESSAGE_BYTES_MAX: usize = 48 << 10;
/// Bytes of a folded path.
const PATH_BYTES_MAX: usize = 256;
/// Bytes of a rule in words: a kind, a namespace and a name.
pub const RULE_BYTES_MAX: usize = 512;
/// Seconds between two reports that a control plane may ask for.
pub const INTERVAL_SECONDS_MAX: u32 = 300;

/// What reached a workload since its proxy's last report.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SumsMessage {
    /// As in linkerd's requests.
    #[prost(string, tag = "1")]
    pub workload: String,
    /// One for each kind of traffic.
    #[prost(message, repeated, tag = "2")]
    pub sums: Vec<SumMessage>,
    /// Requests and connections for which the proxy had no room.
    #[prost(uint64, tag = "3")]
    pub lost: u64,
}

/// Traffic of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SumMessage {
    /// 0 is plain text, 1 TLS.
    #[prost(uint32, tag = "1")]
    pub tls: u32,
    /// The client's verified name; empty where it has none.
    #[prost(string, tag = "2")]
    pub client: String,
    /// As `10.0.0.0/24`.
    #[prost(string, tag = "3")]
    pub network: String,
    /// Of the workload.
    #[prost(uint32, tag = "4")]
    pub port: u32,
    /// Of HTTP; 0 for connections that are bytes.
    #[prost(uint32, tag = "5")]
    pub version: u32,
    /// Empty for bytes.
    #[prost(string, tag = "6")]
    pub method: String,
    /// Folded.
    #[prost(string, tag = "7")]
    pub path: String,
    /// 0 allowed, 1 audited, 2 denied, 3 no route.
    #[prost(uint32, tag = "8")]
    pub outcome: u32,
    /// The rule that decided, in words.
    #[prost(string, tag = "9")]
    pub rule: String,
    /// At least 1.
    #[prost(uint64, tag = "10")]
    pub count: u64,
}

/// The control plane has the sums.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AcknowledgedMessage {
    /// When it wants the next ones; 0 leaves it to the proxy.
    #[prost(uint32, tag = "1")]
    pub interval_seconds: u32,
}

/// What one message says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// The workload whose proxy sends it.
    pub workload: WorkloadId,
    /// Traffic, and how often.
    pub entries: Vec<(Entry, u64)>,
    /// What the proxy had no room for.
    pub lost: u64,
}

/// Messages for these sums, none of which is too large for the control plane.
#[must_use]
pub fn to_messages(
    workload: &WorkloadId,
    entries: impl IntoIterator<Item = (Entry, u64)>,
    lost: u64,
) -> Vec<SumsMessage> {
    let empty = |lost| SumsMessage { workload: workload.to_string(), sums: Vec::new(), lost };
    let (mut messages, mut bytes) = (vec![empty(lost)], 0);
    for (entry, count) in entries {
        let sum = sum(&entry, count);
        bytes += sum.encoded_len();
        let last = messages.last_mut().filter(|last| {
            last.sums.is_empty() || (bytes < MESSAGE_BYTES_MAX && last.sums.len() < SUMS_MAX)
        });
        match last {
            Some(last) => last.sums.push(sum),
            None => {
                bytes = sum.encoded_len();
                messages.push(SumsMessage { sums: vec![sum], ..empty(0) });
            }
        }
    }
    messages
}

fn sum(entry: &Entry, count: u64) -> SumMessage {
    let (tls, client) = match &entry.client {
        PeerTls::None => (0, String::new()),
        PeerTls::Established(name) => {
            (1, name.as_ref().map(PeerName::to_string).unwrap_or_default())
        }
    };
    let request = entry.request.as_ref();
    let text = |text: &str| text.to_owned();
    SumMessage {
        tls,
        client,
        network: entry.network.to_string(),
        port: u32::from(entry.port),
        version: request.map_or(0, |request| match request.version {
            Version::Http1 => 1,
            Version::Http2 => 2,
        }),
        method: request.map(|request| text(&request.method)).unwrap_or_default(),
        path: request.map(|request| text(&request.path)).unwrap_or_default(),
        outcome: entry.outcome as u32,
        rule: text(&entry.rule),
        count,
    }
}

/// Reads what a proxy sent.
///
/// # Errors
/// Names the field that is missing, malformed or too large.
pub fn from_message(message: &SumsMessage) -> Result<Sums, WireError> {
    let workload = WorkloadId::parse(&message.workload)
        .map_err(|error| WireError::invalid("workload", error))?;
    parts::at_most(message.sums.len(), SUMS_MAX, "sums")?;
    let entries = message.sums.iter().map(|sum| Ok((entry(sum)?, sum.count.max(1))));
    Ok(Sums { workload, entries: entries.collect::<Result<_, _>>()?, lost: message.lost })
}

fn entry(sum: &SumMessage) -> Result<Entry, WireError> {
    parts::at_most(sum.client.len(), SPIFFE_ID_BYTES_MAX.max(DNS_NAME_BYTES_MAX), "sums.client")?;
    let client = match (sum.tls, sum.client.as_str()) {
        (0, "") => PeerTls::None,
        (0, _) => return Err(WireError::invalid("sums.tls", "a client with a name uses TLS")),
        (_, "") => PeerTls::Established(None),
        (_, name) => {
            let name = PeerName::parse(name);
            PeerTls::Established(Some(name.map_err(|e| WireError::invalid("sums.client", e))?))
        }
    };
    let network = sum.network.parse::<ipnet::IpNet>();
    let network = network.map_err(|error| WireError::invalid("sums.network", error))?.trunc();
    let outcome = usize::try_from(sum.outcome).ok().and_then(|at| Outcome::ALL.get(at).copied());
    parts::at_most(sum.rule.len(), RULE_BYTES_MAX, "sums.rule")?;
    Ok(Entry {
        client,
        network,
        port: parts::port(sum.port, "sums.port")?,
        request: request(sum)?,
        outcome: outcome.ok_or_else(|| WireError::invalid("sums.outcome", sum.outcome))?,
        rule: sum.rule.as_str().into(),
    })
}

fn request(sum: &SumMessage) -> Result<Option<Request>, WireError> {
    let version = match sum.version {
        0 => return Ok(None),
        1 => Version::Http1,
        2 => Version::Http2,
        other => return Err(WireError::invalid("sums.version", other)),
    };
    parts::at_most(sum.path.len(), PATH_BYTES_MAX, "sums.path")?;
    let path = sum.path.as_str();
    let is_path = path.is_empty() || path.starts_with('/') || path == leno_model::record::REST;
    if !is_path || path.chars().any(char::is_control) {
        return Err(WireError::invalid("sums.path", "it does not begin with /"));
    }
    Ok(Some(Request { version, method: method(&sum.method).into(), path: path.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(client: &str, path: Option<&str>) -> Entry {
        let name = PeerName::parse(client).ok();
        let request = path.map(|path| Request {
            version: Version::Http2,
            method: "GET".into(),
            path: path.into(),
        });
        Entry {
            client: if client.is_empty() { PeerTls::None } else { PeerTls::Established(name) },
            network: "10.0.0.0/24".parse().unwrap(),
            port: 80,
            request,
            outcome: Outcome::NoRoute,
            rule: "AuthorizationPolicy shop/web".into(),
        }
    }

    #[test]
    fn sums_travel_in_messages_that_are_not_too_large() {
        let workload = WorkloadId::parse("shop:web-1").unwrap();
        let paths: Vec<String> = (0..2_000).map(|n| format!("/{n}/{}", "x".repeat(150))).collect();
        let mut entries: Vec<_> =
            paths.iter().map(|path| (entry("spiffe://td/ns/a/sa/b", Some(path)), 3)).collect();
        entries.push((entry("", None), 1));
        let messages = to_messages(&workload, entries.clone(), 7);
        assert!(messages.iter().all(|message| message.encoded_len() < 64 << 10));
        let read: Vec<Sums> = messages.iter().map(|one| from_message(one).unwrap()).collect();
        assert_eq!(read.iter().map(|one| one.lost).sum::<u64>(), 7);
        assert!(read.iter().all(|one| one.workload == workload));
        let all: Vec<_> = read.into_iter().flat_map(|one| one.entries).collect();
        assert_eq!(all, entries);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = sum(&entry("", Some("/")), 1);
        let check = |change: fn(&mut SumMessage), expected: &str| {
            let mut wrong = good.clone();
            change(&mut wrong);
            let workload = "shop:web-1".to_owned();
            let message = SumsMessage { workload, sums: vec![wrong], lost: 0 };
            let error = from_message(&message).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(|sum| sum.client = "spiffe://td/a".into(), "sums.tls");
        check(|sum| (sum.tls, sum.client) = (1, "?".into()), "sums.client");
        check(|sum| sum.network = "10.0.0.0/33".into(), "sums.network");
        check(|sum| sum.port = 0, "sums.port");
        check(|sum| sum.version = 3, "sums.version");
        check(|sum| sum.path = "x".into(), "sums.path");
        check(|sum| sum.path = "/\n".into(), "sums.path");
        check(|sum| sum.path = "/x".repeat(200), "sums.path");
        check(|sum| sum.outcome = 4, "sums.outcome");
        check(|sum| sum.rule = "x".repeat(600), "sums.rule");
    }
}
