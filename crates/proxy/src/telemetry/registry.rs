//! All series of all threads. A thread registers a series once and then writes it alone; equal label sets of different
//! threads are summed at scrape.

use super::histogram::Histogram;
use super::series::{HttpBlock, TcpBlock, lock};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
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
    pub(super) started: SystemTime,
}

#[derive(Debug, Default)]
pub(super) struct Families {
    pub(super) http: Family<HttpBlock>,
    pub(super) tcp: Family<TcpBlock>,
    pub(super) detect: Family<Histogram>,
    pub(super) counters: BTreeMap<&'static str, Family<AtomicU64>>,
}

/// Label text to the blocks of all threads.
pub(super) type Entries<B> = Vec<(Arc<str>, Vec<Arc<B>>)>;

/// One metric name, or several that share their labels.
#[derive(Debug)]
pub(super) struct Family<B> {
    entries: HashMap<Arc<str>, Vec<Arc<B>>>,
}

impl<B> Default for Family<B> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<B: Default> Family<B> {
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

    /// Forgets label sets that no thread holds any more.
    fn drop_released(&mut self) {
        self.entries
            .retain(|_, blocks| blocks.iter_mut().any(|block| Arc::get_mut(block).is_none()));
    }

    /// Everything, to be read without the lock, in a stable order.
    pub(super) fn snapshot(&mut self) -> Entries<B> {
        self.drop_released();
        let mut entries: Entries<B> =
            self.entries.iter().map(|(text, blocks)| (text.clone(), blocks.clone())).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries
    }
}

impl Families {
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
    pub fn new(series_max: usize, series_idle_max: Duration) -> Arc<Self> {
        Arc::new(Self {
            families: Mutex::default(),
            series_max,
            series_idle_max,
            started: SystemTime::now(),
        })
    }

    /// A counter outside the data threads, e.g. of lines that the access log dropped. The caller is its only writer.
    #[must_use]
    pub fn counter(&self, family: &'static str, labels: &str) -> Arc<AtomicU64> {
        lock(&self.families).counters.entry(family).or_default().register_anyway(labels)
    }
}
