//! Waiting: always for something with a name, always with a limit.

use std::time::{Duration, Instant};

/// How long a test waits for something that ordinarily takes milliseconds.
pub const LIMIT: Duration = Duration::from_secs(10);

/// How often the state of a foreign program is looked at where it offers no event to wait for.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Looks until `probe` returns a value.
///
/// # Panics
/// When the limit passes; the message says what was awaited and for how long.
#[track_caller]
pub fn until<T>(awaited: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain for: {awaited}");
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// As [`until`], for code that runs on a reactor.
///
/// # Errors
/// What was awaited, when the limit passed.
pub async fn within<F: Future>(
    awaited: &str,
    limit: Duration,
    future: F,
) -> anyhow::Result<F::Output> {
    tokio::time::timeout(limit, future)
        .await
        .map_err(|_| anyhow::anyhow!("waited {limit:?} in vain for: {awaited}"))
}
