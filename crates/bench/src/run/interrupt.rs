//! Ctrl-C: noted once, asked for often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants it to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        Ok(Self(leno_load::interrupt::watch()?))
    }

    /// Whether it was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
