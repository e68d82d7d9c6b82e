//! TCP's troubles, from the counters of every network namespace that a measured process lives in.
//!
//! They tell a queue from a timer: a latency near 40 ms with delayed ACKs, or near 200 ms with retransmission timeouts,
//! is TCP's own, not the mesh's.

use std::collections::BTreeMap;
use std::fs;

/// Our names, and the kernel's: protocol and counter.
const COUNTERS: [(&str, &str, &str); 12] = [
    ("retrans", "Tcp", "RetransSegs"),
    ("rto", "TcpExt", "TCPTimeouts"),
    ("delayed_acks", "TcpExt", "DelayedACKs"),
    ("delayed_acks_lost", "TcpExt", "DelayedACKLost"),
    ("listen_drops", "TcpExt", "ListenDrops"),
    ("listen_overflows", "TcpExt", "ListenOverflows"),
    ("syn_retrans", "TcpExt", "TCPSynRetrans"),
    ("fast_retrans", "TcpExt", "TCPFastRetrans"),
    ("resets_in", "Tcp", "EstabResets"),
    ("resets_out", "Tcp", "OutRsts"),
    ("connections_failed", "Tcp", "AttemptFails"),
    ("connections_timed_out", "TcpExt", "TCPAbortOnTimeout"),
];

/// Counters by our names.
pub(super) type Counters = BTreeMap<&'static str, u64>;

/// Counters of all namespaces together, since each was first seen.
#[derive(Debug, Default)]
pub(super) struct Network {
    namespaces: BTreeMap<String, Namespace>,
}

#[derive(Debug)]
struct Namespace {
    first: Counters,
    last: Counters,
}

impl Network {
    /// The sum now, of the namespaces of these processes; one that is gone keeps what it was last seen with.
    pub(super) fn observe(&mut self, pids: impl Iterator<Item = i32>) -> Counters {
        let mut seen = BTreeMap::new();
        for pid in pids {
            if let Ok(name) = fs::read_link(format!("/proc/{pid}/ns/net")) {
                seen.entry(name.to_string_lossy().into_owned()).or_insert(pid);
            }
        }
        for (name, pid) in seen {
            if let Some(now) = read(pid) {
                self.enter(name, now);
            }
        }
        self.sum()
    }

    fn enter(&mut self, name: String, now: Counters) {
        match self.namespaces.get_mut(&name) {
            Some(known) => known.last = now,
            None => {
                self.namespaces.insert(name, Namespace { first: now.clone(), last: now });
            }
        }
    }

    fn sum(&self) -> Counters {
        let grown = |name: &str| -> u64 {
            let of = |one: &Namespace| {
                let at = |counters: &Counters| counters.get(name).copied().unwrap_or(0);
                at(&one.last).saturating_sub(at(&one.first))
            };
            self.namespaces.values().map(of).sum()
        };
        COUNTERS.iter().map(|(name, ..)| (*name, grown(name))).collect()
    }
}

/// The counters of the namespace that a process lives in.
fn read(pid: i32) -> Option<Counters> {
    let snmp = fs::read_to_string(format!("/proc/{pid}/net/snmp")).ok()?;
    let netstat = fs::read_to_string(format!("/proc/{pid}/net/netstat")).ok()?;
    let tables = [parse(&snmp), parse(&netstat)];
    let find = |protocol: &str, counter: &str| {
        tables.iter().find_map(|table| table.get(&(protocol, counter)).copied())
    };
    Some(
        COUNTERS
            .iter()
            .filter_map(|(name, protocol, counter)| Some((*name, find(protocol, counter)?)))
            .collect(),
    )
}

/// Lines in pairs: `Tcp: Name Name …`, `Tcp: 1 2 …`.
fn parse(text: &str) -> BTreeMap<(&str, &str), u64> {
    let lines: Vec<&str> = text.lines().collect();
    let mut counters = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let (Some((protocol, names)), Some((_, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            // Some are limits, and -1 where there is none.
            if let Ok(value) = value.parse() {
                counters.insert((protocol, name), value);
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_lines() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: MaxConn RetransSegs\nTcp: -1 12\n";
        let table = parse(text);
        assert_eq!(table.get(&("Tcp", "RetransSegs")), Some(&12));
        assert_eq!(table.get(&("Ip", "DefaultTTL")), Some(&64));
        assert_eq!(table.get(&("Tcp", "MaxConn")), None);
    }

    #[test]
    fn namespaces_add_up_and_count_from_when_they_are_first_seen() {
        let mut network = Network::default();
        let counters = |n: u64| BTreeMap::from([("retrans", n)]);
        network.enter("net:[1]".into(), counters(100));
        network.enter("net:[1]".into(), counters(103));
        network.enter("net:[2]".into(), counters(50));
        network.enter("net:[2]".into(), counters(57));
        assert_eq!(network.sum()["retrans"], 10);
    }

    #[test]
    fn this_machine_has_every_counter() {
        let pid = i32::try_from(std::process::id()).expect("a process id");
        assert_eq!(read(pid).expect("a network").len(), COUNTERS.len());
    }
}
