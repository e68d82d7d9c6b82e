//! Watches the manifests: an edit is read once its writer has been quiet for a moment.

use crate::manifest::{self, Loaded};
use leno_runtime::tasks;
use notify::{RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// An editor writes in several steps.
const QUIET: Duration = Duration::from_millis(50);

/// Sends what was read after each edit, until the returned task is dropped.
pub(super) fn watch(sources: &[PathBuf], edits: mpsc::Sender<Loaded>) -> Option<tasks::Owned> {
    let (noticed, mut notices) = mpsc::channel::<()>(1);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let read_only = event.is_ok_and(|event| event.kind.is_access());
        if !read_only {
            // One that waits already says the same.
            let _ = noticed.try_send(());
        }
    });
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!("cannot watch manifests, so edits will not be applied: {error}");
            return None;
        }
    };
    for source in sources {
        // A file is watched through its directory: editors replace it.
        let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty());
        let place = if source.is_dir() { source } else { parent.unwrap_or(Path::new(".")) };
        if let Err(error) = watcher.watch(place, RecursiveMode::NonRecursive) {
            tracing::warn!(
                "cannot watch {}, so edits will not be applied: {error}",
                source.display()
            );
        }
    }
    let sources = sources.to_vec();
    Some(tasks::spawn_owned("manifests", async move {
        let _watcher = watcher;
        let mut before = manifest::read(&sources);
        while notices.recv().await.is_some() {
            while tokio::time::timeout(QUIET, notices.recv()).await.is_ok_and(|more| more.is_some())
            {
            }
            let loaded = manifest::read(&sources);
            // Routes are not in our objects, and an edit of a route counts too.
            let same = loaded.texts == before.texts && loaded.problems == before.problems;
            before = loaded.clone();
            if !same && edits.send(loaded).await.is_err() {
                return;
            }
        }
    }))
}
