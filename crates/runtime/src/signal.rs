//! SIGTERM and SIGINT as one future.

use tokio::signal::unix::{SignalKind, signal};

/// Ready on the next SIGINT: a person who has asked to end, and asks again. SIGTERM may come twice without meaning more by it.
///
/// # Panics
/// As [`terminate`].
pub async fn interrupt() {
    let install = signal(SignalKind::interrupt());
    install.expect("SIGINT may be handled by every process").recv().await;
}

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
