//! All series of all threads. A thread registers a series once and then writes it alone; equal label sets of different
//! threads are summed at scrape.

use super::block::Block;
use super::detail::{Detail, Fold};
use super::histogram::{Histogram, bump};
use super::series::{HttpBlock, TcpBlock, lock};
use hashbrown::HashMap;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Shared by the data threads, which register, and the admin listener, which reads.
#[derive(Debug)]
pub struct Registry {
    pub(super) families: Mutex<Families>,
    /// Series per family; what is beyond is counted in one series.
    pub(super) series_max: usize,
    /// A series that nobody holds and that does not change leaves after this.
    pub(super) series_idle_max: Duration,
    /// What scrapers get that ask for nothing else.
    pub(super) detail: Detail,
    pub(super) started: SystemTime,
}

#[derive(Debug)]
pub(super) struct Families {
    pub(super) http: Family<HttpBlock>,
    pub(super) tcp: Family<TcpBlock>,
    pub(super) detect: Family<Histogram>,
    counters: BTreeMap<&'static str, Family<AtomicU64>>,
}

impl Block for AtomicU64 {
    fn absorb(&self, gone: &Self) {
        bump(self, gone.load(Ordering::Relaxed));
    }
}

/// Label text to the blocks of all threads.
pub(super) type Entries<B> = Vec<Entry<B>>;
pub(super) type Entry<B> = (Arc<str>, Vec<Arc<B>>);

/// One metric name, or several that share their labels.
#[derive(Debug)]
pub(super) struct Family<B> {
    entries: HashMap<Arc<str>, Vec<Arc<B>>>,
    /// How lean metrics sum them.
    folds: Vec<Folded<B>>,
}

/// A sum must not fall when one of its label sets leaves: Prometheus would take that for a restart.
#[derive(Debug)]
struct Folded<B> {
    fold: Fold,
    /// By the labels that are kept, what label sets had counted that have left.
    left: HashMap<String, Arc<B>>,
}

/// One family at the time of a scrape.
#[derive(Debug)]
pub(super) struct Snapshot<B> {
    pub(super) entries: Entries<B>,
    left: Vec<Folded<B>>,
}

impl<B> Snapshot<B> {
    /// Label sets that this fold cannot tell apart are one.
    pub(super) fn folded(&self, fold: Fold) -> Entries<B> {
        let mut sums: BTreeMap<String, Vec<Arc<B>>> = BTreeMap::new();
        for (text, blocks) in &self.entries {
            sums.entry(fold.labels(text)).or_default().extend(blocks.iter().cloned());
        }
        for (text, block) in self.left.iter().filter(|of| of.fold == fold).flat_map(|of| &of.left) {
            if let Some(blocks) = sums.get_mut(text) {
                blocks.push(block.clone());
            }
        }
        sums.into_iter().map(|(text, blocks)| (text.into(), blocks)).collect()
    }
}

impl<B: Block> Family<B> {
    fn new(folds: &[Fold]) -> Self {
        let folded = |fold: &Fold| Folded { fold: *fold, left: HashMap::new() };
        Self { entries: HashMap::new(), folds: folds.iter().map(folded).collect() }
    }

    /// A block for this label set, for the calling thread alone; `None` where the family is full.
    pub(super) fn register(&mut self, text: &str, series_max: usize) -> Option<Arc<B>> {
        if !self.entries.contains_key(text) && self.entries.len() >= series_max {
            return None;
        }
        Some(self.register_anyway(text))
    }

    /// The same without a limit, for the series that stands for all that are too many.
    pub(super) fn register_anyway(&mut self, text: &str) -> Arc<B> {
        let blocks = self.entries.entry(Arc::from(text)).or_default();
        // A block that its thread has released goes on, so that numbers do not fall while others keep the series.
        if let Some(at) = blocks.iter_mut().position(|block| Arc::get_mut(block).is_some()) {
            return blocks[at].clone();
        }
        let block = Arc::new(B::default());
        blocks.push(block.clone());
        block
    }

    /// Forgets label sets that no thread holds any more. A sum leaves with its last label set.
    fn drop_released(&mut self) {
        let is_released = |_: &Arc<str>, blocks: &mut Vec<Arc<B>>| {
            blocks.iter_mut().all(|block| Arc::get_mut(block).is_some())
        };
        let released: Vec<_> = self.entries.extract_if(is_released).collect();
        if released.is_empty() {
            return;
        }
        for Folded { fold, left } in &mut self.folds {
            for (text, blocks) in &released {
                let sum = left.entry(fold.labels(text)).or_default();
                blocks.iter().for_each(|block| sum.absorb(block));
            }
            let kept: HashSet<String> = self.entries.keys().map(|text| fold.labels(text)).collect();
            left.retain(|text, _| kept.contains(text));
        }
    }

    /// Everything, to be read without the lock, in a stable order.
    pub(super) fn snapshot(&mut self) -> Snapshot<B> {
        self.drop_released();
        let mut entries: Entries<B> =
            self.entries.iter().map(|(text, blocks)| (text.clone(), blocks.clone())).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let left = |of: &Folded<B>| Folded { fold: of.fold, left: of.left.clone() };
        Snapshot { entries, left: self.folds.iter().map(left).collect() }
    }
}

impl Families {
    fn new(detail: Detail) -> Self {
        let folds = |folds: &'static [Fold]| if detail == Detail::Lean { folds } else { &[] };
        Self {
            http: Family::new(folds(&[Fold::Requests, Fold::Latency])),
            tcp: Family::new(folds(&[Fold::Connections])),
            detect: Family::new(&[]),
            counters: BTreeMap::new(),
        }
    }

    /// The counters or gauges of this name.
    pub(super) fn counter(&mut self, name: &'static str) -> &mut Family<AtomicU64> {
        let folds = || Fold::of_family(name).into_iter().collect::<Vec<_>>();
        self.counters.entry(name).or_insert_with(|| Family::new(&folds()))
    }

    /// All counters and gauges.
    pub(super) fn counters(&mut self) -> Vec<(&'static str, Snapshot<AtomicU64>)> {
        self.counters.iter_mut().map(|(name, family)| (*name, family.snapshot())).collect()
    }

    /// Makes room for new label sets.
    pub(super) fn drop_released(&mut self) {
        self.http.drop_released();
        self.tcp.drop_released();
        self.counters.values_mut().for_each(Family::drop_released);
    }
}

impl Registry {
    /// An empty one.
    #[must_use]
    pub fn new(series_max: usize, series_idle_max: Duration, detail: Detail) -> Arc<Self> {
        Arc::new(Self {
            families: Mutex::new(Families::new(detail)),
            series_max,
            series_idle_max,
            detail,
            started: SystemTime::now(),
        })
    }

    /// A counter outside the data threads, e.g. of lines that the access log dropped. The caller is its only writer.
    #[must_use]
    pub fn counter(&self, family: &'static str, labels: &str) -> Arc<AtomicU64> {
        lock(&self.families).counter(family).register_anyway(labels)
    }
}
