//! The rules into the kernel of the current network namespace, and out again.
//!
//! Runs before the proxy, as root; the proxy itself needs no capability. No other program is needed.

use super::netlink;
use super::rules::Settings;
use crate::config::Raw;
use nix::errno::Errno;
use std::io;
use std::net::IpAddr;

/// The pod's own addresses, and its node's, with commas between. They are not among the proxy's variables: `leno-init` alone has them.
const POD_IPS: &str = "LENO_POD_IPS";
const HOST_IPS: &str = "LENO_HOST_IPS";

/// Why the rules are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The kernel says no.
    #[error("the kernel rejected the rules: {error}{hint}")]
    Refused {
        /// What it said.
        error: io::Error,
        /// What to do about it, or empty.
        hint: &'static str,
    },
    /// They would be those of a whole node.
    #[error(
        "{0} is an address of the node and of the pod (hostNetwork): the rules would capture the node's traffic, so none were installed"
    )]
    Host(IpAddr),
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        let hint = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EPERM | Errno::EACCES) => {
                "; run it as root (CAP_NET_ADMIN) inside the pod's network namespace"
            }
            Some(
                Errno::ENOENT | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT,
            ) => {
                "; the kernel needs nf_tables with NAT for inet (nft_chain_nat, nft_redir; Linux 5.2 or later)"
            }
            _ => "",
        };
        Self::Refused { error, hint }
    }
}

/// Refuses to work in the network of a node: rules there would take the node's own traffic, the kubelet's with it, and outlive the pod. The
/// injector refuses such a pod, but `hostNetwork` may be written into manifests afterwards. Where nobody says the addresses nothing is known.
///
/// # Errors
/// An address is the pod's and the node's.
pub fn refuse_host(raw: &Raw) -> Result<(), CaptureError> {
    let addresses = |name: &str| {
        let text = raw.0.get(name).map_or("", String::as_str);
        let read = text.split(',').filter_map(|one| one.trim().parse::<IpAddr>().ok());
        read.map(|ip| ip.to_canonical()).collect::<Vec<_>>()
    };
    let node = addresses(HOST_IPS);
    match addresses(POD_IPS).into_iter().find(|ip| node.contains(ip)) {
        Some(ip) => Err(CaptureError::Host(ip)),
        None => Ok(()),
    }
}

/// Applies the rules in one transaction; again is harmless.
///
/// # Errors
/// The kernel refuses; nothing was changed then.
pub fn apply(settings: &Settings) -> Result<(), CaptureError> {
    Ok(netlink::install(settings)?)
}

/// Removes every rule of ours; harmless where there is none.
///
/// # Errors
/// The kernel refuses; nothing was changed then.
pub fn remove() -> Result<(), CaptureError> {
    Ok(netlink::remove()?)
}

/// The addresses of this network namespace. Connections to them never pass the rules, so an endpoint among them is
/// reached in plain text (see [`super::rules`]).
///
/// # Errors
/// The kernel does not list them.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = nix::ifaddrs::getifaddrs()?
        .filter_map(|interface| interface.address)
        .filter_map(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::super::rules::ruleset;
    use super::*;
    use crate::config::{Raw, capture_settings};
    use nix::sched::{CloneFlags, unshare};
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    /// Runs in a network namespace of its own, which ends with the thread.
    fn in_own_namespace<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        assert!(
            nix::unistd::geteuid().is_root(),
            "this test changes a network namespace of its own: run it as root"
        );
        let thread = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        thread.join().unwrap()
    }

    fn settings() -> Settings {
        capture_settings(&Raw::from([
            ("LENO_PROXY_SKIP_INBOUND_PORTS", "22,1000-2000"),
            ("LENO_PROXY_SKIP_OUTBOUND_PORTS", "25,20-30"),
            ("LENO_PROXY_SKIP_SUBNETS", "10.0.0.0/8,10.1.0.0/16,fd00::/8"),
        ]))
        .unwrap()
    }

    /// What `nft` lists, given this text first.
    fn listed(text: &str) -> String {
        let mut child =
            Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
        let output = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Every rule by itself, as `nft` lists it; sets are taken apart.
    fn rules(listed: &str) -> Vec<String> {
        let mut rules = Vec::new();
        for line in listed.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line
                .split_once("{ ")
                .and_then(|(what, set)| Some((what, set.strip_suffix(" } return")?)))
            {
                Some((what, set)) => {
                    rules.extend(set.split(", ").map(|one| format!("{what}{one} return")))
                }
                None => rules.push(line.to_owned()),
            }
        }
        // One port may be listed as a range of one.
        rules
            .iter()
            .map(|rule| {
                let words = rule.split(' ').map(|word| match word.split_once('-') {
                    Some((first, last)) if first == last => first.to_owned(),
                    _ => word.to_owned(),
                });
                words.collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    #[test]
    fn applies_twice_and_removes_completely() {
        in_own_namespace(|| {
            remove().unwrap();
            apply(&settings()).unwrap();
            let once = listed("");
            apply(&settings()).unwrap();
            assert_eq!(listed(""), once, "twice is once");
            assert_eq!(once.matches("redirect to").count(), 2, "{once}");
            remove().unwrap();
            remove().unwrap();
            assert_eq!(listed("").trim(), "", "nothing is left");
        });
    }

    #[test]
    fn the_text_says_what_is_applied() {
        in_own_namespace(|| {
            apply(&settings()).unwrap();
            let applied = listed("");
            remove().unwrap();
            assert_eq!(rules(&applied), rules(&listed(&ruleset(&settings()))));
        });
    }

    #[test]
    fn many_ranges_are_one_transaction() {
        in_own_namespace(|| {
            let ports: Vec<String> = (1..30_000).step_by(10).map(|port| port.to_string()).collect();
            let raw = Raw::from([("LENO_PROXY_SKIP_OUTBOUND_PORTS", ports.join(",").as_str())]);
            apply(&capture_settings(&raw).unwrap()).unwrap();
            assert_eq!(listed("").matches("return").count(), 3000 + 6);
        });
    }

    #[test]
    fn the_network_of_a_node_is_refused() {
        let check = |pod: Option<&str>, node: Option<&str>, expected: Option<&str>| {
            let pairs = [("LENO_POD_IPS", pod), ("LENO_HOST_IPS", node)];
            let said =
                pairs.into_iter().filter_map(|(name, text)| Some((name.into(), text?.into())));
            let refused = refuse_host(&Raw(said.collect())).err().map(|error| error.to_string());
            assert_eq!(
                refused.as_deref().and_then(|text| text.split(' ').next()),
                expected,
                "{pod:?} on {node:?}"
            );
        };
        check(Some("10.1.0.5"), Some("192.0.2.1"), None);
        check(Some("10.1.0.5,fd00::5"), Some("192.0.2.1,fd01::1"), None);
        check(Some("192.0.2.1"), Some("192.0.2.1"), Some("192.0.2.1"));
        check(Some("192.0.2.1,fd01::1"), Some("fd01::1, 192.0.2.1"), Some("192.0.2.1"));
        check(Some("fd01:0::1"), Some("192.0.2.1,fd01::1"), Some("fd01::1"));
        // `leno up` says neither, and an old kubelet says one of them without a word in it.
        check(None, None, None);
        check(None, Some("192.0.2.1"), None);
        check(Some("192.0.2.1"), None, None);
        check(Some(""), Some(""), None);
        check(Some(""), Some("192.0.2.1"), None);
    }

    #[test]
    fn own_addresses_have_loopback() {
        assert!(own_addresses().unwrap().contains(&IpAddr::from([127, 0, 0, 1])));
    }
}
