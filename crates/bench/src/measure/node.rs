//! The whole machine's time and memory.

use super::processes::TICKS_PER_SECOND;
use std::fs;

/// CPU seconds of all cores since the machine began, by kind; memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    pub(super) irq_s: f64,
    pub(super) softirq_s: f64,
    pub(super) steal_s: f64,
    pub(super) idle_s: f64,
    /// What cannot be had by a new program without swapping.
    pub(super) used_bytes: f64,
}

impl Node {
    pub(super) fn now() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut node = times(&text("/proc/stat")).unwrap_or_default();
        node.used_bytes = used_bytes(&text("/proc/meminfo")).unwrap_or(0.0);
        node
    }

    /// Time in which something ran.
    pub(super) fn busy_s(&self) -> f64 {
        self.user_s + self.system_s + self.irq_s + self.softirq_s
    }
}

/// The first line of `/proc/stat`. Guests' time is within user's.
fn times(stat: &str) -> Option<Node> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let seconds: Vec<f64> = line
        .split_whitespace()
        .filter_map(|word| word.parse::<u64>().ok())
        .map(|ticks| ticks as f64 / TICKS_PER_SECOND as f64)
        .collect();
    let [user, nice, system, idle, waiting, irq, softirq, steal] = *seconds.first_chunk::<8>()?;
    Some(Node {
        user_s: user + nice,
        system_s: system,
        irq_s: irq,
        softirq_s: softirq,
        steal_s: steal,
        idle_s: idle + waiting,
        used_bytes: 0.0,
    })
}

fn used_bytes(meminfo: &str) -> Option<f64> {
    let kibibytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim_end_matches("kB").trim().parse::<f64>().ok()
    };
    Some((kibibytes("MemTotal")? - kibibytes("MemAvailable")?) * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        let node = times("cpu  100 50 200 3000 40 10 20 30 7 0\ncpu0 1 2 3").expect("a line");
        let expected = Node {
            user_s: 1.5,
            system_s: 2.0,
            irq_s: 0.1,
            softirq_s: 0.2,
            steal_s: 0.3,
            idle_s: 30.4,
            used_bytes: 0.0,
        };
        assert_eq!(node, expected);
        assert!((node.busy_s() - 3.8).abs() < 1e-9);
        assert_eq!(times("cpu  1 2 3"), None);
        let meminfo = "MemTotal:       100 kB\nMemFree:  1 kB\nMemAvailable:    60 kB\n";
        assert_eq!(used_bytes(meminfo), Some(40.0 * 1024.0));
        assert!(Node::now().busy_s() > 0.0 && Node::now().used_bytes > 0.0);
    }
}
