//! What this machine lacks, each with what to do.

use crate::namespace;
use nix::sched::{CloneFlags, unshare};
use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The program or the feature of the kernel, in words.
    pub what: Cow<'static, str>,
    /// What is wrong, if anything.
    pub problem: Option<String>,
    /// What to do then.
    pub remedy: &'static str,
}

/// Looks at everything. Call from a process without other threads: it tries things in namespaces of its own, which end with it.
#[must_use]
pub fn run() -> Vec<Finding> {
    let root = nix::unistd::geteuid().is_root();
    let mut findings = vec![
        finding(
            "runs as root",
            if root { Ok(()) } else { Err(io::Error::other("namespaces need root")) },
            "sudo leno …",
        ),
        finding("ip (iproute2)", program("ip", "-V"), "apt-get install -y iproute2"),
        finding("nft (nftables)", program("nft", "--version"), "apt-get install -y nftables"),
    ];
    let namespaces = unshare(
        CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC,
    );
    let usable = namespaces.is_ok();
    findings.push(finding(
        "network, mount and process namespaces",
        namespaces.map_err(io::Error::from),
        "run as root; inside a container, start the container with --privileged",
    ));
    if usable {
        findings.push(finding(
            "veth interfaces",
            namespace::ip_batch("link add leno0 type veth peer name leno1\n"),
            "needs a kernel with CONFIG_VETH (modprobe veth)",
        ));
        findings.push(finding(
            "nftables redirect and destination NAT",
            namespace::feed("nft", &["-f", "-"], TRIAL_RULES),
            "needs a kernel with nf_tables and NAT (modprobe nft_redir nft_nat), and apt-get install -y nftables",
        ));
        findings.push(finding(
            "overlayfs",
            overlay(),
            "needs a kernel with overlayfs (modprobe overlay)",
        ));
        let ipv6 = namespace::has_ipv6();
        findings.push(finding(
            "IPv6",
            if ipv6 { Ok(()) } else { Err(io::Error::other("this kernel has IPv6 disabled")) },
            "boot without ipv6.disable=1; until then leno up uses only IPv4",
        ));
    }
    findings
}

const TRIAL_RULES: &str = "add table inet leno_check\n\
    add chain inet leno_check out { type nat hook output priority -100; }\n\
    add rule inet leno_check out meta skuid 2102 return\n\
    add rule inet leno_check out tcp dport 1 redirect to :4140\n\
    add rule inet leno_check out ip daddr 10.96.0.20 tcp dport 80 dnat ip to numgen random mod 2 map { 0 : 10.244.0.2 . 80, 1 : 10.244.0.3 . 80 }\n";

fn finding(what: &'static str, tried: io::Result<()>, remedy: &'static str) -> Finding {
    Finding { what: what.into(), problem: tried.err().map(|error| error.to_string()), remedy }
}

fn program(name: &str, argument: &str) -> io::Result<()> {
    let status = Command::new(name)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{name} fails"))) }
}

/// Tried on a tmpfs that only this process sees.
fn overlay() -> io::Result<()> {
    use nix::mount::{MsFlags, mount};
    let none = None::<&str>;
    let place = Path::new("/mnt");
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("leno"), place, Some("tmpfs"), MsFlags::empty(), none)?;
    for name in ["upper", "work", "root"] {
        std::fs::create_dir(place.join(name))?;
    }
    let options = "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work";
    Ok(mount(Some("leno"), &place.join("root"), Some("overlay"), MsFlags::empty(), Some(options))?)
}

/// The findings for a person.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        match &finding.problem {
            None => text.push_str(&format!("ok    {}\n", finding.what)),
            Some(problem) => text.push_str(&format!(
                "FAIL  {}: {problem}\n      do: {}\n",
                finding.what, finding.remedy
            )),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_says_what_to_do() {
        let lacking =
            finding("nft", Err(io::Error::other("not found")), "apt-get install -y nftables");
        assert_eq!(
            text(&[finding("ip", Ok(()), ""), lacking]),
            "ok    ip\nFAIL  nft: not found\n      do: apt-get install -y nftables\n"
        );
    }
}
