//! Files of several directories to one inventory, and the last good state of each file; pure.

use super::parse::{Manifest, NOT_USED};
use super::{Inventory, Key, Object, Problem, Sourced};
use crate::limit::PROBLEMS_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// How the message about an object begins that is there twice.
pub(crate) const ALSO_AT: &str = "the object is also in ";

/// What every file says, by layer (later layers replace earlier ones) and path.
#[derive(Debug, Default)]
pub struct Layers {
    files: BTreeMap<(usize, PathBuf), Manifest>,
}

impl Layers {
    /// A file as just read. Where a document of it is broken, objects of its last good state stay, unless the new text has them.
    pub fn put(&mut self, layer: usize, path: PathBuf, mut manifest: Manifest) {
        let at = (layer, path);
        if manifest.broken
            && let Some(last_good) = self.files.remove(&at)
        {
            let new: BTreeSet<Key> =
                manifest.objects.iter().map(|object| object.key.clone()).collect();
            manifest
                .objects
                .extend(last_good.objects.into_iter().filter(|object| !new.contains(&object.key)));
        }
        self.files.insert(at, manifest);
    }

    /// A file that exists but cannot be read: its last good objects stay.
    pub fn unreadable(&mut self, layer: usize, path: PathBuf, problem: Problem) {
        let manifest = self.files.entry((layer, path)).or_default();
        manifest.broken = true;
        manifest.problems = vec![problem];
    }

    /// A file that is gone; its objects go too.
    pub fn remove(&mut self, layer: usize, path: &std::path::Path) {
        self.files.remove(&(layer, path.to_owned()));
    }

    /// The paths of a layer.
    pub fn paths(&self) -> impl Iterator<Item = &(usize, PathBuf)> {
        self.files.keys()
    }

    /// One inventory: each object once, of the last layer that has it.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let mut inventory = Inventory::default();
        let mut objects: BTreeMap<&Key, (usize, &Sourced<Object>)> = BTreeMap::new();
        let mut unused = BTreeSet::new();
        for ((layer, _), manifest) in &self.files {
            for problem in &manifest.problems {
                // Once per kind; a chart may have a hundred of them.
                if !problem.message.ends_with(NOT_USED) || unused.insert(&problem.message) {
                    inventory.problems.push(problem.clone());
                }
            }
            for object in &manifest.objects {
                match objects.insert(&object.key, (*layer, object)) {
                    Some((before, earlier)) if before == *layer => {
                        let message = format!("{ALSO_AT}{}; the later one is used", earlier.origin);
                        inventory.problems.push(object.problem("metadata.name", message));
                    }
                    _ => {}
                }
            }
        }
        for (_, object) in objects.into_values() {
            inventory.add(object.clone());
        }
        inventory.problems.truncate(PROBLEMS_MAX);
        inventory
    }
}
