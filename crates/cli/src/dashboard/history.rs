//! Sums of the last hour, and the newest state of pods. Pure: times are arguments, in seconds since 1970.
//!
//! There are two rings of slots: 10 s for windows up to 5 minutes, 60 s for longer ones. A slot has only keys that counted
//! something, so that memory follows traffic and not time.

use super::counters::{Facts, Key, Node, Pods, read};
use super::happenings::{self, Happening};
use super::interned::Interned;
use super::sums::{Sums, Totals};
use crate::home::Member;
use leno_up::figures::Said;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Seconds of a fine slot.
const FINE_SECONDS: u64 = 10;
/// Windows up to this many seconds read fine slots.
const FINE_WINDOW_SECONDS: u64 = 300;
/// Seconds of a coarse slot.
const COARSE_SECONDS: u64 = 60;
/// The longest window.
pub(super) const WINDOW_SECONDS_MAX: u64 = 3_600;
/// The shortest window.
pub(super) const WINDOW_SECONDS_MIN: u64 = 30;
/// Keys of one slot: 5,000 edges with their nodes, rules, routes and Services, and as many again. A key is up to 0.5 KiB.
const KEYS_MAX: usize = 60_000;
/// Happenings that are kept.
const HAPPENINGS_MAX: usize = 1_000;

/// One reading of the whole mesh.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) members: Vec<Member>,
    pub(super) said: Vec<Said>,
    /// Events and problems that the mesh itself keeps.
    pub(super) journal: Vec<Happening>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Time divided by the length of a slot.
    index: u64,
    /// Seconds that were observed.
    covered: f64,
    sums: HashMap<Interned, Sums>,
}

#[derive(Debug)]
struct Ring {
    slot_seconds: u64,
    slots_max: usize,
    slots: VecDeque<Slot>,
}

impl Ring {
    fn new(slot_seconds: u64, window_seconds: u64) -> Self {
        // One more: the newest slot is not full.
        let slots_max = (window_seconds / slot_seconds + 1) as usize;
        Self { slot_seconds, slots_max, slots: VecDeque::new() }
    }

    fn slot(&mut self, now: f64, elapsed: f64) -> &mut Slot {
        let index = now as u64 / self.slot_seconds;
        if self.slots.back().is_none_or(|slot| slot.index != index) {
            self.slots.push_back(Slot { index, ..Slot::default() });
            // By time, too: a machine that slept has gaps.
            let oldest = index.saturating_sub(self.slots_max as u64);
            while self.slots.len() > self.slots_max
                || self.slots.front().is_some_and(|slot| slot.index < oldest)
            {
                self.slots.pop_front();
            }
        }
        let at = self.slots.len() - 1;
        self.slots[at].covered += elapsed;
        &mut self.slots[at]
    }

    /// Slots of a window, the oldest first.
    fn within(&self, now: f64, window_seconds: u64) -> impl Iterator<Item = &Slot> {
        let newest = now as u64 / self.slot_seconds;
        let count = window_seconds / self.slot_seconds;
        self.slots.iter().filter(move |slot| slot.index + count > newest)
    }
}

/// Sums of an edge in a window, and its connections that are open now: with mutual TLS, and without it.
pub(super) type Traffic<'a> = (Option<&'a Sums>, (u64, u64));

/// A point of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Point {
    /// Begin of the slot, in seconds since 1970.
    pub(super) at: u64,
    pub(super) covered: f64,
    pub(super) sums: Sums,
}

/// Everything in memory.
#[derive(Debug)]
pub(super) struct History {
    /// `machine` or `cluster`.
    pub(super) home: &'static str,
    pub(super) members: Vec<Member>,
    /// By namespace and pod.
    pub(super) facts: HashMap<(String, String), Facts>,
    /// Connections that are open now, with mutual TLS and without it.
    pub(super) open: HashMap<Interned, (u64, u64)>,
    /// All bounds of latency buckets, in microseconds.
    pub(super) bounds: BTreeSet<u32>,
    /// The oldest first.
    pub(super) happenings: VecDeque<Happening>,
    pub(super) journal: Vec<Happening>,
    /// Why the last reading failed.
    pub(super) failed: Option<String>,
    /// Time of the last complete reading; 0 before the first.
    pub(super) read_at: f64,
    /// Proxies that answered the last reading.
    pub(super) proxies_read: usize,
    /// Number of readings.
    pub(super) readings: u64,
    /// Keys that had no room in the newest slot.
    pub(super) left_out: usize,
    fine: Ring,
    coarse: Ring,
    /// Totals of each proxy at its last reading.
    before: HashMap<(String, String), HashMap<Interned, Totals>>,
    /// Keys in use, so that slots share them.
    keys: HashSet<Arc<Key>>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            home: "machine",
            members: Vec::new(),
            facts: HashMap::new(),
            open: HashMap::new(),
            bounds: BTreeSet::new(),
            happenings: VecDeque::new(),
            journal: Vec::new(),
            failed: None,
            read_at: 0.0,
            proxies_read: 0,
            readings: 0,
            left_out: 0,
            fine: Ring::new(FINE_SECONDS, FINE_WINDOW_SECONDS),
            coarse: Ring::new(COARSE_SECONDS, WINDOW_SECONDS_MAX),
            before: HashMap::new(),
            keys: HashSet::new(),
        }
    }
}

impl History {
    /// Adds what proxies counted since their last reading. The first reading of a proxy is only a beginning.
    pub(super) fn record(&mut self, now: f64, taken: Taken) {
        let elapsed = if self.readings == 0 { 0.0 } else { (now - self.read_at).max(0.0) };
        if self.readings > 0 {
            let changed = happenings::changes(&self.members, &taken.members, now as u64);
            happenings::add(&mut self.happenings, changed);
        }
        let growth = self.growth(&taken, now as u64);
        happenings::add(&mut self.happenings, happenings::counted(&growth, now as u64));
        let more = self.happenings.len().saturating_sub(HAPPENINGS_MAX);
        self.happenings.drain(..more);
        (self.readings, self.read_at, self.failed) = (self.readings + 1, now, None);
        self.proxies_read = taken.said.len();
        (self.members, self.journal) = (taken.members, taken.journal);
        self.left_out = 0;
        for ring in [&mut self.fine, &mut self.coarse] {
            let slot = ring.slot(now, elapsed);
            for (key, sums) in &growth {
                if slot.sums.len() >= KEYS_MAX && !slot.sums.contains_key(key) {
                    self.left_out += 1;
                    continue;
                }
                slot.sums.entry(key.clone()).or_default().add(sums);
            }
        }
        drop(growth);
        // Keys that only this set holds are of no slot and no proxy.
        self.keys.retain(|key| Arc::strong_count(key) > 1);
    }

    /// Compares with the last reading of each proxy, which this reading replaces.
    fn growth(&mut self, taken: &Taken, at: u64) -> HashMap<Interned, Sums> {
        let pods = Pods::of(&taken.members);
        let nodes: HashMap<(&str, &str), Node> = (taken.members.iter())
            .map(|member| ((&*member.namespace, &*member.name), Node::of(member)))
            .collect();
        let mut growth: HashMap<Interned, Sums> = HashMap::new();
        self.open.clear();
        for said in &taken.said {
            let Some(own) = nodes.get(&(&*said.namespace, &*said.pod)) else { continue };
            let counters = read(&said.text, own, &pods);
            let pod = (said.namespace.clone(), said.pod.clone());
            if let Some(before) = self.facts.insert(pod.clone(), counters.facts) {
                let rotated = happenings::rotated(own, &before, &counters.facts, at);
                happenings::add(&mut self.happenings, rotated);
            }
            let before = self.before.get(&pod);
            let mut kept = HashMap::with_capacity(counters.totals.len());
            for (key, totals) in counters.totals {
                let key = match self.keys.get(&key) {
                    Some(known) => Interned(Arc::clone(known)),
                    None => {
                        let new = Arc::new(key);
                        self.keys.insert(Arc::clone(&new));
                        Interned(new)
                    }
                };
                self.bounds.extend(totals.latency.keys());
                let open = self.open.entry(key.clone()).or_default();
                open.0 += totals.open.0.max(0.0) as u64;
                open.1 += totals.open.1.max(0.0) as u64;
                if let Some(before) = before {
                    let none = Totals::default();
                    let sums = Sums::between(before.get(&key).unwrap_or(&none), &totals);
                    if !sums.is_empty() {
                        growth.entry(key.clone()).or_default().add(&sums);
                    }
                }
                kept.insert(key, totals);
            }
            self.before.insert(pod, kept);
        }
        // A pod that is gone does not come back under its name, except in a StatefulSet, whose proxy then counts from zero.
        self.before.retain(|(namespace, pod), _| nodes.contains_key(&(&**namespace, &**pod)));
        self.facts.retain(|(namespace, pod), _| nodes.contains_key(&(&**namespace, &**pod)));
        growth
    }

    /// Clients that servers see under another name: see [`Pods::aliases`].
    pub(super) fn aliases(&self) -> HashMap<Node, Node> {
        Pods::of(&self.members).aliases(&self.members)
    }

    /// Services, as `namespace/name`, by which a workload is asked.
    pub(super) fn services(&self, node: &Node) -> Vec<String> {
        let service = |key: &Arc<Key>| match &**key {
            Key::Service(of, name) if of == node => Some(name.clone()),
            _ => None,
        };
        self.keys.iter().filter_map(service).collect()
    }

    fn ring(&self, window_seconds: u64) -> &Ring {
        if window_seconds <= FINE_WINDOW_SECONDS { &self.fine } else { &self.coarse }
    }

    /// The key, where anything is known of it.
    pub(super) fn find(&self, key: &Key) -> Option<Interned> {
        self.keys.get(key).map(|known| Interned(Arc::clone(known)))
    }

    /// Sums of a window for keys that are wanted, and the seconds of the window that were observed.
    pub(super) fn over(
        &self,
        window_seconds: u64,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> (f64, HashMap<Interned, Sums>) {
        let (mut covered, mut all) = (0.0, HashMap::new());
        for slot in self.ring(window_seconds).within(self.read_at, window_seconds) {
            covered += slot.covered;
            for (key, sums) in slot.sums.iter().filter(|(key, _)| is_wanted(key)) {
                all.entry(key.clone()).or_insert_with(Sums::default).add(sums);
            }
        }
        (covered, all)
    }

    /// The points of a window of one key; none where nothing is known of it.
    pub(super) fn series(&self, window_seconds: u64, key: &Key) -> Vec<Point> {
        let key = self.find(key);
        self.points(window_seconds, |slot| {
            key.as_ref().and_then(|key| slot.sums.get(key)).cloned().unwrap_or_default()
        })
    }

    /// The points of a window of all edges, without latencies.
    pub(super) fn series_of_edges(&self, window_seconds: u64) -> Vec<Point> {
        self.points(window_seconds, |slot| {
            let edges = slot.sums.iter().filter(|(key, _)| matches!(&***key, Key::Edge(..)));
            edges.fold(Sums::default(), |all, (_, sums)| Sums {
                success: all.success + sums.success,
                failure: all.failure + sums.failure,
                ..all
            })
        })
    }

    fn points(&self, window_seconds: u64, sums: impl Fn(&Slot) -> Sums) -> Vec<Point> {
        let ring = self.ring(window_seconds);
        let point = |slot: &Slot| Point {
            at: slot.index * ring.slot_seconds,
            covered: slot.covered,
            sums: sums(slot),
        };
        ring.within(self.read_at, window_seconds).map(point).collect()
    }

    /// Seconds of a slot of this window.
    pub(super) fn slot_seconds(&self, window_seconds: u64) -> u64 {
        self.ring(window_seconds).slot_seconds
    }

    /// Edges with traffic in these sums, and those that proxies still count.
    pub(super) fn edges<'a>(
        &'a self,
        sums: &'a HashMap<Interned, Sums>,
    ) -> BTreeMap<(&'a Node, &'a Node), Traffic<'a>> {
        let mut edges = BTreeMap::new();
        for key in sums.keys().chain(self.open.keys()) {
            if let Key::Edge(client, server) = &**key {
                let open = self.open.get(key).copied().unwrap_or_default();
                edges.insert((client, server), (sums.get(key), open));
            }
        }
        edges
    }
}
