//! The thread that looks at everything once a second.

use super::cgroup::Mounts;
use super::cut::{Sample, Seen, cut};
use super::ledger::Ledger;
use super::network::Network;
use super::node::Node;
use super::processes::{self, NANOSECONDS_PER_TICK};
use super::{Role, Roles, Window};
use crate::result::Resources;
use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(1);
/// Orders that wait while it looks.
const ORDERS_MAX: usize = 16;

/// Watches processes until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler {
    orders: SyncSender<Order>,
    thread: Option<JoinHandle<Watch>>,
}

enum Order {
    /// Look now, and say when that is done.
    Mark(SyncSender<()>),
    Follow(Roles),
    Stop,
}

impl Sampler {
    /// Begins to watch these processes and their children.
    ///
    /// # Panics
    /// The machine has no thread left, as [`std::thread::spawn`] does.
    #[must_use]
    pub fn start(roles: Roles) -> Self {
        let (orders, inbox) = sync_channel(ORDERS_MAX);
        let begin = move || {
            let mut watch = Watch::new();
            watch.follow(roles);
            watch.run(&inbox);
            watch
        };
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(begin);
        Self { orders, thread: Some(thread.expect("a thread")) }
    }

    /// Looks now, and returns when that is done: at the very begin of a phase it makes the cut exact.
    pub fn mark(&self) {
        let (done, wait) = sync_channel(1);
        if self.orders.send(Order::Mark(done)).is_ok() {
            // It answers, or it has ended: in both cases there is nothing more to wait for.
            let _answered = wait.recv();
        }
    }

    /// Watches more processes: those of a pod that was started again, for instance. Known names go on adding up.
    pub fn follow(&self, roles: Roles) {
        // Refused only when the thread has ended, and then `stop` says what there is.
        let _sent = self.orders.send(Order::Follow(roles));
    }

    /// Looks a last time, and says what was used within `window`: resources by role, and TCP's counters.
    ///
    /// Without [`per_request`](super::per_request) the costs per request are 0.
    #[must_use]
    pub fn stop(mut self, window: &Window) -> (Resources, BTreeMap<String, u64>) {
        let _sent = self.orders.send(Order::Stop);
        let watch = self.thread.take().and_then(|thread| thread.join().ok());
        watch.map(|watch| cut(&watch.samples, &watch.trees, window)).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let _sent = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// What the thread keeps.
struct Watch {
    trees: Vec<(Role, String)>,
    /// The processes that were named, for their cgroups and namespaces.
    heads: Vec<Vec<i32>>,
    ledger: Ledger,
    network: Network,
    mounts: Mounts,
    /// Throttling of each tree's cgroup when it was first seen.
    throttled_first_ns: BTreeMap<usize, u64>,
    samples: Vec<Sample>,
}

impl Watch {
    fn new() -> Self {
        Self {
            trees: Vec::new(),
            heads: Vec::new(),
            ledger: Ledger::new(clock_ns(ClockId::CLOCK_BOOTTIME) / NANOSECONDS_PER_TICK),
            network: Network::default(),
            mounts: Mounts::now(),
            throttled_first_ns: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    fn run(&mut self, inbox: &Receiver<Order>) {
        self.look();
        let mut due = Instant::now() + INTERVAL;
        loop {
            match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Order::Mark(done)) => {
                    self.look();
                    // Nobody may be waiting any more.
                    let _sent = done.try_send(());
                }
                Ok(Order::Follow(roles)) => self.follow(roles),
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    // What was missed is not made up for.
                    due = (due + INTERVAL).max(Instant::now());
                }
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.look();
                    return;
                }
            }
        }
    }

    fn follow(&mut self, roles: Roles) {
        let all = [
            (Role::Proxy, roles.proxy),
            (Role::App, roles.app),
            (Role::Control, roles.control),
            (Role::Generator, roles.generator),
        ];
        for (role, trees) in all {
            for (name, pids) in trees {
                let key = (role, name);
                let known = self.trees.iter().position(|tree| *tree == key);
                let tree = known.unwrap_or_else(|| {
                    self.trees.push(key);
                    self.heads.push(Vec::new());
                    self.trees.len() - 1
                });
                for pid in pids {
                    if !self.heads[tree].contains(&pid) {
                        self.heads[tree].push(pid);
                        self.ledger.root(pid, tree);
                    }
                }
            }
        }
    }

    fn look(&mut self) {
        let before_ns = clock_ns(ClockId::CLOCK_MONOTONIC);
        let totals = self.ledger.observe(&processes::table(), processes::detail);
        let node = Node::now();
        // The middle of reading, which takes some milliseconds where there are many processes.
        let at_ns = u64::midpoint(before_ns, clock_ns(ClockId::CLOCK_MONOTONIC));
        let trees = totals
            .into_iter()
            .enumerate()
            .map(|(tree, total)| {
                let living = self.ledger.living(tree);
                let head = living.first().copied();
                let charged = head.map(|pid| self.mounts.charged(pid, &living)).unwrap_or_default();
                let throttled_ns = charged.throttled_ns.map_or(0, |now| {
                    now.saturating_sub(*self.throttled_first_ns.entry(tree).or_insert(now))
                });
                Seen { total, throttled_ns, charged_bytes: charged.memory_bytes }
            })
            .collect();
        let pids: Vec<i32> = (0..self.trees.len())
            .filter_map(|tree| self.ledger.living(tree).first().copied())
            .collect();
        let tcp = self.network.observe(pids.into_iter());
        let sampler_cpu_ns = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
        self.samples.push(Sample { at_ns, trees, node, tcp, sampler_cpu_ns });
    }
}

/// A clock of this machine; 0 where it has none such.
fn clock_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| {
        time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    /// A shell that waits for a working child: as exact as the kernel's figures for ended children.
    #[test]
    fn a_program_and_its_children_are_seen_and_what_they_used_stays() {
        let script = "read go; (i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done); echo; read end";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let pid = i32::try_from(shell.id()).expect("a process id");
        let roles = Roles { app: vec![("worker".into(), vec![pid])], ..Roles::default() };
        let sampler = Sampler::start(roles);
        // Before the mark, so that the window begins where nothing is used yet: the shell waits.
        let begin_monotonic_ns = clock_ns(ClockId::CLOCK_MONOTONIC);
        sampler.mark();
        let before = processes::table()[&pid];
        shell.stdin.as_mut().expect("piped").write_all(b"go\n").expect("it reads");
        let mut line = String::new();
        let mut out = BufReader::new(shell.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("it says when it is done");
        sampler.mark();
        let after = processes::table()[&pid];
        let duration_s = (clock_ns(ClockId::CLOCK_MONOTONIC) - begin_monotonic_ns) as f64 / 1e9;
        shell.kill().and_then(|()| shell.wait()).expect("it ends");
        let (resources, tcp) = sampler.stop(&Window { begin_monotonic_ns, duration_s });
        let app = &resources.app[0];
        let ticks = (after.own_ns + after.children_ns) - (before.own_ns + before.children_ns);
        assert!(after.children_ns > 0, "the child's loop is too short to tell: {after:?}");
        // Each of the kernel's four figures is cut to a tick of 10 ms, before and after.
        assert!((app.cpu_s - ticks as f64 / 1e9).abs() < 0.045, "{app:?} for {ticks} ns");
        assert!(app.mem_mb.max > 0.1, "{app:?}");
        assert!(resources.machine.user_s + resources.machine.idle_s > 0.0);
        assert!(resources.sampler_cpu_s > 0.0 && tcp.contains_key("rto"));
    }

    /// This test's own thread is the load: the process uses at least what the thread's clock says.
    #[test]
    fn cpu_is_exact_between_two_marks() {
        let pid = i32::try_from(std::process::id()).expect("a process id");
        let roles = Roles { generator: vec![("self".into(), vec![pid])], ..Roles::default() };
        let sampler = Sampler::start(roles);
        sampler.mark();
        let begin_monotonic_ns = clock_ns(ClockId::CLOCK_MONOTONIC);
        let cpu_begin = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let mut sum = 0_u64;
        while clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) < cpu_begin + 600_000_000 {
            sum = (0..10_000_u64).fold(sum, |sum, i| sum.wrapping_mul(31).wrapping_add(i));
        }
        let cpu_s = (clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID) - cpu_begin) as f64 / 1e9;
        let duration_s = (clock_ns(ClockId::CLOCK_MONOTONIC) - begin_monotonic_ns) as f64 / 1e9;
        sampler.mark();
        let (resources, _) = sampler.stop(&Window { begin_monotonic_ns, duration_s });
        let seen = &resources.generator[0];
        assert!(seen.cpu_s >= cpu_s * 0.9, "{seen:?} for {cpu_s} ({sum})");
    }
}
