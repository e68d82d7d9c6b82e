//! The rules into the kernel of the current network namespace, and out again, by `nft`.
//!
//! Runs before the proxy, as root; the proxy itself needs no capability.

use super::rules::{REMOVE, Settings, ruleset};
use std::io::{self, Write};
use std::net::IpAddr;
use std::process::{Command, Output, Stdio};

/// Why the rules are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no `nft`.
    #[error("nft is not installed; on Debian: apt-get install nftables")]
    NotInstalled,
    /// It could not be run.
    #[error("nft could not be run: {0}")]
    Run(#[from] io::Error),
    /// It refused.
    #[error("nft refused ({status}): {text}{hint}")]
    Refused {
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        text: String,
        /// What to do about it, or empty.
        hint: &'static str,
    },
}

/// Applies the rules in one transaction; again is harmless.
///
/// # Errors
/// `nft` is absent or refuses; nothing was changed then.
pub fn apply(settings: &Settings) -> Result<(), CaptureError> {
    nft(&["-f", "-"], &ruleset(settings)).map(drop)
}

/// Removes every rule of ours; harmless where there is none.
///
/// # Errors
/// `nft` is absent or refuses; nothing was changed then.
pub fn remove() -> Result<(), CaptureError> {
    nft(&["-f", "-"], REMOVE).map(drop)
}

/// The rules of ours that are in force, as `nft` lists them; `None` where there are none.
///
/// # Errors
/// `nft` is absent or refuses.
pub fn applied() -> Result<Option<String>, CaptureError> {
    let tables = nft(&["list", "tables", "inet"], "")?;
    if !tables.lines().any(|line| line.trim() == "table inet leno") {
        return Ok(None);
    }
    nft(&["list", "table", "inet", "leno"], "").map(Some)
}

/// The addresses of this network namespace. Connections to them never pass the rules, so an endpoint among them is
/// reached in plain text (see [`super::rules`]).
///
/// # Errors
/// The kernel does not tell.
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

/// Runs `nft`, gives it the text, answers what it prints.
fn nft(arguments: &[&str], text: &str) -> Result<String, CaptureError> {
    let spawned = Command::new("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CaptureError::NotInstalled);
        }
        spawned => spawned?,
    };
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends before it has read all says why on stderr, which is more than a broken pipe does.
        let _ = stdin.write_all(text.as_bytes());
    }
    let Output { status, stdout, stderr } = child.wait_with_output()?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&stderr).trim().to_owned();
    let hint = if text.contains("not permitted") || text.contains("must be root") {
        "; run it as root (CAP_NET_ADMIN) inside the pod's network namespace"
    } else if text.contains("No such file") || text.contains("not supported") {
        "; the kernel needs nf_tables with NAT for inet (nft_chain_nat, nft_redir; Linux 5.2 or later)"
    } else {
        ""
    };
    Err(CaptureError::Refused { status, text, hint })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, unshare};

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
        use crate::config::{Raw, capture_settings};
        capture_settings(&Raw::from([
            ("LENO_PROXY_SKIP_INBOUND_PORTS", "22,1000-2000"),
            ("LENO_PROXY_SKIP_OUTBOUND_PORTS", "25,20-30"),
            ("LENO_PROXY_SKIP_SUBNETS", "10.0.0.0/8,10.1.0.0/16,fd00::/8"),
        ]))
        .unwrap()
    }

    #[test]
    fn applies_twice_and_removes_completely() {
        in_own_namespace(|| {
            assert_eq!(applied().unwrap(), None);
            remove().unwrap();
            apply(&settings()).unwrap();
            let once = applied().unwrap().unwrap();
            apply(&settings()).unwrap();
            assert_eq!(applied().unwrap().unwrap(), once, "twice is once");
            assert_eq!(once.matches("redirect to").count(), 2, "{once}");
            remove().unwrap();
            remove().unwrap();
            assert_eq!(applied().unwrap(), None);
            assert_eq!(nft(&["list", "ruleset"], "").unwrap().trim(), "", "nothing is left");
        });
    }

    #[test]
    fn a_refusal_says_what_nft_said() {
        in_own_namespace(|| {
            let error = nft(&["-f", "-"], "add rule inet leno nowhere accept\n").unwrap_err();
            assert!(error.to_string().contains("nowhere"), "{error}");
        });
    }

    #[test]
    fn own_addresses_have_loopback() {
        assert!(own_addresses().unwrap().contains(&IpAddr::from([127, 0, 0, 1])));
    }
}
