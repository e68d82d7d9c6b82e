//! State directories of beds: short names in one place, and nothing left in it, not even by a run that was killed.

use anyhow::{Context, Result};
use leno_up::request::{Request, ask};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Named by the process that made them. Short: the path of a Unix socket has 107 bytes.
const STATES: &str = "/run/leno-bench";

/// Removes a state directory that no bed has taken over.
pub(super) struct Unstarted(pub(super) Option<PathBuf>);

impl Unstarted {
    /// It is somebody's now.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            remove(state);
        }
    }
}

pub(super) fn remove(state: &Path) {
    let _ = std::fs::remove_dir_all(state);
    // Only when no other is left in it.
    let _ = std::fs::remove_dir(STATES);
}

pub(super) fn new() -> Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let state = Path::new(STATES).join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir_all(&state)
        .with_context(|| format!("{}: `leno bench run` needs root", state.display()))?;
    // Proxies run as a user of their own and read their files below.
    for directory in [Path::new(STATES), &state] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(state)
}

/// Ends beds of processes that were killed.
pub(super) fn end_abandoned() {
    for entry in std::fs::read_dir(STATES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.split('-').next().unwrap_or_default();
        if !owner.is_empty() && !Path::new("/proc").join(owner).exists() {
            // Nothing up: it ended by itself and left only its files.
            let _ = ask(&entry.path().join("up"), &Request::Down);
            remove(&entry.path());
        }
    }
}
