//! SIGINT and SIGTERM as a flag that an observer can look at: a load that is ended early still has its figures.

use anyhow::Context as _;
use leno_runtime::signal::terminate;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::task::Poll;

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
    let (tell, listens) = sync_channel(1);
    let named = std::thread::Builder::new().name("signals".into());
    named
        .spawn(move || {
            runtime.block_on(async {
                let mut asked = pin!(terminate());
                // Polled once, it listens: no signal from then on ends the process.
                let now = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_ready()));
                let is_asked = now.await;
                let _told = tell.send(());
                if !is_asked {
                    asked.await;
                }
            });
            set.store(true, Ordering::Relaxed);
            if ends {
                runtime.block_on(terminate());
                std::process::exit(EXIT_INTERRUPTED);
            }
        })
        .context("a thread")?;
    listens.recv().context("could not install the signal handler")?;
    Ok(flag)
}
