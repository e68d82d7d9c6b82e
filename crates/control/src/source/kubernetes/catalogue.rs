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
        /// The kind.
        kind: &'static str,
        /// The objects in any order.
        objects: Vec<Read>,
    },
}

/// What the API server has, as far as we heard.
#[derive(Debug, Default)]
pub struct Catalogue {
    inventory: Arc<Inventory>,
    problems: BTreeMap<Key, Problem>,
    listed: BTreeSet<&'static str>,
}

impl Catalogue {
    /// Takes an event in; tells whether the inventory is another one, or complete for the first time.
    pub fn apply(&mut self, event: Event) -> bool {
        match event {
            Event::Applied(read) => {
                let mut changed = false;
                self.put(read, &mut changed);
                changed && self.with_problems()
            }
            Event::Deleted(key) => {
                let had_problem = self.problems.remove(&key).is_some();
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
        changed |= self.problems.len() != before;
        for read in objects {
            self.put(read, &mut changed);
        }
        changed && self.with_problems()
    }

    fn put(&mut self, read: Read, changed: &mut bool) {
        let Read { key, origin, object } = read;
        match object {
            Ok(object) => {
                *changed |= self.problems.remove(&key).is_some();
                let sourced = Sourced { key, origin, object: Arc::new(object) };
                *changed |= Arc::make_mut(&mut self.inventory).put(sourced);
            }
            Err((field, message)) => {
                let object = key.to_string();
                let problem = Problem { object, origin: origin.to_string(), field, message };
                *changed |= self.problems.insert(key, problem.clone()).as_ref() != Some(&problem);
            }
        }
    }

    fn with_problems(&mut self) -> bool {
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
