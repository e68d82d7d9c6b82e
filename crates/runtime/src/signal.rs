//! SIGTERM and SIGINT as one future.

use tokio::signal::unix::{SignalKind, signal};

/// Ready on the first SIGTERM or SIGINT; answers its name.
///
/// # Panics
/// When the process cannot install a signal handler, which the kernel refuses only for signals that are not ours to take.
pub async fn terminate() -> &'static str {
    let install = |kind| signal(kind).expect("SIGTERM and SIGINT may be handled by every process");
    let mut term = install(SignalKind::terminate());
    let mut interrupt = install(SignalKind::interrupt());
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
