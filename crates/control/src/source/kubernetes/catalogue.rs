//! Events of the API server to an inventory; pure.
//!
//! An object that cannot be read is a problem of that object: its last good state stays, and all others go on.

use super::WATCHED;
use super::read::Read;
use crate::limit::PROBLEMS_MAX;
use crate::source::{Inventory, Key, Problem, Sourced};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// What happened in the API server.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object is there, or is different.
    Applied(Read),
    /// An object is gone.
    Deleted(Key),
    /// All objects of a kind: what is not among them is gone.
    Listed {
        kind: &'static str,
        /// The objects in any order.
        objects: Vec<Read>,
    },
}

/// The objects of the API server, as far as they were received.
#[derive(Debug, Default)]
pub struct Catalogue {
    inventory: Arc<Inventory>,
    problems: BTreeMap<Key, Problem>,
    /// The inventory does not have these problems yet.
    problems_changed: bool,
    listed: BTreeSet<&'static str>,
}

impl Catalogue {
    /// Applies an event; returns whether the inventory changed, or is complete for the first time.
    pub fn apply(&mut self, event: Event) -> bool {
        match event {
            Event::Applied(read) => {
                let mut changed = false;
                self.put(read, &mut changed);
                changed && self.with_problems()
            }
            Event::Deleted(key) => {
                let had_problem = self.problems.remove(&key).is_some();
                self.problems_changed |= had_problem;
                let was_there = Arc::make_mut(&mut self.inventory).remove(&key);
                (had_problem || was_there) && self.with_problems()
            }
            Event::Listed { kind, objects } => self.list(kind, objects),
        }
    }

    fn list(&mut self, kind: &'static str, objects: Vec<Read>) -> bool {
        let mut changed = self.listed.insert(kind);
        let keys: HashSet<Key> = objects.iter().map(|read| read.key.clone()).collect();
        changed |= Arc::make_mut(&mut self.inventory).retain(kind, &keys);
        let before = self.problems.len();
        self.problems.retain(|key, _| key.kind != kind || keys.contains(key));
        self.problems_changed |= self.problems.len() != before;
        changed |= self.problems_changed;
        for read in objects {
            self.put(read, &mut changed);
        }
        changed && self.with_problems()
    }

    fn put(&mut self, read: Read, changed: &mut bool) {
        let Read { key, origin, object } = read;
        match object {
            Ok(object) => {
                self.problems_changed |= self.problems.remove(&key).is_some();
                *changed |= self.problems_changed;
                let sourced = Sourced { key, origin, object: Arc::new(object) };
                *changed |= Arc::make_mut(&mut self.inventory).put(sourced);
            }
            Err((field, message)) => {
                let object = key.to_string();
                let problem = Problem {
                    object,
                    origin: origin.to_string(),
                    field,
                    message,
                    elsewhere: false,
                    is_note: false,
                };
                let before = self.problems.insert(key, problem.clone());
                self.problems_changed |= before.as_ref() != Some(&problem);
                *changed |= self.problems_changed;
            }
        }
    }

    fn with_problems(&mut self) -> bool {
        if !std::mem::take(&mut self.problems_changed) {
            return true;
        }
        let problems = self.problems.values().take(PROBLEMS_MAX);
        Arc::make_mut(&mut self.inventory).problems = problems.cloned().collect();
        true
    }

    /// How many objects of a kind there are.
    #[must_use]
    pub fn count(&self, kind: &str) -> usize {
        self.inventory.count(kind)
    }

    /// Everything, once every kind was listed.
    #[must_use]
    pub fn inventory(&self) -> Option<Arc<Inventory>> {
        let is_complete = WATCHED.iter().all(|(kind, _)| self.listed.contains(kind));
        is_complete.then(|| self.inventory.clone())
    }
}
