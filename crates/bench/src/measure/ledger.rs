//! Who used what: the CPU of process trees, kept when processes come and go. Pure.
//!
//! A process counts to the nearest root above it and stays there when its parent ends. What an ended process was last
//! seen with stays counted. What it used after that, and children that came and went between two samples, are counted
//! where an ancestor waited for them: the kernel adds an ended child's whole life to its parent, and what of that was
//! not seen before is new. Only a process that nobody in the tree waits for loses what it used after its last sample.

use super::processes::{Detail, NANOSECONDS_PER_TICK, Stat};
use std::collections::{BTreeMap, BTreeSet};

/// What a tree has used since the ledger began, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) cpu_ns: u64,
    pub(super) switches: u64,
    pub(super) resident_bytes: u64,
}

/// All trees, by their index.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Processes that began earlier are counted from when they are first seen; later ones from their birth.
    begun_ticks: u64,
    roots: BTreeMap<i32, Root>,
    members: BTreeMap<i32, Member>,
    closed: Vec<Closed>,
}

#[derive(Debug)]
struct Root {
    tree: usize,
    /// Known when it is first seen: an id that is used again is not the same root.
    started_ticks: Option<u64>,
}

/// A process of a tree that lives.
#[derive(Debug)]
struct Member {
    tree: usize,
    stat: Stat,
    detail: Detail,
    /// `children_ns` when it was first seen.
    children_first_ns: u64,
    /// What descendants that ended since were last seen with: it is in their trees' `closed`.
    ended_ns: u64,
    /// What it has waited for beyond that: nobody had seen it.
    unseen_ns: u64,
    /// For how many samples more has ended below it than it has waited for.
    unwaited: u8,
}

/// The kernel shows what was waited for in whole ticks, of user and system apart.
const SHOWN_SHORT_MAX_NS: u64 = 2 * NANOSECONDS_PER_TICK;
/// A parent may be read just before it waits; after so many samples it never will.
const UNWAITED_SAMPLES_MAX: u8 = 2;

impl Member {
    fn cpu_ns(&self) -> u64 {
        self.detail.own_ns + self.children_first_ns + self.unseen_ns
    }

    /// Counts what the kernel says of ended children and nobody had seen.
    fn settle(&mut self) {
        let waited_ns = self.stat.children_ns.saturating_sub(self.children_first_ns);
        if waited_ns > self.ended_ns {
            self.unseen_ns += waited_ns - self.ended_ns;
            self.ended_ns = waited_ns;
        }
        if self.ended_ns - waited_ns <= SHOWN_SHORT_MAX_NS {
            self.unwaited = 0;
        } else if self.unwaited < UNWAITED_SAMPLES_MAX {
            self.unwaited += 1;
        } else {
            // Somebody else has waited, or nobody: it must not hide what comes.
            self.ended_ns = waited_ns + SHOWN_SHORT_MAX_NS;
            self.unwaited = 0;
        }
    }
}

/// What a tree has beside its living members.
#[derive(Clone, Copy, Debug, Default)]
struct Closed {
    /// Of those that have ended.
    cpu_ns: u64,
    switches: u64,
    /// What members had used before the ledger knew them.
    before_ns: u64,
    switches_before: u64,
}

impl Ledger {
    /// Empty, at this time of the machine.
    pub(super) fn new(begun_ticks: u64) -> Self {
        Self { begun_ticks, ..Self::default() }
    }

    /// This process and all below it belong to this tree.
    pub(super) fn root(&mut self, pid: i32, tree: usize) {
        self.roots.insert(pid, Root { tree, started_ticks: None });
        if self.closed.len() <= tree {
            self.closed.resize(tree + 1, Closed::default());
        }
    }

    /// The living processes of a tree.
    pub(super) fn living(&self, tree: usize) -> BTreeSet<i32> {
        let of_tree = self.members.iter().filter(|(_, member)| member.tree == tree);
        of_tree.map(|(pid, _)| *pid).collect()
    }

    /// All trees, now.
    pub(super) fn observe(
        &mut self,
        table: &BTreeMap<i32, Stat>,
        detail: impl Fn(i32, &Stat) -> Detail,
    ) -> Vec<Total> {
        self.close_ended(table);
        for (pid, stat) in table {
            let same = self.members.get(pid).map(|member| member.tree);
            if let Some(tree) = same.or_else(|| self.tree_of(*pid, table)) {
                self.enter(*pid, tree, stat, detail(*pid, stat));
            }
        }
        self.totals()
    }

    /// The tree of the nearest root at or above a process.
    fn tree_of(&mut self, pid: i32, table: &BTreeMap<i32, Stat>) -> Option<usize> {
        let mut at = pid;
        // Parents are never in a circle, but the table was not read in one moment.
        for _ in 0..table.len() {
            let stat = table.get(&at)?;
            if let Some(root) = self.roots.get_mut(&at) {
                let known = *root.started_ticks.get_or_insert(stat.started_ticks);
                if known == stat.started_ticks {
                    return Some(root.tree);
                }
            }
            if let Some(member) = self.members.get(&at) {
                return Some(member.tree);
            }
            at = stat.parent;
        }
        None
    }

    fn enter(&mut self, pid: i32, tree: usize, stat: &Stat, detail: Detail) {
        let closed = &mut self.closed[tree];
        if let Some(member) = self.members.get_mut(&pid) {
            for (thread, switches) in &member.detail.switches {
                if !detail.switches.contains_key(thread) {
                    closed.switches += switches;
                }
            }
            // An ending process may say less than it did.
            let own_ns = detail.own_ns.max(member.detail.own_ns);
            member.stat = *stat;
            member.detail = Detail { own_ns, ..detail };
            member.settle();
            return;
        }
        let is_older = stat.started_ticks < self.begun_ticks;
        let children_first_ns = if is_older { stat.children_ns } else { 0 };
        if is_older {
            closed.before_ns += detail.own_ns + stat.children_ns;
            closed.switches_before += detail.switches.values().sum::<u64>();
        }
        let mut member = Member {
            tree,
            stat: *stat,
            detail,
            children_first_ns,
            ended_ns: 0,
            unseen_ns: 0,
            unwaited: 0,
        };
        member.settle();
        self.members.insert(pid, member);
    }

    /// Closes the accounts of members that have ended, and credits the ancestor that may have waited for them.
    fn close_ended(&mut self, table: &BTreeMap<i32, Stat>) {
        let lives = |pid: i32, member: &Member| {
            table.get(&pid).is_some_and(|stat| stat.started_ticks == member.stat.started_ticks)
        };
        let ended: Vec<i32> = self
            .members
            .iter()
            .filter_map(|(pid, member)| (!lives(*pid, member)).then_some(*pid))
            .collect();
        for pid in &ended {
            let mut above = self.members[pid].stat.parent;
            while ended.contains(&above) {
                above = self.members[&above].stat.parent;
            }
            let cpu_ns = self.members[pid].cpu_ns();
            if let Some(ancestor) = self.members.get_mut(&above) {
                ancestor.ended_ns += cpu_ns;
            }
        }
        for pid in ended {
            if let Some(member) = self.members.remove(&pid) {
                let closed = &mut self.closed[member.tree];
                closed.cpu_ns += member.cpu_ns();
                closed.switches += member.detail.switches.values().sum::<u64>();
            }
        }
    }

    fn totals(&self) -> Vec<Total> {
        let mut totals: Vec<Total> = self
            .closed
            .iter()
            .map(|one| Total { cpu_ns: one.cpu_ns, switches: one.switches, resident_bytes: 0 })
            .collect();
        for member in self.members.values() {
            let total = &mut totals[member.tree];
            total.cpu_ns += member.cpu_ns();
            total.switches += member.detail.switches.values().sum::<u64>();
            total.resident_bytes += member.detail.resident_bytes;
        }
        for (total, closed) in totals.iter_mut().zip(&self.closed) {
            total.cpu_ns = total.cpu_ns.saturating_sub(closed.before_ns);
            total.switches = total.switches.saturating_sub(closed.switches_before);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pid parent started own children switches`, one process a word, in milliseconds and ticks.
    fn observe(ledger: &mut Ledger, processes: &[[u64; 6]]) -> Vec<(u64, u64)> {
        let table: BTreeMap<i32, Stat> = processes
            .iter()
            .map(|[pid, parent, started, own, children, _]| {
                let stat = Stat {
                    parent: *parent as i32,
                    started_ticks: *started,
                    own_ns: own * 1_000_000,
                    children_ns: children * 1_000_000,
                };
                (*pid as i32, stat)
            })
            .collect();
        let detail = |pid: i32, stat: &Stat| {
            let of =
                processes.iter().find(|process| process[0] == pid as u64).expect("in the table");
            let switches = BTreeMap::from([(pid, of[5])]);
            Detail { own_ns: stat.own_ns, resident_bytes: 1, switches }
        };
        let totals = ledger.observe(&table, detail);
        totals.iter().map(|total| (total.cpu_ns / 1_000_000, total.switches)).collect()
    }

    #[test]
    fn a_tree_counts_from_when_it_is_first_seen_and_keeps_what_ended() {
        let mut ledger = Ledger::new(1_000);
        ledger.root(10, 0);
        let mut check = |processes: &[[u64; 6]], cpu_ms: u64, switches: u64| {
            assert_eq!(observe(&mut ledger, processes), [(cpu_ms, switches)], "{processes:?}");
        };
        // Born before: what it had used does not count; a stranger never does.
        check(&[[10, 1, 5, 700, 300, 50], [99, 1, 5, 800, 0, 9]], 0, 0);
        check(&[[10, 1, 5, 720, 300, 55], [99, 1, 5, 900, 0, 9]], 20, 5);
        // A child born since counts from its birth.
        check(&[[10, 1, 5, 720, 300, 55], [11, 10, 1_001, 40, 0, 3]], 60, 8);
        // It ended and was waited for, after it had used 5 more than was seen.
        check(&[[10, 1, 5, 720, 345, 55]], 65, 8);
        // A child that was never seen.
        check(&[[10, 1, 5, 720, 375, 55]], 95, 8);
        // A child that is killed, and whose grandparent does not wait: as last seen.
        check(&[[10, 1, 5, 720, 375, 55], [12, 10, 1_002, 30, 0, 1]], 125, 9);
        check(&[[10, 1, 5, 720, 375, 55]], 125, 9);
        check(&[[10, 1, 5, 720, 375, 55]], 125, 9);
        check(&[[10, 1, 5, 720, 375, 55]], 125, 9);
        // What it waits for later is not hidden by that; 20 ms may be the kernel's rounding.
        check(&[[10, 1, 5, 720, 435, 55]], 165, 9);
        // All of it ends.
        check(&[], 165, 9);
        // The same id again is somebody else.
        check(&[[10, 1, 2_000, 5_000, 0, 70]], 165, 9);
    }

    #[test]
    fn the_nearest_root_counts_and_an_orphan_stays() {
        let mut ledger = Ledger::new(0);
        // A pod's first process, the application below it, and the proxy below that first process too.
        ledger.root(1, 0);
        ledger.root(3, 1);
        let [first, app] = [[1, 0, 1, 10, 0, 0], [2, 1, 1, 20, 0, 0]];
        let check = |ledger: &mut Ledger, processes: &[[u64; 6]], expected: [u64; 2]| {
            let seen: Vec<u64> = observe(ledger, processes).iter().map(|(cpu, _)| *cpu).collect();
            assert_eq!(seen, expected, "{processes:?}");
        };
        let proxy = [[3, 1, 1, 30, 0, 0], [4, 3, 1, 5, 0, 0]];
        check(&mut ledger, &[first, app, proxy[0], proxy[1]], [30, 35]);
        // The proxy is killed; its child lives on below the first process, which waits for the proxy.
        let waited = [1, 0, 1, 10, 31, 0];
        check(&mut ledger, &[waited, app, [4, 1, 1, 9, 0, 0]], [31, 39]);
        // A new proxy in its place, which is registered.
        ledger.root(7, 1);
        check(&mut ledger, &[waited, app, [4, 1, 1, 9, 0, 0], [7, 1, 9, 2, 0, 0]], [31, 41]);
        // All are killed at once.
        check(&mut ledger, &[], [31, 41]);
    }
}
