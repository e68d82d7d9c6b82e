//! Rules that a sidecar adds before Leno's capture rules, for proxies that cannot tell by themselves what they were handed: TLS from
//! plain text (`HAProxy`, nginx), HTTP from other protocols (`HAProxy`), or where the connection was going (nginx). Pure.
//!
//! They only choose among the proxy's own listeners; what is captured at all is decided by the same rules for every mesh.
//! A chain of a lower priority comes first, and the first redirection of a connection is the one that holds.

use std::fmt::Write as _;
use std::net::IpAddr;

/// The user whose connections are not captured: the proxy's own.
pub const PROXY_USER: u32 = 2102;
/// Where Leno's rules send what leaves the pod.
pub const OUTBOUND_PORT: u16 = 4140;
/// Where Leno's rules send what arrives.
pub const INBOUND_PORT: u16 = 4143;
/// Where readiness is asked for.
pub const READY_PORT: u16 = 4191;
/// Removes the table, whether it is there or not.
const TABLE: &str = "add table inet leno_bench\ndelete table inet leno_bench\n";

/// What arrives at this port of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arriving {
    /// The application's port; all others where there is none.
    pub port: Option<u16>,
    /// Listener for what comes from pods with a sidecar, with TLS.
    pub with_tls: u16,
    /// Listener for what comes from elsewhere, in plain text.
    pub plain: u16,
    /// The same over IPv6, which sidecars never use among themselves; nothing where IPv6 is not passed on.
    pub plain_v6: Option<u16>,
}

/// What leaves to this address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Address and port; everything else of IPv4 where there is none.
    pub to: Option<(IpAddr, u16)>,
    pub listener: u16,
}

/// All of it. The first that fits holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirects {
    /// What arrives.
    pub arriving: Vec<Arriving>,
    /// What arrives at any other port reaches the application untouched.
    pub rest_passes: bool,
    /// What leaves.
    pub leaving: Vec<Leaving>,
    /// Addresses of pods with a sidecar.
    pub meshed: Vec<IpAddr>,
    /// Ports that pass untouched when something arrives at them, as annotated (`25,100-200`).
    pub skip_arriving: String,
    /// Ports that pass untouched when something leaves to them.
    pub skip_leaving: String,
    /// Networks that pass untouched when something leaves to them.
    pub skip_subnets: String,
}

impl Redirects {
    /// The whole table as one transaction for `nft -f`; applying it again replaces it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from(TABLE);
        if self.arriving.is_empty() && self.leaving.is_empty() {
            return text;
        }
        text.push_str("table inet leno_bench {\n");
        text.push_str(
            "\tchain inbound {\n\t\ttype nat hook prerouting priority -101; policy accept;\n",
        );
        text.push_str("\t\tiifname \"lo\" return\n");
        let _ = writeln!(text, "\t\ttcp dport {{ {INBOUND_PORT}, 4190, {READY_PORT} }} return");
        skip(&mut text, &self.skip_arriving);
        let meshed = self.meshed.iter().filter(|address| address.is_ipv4());
        for arriving in &self.arriving {
            let port = arriving
                .port
                .map_or("meta l4proto tcp".to_owned(), |port| format!("tcp dport {port}"));
            if let Some(listener) = arriving.plain_v6 {
                let _ = writeln!(text, "\t\tmeta nfproto ipv6 {port} redirect to :{listener}");
            }
            let sources: Vec<String> = meshed.clone().map(ToString::to_string).collect();
            if !sources.is_empty() {
                let from = sources.join(", ");
                let listener = arriving.with_tls;
                let _ = writeln!(text, "\t\tip saddr {{ {from} }} {port} redirect to :{listener}");
            }
            let plain = arriving.plain;
            let _ = writeln!(text, "\t\tmeta nfproto ipv4 {port} redirect to :{plain}");
        }
        if self.rest_passes {
            // To the port that it was going to: a redirection all the same, so that the capture rules make no other.
            text.push_str("\t\tmeta l4proto tcp redirect\n");
        }
        text.push_str(
            "\t}\n\tchain outbound {\n\t\ttype nat hook output priority -101; policy accept;\n",
        );
        let _ = writeln!(text, "\t\tmeta skuid {PROXY_USER} return\n\t\toifname \"lo\" return");
        // As Leno's rules: names must resolve.
        text.push_str("\t\ttcp dport 53 return\n");
        skip(&mut text, &self.skip_leaving);
        for subnet in parts(&self.skip_subnets) {
            let family = if subnet.contains(':') { "ip6" } else { "ip" };
            let _ = writeln!(text, "\t\t{family} daddr {subnet} return");
        }
        for leaving in &self.leaving {
            let to = match leaving.to {
                None => "meta nfproto ipv4 meta l4proto tcp".to_owned(),
                Some((IpAddr::V4(address), port)) => format!("ip daddr {address} tcp dport {port}"),
                Some((IpAddr::V6(address), port)) => {
                    format!("ip6 daddr {address} tcp dport {port}")
                }
            };
            let _ = writeln!(text, "\t\t{to} redirect to :{}", leaving.listener);
        }
        text.push_str("\t}\n}\n");
        text
    }
}

fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn skip(text: &mut String, ports: &str) {
    let ports: Vec<&str> = parts(ports).collect();
    if !ports.is_empty() {
        let _ = writeln!(text, "\t\ttcp dport {{ {} }} return", ports.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_add_removes_what_was_added() {
        assert_eq!(Redirects::default().text(), TABLE);
    }

    #[test]
    fn the_whole_text() {
        let redirects = Redirects {
            arriving: vec![
                Arriving { port: Some(8080), with_tls: 25001, plain: 26001, plain_v6: Some(27001) },
                Arriving { port: None, with_tls: 4143, plain: 4144, plain_v6: None },
            ],
            leaving: vec![
                Leaving { to: Some(("10.96.0.11".parse().unwrap(), 80)), listener: 24001 },
                Leaving { to: Some(("fd00:10:96::b".parse().unwrap(), 80)), listener: 24001 },
                Leaving { to: None, listener: 4138 },
            ],
            rest_passes: false,
            meshed: vec!["10.244.0.2".parse().unwrap(), "fd00:10:244::2".parse().unwrap()],
            skip_arriving: "22, 100-200".to_owned(),
            skip_leaving: String::new(),
            skip_subnets: "10.9.0.0/16,fd00:9::/32".to_owned(),
        };
        let expected = r#"add table inet leno_bench
delete table inet leno_bench
table inet leno_bench {
	chain inbound {
		type nat hook prerouting priority -101; policy accept;
		iifname "lo" return
		tcp dport { 4143, 4190, 4191 } return
		tcp dport { 22, 100-200 } return
		meta nfproto ipv6 tcp dport 8080 redirect to :27001
		ip saddr { 10.244.0.2 } tcp dport 8080 redirect to :25001
		meta nfproto ipv4 tcp dport 8080 redirect to :26001
		ip saddr { 10.244.0.2 } meta l4proto tcp redirect to :4143
		meta nfproto ipv4 meta l4proto tcp redirect to :4144
	}
	chain outbound {
		type nat hook output priority -101; policy accept;
		meta skuid 2102 return
		oifname "lo" return
		tcp dport 53 return
		ip daddr 10.9.0.0/16 return
		ip6 daddr fd00:9::/32 return
		ip daddr 10.96.0.11 tcp dport 80 redirect to :24001
		ip6 daddr fd00:10:96::b tcp dport 80 redirect to :24001
		meta nfproto ipv4 meta l4proto tcp redirect to :4138
	}
}
"#;
        assert_eq!(redirects.text(), expected);
        let passes = Redirects { rest_passes: true, ..redirects }.text();
        let rule = "redirect to :4144\n\t\tmeta l4proto tcp redirect\n\t}\n";
        assert!(passes.contains(rule), "{passes}");
    }
}
