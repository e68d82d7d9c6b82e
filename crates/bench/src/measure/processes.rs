//! Processes as `/proc` shows them at one moment.

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;

/// Ticks in a second of `/proc`'s times: fixed at 100 by Linux's interface, whatever the kernel's own tick is.
pub(super) const TICKS_PER_SECOND: u64 = 100;
pub(super) const NANOSECONDS_PER_TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;
/// Bytes in a page: what `statm` counts in, on every machine that Leno is built for.
const PAGE_BYTES: u64 = 4_096;

/// What is known of every process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: i32,
    /// When it began, in ticks since the machine did: with the id, who it is.
    pub(super) started_ticks: u64,
    /// CPU of its own, to a tick.
    pub(super) own_ns: u64,
    /// CPU of children that have ended and that it has waited for, theirs included. The kernel counts exactly and shows
    /// whole ticks, of user and system apart.
    pub(super) children_ns: u64,
}

/// What is looked up only for processes that have a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Detail {
    /// CPU of its own, all threads that it ever had, exact.
    pub(super) own_ns: u64,
    /// Resident memory.
    pub(super) resident_bytes: u64,
    /// Context switches of each living thread so far.
    pub(super) switches: BTreeMap<i32, u64>,
}

/// All processes.
pub(super) fn table() -> BTreeMap<i32, Stat> {
    let Ok(directory) = fs::read_dir("/proc") else { return BTreeMap::new() };
    directory
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect()
}

/// One line of `/proc/PID/stat`. The name in parentheses may hold anything, parentheses too.
fn stat(line: &str) -> Option<Stat> {
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    // Counted from the state, which is the third field of the manual.
    let number = |index: usize| fields.get(index - 3)?.parse::<u64>().ok();
    let nanoseconds = |one, other| Some((number(one)? + number(other)?) * NANOSECONDS_PER_TICK);
    Some(Stat {
        parent: i32::try_from(number(4)?).ok()?,
        own_ns: nanoseconds(14, 15)?,
        children_ns: nanoseconds(16, 17)?,
        started_ticks: number(22)?,
    })
}

/// One process, as far as it still says; what it no longer says is nothing.
pub(super) fn detail(pid: i32, stat: &Stat) -> Detail {
    let exact = ClockId::pid_cpu_clock_id(Pid::from_raw(pid))
        .and_then(clock_gettime)
        .map(|time| time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned());
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    Detail {
        own_ns: exact.unwrap_or(stat.own_ns),
        resident_bytes: pages * PAGE_BYTES,
        switches: switches(pid),
    }
}

/// Context switches, voluntary and not, of each thread.
fn switches(pid: i32) -> BTreeMap<i32, u64> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return BTreeMap::new() };
    threads
        .flatten()
        .filter_map(|entry| {
            let thread: i32 = entry.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            Some((thread, switches_of(&status)))
        })
        .collect()
}

fn switches_of(status: &str) -> u64 {
    status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.ends_with("voluntary_ctxt_switches"))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc() {
        let line =
            "42 (a) b) c) S 7 42 42 0 -1 4194304 103 0 0 0 11 22 33 44 20 0 1 0 85942 3133440 393";
        let expected = Stat {
            parent: 7,
            started_ticks: 85_942,
            own_ns: 330_000_000,
            children_ns: 770_000_000,
        };
        assert_eq!(stat(line), Some(expected));
        assert_eq!(stat("42 (cut off"), None);
        assert_eq!(stat("42 (short) S 7"), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t30\n";
        assert_eq!(switches_of(status), 42);
    }

    #[test]
    fn this_process_is_seen_with_what_it_uses() {
        let pid = i32::try_from(std::process::id()).expect("a process id");
        let table = table();
        let stat = table[&pid];
        assert!(table.contains_key(&stat.parent) || stat.parent == 0);
        let before = detail(pid, &stat);
        let mut sum = 0_u64;
        while detail(pid, &stat).own_ns < before.own_ns + 2_000_000 {
            sum = (0..10_000_u64).fold(sum, |sum, i| sum.wrapping_mul(31).wrapping_add(i));
        }
        assert!(before.resident_bytes > 100_000 && before.switches.contains_key(&pid), "{sum}");
    }
}
