//! Service addresses: what kube-proxy does, as one nftables table of the node. Settings to text; pure.
//!
//! A connection to a Service address goes to a ready endpoint at random. A Service without one needs no rule: the address is
//! local to the node ([`crate::namespace::node_batch`]), where nothing listens, so the kernel answers with a reset.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

/// One port of a Service at one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Forward {
    /// The Service's address.
    pub address: IpAddr,
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Ready endpoints, of the same family.
    pub endpoints: Vec<SocketAddr>,
}

/// The transaction that replaces all rules at once; connections that exist are not touched.
#[must_use]
pub fn text(forwards: &[Forward]) -> String {
    let mut text = String::from(
        "add table inet leno_services\n\
         add chain inet leno_services prerouting { type nat hook prerouting priority -100; }\n\
         add chain inet leno_services output { type nat hook output priority -100; }\n\
         add chain inet leno_services postrouting { type nat hook postrouting priority 100; }\n\
         add chain inet leno_services services\n\
         flush table inet leno_services\n\
         add rule inet leno_services prerouting jump services\n\
         add rule inet leno_services output jump services\n",
    );
    let mut own = std::collections::BTreeSet::new();
    for forward in forwards.iter().filter(|forward| !forward.endpoints.is_empty()) {
        let family = if forward.address.is_ipv4() { "ip" } else { "ip6" };
        let _ = write!(
            text,
            "add rule inet leno_services services {family} daddr {} {} dport {} dnat {family} to ",
            forward.address, forward.protocol, forward.port
        );
        match forward.endpoints.as_slice() {
            [only] => {
                let _ = writeln!(text, "{only}");
            }
            many => {
                let _ = write!(text, "numgen random mod {} map {{ ", many.len());
                for (number, endpoint) in many.iter().enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    let _ =
                        write!(text, "{comma}{number} : {} . {}", endpoint.ip(), endpoint.port());
                }
                text.push_str(" }\n");
            }
        }
        own.extend(forward.endpoints.iter().map(SocketAddr::ip));
    }
    // A pod that reaches itself by way of a Service must see another source, or it would drop its own packets.
    for address in own {
        let (family, node) = match address {
            IpAddr::V4(_) => ("ip", IpAddr::from(crate::address::NODE_V4)),
            IpAddr::V6(_) => ("ip6", IpAddr::from(crate::address::NODE_V6)),
        };
        let _ = writeln!(
            text,
            "add rule inet leno_services postrouting {family} saddr {address} {family} daddr {address} snat {family} to {node}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, endpoints: &[&str], expected: &[&str]) {
        let endpoints = endpoints.iter().map(|endpoint| endpoint.parse().unwrap()).collect();
        let protocol = "tcp".to_owned();
        let text =
            text(&[Forward { address: address.parse().unwrap(), port: 80, protocol, endpoints }]);
        let rules: Vec<&str> = text
            .lines()
            .skip(8)
            .map(|line| line.strip_prefix("add rule inet leno_services ").unwrap())
            .collect();
        assert_eq!(rules, expected);
    }

    #[test]
    fn rules() {
        check("10.96.0.20", &[], &[]);
        check(
            "10.96.0.20",
            &["10.244.0.2:8080"],
            &[
                "services ip daddr 10.96.0.20 tcp dport 80 dnat ip to 10.244.0.2:8080",
                "postrouting ip saddr 10.244.0.2 ip daddr 10.244.0.2 snat ip to 10.244.0.1",
            ],
        );
        check(
            "fd00:10:96::20",
            &["[fd00:10:244::2]:1", "[fd00:10:244::3]:2"],
            &[
                "services ip6 daddr fd00:10:96::20 tcp dport 80 dnat ip6 to numgen random mod 2 map { 0 : fd00:10:244::2 . 1, 1 : fd00:10:244::3 . 2 }",
                "postrouting ip6 saddr fd00:10:244::2 ip6 daddr fd00:10:244::2 snat ip6 to fd00:10:244::1",
                "postrouting ip6 saddr fd00:10:244::3 ip6 daddr fd00:10:244::3 snat ip6 to fd00:10:244::1",
            ],
        );
    }
}
