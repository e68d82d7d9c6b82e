//! Directories of manifests, watched: an edit is live as soon as the kernel reports it, and within the poll interval otherwise.

use super::layers::Layers;
use super::{Inventory, Problem, parse};
use crate::limit::{FILE_EVENTS_GATHERED, FILE_EVENTS_MAX, FILE_POLL_INTERVAL, FILES_MAX};
use k8s_openapi::jiff::Timestamp;
use leno_runtime::regular_file;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Shows that a file may have changed: modification time, length, inode.
type Stamp = (i64, i64, u64, u64);

/// The files of all layers, read again only where something changed.
#[derive(Debug, Default)]
pub struct Reader {
    roots: Vec<PathBuf>,
    /// What problems call each root, where it is a copy of what an operator wrote.
    shown_as: Vec<PathBuf>,
    stamps: BTreeMap<(usize, PathBuf), Stamp>,
    layers: Layers,
    folders: BTreeSet<(PathBuf, u64)>,
    root_problems: Vec<Problem>,
}

impl Reader {
    /// Later roots are later layers. A root is a directory, or one file.
    #[must_use]
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, ..Self::default() }
    }

    /// Problems name these paths in the place of the roots, in the same order.
    #[must_use]
    pub fn shown_as(self, shown_as: Vec<PathBuf>) -> Self {
        Self { shown_as, ..self }
    }

    /// Looks at everything; files whose stamp is unchanged are read only when they are `touched`.
    pub fn read(&mut self, touched: &BTreeSet<PathBuf>) -> Inventory {
        let mut found = BTreeMap::new();
        self.folders.clear();
        self.root_problems.clear();
        for (layer, root) in self.roots.clone().into_iter().enumerate() {
            self.walk(layer, &root, 0, &mut found);
        }
        let gone: Vec<_> =
            self.layers.paths().filter(|at| !found.contains_key(*at)).cloned().collect();
        for at in gone {
            self.stamps.remove(&at);
            self.layers.remove(at.0, &at.1);
        }
        for (at, stamp) in found {
            if self.stamps.get(&at) != Some(&stamp) || touched.contains(&at.1) {
                self.read_file(at, stamp);
            }
        }
        let mut inventory = self.layers.inventory();
        inventory.problems.splice(0..0, self.root_problems.iter().cloned());
        inventory
    }

    /// The folders seen by the last [`Self::read`], with their inodes: what must be watched.
    #[must_use]
    pub fn folders(&self) -> &BTreeSet<(PathBuf, u64)> {
        &self.folders
    }

    fn walk(
        &mut self,
        layer: usize,
        path: &Path,
        depth: usize,
        found: &mut BTreeMap<(usize, PathBuf), Stamp>,
    ) {
        // Follows links: a mounted ConfigMap is made of them.
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if depth > 0 && error.kind() == ErrorKind::NotFound && !is_link(path) => {
                return;
            }
            Err(_) if depth > 0 && !is_manifest(path) => return,
            Err(error) => return self.refuse(layer, path, &error.to_string()),
        };
        if !metadata.is_dir() {
            if depth == 0 || is_manifest(path) {
                found.insert((layer, path.to_owned()), stamp(&metadata));
            }
            return;
        }
        // Not recursive, as `kubectl apply -f` and `leno up -f` are not: what is deeper is named by itself.
        if depth > 0 {
            return;
        }
        self.folders.insert((path.to_owned(), metadata.ino()));
        if found.len() >= FILES_MAX {
            return self.refuse(layer, path, "too many files");
        }
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.refuse(layer, path, &error.to_string()),
        };
        for entry in entries.flatten() {
            // Editors' swap files, and the `..data` folder behind the links of a mounted ConfigMap.
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                self.walk(layer, &entry.path(), depth + 1, found);
            }
        }
    }

    fn refuse(&mut self, layer: usize, path: &Path, why: &str) {
        let problem = unreadable(&self.shown(layer, path), why);
        self.root_problems.push(problem);
    }

    /// The path that problems name.
    fn shown(&self, layer: usize, path: &Path) -> PathBuf {
        let place = self.roots.get(layer).zip(self.shown_as.get(layer));
        let below = place.and_then(|(root, shown)| Some((path.strip_prefix(root).ok()?, shown)));
        match below {
            Some((rest, shown)) if rest.as_os_str().is_empty() => shown.clone(),
            Some((rest, shown)) => shown.join(rest),
            None => path.to_owned(),
        }
    }

    fn read_file(&mut self, at: (usize, PathBuf), stamp: Stamp) {
        let (layer, path) = at.clone();
        match regular_file::read(&path) {
            Ok(text) => {
                let mut manifest = parse::parse(&Arc::from(self.shown(layer, &path)), &text);
                manifest.written_at(Timestamp::from_second(stamp.0).unwrap_or_default());
                self.layers.put(layer, path, manifest);
            }
            // Replaced or removed since we looked; the next look shows which.
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                let problem = unreadable(&self.shown(layer, &path), &error.to_string());
                self.layers.unreadable(layer, path, problem);
            }
        }
        self.stamps.insert(at, stamp);
    }
}

fn unreadable(path: &Path, why: &str) -> Problem {
    Problem {
        object: "source".to_owned(),
        origin: path.display().to_string(),
        field: String::new(),
        message: format!("cannot be read: {why}"),
        elsewhere: false,
        is_note: false,
    }
}

/// Whether something is there that leads nowhere; what is simply gone was removed since the directory was read.
fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino())
}

/// Which files the kernel says have changed.
enum Event {
    Touched(Vec<PathBuf>),
    /// More than we could queue, or the kernel lost some.
    Unknown,
}

/// Watches until nobody listens. The first inventory is sent at once.
///
/// # Errors
/// The kernel refuses a watcher (`fs.inotify.max_user_instances`).
pub async fn run(mut reader: Reader, out: watch::Sender<Arc<Inventory>>) -> notify::Result<()> {
    let (report, mut events) = mpsc::channel(FILE_EVENTS_MAX);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let event = match event {
            Ok(event) if event.kind.is_access() => return,
            Ok(event) if !event.need_rescan() => Event::Touched(event.paths),
            _ => Event::Unknown,
        };
        // A full queue already means that everything is looked at.
        let _ = report.try_send(event);
    })?;
    let mut watched = BTreeSet::new();
    let mut touched = BTreeSet::new();
    let mut first = true;
    loop {
        // Watched before it is read, so that no edit falls between.
        let mut inventory = reader.read(&touched);
        while watch_folders(&mut watcher, &mut watched, reader.folders()) {
            inventory = reader.read(&touched);
        }
        publish(&out, inventory, first);
        first = false;
        touched.clear();
        tokio::select! {
            event = events.recv() => if let Some(Event::Touched(paths)) = event {
                touched.extend(paths);
            },
            () = sleep(FILE_POLL_INTERVAL) => {}
            () = out.closed() => return Ok(()),
        }
        let gather = async {
            while let Some(event) = events.recv().await {
                if let Event::Touched(paths) = event {
                    touched.extend(paths);
                }
            }
        };
        let _ = timeout(FILE_EVENTS_GATHERED, gather).await;
    }
}

/// Watches new folders and drops removed ones; returns whether any is new.
fn watch_folders(
    watcher: &mut RecommendedWatcher,
    watched: &mut BTreeSet<(PathBuf, u64)>,
    folders: &BTreeSet<(PathBuf, u64)>,
) -> bool {
    let gone: Vec<_> = watched.difference(folders).cloned().collect();
    for folder in gone {
        // The kernel forgot a removed folder by itself; then there is nothing to forget.
        let _ = watcher.unwatch(&folder.0);
        watched.remove(&folder);
    }
    let new: Vec<_> = folders.difference(watched).cloned().collect();
    for folder in &new {
        if let Err(error) = watcher.watch(&folder.0, RecursiveMode::NonRecursive) {
            warn!(folder = %folder.0.display(), %error, "cannot watch the directory; it is read again every {FILE_POLL_INTERVAL:?}");
        }
        watched.insert(folder.clone());
    }
    !new.is_empty()
}

/// Sends what differs, and says each new problem once. The first is sent even if it is empty: then that is known.
fn publish(out: &watch::Sender<Arc<Inventory>>, inventory: Inventory, first: bool) {
    out.send_if_modified(|last| {
        if **last == inventory && !first {
            return false;
        }
        for problem in inventory.problems.iter().filter(|p| !last.problems.contains(p)) {
            warn!("{problem}");
        }
        if inventory.problems.is_empty() && !last.problems.is_empty() {
            info!("all manifests are valid again");
        }
        *last = Arc::new(inventory);
        true
    });
}

#[cfg(test)]
mod tests;
