//! What is captured, as an nftables ruleset; a pure function of [`Settings`].
//!
//! **Inbound** (`prerouting`): every TCP connection that arrives from outside goes to the inbound port, except to
//! the skip ports and to our own ports. A connection straight to the inbound port (another proxy's opaque transport)
//! is left alone; redirecting it to where it already goes would give the same original destination.
//!
//! **Outbound** (`output`): every TCP connection that leaves goes to the outbound port, except
//! - the proxy's own, known by its user ID;
//! - everything to an address of this namespace (it leaves by `lo`): loopback, and also the pod's own address. A pod
//!   that calls its own address calls itself directly and in plain text. The same must hold when it calls its own
//!   Service and the proxy picks the pod itself: the proxy's connection to its own pod's address passes `lo`, where
//!   no rule hands it to the inbound port, so the outbound path connects in plain text to an endpoint on
//!   [`super::apply::own_addresses`];
//! - to port 53: names must resolve while the control plane is away. Linkerd captures DNS over TCP, where it
//!   then waits for discovery of the name server;
//! - to the skip ports and skip subnets.
//!
//! Only TCP; UDP and everything else pass untouched. One `inet` table serves IPv4 and IPv6.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::fmt::{self, Write};

/// Name servers.
const DNS_PORT: u16 = 53;
/// linkerd's tap port, kept free of redirection for what may listen there.
const TAP_PORT: u16 = 4190;

/// What the rules follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where inbound connections are redirected to.
    pub inbound_port: u16,
    /// Where outbound connections are redirected to.
    pub outbound_port: u16,
    /// Our admin listener: reached directly.
    pub admin_port: u16,
    /// The proxy's user ID.
    pub uid: u32,
    /// Inbound connections to these ports reach the application directly.
    pub skip_inbound_ports: Vec<PortRange>,
    /// Outbound connections to these ports leave directly.
    pub skip_outbound_ports: Vec<PortRange>,
    /// Outbound connections to these networks leave directly.
    pub skip_subnets: Vec<IpNet>,
}

/// Ports from first to last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Parses `25` and `1000-2000`.
    ///
    /// # Errors
    /// Neither form, port 0, or the last before the first.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!("{text:?}: a port or first-last")),
        }
    }

    /// One port.
    #[must_use]
    pub fn single(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// Whether the port is among them.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// Removes the table, whether it is there or not: `delete` alone fails where there is none.
pub const REMOVE: &str = "add table inet leno\ndelete table inet leno\n";

/// The whole ruleset as one transaction for `nft -f`; applying it again replaces it.
#[must_use]
pub fn ruleset(settings: &Settings) -> String {
    let Settings { inbound_port, outbound_port, admin_port, uid, .. } = settings;
    let own = [*inbound_port, *admin_port, TAP_PORT].map(PortRange::single);
    let mut text = String::from(REMOVE);
    text.push_str("table inet leno {\n\tchain inbound {\n");
    text.push_str("\t\ttype nat hook prerouting priority dstnat; policy accept;\n");
    text.push_str("\t\tiifname \"lo\" return\n");
    skip(&mut text, "tcp dport", &merged(&own));
    skip(&mut text, "tcp dport", &merged(&settings.skip_inbound_ports));
    let _ = writeln!(text, "\t\tmeta l4proto tcp redirect to :{inbound_port}\n\t}}");
    text.push_str("\tchain outbound {\n");
    // nft takes the name `dstnat` only at prerouting; this is its number.
    text.push_str("\t\ttype nat hook output priority -100; policy accept;\n");
    let _ = writeln!(text, "\t\tmeta skuid {uid} return");
    text.push_str("\t\toifname \"lo\" return\n");
    skip(&mut text, "tcp dport", &merged(&[PortRange::single(DNS_PORT)]));
    skip(&mut text, "tcp dport", &merged(&settings.skip_outbound_ports));
    let (v4, v6) = subnets(&settings.skip_subnets);
    skip(&mut text, "ip daddr", &v4);
    skip(&mut text, "ip6 daddr", &v6);
    let _ = writeln!(text, "\t\tmeta l4proto tcp redirect to :{outbound_port}\n\t}}\n}}");
    text
}

fn skip(text: &mut String, what: &str, values: &[impl fmt::Display]) {
    if values.is_empty() {
        return;
    }
    let list: Vec<String> = values.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "\t\t{what} {{ {} }} return", list.join(", "));
}

/// Sorted, without overlaps, which nft refuses in a set.
fn merged(ranges: &[PortRange]) -> Vec<PortRange> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<PortRange> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

fn subnets(nets: &[IpNet]) -> (Vec<Ipv4Net>, Vec<Ipv6Net>) {
    let mut v4 = Vec::new();
    let mut v6 = Vec::new();
    for net in nets {
        match net {
            IpNet::V4(net) => v4.push(net.trunc()),
            IpNet::V6(net) => v6.push(net.trunc()),
        }
    }
    (Ipv4Net::aggregate(&v4), Ipv6Net::aggregate(&v6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            inbound_port: 4143,
            outbound_port: 4140,
            admin_port: 4191,
            uid: 2102,
            skip_inbound_ports: Vec::new(),
            skip_outbound_ports: Vec::new(),
            skip_subnets: Vec::new(),
        }
    }

    #[test]
    fn the_whole_text() {
        let mut settings = settings();
        settings.skip_inbound_ports = vec![PortRange::parse("22").unwrap()];
        settings.skip_subnets = vec!["10.9.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let expected = r#"add table inet leno
delete table inet leno
table inet leno {
	chain inbound {
		type nat hook prerouting priority dstnat; policy accept;
		iifname "lo" return
		tcp dport { 4143, 4190-4191 } return
		tcp dport { 22 } return
		meta l4proto tcp redirect to :4143
	}
	chain outbound {
		type nat hook output priority -100; policy accept;
		meta skuid 2102 return
		oifname "lo" return
		tcp dport { 53 } return
		ip daddr { 10.9.0.0/16 } return
		ip6 daddr { fd00::/8 } return
		meta l4proto tcp redirect to :4140
	}
}
"#;
        assert_eq!(ruleset(&settings), expected);
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Settings), line: &str) {
        let mut settings = settings();
        change(&mut settings);
        let text = ruleset(&settings);
        assert!(text.lines().any(|have| have.trim() == line), "{line} in\n{text}");
    }

    #[test]
    fn lines() {
        let ports = |text: &str| -> Vec<PortRange> {
            text.split(',').map(|item| PortRange::parse(item).unwrap()).collect()
        };
        let nets = |text: &str| -> Vec<IpNet> {
            text.split(',').map(|item| item.parse().unwrap()).collect()
        };
        check(|s| s.uid = 0, "meta skuid 0 return");
        check(|s| s.inbound_port = 5143, "meta l4proto tcp redirect to :5143");
        check(|s| s.inbound_port = 5143, "tcp dport { 4190-4191, 5143 } return");
        check(|s| s.outbound_port = 5140, "meta l4proto tcp redirect to :5140");
        check(|s| s.admin_port = 9, "tcp dport { 9, 4143, 4190 } return");
        check(|s| s.skip_inbound_ports = ports("25,20-30,31"), "tcp dport { 20-31 } return");
        check(
            |s| s.skip_outbound_ports = ports("3306,1-2,65535"),
            "tcp dport { 1-2, 3306, 65535 } return",
        );
        check(
            |s| s.skip_subnets = nets("10.1.2.3/16,10.0.0.0/8,192.168.0.1/32"),
            "ip daddr { 10.0.0.0/8, 192.168.0.1/32 } return",
        );
        check(|s| s.skip_subnets = nets("::1/128"), "ip6 daddr { ::1/128 } return");
    }

    #[test]
    fn port_ranges() {
        let check = |text: &str, shown: Option<&str>| {
            assert_eq!(
                PortRange::parse(text).ok().map(|range| range.to_string()).as_deref(),
                shown
            );
        };
        check("25", Some("25"));
        check("1-65535", Some("1-65535"));
        check("7-7", Some("7"));
        check("0", None);
        check("2-1", None);
        check("65536", None);
        check("1-2-3", None);
        check("", None);
    }
}
