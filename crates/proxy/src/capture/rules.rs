//! What is captured, as nftables rules; a pure function of [`Settings`]. [`super::netlink`] gives them to the kernel.
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
            _ => Err(format!("{text:?} is not a port or FIRST-LAST")),
        }
    }

    /// The first of them.
    #[must_use]
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The last of them.
    #[must_use]
    pub fn last(&self) -> u16 {
        self.last
    }

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

/// The table of ours, of family `inet`.
pub const TABLE: &str = "leno";

/// Where a chain hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// What arrives.
    Prerouting,
    /// What leaves.
    Output,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub name: &'static str,
    /// Where it hangs.
    pub hook: Hook,
    /// The first rule that fits decides.
    pub rules: Vec<Rule>,
}

/// A rule. All but the last of a chain leave alone what they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What arrives or leaves by `lo`.
    Loopback(Hook),
    /// What this user sends.
    User(u32),
    /// TCP to these ports, which do not overlap.
    Ports(Vec<PortRange>),
    /// To these networks.
    Ipv4(Vec<Ipv4Net>),
    /// To these networks.
    Ipv6(Vec<Ipv6Net>),
    /// All TCP that is left, to this port of ours.
    Redirect(u16),
}

/// The rules.
#[must_use]
pub fn chains(settings: &Settings) -> [Chain; 2] {
    let Settings { inbound_port, outbound_port, admin_port, uid, .. } = settings;
    let own = [*inbound_port, *admin_port].map(PortRange::single);
    let (v4, v6) = subnets(&settings.skip_subnets);
    let inbound = vec![
        Rule::Loopback(Hook::Prerouting),
        Rule::Ports(merged(&own)),
        Rule::Ports(merged(&settings.skip_inbound_ports)),
        Rule::Redirect(*inbound_port),
    ];
    let outbound = vec![
        Rule::User(*uid),
        Rule::Loopback(Hook::Output),
        Rule::Ports(merged(&[PortRange::single(DNS_PORT)])),
        Rule::Ports(merged(&settings.skip_outbound_ports)),
        Rule::Ipv4(v4),
        Rule::Ipv6(v6),
        Rule::Redirect(*outbound_port),
    ];
    [
        Chain { name: "inbound", hook: Hook::Prerouting, rules: inbound },
        Chain { name: "outbound", hook: Hook::Output, rules: outbound },
    ]
}

/// The rules as `nft -f` takes them, for people; applying them again replaces them.
#[must_use]
pub fn ruleset(settings: &Settings) -> String {
    // `delete` alone fails where there is no table.
    let mut text =
        format!("add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n");
    for Chain { name, hook, rules } in chains(settings) {
        // nft takes the name `dstnat` only at prerouting; -100 is its number.
        let place = match hook {
            Hook::Prerouting => "prerouting priority dstnat",
            Hook::Output => "output priority -100",
        };
        let _ = writeln!(text, "\tchain {name} {{\n\t\ttype nat hook {place}; policy accept;");
        for rule in &rules {
            write_rule(&mut text, rule);
        }
        text.push_str("\t}\n");
    }
    text.push_str("}\n");
    text
}

fn write_rule(text: &mut String, rule: &Rule) {
    let _ = match rule {
        Rule::Loopback(Hook::Prerouting) => writeln!(text, "\t\tiifname \"lo\" return"),
        Rule::Loopback(Hook::Output) => writeln!(text, "\t\toifname \"lo\" return"),
        Rule::User(user) => writeln!(text, "\t\tmeta skuid {user} return"),
        Rule::Redirect(port) => writeln!(text, "\t\tmeta l4proto tcp redirect to :{port}"),
        Rule::Ports(ports) => return skip(text, "tcp dport", ports),
        Rule::Ipv4(nets) => return skip(text, "ip daddr", nets),
        Rule::Ipv6(nets) => return skip(text, "ip6 daddr", nets),
    };
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
		tcp dport { 4143, 4191 } return
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
        check(|s| s.inbound_port = 5143, "tcp dport { 4191, 5143 } return");
        check(|s| s.outbound_port = 5140, "meta l4proto tcp redirect to :5140");
        check(|s| s.admin_port = 9, "tcp dport { 9, 4143 } return");
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
