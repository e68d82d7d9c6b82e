//! SIGINT and SIGTERM as a flag that an observer can look at: a load that is ended early still has its figures.

use anyhow::Context as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell says of a program that Ctrl-C has ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Becomes true on the first signal. The process is then no longer ended by it.
///
/// # Errors
/// The machine has no room for a thread.
pub fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    watched(false)
}

/// The same, and the second signal ends the process at once: for one that leaves nothing behind.
///
/// # Errors
/// As [`watch`].
pub fn watch_or_end() -> anyhow::Result<Arc<AtomicBool>> {
    watched(true)
}

fn watched(ends: bool) -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("a reactor")?;
    let named = std::thread::Builder::new().name("signals".into());
    named
        .spawn(move || {
            runtime.block_on(leno_runtime::signal::terminate());
            set.store(true, Ordering::Relaxed);
            if ends {
                runtime.block_on(leno_runtime::signal::terminate());
                std::process::exit(EXIT_INTERRUPTED);
            }
        })
        .context("a thread")?;
    Ok(flag)
}
