//! The only place that spawns: a task has a name, and a panic in it is reported, not swallowed.

use std::future::Future;
use tokio::task::JoinHandle;

/// Aborts the task when dropped: the owner's end is the task's end.
#[derive(Debug)]
pub struct Owned(JoinHandle<()>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reports when the future was dropped by a panic.
struct PanicReport(&'static str);

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(task = self.0, "task panicked");
        }
    }
}

/// Spawns on the current runtime.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(async move {
        let _report = PanicReport(name);
        future.await
    })
}

/// Spawns on the current thread's `LocalSet`; for the data path, where nothing is `Send`.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn spawn_local<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(async move {
        let _report = PanicReport(name);
        future.await
    })
}

/// Spawns a task that ends when the returned value is dropped.
#[must_use = "the task ends when this is dropped"]
pub fn spawn_owned<F>(name: &'static str, future: F) -> Owned
where
    F: Future<Output = ()> + Send + 'static,
{
    Owned(spawn(name, future))
}
