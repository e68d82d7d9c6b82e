//! Addresses and routes: a node that routes, and pods behind one veth pair each.
//!
//! Nothing is bridged: as on a cloud node, a pod has a `/32` and a `/128`, and the node a route to
//! each. Service addresses are answered by the node with DNAT, for clients without a proxy.

use crate::namespace::Namespace;
use anyhow::{Context as _, Result, ensure};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

/// The address of the node, where the control plane listens.
pub const NODE: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 1);
/// What pods have as their gateway; the same on every veth pair.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);

/// Both addresses of a pod or a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address.
    pub v6: Ipv6Addr,
}

impl Addresses {
    /// The addresses of the pod with this index.
    pub fn of_pod(index: u8) -> Self {
        Self {
            v4: Ipv4Addr::new(10, 77, 0, index),
            v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(index)),
        }
    }

    /// The addresses of the service with this index.
    pub fn of_service(index: u8) -> Self {
        Self {
            v4: Ipv4Addr::new(10, 78, 0, index),
            v6: Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, u16::from(index)),
        }
    }

    /// Both, IPv4 first.
    pub fn both(self) -> [IpAddr; 2] {
        [self.v4.into(), self.v6.into()]
    }
}

/// Makes the node: it routes, and has an address of its own.
///
/// # Errors
/// When the kernel or `ip` refuses.
pub fn node() -> Result<Namespace> {
    let node = Namespace::create("node")?;
    node.run(|| {
        ip(&format!("link set lo up\naddress add {NODE}/32 dev lo\n"))?;
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{key}"), "1")?;
        }
        anyhow::Ok(())
    })?;
    Ok(node)
}

/// Makes a pod's namespace and connects it with the node.
///
/// # Errors
/// When the kernel or `ip` refuses.
pub fn pod(node: &Namespace, name: &str, index: u8) -> Result<Namespace> {
    let pod = Namespace::create(name)?;
    let Addresses { v4, v6 } = Addresses::of_pod(index);
    let veth = format!("pod{index}");
    let id = pod.thread_id();
    node.run(|| {
        ip(&format!(
            "link add {veth} type veth peer name eth0 netns {id}\n\
             address add {GATEWAY}/32 dev {veth}\n\
             address add fe80::77/64 dev {veth} nodad\n\
             link set {veth} up\n"
        ))
    })?;
    pod.run(|| {
        ip(&format!(
            "link set lo up\nlink set eth0 up\n\
             address add {v4}/32 dev eth0\n\
             address add {v6}/128 dev eth0 nodad\n\
             route add {GATEWAY}/32 dev eth0 scope link\n\
             route add default via {GATEWAY} dev eth0 src {v4}\n\
             route add default via fe80::77 dev eth0 src {v6}\n"
        ))
    })?;
    node.run(|| ip(&format!("route add {v4}/32 dev {veth}\nroute add {v6}/128 dev {veth}\n")))?;
    Ok(pod)
}

/// Gives a pod one more address, and the node a route to it.
///
/// # Errors
/// When `ip` refuses.
pub fn add_address(node: &Namespace, pod: &Namespace, index: u8, address: IpAddr) -> Result<()> {
    let (bits, option) = if address.is_ipv4() { ("32", "") } else { ("128", "nodad") };
    pod.run(|| ip(&format!("address add {address}/{bits} dev eth0 {option}\n")))?;
    node.run(|| ip(&format!("route add {address} dev pod{index}\n")))
}

/// Tells the node which pod answers for which service address; the first call says it all.
///
/// # Errors
/// When `nft` refuses.
pub fn answer_services(node: &Namespace, pairs: &[(Addresses, Addresses)]) -> Result<()> {
    let mut rules = String::from("table inet services\ndelete table inet services\n");
    rules.push_str("table inet services {\n chain prerouting {\n");
    rules.push_str("  type nat hook prerouting priority dstnat;\n");
    for (service, pod) in pairs {
        rules.push_str(&format!("  ip daddr {} dnat ip to {}\n", service.v4, pod.v4));
        rules.push_str(&format!("  ip6 daddr {} dnat ip6 to {}\n", service.v6, pod.v6));
    }
    rules.push_str(" }\n}\n");
    node.run(|| feed("nft", &["-f", "-"], &rules))
}

/// Drops every attempt to open a connection to these ports that passes the node; open connections go on.
///
/// # Errors
/// When `nft` refuses.
pub fn drop_new_connections(node: &Namespace, ports: &[u16]) -> Result<()> {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let rules = format!(
        "table inet held {{\n chain prerouting {{\n  type filter hook prerouting priority filter;\n  \
         tcp dport {{ {} }} tcp flags & (syn|ack) == syn drop\n }}\n}}\n",
        ports.join(", ")
    );
    node.run(|| feed("nft", &["-f", "-"], &rules))
}

fn ip(batch: &str) -> Result<()> {
    feed("ip", &["-batch", "-"], batch)
}

fn feed(program: &str, arguments: &[&str], input: &str) -> Result<()> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {program} (Debian: iproute2, nftables)"))?;
    child.stdin.take().context("stdin is a pipe")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} refused:\n{input}\n{complaint}");
    Ok(())
}
