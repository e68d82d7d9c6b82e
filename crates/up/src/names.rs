//! DNS names as in a cluster: question to answer ([`Table::answer`], pure), and the messages around it.

pub mod server;

use crate::manifest::Key;
use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record, RecordType};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub const DOMAIN: &str = "cluster.local";
/// How long an answer may be kept: endpoints of headless Services change at any time.
const TTL_SECONDS: u32 = 5;

/// Addresses behind a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Of every family that the Service has.
    pub addresses: Vec<IpAddr>,
    /// Pods by host name, for `pod.service.namespace.svc`.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
}

/// Every name that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// By namespace and name of the Service.
    pub services: BTreeMap<Key, Named>,
}

/// What is known about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It exists, with these addresses of the family that was asked for, maybe none.
    Addresses(Vec<IpAddr>),
    /// It does not exist.
    Unknown,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A records.
    V4,
    /// AAAA records.
    V6,
    /// Another type, of which no name has any.
    Other,
}

impl Table {
    /// Answers a name without its last dot. A pod's search list makes `reviews` and `reviews.default` whole before they come here.
    #[must_use]
    pub fn answer(&self, name: &str, family: Family) -> Answer {
        let name = name.to_ascii_lowercase();
        let name = name.trim_end_matches('.');
        let Some(short) = name.strip_suffix(DOMAIN) else { return Answer::Unknown };
        let parts: Vec<&str> = short.split('.').filter(|part| !part.is_empty()).collect();
        let (host, service, namespace) = match parts.as_slice() {
            // Names on the way to a Service exist, without an address.
            [] | ["svc"] | [_, "svc"] => return Answer::Addresses(Vec::new()),
            [service, namespace, "svc"] => (None, *service, *namespace),
            [host, service, namespace, "svc"] => (Some(*host), *service, *namespace),
            _ => return Answer::Unknown,
        };
        let Some(named) = self.services.get(&(namespace.to_owned(), service.to_owned())) else {
            return Answer::Unknown;
        };
        let found = match host {
            None => Some(&named.addresses),
            Some(host) => named.hosts.get(host),
        };
        let Some(found) = found else { return Answer::Unknown };
        let is_asked = |address: &&IpAddr| match family {
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
            Family::Other => false,
        };
        Answer::Addresses(found.iter().filter(is_asked).copied().collect())
    }

    /// Answers a message; `None` when it is not a question that can be answered at all.
    #[must_use]
    pub fn reply(&self, request: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        let request = Message::from_vec(request).ok()?;
        if request.metadata.message_type != MessageType::Query {
            return None;
        }
        let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
        reply.metadata.recursion_desired = request.metadata.recursion_desired;
        reply.metadata.recursion_available = true;
        reply.metadata.authoritative = true;
        reply.queries.clone_from(&request.queries);
        let [query] = request.queries.as_slice() else {
            reply.metadata.response_code = ResponseCode::FormErr;
            return reply.to_vec().ok();
        };
        if request.metadata.op_code != OpCode::Query {
            reply.metadata.response_code = ResponseCode::NotImp;
            return reply.to_vec().ok();
        }
        let family = match query.query_type() {
            RecordType::A => Family::V4,
            RecordType::AAAA => Family::V6,
            _ => Family::Other,
        };
        match self.answer(&query.name().to_ascii(), family) {
            Answer::Addresses(addresses) => {
                for address in addresses {
                    let data = match address {
                        IpAddr::V4(v4) => RData::A(A(v4)),
                        IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
                    };
                    reply.add_answer(Record::from_rdata(query.name().clone(), TTL_SECONDS, data));
                }
            }
            Answer::Unknown => reply.metadata.response_code = ResponseCode::NXDomain,
        }
        let whole = reply.to_vec().ok()?;
        if whole.len() <= bytes_max { Some(whole) } else { reply.truncate().to_vec().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::op::Query;
    use hickory_proto::rr::Name;

    fn table() -> Table {
        let mut table = Table::default();
        let named = Named {
            addresses: ["10.96.0.20", "fd00:10:96::14"].map(|ip| ip.parse().unwrap()).into(),
            hosts: BTreeMap::from([("web-0".into(), vec![[10, 244, 0, 9].into()])]),
        };
        table.services.insert(("default".into(), "reviews".into()), named);
        table
    }

    #[test]
    fn names() {
        for (name, family, expected) in [
            ("reviews.default.svc.cluster.local", Family::V4, "10.96.0.20"),
            ("Reviews.Default.svc.cluster.local.", Family::V6, "fd00:10:96::14"),
            ("reviews.default.svc.cluster.local", Family::Other, ""),
            ("web-0.reviews.default.svc.cluster.local", Family::V4, "10.244.0.9"),
            ("web-0.reviews.default.svc.cluster.local", Family::V6, ""),
            ("web-1.reviews.default.svc.cluster.local", Family::V4, "unknown"),
            ("reviews.other.svc.cluster.local", Family::V4, "unknown"),
            ("default.svc.cluster.local", Family::V4, ""),
            ("reviews", Family::V4, "unknown"),
            ("example.com", Family::V4, "unknown"),
        ] {
            let answer = match table().answer(name, family) {
                Answer::Addresses(all) => {
                    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
                }
                Answer::Unknown => "unknown".to_owned(),
            };
            assert_eq!(answer, expected, "{name} {family:?}");
        }
    }

    #[test]
    fn messages() {
        let ask = |name: &str, bytes_max| {
            let mut message = Message::query();
            message.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
            let reply = table().reply(&message.to_vec().unwrap(), bytes_max).unwrap();
            let reply = Message::from_vec(&reply).unwrap();
            assert_eq!(reply.metadata.id, message.metadata.id);
            (reply.metadata.response_code, reply.answers.len(), reply.metadata.truncation)
        };
        assert_eq!(
            ask("reviews.default.svc.cluster.local.", 512),
            (ResponseCode::NoError, 1, false)
        );
        assert_eq!(ask("reviews.default.svc.cluster.local.", 60), (ResponseCode::NoError, 0, true));
        assert_eq!(ask("nothing.", 512), (ResponseCode::NXDomain, 0, false));
        assert_eq!(table().reply(b"short", 512), None);
    }
}
