//! What a bed asks of the kernel: processes and their parents, other network namespaces, delay and loss.

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns, unshare};
use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The name of a qdisc that this kernel may not have.
const NETEM: &str = "sch_netem";
/// Nothing that is asked here takes long.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// A worker that does not count in this time is stopped.
pub(super) const COUNT_WAIT: Duration = Duration::from_millis(200);
/// Counters of any proxy are smaller.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why this machine cannot delay packets, with what to do about it; nothing when it can. Tried in a network namespace
/// that is gone afterwards.
#[must_use]
pub fn netem_missing() -> Option<String> {
    let tried = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
                tc(&["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])
            })
            .join()
    });
    match tried {
        Ok(Ok(())) => None,
        Ok(Err(said)) => Some(said),
        Err(_) => Some("netem could not be tried".to_owned()),
    }
}

pub(super) fn tc(words: &[&str]) -> Result<(), String> {
    let output = match Command::new("tc").args(words).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => return Err(format!("tc: {error}; apt-get install iproute2")),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let lacks = said.contains("qdisc kind is unknown");
    let what = if lacks {
        format!(
            "this kernel has no {NETEM}, so delay and loss cannot be added (modprobe {NETEM}, or a kernel with CONFIG_NET_SCH_NETEM); "
        )
    } else {
        String::new()
    };
    Err(format!("{what}tc {}: {said}", words.join(" ")))
}

/// Runs the work in the network namespace of a process, in a thread that ends with it.
///
/// # Errors
/// The process is gone, or this is not root.
pub(super) fn in_network<T: Send>(pid: i32, work: impl FnOnce() -> T + Send) -> Result<T> {
    let path = format!("/proc/{pid}/ns/net");
    let namespace = File::open(&path).with_context(|| path)?;
    std::thread::scope(|scope| {
        let entered = scope.spawn(move || -> Result<T> {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        });
        entered.join().unwrap_or_else(|_| bail!("the thread in the pod's network ended"))
    })
}

/// Processes whose parent is this one.
pub(super) fn children(parent: i32) -> Vec<i32> {
    let table = parents();
    table.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid).collect()
}

/// A process and all below it.
pub(super) fn tree(root: i32) -> Vec<i32> {
    let table = parents();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(table.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Every process of the machine and its parent.
fn parents() -> BTreeMap<i32, i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may have spaces and brackets: the fields begin after the last.
        let (_, rest) = stat.rsplit_once(") ")?;
        Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_processes() {
        let own = std::process::id().cast_signed();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        assert!(children(own).contains(&pid));
        assert!(tree(own).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
