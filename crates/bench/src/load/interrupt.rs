//! SIGINT and SIGTERM as a flag that an observer can look at: a load that is ended early still has its figures.

use anyhow::Context as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Becomes true on the first signal. The process is then no longer ended by it.
///
/// # Errors
/// The machine has no room for a thread.
pub fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("a reactor")?;
    let named = std::thread::Builder::new().name("signals".into());
    named
        .spawn(move || {
            runtime.block_on(leno_runtime::signal::terminate());
            set.store(true, Ordering::Relaxed);
        })
        .context("a thread")?;
    Ok(flag)
}
